#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "engine_fixture.h"
#include "plan/rules.h"

/* 4 GB, and rates of one thread. */
static struct plan_machine machine(void)
{
    return (struct plan_machine){
        .threads = 1,
        .limit_bytes = 4000000000,
        .free_bytes = 4000000000,
        .base_bytes = 10000000,
        .rates = {.values_f32 = 2e9,
                  .values_f64 = 1e9,
                  .multiply_adds_f32 = 4e10,
                  .multiply_adds_f64 = 2e10,
                  .bytes = 2e10},
    };
}

static struct plan plan_of(const char *fields, int64_t rows, int64_t columns,
                           const struct plan_machine *m)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, columns, 0);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_make(spec, &data, m, &p);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return p;
}

static struct plan plan_for(const char *fields, int64_t rows, const struct plan_machine *m)
{
    return plan_of(fields, rows, 6, m);
}

static int admit(const char *fields, int64_t rows, const struct plan_machine *m, struct err *err)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, 6, 0);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_make(spec, &data, m, &p);
    const int r = plan_admit(spec, &data, m, &p, err);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return r;
}

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

/* The factor of 10,000 rows: 800 MB, of which a little more than a half is touched, unless pages
 * are large. */
static void test_half_of_a_factor(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    static const char spec[] = "'solver':{'name':'cholesky','factor':'float64'},"
                               "'kernel':{'name':'gaussian','bandwidth':1},'test':{'fraction':0}";
    struct plan p = plan_for(spec, 10000, &m);
    assert_true(p.parts[PLAN_SOLVER] > 400e6 && p.parts[PLAN_SOLVER] < 480e6);
    assert_true(p.reserved_bytes > 800e6 && p.reserved_bytes < 830e6);
    assert_true(p.host_bytes < 500e6);
    m.huge_pages = true;
    p = plan_for(spec, 10000, &m);
    assert_true(p.host_bytes > 800e6);
}

/* A million rows of four features and a target are 40 MB, which a model on centers reads in tiles.
 */
static void test_mapped_files_need_not_fit(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    struct plan p = plan_for("'centers':{'count':100},'kernel':'gaussian'", 1000000, &m);
    assert_true(p.mapped_bytes >= 40e6);
    assert_true(p.host_bytes >= p.mapped_bytes && p.reserved_bytes <= p.host_bytes - 40e6 + 1e6);
    p = plan_for("'solver':'pcg','kernel':'gaussian'", 1000000, &m);
    assert_true(p.mapped_bytes == 0 && p.reserved_bytes >= p.host_bytes);
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
    assert_near(planned_fits(one), 2 + 1 + 1 + learned, 1e-3);
    enum { K = RULE_KERNELS };
    assert_near(planned_fits("'regularization':1e-6"), K * 2 + 1 + K + K * learned, 1e-3);
    assert_near(planned_fits("'test':{'fraction':0.2}"), (K * 2 + 1 + K) * 5 + K * learned, 1e-3);
    assert_near(planned_fits("'kernel':{'name':'auto','bandwidth':1},'regularization':1e-6"), K,
                1e-3);
    assert_near(planned_fits("'kernel':{'name':'gaussian','bandwidth':'median'}"), 0, 1e-3);
}

/* In each of five folds, and what is best learned once more of all rows. */
static void test_fits_of_a_choice_in_folds(void **state)
{
    (void)state;
    enum { K = RULE_KERNELS, ROWS = 250, FITTED = 160 }; /* a fifth is for testing */
    const double learned = RULE_LEARNED_STARTS * RULE_LEARNED_STEPS * (1 + 6);
    const double whole = learned * pow(200.0 / FITTED, 3);
    assert_near(planned_fits_of("'regularization':1e-6", ROWS, FITTED),
                5 * (K * 2 + 1 + K + K * learned) + whole, 1e-3 * whole);
    assert_near(planned_fits_of("'kernel':{'name':'auto','bandwidth':1},'regularization':1e-6",
                                ROWS, FITTED),
                5 * K, 1e-3);
}

