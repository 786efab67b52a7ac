/* Specs that are taken: defaults, what is left open, and what comes back when they are written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "spec_fixture.h"
#include "support/mutate.h"

/* Solvers whose iterations are small have a limit of their own, unless the spec names one. */
static void test_iterations_of_block_methods(void **state)
{
    (void)state;
    struct job_spec *s = accept(HEAD ",\"solver\":\"askotch2\"}");
    assert_int_equal(s->stop.max_iterations, 200000);
    job_spec_free(s);
    s = accept(HEAD ",\"solver\":\"askotch2\",\"stop\":{\"max_iterations\":7}}");
    assert_int_equal(s->stop.max_iterations, 7);
    job_spec_free(s);
    s = accept(HEAD ",\"solver\":\"pcg\",\"stop\":{\"tolerance\":0.5}}");
    assert_int_equal(s->stop.max_iterations, 1000);
    job_spec_free(s);
}

static void test_defaults(void **state)
{
    (void)state;
    struct job_spec *s = accept(HEAD "}");
    assert_string_equal(s->model, "m");
    assert_string_equal(s->dataset, DS);
    assert_int_equal(s->targets, 0);
    assert_int_equal(s->features, 0);
    assert_int_equal(s->task, TASK_AUTO);
    assert_int_equal(s->test.kind, SPEC_TEST_FRACTION);
    assert_same_bits(s->test.fraction, 0.2);
    assert_true(s->standardize.features && s->standardize.target);
    assert_null(s->kernel.method);
    assert_int_equal(s->kernel.kind, SPEC_BANDWIDTH_AUTO);
    assert_true(s->open_regularization);
    assert_same_bits(s->regularization, 1e-6);
    assert_string_equal(s->solver.method->name, "auto");
    assert_null(s->solver.preconditioner);
    assert_null(s->centers.method);
    assert_same_bits(s->stop.tolerance, 1e-6);
    assert_int_equal(s->stop.max_iterations, 1000);
    assert_true(isinf(s->stop.time_budget_s));
    assert_int_equal(s->precision, PRECISION_AUTO);
    assert_int_equal(s->kernel_cache_bytes, SPEC_CACHE_AUTO);
    assert_string_equal(s->warm_start.model, "");
    assert_string_equal(s->device, "auto");
    assert_int_equal(s->max_attempts, 3);
    assert_null(s->metadata);
    job_spec_free(s);
}

static const char full[] =
    HEAD ",\"target\":[\"y\",\"z\"],\"features\":[\"a\",\"b\"],\"task\":\"regression\","
         "\"test\":{\"mask\":\"is_test\"},\"standardize\":{\"features\":false,\"target\":false},"
         "\"kernel\":{\"name\":\"matern52\",\"bandwidth\":[0.5,2]},\"regularization\":0,"
         "\"solver\":{\"name\":\"pcg\",\"residual_every\":10,"
         "\"preconditioner\":{\"name\":\"rpcholesky\",\"rank\":77}},"
         "\"stop\":{\"tolerance\":0.001,\"max_iterations\":50,\"time_budget_s\":3600.5},"
         "\"precision\":\"float32\",\"kernel_cache_bytes\":6000000000,\"device\":\"cuda:0,12,255\","
         "\"seed\":9007199254740991,"
         "\"priority\":-100,\"max_attempts\":10,\"metadata\":{\"k\":\"v\",\"\xC3\xBC\":\"\"}}";

/* Of a restricted model, for mutations. */
static const char centered[] =
    HEAD ",\"solver\":{\"name\":\"auto\"},\"kernel\":\"gaussian\",\"regularization\":0.001,"
         "\"centers\":{\"method\":\"file\",\"count\":1000,\"dataset\":\"" DS "\"}}";

