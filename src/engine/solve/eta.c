#include "engine/solve/eta.h"

#include <math.h>
#include <stdbool.h>

/* Less than so many seconds or iterations, or so small a share of the work, says nothing. */
static const double least_s = 1.0;
static const int64_t least_iterations = 4;
static const double least_share = 0.02;

struct eta_plan eta_plan_none(void)
{
    return (struct eta_plan){.setup_s = NAN, .finish_s = NAN};
}

void eta_init(struct eta *e, const struct eta_limits *limits, const struct eta_plan *plan)
{
    *e = (struct eta){.limits = *limits, .plan = *plan};
}

/* NaN where it is no time ahead. */
static double within_budget(const struct eta *e, double seconds, double guess)
{
    const double left = e->limits.budget_s - seconds;
    return guess >= 0 && left > 0 ? fmin(guess, left) : (double)NAN;
}

static double finish(const struct eta *e)
{
    return isnan(e->plan.finish_s) ? 0.0 : e->plan.finish_s;
}

double eta_direct(const struct eta *e, double seconds, double spent_s, double fraction)
{
    const bool enough = fraction > least_share && spent_s >= least_s;
    const double work = enough ? spent_s * (1.0 - fraction) / fraction : e->plan.setup_s - seconds;
    return within_budget(e, seconds, work + (work >= 0 ? finish(e) : 0.0));
}

void eta_iterated(struct eta *e, int64_t iteration, double residual, double seconds)
{
    const bool told = e->marks > 0 && iteration == e->last.iteration; /* once is enough */
    if (!(residual > 0 && isfinite(residual)) || iteration <= 0 || told) {
        return;
    }
    e->last = (struct eta_mark){iteration, seconds, residual};
    if (e->marks == 0) {
        e->first = e->from = e->next = e->last;
        e->marks = 1;
    }
    const int64_t reached = e->next.iteration - e->first.iteration;
    const int64_t done = iteration - e->first.iteration;
    if (done >= least_iterations && done >= 2 * reached) {
        e->from = e->next;
        e->next = e->last;
    }
}

/* Iterations to go: to the tolerance at the pace since `from`, at most to the limit. */
static double iterations_left(const struct eta *e)
{
    const double passed = (double)(e->last.iteration - e->from.iteration);
    const double pace = log(e->from.residual / e->last.residual) / passed;
    if (!(pace > 0)) {
        return (double)NAN;
    }
    const double wanted = fmax(log(e->last.residual / e->limits.tolerance) / pace, 0.0);
    return fmin(wanted, (double)(e->limits.max_iterations - e->last.iteration));
}

double eta_iterating(const struct eta *e, double seconds)
{
    const int64_t passed = e->last.iteration - e->from.iteration;
    const double taken = e->last.seconds - e->from.seconds;
    if (e->marks == 0 || passed < least_iterations ||
        !(e->last.seconds - e->first.seconds >= least_s)) {
        return (double)NAN;
    }
    const double of_one = taken / (double)passed;
    return within_budget(e, seconds, iterations_left(e) * of_one + finish(e));
}

double eta_finishing(const struct eta *e, double seconds, double since_s)
{
    return within_budget(e, seconds, e->plan.finish_s - since_s);
}
