#include "engine/solve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/certify.h"
#include "engine/checkpoint.h"

/* The share of the time that may go into test metrics on the way. */
static const double metrics_share = 0.05;
/* And into checkpoints. */
static const double checkpoint_share = 0.02;
/* How often a long product asks whether it is still wanted. */
static const double ask_every_s = 0.05;
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
    struct eta eta;
    double certifying;            /* when the certificate began; NaN: not yet */
    double iterating;             /* when iterations did, of this attempt; NaN: not yet */
    double iterated, concluded;   /* seconds of iterations, and of certificates, of this attempt */
    double began;                 /* of this solve; control->started is of the job */
    double earlier;               /* seconds of the job before this attempt */
    double last_report;           /* -INFINITY: none yet */
    double known;                 /* the last fraction a solver gave itself */
    double eval_spent, eval_last; /* seconds */
    double save_spent, save_last; /* seconds, of this attempt */
    double saved;                 /* when the last checkpoint was taken, or this solve began */
    int64_t saves;
    int64_t evaluations;
    int64_t usable_steps;
    const char *told; /* the last note passed on */
    int64_t entries_before;
    bool model;   /* A holds the coefficients of the outcome */
    double asked; /* when a long product last did */
    bool spent;   /* the time budget was, in the midst of a step and before any coefficients */
};

static double now(const struct drive *d)
{
    return d->control->now(d->control->context);
}

static bool cancelled(const struct drive *d)
{
    return d->control->cancelled != NULL && d->control->cancelled(d->control->context);
}

static bool paused(const struct drive *d)
{
    return d->control->paused != NULL && d->control->paused(d->control->context);
}

/* Seconds of the job, and of the solve, earlier attempts included. */
static double elapsed(const struct drive *d, double t)
{
    return d->earlier + t - d->control->started;
}

static double solving(const struct drive *d, double t)
{
    return d->earlier + t - d->began;
}

static void say(const struct drive *d, const char *level, const char *first, const char *second)
{
    if (d->control->message != NULL) {
        char text[640];
        snprintf(text, sizeof(text), "%s %s", first, second);
        d->control->message(d->control->context, level, text);
    }
}

/* The iteration's share where the solver cannot tell: the largest of the residual's way to the
 * tolerance in decades, the iterations' to their limit, and the clock's to the budget. */
static double guess_fraction(const struct drive *d, double seconds)
{
    const double rel = d->at.relative_residual;
    double share = (double)d->at.iteration / (double)d->limits->max_iterations;
    if (rel > 0 && rel < 1 && d->limits->tolerance < 1) {
        share = fmax(share, log(rel) / log(d->limits->tolerance));
    }
    share = fmax(share, seconds / d->limits->time_budget_s);
    return d->known + (0.95 - d->known) * fmin(share, 1.0);
}

