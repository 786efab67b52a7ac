#include <float.h>
#include <math.h>

#include "engine/methods/eigenpro/eigenpro34.h"

enum { STALE_CHECKS = 20 };

static const double improvement = 0.99;
/* Share of the gradient that the recurrence's errors may have. */
static const double doubt_share = 0.01;
/* Of the gradient over an epoch: the step is halved. */
static const double runaway = 10.0;

/* relative = |G| / norm for a gradient; whether all are within the tolerance. */
static int measure(struct solver *s, const struct mat *G, bool *ret_reached, double *ret_largest,
                   struct err *err)
{
    const int r = s->p.be->ops->col_dots(s->p.be, G, G, s->dots, err);
    bool reached = true;
    double largest = 0;
    for (int64_t j = 0; r == 0 && j < s->t; j++) {
        if (!isfinite(s->dots[j])) {
            return err_set(err, ERR_DIVERGED, "The iteration produced infinity or NaN.");
        }
        s->relative[j] = s->norm[j] > 0 ? sqrt(s->dots[j]) / s->norm[j] : 0.0;
        reached = reached && s->relative[j] <= s->tolerance;
        largest = fmax(largest, s->relative[j]);
    }
    *ret_reached = reached;
    *ret_largest = largest;
    return r;
}

/* Errors in a gradient computed afresh, into dots. */
static const double *rounding(struct solver *s)
{
    const double eps = s->p.dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    for (int64_t j = 0; j < s->t; j++) {
        s->dots[j] = 10.0 * eps * s->norm[j];
    }
    return s->dots;
}

/* Whether the recurrence's errors are no longer small beside G. */
static bool doubtful(const struct solver *s)
{
    const double *doubt = conjugate_doubt(s->outer);
    bool found = false;
    for (int64_t j = 0; j < s->t; j++) {
        found = found || doubt[j] > doubt_share * s->relative[j] * s->norm[j];
    }
    return found;
}

/* norm = |G| at 0. */
static int take_norms(struct solver *s, struct err *err)
{
    const int r = s->p.be->ops->col_dots(s->p.be, &s->G, &s->G, s->dots, err);
    for (int64_t j = 0; r == 0 && j < s->t; j++) {
        s->norm[j] = sqrt(s->dots[j]);
    }
    return r;
}

static int after_right_hand_side(struct solver *s, struct err *err)
{
    int r = s->p.be->ops->copy(s->p.be, &s->HD, &s->G, err);
    r = r == 0 ? take_norms(s, err) : r;
    bool reached;
    double largest;
    r = r == 0 ? measure(s, &s->G, &reached, &largest, err) : r;
    if (r < 0) {
        return r;
    }
    s->at.checked = 1;
    if (largest == 0) {
        return REASON_CONVERGED;
    }
    if (s->p.start != NULL) {
        s->at.stage = EP_START;
        return s->p.be->ops->copy(s->p.be, s->p.start, &s->V, err);
    }
    return eigenpro34__begin_epoch(s, err);
}

/* Columns that are better than 0 are taken. What is not taken may be infinite:
 * it is overwritten, never scaled. */
static int after_start(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->col_dots(s->p.be, &s->HD, &s->HD, s->dots, err);
    for (int64_t j = 0; r == 0 && j < s->t; j++) {
        if (s->norm[j] > 0 && sqrt(s->dots[j]) < s->norm[j]) {
            const struct mat V = mat_cols(s->V, j, 1), HD = mat_cols(s->HD, j, 1);
            const struct mat B = mat_cols(s->B, j, 1), G = mat_cols(s->G, j, 1);
            r = o->copy(s->p.be, &V, &B, err);
            r = r == 0 ? o->copy(s->p.be, &HD, &G, err) : r;
            s->at.given = 1;
        }
    }
    bool reached;
    double largest;
    r = r == 0 ? measure(s, &s->G, &reached, &largest, err) : r;
    conjugate_refresh(s->outer, rounding(s));
    if (r == 0 && reached) {
        return REASON_CONVERGED;
    }
    return r == 0 ? eigenpro34__begin_epoch(s, err) : r;
}

/* Whether the last passes brought nothing; counts this one. */
static bool stale(struct solver *s)
{
    bool better = false;
    for (int64_t j = 0; j < s->t; j++) {
        better = better || s->relative[j] < improvement * s->best[j];
        s->best[j] = fmin(s->best[j], s->relative[j]);
    }
    s->at.stale = better ? 0 : s->at.stale + 1;
    return s->at.stale >= STALE_CHECKS;
}

