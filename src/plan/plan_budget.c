/*
 * What a job should be warned of, and what a time budget makes of it, by the seconds of its plan.
 * Until its setup and a first iteration are done a method has nothing to hand out, and a direct one
 * until it has ended: a budget that is spent by then leaves no model.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/rules.h"

/* The share of the budget that what comes before a chosen method's iterations may have: it must not
 * fail where a machine is slower than usual. */
static const double budget_setup_share = 0.5;
/* What comes after the iterations is not in the budget; more than this share of it is told. */
static const double budget_finish_share = 0.5;

/* Iterations that a method is given where it is chosen for a budget. On centers the test error
 * stands after some six, and twice the centers are worth more (adr/0050). */
static double budget_iterations(bool restricted)
{
    return restricted ? 8.0 : 20.0;
}

/* As the plan has them. `iterations` is 0 of a direct method. */
struct needed {
    double setup_s, iteration_s, finish_s, iterations;
};

/* False: the job has no budget, or nobody knows its seconds. */
static bool read_needed(const struct job_spec *spec, const struct json *plan, struct needed *ret)
{
    const struct json *s = json_get(plan, "seconds");
    if (isinf(spec->stop.time_budget_s) || s == NULL || json_type(s) != JSON_OBJECT) {
        return false;
    }
    *ret = (struct needed){.setup_s = json_number(json_get(s, "setup")),
                           .iteration_s = json_number(json_get(s, "iteration")),
                           .finish_s = json_number(json_get(s, "finish")),
                           .iterations = json_number(json_get(s, "iterations"))};
    return true;
}

bool plan_in_time(const struct job_spec *spec, const struct json *plan)
{
    const double budget = spec->stop.time_budget_s;
    struct needed n;
    if (!read_needed(spec, plan, &n)) {
        return true;
    }
    const double most = budget_iterations(json_bool(json_get(plan, "restricted")));
    const double iterating = fmin(n.iterations, most) * n.iteration_s;
    return n.setup_s <= budget_setup_share * budget && n.setup_s + iterating + n.finish_s <= budget;
}

/* ---- warnings ---- */

static void warn(struct json *to, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void warn(struct json *to, const char *code, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct json *w = json_push(to, json_new_object());
    json_set_string(w, "code", code);
    json_set_string(w, "detail", text);
}

static const char time_budget[] = "time_budget";

/* `bandwidths`: that a search tries, as long as half of the budget is left to the model. */
static void warn_of_budget(const struct needed *n, double budget, bool restricted,
                           int64_t bandwidths, struct json *to)
{
    const double before_s = n->setup_s + fmin(n->iterations, 1.0) * n->iteration_s;
    const double room = floor((budget - n->setup_s) / n->iteration_s);
    if (before_s > budget && bandwidths > 1) {
        warn(to, time_budget,
             "The time budget of %g s may end the search before all of its %lld bandwidths are "
             "tried, or the job without a model: by its plan it takes %.3g s until all are tried "
             "and there are any coefficients.",
             budget, (long long)bandwidths, before_s);
        return;
    }
    if (before_s > budget) {
        warn(to, time_budget,
             "The time budget of %g s may end the job without a model: by its plan it takes %.3g s "
             "until there are any coefficients. Allow more time, or ask for %s.",
             budget, before_s, restricted ? "fewer centers" : "a model on centers");
        return;
    }
    if (n->iterations > 0 && room < fmin(n->iterations, budget_iterations(restricted))) {
        warn(to, time_budget,
             "By its plan the job has time for %.0f of its iterations, and may end before it "
             "converges: the time budget is %g s.",
             room, budget);
    }
    if (n->finish_s > budget_finish_share * budget) {
        warn(to, time_budget,
             "By its plan the job takes %.3g s after its time budget of %g s, for its certificate "
             "and the test rows.",
             n->finish_s, budget);
    }
}

/* A job that left its solver open has a full model of many rows where its search has folds. */
static void warn_of_rows(const struct job_spec *spec, const struct json *plan, struct json *to)
{
    const struct json *device = json_get(json_get(plan, "memory"), "device_limit_bytes");
    const double rows = json_number(json_get(plan, "train_rows"));
    const bool own_memory = json_type(device) == JSON_NUMBER;
    if (spec->search.folds > 0 && strcmp(spec->solver.method->name, "auto") == 0 &&
        rows > (double)rule_full_rows(own_memory)) {
        warn(to, "many_rows",
             "Folds are for full models: the job trains one on %.0f rows, see its plan's seconds. "
             "A search that leaves out one row at a time goes with centers.",
             rows);
    }
}

/* Metrics of rows that the model has seen are no measure of others, and a promotion that goes by
 * them promotes any model that remembers. */
static void warn_of_test(const struct job_spec *spec, struct json *to)
{
    if (spec->test.kind == SPEC_TEST_DATASET && strcmp(spec->test.dataset, spec->dataset) == 0) {
        warn(to, "tested_on_training_data",
             "The test data set is the training data set: its metrics say nothing of other rows%s.",
             spec->promote.count > 0 ? ", and the promotion's conditions go by them" : "");
    }
}

void plan_warn(const struct job_spec *spec, struct json *plan)
{
    struct json *to = json_set_array(plan, "warnings");
    const int64_t bandwidths = spec->search.wanted ? search_bandwidths(&spec->search) : 0;
    struct needed n;
    warn_of_rows(spec, plan, to);
    warn_of_test(spec, to);
    if (read_needed(spec, plan, &n)) {
        warn_of_budget(&n, spec->stop.time_budget_s, json_bool(json_get(plan, "restricted")),
                       bandwidths, to);
    }
}
