/*
 * What a device must provide: memory, a little dense linear algebra, and the kernel oracle. Every
 * solver speaks to the hardware through this table alone, so every solver runs on every backend.
 * The CPU's float64 path is the reference; the conformance tests hold every backend to it.
 *
 * All matrices of one call live in the same backend. Functions return 0 or a negative -ERR_*.
 * Calls are made from one thread; a backend may use several threads or a device inside, but what
 * the kernel oracle and the column operations give must not depend on how many. Dense algebra comes
 * from vendors' libraries, whose last bits may.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/grid.h"
#include "engine/kernel.h"
#include "engine/mat.h"

struct backend;

/* Points of a data set, prepared for one kernel (scaled, packed) in the backend's memory. The
 * kernel's bandwidths are folded in: the kernel itself need not outlive points_new. */
struct points;

/* Which points: first .. first+count-1, or, when index is not NULL, index[0 .. count-1] (host). */
struct view {
    const struct points *points;
    int64_t first;
    int64_t count;
    const int64_t *index;
};

/* Phi, rows x columns. Columns come in blocks of z = `block`, a power of two, and the first one is
 * number `lead` of its block. The rows of a block are mixed by a Hadamard matrix, which takes log2
 * z additions, and each of the results is added to c = `copies` rows of Phi K. So a block has z c
 * numbers, SIGN_NUMBERS_MAX at most, and column i of block b has, with number k = h c + e,
 *
 *     scale sign[b z c + k] flip[b z + i] (-1)^(bits that i and h share)  in row index[b z c + k],
 *
 * or nowhere, where that is -1; numbers in one place add up, signs are 1 and -1. On the host, as
 * whole blocks. */
struct sign_sketch {
    int64_t rows;
    int block, copies, lead;
    const int64_t *index;
    const signed char *sign, *flip;
    double scale;
};
enum { SIGN_NUMBERS_MAX = 64 };
static inline int sign_sketch_numbers(const struct sign_sketch *phi)
{
    return phi->block * phi->copies;
}
/* The shape makes sense, and the indices of so many columns are rows or -1. */
bool sign_sketch_valid(const struct sign_sketch *phi, int64_t columns);
/* The columns from `first` on. */
struct sign_sketch sign_sketch_part(const struct sign_sketch *phi, int64_t first);
/* Number k of a column: its row or -1, and whether it is negative. */
struct sign_entry {
    int64_t row;
    bool negative;
};
struct sign_entry sign_sketch_entry(const struct sign_sketch *phi, int64_t column, int k);

enum { POINTS_GRID_SETS = 3 }; /* that may share a grid */

struct backend_ops {
    const char *name; /* "cpu", "cuda" */
    void (*close)(struct backend *be);

    /* Memory. mat_new zeroes; its ret has ld = max(rows, 1). mat_free accepts a zeroed struct. */
    int (*mat_new)(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                   struct mat *ret, struct err *err);
    void (*mat_free)(struct backend *be, struct mat *m);
    /* Host (column-major float64, leading dimension ld) to matrix and back, converting. */
    int (*mat_put)(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                   struct err *err);
    int (*mat_get)(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                   struct err *err);
    int (*copy)(struct backend *be, const struct mat *src, const struct mat *dst,
                struct err *err); /* same shape, converts the type */

    /* Column operations; coefficient arrays are on the host, one entry a column, and sums are
     * accumulated in float64 in a fixed order. */
    int (*col_dots)(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                    struct err *err);
    /* Y(:,j) <- a[j] X(:,j) + b[j] Y(:,j); b[j] = 0 ignores what Y held; (a,b) = (0,1) skips. */
    int (*col_axpby)(struct backend *be, const double *a, const struct mat *X, const double *b,
                     const struct mat *Y, struct err *err);
    /* B(i,:) <- A(index[i],:), index on the host. */
    int (*gather_rows)(struct backend *be, const struct mat *A, const int64_t *index,
                       const struct mat *B, struct err *err);
    /* B(index[i],j) <- B(index[i],j) + a[j] A(i,j); the indices differ from each other. */
    int (*add_rows)(struct backend *be, const double *a, const struct mat *A, const int64_t *index,
                    const struct mat *B, struct err *err);
    /* d(i) <- max(d(i) - sum_j F(i,j)^2, 0), d is n x 1. */
    int (*deflate_diag)(struct backend *be, const struct mat *F, const struct mat *d,
                        struct err *err);
    int (*add_diag)(struct backend *be, double value, const struct mat *A, struct err *err);
    /* A(i,:) <- factors[i] A(i,:), factors on the host. */
    int (*scale_rows)(struct backend *be, const double *factors, const struct mat *A,
                      struct err *err);
    /* 0 above the diagonal, of a square A. */
    int (*clear_upper)(struct backend *be, const struct mat *A, struct err *err);

