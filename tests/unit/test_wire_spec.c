#include "wire/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

#define DS "ds_01HZXW5GQ0ABCDEFGHJKMNPQRS"
#define HEAD "{\"model\":\"m\",\"dataset\":\"" DS "\""

static int read_text(const char *text, struct job_spec **ret, struct err *err)
{
    struct json *j cleanup_json = NULL;
    struct err parse = {.code = ERR_OK};
    if (json_parse(text, strlen(text), &j, &parse) < 0) {
        fail_msg("%s: %s", text, parse.detail);
    }
    return job_spec_read(j, ret, err);
}

static struct job_spec *accept(const char *text)
{
    struct job_spec *spec = NULL;
    struct err err = {.code = ERR_OK};
    if (read_text(text, &spec, &err) < 0) {
        fail_msg("%s: %s %s", text, err.pointer, err.detail);
    }
    return spec;
}

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
         "\"seed\":9007199254740992,"
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
    assert_true(s->seed == 9007199254740992);
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

static const struct {
    const char *fields; /* put behind model and dataset */
    const char *pointer;
    const char *detail;
} refused_specs[] = {
    {"\"solver\":\"falkon_bless\",\"centers\":{\"method\":\"kmeans\"}", "#/centers/method",
     "\"bless\""},
    {"\"centers\":3", "#/centers", "a name or an object"},
    {"\"centers\":\"farthest\"", "#/centers", "\"uniform\""},
    {"\"centers\":{\"method\":\"farthest\"}", "#/centers/method", "\"uniform\""},
    {"\"centers\":{\"method\":null}", "#/centers/method", "found null"},
    {"\"centers\":{\"name\":\"uniform\"}", "#/centers/name", ""},
    {"\"centers\":{\"method\":\"uniform\",\"spread\":1}", "#/centers/spread", ""},
    {"\"centers\":{\"count\":0}", "#/centers/count", "1 to 1000000000"},
    {"\"centers\":{\"count\":1000000001}", "#/centers/count", "or \"auto\""},
    {"\"centers\":{\"count\":2.5}", "#/centers/count", "found 2.5"},
    {"\"centers\":{\"count\":\"all\"}", "#/centers/count", "found \"all\""},
    {"\"centers\":{\"count\":null}", "#/centers/count", "found null"},
    {"\"centers\":\"file\"", "#/centers/dataset", "found nothing"},
    {"\"centers\":{\"method\":\"file\"}", "#/centers/dataset", "found nothing"},
    {"\"centers\":{\"method\":\"file\",\"dataset\":\"x\"}", "#/centers/dataset", "ds_"},
    {"\"centers\":{\"method\":\"uniform\",\"dataset\":\"" DS "\"}", "#/centers/dataset",
     "only \"file\""},
    {"\"centers\":\"uniform\",\"solver\":\"pcg\"", "#/centers", "restricted solvers: \"auto\""},
    {"\"centers\":{},\"solver\":\"cholesky\"", "#/centers", "\"cholesky\" finds a coefficient"},
    {"\"centers\":{},\"search\":{\"bandwidth\":[1],\"folds\":5}", "#/search/folds", "one row"},
    {"\"search\":5", "#/search", "an object"},
    {"\"search\":{}", "#/search", "Nothing to search for"},
    {"\"search\":{\"metric\":\"rmse\"}", "#/search", "Nothing to search for"},
    {"\"search\":{\"regularization\":1e-6}", "#/search/regularization", "an array"},
    {"\"search\":{\"regularization\":[]}", "#/search/regularization", "1 to 400"},
    {"\"search\":{\"regularization\":[1e-6,0]}", "#/search/regularization/1", "found 0"},
    {"\"search\":{\"regularization\":[\"auto\"]}", "#/search/regularization/0", "found"},
    {"\"search\":{\"bandwidth\":[1,-2]}", "#/search/bandwidth/1", "found -2"},
    {"\"search\":{\"bandwidth\":\"median\"}", "#/search/bandwidth", "an array"},
    {"\"search\":{\"bandwidth\":[1],\"folds\":1}", "#/search/folds", "2 to 50"},
    {"\"search\":{\"bandwidth\":[1],\"folds\":2.5}", "#/search/folds", "\"loo\""},
    {"\"search\":{\"bandwidth\":[1],\"folds\":\"many\"}", "#/search/folds", "\"loo\""},
    {"\"search\":{\"bandwidth\":[1],\"metric\":\"loss\"}", "#/search/metric", "\"smape\""},
    {"\"search\":{\"bandwidth\":[1],\"max_rows\":10}", "#/search/max_rows", "at least 100"},
    {"\"search\":{\"bandwidth\":[1],\"degree\":[2]}", "#/search/degree", ""},
    {"\"search\":{\"bandwidth\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]},"
     "\"regularization\":\"auto\"",
     "#/search", "At most 400 pairs"},
    {"\"search\":{\"regularization\":[1]},\"regularization\":1e-6", "#/regularization",
     "searched for"},
    {"\"search\":{\"bandwidth\":[1]},\"kernel\":\"linear\"", "#/search/bandwidth", "no bandwidth"},
    {"\"search\":{\"bandwidth\":[1]},\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":2}",
     "#/kernel/bandwidth", "searched for"},
    {"\"promote\":{\"alias\":\"p q\"}", "#/promote/alias", "found \"p q\""},
    {"\"Model\":\"x\"", "#/Model", "Model"},
    {"\"a/b\":1", "#/a~1b", ""},
    {"\"target\":\"\"", "#/target", ""},
    {"\"target\":[]", "#/target", "1 to 4096"},
    {"\"target\":[\"y\",\"y\"]", "#/target/1", "twice"},
    {"\"target\":3", "#/target", "found 3"},
    {"\"features\":\"a\"", "#/features", "array"},
    {"\"features\":[]", "#/features", "1 to 65536"},
    {"\"features\":[\"a\",null]", "#/features/1", "found null"},
    {"\"features\":[\"a\",\"b\",\"a\"]", "#/features/2", "twice"},
    {"\"task\":\"ranking\"", "#/task", "\"regression\""},
    {"\"task\":null", "#/task", "found null"},
    {"\"test\":0.2", "#/test", "an object"},
    {"\"test\":{\"fraction\":1}", "#/test/fraction", "below 1"},
    {"\"test\":{\"fraction\":-0.1}", "#/test/fraction", "found -0.1"},
    {"\"test\":{\"fraction\":\"0.2\"}", "#/test/fraction", ""},
    {"\"test\":{\"fraction\":null}", "#/test/fraction", ""},
    {"\"test\":{\"dataset\":\"x\"}", "#/test/dataset", "ds_"},
    {"\"test\":{\"mask\":\"\"}", "#/test/mask", ""},
    {"\"test\":{\"mask\":\"m\",\"fraction\":0.1}", "#/test", "not several"},
    {"\"test\":{\"rows\":3}", "#/test/rows", ""},
    {"\"standardize\":true", "#/standardize", "an object"},
    {"\"standardize\":{\"features\":\"minmax\"}", "#/standardize/features", "true or false"},
    {"\"standardize\":{\"columns\":true}", "#/standardize/columns", ""},
    {"\"kernel\":null", "#/kernel", "found null"},
    {"\"kernel\":\"rbf\"", "#/kernel", "\"gaussian\""},
    {"\"kernel\":{\"name\":\"rbf\"}", "#/kernel/name", "\"auto\", \"gaussian\""},
    {"\"kernel\":{\"name\":1}", "#/kernel/name", "found 1"},
    {"\"kernel\":{\"name\":\"gaussian\",\"sigma\":1}", "#/kernel/sigma", ""},
    {"\"kernel\":{\"name\":\"auto\",\"gamma\":1}", "#/kernel/gamma", ""},
    {"\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":0}", "#/kernel/bandwidth", "found 0"},
    {"\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":-1}", "#/kernel/bandwidth", ""},
    {"\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":\"mean\"}", "#/kernel/bandwidth",
     "\"median\""},
    {"\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":null}", "#/kernel/bandwidth", ""},
    {"\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":[]}", "#/kernel/bandwidth", ""},
    {"\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":[1,0]}", "#/kernel/bandwidth/1", ""},
    {"\"kernel\":{\"name\":\"linear\",\"bandwidth\":1}", "#/kernel/bandwidth", "\"linear\""},
    {"\"kernel\":{\"name\":\"sigmoid\",\"bandwidth\":\"median\"}", "#/kernel/bandwidth", ""},
    {"\"kernel\":{\"name\":\"polynomial\",\"degree\":21}", "#/kernel/degree", "at most 20"},
    {"\"kernel\":{\"name\":\"polynomial\",\"degree\":2.5}", "#/kernel/degree", ""},
    {"\"kernel\":{\"name\":\"linear\",\"gamma\":\"auto\"}", "#/kernel/gamma", ""},
    {"\"regularization\":\"small\"", "#/regularization", "or \"auto\""},
    {"\"regularization\":-1e-9", "#/regularization", "at least 0"},
    {"\"solver\":\"jacobi\"", "#/solver", "\"cholesky\", \"pcg\""},
    {"\"solver\":{\"name\":\"jacobi\"}", "#/solver/name", "\"pcg\""},
    {"\"solver\":7", "#/solver", "a name or an object"},
    {"\"solver\":{\"name\":\"pcg\",\"rank\":7}", "#/solver/rank", ""},
    {"\"solver\":{\"name\":\"cholesky\",\"block_size\":63}", "#/solver/block_size", ""},
    {"\"solver\":{\"name\":\"askotch\",\"beta\":1.5}", "#/solver/beta", ""},
    {"\"solver\":{\"name\":\"askotch\",\"mu\":0}", "#/solver/mu", ""},
    {"\"solver\":{\"name\":\"askotch\",\"mu\":9e-13}", "#/solver/mu", "at least 1e-12"},
    {"\"solver\":{\"name\":\"askotch2\",\"mu\":9e-13}", "#/solver/mu", "at least 1e-12"},
    {"\"solver\":{\"name\":\"sketchykatyusha\",\"mu\":9e-13}", "#/solver/mu", "at least 1e-12"},
    {"\"solver\":{\"name\":\"skotch\",\"alpha\":2}", "#/solver/alpha", ""},
    {"\"solver\":{\"name\":\"skotch\",\"restarts\":true}", "#/solver/restarts", ""},
    {"\"solver\":{\"name\":\"sketchysaga\",\"learning_rate_scaling\":0}",
     "#/solver/learning_rate_scaling", ""},
    {"\"solver\":{\"name\":\"sketchykatyusha\",\"rho\":-1}", "#/solver/rho", ""},
    {"\"solver\":{\"name\":\"cholesky\",\"preconditioner\":\"none\"}", "#/solver/preconditioner",
     "takes no preconditioner"},
    {"\"solver\":{\"preconditioner\":\"none\"}", "#/solver/preconditioner", "\"auto\""},
    {"\"solver\":{\"name\":\"pcg\",\"preconditioner\":\"nystrom\"}", "#/solver/preconditioner",
     "\"rpcholesky\""},
    {"\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"name\":\"x\"}}",
     "#/solver/preconditioner/name", "\"rpcholesky\""},
    {"\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"rank\":0}}",
     "#/solver/preconditioner/rank", "or \"auto\""},
    {"\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"name\":\"auto\",\"rank\":1}}",
     "#/solver/preconditioner/rank", ""},
    {"\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"name\":\"none\",\"rank\":1}}",
     "#/solver/preconditioner/rank", ""},
    {"\"stop\":{\"tolerance\":0}", "#/stop/tolerance", "greater than 0"},
    {"\"stop\":{\"tolerance\":1.5}", "#/stop/tolerance", "at most 1"},
    {"\"stop\":{\"max_iterations\":0}", "#/stop/max_iterations", ""},
    {"\"stop\":{\"max_iterations\":1000000001}", "#/stop/max_iterations", ""},
    {"\"stop\":{\"time_budget_s\":0}", "#/stop/time_budget_s", "greater than 0"},
    {"\"stop\":{\"epochs\":3}", "#/stop/epochs", ""},
    {"\"stop\":[]", "#/stop", "an object"},
    {"\"precision\":\"float16\"", "#/precision", "\"mixed\""},
    {"\"kernel_cache_bytes\":-1", "#/kernel_cache_bytes", "\"auto\""},
    {"\"kernel_cache_bytes\":1.5", "#/kernel_cache_bytes", ""},
    {"\"kernel_cache_bytes\":\"all\"", "#/kernel_cache_bytes", ""},
    {"\"warm_start\":3", "#/warm_start", "a model's name"},
    {"\"warm_start\":\"-x\"", "#/warm_start", "a model's name"},
    {"\"warm_start\":{}", "#/warm_start/model", "a model's name"},
    {"\"warm_start\":{\"model\":\"a b\"}", "#/warm_start/model", "a model's name"},
    {"\"warm_start\":{\"model\":\"a\",\"version\":0}", "#/warm_start/version", "from 1"},
    {"\"warm_start\":{\"model\":\"a\",\"version\":1.5}", "#/warm_start/version", "from 1"},
    {"\"warm_start\":{\"model\":\"a\",\"versions\":1}", "#/warm_start/versions", ""},
    {"\"device\":\"gpu\"", "#/device", "\"cuda\""},
    {"\"device\":\"cuda:\"", "#/device", ""},
    {"\"device\":\"cuda:01\"", "#/device", ""},
    {"\"device\":\"cuda:256\"", "#/device", "cuda:255"},
    {"\"device\":\"cuda:-1\"", "#/device", ""},
    {"\"device\":\"cuda:1111111111\"", "#/device", ""},
    {"\"device\":\"cuda:1,0\"", "#/device", "ascending"},
    {"\"device\":\"cuda:0,0\"", "#/device", ""},
    {"\"device\":\"cuda:0,\"", "#/device", ""},
    {"\"device\":\"cuda:0,1,2,3,4,5,6,7,8\"", "#/device", "8 GPUs"},
    {"\"device\":null", "#/device", ""},
    {"\"seed\":-1", "#/seed", ""},
    {"\"seed\":9007199254740994", "#/seed", ""},
    {"\"seed\":1e300", "#/seed", ""},
    {"\"priority\":101", "#/priority", ""},
    {"\"max_attempts\":0", "#/max_attempts", ""},
    {"\"max_attempts\":11", "#/max_attempts", ""},
    {"\"metadata\":[]", "#/metadata", "an object"},
    {"\"metadata\":{\"k\":1}", "#/metadata/k", "found 1"},
    {"\"metadata\":{\"\":\"v\"}", "#/metadata/", "1 to 64"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused_specs) / sizeof(refused_specs[0]); i++) {
        struct buf text cleanup_buf = BUF_INIT;
        buf_printf(&text, HEAD ",%s}", refused_specs[i].fields);
        struct job_spec *spec = NULL;
        struct err err = {.code = ERR_OK};
        const int rc = read_text(text.data, &spec, &err);
        if (rc != -ERR_INVALID || strcmp(err.pointer, refused_specs[i].pointer) != 0) {
            print_error("%s: %d %s %s\n", refused_specs[i].fields, rc, err.pointer, err.detail);
        }
        assert_int_equal(rc, -ERR_INVALID);
        assert_string_equal(err.pointer, refused_specs[i].pointer);
        assert_contains(err.detail, refused_specs[i].detail);
        assert_null(spec);
    }
}

