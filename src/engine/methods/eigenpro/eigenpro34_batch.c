#include <math.h>

#include "engine/methods/eigenpro/eigenpro34.h"
#include "engine/products.h"

/* How much the squares of an epoch's residuals may exceed those of f = 0. */
static const double growth = 8.0;
/* Of the step, in epochs that start from the full gradient: their noise is that of delta. */
static const double corrected_share = 0.5;

/* eta / b. */
static double step_length(const struct solver *s)
{
    const double rate = s->rate_wanted > 0 ? s->rate_wanted : eigenpro_span_rate(s->span, s->batch);
    const double share = eigenpro34__plain(s) ? 1.0 : corrected_share;
    return ldexp(share * rate / (double)s->batch, -(int)s->at.halvings);
}

/* The rows of the window, in s->tile. */
static int read_window(struct solver *s, struct err *err)
{
    const struct row_order order =
        row_order_new(s->p.seed, ORDER_EIGENPRO_EPOCH, s->at.draws, s->p.n);
    const int64_t left = s->p.n - s->at.window;
    const int64_t count = left < s->window_rows ? left : s->window_rows;
    for (int64_t i = 0; i < count; i++) {
        s->rows[i] = row_order_at(&order, s->at.window + i);
    }
    const int r = rowset_batch(s->p.restricted->rows, s->rows, count, &s->tile, err);
    s->window_read = r == 0;
    return r;
}

/* g = K(X_b, Z) D + K(X_b, temporary) w, less Y_b in plain epochs; h = K(Z, X_b) g. */
static int residual(struct solver *s, struct view B, const struct mat *Y, const struct mat *g,
                    struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const int64_t temporary = s->at.next - s->at.window;
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    const struct mat *targets = eigenpro34__plain(s) ? Y : NULL;
    int r = 0;
    if (temporary > 0) {
        const struct view T = view_range(B.points, 0, temporary);
        const struct mat w = mat_rows(s->w, 0, temporary);
        r = targets != NULL ? o->copy(s->p.be, targets, g, err) : 0;
        if (r == 0) {
            r = o->kmv(s->p.be, B, T, -1.0, &w, targets != NULL ? 1.0 : 0.0, g, err);
        }
        targets = g;
    }
    return r == 0 ? product_residual(s->p.be, B, Z, &s->D, targets, g, false, &s->h, err) : r;
}

/* The batch's far rows: places in s->far, shares less 1 in s->less. */
static int64_t find_far(struct solver *s, int64_t first, int64_t b)
{
    const struct eigenpro_far *far = eigenpro_span_far(s->span);
    int64_t count = 0;
    for (int64_t i = 0; far->count > 0 && i < b; i++) {
        const double share = eigenpro_far_share(far, s->rows[first + i]);
        if (share < 1.0) {
            s->far[count] = i;
            s->less[count++] = share - 1.0;
        }
    }
    return count;
}

/* Far rows have their share of a step: h += K(Z, far) (share - 1) g, g *= share. */
static int shorten(struct solver *s, struct view B, const struct mat *g, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    const int64_t count = find_far(s, s->at.next - s->at.window, g->rows);
    if (count == 0) {
        return 0;
    }
    const struct mat less = mat_rows(s->gf, 0, count);
    int r = o->gather_rows(s->p.be, g, s->far, &less, err);
    r = r == 0 ? o->scale_rows(s->p.be, s->less, &less, err) : r;
    r = r == 0 ? o->add_rows(s->p.be, s->one, &less, s->far, g, err) : r;
    for (int64_t i = 0; i < count; i++) {
        s->far[i] += B.first;
    }
    const struct view far = view_index(B.points, s->far, count);
    return r == 0 ? o->kmv(s->p.be, Z, far, 1.0, &less, 1.0, &s->h, err) : r;
}

/* What |g|^2 of an epoch may be after so much of it: targets may be 0 in all rows up to there, of
 * which nothing follows. */
static double most_allowed(const struct solver *s, int64_t j, double part)
{
    const double expected = fmax(s->seen[j] / part, s->total[j]);
    return expected > 0 ? growth * expected : INFINITY;
}

/* Whether |g|^2 of the epoch is beyond what is allowed. */
static int sum_up(struct solver *s, const struct mat *Y, const struct mat *g, bool *ret_grown,
                  struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const double part = (double)(s->at.next + g->rows) / (double)s->p.n;
    bool grown = false;
    int r = o->col_dots(s->p.be, Y, Y, s->dots, err);
    r = r == 0 ? o->col_dots(s->p.be, g, g, s->work, err) : r;
    for (int64_t j = 0; r == 0 && j < s->t; j++) {
        s->seen[j] += s->dots[j];
        s->sum[j] += s->work[j];
        grown = grown || !(s->sum[j] <= most_allowed(s, j, part));
        s->total[j] = part >= 1.0 ? s->seen[j] : s->total[j];
    }
    *ret_grown = grown;
    return r;
}

/* X <- a X + b Y. */
static int blend(struct solver *s, double a, const struct mat *X, double b, const struct mat *Y,
                 struct err *err)
{
    eigenpro34__fill(s->dots, a, s->t);
    eigenpro34__fill(s->work, b, s->t);
    return s->p.be->ops->col_axpby(s->p.be, s->work, Y, s->dots, X, err);
}

/* The rows of h that belong to the preconditioner's centers. */
static int take_centers(struct solver *s, const struct mat *h, struct mat *ret, struct err *err)
{
    *ret = s->centers != NULL ? s->hs : *h;
    return s->centers != NULL ? s->p.be->ops->gather_rows(s->p.be, h, s->centers, ret, err) : 0;
}