/* Left open by absence or null, together with the kernel alone. */
static void test_what_is_left_open(void **state)
{
    static const struct {
        const char *rest;
        int kind;
        bool open;
    } cases[] = {
        {",\"kernel\":{\"name\":\"auto\",\"bandwidth\":\"median\"}}", SPEC_BANDWIDTH_MEDIAN, true},
        {",\"regularization\":null}", SPEC_BANDWIDTH_AUTO, true},
        {",\"regularization\":1e-6}", SPEC_BANDWIDTH_AUTO, false},
        {",\"regularization\":\"auto\"}", SPEC_BANDWIDTH_AUTO, false},
        {",\"kernel\":\"gaussian\",\"regularization\":null}", SPEC_BANDWIDTH_MEDIAN, false},
        {",\"kernel\":{\"name\":\"matern32\",\"bandwidth\":\"auto\"}}", SPEC_BANDWIDTH_AUTO, false},
        {",\"search\":{\"bandwidth\":[1,2]}}", SPEC_BANDWIDTH_AUTO, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), HEAD "%s", cases[i].rest);
        struct job_spec *s = accept(text);
        assert_int_equal(s->kernel.kind, cases[i].kind);
        assert_int_equal(s->open_regularization, cases[i].open);
        assert_same_bits(s->regularization, 1e-6);
        job_spec_free(s);
    }
}

static void test_full(void **state)
{
    (void)state;
    struct job_spec *s = accept(full);
    assert_int_equal(s->targets, 2);
    assert_string_equal(s->target_names[1], "z");
    assert_string_equal(s->feature_names[0], "a");
    assert_int_equal(s->task, TASK_REGRESSION);
    assert_int_equal(s->test.kind, SPEC_TEST_MASK);
    assert_string_equal(s->test.mask, "is_test");
    assert_false(s->standardize.features || s->standardize.target);
    assert_string_equal(s->kernel.method->name, "matern52");
    assert_int_equal(s->kernel.kind, SPEC_BANDWIDTH_PER_FEATURE);
    assert_int_equal(s->kernel.bandwidth_count, 2);
    assert_same_bits(s->kernel.bandwidths[0], 0.5);
    assert_same_bits(s->regularization, 0);
    assert_int_equal(param_int(&s->solver.params, "residual_every"), 10);
    assert_string_equal(s->solver.preconditioner->name, "rpcholesky");
    assert_int_equal(param_int(&s->solver.preconditioner_params, "rank"), 77);
    assert_true(param_get(&s->solver.preconditioner_params, "block_size")->is_auto);
    assert_same_bits(s->stop.time_budget_s, 3600.5);
    assert_int_equal(s->precision, PRECISION_FLOAT32);
    assert_true(s->kernel_cache_bytes == 6000000000);
    assert_string_equal(s->device, "cuda:0,12,255");
    assert_true(s->seed == 9007199254740991);
    assert_int_equal(s->priority, -100);
    assert_string_equal(json_string(json_get(s->metadata, "k")), "v");
    job_spec_free(s);
}

/* Writing and reading again changes nothing: the second document is the first one. */
static void check_round_trip(const struct job_spec *spec)
{
    struct json *first cleanup_json = job_spec_write(spec);
    struct job_spec *again = NULL;
    struct err err = {.code = ERR_OK};
    if (job_spec_read(first, &again, &err) < 0) {
        fail_msg("%s %s", err.pointer, err.detail);
    }
    struct json *second cleanup_json = job_spec_write(again);
    char *a cleanup_mem = json_print(first);
    char *b cleanup_mem = json_print(second);
    assert_string_equal(a, b);
    assert_ptr_equal(again->kernel.method, spec->kernel.method);
    assert_int_equal(again->kernel.kind, spec->kernel.kind);
    assert_ptr_equal(again->solver.method, spec->solver.method);
    assert_ptr_equal(again->solver.preconditioner, spec->solver.preconditioner);
    assert_ptr_equal(again->centers.method, spec->centers.method);
    assert_true(again->centers.count == spec->centers.count);
    assert_string_equal(again->centers.dataset, spec->centers.dataset);
    assert_int_equal(again->test.kind, spec->test.kind);
    assert_same_bits(again->stop.time_budget_s, spec->stop.time_budget_s);
    assert_same_bits(again->regularization, spec->regularization);
    assert_int_equal(again->open_regularization, spec->open_regularization);
    assert_int_equal(again->targets, spec->targets);
    job_spec_free(again);
}

