#include "engine/solve.h"

#include <math.h>

#include "base/mem.h"
#include "engine/certify.h"

/* The share of the time that may go into test metrics on the way. */
static const double metrics_share = 0.05;
/* What certificates may exceed the tolerance by: the same sums in another order. */
static const double certificate_slack = 1.01;

struct drive {
    const struct solver_ops *ops;
    struct solver *solver;
    const struct problem *p;
    const struct solve_limits *limits;
    const struct solve_control *control;
    const struct solve_evaluator *evaluator;
    const struct mat *A;
    struct step_report at;
    struct progress progress;
    double began;                 /* of this solve; control->started is of the job */
    double last_report;           /* -INFINITY: none yet */
    double known;                 /* the last fraction a solver gave itself */
    double eval_spent, eval_last; /* seconds */
    int64_t evaluations;
    int64_t usable_steps;
    int64_t entries_before;
};

static double now(const struct drive *d)
{
    return d->control->now(d->control->context);
}

static bool cancelled(const struct drive *d)
{
    return d->control->cancelled != NULL && d->control->cancelled(d->control->context);
}

/* The iteration's share where the solver cannot tell: the largest of the residual's way to the
 * tolerance in decades, the iterations' to their limit, and the clock's to the budget. */
static double guess_fraction(const struct drive *d, double elapsed)
{
    const double rel = d->at.relative_residual;
    double share = (double)d->at.iteration / (double)d->limits->max_iterations;
    if (rel > 0 && rel < 1 && d->limits->tolerance < 1) {
        share = fmax(share, log(rel) / log(d->limits->tolerance));
    }
    share = fmax(share, elapsed / d->limits->time_budget_s);
    return d->known + (0.95 - d->known) * fmin(share, 1.0);
}

static void update_progress(struct drive *d, const char *phase, double t)
{
    struct progress *p = &d->progress;
    const double elapsed = t - d->control->started, solving = t - d->began;
    if (!isnan(d->at.fraction)) {
        d->known = fmin(fmax(d->known, d->at.fraction), 1.0);
    }
    const double f = isnan(d->at.fraction) ? guess_fraction(d, elapsed) : d->known;
    p->fraction = fmax(p->fraction, f);
    p->phase = phase;
    p->iteration = d->at.iteration;
    p->relative_residual = d->at.relative_residual;
    p->elapsed_s = elapsed;
    p->eta_s = p->fraction > 0.02 ? solving * (1.0 - p->fraction) / p->fraction : (double)NAN;
    const int64_t entries = d->p->be->kernel_entries - d->entries_before;
    p->kernel_entries_per_s = solving > 0 ? (double)entries / solving : (double)NAN;
}

static void report(struct drive *d, const char *phase, bool always)
{
    const double t = now(d);
    if (d->control->report == NULL ||
        (!always && t - d->last_report < d->control->report_every_s)) {
        return;
    }
    update_progress(d, phase, t);
    d->control->report(d->control->context, &d->progress);
    d->last_report = t;
}

/* The first evaluation waits until it is a twentieth of the iterations so far, later ones until the
 * seconds of all of them are. */
static bool evaluation_due(const struct drive *d)
{
    if (d->evaluator == NULL || !d->at.usable) {
        return false;
    }
    if (d->evaluations == 0) {
        return (double)d->usable_steps * metrics_share >= d->evaluator->cost;
    }
    return d->eval_spent + d->eval_last <= metrics_share * (now(d) - d->began);
}

static int evaluate(struct drive *d, struct err *err)
{
    const double start = now(d);
    const int r = d->evaluator->evaluate(d->evaluator->context, d->A, &d->progress.metrics, err);
    d->eval_last = now(d) - start;
    d->eval_spent += d->eval_last;
    d->evaluations++;
    return r;
}

/* Steps until a reason to stop: positive, or a negative error of the solver's. */
static int iterate(struct drive *d, struct err *err)
{
    for (;;) {
        if (cancelled(d)) {
            return REASON_CANCELLED;
        }
        if (now(d) - d->control->started >= d->limits->time_budget_s) {
            return REASON_TIME_BUDGET;
        }
        int r = d->ops->step(d->solver, &d->at, err);
        if (r != 0) {
            return r;
        }
        if (d->at.iteration >= d->limits->max_iterations) {
            return REASON_ITERATION_LIMIT;
        }
        d->usable_steps += d->at.usable;
        if (evaluation_due(d)) {
            r = d->ops->coef(d->solver, d->A, err);
            if (r == 0) {
                r = evaluate(d, err);
            }
            if (r < 0) {
                return r;
            }
        }
        report(d, d->at.phase, false);
    }
}

