#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/experience.h"
#include "plan/rules.h"

static const char *const text_keys[KIND_TEXTS] = {
    [KIND_SOLVER] = "solver",       [KIND_PRECONDITIONER] = "preconditioner",
    [KIND_SELECTOR] = "selector",   [KIND_KERNEL] = "kernel",
    [KIND_PRECISION] = "precision", [KIND_VERSION] = "version",
};
static const char *const number_keys[KIND_NUMBERS] = {
    [KIND_OWN_MEMORY] = "own_memory", [KIND_THREADS] = "threads",
    [KIND_RESTRICTED] = "restricted", [KIND_KEPT] = "keeps_kernel_values",
    [KIND_SEARCHED] = "searched",
};
static const char *const size_keys[KIND_SIZES] = {
    [KIND_ROWS] = "train_rows", [KIND_CENTERS] = "centers", [KIND_FEATURES] = "features",
    [KIND_TARGETS] = "targets", [KIND_RANK] = "rank",       [KIND_BLOCK] = "block_rows",
};
/* In a plan's `seconds` and in its `experience`, in a result's `phases`, in a record. */
static const char *const planned_keys[PLAN_PHASES] = {"setup", "iteration", "finish", "choice"};
static const char *const factor_keys[PLAN_PHASES] = {"setup_factor", "iteration_factor",
                                                     "finish_factor", "choice_factor"};
static const char *const used_keys[PLAN_PHASES] = {"setup_s", "iterations_s", "finish_s",
                                                   "choice_s"};
static const char speed_key[] = "log2_speed";
static const char *const log_keys[PLAN_PHASES] = {"log_setup", "log_iteration", "log_finish",
                                                  "log_choice"};

static double number_or_nan(const struct json *from, const char *key)
{
    const struct json *j = json_get(from, key);
    return j != NULL && json_type(j) == JSON_NUMBER ? json_number(j) : (double)NAN;
}

/* ---- kinds ---- */

static void set_text(struct experience_kind *k, int which, const char *text)
{
    snprintf(k->texts[which], KIND_TEXT_SIZE, "%s", text != NULL ? text : "");
}

/* A whole number from 0 on, or null, which is 0. */
static bool take_count(const struct json *from, const char *key, int64_t *ret)
{
    const struct json *j = json_get(from, key);
    *ret = 0;
    return j != NULL &&
           (json_type(j) == JSON_NULL || (json_take_int(from, key, ret, NULL) == 0 && *ret >= 0));
}

/* NaN where the plan has no rates. Those of near rows are left out: older records have none. */
static double log2_speed(const struct json *rates)
{
    double sum = 0;
    int64_t count = 0;
    for (const struct json *rate = json_first(rates); rate != NULL; rate = json_next(rate)) {
        const bool near = strncmp(json_key(rate), "near_", strlen("near_")) == 0;
        sum += near ? 0 : log2(json_number(rate));
        count += !near;
    }
    return count > 0 && isfinite(sum) ? sum / (double)count : (double)NAN;
}

bool experience_kind_read(const struct job_spec *spec, const struct json *plan,
                          struct experience_kind *ret)
{
    static const int planned[] = {KIND_SOLVER, KIND_PRECONDITIONER, KIND_KERNEL, KIND_PRECISION};
    *ret = (struct experience_kind){.numbers = {0}};
    for (size_t i = 0; i < sizeof(planned) / sizeof(planned[0]); i++) {
        set_text(ret, planned[i], json_string(json_get(plan, text_keys[planned[i]])));
    }
    set_text(ret, KIND_SELECTOR, spec->centers.method != NULL ? spec->centers.method->name : "");
    set_text(ret, KIND_VERSION, KRRD_VERSION);
    bool whole = take_count(plan, "threads", &ret->numbers[KIND_THREADS]);
    for (int i = 0; i < KIND_SIZES; i++) {
        whole = take_count(plan, size_keys[i], &ret->sizes[i]) && whole;
    }
    const struct json *device = json_get(json_get(plan, "memory"), "device_limit_bytes");
    ret->numbers[KIND_OWN_MEMORY] = json_type(device) == JSON_NUMBER;
    ret->numbers[KIND_RESTRICTED] = json_bool(json_get(plan, "restricted"));
    ret->numbers[KIND_KEPT] = json_bool(json_get(plan, "keeps_kernel_values"));
    ret->numbers[KIND_SEARCHED] = spec->search.wanted;
    if (!ret->numbers[KIND_RESTRICTED]) {
        ret->sizes[KIND_CENTERS] = 0; /* a plan names its rows */
    }
    ret->log2_speed = log2_speed(json_get(plan, "rates"));
    return whole && device != NULL && !isnan(ret->log2_speed);
}

