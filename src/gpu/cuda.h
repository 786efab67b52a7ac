/*
 * Inside the CUDA backend: what its C files share.
 *
 *   backend_cuda.c    open, close, the ops table
 *   cuda_device.c     the CUDA runtime: probe, memory, errors
 *   cuda_copies.c     copies between the host and the device
 *   cuda_mat.c        matrices and column operations
 *   cuda_points.c     points prepared for a kernel
 *   cuda_trial.c      whether products by tensor cores are right
 *   cuda_views.c      members of views in panels
 *   cuda_oracle.c     kmv, kblock, kdiag: cutting work into launches
 *   cuda_both.c       kmv of points with themselves
 *   cuda_cache.c      kernel values kept for it
 *   cuda_normal.c     kmtkv
 *   cuda_sketch.c     ksketch
 *   cuda_dense.c      dense algebra by cuBLAS and cuSOLVER
 *   dense_library.c   finding those two at run time
 *   launch.h, *.cu    the kernels; start.cuh: how they are started
 *
 * All work of a backend goes to one stream, in the order of the calls. An operation returns when
 * its work is in the stream; those that give numbers to the host wait for them. A failure on the
 * device may therefore be reported by a later call. Matrices and points are plain device memory,
 * never managed memory.
 */
#pragma once

#include <stddef.h>

#include "engine/backend.h"
#include "gpu/dense_library.h"
#include "gpu/launch.h"

/* Device memory that grows when more is asked for and is kept until the backend closes. What it
 * holds is dead after the operation that wrote it. */
struct cuda_buffer {
    void *data;
    size_t bytes;
};

/* Memory of the host that the device reads and writes itself; made when it is first needed. */
#define CUDA_PINNED 4
struct cuda_pinned {
    void *data[CUDA_PINNED];
    void *events[CUDA_PINNED]; /* cudaEvent_t: when the device is done with it */
    int next;
    bool refused;
};

struct cuda_backend {
    struct backend base; /* first */
    int ordinal;
    bool tensor;                /* it has tensor cores that launch_kernel.tensor can ask for */
    bool tensor_f64;            /* and theirs are no slower in float64 than lanes are */
    bool group;                 /* launch_kernel.group likewise */
    void *stream;               /* cudaStream_t */
    struct dense_library dense; /* cuBLAS and cuSOLVER on that stream */
    struct cuda_pinned pinned;
    struct cuda_buffer work;      /* partial sums, workspaces */
    struct cuda_buffer stage;     /* host numbers on their way to another type */
    struct cuda_buffer lists[2];  /* index lists of P and Q */
    struct cuda_buffer panels[2]; /* their members, where those do not lie in panels */
    struct cuda_buffer parts[2];  /* and the parts of these */
};

/* In panels (launch.h), scaled so that the kernel needs no bandwidth, and centered. */
struct points {
    enum kernel_id id;
    struct launch_kernel kernel;
    enum dtype dtype;
    int64_t n, d, ld;
    void *data;
    void *parts; /* as launch_parts makes them, where kernel.group */
    struct launch_kept kept;
};

/* How many rows the panels of so many have. */
static inline int64_t cuda__padded(int64_t rows)
{
    return (rows + LAUNCH_TILE - 1) / LAUNCH_TILE * LAUNCH_TILE;
}

/* The bytes of the panels of so many rows, and of what must be behind them. */
static inline size_t cuda__panel_bytes(int64_t rows, int64_t ld, enum dtype dtype)
{
    return (size_t)(cuda__padded(rows) * ld + LAUNCH_BEHIND * LAUNCH_PANEL) * dtype_size(dtype);
}

static inline struct cuda_backend *cuda_of(struct backend *be)
{
    return (struct cuda_backend *)be;
}

/* ---- cuda_device.c ---- */

/* Most bytes of host data converted at a time. */
#define CUDA_STAGE_BYTES ((size_t)32 << 20)
/* Most bytes of a buffer that stay when an operation with a workspace of the library's is done:
 * what the largest product takes. */
#define CUDA_KEPT_BYTES ((size_t)80 << 20)
/* Device memory kept for this backend's own buffers, for cuBLAS and for cuSOLVER. */
#define CUDA_RESERVE_BYTES ((int64_t)256 << 20)

