/* What plans say of rows, seconds and the choices that a job leaves open. */
#include <math.h>
#include <stdio.h>

#include "plan/rules.h"
#include "plan_fixture.h"

static void test_folds_need_rows(void **state)
{
    (void)state;
    static const struct {
        const char *test;
        int64_t folds;
        const char *wrong; /* NULL: fits */
    } cases[] = {
        {"'test':{'fraction':0.25}", 30, NULL},
        {"'test':{'fraction':0.25}", 31, "31 folds and 30 training rows"},
        {"'test':{'fraction':0}", 40, NULL},
        {"'test':{'fraction':0}", 41, "41 folds and 40 training rows"},
        {"'test':{'mask':'x2'}", 40, NULL}, /* of what the mask leaves nobody knows */
        {"'test':{'mask':'x2'}", 41, "41 folds and at most 40 training rows"},
    };
    const struct plan_machine m = machine();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char fields[128];
        struct err err = {.code = ERR_OK};
        snprintf(fields, sizeof(fields), "%s,'search':{'bandwidth':[1],'folds':%d}", cases[i].test,
                 (int)cases[i].folds);
        assert_int_equal(admit(fields, 40, &m, &err), cases[i].wrong == NULL ? 0 : -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].wrong == NULL ? "" : "#/search/folds");
        assert_contains(err.detail, cases[i].wrong == NULL ? "" : cases[i].wrong);
    }
}

static void test_rows_as_the_split_has_them(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    struct plan p = plan_for("'test':{'fraction':0.25}", 1001, &m);
    assert_int_equal(p.test_rows, 250);
    assert_int_equal(p.train_rows, 751);
    p = plan_for("'test':{'fraction':0.0001}", 10, &m);
    assert_int_equal(p.test_rows, 1);
    p = plan_for("'test':{'mask':'x2'}", 100, &m);
    assert_int_equal(p.train_rows, 100);
    assert_int_equal(p.features, 4);
    assert_true(p.assumed);
    p = plan_for("'features':['x0','x1'],'test':{'fraction':0}", 100, &m);
    assert_int_equal(p.features, 2);
    assert_int_equal(p.test_rows, 0);
}

static void test_seconds_follow_rates(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    static const char spec[] = "'solver':'pcg','kernel':'gaussian','kernel_cache_bytes':0,"
                               "'stop':{'max_iterations':200}";
    const struct plan p = plan_for(spec, 20000, &m);
    assert_true(p.total_s > 0);
    assert_close(p.total_s, p.setup_s + 200 * p.iteration_s + p.finish_s, 1e-12);
    m.rates.values_f32 /= 10;
    assert_true(plan_for(spec, 20000, &m).iteration_s > 2 * p.iteration_s);
    m.rates = (struct plan_rates){.bytes = 0};
    assert_true(isnan(plan_for(spec, 20000, &m).total_s));
}

/* Seconds of an iteration with the residual computed afresh in each, and never before the end. */
static void check_looks(const char *solver, double least, double most)
{
    const struct plan_machine m = machine();
    double seconds[2];
    for (int seldom = 0; seldom < 2; seldom++) {
        char fields[256];
        snprintf(fields, sizeof(fields),
                 "'solver':{%s,'residual_every':%d},'kernel':'gaussian','precision':'float64',"
                 "'kernel_cache_bytes':0,'stop':{'max_iterations':200}",
                 solver, seldom ? 1000000 : 1);
        seconds[seldom] = plan_for(fields, 20000, &m).iteration_s;
    }
    if (!(seconds[0] >= least * seconds[1] && seconds[0] <= most * seconds[1])) {
        fail_msg("%s: %g and %g seconds", solver, seconds[0], seconds[1]);
    }
}

static void test_residuals_count(void **state)
{
    (void)state;
    static const char *const doubled[] = {"'name':'pcg','preconditioner':'none'", "'name':'falkon'",
                                          "'name':'krill'", "'name':'cg'", "'name':'eigenpro2'"};
    for (size_t i = 0; i < sizeof(doubled) / sizeof(doubled[0]); i++) {
        check_looks(doubled[i], 1.5, 2.0);
    }
    check_looks("'name':'sketchysaga'", 1.05, 2.0);
    check_looks("'name':'eigenpro3','plain_epochs':200", 1.3, 2.0);
    check_looks("'name':'eigenpro4','plain_epochs':200", 1.2, 2.0);
    check_looks("'name':'eigenpro4','plain_epochs':100", 1.1, 1.4);
    check_looks("'name':'eigenpro4'", 1.0, 1.0); /* the epochs that follow know it anyway */
}

