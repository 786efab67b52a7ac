/* True residuals of the block methods, and what follows from them (block_descent.h). */
#include <math.h>

#include "base/mem.h"
#include "engine/methods/blocks/block_descent.h"

static const double improvement = 0.9;
static const double noise_factor = 3.0;
/* So far beyond where it was, a residual is no rounding error and no transient of the momentum; so
 * far, it may be one unless f is above that of zeros. */
static const double grown = 1e8;
static const double climbed = 100.0;

static int diverged(struct err *err)
{
    return err_at(err, ERR_DIVERGED, "#/regularization",
                  "The residual of the block descent grew beyond measure. Scale the features and "
                  "the target, raise `regularization` or `power_iterations`, or use precision "
                  "float64.");
}

/* Nothing better than zeros was found, and what is left is rounding error. */
static int hopeless(struct err *err)
{
    return err_at(err, ERR_DIVERGED, "#/regularization",
                  "The block descent stagnated with a residual that is no smaller than that of "
                  "zeros: rounding errors outweigh what is left to solve. Raise `regularization`, "
                  "use precision float64, or choose another kernel or bandwidth.");
}

/* W, R = Y - (K + ridge I) W; dots <- |R_j|^2, more <- f_j = -W_j'(Y_j + R_j) / 2. */
static int true_residual(struct block_descent *d, struct err *err)
{
    const struct problem *p = &d->p;
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(p->X, p->n);
    int rc = block_descent__get_iterate(d, &d->W, err);
    if (rc == 0) {
        rc = o->copy(p->be, &p->Y, &d->R, err);
    }
    if (rc == 0) {
        rc = o->kmv(p->be, all, all, -1.0, &d->W, 1.0, &d->R, err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        d->a[j] = -p->ridge;
        d->b[j] = 1.0;
    }
    if (rc == 0) {
        rc = o->col_axpby(p->be, d->a, &d->W, d->b, &d->R, err);
    }
    if (rc == 0) {
        rc = o->col_dots(p->be, &d->W, &p->Y, d->more, err);
    }
    if (rc == 0) {
        rc = o->col_dots(p->be, &d->W, &d->R, d->dots, err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        d->more[j] = -0.5 * (d->more[j] + d->dots[j]);
    }
    if (rc == 0) {
        rc = o->col_dots(p->be, &d->W, &d->W, d->a, err);
    }
    return rc == 0 ? o->col_dots(p->be, &d->R, &d->R, d->dots, err) : rc;
}

/* Freezes what has converged and says whether all that is left only shows rounding error; b <- 0
 * for columns with the smallest residual so far, 1 for others. */
static bool judge(struct block_descent *d, bool *risen)
{
    const double noise = noise_factor * d->eps * d->kernel_size * sqrt((double)d->p.n);
    bool stale = true;
    for (int64_t j = 0; j < d->p.t; j++) {
        risen[j] = false;
        d->b[j] = 1.0;
        if (d->frozen[j]) {
            continue;
        }
        const double truth = sqrt(d->dots[j]), relative = truth / d->norm[j];
        const double estimate = sqrt(d->mean[j]) / d->norm[j];
        d->frozen[j] = relative <= d->tolerance;
        d->bias[j] = d->averaged > 0 && estimate > 0 ? relative / estimate : 1.0;
        risen[j] = d->accelerated && !d->frozen[j] && d->more[j] > d->value[j];
        stale = stale && relative >= improvement * d->best[j] && truth <= noise * sqrt(d->a[j]);
        d->b[j] = relative < d->best[j] ? 0.0 : 1.0;
        d->best[j] = fmin(d->best[j], relative);
        d->relative[j] = relative;
        d->value[j] = d->more[j];
    }
    return stale;
}

/* best_W <- W where b is 0. */
static int keep_best(struct block_descent *d, struct err *err)
{
    for (int64_t j = 0; j < d->p.t; j++) {
        d->a[j] = 1.0 - d->b[j];
    }
    return d->p.be->ops->col_axpby(d->p.be, d->a, &d->W, d->b, &d->best_W, err);
}

/* Whether every column was once nearer to its target than zeros are. */
static bool useful(const struct block_descent *d)
{
    for (int64_t j = 0; j < d->p.t; j++) {
        if (d->norm[j] > 0 && !(d->best[j] < 1.0)) {
            return false;
        }
    }
    return true;
}

/* What a residual of column j is held to: its best, or |Y_j|. Nothing is known of a start. */
static double reference(const struct block_descent *d, int64_t j)
{
    const bool known = isfinite(d->best[j]);
    return known ? fmax(1.0, d->best[j]) : d->p.start != NULL ? INFINITY : 1.0;
}

/* Of the true residual in dots and f in more: a column is beyond recovery. */
static bool climbs(const struct block_descent *d)
{
    for (int64_t j = 0; j < d->p.t; j++) {
        const double relative = sqrt(d->dots[j]) / d->norm[j], most = reference(d, j);
        const bool high = relative > grown * most || (relative > climbed * most && d->more[j] > 0);
        if (!d->frozen[j] && (!isfinite(d->dots[j]) || high)) {
            return true;
        }
    }
    return false;
}

/* E = V = best_W for the columns that have not converged, and half the step, or the end. */
int block_descent__step_back(struct block_descent *d, struct err *err)
{
    const struct backend_ops *o = d->p.be->ops;
    const bool last = d->halvings == BLOCK_DESCENT_HALVINGS;
    d->halvings += !last;
    d->since_check = d->since_restart = d->averaged = d->stale_checks = 0;
    block_descent__set_coefficients(d, d->frozen, 1.0, 0.0);
    for (int64_t j = 0; j < d->p.t; j++) {
        const double unknown = d->p.start != NULL ? (double)NAN : 1.0;
        const double best = isfinite(d->best[j]) ? d->best[j] : unknown;
        d->relative[j] = d->frozen[j] ? d->relative[j] : best;
        d->value[j] = d->frozen[j] ? d->value[j] : INFINITY;
        d->slope[j] = d->mean[j] = 0;
        d->ages[j] = d->frozen[j] ? d->ages[j] : 0;
        d->bias[j] = 1.0;
    }
    int rc = o->col_axpby(d->p.be, d->a, &d->best_W, d->b, &d->E, err);
    if (rc == 0 && d->accelerated) {
        rc = o->col_axpby(d->p.be, d->a, &d->best_W, d->b, &d->V, err);
    }
    if (rc == 0 && last) {
        return useful(d) ? REASON_STAGNATED : diverged(err);
    }
    return rc;
}

int block_descent__check(struct block_descent *d, struct err *err)
{
    cleanup_mem bool *risen = mem_array((size_t)d->p.t, sizeof(bool));
    int rc = risen == NULL ? err_no_memory(err) : true_residual(d, err);
    if (rc == 0 && climbs(d)) {
        return block_descent__step_back(d, err);
    }
    if (rc < 0) {
        return rc;
    }
    const bool stale = judge(d, risen);
    d->since_check = 0;
    d->checked = true;
    d->stale_checks = stale ? d->stale_checks + 1 : 0;
    rc = keep_best(d, err);
    if (rc == 0 && block_descent_done(d)) {
        return REASON_CONVERGED;
    }
    if (rc == 0 && d->stale_checks >= BLOCK_DESCENT_STALE_CHECKS) {
        return useful(d) ? REASON_STAGNATED : hopeless(err);
    }
    return rc == 0 ? block_descent__restart_where(d, risen, err) : rc;
}

bool block_descent__check_due(const struct block_descent *d)
{
    if (d->since_check >= d->check_every) {
        return true;
    }
    for (int64_t j = 0; d->since_check >= d->pass && j < d->p.t; j++) {
        if (d->relative[j] > climbed * reference(d, j)) {
            return true;
        }
    }
    return block_descent_residual(d) <= d->tolerance && (!d->checked || d->since_check >= d->pass);
}