/* Finds the device and makes its stream. -ERR_UNSUPPORTED at "#/device" says what is missing. */
/* As backend_provider.find. */
int cuda__device_find(uint64_t *ret, struct err *err);
int cuda__device_open(struct cuda_backend *cu, int ordinal, struct err *err);
/* Gives back the stream and the buffers; survives a half-opened backend. */
void cuda__device_close(struct cuda_backend *cu);

/* How every operation begins: -ERR_INTERNAL unless shapes and types fit together (a caller's
 * mistake), then makes the device this thread's current one. */
int cuda__begin(struct backend *be, bool fits, const char *what, struct err *err);

/* 0 for cudaSuccess, else the runtime's sentence: -ERR_NO_MEMORY or -ERR_DEVICE. `doing` completes
 * "The GPU could not ...". */
int cuda__status(int status, const char *doing, struct err *err);

/* Uninitialised. release takes NULL. */
int cuda__alloc(size_t bytes, void **ret, struct err *err);
void cuda__release(void *data);
/* At least `bytes` in the buffer; its contents are lost when it grows. */
int cuda__reserve(struct cuda_buffer *buffer, size_t bytes, struct err *err);

/* Gives back a buffer that grew past CUDA_KEPT_BYTES: memory_available counts on it. */
void cuda__trim(struct cuda_buffer *buffer);

/* Until what was put on the stream is done. */
int cuda__wait(struct cuda_backend *cu, struct err *err);

/* Before each launch of a product of so many rows with so many members: whether it is still wanted,
 * which be->stop is asked of long products, once the device is done with the launches before. */
int cuda__ask(struct cuda_backend *cu, int64_t rows, int64_t members, struct err *err);

int cuda__zero(struct cuda_backend *cu, void *data, size_t bytes, struct err *err);

/* ---- cuda_copies.c ---- */

/* Host to device: `from` may be changed after the call. */
int cuda__upload(struct cuda_backend *cu, void *to, const void *from, size_t bytes,
                 struct err *err);
/* Device to host: waits for everything before it. */
int cuda__download(struct cuda_backend *cu, void *to, const void *from, size_t bytes,
                   struct err *err);

void cuda__pinned_release(struct cuda_pinned *p);

/* ---- cuda_device.c ---- */

/* Bytes that an allocation could still get, less the reserve. */
int64_t cuda__memory_available(struct backend *be);

/* What the current device's libraries said when they made no handles, as -ERR_NO_MEMORY where less
 * than the reserve is free. */
int cuda__blame_memory(const struct err *said, struct err *err);

/* Bytes of matrices and points alive, for the backend's high-water mark. */
void cuda__account(struct backend *be, int64_t bytes);

/* ---- the operations of backend.h, by file ---- */

int cuda__mat_new(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols, struct mat *ret,
                  struct err *err);
void cuda__mat_free(struct backend *be, struct mat *m);
int cuda__mat_put(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                  struct err *err);
int cuda__mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                  struct err *err);
int cuda__copy(struct backend *be, const struct mat *src, const struct mat *dst, struct err *err);
int cuda__col_dots(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                   struct err *err);
int cuda__col_axpby(struct backend *be, const double *a, const struct mat *X, const double *b,
                    const struct mat *Y, struct err *err);
int cuda__add_rows(struct backend *be, const double *a, const struct mat *A, const int64_t *index,
                   const struct mat *B, struct err *err);
int cuda__gather_rows(struct backend *be, const struct mat *A, const int64_t *index,
                      const struct mat *B, struct err *err);
int cuda__deflate_diag(struct backend *be, const struct mat *F, const struct mat *d,
                       struct err *err);
int cuda__add_diag(struct backend *be, double value, const struct mat *A, struct err *err);
int cuda__scale_rows(struct backend *be, const double *factors, const struct mat *A,
                     struct err *err);
int cuda__clear_upper(struct backend *be, const struct mat *A, struct err *err);

int cuda__gemm(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
               const struct mat *B, double b, const struct mat *C, struct err *err);
int cuda__syrk(struct backend *be, bool ta, double a, const struct mat *A, double b,
               const struct mat *C, struct err *err);
int cuda__trsm(struct backend *be, bool right, bool tl, const struct mat *L, const struct mat *B,
               struct err *err);
int cuda__eigh(struct backend *be, const struct mat *A, double *ret_values, struct err *err);
int cuda__potrf(struct backend *be, const struct mat *A, double min_pivot, int64_t *ret_column,
                struct err *err);