/* Fits that a plan has in it beside those of a job that leaves nothing open, by the work of their
 * factors, which takes all of the time. */
static double planned_fits_of(const char *fields, int64_t rows, double fitted)
{
    struct plan_machine m = machine();
    m.rates = (struct plan_rates){.values_f32 = 1e30,
                                  .values_f64 = 1e30,
                                  .multiply_adds_f32 = 1.0,
                                  .multiply_adds_f64 = 1.0,
                                  .bytes = 1e30};
    const double given = plan_for("'kernel':{'name':'gaussian','bandwidth':1}", rows, &m).setup_s;
    return (plan_for(fields, rows, &m).setup_s - given) / (pow(fitted, 3) / 6.0);
}

static double planned_fits(const char *fields)
{
    return planned_fits_of(fields, 6250, 1000);
}

/* Left open, what it may come to on a grid takes less than the low rank that is planned; named, it
 * has room for the largest grid (precond_kronecker.c). */
static void test_a_grid_is_not_known(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    const double n = 20000;
    static const char spec[] = "'solver':{'name':'pcg','preconditioner':'%s'},'kernel':'gaussian',"
                               "'features':['x0','x1','x2'],'test':{'fraction':0},"
                               "'kernel_cache_bytes':0";
    struct plan plans[3];
    static const char *const names[] = {"auto", "rpcholesky", "kronecker"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof text, spec, names[i]);
        plans[i] = plan_for(text, (int64_t)n, &m);
    }
    assert_string_equal(plans[0].preconditioner, "rpcholesky");
    assert_true(plans[0].host_bytes == plans[1].host_bytes);
    assert_string_equal(plans[2].preconditioner, "kronecker");
    assert_true(plans[2].assumed && plans[2].rank == 0);
    assert_true(plans[2].host_bytes > 8.0 * 4.0 * n * 9.0);
    assert_true(plans[2].iteration_s > 0 && plans[2].setup_s > 0);
}

/* As engine/choose/choose.h tries them (test_engine_choose.c, test_a_bandwidth_beyond). */
static void test_fits_of_a_choice(void **state)
{
    (void)state;
    static const char one[] =
        "'kernel':{'name':'gaussian','bandwidth':'auto'},'regularization':1e-6";
    /* Bandwidths of each feature are learned from half of the fitted rows. */
    const double learned = RULE_LEARNED_STARTS * RULE_LEARNED_STEPS * (1 + 6) / 8.0;
    enum { K = RULE_KERNELS, FINER = RULE_FINER };
    assert_near(planned_fits(one), 2 + 1 + 1 + 1 + FINER + learned, 1e-3);
    assert_near(planned_fits("'regularization':1e-6"), K * 2 + 1 + 2 * K + FINER + K * learned,
                1e-3);
    assert_near(planned_fits("'regularization':1e-6,'standardize':{'features':false}"),
                K * 2 + 1 + K + FINER + K * learned, 1e-3);
    assert_near(planned_fits("'test':{'fraction':0.2}"),
                (K * 2 + 1 + 2 * K) * 5 + 2 * FINER + K * learned, 1e-3);
    assert_near(planned_fits("'kernel':{'name':'auto','bandwidth':1}"), K * 5 + FINER, 1e-3);
    assert_near(planned_fits("'kernel':{'name':'auto','bandwidth':1},'regularization':1e-6"), K,
                1e-3);
    assert_near(planned_fits("'kernel':{'name':'gaussian','bandwidth':'median'}"), 0, 1e-3);
}

