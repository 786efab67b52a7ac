#include "plan/experience.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine_fixture.h"
#include "plan/plan.h"

static struct experience_kind pcg(void)
{
    return (struct experience_kind){
        .texts = {"pcg", "rpcholesky", "", "gaussian", "mixed", "1"},
        .numbers = {[KIND_THREADS] = 2},
        .sizes = {10000, 0, 18, 1, 1000, 0},
    };
}

/* The choice took as much longer as the rest of the setup. */
static struct experience_record record(const struct experience_kind *kind, double setup,
                                       double iteration, double finish)
{
    return (struct experience_record){
        .kind = *kind, .log_ratio = {log(setup), log(iteration), log(finish), log(setup)}};
}

static struct experience *with(const struct experience_record *r, int times)
{
    struct experience *e = mem_zalloc(sizeof *e);
    for (int i = 0; i < times; i++) {
        experience_add(e, r);
    }
    return e;
}

/* What so many jobs that took 3, 0.5 and 2 times as long say of another one. */
static struct experience_factors say(int times, const struct experience_kind *kind)
{
    const struct experience_kind own = pcg();
    const struct experience_record r = record(&own, 3.0, 0.5, 2.0);
    struct experience *e = with(&r, times);
    const struct experience_factors f = experience_factors(e, kind);
    mem_free(e);
    return f;
}

static void test_nothing_known(void **state)
{
    (void)state;
    const struct experience_kind kind = pcg();
    const struct experience_factors f = say(0, &kind);
    assert_int_equal(f.jobs, 0);
    for (int p = 0; p < PLAN_PHASES; p++) {
        assert_close(f.of[p], 1.0, 0);
    }
}

/* What one record says of the machine as a whole, in the prior's stead. */
static const double lately = 0.15 / 6;

/* One job corrects nearly the whole; some more, all of it. */
static void test_the_same_job(void **state)
{
    (void)state;
    const struct experience_kind kind = pcg();
    struct experience_factors f = say(1, &kind);
    assert_int_equal(f.jobs, 1);
    assert_close(f.of[PLAN_SETUP], pow(3.0, (1 + lately) / 1.15), 1e-12);
    assert_close(f.of[PLAN_ITERATION], pow(0.5, (1 + lately) / 1.15), 1e-12);
    assert_close(f.of[PLAN_FINISH], pow(2.0, (1 + lately) / 1.15), 1e-12);
    f = say(10, &kind);
    assert_int_equal(f.jobs, 10);
    assert_close(f.of[PLAN_SETUP], 3.0, 0.03);
    assert_close(f.of[PLAN_ITERATION], 0.5, 0.03);
}

/* Twice the rows are nearly the same job, 64 times as many another one. */
static void test_sizes(void **state)
{
    (void)state;
    struct experience_kind kind = pcg();
    const double same = say(1, &kind).of[PLAN_SETUP];
    kind.sizes[KIND_ROWS] *= 2;
    const double twice = say(1, &kind).of[PLAN_SETUP];
    assert_true(twice < same && twice > 0.9 * same);
    kind.sizes[KIND_ROWS] *= 32;
    assert_close(say(1, &kind).of[PLAN_SETUP], pow(3.0, 1 / 6.0), 1e-12);
}

/* Another solver says next to nothing of setup and iterations, a little of the certificate; another
 * kernel some; another kind of device nothing at all. */