    /* Dense algebra. gemm: C <- a op(A) op(B) + b C. syrk: lower triangle of C <- a op(A) op(A)' +
     * b C, op(A) = A or A'. trsm: B <- op(L)^-1 B (left) or B op(L)^-1 (right), L lower.
     * potrf: A's lower triangle <- its Cholesky factor; -ERR_NOT_POSITIVE_DEFINITE when a pivot is
     * not above `min_pivot` (the squared diagonal of L), with *ret_column (0-based or NULL).
     * eigh: A, of which the lower triangle is read, <- its orthonormal eigenvectors, one a column;
     * ret_values[n] (host), ascending. The vectors' signs are the library's. */
    int (*gemm)(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
                const struct mat *B, double b, const struct mat *C, struct err *err);
    int (*syrk)(struct backend *be, bool ta, double a, const struct mat *A, double b,
                const struct mat *C, struct err *err);
    int (*trsm)(struct backend *be, bool right, bool tl, const struct mat *L, const struct mat *B,
                struct err *err);
    int (*potrf)(struct backend *be, const struct mat *A, double min_pivot, int64_t *ret_column,
                 struct err *err);
    int (*eigh)(struct backend *be, const struct mat *A, double *ret_values, struct err *err);

    /* The kernel oracle. `dtype` of the points is the precision kernel values are computed in;
     * vectors and blocks may have another one (points float32, vectors float64 = "mixed"). */
    int (*points_new)(struct backend *be, const struct kernel *k, enum dtype dtype,
                      const struct rows *X, struct points **ret, struct err *err);
    void (*points_free)(struct backend *be, struct points *p);
    /* Y <- a K(P,Q) V + b Y.  V is q x t, Y is p x t, t >= 1. K is never stored as a whole. P and Q
     * hold points of the same kernel and d, of one or of two `struct points`. A row of Y has the
     * same bits however many rows P has, but for one case: when P and Q are the same view of the
     * same points, a backend may use each kernel value for both sides, in an order that depends on
     * the shape alone. b = 0 ignores what Y held. May ask be->stop, as kmtkv may. */
    int (*kmv)(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
               double b, const struct mat *Y, struct err *err);
    /* (optional) Of Y <- K(P,P) V the share `part` of `parts`, added to Y where `add` says so: all
     * shares have about the same work and add up to the product, of which each value is evaluated
     * once for both sides. Shares r k .. r k + k - 1 of r `parts` are share r of `parts`. For
     * several devices (backend_group.h); bits depend on the shape and on `parts`. */
    int (*kmv_share)(struct backend *be, struct view P, int part, int parts, const struct mat *V,
                     bool add, const struct mat *Y, struct err *err);
    /* K <- K(P,Q), p x q. */
    int (*kblock)(struct backend *be, struct view P, struct view Q, const struct mat *K,
                  struct err *err);
    /* d(i) <- k(p_i, p_i), d is p x 1. */
    int (*kdiag)(struct backend *be, struct view P, const struct mat *d, struct err *err);

    /* (optional) Products that evaluate each value of K = K(P,Q) once (products.h, which has them
     * for every backend). kmtkv: Y <- K' U, added to Y where `add` says so, U = diag(weights)
     * (K V - T); V and Y are q x t, T p x t or NULL, weights [p] on the host or NULL, U p x t, or
     * NULL where nobody wants it, or T. ksketch: S <- Phi K, rows x q, likewise. Their bits depend
     * on the shape alone. */
    int (*kmtkv)(struct backend *be, struct view P, struct view Q, const double *weights,
                 const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                 const struct mat *Y, struct err *err);
    int (*ksketch)(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                   bool add, const struct mat *S, struct err *err);
    /* (optional) Keeps kernel values of all the points with each other, up to `bytes`, and uses
     * them from then on when P and Q of kmv are all the points. No bit of a product changes, but
     * for KERNEL_STORE_HALF, which is for kernels of a distance only (-ERR_UNSUPPORTED). When part
     * of the values fits, that part is kept; when nothing does, or there is no memory, nothing.
     * Replaces what was kept before; freed with the points. Takes about the time of a product.
     * *ret_bytes is what is kept. be->stop is asked now and then; what was kept so far is then
     * dropped. NULL: this backend computes always. */
    int (*points_cache)(struct backend *be, struct points *p, int64_t bytes,
                        enum kernel_storage storage, int64_t *ret_bytes, struct err *err);
    /* (optional, with kmv_share) Keeps of them what kmv_share uses for this share. Other products
     * of all the points use what they find. */
    int (*points_cache_share)(struct backend *be, struct points *p, int part, int parts,
                              int64_t bytes, enum kernel_storage storage, int64_t *ret_bytes,
                              struct err *err);
    /* (optional) Where the points of `count` sets, of one kernel, lie together on one grid on
     * which that pays, and what it takes has room in `bytes`: kmv of all points of one of them
     * with all of one of them goes by the grid from then on. Its errors are those of float64, of
     * the size of the largest |K| |V| of a row, and its bits depend on the shapes alone. Points of
     * few features that lie anywhere may go by places around them (grid.scattered), those of one
     * type with those of the same; then errors are up to 1e-12 of that size, and for float32 points
     * 1e-9 and the roundings of kernel values between points that are near.
     * *ret is the grid, with dims = 0 where nothing changes. Replaces what was found before, of all
     * sets; freed with the points. */
    int (*points_grid)(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                       struct grid *ret, struct err *err);
    /* (optional) Makes products of few rows with all the points faster, by holding the points once
     * more in an order of its own, as far as there are points enough for that to pay. No bit of a
     * product changes, unless some points lie far from the others, whose products may then come
     * another way, as exact. *ret_bytes is what they take; freed with the points. */
    int (*points_lanes)(struct backend *be, struct points *p, int64_t *ret_bytes, struct err *err);
    /* (optional) Bytes that mat_new could still give; NULL: not known. */
    int64_t (*memory_available)(struct backend *be);
};