static void test_warm_start(void **state)
{
    (void)state;
    struct job_spec *s = accept(HEAD ",\"warm_start\":\"prices\"}");
    assert_string_equal(s->warm_start.model, "prices");
    assert_int_equal(s->warm_start.version, 0);
    check_round_trip(s);
    job_spec_free(s);
    s = accept(HEAD ",\"warm_start\":{\"model\":\"prices\",\"version\":12}}");
    assert_int_equal(s->warm_start.version, 12);
    check_round_trip(s);
    job_spec_free(s);
    s = accept(HEAD ",\"warm_start\":{\"model\":\"prices\",\"version\":null}}");
    assert_int_equal(s->warm_start.version, 0);
    job_spec_free(s);
    s = accept(HEAD ",\"warm_start\":null}");
    assert_string_equal(s->warm_start.model, "");
    job_spec_free(s);
}

/* Parameters without a name are those of the first in the list. */
static void test_preconditioners_left_open(void **state)
{
    (void)state;
    static const char *const open[] = {"", ",\"preconditioner\":\"auto\"",
                                       ",\"preconditioner\":{\"name\":\"auto\"}"};
    char text[256];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, HEAD ",\"solver\":{\"name\":\"pcg\"%s}}", open[i]);
        struct job_spec *s = accept(text);
        assert_null(s->solver.preconditioner);
        check_round_trip(s);
        job_spec_free(s);
    }
    struct job_spec *s =
        accept(HEAD ",\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"rank\":7}}}");
    assert_string_equal(s->solver.preconditioner->name, "rpcholesky");
    job_spec_free(s);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HEAD "}",
        full,
        HEAD ",\"target\":\"y\",\"features\":null,\"metadata\":{}}",
        HEAD ",\"test\":{\"dataset\":\"" DS "\"}}",
        HEAD ",\"test\":{\"fraction\":0}}",
        HEAD ",\"test\":{}}",
        HEAD ",\"kernel\":\"gaussian\",\"solver\":\"cholesky\"}",
        HEAD ",\"kernel\":\"auto\",\"solver\":\"pcg\"}",
        HEAD ",\"solver\":{\"name\":\"pcg\",\"preconditioner\":\"kronecker\"}}",
        HEAD ",\"kernel\":{\"name\":\"auto\",\"bandwidth\":0.1}}",
        HEAD ",\"kernel\":{\"bandwidth\":\"median\"}}",
        HEAD ",\"kernel\":{\"name\":\"laplacian\",\"bandwidth\":[0.1,0.2,1e-300]}}",
        HEAD ",\"kernel\":{\"name\":\"linear\",\"coef0\":0}}",
        HEAD ",\"kernel\":{\"name\":\"polynomial\",\"degree\":20,\"gamma\":0.3}}",
        HEAD ",\"kernel\":{\"name\":\"sigmoid\",\"gamma\":\"auto\",\"coef0\":-1}}",
        HEAD ",\"solver\":{\"name\":\"pcg\",\"preconditioner\":\"none\"}}",
        HEAD ",\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"name\":\"none\"}}}",
        HEAD ",\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"rank\":100000}}}",
        HEAD ",\"solver\":{\"name\":\"cholesky\",\"block_size\":64},\"stop\":{}}",
        HEAD ",\"solver\":{},\"stop\":{\"time_budget_s\":null}}",
        HEAD ",\"regularization\":1.2345678901234567e-9,\"precision\":\"mixed\"}",
        HEAD ",\"device\":\"cpu\",\"task\":\"classification\"}",
        HEAD ",\"regularization\":\"auto\"}",
        HEAD ",\"regularization\":\"auto\",\"search\":{\"folds\":5}}",
        HEAD ",\"search\":{\"regularization\":[1e-9,0.1],\"metric\":\"smape\"}}",
        HEAD ",\"search\":{\"bandwidth\":[1,2],\"folds\":\"loo\"},\"regularization\":1e-3}",
        HEAD ",\"search\":{\"bandwidth\":[3],\"max_rows\":100},\"regularization\":\"auto\"}",
        HEAD ",\"search\":null}",
        HEAD ",\"centers\":null}",
        HEAD ",\"centers\":{}}",
        HEAD ",\"centers\":\"uniform\"}",
        HEAD ",\"centers\":{\"method\":\"uniform\",\"count\":1000000000}}",
        HEAD ",\"centers\":{\"method\":\"file\",\"dataset\":\"" DS "\",\"count\":\"auto\"}}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct job_spec *s = accept(texts[i]);
        check_round_trip(s);
        job_spec_free(s);
    }
}

