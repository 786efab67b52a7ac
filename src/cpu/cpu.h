/*
 * Inside the CPU backend: what its files share. Matrices and points lie in ordinary memory.
 *
 *   backend.c      open, close, the ops table
 *   mat.c          memory, conversion, column operations
 *   blas.c         dense algebra by OpenBLAS; blas_core.*: which of its kernels it takes
 *   points.c       points prepared for a kernel; form.*: which form of it
 *   oracle.*       kmv, kblock, kdiag
 *   plain.c        kmv: who computes which tile, in which order sums are added
 *   symmetric.c    kmv of a view with itself: every tile serves both sides
 *   sweep.*        a band of rows against others, for both
 *   far.c          tiles in which some rows are far from the origin
 *   lanes.*        kmv of few rows with all points, spread over the lanes
 *   cache.*        kernel values kept for products of all points with themselves
 *   normal.c       K' diag(w) K V in one pass
 *   sketch.c       Phi K, Phi sparse
 *
 *   tile/          the loops themselves, one build for each instruction set: tile.c and what it
 *                  includes, leaves of instructions (vec_*.inc), which processors take (isa*)
 *
 *   grid/          kmv of few features without kernel values: grid.* of points on a grid,
 *     torus.*      on a regular one by Fourier transforms (fft*),
 *     kronecker.*  on any by a matrix for each feature;
 *     scattered.*  of points anywhere: by windows around the places of a regular one (window.*,
 *                  polynomial.*), of kernels that are split for that (split.*) with the pairs that
 *                  are near (near.*)
 *
 * Threads are OpenMP's, in the tiles; OpenBLAS has its own. They never run at the same time: BLAS
 * is called outside parallel regions only.
 */
#pragma once

#include <stdbool.h>

#include "cpu/tile/tile.h"
#include "engine/backend.h"

struct cpu_backend {
    struct backend base; /* first */
    const struct tile_isa *isa;
};

/* Row-major [n + 1, ld], scaled so that the kernel needs no bandwidth, and centered (kernel.h). For
 * the faster forms of cpu/tile/tile.h each row ends with one feature more (ld = d + 1). The last
 * row is the origin, which takes the place of rows that are not there: their weights are zero, and
 * none of its kernel values is infinite, however large the row that meets it. */
struct points {
    struct tile_kernel kernel;
    struct cache *cache;             /* or NULL */
    struct lanes *lanes;             /* likewise */
    struct lattice *lattice;         /* likewise, shared with other points */
    int64_t *places;                 /* [n] of the lattice, or NULL */
    struct scattered_set *scattered; /* likewise, of points anywhere */
    int64_t lattice_bytes;           /* of these */
    enum dtype dtype;
    int64_t n, d, ld;
    double scale;       /* tile_scale, by which features are multiplied */
    double reach;       /* of the kernel's distance from the origin to a row, at most */
    unsigned char *far; /* [n + 1]: 1 for rows too far from the origin for the faster form that
                           kernel names, and the others of their block of loops->step rows; NULL:
                           there are none, or it names none */
    void *data;
    void *factors; /* T[n] of tile_kernel.by_factor: exp(-|z|^2), 1 for far rows; or NULL */
    char *turned;  /* [n, ld] of tile_turns, numbers of the type's size; or NULL: rows are turned
                      as they are used */
};

static inline const void *points_row(const struct points *p, int64_t i)
{
    return (const char *)p->data + (size_t)(i * p->ld) * dtype_size(p->dtype);
}

/* All of them, with what their rows end with. */
static inline struct rows points_rows(const struct points *p)
{
    return (struct rows){.dtype = p->dtype, .n = p->n, .d = p->ld, .data = p->data};
}

/* Which row of its points the i-th member of a view is. */
static inline int64_t view_row(const struct view *v, int64_t i)
{
    return v->index != NULL ? v->index[i] : v->first + i;
}

static inline const struct tile_isa *cpu_isa(const struct backend *be)
{
    return ((const struct cpu_backend *)be)->isa;
}

static inline const struct tile_loops *cpu_loops(const struct backend *be, enum dtype dtype)
{
    return dtype == DTYPE_F32 ? &cpu_isa(be)->f32 : &cpu_isa(be)->f64;
}