/* Errors that are results of a solve; other errors stay what they are. */
static int reason_of_error(int r)
{
    switch (-r) {
    case ERR_NO_MEMORY:
        return REASON_OUT_OF_MEMORY;
    case ERR_DIVERGED:
        return REASON_DIVERGED;
    case ERR_NOT_POSITIVE_DEFINITE:
        return REASON_NOT_POSITIVE_DEFINITE;
    case ERR_CANCELLED:
        return REASON_CANCELLED;
    default:
        return r;
    }
}

/* A reason that promises a model although there are no coefficients yet becomes one that does not.
 */
static int without_coefficients(const struct drive *d, int reason, struct err *err)
{
    if (reason == REASON_BREAKDOWN) {
        err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/kernel",
               "The first search direction has non-positive curvature: the regularized kernel "
               "matrix is not positive definite in this precision. Raise `regularization`, or "
               "choose a positive definite kernel.");
        return REASON_NOT_POSITIVE_DEFINITE;
    }
    if (reason == REASON_TIME_BUDGET) {
        err_at(err, ERR_TOO_LARGE, "#/stop/time_budget_s",
               "The time budget of %g s was spent before the method had any coefficients (phase: "
               "%s).",
               d->limits->time_budget_s, d->at.phase != NULL ? d->at.phase : "loading");
    } else {
        err_set(err, ERR_INTERNAL, "The method stopped before it had any coefficients.");
    }
    return REASON_FAILED;
}

/* Coefficients into A, the certificate, the metrics. Returns the reason, corrected by what the
 * certificate says. */
static int conclude(struct drive *d, int reason, const struct kernel *kernel,
                    const struct rows *host, double *ret_residual, struct err *err)
{
    report(d, "certifying", true);
    double residual = NAN;
    int r = d->ops->coef(d->solver, d->A, err);
    if (r == 0) {
        r = certify_residual(d->p, kernel, host, d->A, &residual, err);
    }
    if (r == 0 && !isfinite(residual)) {
        r = err_set(err, ERR_DIVERGED, "The coefficients hold infinity or NaN.");
    }
    if (r == 0 && d->evaluator != NULL) {
        r = evaluate(d, err);
    }
    if (r < 0) {
        return r;
    }
    d->at.fraction = 1.0;
    report(d, "saving", true); /* the metrics of the coefficients that are handed out */
    *ret_residual = residual;
    const bool reached = residual <= certificate_slack * d->limits->tolerance;
    return reason == REASON_CONVERGED && !reached ? REASON_STAGNATED : reason;
}

static int drive(struct drive *d, const struct solver_options *options, const struct kernel *kernel,
                 const struct rows *host, double *ret_residual, struct err *err)
{
    int r = d->ops->setup(d->p, options, &d->solver, err);
    if (r == 0) {
        r = iterate(d, err);
    }
    if (r > 0 && reason_gives_model((enum reason)r)) {
        if (!d->at.usable) {
            r = without_coefficients(d, r, err);
        } else if (cancelled(d)) {
            r = REASON_CANCELLED;
        } else {
            r = conclude(d, r, kernel, host, ret_residual, err);
        }
    }
    d->ops->teardown(d->solver);
    return r < 0 ? reason_of_error(r) : r;
}

/* A = 0 for outcomes that have no coefficients. */
static int clear(const struct problem *p, const struct mat *A, struct err *err)
{
    cleanup_mem double *zero = mem_zarray((size_t)p->t, sizeof(double));
    if (zero == NULL) {
        return err_no_memory(err);
    }
    return p->be->ops->col_axpby(p->be, zero, &p->Y, zero, A, err);
}

int solve_run(const struct solver_ops *ops, const struct problem *p,
              const struct solver_options *options, const struct solve_limits *limits,
              const struct solve_control *control, const struct solve_evaluator *evaluator,
              const struct kernel *kernel, const struct rows *host, const struct mat *A,
              struct solve_outcome *ret, struct err *err)
{
    struct drive d = {
        .ops = ops,
        .p = p,
        .limits = limits,
        .control = control,
        .evaluator = evaluator,
        .A = A,
        .at = {.fraction = 0, .relative_residual = NAN},
        .progress = progress_none(),
        .last_report = -INFINITY,
        .entries_before = p->be->kernel_entries,
    };
    d.began = now(&d);
    double residual = 1.0;
    const int reason = drive(&d, options, kernel, host, &residual, err);
    if (reason < 0) {
        return reason;
    }
    const bool model = reason_gives_model((enum reason)reason);
    if (!model) {
        const int r = clear(p, A, NULL);
        if (r < 0 && reason != REASON_OUT_OF_MEMORY) {
            return err_no_memory(err);
        }
    }
    *ret = (struct solve_outcome){
        .reason = (enum reason)reason,
        .iterations = d.at.iteration,
        .relative_residual = residual,
        .metrics = model ? d.progress.metrics : metrics_none(),
        .seconds = now(&d) - d.began,
        .rank = d.at.rank,
    };
    return 0;
}