static void test_choices(void **state)
{
    (void)state;
    struct experience_kind kind = pcg();
    snprintf(kind.texts[KIND_SOLVER], KIND_TEXT_SIZE, "cholesky");
    struct experience_factors f = say(1, &kind);
    assert_close(f.of[PLAN_SETUP], pow(3.0, (0.02 + lately) / 0.17), 1e-12);
    assert_close(f.of[PLAN_ITERATION], pow(0.5, (0.02 + lately) / 0.17), 1e-12);
    assert_close(f.of[PLAN_FINISH], pow(2.0, (0.3 + lately) / 0.45), 1e-12);
    assert_close(f.of[PLAN_CHOICE], pow(3.0, (1 + lately) / 1.15), 1e-12); /* the same work */

    kind = pcg();
    snprintf(kind.texts[KIND_KERNEL], KIND_TEXT_SIZE, "matern52");
    f = say(1, &kind);
    assert_close(f.of[PLAN_SETUP], pow(3.0, (0.2 + lately) / 0.35), 1e-12);

    kind = pcg();
    kind.numbers[KIND_THREADS] = 8;
    assert_close(say(1, &kind).of[PLAN_SETUP], pow(3.0, (0.3 + lately) / 0.45), 1e-12);

    kind = pcg();
    kind.numbers[KIND_OWN_MEMORY] = 1;
    f = say(100, &kind);
    assert_int_equal(f.jobs, 0);
    assert_close(f.of[PLAN_SETUP], 1.0, 0);
}

/* However many jobs of another method there were, the one of its own says more. */
static void test_others_do_not_outvote(void **state)
{
    (void)state;
    struct experience_kind kind = pcg();
    const struct experience_record own = record(&kind, 2.0, 2.0, 2.0);
    snprintf(kind.texts[KIND_KERNEL], KIND_TEXT_SIZE, "matern52");
    const struct experience_record other = record(&kind, 0.5, 0.5, 0.5);
    struct experience *e = with(&other, 120);
    double before = experience_factors(e, &own.kind).of[PLAN_SETUP];
    const double late =
        (1 - exp2(-107 / 16.0)) / (1 - exp2(-1 / 16.0)); /* each a hundredth or more */
    assert_close(before, pow(0.5, (0.5 + 0.15 * late / (late + 5)) / 0.65), 0.01);
    experience_add(e, &own);
    experience_add(e, &own);
    assert_true(experience_factors(e, &own.kind).of[PLAN_SETUP] > 1.5);
    mem_free(e);
}

/* The machine is measured to be half as fast as before: its plans are twice as long, and what they
 * come to with experience is what it was. */
static void test_rates_measured_anew(void **state)
{
    (void)state;
    struct experience_kind kind = pcg();
    kind.log2_speed = -1;
    const struct experience_factors f = say(100, &kind);
    assert_int_equal(f.jobs, 100);
    assert_close(f.of[PLAN_SETUP], 1.5, 0.01);
    assert_close(f.of[PLAN_ITERATION], 0.25, 0.02);
    kind.log2_speed = 1;
    assert_close(say(100, &kind).of[PLAN_SETUP], 6.0, 0.02);
    kind.log2_speed = 4; /* another machine */
    assert_int_equal(say(100, &kind).jobs, 0);
}

/* Twenty jobs of many kinds took twice as long: so will one of a kind that never ran. */
static void test_a_busy_machine(void **state)
{
    (void)state;
    struct experience *e = mem_zalloc(sizeof *e);
    struct experience_kind kind = pcg();
    for (int i = 0; i < 20; i++) {
        snprintf(kind.texts[KIND_SOLVER], KIND_TEXT_SIZE, "solver%d", i);
        const struct experience_record r = record(&kind, 2.0, 2.0, 2.0);
        experience_add(e, &r);
    }
    kind.sizes[KIND_ROWS] = 1000000;
    struct experience_factors f = experience_factors(e, &kind);
    assert_int_equal(f.jobs, 20);
    for (int p = 0; p < PLAN_PHASES; p++) {
        assert_true(f.of[p] > 1.6 && f.of[p] < 2.0);
    }
    kind.numbers[KIND_OWN_MEMORY] = 1;
    f = experience_factors(e, &kind);
    assert_int_equal(f.jobs, 0);
    assert_close(f.of[PLAN_SETUP], 1.0, 0);
    mem_free(e);
}