static inline double mat_at(const struct mat *m, int64_t i, int64_t j)
{
    const int64_t k = i + j * m->ld;
    return m->dtype == DTYPE_F32 ? (double)((const float *)m->data)[k]
                                 : ((const double *)m->data)[k];
}

static inline void mat_set(const struct mat *m, int64_t i, int64_t j, double value)
{
    const int64_t k = i + j * m->ld;
    if (m->dtype == DTYPE_F32) {
        ((float *)m->data)[k] = (float)value;
    } else {
        ((double *)m->data)[k] = value;
    }
}

/* -ERR_INTERNAL unless `ok`: shapes and types that do not fit together are a caller's mistake. */
int cpu__expect(bool ok, const char *what, struct err *err);

/* Bytes of matrices and points alive, for the backend's high-water mark. */
void cpu__account(struct backend *be, int64_t bytes);

/* dst[0 .. n-1] <- src[0 .. n-1]. */
void cpu__convert(enum dtype to, void *dst, enum dtype from, const void *src, int64_t n);

/* The operations of backend.h, by file. */
int cpu__mat_new(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols, struct mat *ret,
                 struct err *err);
void cpu__mat_free(struct backend *be, struct mat *m);
int cpu__mat_put(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                 struct err *err);
int cpu__mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                 struct err *err);
int cpu__copy(struct backend *be, const struct mat *src, const struct mat *dst, struct err *err);
int cpu__col_dots(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                  struct err *err);
int cpu__col_axpby(struct backend *be, const double *a, const struct mat *X, const double *b,
                   const struct mat *Y, struct err *err);
int cpu__gather_rows(struct backend *be, const struct mat *A, const int64_t *index,
                     const struct mat *B, struct err *err);
int cpu__add_rows(struct backend *be, const double *a, const struct mat *A, const int64_t *index,
                  const struct mat *B, struct err *err);
int cpu__deflate_diag(struct backend *be, const struct mat *F, const struct mat *d,
                      struct err *err);
int cpu__add_diag(struct backend *be, double value, const struct mat *A, struct err *err);
int cpu__scale_rows(struct backend *be, const double *factors, const struct mat *A,
                    struct err *err);
int cpu__clear_upper(struct backend *be, const struct mat *A, struct err *err);

int cpu__gemm(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
              const struct mat *B, double b, const struct mat *C, struct err *err);
/* C_i <- A_i op(B_i) in float64, i = 0 .. count - 1: A, B and C are the first of each, and
 * next ones so many numbers behind. Unlike those of cpu__gemm its bits depend on the shapes alone,
 * however many threads there are. */
struct gemm_batch {
    int64_t count;
    struct mat A, B, C;
    bool tb;
    int64_t next_A, next_B, next_C;
};
int cpu__gemm_batch(struct backend *be, const struct gemm_batch *b, struct err *err);
int cpu__syrk(struct backend *be, bool ta, double a, const struct mat *A, double b,
              const struct mat *C, struct err *err);
int cpu__trsm(struct backend *be, bool right, bool tl, const struct mat *L, const struct mat *B,
              struct err *err);
int cpu__potrf(struct backend *be, const struct mat *A, double min_pivot, int64_t *ret_column,
               struct err *err);
int cpu__eigh(struct backend *be, const struct mat *A, double *ret_values, struct err *err);

int cpu__points_new(struct backend *be, const struct kernel *k, enum dtype dtype,
                    const struct rows *X, struct points **ret, struct err *err);
void cpu__points_free(struct backend *be, struct points *p);

int cpu__points_cache(struct backend *be, struct points *p, int64_t bytes,
                      enum kernel_storage storage, int64_t *ret_bytes, struct err *err);

int cpu__points_grid(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                     struct grid *ret, struct err *err);

int cpu__points_lanes(struct backend *be, struct points *p, int64_t *ret_bytes, struct err *err);

int cpu__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
             double b, const struct mat *Y, struct err *err);
int cpu__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
               const struct mat *V, const struct mat *T, const struct mat *U, bool add,
               const struct mat *Y, struct err *err);
int cpu__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                 bool add, const struct mat *S, struct err *err);
int cpu__kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                struct err *err);
int cpu__kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err);