/* Backends embed this as their first member. */
struct backend {
    const struct backend_ops *ops;
    int threads;          /* CPU threads in use */
    const char *isa;      /* instruction set of the kernel loops, static; NULL: no CPU's */
    int64_t memory_limit; /* resident bytes of the process on the host; 0: none but the host's */
    int64_t bytes, peak_bytes; /* matrices and points alive, and their high-water mark */
    /* A sentence about what the device should have and this backend does without, for each job's
     * messages; "": nothing. */
    char notice[240];
    int64_t kernel_entries; /* kernel values used so far, for rates; shared ones count twice */
    /* Of the device, as its backend numbers them: how a product is cut may depend on it. `alike`:
     * all devices that share products with this one (kmv_share) have the same. */
    int arithmetic;
    bool alike;
    /* Those of the call that asks `stop`, so far: not among the others yet. 0 of a backend that
     * does not count them within its calls. */
    int64_t under_way;
    /* Asked now and then, on the caller's thread, by calls that may be long and say so: < 0 is what
     * they return, and what they were to write is then of no use. NULL: never asked. */
    int (*stop)(void *context, struct err *err);
    void *stop_context;
};

/* Whether a product of so many rows with so many members asks be->stop: one of 2^26 kernel values
 * takes hundredths of a second on a processor. */
static inline bool backend_asks(const struct backend *be, int64_t rows, int64_t members)
{
    return be->stop != NULL && rows > (INT64_C(1) << 26) / (members + 1);
}

static inline struct view view_all(const struct points *p, int64_t n)
{
    return (struct view){.points = p, .first = 0, .count = n, .index = NULL};
}

static inline struct view view_range(const struct points *p, int64_t first, int64_t count)
{
    return (struct view){.points = p, .first = first, .count = count, .index = NULL};
}

static inline struct view view_index(const struct points *p, const int64_t *index, int64_t count)
{
    return (struct view){.points = p, .first = 0, .count = count, .index = index};
}

/* Whether all its members are among the n points. */
static inline bool view_within(const struct view *v, int64_t n)
{
    if (v->index == NULL) {
        return v->count >= 0 && v->first >= 0 && v->first <= n - v->count;
    }
    bool valid = v->count >= 0;
    for (int64_t i = 0; i < v->count; i++) {
        valid = valid && v->index[i] >= 0 && v->index[i] < n;
    }
    return valid;
}

/* The same members of the same points, told by where the lists are, not by what is in them. */
static inline bool view_same(const struct view *P, const struct view *Q)
{
    return P->points == Q->points && P->count == Q->count && P->index == Q->index &&
           (P->index != NULL || P->first == Q->first);
}

/* How a program names the backends it was linked with: it hands a NULL-terminated list of these to
 * backend_open, best first ("auto" takes the first that opens). */
struct backend_provider {
    const char *name; /* "cpu", "cuda" */
    /* `ordinal` counts devices of this kind from 0; threads = 0 takes what the machine grants this
     * process. */
    int (*open)(int ordinal, int threads, struct backend **ret, struct err *err);
    /* Bit N of *ret: the device "name:N" can be opened, of the first 64; none is an error that says
     * what is missing. NULL: there is one device, and it is always there. */
    int (*find)(uint64_t *ret, struct err *err);
};
extern const struct backend_provider backend_cpu_provider;

/* The CPU with the kernel loops of one instruction set: "avx512", "avx512_intel", "avx2",
 * "portable". NULL takes the best, as the provider does; what this processor or this build lacks is
 * -ERR_UNSUPPORTED. For measurements and tests. */
int backend_cpu_open(const char *isa, int threads, struct backend **ret, struct err *err);

/* First of all in main(): begins the program again where its library of dense algebra has taken
 * this processor for one much older, with the environment variable that says which it is. */
void backend_cpu_settle(char **argv);
/* The processor whose instructions that library uses, as it calls it: "SkylakeX". */
const char *backend_cpu_blas_core(void);

/* By device name: "cpu", "auto", "cuda", "cuda:1", or several as one (backend_group.h):
 * "cuda:0,1". What this program was not linked with, or what
 * the machine lacks, is -ERR_UNSUPPORTED at "#/device" and says what is missing. */
int backend_open(const struct backend_provider *const *providers, const char *device, int threads,
                 struct backend **ret, struct err *err);
struct backend *backend_close(struct backend *be); /* NULL is fine */