int cuda__points_new(struct backend *be, const struct kernel *k, enum dtype dtype,
                     const struct rows *X, struct points **ret, struct err *err);
void cuda__points_free(struct backend *be, struct points *p);

/* Makes the parts of so many rows' panels. */
int cuda__make_parts(struct cuda_backend *cu, const struct points *p, int64_t rows,
                     const void *panels, void *to, struct err *err);

/* ---- cuda_trial.c ---- */

/* Leaves of cu->tensor and cu->group what multiplies as lanes do. What the device should have and
 * does without base.notice tells. -ERR_DEVICE: the trial broke it. */
int cuda__try_ways(struct cuda_backend *cu, struct err *err);

/* ---- cuda_views.c ---- */

/* A view in a product: which of its sides, 0 for P, and its index list on the device. */
struct cuda_view {
    struct view view;
    int side;
    const int64_t *index;
};

bool cuda__views_fit(const struct view *P, const struct view *Q);
bool cuda__view_valid(const struct view *v);
/* Brings the index list to the device. */
int cuda__view_open(struct cuda_backend *cu, const struct view *v, int side, struct cuda_view *ret,
                    struct err *err);
/* How many members cuda__view_part is to be asked for at a time, a multiple of LAUNCH_TILE; where
 * they lie in panels, all of them. */
int64_t cuda__view_step(const struct cuda_view *v);
/* The same in whole chunks, at least one, but no more than `most` members or one chunk. */
int64_t cuda__view_wave(const struct cuda_view *v, int64_t chunk, int64_t most);
/* Members first .. first+count-1, first a multiple of LAUNCH_TILE, in panels: the points' own, or
 * copies that hold until the next call for this side. */
int cuda__view_part(struct cuda_backend *cu, const struct cuda_view *v, int64_t first,
                    int64_t count, struct launch_view *ret, struct err *err);
/* What launches are told of points besides their members. */
struct launch_tiles cuda__tiles(const struct points *p);
/* The buffers of a call shrink to what is kept. */
void cuda__views_close(struct cuda_backend *cu);

/* The type that weights have on the device, in a product with these points. */
static inline enum dtype cuda__weight_type(const struct points *p, const struct mat *V)
{
    return p->dtype == DTYPE_F32 && V->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
}

/* ---- cuda_oracle.c ---- */

/* How many of so many members of Q go into one piece of a row's sum. */
int64_t cuda__chunk(int64_t members);

/* ---- cuda_both.c ---- */

/* How n rows are cut for launch_both where values may be kept, and the bytes of the reaches that it
 * needs. */
struct cuda_blocks {
    int64_t n, rows, count, steps;
    size_t reaches;
};
struct cuda_blocks cuda__blocks(const struct points *p, int64_t n);
/* Where the steps of kmv_share's share begin. */
static inline int64_t cuda__share_begin(const struct cuda_blocks *b, int part, int parts)
{
    return b->steps * part / parts;
}
/* Whether Y <- a K(P,P) V + b Y, V with t columns of `weights`, is to be computed by launch_both;
 * it depends on the shape, the kernel and the device's arithmetic alone. */
bool cuda__both_pays(const struct cuda_view *P, enum dtype weights, int64_t t);
int cuda__both(struct cuda_backend *cu, const struct cuda_view *P, double a, const struct mat *V,
               double b, const struct mat *Y, struct err *err);

/* ---- cuda_cache.c ---- */

void cuda__cache_free(struct backend *be, struct points *p);
int cuda__points_cache(struct backend *be, struct points *p, int64_t bytes,
                       enum kernel_storage storage, int64_t *ret_bytes, struct err *err);
int cuda__points_cache_share(struct backend *be, struct points *p, int part, int parts,
                             int64_t bytes, enum kernel_storage storage, int64_t *ret_bytes,
                             struct err *err);

int cuda__kmv_share(struct backend *be, struct view P, int part, int parts, const struct mat *V,
                    bool add, const struct mat *Y, struct err *err);
int cuda__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
              double b, const struct mat *Y, struct err *err);
int cuda__kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                 struct err *err);
int cuda__kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err);
int cuda__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
                const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                const struct mat *Y, struct err *err);
int cuda__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                  bool add, const struct mat *S, struct err *err);