static void test_centers(void **state)
{
    (void)state;
    struct job_spec *s = accept(HEAD ",\"centers\":{}}");
    assert_ptr_equal(s->centers.method, catalog_list(CATALOG_CENTERS));
    assert_string_equal(s->centers.method->name, "uniform");
    assert_true(s->centers.count == 0);
    assert_string_equal(s->centers.dataset, "");
    job_spec_free(s);
    s = accept(HEAD ",\"centers\":{\"method\":\"uniform\",\"count\":1000000000}}");
    assert_string_equal(s->centers.method->name, "uniform");
    assert_true(s->centers.count == SPEC_CENTERS_MAX);
    job_spec_free(s);
    s = accept(HEAD ",\"centers\":{\"method\":\"file\",\"dataset\":\"" DS "\"},"
                    "\"solver\":\"auto\"}");
    assert_string_equal(s->centers.dataset, DS);
    job_spec_free(s);
    s = accept(HEAD ",\"centers\":null,\"solver\":\"pcg\"}");
    assert_null(s->centers.method);
    job_spec_free(s);
}

/* Every selector by its bare name: all its parameters are echoed, with their defaults. */
static void test_centers_of_every_method(void **state)
{
    (void)state;
    const struct method_def *m = catalog_list(CATALOG_CENTERS);
    for (; m->name != NULL; m++) {
        struct buf text cleanup_buf = BUF_INIT;
        const bool file = strcmp(m->name, "file") == 0;
        buf_printf(&text, HEAD ",\"centers\":{\"method\":\"%s\"%s}}", m->name,
                   file ? ",\"dataset\":\"" DS "\"" : "");
        struct job_spec *s = accept(text.data);
        check_round_trip(s);
        struct json *j cleanup_json = job_spec_write(s);
        const struct json *centers = json_get(j, "centers");
        assert_string_equal(json_string(json_get(centers, "method")), m->name);
        assert_string_equal(json_string(json_get(centers, "count")), "auto");
        int64_t members = file ? 3 : 2;
        for (const struct param_def *p = m->params; p != NULL && p->key != NULL; p++, members++) {
            assert_non_null(json_get(centers, p->key));
        }
        assert_int_equal(json_size(centers), members);
        job_spec_free(s);
    }
}

/* Restricted solvers have centers, asked for or not, drawn with weights where they need them; the
 * others, "auto" apart, take none. */
