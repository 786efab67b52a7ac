/*
 * What is left of a job's time budget decides, where it began slower than its plan had it: other
 * work on the machine, say. A smaller model is worth more than none. What the rest would take
 * follows from its plan by rates of this moment (pace.h). Made by one attempt for all (choose.h).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/fit/fit_parts.h"
#include "engine/memory.h"
#include "engine/solve/pace.h"
#include "plan/plan.h"
#include "plan/rules.h"

/* Of what is left, for all until there are coefficients: what was planned may have the first share,
 * since its plan has counted on some of it; what takes its place is to be safe. */
static const double planned_share = 0.8, hurried_share = 0.5;
/* Fewer centers are no model. */
enum { LEAST_CENTERS = 10 };

double fit__elapsed(const struct fit *f)
{
    return f->earlier.elapsed_s + f->control->now(f->control->context) - f->control->started;
}

bool fit__late(void *context)
{
    const struct fit *f = context;
    return fit__elapsed(f) >= rule_choice_limit(f->spec->stop.time_budget_s);
}

/* Whether the clock decides: not against what an earlier attempt has begun and this one goes on
 * with, nor on a device, which other work on the machine does not slow down. */
static bool hurried(const struct fit *f)
{
    return isfinite(f->spec->stop.time_budget_s) && !f->resumes && f->be->isa != NULL;
}

static struct plan_machine machine_now(const struct fit *f, const struct plan_rates *rates)
{
    struct plan_machine m = plan_machine_unknown();
    m.free_bytes = memory_available_on(f->be);
    m.rates = *rates;
    return m;
}

/* The job with what is settled by now. */
static struct job_spec settled_spec(const struct fit *f)
{
    struct job_spec ret = *f->spec; /* borrows what the spec owns */
    ret.kernel.method = catalog_find(CATALOG_KERNELS, kernel_name(f->kernel.id));
    ret.kernel.kind = SPEC_BANDWIDTH_SCALAR;
    ret.regularization = f->result.regularization;
    ret.open_regularization = false;
    ret.search = (struct search_spec){0};
    return ret;
}

/* Seconds until there are coefficients: the setup and a first iteration. */
static double seconds_to_coefficients(const struct fit *f, const struct job_spec *spec,
                                      const struct dataset *file, const struct plan_rates *rates)
{
    const struct plan_data data = {
        .train = &f->data.train->info,
        .test = spec->test.kind == SPEC_TEST_DATASET ? &f->data.tested->info : NULL,
        .centers = file != NULL ? &file->info : NULL,
    };
    const struct plan_machine machine = machine_now(f, rates);
    struct plan p;
    plan_make(spec, &data, &machine, &p);
    return p.setup_s + p.iteration_s;
}

/* ---- centers ---- */

static double seconds_of_centers(const struct fit *f, int64_t count, const struct plan_rates *rates)
{
    struct job_spec spec = settled_spec(f);
    spec.centers.count = count;
    return seconds_to_coefficients(f, &spec, NULL, rates);
}

static int64_t timely_count(const struct fit *f, int64_t planned, double left_s,
                            const struct plan_rates *rates)
{
    int64_t m = planned;
    if (seconds_of_centers(f, m, rates) <= planned_share * left_s) {
        return m;
    }
    while (m / 2 >= LEAST_CENTERS && seconds_of_centers(f, m, rates) > hurried_share * left_s) {
        m /= 2;
    }
    return m;
}

int fit__timely_centers(struct fit *f, const struct dataset *file, int64_t planned, struct err *err)
{
    const struct job_spec *spec = f->spec;
    struct plan_rates rates;
    if (!hurried(f) || !f->open_centers || file != NULL ||
        (spec->centers.count == 0 && spec->centers.method->weighted)) {
        return 0;
    }
    const int r = pace_measure(f->be, f->control->now, f->control->context, &rates, err);
    if (r < 0) {
        return r;
    }
    const double left_s = spec->stop.time_budget_s - fit__elapsed(f);
    const int64_t count = timely_count(f, planned, left_s, &rates);
    if (count < planned) {
        f->chosen.centers = count;
        f->choice_made = true;
        fit__say(f, "warning",
                 "Of the time budget of %g s %.3g s are left, too few for %" PRId64
                 " centers at the machine's present pace: the model has %" PRId64 ".",
                 spec->stop.time_budget_s, fmax(left_s, 0.0), planned, count);
    }
    return 0;
}

/* ---- full models ---- */

static double seconds_of_solver(const struct fit *f, const char *name, int hurry,
                                const struct plan_rates *rates)
{
    struct job_spec spec = settled_spec(f);
    const struct method_def *method = catalog_find(CATALOG_SOLVERS, name);
    const struct method_def *precond = hurry == HURRY_MOST
                                           ? catalog_find(CATALOG_PRECONDITIONERS, "none")
                                           : catalog_list(CATALOG_PRECONDITIONERS);
    spec.solver.method = method;
    param_read(method->params, NULL, NULL, &spec.solver.params, NULL);
    if (method->has_preconditioner) {
        spec.solver.preconditioner = precond;
        param_read(precond->params, NULL, NULL, &spec.solver.preconditioner_params, NULL);
    }
    return seconds_to_coefficients(f, &spec, NULL, rates);
}

static int timely_hurry(const struct fit *f, const char *planned, double left_s,
                        const struct plan_rates *rates)
{
    if (seconds_of_solver(f, planned, HURRY_NONE, rates) <= planned_share * left_s) {
        return HURRY_NONE;
    }
    return seconds_of_solver(f, "pcg", HURRY_ITERATE, rates) <= hurried_share * left_s
               ? HURRY_ITERATE
               : HURRY_MOST;
}

int fit__timely_solver(struct fit *f, const char *planned, struct err *err)
{
    struct plan_rates rates;
    if (!hurried(f) || f->restricted) {
        return 0;
    }
    const int r = pace_measure(f->be, f->control->now, f->control->context, &rates, err);
    if (r < 0) {
        return r;
    }
    const double left_s = f->spec->stop.time_budget_s - fit__elapsed(f);
    f->chosen.hurry = timely_hurry(f, planned, left_s, &rates);
    if (f->chosen.hurry != HURRY_NONE) {
        f->choice_made = true;
        fit__say(f, "warning",
                 "Of the time budget of %g s %.3g s are left, too few for %s at the machine's "
                 "present pace: pcg%s has coefficients sooner.",
                 f->spec->stop.time_budget_s, fmax(left_s, 0.0), planned,
                 f->chosen.hurry == HURRY_MOST ? " without a preconditioner" : "");
    }
    return 0;
}