/* In each of five folds, and what is best learned once more of all rows. */
static void test_fits_of_a_choice_in_folds(void **state)
{
    (void)state;
    enum { K = RULE_KERNELS, FINER = RULE_FINER };
    enum { ROWS = 250, FITTED = 160 }; /* a fifth is for testing */
    const double learned = RULE_LEARNED_STARTS * RULE_LEARNED_STEPS * (1 + 6);
    const double whole = learned * pow(200.0 / FITTED, 3);
    assert_near(planned_fits_of("'regularization':1e-6", ROWS, FITTED),
                5 * (K * 2 + 1 + 2 * K + FINER + K * learned) + whole, 1e-3 * whole);
    assert_near(planned_fits_of("'kernel':{'name':'auto','bandwidth':1},'regularization':1e-6",
                                ROWS, FITTED),
                5 * K, 1e-3);
}

/* Of 300 to 2,000 rows the fitted ones judge finer steps, too, beside what they are compared with.
 */
static void test_fits_that_leave_out(void **state)
{
    (void)state;
    static const char open[] = "'kernel':{'name':'auto','bandwidth':1}";
    enum { ROWS = 1000, MANY = 2500, K = RULE_KERNELS, FINER = RULE_FINER };
    assert_near(planned_fits_of(open, ROWS, 534), K * 5 + RULE_LEFT_OUT * (FINER + 1), 0.1);
    assert_near(planned_fits_of(open, MANY, 1000), K * 5 + FINER, 0.1);
}

/* A faster way for near rows is not every kernel's, and of more than a few features. */
static void test_near_rows(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        bool faster;
    } jobs[] = {
        {"'solver':'pcg','kernel':'gaussian','kernel_cache_bytes':0", true},
        {"'solver':'pcg','kernel_cache_bytes':0", true}, /* the worker chooses */
        {"'solver':'pcg','kernel':'matern52','kernel_cache_bytes':0", false},
        {"'solver':'pcg','kernel':'gaussian','kernel_cache_bytes':0,'features':['x0','x1','x2']",
         false},
    };
    for (int i = 0; i < 4; i++) {
        struct plan_machine m = machine();
        const double before = plan_of(jobs[i].spec, 20000, 19, &m).iteration_s;
        m.rates.near_f32 = 1.25 * m.rates.values_f32;
        m.rates.near_f64 = 1.25 * m.rates.values_f64;
        const double after = plan_of(jobs[i].spec, 20000, 19, &m).iteration_s;
        assert_true(jobs[i].faster ? after < 0.95 * before && after > 0.6 * before
                                   : after == before);
    }
}

/* A gaussian of three features in float32 has rank for a sixth of these, a linear kernel for four:
 * what is made of them takes no longer for more that were asked for. */
static void test_ranks_bound_the_work(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char pivots[] = "'solver':'krill','precision':'float32','kernel':'gaussian',"
                                 "'features':['x0','x1','x2'],"
                                 "'centers':{'method':'rpcholesky','count':1000}";
    const struct plan p = plan_for(pivots, 20000, &m);
    assert_true(p.centers > 100 && p.centers < 200);
    static const char linear[] = "'solver':{'name':'pcg','preconditioner':{'name':'rpcholesky',"
                                 "'rank':%d}},'kernel':'linear','features':['x0','x1','x2'],"
                                 "'kernel_cache_bytes':0";
    char few[256], many[256];
    snprintf(few, sizeof(few), linear, 10);
    snprintf(many, sizeof(many), linear, 1000);
    const struct plan a = plan_for(few, 20000, &m), b = plan_for(many, 20000, &m);
    assert_close(a.iteration_s, b.iteration_s, 1e-12);
    assert_true(b.setup_s < 1.5 * a.setup_s);
}

/* Of a linear kernel no level has as many points as are asked for: its path goes down to where
 * rounding ends it, in float64 twice as far. */
static void test_paths_end_where_points_or_rounding_do(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char spec[] = "'solver':'falkon_bless','kernel':'%s','precision':'%s',"
                               "'stop':{'max_iterations':1},"
                               "'centers':{'method':'bless','count':1000}";
    const char *const kinds[][2] = {
        {"laplacian", "float64"}, {"linear", "float32"}, {"linear", "float64"}};
    double seconds[3];
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof(text), spec, kinds[i][0], kinds[i][1]);
        seconds[i] = plan_for(text, 20000, &m).setup_s;
    }
    assert_true(seconds[1] > 2.0 * seconds[0]);
    assert_true(seconds[2] > 2.0 * seconds[1]);
}

