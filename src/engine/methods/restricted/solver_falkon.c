/*
 * FALKON: conjugate gradients for a restricted problem with the preconditioner that the centers
 * alone give, and FALKON-BLESS, which knows how the centers were drawn.
 *
 * Papers: Rudi, Carratino, Rosasco, "FALKON: an optimal large scale kernel method",
 * arXiv:1705.10958; Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and
 * optimal learning", arXiv:1810.13258, section 3.1.
 *
 * The sum over all rows is estimated by that over the centers,
 *
 *     K_nm' K_nm ~ (n/m) K_mm W^-1 K_mm,   W = I, or the weights of the selection (centers.h),
 *
 * so that in the variables U = L' B of normal_cg.h, K_mm = L L',
 *
 *     P = A A' = (n/m) L' W^-1 L + ridge I.
 *
 * Both factors are float64. The papers have T = L', and lambda for ridge / n.
 *
 * Equation (15) of the second paper has lambda_h there, that of the scores, beside an equation (13)
 * with lambda. It is read as the solver's, lambda_falkon of its section 4, which may be a hundred
 * times smaller: P is to be near to the matrix of the system, whose ridge that is, and with the
 * larger one its condition is up to lambda_h / lambda. W has no trace of lambda_h but the chances.
 *
 * Deviation: unless its parameter `start` says "zero", FALKON-BLESS begins with the solution of the
 * centers' own problem, in which each of them stands for the rows that its weight says,
 *
 *     A A' L' B_0 = (n/m) L' W^-1 Y_m,
 *
 * where they are rows of the data and their targets Y_m therefore known. It costs two products with
 * a factor and a pass for its residual, and saves one or two of the five iterations that the paper
 * takes.
 *
 * Cost of the building: m^2 kernel values and 4/3 m^3 multiplications. Memory: 2 m^2 float64.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/normal_core.h"
#include "engine/methods/restricted/normal_cg.h"

struct precond {
    struct problem p;
    bool weighted;
    bool starts;        /* from the solution of the centers' own problem */
    int built;          /* pieces that are there */
    struct mat L, A, W; /* W: float64, m x t */
    struct mat start;   /* B_0, likewise; data NULL: none */
};

static void precond_teardown(struct precond *m)
{
    if (m == NULL) {
        return;
    }
    const struct backend_ops *o = m->p.be->ops;
    o->mat_free(m->p.be, &m->L);
    o->mat_free(m->p.be, &m->A);
    o->mat_free(m->p.be, &m->W);
    o->mat_free(m->p.be, &m->start);
    mem_free(m);
}