/* ---- correcting ---- */

/* Of the choice, what is in the setup. */
static double counted_choice(const struct job_spec *spec, double choice_s)
{
    return fmin(choice_s, rule_choice_limit(spec->stop.time_budget_s));
}

/* Those of a plan, as its formulas had them, setup without the choice; false: there are none. Plans
 * of earlier versions have the choice within the rest. */
static bool uncorrected(const struct job_spec *spec, const struct json *seconds,
                        double ret[PLAN_PHASES])
{
    const struct json *experience = json_get(seconds, "experience");
    const bool corrected = experience != NULL && json_type(experience) == JSON_OBJECT;
    bool whole = true;
    double planned[PLAN_PHASES];
    for (int p = 0; p < PLAN_PHASES; p++) {
        const bool there = p != PLAN_CHOICE || json_get(seconds, planned_keys[p]) != NULL;
        planned[p] = there ? number_or_nan(seconds, planned_keys[p]) : 0.0;
    }
    planned[PLAN_SETUP] -= counted_choice(spec, planned[PLAN_CHOICE]);
    for (int p = 0; p < PLAN_PHASES; p++) {
        const double factor = corrected ? number_or_nan(experience, factor_keys[p]) : 1.0;
        ret[p] = planned[p] > 0 ? planned[p] / factor : planned[p];
        whole = whole && isfinite(ret[p]) && ret[p] >= 0;
    }
    return whole;
}

static void set_experience(const struct experience_factors *f, struct json *seconds)
{
    struct json *j = json_set_object(seconds, "experience");
    json_set_int(j, "jobs", f->jobs);
    for (int p = 0; p < PLAN_PHASES; p++) {
        json_set_number(j, factor_keys[p], f->of[p]);
    }
}

void experience_correct(const struct experience *e, const struct job_spec *spec, struct json *plan)
{
    const struct json *before = json_get(plan, "seconds");
    const double iterations = number_or_nan(before, "iterations");
    struct experience_kind kind;
    double of[PLAN_PHASES];
    if (!experience_kind_read(spec, plan, &kind) || !uncorrected(spec, before, of)) {
        return;
    }
    const struct experience_factors f = experience_factors(e, &kind);
    if (f.jobs == 0) {
        return;
    }
    struct json *seconds = json_set_object(plan, "seconds");
    for (int p = 0; p < PLAN_PHASES; p++) {
        of[p] *= f.of[p];
    }
    of[PLAN_SETUP] += counted_choice(spec, of[PLAN_CHOICE]);
    for (int p = 0; p < PLAN_PHASES; p++) {
        json_set_number(seconds, planned_keys[p], of[p]);
    }
    const double work = of[PLAN_SETUP] + iterations * of[PLAN_ITERATION];
    json_set_number(seconds, "iterations", iterations);
    json_set_number(seconds, "total", fmin(work, spec->stop.time_budget_s) + of[PLAN_FINISH]);
    set_experience(&f, seconds);
}

/* ---- records ---- */

/* Whether a job planned for a device with memory of its own, or without, ran on such a one. */
static bool as_planned(const struct experience_kind *kind, const char *device)
{
    const bool cpu = strncmp(device, "cpu", 3) == 0;
    return cpu != (kind->numbers[KIND_OWN_MEMORY] != 0);
}