/* u = U' h. */
int eigenpro34__moments(struct solver *s, const struct mat *h, const struct mat *u, struct err *err)
{
    const struct mat U = eigenpro_span_vectors(s->span);
    struct mat hs;
    const int r = take_centers(s, h, &hs, err);
    return r == 0 ? s->p.be->ops->gemm(s->p.be, true, false, 1.0, &U, &hs, 0.0, u, err) : r;
}

static struct view part_of_centers(const struct solver *s)
{
    return view_index(s->p.restricted->Z, s->centers, s->c);
}

int eigenpro34__add_values(struct solver *s, const struct mat *u, double factor,
                           const struct mat *H, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const struct mat U = eigenpro_span_vectors(s->span);
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    const int r = o->gemm(s->p.be, false, false, 1.0, &U, u, 0.0, &s->us, err);
    return r == 0 ? o->kmv(s->p.be, Z, part_of_centers(s), factor, &s->us, 1.0, H, err) : r;
}

int eigenpro34__add_functions(struct solver *s, double factor, const struct mat *u,
                              const struct mat *F, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const struct mat U = eigenpro_span_vectors(s->span);
    if (s->centers == NULL) {
        return o->gemm(s->p.be, false, false, factor, &U, u, 1.0, F, err);
    }
    const int r = o->gemm(s->p.be, false, false, factor, &U, u, 0.0, &s->us, err);
    return r == 0 ? o->add_rows(s->p.be, s->one, &s->us, s->centers, F, err) : r;
}

int eigenpro34__refresh_moments(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const struct mat U = eigenpro_span_vectors(s->span);
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    const int r = o->kmv(s->p.be, part_of_centers(s), Z, 1.0, &s->D, 0.0, &s->us, err);
    return r == 0 ? o->gemm(s->p.be, true, false, 1.0, &U, &s->us, 0.0, &s->a, err) : r;
}

/* What P makes of the step along the psi_i: a -= (1 - c) <psi, step>, D += U (c u), v += c u. Of u
 * = <psi, step> the drift's part is in the drift already. */
static int precondition(struct solver *s, double step, double gamma, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const double *c = eigenpro_span_damping(s->span);
    if (eigenpro_span_rank(s->span) == 0) {
        return 0;
    }
    int r = eigenpro34__moments(s, &s->h, &s->u, err);
    if (r == 0) {
        r = blend(s, step, &s->u, gamma * s->p.ridge, &s->a, err);
    }
    if (r == 0) {
        r = blend(s, 1.0, &s->a, -1.0, &s->u, err);
    }
    if (r == 0) {
        r = blend(s, 1.0, &s->a, -gamma, &s->ug, err);
    }
    if (r == 0) {
        r = o->scale_rows(s->p.be, c, &s->u, err);
    }
    if (r == 0) {
        r = blend(s, 1.0, &s->a, 1.0, &s->u, err);
    }
    if (r == 0) {
        r = blend(s, 1.0, &s->v, 1.0, &s->u, err);
    }
    return r == 0 ? eigenpro34__add_functions(s, 1.0, &s->u, &s->D, err) : r;
}

/* The batch's rows become temporary centers with the weights -step g; those there already decay. */
static int remember(struct solver *s, double step, double decay, const struct mat *g,
                    struct err *err)
{
    const int64_t temporary = s->at.next - s->at.window;
    const struct mat before = mat_rows(s->w, 0, temporary);
    const struct mat now = mat_rows(s->w, temporary, g->rows);
    int r = 0;
    if (temporary > 0 && decay != 1.0) {
        r = blend(s, decay, &before, 0.0, &before, err);
    }
    return r == 0 ? blend(s, 0.0, &now, -step, g, err) : r;
}

/* What h = K(Z, X_b) g makes of everything. */
static int descend(struct solver *s, const struct mat *g, struct err *err)
{
    const double step = step_length(s);
    const double gamma = step * (double)g->rows / (double)s->p.n;
    const double decay = 1.0 - gamma * s->p.ridge;
    int r = blend(s, decay, &s->Q, -step, &s->h, err);
    if (r == 0) {
        r = blend(s, decay, &s->D, -gamma, &s->drift, err);
    }
    if (r == 0) {
        r = precondition(s, step, gamma, err);
    }
    return r == 0 && s->delayed ? remember(s, step, decay, g, err) : r;
}

/* The first epoch sums up the gradient at 0 as well. */
static int sum_targets(struct solver *s, struct view B, const struct mat *Y, struct err *err)
{
    if (!eigenpro34__plain(s) || s->at.epoch > 0) {
        return 0;
    }
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    return s->p.be->ops->kmv(s->p.be, Z, B, -1.0, Y, 1.0, &s->G, err);
}

int eigenpro34__batch(struct solver *s, bool *ret_grown, struct err *err)
{
    int r = s->window_read ? 0 : read_window(s, err);
    if (r < 0) {
        return r;
    }
    const int64_t first = s->at.next - s->at.window, left = s->tile.count - first;
    const int64_t b = left < s->batch ? left : s->batch;
    const struct view B = view_range(s->tile.rows.points, first, b);
    const struct mat Y = mat_rows(s->tile.Y, first, b), g = mat_rows(s->g, 0, b);
    r = residual(s, B, &Y, &g, err);
    if (r == 0) {
        r = sum_up(s, &Y, &g, ret_grown, err);
    }
    if (r < 0 || *ret_grown) {
        return r;
    }
    r = sum_targets(s, B, &Y, err);
    if (r == 0) {
        r = shorten(s, B, &g, err);
    }
    if (r == 0) {
        r = descend(s, &g, err);
    }
    s->at.next += b;
    return r;
}