/* A machine that has become slower: newer records count for more, and the oldest give way. */
static void test_newer_ones(void **state)
{
    (void)state;
    const struct experience_kind kind = pcg();
    const struct experience_record old = record(&kind, 1.0, 1.0, 1.0);
    const struct experience_record new = record(&kind, 2.0, 2.0, 2.0);
    struct experience *e = with(&old, 128);
    for (int i = 0; i < 128; i++) {
        experience_add(e, &new);
    }
    assert_close(experience_factors(e, &kind).of[PLAN_SETUP], 2.0, 0.05);
    assert_int_equal(experience_factors(e, &kind).jobs, 256);
    for (int i = 0; i < EXPERIENCE_RECORDS; i++) {
        experience_add(e, &new);
    }
    assert_close(experience_factors(e, &kind).of[PLAN_SETUP], 2.0, 0.01);
    assert_int_equal(experience_factors(e, &kind).jobs, EXPERIENCE_RECORDS);
    mem_free(e);
}

/* Other work makes the machine half as fast: some jobs of one kind tell of all that were known, on
 * such a device; and again once it is over. */
static void test_load_that_comes_and_goes(void **state)
{
    (void)state;
    const struct experience_kind kind = pcg();
    struct experience_kind other = kind;
    snprintf(other.texts[KIND_SOLVER], KIND_TEXT_SIZE, "cholesky");
    const struct experience_record known = record(&kind, 1.0, 1.0, 1.0);
    const struct experience_record calm = record(&other, 1.0, 1.0, 1.0);
    const struct experience_record busy = record(&other, 2.0, 2.0, 2.0);
    struct experience *e = with(&known, 40);
    for (int i = 0; i < 40; i++) {
        experience_add(e, &calm);
    }
    assert_close(experience_factors(e, &kind).of[PLAN_SETUP], 1.0, 0.001);
    for (int i = 0; i < 6; i++) {
        experience_add(e, &busy);
    }
    assert_true(experience_factors(e, &kind).of[PLAN_SETUP] > 1.2);
    for (int i = 0; i < 6; i++) {
        experience_add(e, &busy);
    }
    const double most = experience_factors(e, &other).of[PLAN_SETUP];
    assert_true(experience_factors(e, &kind).of[PLAN_SETUP] > 1.35);
    assert_true(most > 1.5 && most < 2.1);
    for (int i = 0; i < 16; i++) {
        experience_add(e, &calm);
    }
    const double after = experience_factors(e, &kind).of[PLAN_SETUP];
    assert_true(after > 0.85 && after < 1.15);
    mem_free(e);
}

/* A phase that was too short says nothing; one that took a thousand times as long, eight times. */
static void test_bounds(void **state)
{
    (void)state;
    const struct experience_kind kind = pcg();
    const struct experience_record r = record(&kind, NAN, 1000.0, 1e-4);
    struct experience *e = with(&r, 50);
    const struct experience_factors f = experience_factors(e, &kind);
    assert_int_equal(f.jobs, 50);
    assert_close(f.of[PLAN_SETUP], 1.0, 0);
    assert_close(f.of[PLAN_ITERATION], EXPERIENCE_BOUND, 0.02);
    assert_true(f.of[PLAN_ITERATION] < EXPERIENCE_BOUND);
    assert_close(f.of[PLAN_FINISH], 1 / EXPERIENCE_BOUND, 0.02);
    mem_free(e);
}

/* ---- plans ---- */

struct planned {
    struct job_spec *spec;
    struct json *plan;
};

/* On a machine that is `slow` times as slow as usual. */
static struct planned plan_slow_job(const char *fields, bool own_memory, double slow)
{
    struct dataset_info info = fixture_info(20000, 6, 0);
    const struct plan_machine machine = {
        .threads = 3,
        .own_memory = own_memory,
        .limit_bytes = 4000000000,
        .free_bytes = 4000000000,
        .device_bytes = own_memory ? 4000000000 : 0,
        .base_bytes = 10000000,
        .rates = {2e9 / slow, 1e9 / slow, 4e10 / slow, 2e10 / slow, 2e10 / slow},
    };
    struct planned p = {.spec = fixture_spec_read(fields)};
    const struct plan_data data = {.train = &info};
    struct plan plan;
    plan_make(p.spec, &data, &machine, &plan);
    p.plan = plan_to_json(&plan, &machine);
    assert_non_null(p.plan);
    dataset_info_deinit(&info);
    return p;
}