static int precond_setup(const struct problem *p, bool weighted, struct precond **ret,
                         struct err *err)
{
    const int64_t size = p->restricted->m;
    struct precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    m->weighted = weighted;
    int r =
        memory_check_matrix(p->be, size, 2 * size, DTYPE_F64, "preconditioner of `falkon`", err);
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

static int setup_plain(const struct problem *p, const struct param_set *params,
                       struct precond **ret, struct err *err)
{
    (void)params;
    return precond_setup(p, false, ret, err);
}

static bool starts_at_centers(const struct problem *p, const struct param_set *params)
{
    return p->restricted->positions != NULL && strcmp(param_choice(params, "start"), "zero") != 0;
}

static int setup_weighted(const struct problem *p, const struct param_set *params,
                          struct precond **ret, struct err *err)
{
    if (p->restricted->weights == NULL) {
        return err_at(err, ERR_INVALID, "#/centers/method",
                      "The solver `falkon_bless` needs to know how the centers were drawn: take "
                      "the selector `bless` or `bless_r`.");
    }
    const int r = precond_setup(p, true, ret, err);
    if (r == 0) {
        (*ret)->starts = starts_at_centers(p, params);
    }
    return r;
}

/* L <- W^power/2 L, and back. */
static int weigh(struct precond *m, double power, struct err *err)
{
    const int64_t size = m->p.restricted->m;
    if (!m->weighted) {
        return 0;
    }
    cleanup_mem double *factors = mem_array((size_t)size, sizeof(double));
    if (factors == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < size; i++) {
        factors[i] = pow(m->p.restricted->weights[i], 0.5 * power);
    }
    return m->p.be->ops->scale_rows(m->p.be, factors, &m->L, err);
}

static int factor_core(struct precond *m, struct err *err)
{
    return core_factor_variables(&m->p, &m->L, err);
}

/* A A' = (n/m) L' W^-1 L + ridge I. */
static int factor_sum(struct precond *m, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    const int64_t size = m->p.restricted->m;
    int r = o->mat_new(m->p.be, DTYPE_F64, size, size, &m->A, err);
    if (r == 0) {
        r = weigh(m, -1.0, err);
    }
    if (r == 0) {
        r = o->syrk(m->p.be, true, (double)m->p.n / (double)size, &m->L, 0.0, &m->A, err);
    }
    if (r == 0) {
        r = weigh(m, 1.0, err);
    }
    if (r == 0) {
        r = o->add_diag(m->p.be, m->p.ridge, &m->A, err);
    }
    return r == 0 ? core_factor_sum(m->p.be, &m->A, 1e-16, err) : r;
}

/* start <- (n/m) W^-1 Y_m. */
static int read_targets(struct precond *m, struct err *err)
{
    const struct restricted *re = m->p.restricted;
    const struct row_source *s = re->source;
    const int64_t size = re->m;
    cleanup_mem double *Y = mem_array((size_t)(size * s->t), sizeof(double));
    cleanup_mem char *X = mem_array((size_t)(size * s->d), dtype_size(s->dtype));
    int r = Y != NULL && X != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? s->read(s, 0, re->positions, size, X, Y, err) : r;
    for (int64_t i = 0; r == 0 && i < size * s->t; i++) {
        Y[i] *= (double)m->p.n / (double)size / re->weights[i % size];
    }
    r = r == 0 ? m->p.be->ops->mat_new(m->p.be, DTYPE_F64, size, s->t, &m->start, err) : r;
    return r == 0 ? m->p.be->ops->mat_put(m->p.be, Y, size, &m->start, err) : r;
}

/* B_0 = L^-T A^-T A^-1 L' (n/m) W^-1 Y_m. */
static int find_start(struct precond *m, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    if (!m->starts) {
        return 0;
    }
    int r = read_targets(m, err);
    r = r == 0 ? o->gemm(be, true, false, 1.0, &m->L, &m->start, 0.0, &m->W, err) : r;
    r = r == 0 ? core_solve(be, &m->A, &m->start, &m->W, &m->start, err) : r;
    return r == 0 ? o->trsm(be, false, true, &m->L, &m->start, err) : r;
}

static int give_start(struct precond *m, const struct mat *B, struct err *err)
{
    return m->p.be->ops->copy(m->p.be, &m->start, B, err);
}

static int precond_build(struct precond *m, double *ret_fraction, struct err *err)
{
    static int (*const pieces[])(struct precond * m, struct err * err) = {factor_core, factor_sum,
                                                                          find_start};
    const int count = sizeof(pieces) / sizeof(*pieces);
    const int r = pieces[m->built](m, err);
    m->built += r == 0;
    *ret_fraction = (double)m->built / count;
    return r < 0 ? r : m->built == count;
}

static int precond_apply(struct precond *m, const struct mat *R, const struct mat *Z,
                         struct err *err)
{
    return core_solve(m->p.be, &m->A, &m->W, R, Z, err);
}

static struct core_variables variables(const struct precond *m)
{
    return (struct core_variables){.L = &m->L, .W = &m->W};
}

static int64_t precond_rank(const struct precond *m)
{
    return m->p.restricted->m;
}

static const struct precond_ops plain = {
    .name = "falkon",
    .setup = setup_plain,
    .build = precond_build,
    .apply = precond_apply,
    .rank = precond_rank,
    .teardown = precond_teardown,
};

static const struct precond_ops weighted = {
    .name = "falkon_bless",
    .setup = setup_weighted,
    .build = precond_build,
    .apply = precond_apply,
    .rank = precond_rank,
    .teardown = precond_teardown,
};

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    const struct normal_method method = {
        .precond = &plain,
        .variables = variables,
        .residual_every = param_int(&o->params, "residual_every"),
    };
    return normal_cg_setup(p, o, &method, ret, err);
}

static int setup_bless(const struct problem *p, const struct solver_options *o, struct solver **ret,
                       struct err *err)
{
    const struct normal_method method = {
        .precond = &weighted,
        .variables = variables,
        .residual_every = param_int(&o->params, "residual_every"),
        .start = starts_at_centers(p, &o->params) ? give_start : NULL,
    };
    return normal_cg_setup(p, o, &method, ret, err);
}

const struct solver_ops solver_falkon_ops = {
    .name = "falkon",
    .restricted = true,
    .setup = setup,
    .step = normal_cg_step,
    .coef = normal_cg_coef,
    .save = normal_cg_save,
    .load = normal_cg_load,
    .teardown = normal_cg_teardown,
};

const struct solver_ops solver_falkon_bless_ops = {
    .name = "falkon_bless",
    .restricted = true,
    .setup = setup_bless,
    .step = normal_cg_step,
    .coef = normal_cg_coef,
    .save = normal_cg_save,
    .load = normal_cg_load,
    .teardown = normal_cg_teardown,
};
