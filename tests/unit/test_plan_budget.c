/* Time budgets: what is chosen for them, and what plans say that they will end. */
#include <stdio.h>
#include <string.h>

#include "engine_fixture.h"
#include "plan/plan.h"

/* 32 GB, and rates of two threads. */
static struct plan_machine machine(void)
{
    return (struct plan_machine){
        .threads = 2,
        .limit_bytes = INT64_C(32000000000),
        .free_bytes = INT64_C(32000000000),
        .base_bytes = 10000000,
        .rates = {.values_f32 = 1.2e10,
                  .values_f64 = 6e9,
                  .multiply_adds_f32 = 1e11,
                  .multiply_adds_f64 = 5e10,
                  .bytes = 3e10},
    };
}

/* A job as the daemon would settle and plan it. */
struct settled {
    int64_t centers; /* 0: a full model */
    struct json *plan;
};

static struct settled settle(const char *fields, int64_t rows, const struct plan_machine *m,
                             const struct experience *e)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, 9, 0);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_take_centers(spec, &data, m, e);
    plan_make(spec, &data, m, &p);
    struct settled s = {.plan = plan_to_json(&p, m)};
    s.centers = spec->centers.method != NULL ? spec->centers.count : 0;
    plan_warn(spec, s.plan);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return s;
}

static int64_t centers(const char *fields, int64_t rows)
{
    const struct plan_machine m = machine();
    struct settled s = settle(fields, rows, &m, NULL);
    json_free(s.plan);
    return s.centers;
}

/* A half, a quarter, ... of the usual number, and of fewer rows' full models as well; never where
 * their number was asked for, or another solver. */
static void test_centers_for_the_time(void **state)
{
    (void)state;
    assert_int_equal(centers("'stop':{'time_budget_s':36000}", 2000000), 10000);
    const int64_t minute = centers("'stop':{'time_budget_s':60}", 2000000);
    assert_true(minute == 5000 || minute == 2500 || minute == 1250);
    const int64_t little = centers("'stop':{'time_budget_s':2}", 2000000);
    assert_true(little > 0 && little <= minute / 8);
    assert_int_equal(centers("'stop':{'time_budget_s':3600}", 200000), 0);
    assert_true(centers("'stop':{'time_budget_s':20}", 200000) > 0);
    assert_int_equal(centers("'stop':{'time_budget_s':20},'warm_start':'m'", 200000), 0);
    assert_int_equal(centers("'stop':{'time_budget_s':20},'solver':'pcg'", 2000000), 0);
    assert_int_equal(centers("'stop':{'time_budget_s':20},'centers':{'count':9999}", 2000000),
                     9999);
    assert_true(centers("'stop':{'time_budget_s':20},'regularization':'auto'", 200000) > 0);
    assert_int_equal(centers("'stop':{'time_budget_s':36000},'solver':'falkon'", 2000000), 0);
    const int64_t falkon = centers("'stop':{'time_budget_s':20},'solver':'falkon'", 2000000);
    assert_true(falkon > 0 && falkon < 10000);
}

/* Ten seconds of setup, ten an iteration, five after them. */
static void test_iterations_that_have_to_fit(void **state)
{
    (void)state;
    for (int restricted = 0; restricted < 2; restricted++) {
        struct json *plan = json_new_object(), *seconds = json_set_object(plan, "seconds");
        json_set(plan, "restricted", json_new_bool(restricted == 1));
        json_set_number(seconds, "setup", 10);
        json_set_number(seconds, "iteration", 10);
        json_set_number(seconds, "finish", 5);
        json_set_number(seconds, "iterations", 1000);
        const double all = 15.0 + (restricted == 1 ? 80.0 : 200.0);
        struct job_spec *spec = fixture_spec_read("'stop':{'time_budget_s':100}");
        spec->stop.time_budget_s = all;
        assert_true(plan_in_time(spec, plan));
        spec->stop.time_budget_s = all - 1;
        assert_false(plan_in_time(spec, plan));
        job_spec_free(spec);
        json_free(plan);
    }
}

/* Time that is too short for any number of centers decides nothing. */
static void test_no_time_at_all(void **state)
{
    (void)state;
    assert_int_equal(centers("'stop':{'time_budget_s':1e-6}", 2000000), 10000);
    assert_int_equal(centers("'stop':{'time_budget_s':1e-6}", 2000), 0);
}

static void test_without_rates_time_decides_nothing(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    m.rates = (struct plan_rates){.bytes = 0};
    struct settled s = settle("'stop':{'time_budget_s':60}", 2000000, &m, NULL);
    assert_int_equal(s.centers, 10000);
    assert_int_equal(json_size(json_get(s.plan, "warnings")), 0);
    json_free(s.plan);
}

/* A machine whose jobs take eight times as long as planned has time for fewer. */
static void test_centers_follow_experience(void **state)
{
    (void)state;
    static struct experience e; /* large */
    const struct plan_machine m = machine();
    static const char fields[] = "'stop':{'time_budget_s':60}";
    struct settled s = settle(fields, 2000000, &m, NULL);
    struct job_spec *spec = fixture_spec_read("'centers':'uniform'");
    struct experience_record r = {.log_ratio = {2.0, 2.0, 2.0}};
    assert_true(experience_kind_read(spec, s.plan, &r.kind));
    for (int i = 0; i < 20; i++) {
        experience_add(&e, &r);
    }
    struct settled learned = settle(fields, 2000000, &m, &e);
    assert_true(learned.centers > 0 && learned.centers < s.centers);
    job_spec_free(spec);
    json_free(learned.plan);
    json_free(s.plan);
}

