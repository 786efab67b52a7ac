/* Specs that are refused: members that are wrong, missing, too many or too long. */
#include <string.h>

#include "base/buf.h"
#include "spec_fixture.h"

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
    {"\"search\":{\"bandwidth\":[1],\"folds\":null}", "#/search/folds", "found null"},
    {"\"search\":{\"bandwidth\":[1],\"regularization\":null}", "#/search/regularization", "null"},
    {"\"search\":{\"bandwidth\":null,\"regularization\":[1]}", "#/search/bandwidth", "null"},
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
    {"\"seed\":9007199254740992", "#/seed", "at most 9007199254740991"},
    {"\"seed\":9007199254740993", "#/seed", "at most 9007199254740991"},
    {"\"kernel_cache_bytes\":9007199254740993", "#/kernel_cache_bytes", "9007199254740991"},
    {"\"warm_start\":{\"model\":\"m\",\"version\":9007199254740993}", "#/warm_start/version", ""},
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

TEST_MAIN(cmocka_unit_test(test_refused), cmocka_unit_test(test_required),
          cmocka_unit_test(test_model_names), cmocka_unit_test(test_limits),
          cmocka_unit_test(test_metadata_sizes))
