#include "server/http/http_route.h"

#include <string.h>

#include "support/assert.h"

static void matches(const char *pattern, const char *path, const char *first)
{
    struct route_span spans[HTTP_MAX_PARAMS];
    assert_true(route_matches(pattern, path, spans));
    if (first != NULL) {
        assert_int_equal(spans[0].len, strlen(first));
        assert_memory_equal(spans[0].start, first, spans[0].len);
    }
}

static void differs(const char *pattern, const char *path)
{
    struct route_span spans[HTTP_MAX_PARAMS];
    assert_false(route_matches(pattern, path, spans));
}

static void test_literals(void **state)
{
    (void)state;
    matches("/", "/", NULL);
    matches("/v1/jobs", "/v1/jobs", NULL);
    differs("/v1/jobs", "/v1/jobs/");
    differs("/v1/jobs", "/v1/job");
    differs("/v1/jobs", "/v1/jobsx");
    differs("/v1/jobs", "/v1");
    differs("/v1/jobs", "");
    differs("/v1/jobs", "v1/jobs");
    differs("/", "");
    differs("/", "//");
}

static void test_params(void **state)
{
    (void)state;
    matches("/v1/jobs/{id}", "/v1/jobs/x", "x");
    matches("/v1/jobs/{id}/cancel", "/v1/jobs/a%2Fb/cancel", "a%2Fb");
    differs("/v1/jobs/{id}", "/v1/jobs/");
    differs("/v1/jobs/{id}", "/v1/jobs/x/");
    differs("/v1/jobs/{id}/cancel", "/v1/jobs//cancel");
    matches("/{a}/{b}/{c}/{d}", "/1/2/3/4", "1");
    differs("/{a}/{b}/{c}/{d}/{e}", "/1/2/3/4/5"); /* more than HTTP_MAX_PARAMS */
}

static void test_suffix(void **state)
{
    (void)state;
    matches("/v1/models/{name}:predict", "/v1/models/m:predict", "m");
    matches("/v1/models/{name}:predict", "/v1/models/a:b:predict", "a:b");
    differs("/v1/models/{name}:predict", "/v1/models/:predict");
    differs("/v1/models/{name}:predict", "/v1/models/m:predic");
    differs("/v1/models/{name}:predict", "/v1/models/m");
}

static const struct route table[] = {
    {.method = "GET", .pattern = "/a"},          {.method = "POST", .pattern = "/a"},
    {.method = "POST", .pattern = "/a/{x}:run"}, {.method = "GET", .pattern = "/a/{x}"},
    {.method = "DELETE", .pattern = "/a/{x}"},   {.pattern = NULL},
};

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(route_find(table, "POST", "/a").route, &table[1]);
    assert_ptr_equal(route_find(table, "HEAD", "/a").route, &table[0]);
    struct route_found found = route_find(table, "DELETE", "/a/b");
    assert_ptr_equal(found.route, &table[4]);
    assert_int_equal(found.params, 1);
    assert_memory_equal(found.spans[0].start, "b", 1);
    assert_ptr_equal(route_find(table, "POST", "/a/b:run").route, &table[2]);
    assert_ptr_equal(route_find(table, "GET", "/a/b").route, &table[3]);
}

static void test_not_found(void **state)
{
    (void)state;
    struct route_found found = route_find(table, "PUT", "/a");
    assert_null(found.route);
    assert_true(found.known);
    assert_string_equal(found.allow, "GET, HEAD, POST");
    found = route_find(table, "PUT", "/a/b:run");
    assert_string_equal(found.allow, "POST");
    found = route_find(table, "GET", "/b");
    assert_null(found.route);
    assert_false(found.known);
}

static void test_takes(void **state)
{
    (void)state;
    static const char query[] = "limit status+ metadata.* a";
    assert_int_equal(route_takes(query, "limit"), ROUTE_TAKES_ONE);
    assert_int_equal(route_takes(query, "a"), ROUTE_TAKES_ONE);
    assert_int_equal(route_takes(query, "status"), ROUTE_TAKES_MANY);
    assert_int_equal(route_takes(query, "metadata.x"), ROUTE_TAKES_ONE);
    assert_int_equal(route_takes(query, "metadata.a b"), ROUTE_TAKES_ONE);
    static const char *const others[] = {"",  "limi",     "limits",    "status+",       "statu",
                                         "b", "metadata", "metadata.", "limit status+", "*"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(route_takes(query, others[i]), ROUTE_TAKES_NONE);
    }
    assert_int_equal(route_takes(NULL, "limit"), ROUTE_TAKES_NONE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literals),  cmocka_unit_test(test_params),
        cmocka_unit_test(test_suffix),    cmocka_unit_test(test_find),
        cmocka_unit_test(test_not_found), cmocka_unit_test(test_takes),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