/* The path ends at the lambda that is named, however many centers are asked for. */
static void test_path_ends_at_a_named_lambda(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char spec[] = "'solver':'falkon_bless','kernel':'gaussian',"
                               "'stop':{'max_iterations':1},"
                               "'centers':{'method':'bless','count':1000,'regularization':%s}";
    static const char *const lambdas[] = {"1e-2", "1e-4", "1e-6"};
    double seconds[3];
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof(text), spec, lambdas[i]);
        seconds[i] = plan_for(text, 20000, &m).setup_s;
    }
    assert_true(seconds[1] > seconds[0]);
    assert_true(seconds[2] > 2.0 * seconds[1]);
}

static double selects_for(const char *method, const char *job, const char *named)
{
    const struct plan_machine m = machine();
    char text[320];
    snprintf(text, sizeof(text),
             "'solver':'falkon','kernel':'gaussian','stop':{'max_iterations':1},"
             "'regularization':%s,'centers':{'method':'%s','regularization':%s}",
             job, method, named);
    return plan_for(text, 20000, &m).setup_s;
}

/* A selection that is not asked for a number goes down to the job's lambda, unless it names one. */
static void test_without_a_count_the_jobs_lambda_decides(void **state)
{
    (void)state;
    static const char *const methods[] = {"bless", "two_pass", "squeak"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        const double of_job = selects_for(methods[i], "1e-6", "'auto'");
        assert_close(of_job, selects_for(methods[i], "1e-3", "1e-6"), 1e-12);
        assert_true(of_job > 2.0 * selects_for(methods[i], "1e-3", "'auto'"));
    }
}

/* What jobs on airfoil (1,202 training rows, 5 features) and bike (13,903, 17) came to. */
static const struct {
    const char *method, *kernel;
    double regularization;
    int64_t rows, features, centers;
} found[] = {
    {"bless", "gaussian", 1e-4, 1202, 5, 222},    {"bless_r", "gaussian", 1e-5, 1202, 5, 353},
    {"rls", "gaussian", 1e-5, 1202, 5, 528},      {"squeak", "gaussian", 1e-4, 1202, 5, 192},
    {"bless", "matern52", 1e-5, 1202, 5, 657},    {"rls", "matern52", 1e-4, 1202, 5, 654},
    {"bless", "gaussian", 1e-4, 13903, 17, 873},  {"bless_r", "gaussian", 1e-5, 13903, 17, 2231},
    {"rls", "gaussian", 1e-5, 13903, 17, 3192},   {"squeak", "gaussian", 1e-4, 13903, 17, 708},
    {"bless", "gaussian", 1e-6, 13903, 17, 3696}, {"rls", "gaussian", 1e-6, 13903, 17, 6353},
};

static void test_without_a_count_lambda_makes_it(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        char fields[256];
        snprintf(fields, sizeof(fields),
                 "'solver':'falkon','kernel':'%s','regularization':%g,'test':{'fraction':0},"
                 "'centers':{'method':'%s'}",
                 found[i].kernel, found[i].regularization, found[i].method);
        const struct plan p = plan_of(fields, found[i].rows, found[i].features + 1, &m);
        const double ratio = (double)p.centers / (double)found[i].centers;
        assert_true(ratio > 0.75 && ratio < 1.5);
        assert_true(p.assumed);
    }
}

static void test_time_budget_bounds_the_total(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    const struct plan p = plan_for("'solver':'pcg','stop':{'time_budget_s':0.5}", 100000, &m);
    assert_close(p.total_s, 0.5 + p.finish_s, 1e-12);
}

