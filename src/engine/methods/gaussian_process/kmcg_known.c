/*
 * What the directions of kernel machine conjugate gradients know of K, as a preconditioner: K is
 * Q = Z Z' on their span, and by the lemma on inverses
 *
 *     (Q + ridge I)^-1 = (I - Z (Z'Z + ridge I)^-1 Z') / ridge.
 *
 * (Q + ridge I)^-1 (K + ridge I) is I but for a matrix of K - Q over ridge: where rounding alone
 * was left of K, an iteration or two are enough. Conjugate gradients lower another norm than the
 * residual's, which may rise first: the mean of the directions stands until it is beaten.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/methods/gaussian_process/kmcg.h"
#include "engine/methods/methods.h"
#include "wire/catalog.h"

struct precond {
    const struct solver *of;
    struct mat x;  /* room x t float64 */
    struct mat v;  /* the same of the problem's type */
    double *scale; /* [2 t] */
};

static const char full_note[] =
    "All the directions that `directions` allows are in use: variance and evidence stay as they "
    "are, and the mean goes on by conjugate gradients that the directions precondition.";

/* Nothing is left to build. */
static int build(struct precond *m, double *ret_fraction, struct err *err)
{
    (void)m;
    (void)err;
    *ret_fraction = 1.0;
    return 1;
}

static int apply(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err)
{
    const struct solver *s = m->of;
    const struct backend_ops *o = s->p.be->ops;
    struct backend *be = s->p.be;
    const int64_t count = s->span.count, t = s->p.t;
    const struct mat L = mat_cols(mat_rows(s->L, 0, count), 0, count), D = span_Z(&s->span);
    const struct mat x = mat_rows(m->x, 0, count), v = mat_rows(m->v, 0, count);
    double *inverse = m->scale, *zero = m->scale + t;
    for (int64_t j = 0; j < t; j++) {
        inverse[j] = 1.0 / s->p.ridge;
    }
    int r = o->gemm(be, true, false, 1.0, &D, R, 0.0, &v, err);
    r = r == 0 ? o->copy(be, &v, &x, err) : r;
    r = r == 0 ? o->trsm(be, false, false, &L, &x, err) : r;
    r = r == 0 ? o->trsm(be, false, true, &L, &x, err) : r;
    r = r == 0 ? o->copy(be, &x, &v, err) : r;
    r = r == 0 ? o->col_axpby(be, inverse, R, zero, Z, err) : r;
    return r == 0 ? o->gemm(be, false, false, -1.0 / s->p.ridge, &D, &v, 1.0, Z, err) : r;
}

static int64_t rank(const struct precond *m)
{
    return m->of->span.count;
}

static void teardown(struct precond *m)
{
    if (m != NULL) {
        struct backend *be = m->of->p.be;
        be->ops->mat_free(be, &m->x);
        be->ops->mat_free(be, &m->v);
        mem_free(m->scale);
        mem_free(m);
    }
}

static const struct precond_ops known_ops = {
    .name = "directions",
    .build = build,
    .apply = apply,
    .rank = rank,
    .teardown = teardown,
};

static int make_known(struct solver *s, struct err *err)
{
    struct precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->of = s;
    s->known = m;
    m->scale = mem_zarray((size_t)s->p.t, 2 * sizeof(double));
    int r = m->scale != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? s->p.be->ops->mat_new(s->p.be, DTYPE_F64, s->span.room, s->p.t, &m->x, err) : r;
    return r == 0 ? s->p.be->ops->mat_new(s->p.be, s->p.dtype, s->span.room, s->p.t, &m->v, err)
                  : r;
}

void kmcg_end_rest(struct solver *s)
{
    if (s->rest != NULL) {
        solver_pcg_ops.teardown(s->rest);
    }
    teardown(s->known);
    s->p.be->ops->mat_free(s->p.be, &s->own);
    s->rest = NULL;
    s->known = NULL;
}

int kmcg_go_on(struct solver *s, struct err *err)
{
    struct problem p = s->p;
    struct solver_options o = {.precond = &known_ops, .tolerance = s->tolerance};
    int r = param_read(catalog_find(CATALOG_SOLVERS, "pcg")->params, NULL, NULL, &o.params, err);
    r = r == 0 ? make_known(s, err) : r;
    r = r == 0 ? s->p.be->ops->mat_new(s->p.be, p.dtype, p.n, p.t, &s->own, err) : r;
    r = r == 0 ? kmcg_own_mean(s, &s->own, err) : r;
    o.made = s->known;
    p.start = &s->own;
    s->full = s->span.count == s->span.room && s->span.room < p.n;
    return r == 0 ? solver_pcg_ops.setup(&p, &o, &s->rest, err) : r;
}

int kmcg_step_on(struct solver *s, struct step_report *ret, struct err *err)
{
    const int r = solver_pcg_ops.step(s->rest, ret, err);
    s->begun = true;
    s->exact = r == REASON_CONVERGED;
    s->better = s->exact || ret->relative_residual < s->residual;
    ret->relative_residual = s->better ? ret->relative_residual : s->residual;
    ret->phase = "iterating";
    ret->fraction = NAN;
    ret->iteration += s->iteration;
    ret->built = ret->usable = true;
    ret->note = s->full ? full_note : ret->note;
    return r;
}
