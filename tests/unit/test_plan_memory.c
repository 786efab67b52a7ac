/* What plans say of memory, of the host and of a device, and what is refused for it or taken
 * smaller. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "plan_fixture.h"

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

TEST_MAIN(cmocka_unit_test(test_half_of_a_factor), cmocka_unit_test(test_mapped_files_need_not_fit),
          cmocka_unit_test(test_points_of_folds), cmocka_unit_test(test_sizes_without_end),
          cmocka_unit_test(test_refusals_say_what_would_fit),
          cmocka_unit_test(test_advice_holds_for_a_search),
          cmocka_unit_test(test_a_search_for_many_targets),
          cmocka_unit_test(test_own_memory_is_apart), cmocka_unit_test(test_points_in_parts),
          cmocka_unit_test(test_resident_rows_in_parts),
          cmocka_unit_test(test_values_kept_on_a_device),
          cmocka_unit_test(test_many_rows_take_centers),
          cmocka_unit_test(test_named_solvers_take_centers))