/* What has less time judges less. */
/* A search that has time for a part of the rows leaves the job to its solver. */
static void test_a_search_on_all_rows_is_the_solution(void **state)
{
    (void)state;
    static const char fields[] = "'solver':'%s','kernel':'gaussian','test':{'fraction':0},"
                                 "'search':{'regularization':[1e-6,1e-3]%s}%s";
    static const struct {
        const char *search, *stop, *solver; /* NULL: the one that is named */
    } cases[] = {
        {"", "", "eigendecomposition"},
        {",'max_rows':3999", "", NULL},
        {"", ",'stop':{'time_budget_s':5}", NULL},
        {",'folds':5,'max_rows':12000", ",'stop':{'time_budget_s':5}", NULL},
        {"", ",'stop':{'time_budget_s':5000}", "eigendecomposition"},
    };
    const struct plan_machine m = machine();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), fields, "cholesky", cases[i].search, cases[i].stop);
        const struct plan p = plan_for(text, 4000, &m);
        assert_string_equal(p.solver, cases[i].solver != NULL ? cases[i].solver : "cholesky");
        assert_true(cases[i].solver != NULL || p.reserved_bytes >= 4.0 * 4000 * 4000);
    }
}

static void test_a_search_within_a_time_budget(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char open[] = "'kernel':'gaussian','solver':'pcg','regularization':'auto'";
    char hurried[128];
    snprintf(hurried, sizeof hurried, "%s,'stop':{'time_budget_s':6}", open);
    for (int64_t rows = 4000; rows <= 20000; rows *= 5) {
        const struct plan p = plan_for(open, rows, &m), q = plan_for(hurried, rows, &m);
        assert_true(q.setup_s < p.setup_s / 2);
    }
}

/* The clock ends it at a quarter of that. */
static void test_a_choice_within_a_time_budget(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char open[] = "'solver':'askotch2','stop':{'time_budget_s':4}";
    static const char given[] =
        "'solver':'askotch2','stop':{'time_budget_s':4},'kernel':'gaussian'";
    const struct plan p = plan_for(open, 100000, &m), q = plan_for(given, 100000, &m);
    assert_true(p.setup_s > q.setup_s && p.setup_s <= q.setup_s + 1.0 + 1e-9);
}

/* Of large sets with an open kernel a sample of 27,000 rows: a matrix of 3,000, factorised 25
 * times, beside what small ones have: fits of 1,000 rows, and bandwidths learned from 500. */
static void test_a_choice_on_a_second_sample(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char open[] = "'solver':'askotch2','test':{'fraction':0}";
    static const char given[] = "'solver':'askotch2','test':{'fraction':0},'kernel':'gaussian'";
    const double fits = 25.0 * 3000.0 * 3000.0 * 3000.0 / 6.0 / m.rates.multiply_adds_f64;
    struct plan p = plan_for(open, 100000, &m), q = plan_for(given, 100000, &m);
    assert_true(p.setup_s > q.setup_s + fits && p.setup_s < q.setup_s + 3 * fits);
    assert_string_equal(p.moment, "loading");
    assert_true(p.parts[PLAN_OTHER] > 72e6 && p.parts[PLAN_OTHER] < 75e6);
    p = plan_for(open, 9999, &m), q = plan_for(given, 9999, &m);
    assert_true(p.setup_s < q.setup_s + 1.3 * fits);
    assert_true(p.parts[PLAN_OTHER] < 16e6);
}

/* ---- targets ---- */

/* A class is a target. */
static struct plan plan_of_classes(const char *fields, int64_t rows, int64_t classes)
{
    const struct plan_machine m = machine();
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, 21, classes);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_make(spec, &data, &m, &p);
    assert_int_equal(p.targets, classes);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return p;
}

#define PLAINLY                                                                                    \
    "'kernel':'gaussian','test':{'fraction':0},'precision':'float64','kernel_cache_bytes':0"
#define UNCONDITIONED "'solver':{'name':'pcg','preconditioner':'none'}," PLAINLY

/* 64 targets share the evaluation of a value, and take longer together than 48 do by more than
 * their share; the next 64 need another one. */
static void test_targets_in_groups(void **state)
{
    (void)state;
    const double some = plan_of_classes(UNCONDITIONED, 6250, 48).iteration_s;
    const double full = plan_of_classes(UNCONDITIONED, 6250, 64).iteration_s;
    const double more = plan_of_classes(UNCONDITIONED, 6250, 65).iteration_s;
    const double twice = plan_of_classes(UNCONDITIONED, 6250, 128).iteration_s;
    assert_true(full > 1.25 * some && full < 1.35 * some);
    assert_true(more > 1.05 * full);
    assert_close(twice, 2 * full, 1e-3);
}