/* HD is the gradient at V = B + D: what was left, and what H makes of D. */
static int take_direction(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->col_dots(s->p.be, &s->HD, &s->HD, s->dots, err);
    bool grown = false;
    for (int64_t j = 0; r == 0 && j < s->t; j++) {
        grown = grown || sqrt(s->dots[j]) > runaway * s->relative[j] * s->norm[j];
    }
    s->at.halvings += grown && s->at.checked && s->at.halvings < EIGENPRO34_HALVINGS;
    eigenpro34__fill(s->work, -1.0, s->t);
    if (r == 0) {
        r = o->col_axpby(s->p.be, s->work, &s->G, s->one, &s->HD, err);
    }
    return r == 0 ? conjugate_step(s->outer, &s->D, &s->HD, rounding(s), &s->B, &s->G, err) : r;
}

static int after_epoch(struct solver *s, struct err *err)
{
    int r = s->at.checked ? 0 : take_norms(s, err);
    r = r == 0 ? take_direction(s, err) : r;
    bool reached;
    double largest;
    r = r == 0 ? measure(s, &s->G, &reached, &largest, err) : r;
    if (r < 0) {
        return r;
    }
    s->at.checked = 1;
    s->at.epoch++;
    if (largest == 0) {
        return REASON_CONVERGED;
    }
    if (reached || doubtful(s)) {
        s->at.stage = EP_VERIFY;
        return s->p.be->ops->copy(s->p.be, &s->B, &s->V, err);
    }
    return stale(s) ? REASON_STAGNATED : eigenpro34__begin_epoch(s, err);
}

/* The gradient afresh. */
static int after_verification(struct solver *s, struct err *err)
{
    int r = s->p.be->ops->copy(s->p.be, &s->HD, &s->G, err);
    bool reached;
    double largest;
    r = r == 0 ? measure(s, &s->G, &reached, &largest, err) : r;
    if (r == 0 && reached) {
        return REASON_CONVERGED;
    }
    conjugate_forget(s->outer);
    conjugate_refresh(s->outer, rounding(s));
    if (r == 0 && stale(s)) {
        return REASON_STAGNATED;
    }
    return r == 0 ? eigenpro34__begin_epoch(s, err) : r;
}

/* HD is the gradient at f, of which nothing else is known in plain epochs but G, that at 0. */
static int after_look(struct solver *s, struct err *err)
{
    bool reached;
    double largest;
    int r = take_norms(s, err);
    r = r == 0 ? measure(s, &s->HD, &reached, &largest, err) : r;
    s->at.stage = EP_BATCHES;
    return r == 0 && reached ? REASON_CONVERGED : r;
}

/* Where the pass is: B + D after an epoch. */
static int begin_pass(struct solver *s, struct err *err)
{
    if (s->at.stage != EP_CHECK || s->pass.tile > 0) {
        return 0;
    }
    const int r = s->p.be->ops->copy(s->p.be, &s->B, &s->V, err);
    return r == 0 ? s->p.be->ops->col_axpby(s->p.be, s->one, &s->D, s->one, &s->V, err) : r;
}

int eigenpro34__advance_pass(struct solver *s, struct err *err)
{
    const struct restricted *re = s->p.restricted;
    const struct mat *V = s->at.stage == EP_RIGHT_HAND_SIDE ? &s->B : &s->V;
    int r = begin_pass(s, err);
    r = r == 0 ? normal_gradient(re, s->p.be, &s->pass, V, true, &s->HD, err) : r;
    s->at.tile = s->pass.tile;
    if (r <= 0) {
        return r;
    }
    r = s->at.stage == EP_RIGHT_HAND_SIDE
            ? 0
            : normal_add_core(re, s->p.be, s->p.ridge, V, &s->HD, err);
    if (r < 0) {
        return r;
    }
    switch ((enum eigenpro34_stage)s->at.stage) {
    case EP_RIGHT_HAND_SIDE:
        return after_right_hand_side(s, err);
    case EP_START:
        return after_start(s, err);
    case EP_CHECK:
        return after_epoch(s, err);
    case EP_LOOK:
        return after_look(s, err);
    default:
        return after_verification(s, err);
    }
}