/* Each fold learns bandwidths of its own, and so has its points beside the sample. */
static void test_points_of_folds(void **state)
{
    (void)state;
    enum { ROWS = 299, FEATURES = 512, FOLDS = 5, HELD = ROWS / FOLDS };
    static const char open[] = "'kernel':{'name':'gaussian','bandwidth':'auto'},"
                               "'regularization':1e-6,'test':{'fraction':0}";
    const struct plan_machine m = machine();
    const struct plan p = plan_of(open, ROWS, FEATURES + 1, &m);
    const double stored = ROWS + (FOLDS - 1) * HELD;
    assert_string_equal(p.moment, "loading");
    assert_true(p.parts[PLAN_OTHER] > 8.0 * stored * (1 + FOLDS) * FEATURES);
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

static void test_time_budget_bounds_the_total(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    const struct plan p = plan_for("'solver':'pcg','stop':{'time_budget_s':0.5}", 100000, &m);
    assert_close(p.total_s, 0.5 + p.finish_s, 1e-12);
}

/* Counts whose squares exceed 2^63. */
static void test_sizes_without_end(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    struct err err = {.code = ERR_OK};
    const int64_t rows = INT64_C(4000000000);
    const struct plan p = plan_for("'solver':'cholesky'", rows, &m);
    assert_true(p.reserved_bytes > 2e19 && isfinite(p.total_s));
    assert_int_equal(admit("'solver':'cholesky'", rows, &m, &err), -ERR_DOES_NOT_FIT);
}

static void test_refusals_say_what_would_fit(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    struct err err = {.code = ERR_OK};
    assert_int_equal(admit("'solver':'pcg'", 20000, &m, &err), 0);
    assert_int_equal(admit("'solver':{'name':'cholesky','factor':'float64'}", 40000, &m, &err),
                     -ERR_DOES_NOT_FIT);
    assert_string_equal(err.pointer, "#/solver");
    assert_contains(err.detail, "8.22 GB of host memory");
    assert_contains(err.detail, "a worker has 4 GB");
    assert_contains(err.detail, "The solver \"pcg\" would take");
    assert_contains(err.detail, "centers would take");
    assert_int_equal(
        admit("'solver':'krill','centers':{'method':'uniform','count':30000}", 100000, &m, &err),
        -ERR_DOES_NOT_FIT);
    assert_string_equal(err.pointer, "#/centers");
    assert_contains(err.detail, "A model on 7500 centers would take");
    /* One with variances is refused for one with variances. */
    assert_int_equal(admit("'solver':'kmcg'", 2000000, &m, &err), -ERR_DOES_NOT_FIT);
    assert_contains(err.detail, "The solver \"inducing\" on ");
    assert_null(strstr(err.detail, "pcg"));
}

/* So many centers do fit, with the search that the job asks for. */
static void test_advice_holds_for_a_search(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    struct err err = {.code = ERR_OK};
    m.limit_bytes = m.free_bytes = 250000000;
    assert_int_equal(
        admit("'solver':'cholesky','kernel':'gaussian','regularization':'auto'", 40000, &m, &err),
        -ERR_DOES_NOT_FIT);
    const char *advice = strstr(err.detail, "A model on ");
    assert_non_null(advice);
    char fields[160];
    snprintf(fields, sizeof fields,
             "'kernel':'gaussian','regularization':'auto','centers':"
             "{'count':%lld}",
             strtoll(advice + strlen("A model on "), NULL, 10));
    assert_int_equal(admit(fields, 40000, &m, &err), 0);
}

/* A device with memory of its own: the host holds the process and the data alone. */
static void test_own_memory_is_apart(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    m.own_memory = true;
    m.device_bytes = 1000000000;
    struct err err = {.code = ERR_OK};
    static const char spec[] = "'solver':{'name':'cholesky','factor':'float64'},"
                               "'kernel':{'name':'gaussian','bandwidth':1}";
    const struct plan p = plan_for(spec, 10000, &m);
    assert_true(p.host_bytes < 20e6);
    assert_true(p.device_bytes > 500e6);
    assert_int_equal(admit(spec, 10000, &m, &err), 0);
    assert_int_equal(admit(spec, 15000, &m, &err), -ERR_DOES_NOT_FIT);
    assert_contains(err.detail, "of device memory");
}

static double point_bytes(const char *fields, int64_t columns, bool own_memory)
{
    struct plan_machine m = machine();
    m.own_memory = own_memory;
    m.device_bytes = 1000000000;
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(10000, (int)columns, 0);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_make(spec, &data, &m, &p);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return p.parts[PLAN_POINTS];
}

/* A device may hold float32 points in parts, and their norms, besides (adr/0052, adr/0054). */
static void test_points_in_parts(void **state)
{
    static const char gaussian[] = "'precision':'float32','kernel':{'name':'gaussian',"
                                   "'bandwidth':1},'solver':{'name':'pcg'}";
    static const char laplacian[] = "'precision':'float32','kernel':{'name':'laplacian_l1',"
                                    "'bandwidth':1},'solver':{'name':'pcg'}";
    (void)state;
    const double many = point_bytes(gaussian, 41, true) - point_bytes(gaussian, 41, false);
    const double few = point_bytes(gaussian, 6, true) - point_bytes(gaussian, 6, false);
    assert_close(many, 10000.0 * 384.0, 1e-12);
    assert_close(few, 10000.0 * 128.0, 1e-12);
    const double some = point_bytes(gaussian, 22, true) - point_bytes(gaussian, 22, false);
    assert_close(some, 10000.0 * 256.0, 1e-12);
    assert_true(point_bytes(laplacian, 41, true) == point_bytes(laplacian, 41, false));
}

/* Rows of a restricted model stay on a device where half of what is free holds them with their
 * parts, which 90 features have six of, 128 bytes each. */
static void test_resident_rows_in_parts(void **state)
{
    static const char format[] =
        "'precision':'%s','kernel':{'name':'%s','bandwidth':1},'test':{'fraction':0},"
        "'centers':{'method':'uniform','count':100},'solver':'krill'";
    static const struct {
        const char *precision, *kernel;
        double row, prepared; /* bytes that are asked for, and that are counted */
    } cases[] = {{"float32", "gaussian", 90 * 4 + 8 + 768, 91 * 4 + 8 + 768},
                 {"float32", "laplacian_l1", 90 * 4 + 8, 91 * 4 + 8},
                 {"float64", "gaussian", 90 * 8 + 8, 91 * 8 + 8}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t n = 1000000;
        char fields[300];
        struct plan_machine m = machine();
        m.own_memory = true;
        snprintf(fields, sizeof(fields), format, cases[i].precision, cases[i].kernel);
        m.device_bytes = (int64_t)(2.0 * (double)n * cases[i].row);
        const double stays = plan_of(fields, n, 91, &m).parts[PLAN_POINTS];
        assert_true(stays > (double)n * cases[i].prepared);
        m.device_bytes -= 2;
        const double passes = plan_of(fields, n, 91, &m).parts[PLAN_POINTS];
        assert_true(passes < (double)n * cases[i].prepared / 10.0);
        m.own_memory = false; /* nor are there parts on a processor */
        m.free_bytes = (int64_t)(2.0 * (double)n * (cases[i].row - (i == 0 ? 768.0 : 0.0)));
        const double host = plan_of(fields, n, 91, &m).parts[PLAN_POINTS];
        assert_true(host > (double)n * (cases[i].prepared - (i == 0 ? 768.0 : 0.0)));
    }
}

/* Values that are kept are on the device, as many as its own memory has room for; by rates such as
 * a large GPU's, those of five features are computed. */
static void test_values_kept_on_a_device(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    m.own_memory = true;
    m.device_bytes = 140000000000;
    m.rates = (struct plan_rates){.values_f32 = 1.5e12,
                                  .values_f64 = 4e11,
                                  .multiply_adds_f32 = 2e13,
                                  .multiply_adds_f64 = 2e13,
                                  .bytes = 4e12};
    static const char open[] = "'solver':'pcg','kernel':'gaussian','test':{'fraction':0},"
                               "'stop':{'max_iterations':100}";
    static const char given[] = "'solver':'pcg','kernel':'gaussian','test':{'fraction':0},"
                                "'kernel_cache_bytes':50000000000,'stop':{'max_iterations':100}";
    const double all = 391.0 * 392 / 2 * 256 * 256 * 4; /* of 100,000 rows in float32 */
    struct plan p = plan_for(given, 100000, &m);
    assert_close(p.parts[PLAN_KERNEL_CACHE], all, 1e-12);
    assert_true(p.device_bytes > all && p.host_bytes < 1e9);
    assert_true((double)p.kernel_cache_bytes > all);
    p = plan_for(given, 1000000, &m);
    assert_close(p.parts[PLAN_KERNEL_CACHE], 50e9, 1e-12);
    assert_int_equal(plan_for(given, 3000000, &m).kernel_cache_bytes, 0);
    assert_int_equal(plan_for(open, 100000, &m).kernel_cache_bytes, 0);
    m.rates.values_f32 /= 10;
    assert_close(plan_for(open, 100000, &m).parts[PLAN_KERNEL_CACHE], all, 1e-12);
    m.rates = (struct plan_rates){0}; /* nobody has measured it, and 90 features are few */
    assert_int_equal(plan_of(open, 100000, 91, &m).kernel_cache_bytes, 0);
    assert_true(plan_of(open, 100000, 101, &m).kernel_cache_bytes > 0);
}

/* Fifty targets under 400 ridges: 268 MB of left-out predictions, 80 MB of coefficients, and two
 * tiles of 67 MB. */
static void test_a_search_for_many_targets(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    struct buf spec = {0};
    buf_printf(&spec, "'kernel':'gaussian','centers':{'count':500},'target':['x0'");
    for (int j = 1; j < 50; j++) {
        buf_printf(&spec, ",'x%d'", j);
    }
    buf_printf(&spec, "],'search':{'regularization':[1");
    for (int l = 1; l < 400; l++) {
        buf_printf(&spec, ",%d", l);
    }
    buf_printf(&spec, "]}");
    const struct plan p = plan_of(spec.data, 3000, 61, &m);
    assert_int_equal(p.targets, 50);
    assert_string_equal(p.moment, "search");
    assert_true(p.parts[PLAN_OTHER] > 450e6 && p.parts[PLAN_OTHER] < 550e6);
    buf_deinit(&spec);
}

/* What has less time judges less. */
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

/* Of large sets with an open kernel a sample of 9,000 rows: a matrix of 3,000, factorised 15
 * times, beside what small ones have: fits of 1,000 rows, and bandwidths learned from 500. */
static void test_a_choice_on_a_second_sample(void **state)
{
    (void)state;
    const struct plan_machine m = machine();
    static const char open[] = "'solver':'askotch2','test':{'fraction':0}";
    static const char given[] = "'solver':'askotch2','test':{'fraction':0},'kernel':'gaussian'";
    const double fits = 15.0 * 3000.0 * 3000.0 * 3000.0 / 6.0 / m.rates.multiply_adds_f64;
    struct plan p = plan_for(open, 100000, &m), q = plan_for(given, 100000, &m);
    assert_true(p.setup_s > q.setup_s + fits && p.setup_s < q.setup_s + 3 * fits);
    assert_string_equal(p.moment, "loading");
    assert_true(p.parts[PLAN_OTHER] > 72e6 && p.parts[PLAN_OTHER] < 75e6);
    p = plan_for(open, 9999, &m), q = plan_for(given, 9999, &m);
    assert_true(p.setup_s < q.setup_s + 1.3 * fits);
    assert_true(p.parts[PLAN_OTHER] < 16e6);
}

/* Centers that the rule gives a job, 0: none. */
static int64_t centers_taken(const char *fields, int64_t rows, const struct plan_machine *m)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, 6, 0);
    const struct plan_data data = {.train = &info};
    plan_take_centers(spec, &data, m, NULL);
    const int64_t count = spec->centers.method != NULL ? spec->centers.count : 0;
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return count;
}