/* The plan's warnings have these words, and no others have any. */
static void check_warnings(const char *fields, int64_t rows, const char *words, int64_t count)
{
    const struct plan_machine m = machine();
    struct settled s = settle(fields, rows, &m, NULL);
    const struct json *warnings = json_get(s.plan, "warnings");
    assert_int_equal(json_size(warnings), count);
    for (const struct json *w = json_first(warnings); w != NULL; w = json_next(w)) {
        assert_string_equal(json_string(json_get(w, "code")), "time_budget");
        assert_non_null(strstr(json_string(json_get(w, "detail")), words));
        words = "after its time budget";
    }
    json_free(s.plan);
}

static void test_plans_tell_what_a_budget_ends(void **state)
{
    (void)state;
    static const char no_model[] = "may end the job without a model";
    check_warnings("'solver':'pcg','stop':{'time_budget_s':1e6}", 500000, "", 0);
    check_warnings("'solver':'pcg'", 2000000, "", 0);
    check_warnings("'stop':{'time_budget_s':60}", 2000000, "", 0);
    check_warnings("'solver':'pcg','kernel_cache_bytes':0,'stop':{'time_budget_s':150}", 500000,
                   "of its iterations, and may end before it converges", 1);
    check_warnings("'solver':'askotch2','stop':{'time_budget_s':60}", 2000000,
                   "after its time budget", 1);
    check_warnings("'solver':'cholesky','stop':{'time_budget_s':10}", 100000, no_model, 1);
    check_warnings("'solver':'falkon','centers':{'count':20000},'stop':{'time_budget_s':10}",
                   2000000, "fewer centers", 1);
    check_warnings("'solver':'pcg','stop':{'time_budget_s':1}", 500000, "a model on centers", 1);
}

/* Of several bandwidths those are tried that leave half of the budget to the model. */
static void test_a_budget_ends_the_search(void **state)
{
    (void)state;
    static const char one[] = "'solver':'pcg','kernel':'gaussian','search':{'bandwidth':[1]},"
                              "'stop':{'time_budget_s':20}";
    static const char more[] = "'solver':'pcg','kernel':'gaussian','search':{'bandwidth':[1,2,3,4,"
                               "5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26]},"
                               "'stop':{'time_budget_s':20}";
    check_warnings(one, 20000, "", 0);
    check_warnings(more, 20000, "before all of its 26 bandwidths are tried", 1);
}

/* Who asks for folds gets a full model, and is told where nobody would have chosen one. */
static void test_folds_on_many_rows(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char folds[] = "'regularization':'auto','search':{'folds':5},"
                                "'test':{'fraction':0}";
    struct settled few = settle(folds, 250000, &m, NULL), many = settle(folds, 250001, &m, NULL);
    const struct json *w = json_first(json_get(many.plan, "warnings"));
    assert_true(few.centers == 0 && many.centers == 0);
    assert_int_equal(json_size(json_get(few.plan, "warnings")), 0);
    assert_int_equal(json_size(json_get(many.plan, "warnings")), 1);
    assert_string_equal(json_string(json_get(w, "code")), "many_rows");
    assert_non_null(strstr(json_string(json_get(w, "detail")), "on 250001 rows"));
    json_free(few.plan);
    json_free(many.plan);
}

/* As fixture_spec_read has it. */
#define OWN_DATASET "ds_01HZXW5GQ0ABCDEFGHJKMNPQRS"

static void check_test_warning(const char *fields, int count, const char *part)
{
    const struct plan_machine m = machine();
    struct settled s = settle(fields, 1000, &m, NULL);
    const struct json *list = json_get(s.plan, "warnings"), *w = json_first(list);
    assert_int_equal(json_size(list), count);
    if (count > 0) {
        assert_string_equal(json_string(json_get(w, "code")), "tested_on_training_data");
        assert_contains(json_string(json_get(w, "detail")), part);
    }
    json_free(s.plan);
}

static void test_tested_on_training_data(void **state)
{
    (void)state;
    check_test_warning("'test':{'fraction':0.5}", 0, NULL);
    check_test_warning("'test':{'dataset':'ds_01HZXW5GQ0ABCDEFGHJKMNPQRT'}", 0, NULL);
    check_test_warning("'test':{'dataset':'" OWN_DATASET "'}", 1, "nothing of other rows.");
    check_test_warning("'test':{'dataset':'" OWN_DATASET
                       "'},'promote':{'alias':'a','if':{'r2':{'gt':0.9}}}",
                       1, "the promotion's conditions");
}

TEST_MAIN(cmocka_unit_test(test_tested_on_training_data),
          cmocka_unit_test(test_centers_for_the_time),
          cmocka_unit_test(test_iterations_that_have_to_fit), cmocka_unit_test(test_no_time_at_all),
          cmocka_unit_test(test_without_rates_time_decides_nothing),
          cmocka_unit_test(test_centers_follow_experience),
          cmocka_unit_test(test_plans_tell_what_a_budget_ends),
          cmocka_unit_test(test_a_budget_ends_the_search),
          cmocka_unit_test(test_folds_on_many_rows))