static struct planned plan_job(const char *fields, bool own_memory)
{
    return plan_slow_job(fields, own_memory, 1.0);
}

static void planned_deinit(struct planned *p)
{
    job_spec_free(p->spec);
    json_free(p->plan);
}

static double seconds(const struct planned *p, const char *key)
{
    const struct json *j = json_get(json_get(p->plan, "seconds"), key);
    assert_int_equal(json_type(j), JSON_NUMBER);
    return json_number(j);
}

static struct json *result_of(double setup_s, double iterations_s, int64_t iterations,
                              double finish_s)
{
    struct json *j = json_new_object();
    struct json *phases = json_set_object(j, "phases");
    json_set_number(phases, "setup_s", setup_s);
    json_set_number(phases, "choice_s", 0.0);
    json_set_number(phases, "iterations_s", iterations_s);
    json_set_number(phases, "finish_s", finish_s);
    json_set_int(j, "iterations", iterations);
    return j;
}

static bool learn(const struct planned *p, enum reason reason, const char *device,
                  struct experience_record *ret)
{
    /* Twice as long to set up, three times an iteration, and no time to finish. */
    struct json *result =
        result_of(2 * seconds(p, "setup"), 7 * 3 * seconds(p, "iteration"), 7, 0.04);
    const bool teaches = experience_record_make(p->spec, p->plan, result, reason, device, ret);
    json_free(result);
    return teaches;
}

#define KERNEL "'kernel':{'name':'gaussian','bandwidth':2}" /* nothing to choose */
#define SEARCHED "'solver':'pcg'," KERNEL ",'regularization':'auto','stop':{'max_iterations':100"
#define PCG "'solver':'pcg'," KERNEL ",'stop':{'max_iterations':100}"

/* A job teaches the plan of the next one like it, and that one, corrected, teaches the same. */
static void test_a_plan_learns(void **state)
{
    (void)state;
    struct planned first = plan_job(PCG, false), next = plan_job(PCG, false);
    struct experience_record r, again;
    assert_true(learn(&first, REASON_CONVERGED, "cpu", &r));
    assert_close(r.log_ratio[PLAN_SETUP], log(2.0), 1e-12);
    assert_close(r.log_ratio[PLAN_ITERATION], log(3.0), 1e-12);
    assert_true(isnan(r.log_ratio[PLAN_FINISH])); /* 40 ms */
    assert_string_equal(r.kind.texts[KIND_SOLVER], "pcg");
    assert_string_equal(r.kind.texts[KIND_SELECTOR], "");
    assert_int_equal(r.kind.numbers[KIND_THREADS], 3);
    assert_int_equal(r.kind.sizes[KIND_ROWS], 16000);
    assert_int_equal(r.kind.sizes[KIND_CENTERS], 0);
    assert_close(r.kind.log2_speed, log2(2e9 * 1e9 * 4e10 * 2e10 * 2e10) / 5, 1e-12);

    struct experience *e = with(&r, 1);
    const double plain = seconds(&next, "setup"), iteration = seconds(&next, "iteration");
    experience_correct(e, next.spec, next.plan);
    assert_close(seconds(&next, "setup"), plain * pow(2.0, (1 + lately) / 1.15), 1e-12);
    assert_close(seconds(&next, "iteration"), iteration * pow(3.0, (1 + lately) / 1.15), 1e-12);
    assert_close(seconds(&next, "finish"), seconds(&first, "finish"), 1e-12);
    assert_close(seconds(&next, "total"),
                 seconds(&next, "setup") + 100 * seconds(&next, "iteration") +
                     seconds(&next, "finish"),
                 1e-12);
    const struct json *said = json_get(json_get(next.plan, "seconds"), "experience");
    assert_close(json_number(json_get(said, "jobs")), 1, 0);
    assert_close(json_number(json_get(said, "setup_factor")), pow(2.0, (1 + lately) / 1.15), 1e-12);

    struct json *result = result_of(2 * plain, 7 * 3 * iteration, 7, 0.04);
    assert_true(
        experience_record_make(next.spec, next.plan, result, REASON_CONVERGED, "cpu", &again));
    assert_close(again.log_ratio[PLAN_SETUP], log(2.0), 1e-9);
    assert_close(again.log_ratio[PLAN_ITERATION], log(3.0), 1e-9);
    json_free(result);
    mem_free(e);
    planned_deinit(&first);
    planned_deinit(&next);
}