static void test_required(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *pointer;
    } cases[] = {
        {"[]", "#"},
        {"{}", "#/model"},
        {"{\"model\":\"m\"}", "#/dataset"},
        {"{\"model\":\"m\",\"dataset\":\"job_01HZXW5GQ0ABCDEFGHJKMNPQRS\"}", "#/dataset"},
        {"{\"model\":\"m\",\"dataset\":\"../../etc\"}", "#/dataset"},
        {"{\"model\":\"\",\"dataset\":\"" DS "\"}", "#/model"},
        {"{\"model\":\"a/b\",\"dataset\":\"" DS "\"}", "#/model"},
        {"{\"model\":7,\"dataset\":\"" DS "\"}", "#/model"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec *spec = NULL;
        struct err err;
        assert_int_equal(read_text(cases[i].text, &spec, &err), -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].pointer);
    }
    assert_int_equal(job_spec_read(NULL, &(struct job_spec *){NULL}, NULL), -ERR_INVALID);
    assert_null(job_spec_free(NULL));
}

static void test_model_names(void **state)
{
    (void)state;
    char name[SPEC_NAME_MAX + 2];
    memset(name, 'a', sizeof(name));
    name[SPEC_NAME_MAX + 1] = '\0';
    assert_false(spec_name_valid(name));
    name[SPEC_NAME_MAX] = '\0';
    assert_true(spec_name_valid(name));
    assert_true(spec_name_valid("0"));
    assert_true(spec_name_valid("a.b_C-9"));
    static const char *const bad[] = {"", ".a", "-a", "_a", "a b", "a/b", "\xC3\xBC", "a\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(spec_name_valid(bad[i]));
    }
}

