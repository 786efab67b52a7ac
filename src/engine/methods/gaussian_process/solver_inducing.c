/*
 * Gaussian processes on inducing points: the posterior that m centers Z allow, by one pass.
 *
 * What the rows are for it and its three approximations are in inducing_sums.h, with S = L^-T of
 * K_mm = L L':
 *
 *     A = L^-T a,    R = K_nm L^-T,    (K_nm' W K_nm + ridge K_mm) A = K_nm' W Y.
 *
 * Papers: Quinonero-Candela, Rasmussen, "A unifying view of sparse approximate gaussian process
 * regression", JMLR 6 (2005); Titsias, "Variational learning of inducing variables in sparse
 * gaussian processes", AISTATS 2009; as rivals of kernel machine conjugate gradients in Bartels,
 * Hennig, JMLR 21 (2020), which all of them are with S = L^-T (posterior.h).
 *
 * Everything is in float64. Cost: n m (m + values)
 * multiplications and 10 m^3. Memory: 3 m^2 float64 numbers, one more for
 * the posterior and what it takes (posterior.h), 8 bytes a row for weights, INDUCING_BLOCK_BYTES.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/gaussian_process/inducing_sums.h"
#include "engine/methods/methods.h"
#include "engine/methods/normal_core.h"

struct solver {
    struct problem p;
    int64_t m;
    struct mat L; /* m x m */
    struct mat B; /* m x t: L^-T a */
    struct inducing_sums sums;
};

static void teardown(struct solver *s)
{
    if (s != NULL) {
        inducing_deinit(&s->sums);
        s->p.be->ops->mat_free(s->p.be, &s->L);
        s->p.be->ops->mat_free(s->p.be, &s->B);
        mem_free(s);
    }
}

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->m = p->restricted->m;
    int r = memory_check_matrix(p->be, s->m, 3 * s->m, DTYPE_F64, "solver `inducing`", err);
    r = r == 0 ? inducing_init(&s->sums, p, &o->params, s->m, err) : r;
    r = r == 0 ? p->be->ops->mat_new(p->be, DTYPE_F64, s->m, p->t, &s->B, err) : r;
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int make_rows(void *context, struct view rows, const struct mat *R, struct err *err)
{
    struct solver *s = context;
    const struct backend_ops *o = s->p.be->ops;
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    const int r = o->kblock(s->p.be, rows, Z, R, err);
    return r == 0 ? o->trsm(s->p.be, true, true, &s->L, R, err) : r;
}

static int add_some(struct solver *s, struct err *err)
{
    const double m = (double)s->m;
    const struct inducing_rows rows = {.make = make_rows, .context = s, .work = m * m};
    return inducing_add(&s->sums, &rows, err);
}

static int solve(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = inducing_solve(&s->sums, err);
    r = r == 0 ? o->copy(s->p.be, &s->sums.a, &s->B, err) : r;
    return r == 0 ? o->trsm(s->p.be, false, true, &s->L, &s->B, err) : r;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = 0;
    if (s->L.data == NULL) {
        r = core_factor_variables(&s->p, &s->L, err);
    } else if (!inducing_added(&s->sums)) {
        r = add_some(s, err);
    } else if (!s->sums.solved) {
        r = solve(s, err);
    }
    const bool solved = s->sums.solved;
    *ret = (struct step_report){
        .phase = "factorizing",
        .fraction = solved ? 1.0 : 0.9 * (double)s->sums.done / (double)s->p.n,
        .iteration = solved,
        .relative_residual = NAN,
        .built = solved,
        .usable = solved,
        .savable = true,
    };
    return r == 0 && solved ? REASON_CONVERGED : r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, &s->B, A, err);
}

static const double *row_weights(const struct solver *s)
{
    return inducing_weights(&s->sums);
}

/* With S = L^-T. */
static int posterior(struct solver *s, struct posterior *ret, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    struct mat S = {.data = NULL};
    int r = o->mat_new(s->p.be, DTYPE_F64, s->m, s->m, &S, err);
    r = r == 0 ? o->add_diag(s->p.be, 1.0, &S, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, true, &s->L, &S, err) : r;
    r = r == 0 ? inducing_posterior(&s->sums, &S, ret, err) : r;
    o->mat_free(s->p.be, &S);
    return r;
}

/* The sums over the rows so far, and the answer; the factors follow from the centers and the sums.
 */
static int save(const struct solver *s, struct state *to, struct err *err)
{
    const int r = inducing_save(&s->sums, to, err);
    return r == 0 && s->sums.solved ? state_put_mat(to, "inducing.B", s->p.be, &s->B, err) : r;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    const int r = inducing_load(&s->sums, from, err);
    return r == 0 && s->sums.solved ? state_get_mat(from, "inducing.B", s->p.be, &s->B, err) : r;
}

const struct solver_ops solver_inducing_ops = {
    .name = "inducing",
    .direct = true,
    .restricted = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .row_weights = row_weights,
    .posterior = posterior,
    .save = save,
    .load = load,
    .teardown = teardown,
};