/* Only what is left open is taken, and as many as there is memory for. */
static void test_many_rows_take_centers(void **state)
{
    (void)state;
    struct plan_machine m = machine();
    m.limit_bytes = INT64_C(64000000000);
    static const char open[] = "'test':{'fraction':0}";
    assert_int_equal(centers_taken(open, 250000, &m), 0);
    assert_int_equal(centers_taken(open, 250001, &m), 5001);
    assert_int_equal(centers_taken(open, 100000000, &m), 10000);
    assert_int_equal(centers_taken("'solver':'pcg'", 1000000, &m), 0);
    assert_int_equal(centers_taken("'regularization':'auto','test':{'fraction':0}", 250001, &m),
                     5001);
    static const char folds[] = "'regularization':'auto','search':{'folds':5}";
    assert_int_equal(centers_taken(folds, 1000000, &m), 0);
    assert_int_equal(centers_taken("'centers':{'count':77}", 1000000, &m), 77);
    m.limit_bytes = 1000000000;
    const int64_t fewer = centers_taken(open, 1000000, &m);
    assert_true(fewer == 5000 || fewer == 2500 || fewer == 1250);
    m.limit_bytes = 20000000;
    assert_int_equal(centers_taken(open, 1000000, &m), 0);
    m = machine();
    m.own_memory = true;
    m.limit_bytes = m.device_bytes = INT64_C(64000000000);
    assert_int_equal(centers_taken(open, 1500000, &m), 0);
    assert_int_equal(centers_taken(open, 2250000, &m), 10000);
}