/* Seconds that are left, NaN where nobody knows. */
static double remaining(const struct drive *d, double t)
{
    const double seconds = elapsed(d, t);
    if (d->model) {
        return (double)NAN; /* the model is handed out */
    }
    if (!isnan(d->certifying)) {
        return eta_finishing(&d->eta, seconds, t - d->certifying);
    }
    if (d->ops->direct && !isnan(d->at.fraction)) {
        return eta_direct(&d->eta, seconds, solving(d, t), d->known);
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
    const double f = isnan(d->at.fraction) ? guess_fraction(d, elapsed(d, t)) : d->known;
    p->fraction = fmax(p->fraction, f);
    p->phase = phase;
    p->iteration = d->at.iteration;
    p->relative_residual = d->at.relative_residual;
    p->elapsed_s = elapsed(d, t);
    eta_iterated(&d->eta, d->at.iteration, d->at.relative_residual, p->elapsed_s);
    p->eta_s = remaining(d, t);
    const int64_t entries = d->p->be->kernel_entries - d->entries_before;
    p->kernel_entries_per_s = here > 0 ? (double)entries / here : (double)NAN;
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
    return d->eval_spent + d->eval_last <= metrics_share * solving(d, now(d));
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

/* ---- checkpoints ---- */

static struct checkpoint_key key_of(const struct drive *d)
{
    return (struct checkpoint_key){
        .solver = d->ops->name,
        .n = problem_size(d->p),
        .t = d->p->t,
        .dtype = d->p->dtype,
        .problem = d->control->problem,
    };
}

static bool can_save(const struct drive *d)
{
    return d->control->checkpoint != NULL && d->ops->save != NULL &&
           (d->at.usable || d->at.savable);
}

/* What cannot be kept now may be kept later: a warning, and the solve goes on. */
static void save(struct drive *d)
{
    const double start = now(d);
    const struct checkpoint_key key = key_of(d);
    const struct checkpoint_record record = {
        .elapsed_s = elapsed(d, start),
        .eval_spent = d->eval_spent,
        .eval_last = d->eval_last,
        .iterations = d->at.iteration,
        .evaluations = d->evaluations,
        .usable_steps = d->usable_steps,
        .usable = d->at.usable,
    };
    struct state *s = NULL;
    struct err err;
    int r = checkpoint_make(&key, &record, d->ops, d->solver, &s, &err);
    if (r == 0) {
        r = d->control->checkpoint(d->control->context, s, &err);
    }
    state_free(s);
    if (r < 0) {
        say(d, "warning", "A checkpoint could not be written.", err.detail);
    }
    d->saved = now(d);
    d->save_last = d->saved - start;
    d->save_spent += d->save_last;
    d->saves++;
}

static bool save_due(const struct drive *d)
{
    if (!can_save(d)) {
        return false;
    }
    const double t = now(d);
    const double share = checkpoint_share * (t - d->began);
    return t - d->saved >= d->control->checkpoint_every_s &&
           (d->saves == 0 || d->save_spent + d->save_last <= share);
}

static int pause_here(struct drive *d)
{
    if (can_save(d)) {
        save(d);
    } else {
        say(d, "info", "There is nothing to keep yet, or this method keeps nothing:",
            "a resumed job begins at its beginning.");
    }
    return REASON_PAUSED;
}

/* 1: the solver goes on from the state. 0: the state is of no use, and why has been said; the
 * solver may hold half of it. */
static int take_state(struct drive *d, struct err *err)
{
    const struct checkpoint_key key = key_of(d);
    struct checkpoint_record record;
    struct err why;
    int r = d->ops->load != NULL ? checkpoint_read(d->control->resume, &key, &record, &why)
                                 : err_set(&why, ERR_CONFLICT, "This method keeps no checkpoints.");
    if (r == 0) {
        r = d->ops->load(d->solver, d->control->resume, &why);
    }
    if (r == -ERR_NO_MEMORY) {
        return err_no_memory(err);
    }
    if (r < 0) {
        say(d, "warning", why.detail, "It is discarded: the job begins at its beginning.");
        return 0;
    }
    d->earlier = record.elapsed_s;
    d->eval_spent = record.eval_spent;
    d->eval_last = record.eval_last;
    d->evaluations = record.evaluations;
    d->usable_steps = record.usable_steps;
    d->at.iteration = record.iterations;
    d->at.usable = record.usable;
    d->at.savable = true;
    char text[96];
    snprintf(text, sizeof(text), "iteration %lld, after %.3g s of work.",
             (long long)record.iterations, record.elapsed_s);
    say(d, "info", "Resumed from the checkpoint at", text);
    return 1;
}

/* A solver set up, with the state of an earlier attempt where there is one that fits. */
static int set_up(struct drive *d, const struct solver_options *options, struct err *err)
{
    int r = d->ops->setup(d->p, options, &d->solver, err);
    if (r < 0 || d->control->resume == NULL) {
        return r;
    }
    r = take_state(d, err);
    if (d->control->taken != NULL) {
        d->control->taken(d->control->context);
    }
    if (r == 0) {
        d->ops->teardown(d->solver);
        d->solver = NULL;
        return d->ops->setup(d->p, options, &d->solver, err);
    }
    return r < 0 ? r : 0;
}

static void tell_note(struct drive *d)
{
    if (d->at.note != NULL && d->at.note != d->told && d->control->message != NULL) {
        d->control->message(d->control->context, "warning", d->at.note);
    }
    d->told = d->at.note;
}

/* A step that began at t may have been the first that does not build. */
static void note_iteration(struct drive *d, double t)
{
    const bool iterates = d->at.phase != NULL && strcmp(d->at.phase, "iterating") == 0;
    if (iterates && isnan(d->iterating) && !d->ops->direct) {
        d->iterating = t;
    }
}

/* Steps until a reason to stop: positive, or a negative error of the solver's. */
static int iterate(struct drive *d, struct err *err)
{
    for (;;) {
        const double began = now(d);
        if (cancelled(d)) {
            return REASON_CANCELLED;
        }
        if (paused(d)) {
            return pause_here(d);
        }
        if (elapsed(d, began) >= d->limits->time_budget_s) {
            return REASON_TIME_BUDGET;
        }
        int r = d->ops->step(d->solver, &d->at, err);
        note_iteration(d, began);
        tell_note(d);
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
        if (save_due(d)) {
            save(d);
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

/* The reason of a solve that ended as others do with a model, but had no coefficients yet. */
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
        return REASON_TIME_BUDGET;
    }
    err_set(err, ERR_INTERNAL, "The method stopped before it had any coefficients.");
    return REASON_FAILED;
}

/* Within a step. A pause waits for its end, and so does a budget that is spent where there are
 * coefficients to hand out. `context` is the drive. */
static int stop_within(void *context, struct err *err)
{
    struct drive *d = context;
    const double t = now(d);
    if (t - d->asked < ask_every_s) {
        return 0;
    }
    d->asked = t;
    d->spent = !d->at.usable && elapsed(d, t) >= d->limits->time_budget_s;
    return d->spent || cancelled(d) ? err_set(err, ERR_CANCELLED, "%s", err_sentence(ERR_CANCELLED))
                                    : 0;
}

static bool cancelled_certificate(void *context)
{
    struct drive *d = context;
    report(d, "certifying", false);
    return cancelled(d);
}

/* After a breakdown: coefficients with a larger residual than none at all make no model. */
static int worse_than_nothing(double residual, struct err *err)
{
    err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/kernel",
           "The iteration met a direction of non-positive curvature, and its relative residual is "
           "%.3g: the regularized kernel matrix is not positive definite in this precision. Raise "
           "`regularization`, take a higher precision, or choose a positive definite kernel.",
           residual);
    return REASON_NOT_POSITIVE_DEFINITE;
}

/* Coefficients that are handed out although they fit the targets worse than none would. */
static void warn_of_large_residual(const struct drive *d, double residual)
{
    char text[96];
    snprintf(text, sizeof(text), "The certified relative residual of the model is %.3g:", residual);
    say(d, "warning", text,
        "above 1 the coefficients solve the system worse than zeros would, so do not rely on its "
        "predictions. Allow more iterations or time (`stop`), raise `regularization`, take "
        "precision \"float64\", or choose another solver or preconditioner.");
}

/* What a solve that claimed convergence ends with when the certificate disagrees, or 0: the solver
 * makes up for it in further steps. */
static int refuse(struct drive *d, struct err *err)
{
    if (d->ops->refuse == NULL) {
        return REASON_STAGNATED;
    }
    return d->at.iteration >= d->limits->max_iterations ? REASON_ITERATION_LIMIT
                                                        : d->ops->refuse(d->solver, err);
}

/* Coefficients into A, the certificate, the metrics. Returns the reason, corrected by what the
 * certificate says, or 0: the solver knows how to go on. */
static int conclude(struct drive *d, int reason, const struct kernel *kernel,
                    const struct rows *host, struct certificate *ret, struct err *err)
{
    d->certifying = now(d);
    report(d, "certifying", true);
    struct certificate found = {.residual = NAN};
    const struct certify_stop stop = {.asked = cancelled_certificate, .context = d};
    int r = d->ops->coef(d->solver, d->A, err);
    if (r == 0) {
        r = certify(d->p, kernel, host, d->A, d->p->be->kernel_entries - d->entries_before, &stop,
                    &found, err);
    }
    if (r == 0 && !isfinite(found.residual)) {
        r = err_set(err, ERR_DIVERGED, "The coefficients hold infinity or NaN.");
    }
    if (r == 0 && reason == REASON_BREAKDOWN && found.residual > 1) {
        return worse_than_nothing(found.residual, err);
    }
    const bool reached = found.residual <= certificate_slack * d->limits->tolerance;
    if (r == 0 && reason == REASON_CONVERGED && !reached) {
        reason = refuse(d, err);
        if (reason <= 0) {
            return reason;
        }
    }
    if (r == 0 && d->evaluator != NULL) {
        r = evaluate(d, err);
    }
    if (r < 0) {
        return r;
    }
    if (found.residual > 1) {
        warn_of_large_residual(d, found.residual);
    }
    d->at.fraction = 1.0;
    d->model = true;
    report(d, "saving", true); /* the metrics of the coefficients that are handed out */
    *ret = found;
    return reason;
}

/* All iterations there were until now; what follows is told apart anew. */
static void note_end_of_iterations(struct drive *d)
{
    d->iterated += isnan(d->iterating) ? 0.0 : now(d) - d->iterating;
    d->iterating = (double)NAN;
}

static int drive(struct drive *d, const struct solver_options *options, const struct kernel *kernel,
                 const struct rows *host, struct certificate *ret, struct err *err)
{
    struct backend *be = d->p->be;
    be->stop = stop_within;
    be->stop_context = d;
    int r = set_up(d, options, err);
    while (r == 0) {
        d->certifying = (double)NAN;
        r = iterate(d, err);
        note_end_of_iterations(d);
        if (r < 0 || !reason_gives_model((enum reason)r)) {
            break;
        }
        if (!d->at.usable) {
            r = without_coefficients(d, r, err);
        } else if (cancelled(d)) {
            r = REASON_CANCELLED;
        } else {
            r = conclude(d, r, kernel, host, ret, err);
            d->concluded += now(d) - d->certifying;
        }
    }
    be->stop = NULL;
    d->ops->teardown(d->solver);
    if (r < 0 && d->spent) {
        return without_coefficients(d, REASON_TIME_BUDGET, err);
    }
    return r < 0 ? reason_of_error(r) : r;
}

static void init_eta(struct drive *d)
{
    const struct eta_plan none = eta_plan_none();
    const struct eta_limits limits = {.tolerance = d->limits->tolerance,
                                      .max_iterations = d->limits->max_iterations,
                                      .budget_s = d->limits->time_budget_s};
    eta_init(&d->eta, &limits, d->control->plan != NULL ? d->control->plan : &none);
}

/* A = 0 for outcomes that have no coefficients. */
static int clear(const struct problem *p, const struct mat *A, struct err *err)
{
    cleanup_mem double *zero = mem_zarray((size_t)(A->rows * A->cols), sizeof(double));
    return zero != NULL ? p->be->ops->mat_put(p->be, zero, A->rows, A, err) : err_no_memory(err);
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
        .asked = -INFINITY,
        .iterating = NAN,
        .entries_before = p->be->kernel_entries,
    };
    init_eta(&d);
    d.began = d.saved = now(&d);
    struct certificate certificate = {.residual = 1.0, .bound = 1.0};
    const int reason = drive(&d, options, kernel, host, &certificate, err);
    if (reason < 0) {
        return reason;
    }
    if (!d.model) {
        const int r = clear(p, A, NULL);
        if (r < 0 && reason != REASON_OUT_OF_MEMORY) {
            return err_no_memory(err);
        }
    }
    *ret = (struct solve_outcome){
        .reason = (enum reason)reason,
        .iterations = d.at.iteration,
        .relative_residual = certificate.residual,
        .relative_residual_bound = certificate.bound,
        .sampled = certificate.sampled,
        .metrics = d.model ? d.progress.metrics : metrics_none(),
        .seconds = solving(&d, now(&d)),
        .earlier_s = d.earlier,
        .iterations_s = d.iterated,
        .finish_s = d.concluded,
        .rank = d.at.rank,
        .model = d.model,
    };
    return 0;
}