/* ---- what the job leaves open ---- */

#define OPEN                                                                                       \
    "'solver':'pcg','kernel':'auto','regularization':1e-6,"                                        \
    "'stop':{'max_iterations':100,'time_budget_s':20}"
static const double limit = 5; /* of the choice: a quarter of the budget */

static double rest_of(const struct planned *p)
{
    return seconds(p, "setup") - fmin(seconds(p, "choice"), limit);
}

/* All takes so many times as long as the formulas say, as one job has told. */
static double correct_all(double times, const struct planned *p)
{
    struct experience_kind kind;
    assert_true(experience_kind_read(p->spec, p->plan, &kind));
    const struct experience_record r = record(&kind, times, times, times);
    struct experience *e = with(&r, 1);
    const double factor = experience_factors(e, &kind).of[PLAN_CHOICE];
    experience_correct(e, p->spec, p->plan);
    experience_correct(e, p->spec, p->plan); /* nothing is multiplied twice */
    mem_free(e);
    return factor;
}

/* The choice ends at its limit, whether experience brings it there or it was there before. */
static void test_a_choice_ends_at_its_limit(void **state)
{
    (void)state;
    for (int slow = 1; slow <= 4; slow += 3) {
        struct planned p = plan_slow_job(OPEN, false, slow);
        const double choice = seconds(&p, "choice"), rest = rest_of(&p);
        assert_true(slow == 1 ? choice < limit : choice > limit);
        assert_close(seconds(&p, "setup"), fmin(choice, limit) + rest, 1e-12);
        const double factor = correct_all(3.0, &p);
        assert_close(seconds(&p, "choice"), factor * choice, 1e-9);
        assert_close(seconds(&p, "setup"), limit + factor * rest, 1e-9);
        planned_deinit(&p);
    }
}

/* A machine that takes a third of the time chooses to the end where the plan alone had no time. */
static void test_a_choice_within_its_limit(void **state)
{
    (void)state;
    struct planned p = plan_slow_job(OPEN, false, 4);
    const double choice = seconds(&p, "choice"), rest = rest_of(&p);
    const double factor = correct_all(1.0 / 3.0, &p);
    assert_true(factor * choice < limit);
    assert_close(seconds(&p, "setup"), factor * (choice + rest), 1e-9);
    planned_deinit(&p);
}

static void learn_choice(const struct planned *p, double choice_s, double rest_s, bool cut_off,
                         struct experience_record *ret)
{
    struct json *result = result_of(choice_s + rest_s, 1, 1, 0.04);
    struct json *phases = json_set_object(result, "phases");
    json_set_number(phases, "setup_s", choice_s + rest_s);
    json_set_number(phases, "choice_s", choice_s);
    json_set(phases, "choice_cut_off", json_new_bool(cut_off));
    assert_true(experience_record_make(p->spec, p->plan, result, REASON_CONVERGED, "cpu", ret));
    json_free(result);
}