/* A factor is read once for one target, and multiplied with each of many. */
static void test_preconditioners_of_many_targets(void **state)
{
    (void)state;
    static const char ranked[] =
        "'solver':{'name':'pcg','preconditioner':{'name':'rpcholesky','rank':800}}," PLAINLY;
    const double n = 6250, k = 800, rate = machine().rates.multiply_adds_f64;
    const double one = plan_of_classes(ranked, 6250, 2).iteration_s -
                       plan_of_classes(UNCONDITIONED, 6250, 2).iteration_s;
    const double many = plan_of_classes(ranked, 6250, 202).iteration_s -
                        plan_of_classes(UNCONDITIONED, 6250, 202).iteration_s;
    assert_close(many - one, 200 * 2 * n * k / rate, 1e-9);
}

/* Blocks of values are written down once for all targets. */
static void test_stored_values_of_many_targets(void **state)
{
    (void)state;
    static const char eigenpro[] = "'solver':'eigenpro2'," PLAINLY;
    static const char direct[] = "'solver':'direct','centers':{'count':1000}," PLAINLY;
    const double few = plan_of_classes(eigenpro, 6250, 2).iteration_s;
    assert_true(plan_of_classes(eigenpro, 6250, 200).iteration_s < 15 * few);
    const double setup = plan_of_classes(direct, 6250, 2).setup_s;
    assert_true(plan_of_classes(direct, 6250, 200).setup_s < 4 * setup);
}

/* A restricted model's certificate takes every target twice, in one pass. */
static void test_certificates_of_many_targets(void **state)
{
    (void)state;
    static const char cg[] = "'solver':'cg','centers':{'count':1000}," PLAINLY;
    const struct plan p = plan_of_classes(cg, 6250, 200);
    assert_true(p.finish_s > 1.7 * p.iteration_s && p.finish_s < 2.5 * p.iteration_s);
}

static void test_json_has_all_of_it(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    const struct plan p = plan_for("'solver':'falkon'", 5000, &m);
    struct json *j = plan_to_json(&p, &m);
    const struct json *memory = json_get(j, "memory");
    assert_string_equal(json_string(json_get(j, "solver")), "falkon");
    assert_int_equal(json_type(json_get(j, "preconditioner")), JSON_NULL);
    assert_true(json_bool(json_get(j, "restricted")));
    assert_true(json_number(json_get(memory, "host_limit_bytes")) == 4e9);
    assert_int_equal(json_type(json_get(memory, "device_limit_bytes")), JSON_NULL);
    assert_int_equal(json_size(json_get(memory, "parts")), PLAN_PARTS);
    assert_true(json_number(json_get(json_get(j, "seconds"), "total")) > 0);
    json_free(j);
}

TEST_MAIN(cmocka_unit_test(test_rows_as_the_split_has_them), cmocka_unit_test(test_folds_need_rows),
          cmocka_unit_test(test_a_grid_is_not_known), cmocka_unit_test(test_seconds_follow_rates),
          cmocka_unit_test(test_residuals_count), cmocka_unit_test(test_fits_of_a_choice),
          cmocka_unit_test(test_fits_of_a_choice_in_folds),
          cmocka_unit_test(test_fits_that_leave_out), cmocka_unit_test(test_near_rows),
          cmocka_unit_test(test_ranks_bound_the_work),
          cmocka_unit_test(test_paths_end_where_points_or_rounding_do),
          cmocka_unit_test(test_path_ends_at_a_named_lambda),
          cmocka_unit_test(test_without_a_count_the_jobs_lambda_decides),
          cmocka_unit_test(test_without_a_count_lambda_makes_it),
          cmocka_unit_test(test_time_budget_bounds_the_total),
          cmocka_unit_test(test_a_choice_within_a_time_budget),
          cmocka_unit_test(test_a_choice_on_a_second_sample),
          cmocka_unit_test(test_a_search_on_all_rows_is_the_solution),
          cmocka_unit_test(test_a_search_within_a_time_budget),
          cmocka_unit_test(test_targets_in_groups),
          cmocka_unit_test(test_preconditioners_of_many_targets),
          cmocka_unit_test(test_stored_values_of_many_targets),
          cmocka_unit_test(test_certificates_of_many_targets),
          cmocka_unit_test(test_json_has_all_of_it))
