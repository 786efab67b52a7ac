#include "engine/methods/stochastic/stochastic_course.h"

#include <math.h>

enum { COUNTS = 9, NUMBERS = 7 };
_Static_assert(sizeof(struct stochastic_counts) == COUNTS * sizeof(int64_t), "saved as an array");
_Static_assert(sizeof(struct stochastic_numbers) == NUMBERS * sizeof(double), "saved as an array");

int stochastic_diverged(struct err *err)
{
    return err_at(err, ERR_DIVERGED, "#/regularization",
                  "The residual grew however small the step was made. Scale the features and the "
                  "target, raise `regularization`, or take the solver `falkon`.");
}

int stochastic_take_norms(struct stochastic *s, const struct mat *G, bool *ret_zero,
                          struct err *err)
{
    const int rc = s->p.be->ops->col_dots(s->p.be, G, G, s->dots, err);
    *ret_zero = true;
    for (int64_t j = 0; rc == 0 && j < s->p.t; j++) {
        s->norm[j] = sqrt(s->dots[j]);
        *ret_zero = *ret_zero && s->norm[j] == 0;
        if (!isfinite(s->norm[j])) {
            return stochastic_diverged(err);
        }
    }
    return rc;
}

double stochastic_relative(const struct stochastic *s)
{
    double found = 0;
    for (int64_t j = 0; j < s->p.t; j++) {
        const double relative = s->norm[j] > 0 ? sqrt(s->dots[j]) / s->norm[j] : 0.0;
        found = isnan(relative) || isnan(found) ? (double)NAN : fmax(found, relative);
    }
    return found;
}

/* ---- checkpoints ---- */

int stochastic_save(const struct stochastic *s, const struct stochastic_course *c,
                    const struct stochastic_matrix *matrices, struct state *to, struct err *err)
{
    struct stochastic_numbers is = c->is;
    is.damping = s->damping;
    is.L = s->L;
    int rc = state_put_ints(to, "counters", (const int64_t *)&c->at, COUNTS, err);
    rc = rc == 0 ? state_put_reals(to, "numbers", (const double *)&is, NUMBERS, err) : rc;
    rc = rc == 0 ? state_put_reals(to, "norm", s->norm, s->p.t, err) : rc;
    for (; rc == 0 && matrices->name != NULL; matrices++) {
        rc = state_put_mat(to, matrices->name, s->p.be, matrices->M, err);
    }
    return rc;
}

/* What stochastic_save may have left. */
static bool plausible(const struct stochastic *s, const struct stochastic_bounds *b,
                      const struct stochastic_course *c)
{
    const struct stochastic_counts *at = &c->at;
    const bool reason =
        at->ended == 0 || at->ended == REASON_CONVERGED || at->ended == REASON_STAGNATED;
    const bool places = at->purpose >= 0 && at->purpose < b->purposes && at->tile >= 0 &&
                        at->tile < rowset_tiles(s->p.restricted->rows) && at->batch >= 0 &&
                        at->batch < s->batches.batches && at->epoch >= 0 && at->epoch < INT32_MAX;
    const bool counts = at->backs >= 0 && at->backs <= b->backs && at->stale >= 0 &&
                        at->stale <= b->stale && at->own >= 0 && at->own <= b->own &&
                        at->given >= 0 && at->given <= 1;
    const bool numbers =
        c->is.damping > 0 && c->is.L > 0 && isfinite(c->is.damping) && isfinite(c->is.L);
    return reason && places && counts && numbers;
}

int stochastic_load(struct stochastic *s, const struct state *from,
                    const struct stochastic_bounds *bounds,
                    const struct stochastic_matrix *matrices, struct stochastic_course *c,
                    struct err *err)
{
    struct stochastic_course found;
    int rc = state_get_ints(from, "counters", (int64_t *)&found.at, COUNTS, err);
    rc = rc == 0 ? state_get_reals(from, "numbers", (double *)&found.is, NUMBERS, err) : rc;
    if (rc == 0 && !plausible(s, bounds, &found)) {
        return err_set(err, ERR_CORRUPT, "The checkpoint's arrays have numbers out of range.");
    }
    rc = rc == 0 ? state_get_reals(from, "norm", s->norm, s->p.t, err) : rc;
    for (; rc == 0 && matrices->name != NULL; matrices++) {
        rc = state_get_mat(from, matrices->name, s->p.be, matrices->M, err);
    }
    if (rc == 0) {
        *c = found;
        stochastic_recall(s, found.is.damping, found.is.L);
    }
    return rc;
}