/* A solver on centers whose number is left open has as many as fit. */
static void test_named_solvers_take_centers(void **state)
{
    (void)state;
    static const char open[] = "'solver':'falkon','test':{'fraction':0}";
    struct plan_machine m = machine();
    m.limit_bytes = INT64_C(64000000000);
    assert_int_equal(centers_taken(open, 1000000, &m), 0);
    m.limit_bytes = 1000000000;
    const int64_t fewer = centers_taken(open, 1000000, &m);
    assert_true(fewer == 5000 || fewer == 2500 || fewer == 1250);
    assert_int_equal(centers_taken("'centers':{'count':'auto'},'test':{'fraction':0}", 1000000, &m),
                     fewer);
    static const char named[] = "'solver':'falkon','centers':{'count':9999},'test':{'fraction':0}";
    assert_int_equal(centers_taken(named, 1000000, &m), 9999);
    /* These go by what they have. */
    assert_int_equal(centers_taken("'solver':'falkon','warm_start':'m'", 1000000, &m), 0);
    assert_int_equal(centers_taken("'solver':'falkon_bless'", 1000000, &m), 0);
    m.limit_bytes = 20000000;
    assert_int_equal(centers_taken(open, 1000000, &m), 0);
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
          cmocka_unit_test(test_half_of_a_factor), cmocka_unit_test(test_mapped_files_need_not_fit),
          cmocka_unit_test(test_a_grid_is_not_known), cmocka_unit_test(test_seconds_follow_rates),
          cmocka_unit_test(test_residuals_count), cmocka_unit_test(test_fits_of_a_choice),
          cmocka_unit_test(test_fits_of_a_choice_in_folds), cmocka_unit_test(test_points_of_folds),
          cmocka_unit_test(test_near_rows), cmocka_unit_test(test_ranks_bound_the_work),
          cmocka_unit_test(test_paths_end_where_points_or_rounding_do),
          cmocka_unit_test(test_path_ends_at_a_named_lambda),
          cmocka_unit_test(test_time_budget_bounds_the_total),
          cmocka_unit_test(test_sizes_without_end),
          cmocka_unit_test(test_refusals_say_what_would_fit),
          cmocka_unit_test(test_advice_holds_for_a_search),
          cmocka_unit_test(test_a_search_for_many_targets),
          cmocka_unit_test(test_a_choice_on_a_second_sample),
          cmocka_unit_test(test_a_search_within_a_time_budget),
          cmocka_unit_test(test_own_memory_is_apart), cmocka_unit_test(test_points_in_parts),
          cmocka_unit_test(test_resident_rows_in_parts),
          cmocka_unit_test(test_values_kept_on_a_device),
          cmocka_unit_test(test_many_rows_take_centers),
          cmocka_unit_test(test_named_solvers_take_centers),
          cmocka_unit_test(test_json_has_all_of_it))
