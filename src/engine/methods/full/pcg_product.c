#include <math.h>

#include "engine/methods/full/pcg.h"

/* Of the ridge's part in a product: the errors of the first that float32 may make. */
static const double coarse = 1.0 / 3;

/* V = M P through float32. */
static int narrow_product(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(s->X, p->n);
    for (int64_t j = 0; j < p->t; j++) {
        s->c.work[j] = p->ridge;
        s->c.one[j] = 1.0;
    }
    int r = o->copy(p->be, &s->P, &s->P32, err);
    if (r == 0) {
        r = o->kmv(p->be, all, all, 1.0, &s->P32, 0.0, &s->V32, err);
    }
    if (r == 0) {
        r = o->copy(p->be, &s->V32, &s->V, err);
    }
    return r == 0 ? o->col_axpby(p->be, s->c.work, &s->P, s->c.one, &s->V, err) : r;
}

/* V = M P. */
static int own_product(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct view all = view_all(s->X, p->n);
    const int r = p->be->ops->copy(p->be, &s->P, &s->V, err);
    return r == 0 ? p->be->ops->kmv(p->be, all, all, 1.0, &s->P, p->ridge, &s->V, err) : r;
}

/* Whether the errors of the first product are beyond a third of what the ridge adds to it: the
 * float32 matrix is then that of a problem with quite another ridge, and its iterations are lost.
 * They are estimated from rows; infinity and NaN count as beyond. */
static int too_coarse(struct solver *s, bool *ret, struct err *err)
{
    const struct problem *p = &s->p;
    int r = drift_of_product(&s->drift, &s->P, &s->V, s->away, err);
    if (r == 0) {
        r = p->be->ops->col_dots(p->be, &s->P, &s->P, s->c.dots, err);
    }
    *ret = false;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double share = p->ridge * sqrt(s->c.dots[j]);
        *ret = *ret || (!s->c.frozen[j] && !(s->away[j] <= coarse * share));
    }
    return r;
}

/* The first product decides whether float32 is worth a try. If not, the directions are as good for
 * float64: the iteration is from there on what it would have been in float64. */
static int first_product(struct solver *s, struct err *err)
{
    bool wide = false;
    int r = narrow_product(s, err);
    r = r == 0 ? too_coarse(s, &wide, err) : r;
    if (r < 0 || !wide) {
        return r;
    }
    s->wide = s->wide_from_start = true;
    s->X = s->p.exact;
    r = s->p.widened != NULL ? s->p.widened(s->p.widened_context, err) : 0;
    return r == 0 ? own_product(s, err) : r;
}

static int any_product(struct solver *s, struct err *err)
{
    if (!pcg_narrow(s)) {
        return own_product(s, err);
    }
    return s->iteration == 0 ? first_product(s, err) : narrow_product(s, err);
}

int pcg_product(struct solver *s, struct err *err)
{
    int r = any_product(s, err);
    if (r == 0) {
        r = cg_columns_lengths(&s->c, &s->P, &s->V, err);
    }
    return r == -ERR_DIVERGED && pcg_narrow(s) ? REASON_BREAKDOWN : r;
}
