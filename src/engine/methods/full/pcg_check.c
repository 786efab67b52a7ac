#include <math.h>

#include "engine/methods/full/pcg.h"

static const double anew_drift = 0.05;
static const double noise_drift = 0.1;
static const double improvement = 0.9;

/* Of mixed precision: */
static const double look_fall = 0.5;
static const double replace_drift = 0.02;
static const double small_drift = 0.1; /* of the tolerance: the residual has to fall by it more */
static const double refinement = 0.75; /* the most that a new beginning may leave */

/* Z = Y - M B, R = Z - R (the drift); |drift_j|^2 in work, |Z_j|^2 in dots; then R = Z. */
static int replace_residual(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(p->exact != NULL ? p->exact : p->X, p->n);
    for (int64_t j = 0; j < p->t; j++) {
        s->c.work[j] = -p->ridge;
        s->c.one[j] = 1.0;
        s->c.gamma[j] = -1.0;
    }
    int r = o->copy(p->be, &p->Y, &s->Z, err);
    if (r == 0) {
        r = o->kmv(p->be, all, all, -1.0, &s->B, 1.0, &s->Z, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, s->c.work, &s->B, s->c.one, &s->Z, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, s->c.one, &s->Z, s->c.gamma, &s->R, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &s->R, &s->R, s->c.work, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &s->Z, &s->Z, s->c.dots, err);
    }
    return r == 0 ? o->copy(p->be, &s->Z, &s->R, err) : r;
}

static double largest_residual(const struct solver *s)
{
    double largest = 0;
    for (int64_t j = 0; j < s->p.t; j++) {
        largest = fmax(largest, s->c.frozen[j] ? 0.0 : s->c.relative[j]);
    }
    return largest;
}

/* From here on with the exact points. R is true, and every column starts anew: from B_j = 0 where
 * float32 made it worse than that. */
static int widen(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    s->wide = true;
    s->X = p->exact;
    s->stale_checks = 0;
    for (int64_t j = 0; j < p->t; j++) {
        const bool worse = !s->c.frozen[j] && !(s->c.relative[j] < 1.0);
        s->c.omega[j] = 0;
        s->c.one[j] = worse ? 0.0 : 1.0;
        s->c.gamma[j] = worse ? 1.0 : 0.0;
        s->c.work[j] = 0.0;
        s->c.relative[j] = worse ? 1.0 : s->c.relative[j];
    }
    int r = o->col_axpby(p->be, s->c.work, &p->Y, s->c.one, &s->B, err);
    if (r == 0) {
        r = o->col_axpby(p->be, s->c.gamma, &p->Y, s->c.one, &s->R, err);
    }
    return r == 0 && p->widened != NULL ? p->widened(p->widened_context, err) : r;
}

/* A column must begin again without having got far since it did so last. */
static bool exhausted(const struct solver *s, int64_t j, double drift)
{
    return pcg_narrow(s) && !s->c.frozen[j] && s->c.relative[j] > refinement * s->c.best[j] &&
           drift > anew_drift * s->c.relative[j];
}

/* Replaces the residual, freezes what has converged, and answers CONVERGED, STAGNATED or 0. */
static int check(struct solver *s, struct err *err)
{
    const int r = replace_residual(s, err);
    if (r < 0) {
        return r;
    }
    bool stale = true, widens = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        if (s->c.frozen[j]) {
            continue;
        }
        if (!isfinite(s->c.dots[j])) {
            return cg_columns_diverged(err);
        }
        const double truth = sqrt(s->c.dots[j]), drift = sqrt(s->c.work[j]);
        s->c.relative[j] = truth / s->c.norm[j];
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
        if (drift > anew_drift * truth) {
            s->c.omega[j] = 0;
        }
        if (s->c.relative[j] < improvement * s->c.best[j] || drift <= noise_drift * truth) {
            stale = false;
        }
        widens = widens || exhausted(s, j, drift / s->c.norm[j]);
        s->c.best[j] = fmin(s->c.best[j], s->c.relative[j]);
    }
    s->since_check = 0;
    s->looked = largest_residual(s);
    s->stale_checks = stale && !pcg_narrow(s) ? s->stale_checks + 1 : 0;
    if (cg_columns_frozen(&s->c)) {
        return REASON_CONVERGED;
    }
    if (widens) {
        return widen(s, err);
    }
    return s->stale_checks >= PCG_STALE_CHECKS ? REASON_STAGNATED : 0;
}

/* In mixed precision: freezes what has converged for all that the sample shows, and checks where it
 * shows too much drift. */
static int look(struct solver *s, struct err *err)
{
    const int r = drift_estimate(&s->drift, &s->B, &s->R, s->away, err);
    if (r < 0) {
        return r;
    }
    bool drifted = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        if (s->c.frozen[j]) {
            continue;
        }
        const double drift = s->away[j] / s->c.norm[j];
        s->c.frozen[j] = s->c.relative[j] + drift <= s->tolerance;
        const double harmless = fmax(replace_drift * s->c.relative[j], small_drift * s->tolerance);
        drifted = drifted || (!s->c.frozen[j] && !(drift <= harmless));
    }
    s->since_check = 0;
    s->looked = largest_residual(s);
    if (drifted) {
        return check(s, err);
    }
    return cg_columns_frozen(&s->c) ? REASON_CONVERGED : 0;
}

int pcg_inspect(struct solver *s, struct err *err)
{
    const bool claimed =
        s->since_check >= s->residual_every || cg_columns_below(&s->c, s->tolerance);
    if (pcg_narrow(s)) {
        const bool due = claimed || largest_residual(s) <= look_fall * s->looked;
        return !due ? 0 : s->strict ? check(s, err) : look(s, err);
    }
    return claimed ? check(s, err) : 0;
}

int pcg_recover(struct solver *s, struct err *err)
{
    const int r = check(s, err);
    return r == 0 && pcg_narrow(s) ? widen(s, err) : r;
}

int pcg_begin_warm(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    s->warm = false;
    int r = o->copy(p->be, p->start, &s->B, err);
    if (r == 0) {
        r = replace_residual(s, err);
    }
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double relative = s->c.norm[j] > 0 ? sqrt(s->c.dots[j]) / s->c.norm[j] : INFINITY;
        const bool taken = relative < 1.0;
        s->c.one[j] = taken ? 1.0 : 0.0;
        s->c.gamma[j] = taken ? 0.0 : 1.0;
        s->c.work[j] = 0.0;
        s->given = s->given || taken;
        s->c.relative[j] = taken ? relative : s->c.relative[j];
        s->c.best[j] = s->c.relative[j];
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
    }
    s->looked = largest_residual(s);
    if (r == 0) { /* What was not taken may be infinite: it is overwritten, never scaled. */
        r = o->col_axpby(p->be, s->c.work, &p->Y, s->c.one, &s->B, err);
    }
    return r == 0 ? o->col_axpby(p->be, s->c.gamma, &p->Y, s->c.one, &s->R, err) : r;
}

int pcg_refuse(struct solver *s, struct err *err)
{
    if (!pcg_narrow(s) || s->strict) {
        return REASON_STAGNATED;
    }
    s->strict = true;
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.frozen[j] = s->c.norm[j] == 0;
        s->c.omega[j] = 0;
    }
    int r = check(s, err);
    r = r == REASON_CONVERGED ? REASON_STAGNATED : r; /* the certificate knows better */
    s->ended = r > 0 ? r : 0;
    return r;
}