/* What was cut off says nothing of how long it would have taken, and the rest is its own. */
static void test_a_choice_teaches_apart(void **state)
{
    (void)state;
    struct planned p = plan_slow_job(OPEN, false, 4);
    const double rest = rest_of(&p), choice = seconds(&p, "choice");
    struct experience_record r;
    learn_choice(&p, 5.1, 2 * rest, true, &r);
    assert_true(isnan(r.log_ratio[PLAN_CHOICE]));
    assert_close(r.log_ratio[PLAN_SETUP], log(2.0), 1e-9);
    learn_choice(&p, choice / 4, 2 * rest, false, &r);
    assert_close(r.log_ratio[PLAN_CHOICE], log(0.25), 1e-9);
    assert_close(r.log_ratio[PLAN_SETUP], log(2.0), 1e-9);

    struct experience *e = with(&r, 1);
    experience_correct(e, p.spec, p.plan);
    struct experience_record again;
    learn_choice(&p, choice / 4, 2 * rest, false, &again);
    assert_close(again.log_ratio[PLAN_CHOICE], log(0.25), 1e-9);
    assert_close(again.log_ratio[PLAN_SETUP], log(2.0), 1e-9);
    mem_free(e);
    planned_deinit(&p);
}

/* A plan of an earlier version does not tell its choice from the rest. */
static void test_an_earlier_plan_has_no_choice(void **state)
{
    (void)state;
    struct planned p = plan_job(PCG, false);
    struct json *plain = json_copy(json_get(p.plan, "seconds"));
    json_remove(plain, "choice");
    json_set(p.plan, "seconds", plain);
    struct experience_record r;
    assert_true(learn(&p, REASON_CONVERGED, "cpu", &r));
    assert_close(r.log_ratio[PLAN_SETUP], log(2.0), 1e-12);
    assert_true(isnan(r.log_ratio[PLAN_CHOICE]));
    planned_deinit(&p);
}

/* The budget may have made the search smaller than planned: its setup teaches nothing. */
static void test_a_search_in_limited_time_teaches_no_setup(void **state)
{
    (void)state;
    struct planned free = plan_job(SEARCHED "}", false);
    struct planned limited = plan_job(SEARCHED ",'time_budget_s':1e4}", false);
    struct experience_record r;
    assert_true(learn(&free, REASON_CONVERGED, "cpu", &r));
    assert_close(r.log_ratio[PLAN_SETUP], log(2.0), 1e-12);
    assert_true(learn(&limited, REASON_CONVERGED, "cpu", &r));
    assert_true(isnan(r.log_ratio[PLAN_SETUP]));
    assert_close(r.log_ratio[PLAN_ITERATION], log(3.0), 1e-12);
    planned_deinit(&free);
    planned_deinit(&limited);
}

static void test_the_time_budget_bounds_what_is_learned(void **state)
{
    (void)state;
    static const char fields[] = "'solver':'pcg','kernel':'gaussian','stop':{'time_budget_s':4}";
    struct planned p = plan_job(fields, false);
    struct experience_record r;
    assert_true(learn(&p, REASON_TIME_BUDGET, "cpu", &r));
    assert_true(isnan(r.log_ratio[PLAN_SETUP]) && isnan(r.log_ratio[PLAN_FINISH]));
    assert_close(r.log_ratio[PLAN_ITERATION], log(3.0), 1e-12);
    struct experience *e = with(&r, 20);
    experience_correct(e, p.spec, p.plan);
    assert_close(seconds(&p, "total"), 4.0 + seconds(&p, "finish"), 1e-12);
    mem_free(e);
    planned_deinit(&p);
}

