#include "engine/methods/stochastic/stochastic.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/memory.h"
#include "engine/methods/stochastic/stochastic_race.h"
#include "engine/normal.h"
#include "engine/products.h"
#include "plan/rules.h"

static bool is_auto(const struct param_set *params, const char *key)
{
    return param_get(params, key)->is_auto;
}

static int allocate(struct stochastic *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t m = p->restricted->m, rows = s->batches.most;
    s->one = mem_zarray((size_t)p->t, 4 * sizeof(double));
    if (s->one == NULL) {
        return err_no_memory(err);
    }
    s->work = s->one + p->t;
    s->dots = s->one + 2 * p->t;
    s->norm = s->one + 3 * p->t;
    const struct {
        struct mat *M;
        int64_t rows, cols;
    } shapes[] = {{&s->G, m, p->t}, {&s->E, m, p->t}, {&s->D, rows, p->t}, {&s->T, rows, p->t},
                  {&s->x, m, 1},    {&s->u, m, 1},    {&s->v, m, 1}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(shapes) / sizeof(*shapes); i++) {
        rc = o->mat_new(p->be, p->dtype, shapes[i].rows, shapes[i].cols, shapes[i].M, err);
    }
    return rc;
}

int stochastic_init(struct stochastic *s, const struct problem *p, const struct param_set *params,
                    struct err *err)
{
    s->p = *p;
    s->damping = is_auto(params, "damping") ? 0 : param_real(params, "damping");
    s->rho = is_auto(params, "rho") ? 0 : param_real(params, "rho");
    s->scaling = 0.5;
    s->power_iterations = param_int(params, "power_iterations");
    const int64_t rank = rule_sketch_rank(p->restricted->m, params);
    const int64_t batch = rule_batch_rows(p->n, p->restricted->m, params);
    int rc = row_batches_init(&s->batches, p->seed, p->restricted->source, batch, err);
    rc = rc == 0 ? allocate(s, err) : rc;
    return rc == 0 ? hessian_sketch_init(&s->P, p, rule_hessian_rows(p->n, rank, params), rank, err)
                   : rc;
}

void stochastic_deinit(struct stochastic *s)
{
    if (s->p.be == NULL) {
        return;
    }
    struct mat *const all[] = {&s->G, &s->E, &s->D, &s->T, &s->x, &s->u, &s->v};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
    }
    race_deinit(s);
    hessian_sketch_deinit(&s->P);
    row_batches_deinit(&s->batches);
    s->one = mem_free(s->one);
}

void stochastic_recall(struct stochastic *s, double damping, double L)
{
    s->damping = damping;
    s->L = L;
}

int stochastic_add(struct stochastic *s, double a, const struct mat *X, double b,
                   const struct mat *M, struct err *err)
{
    for (int64_t j = 0; j < s->p.t; j++) {
        s->one[j] = a;
        s->work[j] = b;
    }
    return s->p.be->ops->col_axpby(s->p.be, s->one, X, s->work, M, err);
}

int stochastic_delta(struct stochastic *s, struct view P, const struct mat *Y, const struct mat *W,
                     const struct mat *T, const struct mat *D, const struct mat *E, struct err *err)
{
    struct backend *be = s->p.be;
    const struct view Z = view_all(s->p.restricted->Z, s->p.restricted->m);
    int rc = 0;
    if (T != NULL) { /* Y + T, in D's place */
        rc = be->ops->copy(be, Y, D, err);
        rc = rc == 0 ? stochastic_add(s, 1.0, T, 1.0, D, err) : rc;
    }
    return rc == 0 ? product_residual(be, P, Z, W, T != NULL ? D : Y, D, false, E, err) : rc;
}

int stochastic_saga_step(struct stochastic *s, const struct saga_point *at, struct view P,
                         const struct mat *Y, const struct mat *T, const struct mat *D, double eta,
                         struct err *err)
{
    struct backend *be = s->p.be;
    const struct backend_ops *o = be->ops;
    int rc = o->copy(be, at->mean, &s->G, err);
    rc = rc == 0 ? normal_add_core(s->p.restricted, be, s->p.ridge, at->W, &s->G, err) : rc;
    rc = rc == 0 ? o->col_dots(be, &s->G, &s->G, s->dots, err) : rc;
    rc = rc == 0 ? stochastic_delta(s, P, Y, at->W, T, D, &s->E, err) : rc;
    const double share = (double)s->p.n / (double)P.count;
    rc = rc == 0 ? stochastic_add(s, share, &s->E, 1.0, &s->G, err) : rc;
    rc = rc == 0 ? stochastic_add(s, at->weight, &s->E, 1.0, at->mean, err) : rc;
    rc = rc == 0 ? hessian_sketch_apply(&s->P, &s->G, err) : rc;
    return rc == 0 ? stochastic_add(s, -eta, &s->G, 1.0, at->W, err) : rc;
}