static double log_ratio(double planned, double used_s, double count)
{
    const bool long_enough = used_s >= EXPERIENCE_LEAST_S && count >= 1;
    return long_enough && planned > 0 ? log(used_s / count / planned) : (double)NAN;
}

/* Whether all that was planned of a phase was done, as far as one can tell. */
static bool whole(const struct job_spec *spec, const struct json *phases, enum reason reason,
                  int phase)
{
    if (phase == PLAN_CHOICE && json_bool(json_get(phases, "choice_cut_off"))) {
        return false;
    }
    const bool limited = spec->search.wanted && isfinite(spec->stop.time_budget_s);
    return phase == PLAN_ITERATION ||
           (reason != REASON_TIME_BUDGET && !(phase == PLAN_SETUP && limited));
}

/* The setup without the choice. */
static double used_seconds(const struct json *phases, int phase)
{
    const double used = number_or_nan(phases, used_keys[phase]);
    return phase == PLAN_SETUP ? used - number_or_nan(phases, used_keys[PLAN_CHOICE]) : used;
}

bool experience_record_make(const struct job_spec *spec, const struct json *plan,
                            const struct json *result, enum reason reason, const char *device,
                            struct experience_record *ret)
{
    const struct json *phases = json_get(result, "phases"), *grid = json_get(result, "grid");
    double planned[PLAN_PHASES];
    if (json_type(grid) == JSON_ARRAY || !reason_gives_model(reason) ||
        !experience_kind_read(spec, plan, &ret->kind) || !as_planned(&ret->kind, device) ||
        !uncorrected(spec, json_get(plan, "seconds"), planned)) {
        return false;
    }
    bool teaches = false;
    for (int p = 0; p < PLAN_PHASES; p++) {
        const bool iterations = p == PLAN_ITERATION;
        const double used = used_seconds(phases, p);
        const double count = iterations ? number_or_nan(result, "iterations") : 1.0;
        ret->log_ratio[p] =
            whole(spec, phases, reason, p) ? log_ratio(planned[p], used, count) : (double)NAN;
        teaches = teaches || !isnan(ret->log_ratio[p]);
    }
    return teaches;
}

struct json *experience_record_write(const struct experience_record *r)
{
    struct json *j = json_new_object();
    for (int i = 0; i < KIND_TEXTS; i++) {
        json_set_string(j, text_keys[i], r->kind.texts[i]);
    }
    for (int i = 0; i < KIND_NUMBERS; i++) {
        json_set_int(j, number_keys[i], r->kind.numbers[i]);
    }
    for (int i = 0; i < KIND_SIZES; i++) {
        json_set_int(j, size_keys[i], r->kind.sizes[i]);
    }
    json_set_number(j, speed_key, r->kind.log2_speed);
    for (int p = 0; p < PLAN_PHASES; p++) {
        json_set_number(j, log_keys[p], r->log_ratio[p]);
    }
    return j;
}

bool experience_record_read(const struct json *from, struct experience_record *ret)
{
    bool whole = true, teaches = false;
    *ret = (struct experience_record){.kind = {.numbers = {0}}};
    for (int i = 0; i < KIND_TEXTS; i++) {
        const char *text = json_string(json_get(from, text_keys[i]));
        set_text(&ret->kind, i, text);
        whole = whole && text != NULL;
    }
    for (int i = 0; i < KIND_NUMBERS; i++) {
        whole = take_count(from, number_keys[i], &ret->kind.numbers[i]) && whole;
    }
    for (int i = 0; i < KIND_SIZES; i++) {
        whole = take_count(from, size_keys[i], &ret->kind.sizes[i]) && whole;
    }
    for (int p = 0; p < PLAN_PHASES; p++) {
        ret->log_ratio[p] = number_or_nan(from, log_keys[p]);
        teaches = teaches || !isnan(ret->log_ratio[p]);
    }
    ret->kind.log2_speed = number_or_nan(from, speed_key);
    return whole && teaches && !isnan(ret->kind.log2_speed);
}