/* A plan without seconds, or of an earlier version, neither teaches nor learns. */
static void test_what_teaches_nothing(void **state)
{
    (void)state;
    struct planned p = plan_job(PCG, false), device = plan_job(PCG, true);
    struct experience_record r;
    assert_false(learn(&p, REASON_CANCELLED, "cpu", &r));
    assert_false(learn(&p, REASON_DIVERGED, "cpu", &r));
    assert_false(learn(&p, REASON_CONVERGED, "cuda:0", &r)); /* planned for another one */
    assert_false(learn(&device, REASON_CONVERGED, "cpu", &r));
    assert_true(learn(&device, REASON_CONVERGED, "cuda:1", &r));
    assert_int_equal(r.kind.numbers[KIND_OWN_MEMORY], 1);

    struct json *result = result_of(0.01, 0.02, 3, 0.03);
    assert_false(experience_record_make(p.spec, p.plan, result, REASON_CONVERGED, "cpu", &r));
    json_set(result, "phases", json_new_null()); /* it was resumed */
    assert_false(experience_record_make(p.spec, p.plan, result, REASON_CONVERGED, "cpu", &r));

    assert_true(learn(&p, REASON_CONVERGED, "cpu", &r));
    struct experience *e = with(&r, 5);
    const double before = seconds(&p, "total");
    struct json *copy = json_copy(json_get(p.plan, "seconds"));
    json_remove(p.plan, "threads");
    assert_false(learn(&p, REASON_CONVERGED, "cpu", &r));
    experience_correct(e, p.spec, p.plan);
    assert_close(seconds(&p, "total"), before, 0);
    json_set_int(p.plan, "threads", 3);
    json_set(p.plan, "seconds", json_new_null());
    experience_correct(e, p.spec, p.plan);
    assert_int_equal(json_type(json_get(p.plan, "seconds")), JSON_NULL);
    json_free(copy);
    json_free(result);
    mem_free(e);
    planned_deinit(&p);
    planned_deinit(&device);
}

static void test_records_are_written_and_read(void **state)
{
    (void)state;
    const struct experience_kind kind = pcg();
    const struct experience_record r = record(&kind, 1.25, NAN, 0.5);
    struct experience_record back;
    struct json *j = experience_record_write(&r);
    assert_true(experience_record_read(j, &back));
    assert_memory_equal(&back.kind, &r.kind, sizeof r.kind);
    assert_close(back.log_ratio[PLAN_SETUP], r.log_ratio[PLAN_SETUP], 0);
    assert_true(isnan(back.log_ratio[PLAN_ITERATION]));
    json_remove(j, "threads");
    assert_false(experience_record_read(j, &back));
    json_set_int(j, "threads", -1);
    assert_false(experience_record_read(j, &back));
    json_set_int(j, "threads", 2);
    json_set(j, "log_setup", json_new_null());
    assert_true(experience_record_read(j, &back));
    json_remove(j, "log2_speed");
    assert_false(experience_record_read(j, &back));
    json_set_number(j, "log2_speed", 33);
    assert_true(experience_record_read(j, &back));
    json_set_string(j, "log_finish", "x");
    assert_true(experience_record_read(j, &back));
    json_remove(j, "log_choice"); /* as earlier versions wrote them */
    assert_false(experience_record_read(j, &back));
    json_free(j);
    j = json_new_array();
    assert_false(experience_record_read(j, &back));
    json_free(j);
}

TEST_MAIN(cmocka_unit_test(test_nothing_known), cmocka_unit_test(test_the_same_job),
          cmocka_unit_test(test_sizes), cmocka_unit_test(test_rates_measured_anew),
          cmocka_unit_test(test_a_busy_machine), cmocka_unit_test(test_choices),
          cmocka_unit_test(test_others_do_not_outvote), cmocka_unit_test(test_newer_ones),
          cmocka_unit_test(test_load_that_comes_and_goes), cmocka_unit_test(test_bounds),
          cmocka_unit_test(test_a_plan_learns), cmocka_unit_test(test_a_choice_ends_at_its_limit),
          cmocka_unit_test(test_a_choice_within_its_limit),
          cmocka_unit_test(test_a_choice_teaches_apart),
          cmocka_unit_test(test_an_earlier_plan_has_no_choice),
          cmocka_unit_test(test_a_search_in_limited_time_teaches_no_setup),
          cmocka_unit_test(test_the_time_budget_bounds_what_is_learned),
          cmocka_unit_test(test_what_teaches_nothing),
          cmocka_unit_test(test_records_are_written_and_read))
