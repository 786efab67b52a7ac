/*
 * The normal equations of a restricted problem, formed and factorised in the variables U = L' B of
 * normal_cg.h, K_mm = L L':
 *
 *     S = K_nm L^-T,   A A' = S'S + ridge I,   B = L^-T A^-T A^-1 S' Y.
 *
 * No eigenvalue of S'S + ridge I is below ridge, so that where there is one no shift has to keep
 * its factor from breaking down; the digits that a sum of squares loses are those of numbers far
 * below the largest, where ridge is, too, and residuals that are computed from the rows find them
 * again: the factor is the preconditioner of normal_cg.h. One iteration, or a few.
 *
 * H = K_nm' K_nm + ridge K_mm has eigenvalues down to nothing. Its factor needs a shift of 10 eps
 * times its trace, which outweighs ridge K_mm in most directions. It is what is left for kernels
 * without an L, which are not positive definite, and where the ridge is below rounding: L^-1 makes
 * rounding errors large, and nothing holds them down then.
 *
 * A and L are float64 in every precision. Cost: n m (m + values) multiplications and m^3 / 3.
 * Memory: 2 m^2 float64, and DIRECT_BLOCK_BYTES.
 */
#include <float.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/normal_core.h"
#include "engine/methods/restricted/normal_cg.h"
#include "engine/rowset.h"

#define DIRECT_BLOCK_BYTES (INT64_C(32) << 20)
#define DIRECT_STEP_WORK 2e10 /* multiplications of a step, about a second of one core */

struct precond {
    struct problem p;
    bool begun;        /* L is there, or known not to be */
    int64_t tile, row; /* the next row of the next tile */
    int64_t done;      /* rows */
    bool cored;        /* the ridge is in A */
    struct mat L, A;   /* without L: A A' = H */
    struct mat K, W;
};

static const double jitter = 10.0; /* eps, of the trace of H */

static void precond_teardown(struct precond *m)
{
    if (m == NULL) {
        return;
    }
    const struct backend_ops *o = m->p.be->ops;
    o->mat_free(m->p.be, &m->L);
    o->mat_free(m->p.be, &m->A);
    o->mat_free(m->p.be, &m->K);
    o->mat_free(m->p.be, &m->W);
    mem_free(m);
}

static int precond_setup(const struct problem *p, const struct param_set *params,
                         struct precond **ret, struct err *err)
{
    (void)params;
    const int64_t size = p->restricted->m;
    const int64_t fit = DIRECT_BLOCK_BYTES / (size * (int64_t)sizeof(double));
    struct precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    int r = memory_check_matrix(p->be, size, 2 * size, DTYPE_F64, "solver `direct`", err);
    if (r == 0) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, size, size, &m->A, err);
    }
    if (r == 0) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, fit > 64 ? fit : 64, size, &m->K, err);
    }
    if (r == 0) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, size, p->t, &m->W, err);
    }
    if (r < 0) {
        precond_teardown(m);
        return r;
    }
    *ret = m;
    return 0;
}

/* L, and where there is none, or no ridge to speak of, what becomes H. */
static int begin(struct precond *m, struct err *err)
{
    struct err indefinite;
    m->begun = true;
    if (m->p.ridge < jitter * DBL_EPSILON * (double)m->p.n) {
        return 0;
    }
    const int r = core_factor_variables(&m->p, &m->L, &indefinite);
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        m->p.be->ops->mat_free(m->p.be, &m->L);
        return 0;
    }
    if (r < 0) {
        *err = indefinite;
    }
    return r;
}

/* A <- A + S'S, or A + K'K, for a few rows of the tile. */
static int add_rows(struct precond *m, const struct row_tile *t, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    const int64_t left = t->count - m->row;
    const int64_t rows = left < m->K.rows ? left : m->K.rows;
    const struct view some = view_range(t->rows.points, m->row, rows);
    const struct view Z = view_all(m->p.restricted->Z, m->p.restricted->m);
    const struct mat K = mat_rows(m->K, 0, rows);
    int r = o->kblock(m->p.be, some, Z, &K, err);
    if (r == 0 && m->L.data != NULL) {
        r = o->trsm(m->p.be, true, true, &m->L, &K, err);
    }
    if (r == 0) {
        r = o->syrk(m->p.be, true, 1.0, &K, 1.0, &m->A, err);
    }
    m->done += rows;
    m->row += rows;
    if (m->row == t->count) {
        m->row = 0;
        m->tile++;
    }
    return r;
}

static int add_some(struct precond *m, struct err *err)
{
    const double size = (double)m->p.restricted->m;
    const int64_t before = m->done;
    int r = 0;
    while (r == 0 && m->done < m->p.n &&
           (double)(m->done - before) * size * size < DIRECT_STEP_WORK) {
        struct row_tile t;
        r = rowset_tile(m->p.restricted->rows, m->tile, &t, err);
        r = r == 0 ? add_rows(m, &t, err) : r;
    }
    return r;
}

/* A A' = S'S + ridge I, or H. */
static int factor(struct precond *m, struct err *err)
{
    const double shift = m->L.data != NULL ? DBL_EPSILON : jitter * problem_rounding(&m->p);
    return core_factor_sum(m->p.be, &m->A, shift, err);
}

static int add_ridge(struct precond *m, struct err *err)
{
    const int r = m->L.data != NULL ? m->p.be->ops->add_diag(m->p.be, m->p.ridge, &m->A, err)
                                    : core_add(&m->p, m->p.ridge, &m->A, err);
    m->cored = r == 0;
    m->p.be->ops->mat_free(m->p.be, &m->K);
    return r;
}

static int precond_build(struct precond *m, double *ret_fraction, struct err *err)
{
    *ret_fraction = 0.9 * (double)m->done / (double)m->p.n;
    if (!m->begun) {
        return begin(m, err);
    }
    if (m->done < m->p.n) {
        return add_some(m, err);
    }
    if (!m->cored) {
        return add_ridge(m, err);
    }
    const int r = factor(m, err);
    *ret_fraction = 1.0;
    return r < 0 ? r : 1;
}

static int precond_apply(struct precond *m, const struct mat *R, const struct mat *Z,
                         struct err *err)
{
    return core_solve(m->p.be, &m->A, &m->W, R, Z, err);
}

static struct core_variables variables(const struct precond *m)
{
    return (struct core_variables){.L = m->L.data != NULL ? &m->L : NULL, .W = &m->W};
}

static int64_t precond_rank(const struct precond *m)
{
    return m->p.restricted->m;
}

static const struct precond_ops factored = {
    .name = "direct",
    .setup = precond_setup,
    .build = precond_build,
    .apply = precond_apply,
    .rank = precond_rank,
    .teardown = precond_teardown,
};

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    const struct normal_method method = {
        .precond = &factored,
        .variables = variables,
        .residual_every = 10,
    };
    return normal_cg_setup(p, o, &method, ret, err);
}

const struct solver_ops solver_direct_ops = {
    .name = "direct",
    .restricted = true,
    .setup = setup,
    .step = normal_cg_step,
    .coef = normal_cg_coef,
    .save = normal_cg_save,
    .load = normal_cg_load,
    .teardown = normal_cg_teardown,
};
