#include "engine/methods/spectrum.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

/* y = a normal vector, *ret its norm squared. */
static int draw(struct backend *be, uint64_t seed, const struct mat *y, double *ret,
                struct err *err)
{
    struct rng rng = rng_new(seed, RNG_POWER);
    cleanup_mem double *numbers = mem_array((size_t)y->rows, sizeof(double));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    *ret = 0;
    for (int64_t i = 0; i < y->rows; i++) {
        numbers[i] = rng_normal(&rng);
        *ret += numbers[i] * numbers[i];
    }
    return be->ops->mat_put(be, numbers, y->rows, y, err);
}

/* x = y / |y|, y = A x, *ret = x'y, again and again. */
static int iterate(struct backend *be, const struct mat *A, const struct mat *x,
                   const struct mat *y, double yy, double *ret, struct err *err)
{
    const struct backend_ops *o = be->ops;
    const double zero = 0;
    int r = 0;
    *ret = 0;
    for (int i = 0; r == 0 && i < SPECTRUM_POWERS && yy > 0; i++) {
        const double scale = 1.0 / sqrt(yy);
        r = o->col_axpby(be, &scale, y, &zero, x, err);
        r = r == 0 ? o->gemm(be, false, false, 1.0, A, x, 0.0, y, err) : r;
        r = r == 0 ? o->col_dots(be, x, y, ret, err) : r;
        r = r == 0 ? o->col_dots(be, y, y, &yy, err) : r;
    }
    return r;
}

int spectrum_largest(struct backend *be, const struct mat *A, uint64_t seed, double *ret,
                     struct err *err)
{
    struct mat x = {0}, y = {0};
    double yy = 0;
    int r = be->ops->mat_new(be, DTYPE_F64, A->rows, 1, &x, err);
    r = r == 0 ? be->ops->mat_new(be, DTYPE_F64, A->rows, 1, &y, err) : r;
    r = r == 0 ? draw(be, seed, &y, &yy, err) : r;
    r = r == 0 ? iterate(be, A, &x, &y, yy, ret, err) : r;
    be->ops->mat_free(be, &y);
    be->ops->mat_free(be, &x);
    return r;
}

/* z <- (L L')^-1 z / |.|, *ret: the reciprocal of the growth. */
static int inverse_step(struct backend *be, const struct mat *L, const struct mat *z, double *ret,
                        struct err *err)
{
    const struct backend_ops *o = be->ops;
    double squared = 0;
    int r = o->trsm(be, false, false, L, z, err);
    r = r == 0 ? o->trsm(be, false, true, L, z, err) : r;
    r = r == 0 ? o->col_dots(be, z, z, &squared, err) : r;
    const double scale = 1.0 / sqrt(squared), zero = 0;
    *ret = isfinite(scale) ? scale : 0.0;
    return r == 0 ? o->col_axpby(be, &scale, z, &zero, z, err) : r;
}

int spectrum_smallest(struct backend *be, const struct mat *A, const struct mat *L,
                      const struct mat *z, double *ret, struct err *err)
{
    int r = be->ops->copy(be, A, L, err);
    r = r == 0 ? be->ops->potrf(be, L, 0.0, NULL, err) : r;
    *ret = 0;
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        return 0;
    }
    for (int i = 0; r == 0 && i <= SPECTRUM_INVERSES; i++) {
        r = inverse_step(be, L, z, ret, err);
    }
    return r;
}
