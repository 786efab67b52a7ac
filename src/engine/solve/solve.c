#include "engine/solve/solve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/solve/certify.h"
#include "engine/solve/solve_parts.h"

/* How often a long product asks whether it is still wanted. */
static const double ask_every_s = 0.05;
/* What certificates may exceed the tolerance by: the same sums in another order. */
static const double certificate_slack = 1.01;

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
    if (solve__iterates(d) && isnan(d->iterating) && !d->ops->direct) {
        d->iterating = t;
    }
}

/* An iteration may be several steps. */
static int take_step(struct drive *d, struct err *err)
{
    const int64_t before = d->at.iteration, *entries = &d->p->be->kernel_entries;
    d->stepping = true;
    const int r = d->ops->step(d->solver, &d->at, err);
    d->stepping = false;
    if (d->at.iteration == before + 1) {
        d->iteration_entries = (double)(*entries - d->iteration_from);
    }
    if (d->at.iteration > before || !solve__iterates(d)) {
        d->iteration_from = *entries;
    }
    return r;
}

/* Steps until a reason to stop: positive, or a negative error of the solver's. */
static int iterate(struct drive *d, struct err *err)
{
    for (;;) {
        const double began = solve__now(d);
        if (solve__cancelled(d)) {
            return REASON_CANCELLED;
        }
        if (solve__paused(d)) {
            return solve__pause_here(d);
        }
        if (solve__elapsed(d, began) >= d->limits->time_budget_s) {
            return REASON_TIME_BUDGET;
        }
        int r = take_step(d, err);
        note_iteration(d, began);
        if (r <= 0) { /* what the last step notes waits for its certificate */
            tell_note(d);
        }
        if (r != 0) {
            return r;
        }
        if (d->at.iteration >= d->limits->max_iterations) {
            return REASON_ITERATION_LIMIT;
        }
        d->usable_steps += d->at.usable;
        if (solve__evaluation_due(d)) {
            const int64_t entries = d->p->be->kernel_entries;
            r = d->ops->coef(d->solver, d->A, err);
            if (r == 0) {
                r = solve__evaluate(d, err);
            }
            d->iteration_from += d->p->be->kernel_entries - entries;
            if (r < 0) {
                return r;
            }
        }
        if (solve__save_due(d)) {
            solve__save(d);
        }
        solve__report(d, d->at.phase, false);
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
    const double t = solve__now(d);
    if (t - d->asked < ask_every_s) {
        return 0;
    }
    d->asked = t;
    solve__report_step(d, t);
    d->spent = !d->at.usable && solve__elapsed(d, t) >= d->limits->time_budget_s;
    return d->spent || solve__cancelled(d)
               ? err_set(err, ERR_CANCELLED, "%s", err_sentence(ERR_CANCELLED))
               : 0;
}

static bool cancelled_certificate(void *context)
{
    struct drive *d = context;
    solve__report(d, "certifying", false);
    return solve__cancelled(d);
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

/* The relative residual of coefficients of 0 is 1, but for rounding. */
static const double nothing = 1.0 - 1e-9;
/* From here on coefficients are told to be far from the solution, whatever ended the solve. */
static const double large = 0.1;

/* The first iterations in whitened variables may raise the plain residual and lower the other. */
static bool is_useless(const struct certificate *c)
{
    return c->residual > nothing && !(c->whitened < nothing);
}

static void warn_of_large_residual(const struct drive *d, const struct certificate *c)
{
    char text[320];
    snprintf(text, sizeof(text), "The certified relative residual of the model is %.3g: %s",
             c->residual,
             is_useless(c)
                 ? "from 1 on the coefficients of a target solve the system no better than zeros "
                   "would, so do not rely on its predictions."
                 : "from .1 on the coefficients of a target are far from those that solve the "
                   "system, and its predictions may be, too: look at the test metrics.");
    const bool coarse = d->p->dtype == DTYPE_F32 || d->p->points_dtype == DTYPE_F32;
    solve__say(d, "warning", text,
               coarse ? "Allow more iterations or time (`stop`), raise `regularization`, take "
                        "precision \"float64\", or choose another solver or preconditioner."
                      : "Allow more iterations or time (`stop`), raise `regularization`, or choose "
                        "another solver or preconditioner.");
}

/* What a solve that claimed convergence ends with when the certificate says otherwise, or 0: the
 * solver makes up for it in further steps. `more` asks it to; NULL: it cannot, and ends with
 * `otherwise`. */
static int go_on(struct drive *d, int (*more)(struct solver *s, struct err *err), int otherwise,
                 struct err *err)
{
    if (more == NULL) {
        return otherwise;
    }
    return d->at.iteration >= d->limits->max_iterations ? REASON_ITERATION_LIMIT
                                                        : more(d->solver, err);
}

/* The residual is below the tolerance and the coefficients are far from the solution all the same:
 * along directions that the residual hardly shows. */
static bool misses(const struct drive *d, const struct certificate *c)
{
    return c->whitened > SOLVE_WHITENED_SLACK * d->limits->tolerance &&
           c->distance > SOLVE_DISTANCE;
}

static void warn_of_distance(const struct drive *d, const struct certificate *c)
{
    char text[224];
    snprintf(
        text, sizeof(text),
        "The relative residual %.3g is certified, but the whitened one, in which directions of "
        "small eigenvalues of the centers' kernel matrix count as well, is %.3g:",
        c->residual, c->whitened);
    const bool coarse = d->p->points_dtype == DTYPE_F32;
    solve__say(
        d, "warning", text,
        coarse ? "the model may be far from the solution, and so its predictions. Float32 kernel "
                 "values are too coarse for such directions: take precision \"float64\"."
        : d->ops->deepen == NULL
            ? "the model may be far from the solution, and so its predictions. Set a smaller "
              "`stop.tolerance`, or take a solver that iterates in whitened variables, "
              "\"falkon\" or \"direct\"."
            : "the model may be far from the solution, and so its predictions, although the "
              "solver went on beyond the tolerance. Take one that iterates in whitened "
              "variables, \"falkon\" or \"direct\", or raise `regularization`.");
}

/* What keeps the residual above the tolerance, and what does not. */
static void warn_of_stagnation(const struct drive *d, const struct certificate *c)
{
    char text[128];
    snprintf(text, sizeof(text),
             "The relative residual stays at %.3g, above the tolerance of %.3g:", c->residual,
             d->limits->tolerance);
    solve__say(d, "warning", text,
               d->p->points_dtype == DTYPE_F32
                   ? "float32 kernel values go no further. Take precision \"float64\", or a "
                     "`stop.tolerance` that this precision reaches."
               : d->p->restricted != NULL
                   ? "rounding errors in float64 outweigh what is left. Raise `regularization` or "
                     "`stop.tolerance`, or take \"direct\", the solver with the least of them."
                   : "rounding errors in float64 outweigh what is left. Raise `regularization` or "
                     "`stop.tolerance`, or take \"cholesky\", the solver with the least of them.");
}

/* Of the system that the solver has solved. */
static int certify_solved(struct drive *d, const struct kernel *kernel, const struct rows *host,
                          struct certificate *ret, struct err *err)
{
    const struct certify_stop stop = {.asked = cancelled_certificate, .context = d};
    struct problem p = *d->p;
    struct restricted weighted;
    if (d->ops->row_weights != NULL) {
        weighted = *p.restricted;
        weighted.row_weights = d->ops->row_weights(d->solver);
        p.restricted = &weighted;
    }
    return certify(&p, kernel, host, d->A, d->p->be->kernel_entries - d->entries_before, &stop, ret,
                   err);
}

/* A model without a variance is better than none. */
static int take_posterior(struct drive *d, struct err *err)
{
    const int r = d->ops->posterior(d->solver, d->control->posterior, err);
    if (r == -ERR_NO_MEMORY) {
        solve__say(d, "warning",
                   "There was no memory for the variance of the model:", "it has its mean alone.");
        return 0;
    }
    return r;
}

/* It may have arrived without knowing, where the method looks at its residual seldom, or measures
 * it by a right-hand side that is rounding. */
static bool may_have_arrived(int reason)
{
    return reason == REASON_ITERATION_LIMIT || reason == REASON_TIME_BUDGET ||
           reason == REASON_STAGNATED || reason == REASON_BREAKDOWN;
}

/* Coefficients into A, the certificate, the metrics. Returns the reason, corrected by what the
 * certificate says, or 0: the solver knows how to go on. */
static int conclude(struct drive *d, int reason, const struct kernel *kernel,
                    const struct rows *host, struct certificate *ret, struct err *err)
{
    d->certifying = solve__now(d);
    solve__report(d, "certifying", true);
    struct certificate found = {.residual = NAN, .whitened = NAN};
    int r = d->ops->coef(d->solver, d->A, err);
    if (r == 0) {
        r = certify_solved(d, kernel, host, &found, err);
    }
    if (r == 0 && !isfinite(found.residual)) {
        r = err_set(err, ERR_DIVERGED, "The coefficients hold infinity or NaN.");
    }
    if (r == 0 && reason == REASON_BREAKDOWN && found.residual > 1) {
        return worse_than_nothing(found.residual, err);
    }
    const bool reached = found.residual <= certificate_slack * d->limits->tolerance;
    if (r == 0 && reason == REASON_CONVERGED && !reached) {
        reason = go_on(d, d->ops->refuse, REASON_STAGNATED, err);
    } else if (r == 0 && reason == REASON_CONVERGED && misses(d, &found)) {
        reason = go_on(d, d->ops->deepen, REASON_CONVERGED, err);
    }
    if (reason <= 0) {
        return reason;
    }
    const bool arrived = found.bound <= d->limits->tolerance && !misses(d, &found);
    if (r == 0 && may_have_arrived(reason) && arrived) {
        reason = REASON_CONVERGED;
    }
    if (r == 0 && d->evaluator != NULL) {
        r = solve__evaluate(d, err);
    }
    if (r == 0 && d->ops->posterior != NULL && d->control->posterior != NULL) {
        r = take_posterior(d, err);
    }
    if (r < 0) {
        return r;
    }
    if (is_useless(&found) || (found.residual > large && !reached)) {
        warn_of_large_residual(d, &found);
    } else if (reason == REASON_STAGNATED) {
        warn_of_stagnation(d, &found);
    }
    if (reached && misses(d, &found)) {
        warn_of_distance(d, &found);
    }
    d->at.fraction = 1.0;
    d->model = true;
    solve__report(d, "saving", true); /* the metrics of the coefficients that are handed out */
    *ret = found;
    return reason;
}

/* All iterations there were until now; what follows is told apart anew. */
static void note_end_of_iterations(struct drive *d)
{
    d->iterated += isnan(d->iterating) ? 0.0 : solve__now(d) - d->iterating;
    d->iterating = (double)NAN;
}

static int drive(struct drive *d, const struct solver_options *options, const struct kernel *kernel,
                 const struct rows *host, struct certificate *ret, struct err *err)
{
    struct backend *be = d->p->be;
    be->stop = stop_within;
    be->stop_context = d;
    int r = solve__set_up(d, options, err);
    while (r == 0) {
        d->certifying = (double)NAN;
        r = iterate(d, err);
        note_end_of_iterations(d);
        if (r < 0 || !reason_gives_model((enum reason)r)) {
            break;
        }
        if (!d->at.usable) {
            r = without_coefficients(d, r, err);
        } else if (solve__cancelled(d)) {
            r = REASON_CANCELLED;
        } else {
            r = conclude(d, r, kernel, host, ret, err);
            d->concluded += solve__now(d) - d->certifying;
        }
    }
    if (r != REASON_CONVERGED) {
        tell_note(d); /* of the last step, also where it has left no model */
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
        .iteration_from = p->be->kernel_entries,
        .iteration_entries = ops->whole_products && p->t == 1 ? (double)p->n * (double)p->n : NAN,
    };
    init_eta(&d);
    d.began = d.saved = solve__now(&d);
    struct certificate certificate = {.residual = 1.0, .bound = 1.0, .whitened = NAN};
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
        .whitened_residual = certificate.whitened,
        .metrics = d.model ? d.progress.metrics : metrics_none(),
        .seconds = solve__solving(&d, solve__now(&d)),
        .earlier_s = d.earlier,
        .iterations_s = d.iterated,
        .finish_s = d.concluded,
        .rank = d.at.rank,
        .model = d.model,
    };
    return 0;
}
