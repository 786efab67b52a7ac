/*
 * A float32 Cholesky factor as a preconditioner for float64 vectors.
 *
 * Half the memory of a float64 factor and about half its time. The diagonal gets at least
 * n eps max_i K_ii, eps = 2^-23: a bound on the factorisation's rounding error, so that it does not
 * break down where the matrix is singular in float32. With the problem's own ridge above that, the
 * preconditioned matrix is I + E with a small E, and each iteration of conjugate gradients gains
 * several digits; below it, the iterations grow with the square root of the two ridges' ratio at
 * worst (Carson and Higham, SIAM J. Sci. Comput. 40, 2018, for refinement by low-precision
 * factors).
 *
 * Residuals far below 1 keep their digits in float32: each column is scaled to length 1 first.
 */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/methods/full/cholesky.h"
#include "engine/methods/full/cholesky_factor.h"

struct precond {
    struct problem p;
    struct factor L;
    double *numbers; /* [3 t]: |R_j|^2 or scales, zeros, workspace */
};

static void teardown(struct precond *m)
{
    if (m != NULL) {
        factor_deinit(&m->L);
        mem_free(m->numbers);
        mem_free(m);
    }
}

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    struct precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    m->numbers = mem_zarray((size_t)p->t, 3 * sizeof(double));
    double largest = 0;
    int r = m->numbers != NULL ? factor_largest_kernel(p, &largest, err) : err_no_memory(err);
    if (r == 0) {
        const double noise = (double)p->n * (double)FLT_EPSILON * largest;
        const double least = (double)FLT_EPSILON * (largest + p->ridge);
        r = factor_init(p, DTYPE_F32, fmax(p->ridge, noise), least, param_int(params, "block_size"),
                        &m->L, err);
    }
    if (r < 0) {
        teardown(m);
        return r;
    }
    *ret = m;
    return 0;
}

static int build(struct precond *m, double *ret_fraction, struct err *err)
{
    const int r = factor_step(&m->L, err);
    *ret_fraction = factor_fraction(&m->L);
    return r;
}

/* Z = |R| (L L')^-1 (R / |R|) by columns. */
static int apply(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    double *scale = m->numbers, *zero = scale + m->p.t, *back = zero + m->p.t;
    int r = o->col_dots(m->p.be, R, R, back, err);
    for (int64_t j = 0; j < m->p.t; j++) {
        back[j] = sqrt(back[j]);
        scale[j] = back[j] > 0 ? 1.0 / back[j] : 0.0;
    }
    if (r == 0) {
        r = o->col_axpby(m->p.be, scale, R, zero, Z, err);
    }
    if (r == 0) {
        r = factor_solve(&m->L, Z, err);
    }
    return r == 0 ? o->col_axpby(m->p.be, zero, R, back, Z, err) : r;
}

static int64_t rank(const struct precond *m)
{
    return m->p.n;
}

static int save(const struct precond *m, struct state *to, struct err *err)
{
    return factor_save(&m->L, to, err);
}

static int load(struct precond *m, const struct state *from, struct err *err)
{
    return factor_load(&m->L, from, err);
}

const struct precond_ops cholesky_narrow_ops = {
    .name = "cholesky",
    .setup = setup,
    .build = build,
    .apply = apply,
    .rank = rank,
    .save = save,
    .load = load,
    .teardown = teardown,
};