/* `count` elements, each printed from its number, between two texts. */
static int read_list(const char *before, const char *element, int count, const char *after,
                     struct err *err)
{
    struct buf text cleanup_buf = BUF_INIT;
    buf_str(&text, before);
    for (int i = 0; i < count; i++) {
        buf_str(&text, i == 0 ? "" : ",");
        for (const char *c = element; *c != '\0'; c++) {
            if (*c == '#') {
                buf_printf(&text, "%d", i);
            } else {
                buf_char(&text, *c);
            }
        }
    }
    buf_str(&text, after);
    struct job_spec *spec = NULL;
    const int rc = read_text(text.data, &spec, err);
    job_spec_free(spec);
    return rc;
}

static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *before, *element, *after;
        int limit;
    } cases[] = {
        {HEAD ",\"features\":[", "\"#\"", "]}", SPEC_FEATURES_MAX},
        {HEAD ",\"target\":[", "\"#\"", "]}", SPEC_TARGETS_MAX},
        {HEAD ",\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":[", "1#", "]}}", SPEC_FEATURES_MAX},
        {HEAD ",\"metadata\":{", "\"k#\":\"v\"", "}}", SPEC_METADATA_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int limit = cases[i].limit;
        struct err err;
        assert_int_equal(read_list(cases[i].before, cases[i].element, limit, cases[i].after, &err),
                         0);
        assert_int_equal(
            read_list(cases[i].before, cases[i].element, limit + 1, cases[i].after, &err),
            -ERR_INVALID);
    }
}

static void test_metadata_sizes(void **state)
{
    (void)state;
    static const struct {
        int key, value, rc;
    } cases[] = {{64, 512, 0}, {65, 1, -ERR_INVALID}, {1, 513, -ERR_INVALID}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char key[80] = {0};
        char value[600] = {0};
        memset(key, 'k', (size_t)cases[i].key);
        memset(value, 'v', (size_t)cases[i].value);
        struct buf text cleanup_buf = BUF_INIT;
        buf_printf(&text, HEAD ",\"metadata\":{\"%s\":\"%s\"}}", key, value);
        struct job_spec *spec = NULL;
        assert_int_equal(read_text(text.data, &spec, NULL), cases[i].rc);
        job_spec_free(spec);
    }
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
          cmocka_unit_test(test_refused), cmocka_unit_test(test_required),
          cmocka_unit_test(test_model_names), cmocka_unit_test(test_limits),
          cmocka_unit_test(test_metadata_sizes), cmocka_unit_test(test_mutations),
          cmocka_unit_test(test_centers), cmocka_unit_test(test_centers_of_every_method),
          cmocka_unit_test(test_centers_by_solver))
