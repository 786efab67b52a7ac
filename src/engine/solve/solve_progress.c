#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/search_result.h"
#include "engine/solve/solve_parts.h"

/* The share of the time that may go into test metrics on the way. */
static const double metrics_share = 0.05;
/* In the midst of a long step something is said after so much silence. */
static const double silence_s = 2.0;

double solve__now(const struct drive *d)
{
    return d->control->now(d->control->context);
}

bool solve__iterates(const struct drive *d)
{
    return d->at.phase != NULL && strcmp(d->at.phase, "iterating") == 0;
}

bool solve__cancelled(const struct drive *d)
{
    return d->control->cancelled != NULL && d->control->cancelled(d->control->context);
}

bool solve__paused(const struct drive *d)
{
    return d->control->paused != NULL && d->control->paused(d->control->context);
}

/* Seconds of the job, and of the solve, earlier attempts included. */
double solve__elapsed(const struct drive *d, double t)
{
    return d->earlier + t - d->control->started;
}

double solve__solving(const struct drive *d, double t)
{
    return d->earlier + t - d->began;
}

void solve__say(const struct drive *d, const char *level, const char *first, const char *second)
{
    if (d->control->message != NULL) {
        char text[640];
        snprintf(text, sizeof(text), "%s %s", first, second);
        d->control->message(d->control->context, level, text);
    }
}

/* Of the iteration under way: what the solver says, or by the kernel values that it takes; NaN
 * where nobody knows. */
static double step_share(const struct drive *d)
{
    const struct backend *be = d->p->be;
    if (d->at.share > 0 && solve__iterates(d) && isnan(d->certifying) && !d->model) {
        return d->at.share;
    }
    if (!d->stepping || !(d->at.built || solve__iterates(d)) || !(d->iteration_entries > 0)) {
        return (double)NAN;
    }
    const double done = (double)(be->kernel_entries + be->under_way - d->iteration_from);
    return fmin(done / d->iteration_entries, 1.0);
}

/* The iteration's share where the solver cannot tell: the largest of the residual's way to the
 * tolerance in decades, the iterations' to their limit, and the clock's to the budget. */
static double guess_fraction(const struct drive *d, double seconds)
{
    const double rel = d->at.relative_residual;
    const double begun = isnan(d->progress.step) ? 0.0 : d->progress.step;
    double share = ((double)d->at.iteration + begun) / (double)d->limits->max_iterations;
    if (rel > 0 && rel < 1 && d->limits->tolerance < 1) {
        share = fmax(share, log(rel) / log(d->limits->tolerance));
    }
    share = fmax(share, seconds / d->limits->time_budget_s);
    return d->known + (0.95 - d->known) * fmin(share, 1.0);
}

/* Seconds that are left, NaN where nobody knows. */
static double remaining(const struct drive *d, double t)
{
    const double seconds = solve__elapsed(d, t);
    if (d->model) {
        return (double)NAN; /* the model is handed out */
    }
    if (!isnan(d->certifying)) {
        return eta_finishing(&d->eta, seconds, t - d->certifying);
    }
    if (d->ops->direct && !isnan(d->at.fraction)) {
        return eta_direct(&d->eta, seconds, solve__solving(d, t), d->known);
    }
    return d->at.usable ? eta_iterating(&d->eta, seconds) : (double)NAN;
}

static void update_progress(struct drive *d, const char *phase, double t)
{
    struct progress *p = &d->progress;
    const double here = t - d->began;
    if (!isnan(d->at.fraction)) {
        d->known = fmin(fmax(d->known, d->at.fraction), 1.0);
    }
    p->step = step_share(d);
    const double f = isnan(d->at.fraction) ? guess_fraction(d, solve__elapsed(d, t)) : d->known;
    p->fraction = fmax(p->fraction, f);
    p->phase = phase;
    p->iteration = d->at.iteration;
    p->relative_residual = d->at.relative_residual;
    p->elapsed_s = solve__elapsed(d, t);
    if (d->control->search != NULL) {
        p->search = search_progress_of(d->control->search);
    }
    eta_iterated(&d->eta, d->at.iteration, d->at.relative_residual, p->elapsed_s);
    p->eta_s = remaining(d, t);
    const struct backend *be = d->p->be;
    const int64_t entries = be->kernel_entries + be->under_way - d->entries_before;
    p->kernel_entries_per_s = here > 0 ? (double)entries / here : (double)NAN;
}

void solve__report(struct drive *d, const char *phase, bool always)
{
    const double t = solve__now(d);
    if (d->control->report == NULL ||
        (!always && t - d->last_report < d->control->report_every_s)) {
        return;
    }
    update_progress(d, phase, t);
    d->control->report(d->control->context, &d->progress);
    d->last_report = t;
}

void solve__report_step(struct drive *d, double t)
{
    if (d->stepping && d->at.phase != NULL && t - d->last_report >= silence_s) {
        solve__report(d, d->at.built ? "iterating" : d->at.phase, false);
    }
}

bool solve__evaluation_due(const struct drive *d)
{
    if (d->evaluator == NULL || !d->at.usable) {
        return false;
    }
    if (d->evaluations == 0) {
        return (double)d->usable_steps * metrics_share >= d->evaluator->cost;
    }
    return d->eval_spent + d->eval_last <= metrics_share * solve__solving(d, solve__now(d));
}

int solve__evaluate(struct drive *d, struct err *err)
{
    const double start = solve__now(d);
    const int r = d->evaluator->evaluate(d->evaluator->context, d->A, &d->progress.metrics, err);
    d->eval_last = solve__now(d) - start;
    d->eval_spent += d->eval_last;
    d->evaluations++;
    return r;
}