static void test_centers_by_solver(void **state)
{
    (void)state;
    for (const struct method_def *m = catalog_list(CATALOG_SOLVERS) + 1; m->name != NULL; m++) {
        struct buf with cleanup_buf = BUF_INIT;
        struct buf without cleanup_buf = BUF_INIT;
        buf_printf(&with, HEAD ",\"solver\":\"%s\",\"centers\":\"uniform\"}", m->name);
        buf_printf(&without, HEAD ",\"solver\":\"%s\"}", m->name);
        struct job_spec *s = accept(without.data);
        assert_int_equal(s->centers.method != NULL, m->restricted);
        assert_true(!m->weighted || s->centers.method->weighted);
        assert_true(!m->restricted || m->weighted ||
                    s->centers.method == catalog_list(CATALOG_CENTERS));
        check_round_trip(s);
        s = job_spec_free(s);
        struct err err = {.code = ERR_OK};
        const int rc = read_text(with.data, &s, &err);
        const bool taken = m->restricted && !m->weighted;
        assert_int_equal(rc, taken ? 0 : -ERR_INVALID);
        assert_string_equal(err.pointer, taken ? "" : "#/centers");
        job_spec_free(s);
    }
}

static void test_search(void **state)
{
    (void)state;
    struct job_spec *s = accept(HEAD "}");
    assert_false(s->search.wanted);
    job_spec_free(s);

    s = accept(HEAD ",\"regularization\":\"auto\"}");
    assert_true(s->search.wanted);
    assert_int_equal(s->search.regularizations, 23);
    assert_close(s->search.regularization[0], 1e-12, 1e-15);
    assert_close(s->search.regularization[1], 3e-12, 1e-15);
    assert_close(s->search.regularization[22], 1e-1, 1e-15);
    assert_int_equal(s->search.bandwidths, 0);
    assert_int_equal(s->search.metric, SEARCH_AUTO);
    assert_int_equal(s->search.folds, 0);
    assert_int_equal(s->search.max_rows, 4000);
    job_spec_free(s);

    s = accept(HEAD ",\"search\":{\"bandwidth\":[0.5,2],\"regularization\":[3,1e-5,2],"
                    "\"metric\":\"auc\",\"folds\":7,\"max_rows\":12000}}");
    assert_int_equal(s->search.regularizations, 3);
    assert_same_bits(s->search.regularization[1], 1e-5);
    assert_int_equal(s->search.bandwidths, 2);
    assert_same_bits(s->search.bandwidth[1], 2);
    assert_int_equal(s->search.metric, SEARCH_AUC);
    assert_int_equal(s->search.folds, 7);
    assert_int_equal(s->search.max_rows, 12000);
    job_spec_free(s);
}

static void test_mutations(void **state)
{
    (void)state;
    struct rng r = rng_new(3, RNG_TEST);
    int accepted = 0;
    int refused = 0;
    for (int i = 0; i < 9000; i++) {
        size_t len = 0;
        const char *from = i % 3 == 0 ? centered : full;
        char *text cleanup_mem = mutate(&r, from, strlen(from), &len);
        struct json *j cleanup_json = NULL;
        if (json_parse(text, len, &j, NULL) < 0) {
            continue;
        }
        struct job_spec *spec = NULL;
        struct err err = {.code = ERR_OK};
        if (job_spec_read(j, &spec, &err) == 0) {
            check_round_trip(spec);
            job_spec_free(spec);
            accepted++;
        } else {
            assert_int_equal(err.code, ERR_INVALID);
            assert_int_equal(err.pointer[0], '#');
            assert_true(strlen(err.detail) > 5);
            refused++;
        }
    }
    assert_in_range(accepted, 50, 3000);
    assert_in_range(refused, 100, 5000);
}

TEST_MAIN(cmocka_unit_test(test_defaults), cmocka_unit_test(test_what_is_left_open),
          cmocka_unit_test(test_iterations_of_block_methods), cmocka_unit_test(test_full),
          cmocka_unit_test(test_search), cmocka_unit_test(test_warm_start),
          cmocka_unit_test(test_preconditioners_left_open), cmocka_unit_test(test_round_trip),
          cmocka_unit_test(test_mutations), cmocka_unit_test(test_centers),
          cmocka_unit_test(test_centers_of_every_method), cmocka_unit_test(test_centers_by_solver))
