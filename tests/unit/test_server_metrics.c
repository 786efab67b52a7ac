#include "server/metrics.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "server/http/http.h"
#include "support/assert.h"

static const struct route routes[] = {
    {.method = "GET", .pattern = "/v1/jobs/{id}"},
    {.method = "POST", .pattern = "/v1/jobs"},
    {.pattern = NULL},
};

static struct metrics_registry *open_registry(void)
{
    struct metrics_registry *m = NULL;
    assert_int_equal(metrics_new(routes, &m, NULL), 0);
    return m;
}

/* Whether the text has this line. */
static bool has_line(const char *text, const char *line)
{
    const size_t len = strlen(line);
    for (const char *at = text; (at = strstr(at, line)) != NULL; at += len) {
        if ((at == text || at[-1] == '\n') && at[len] == '\n') {
            return true;
        }
    }
    return false;
}

static void says(const struct metrics_registry *m, const char *line)
{
    struct buf text cleanup_buf = BUF_INIT;
    metrics_print(m, METRICS_TEXT, &text);
    assert_false(text.failed);
    if (!has_line(text.data, line)) {
        print_error("not there: %s\n", line);
        fail();
    }
}

static void test_counts_and_gauges(void **state)
{
    (void)state;
    struct metrics_registry *m = open_registry();
    metrics_count(m, METRIC_SHED, SHED_QUEUE, 0, 1);
    metrics_count(m, METRIC_SHED, SHED_QUEUE, 0, 2);
    metrics_count(m, METRIC_SHED, SHED_QUEUE, 0, -5); /* counters only rise */
    metrics_gauge(m, METRIC_READY, 0, 0, 1);
    metrics_gauge(m, METRIC_READY, 0, 0, 0.5);
    says(m, "krrd_requests_shed_total{cause=\"queue\"} 3");
    says(m, "krrd_requests_shed_total{cause=\"bodies\"} 0");
    says(m, "# TYPE krrd_requests_shed_total counter");
    says(m, "krrd_ready 0.5");
    assert_true(metrics_value(m, METRIC_SHED, SHED_QUEUE, 0) == 3.0);
    metrics_free(m);
}

/* A value that equals a bound is within it. */
static void test_histogram(void **state)
{
    (void)state;
    struct metrics_registry *m = open_registry();
    metrics_observe(m, METRIC_BATCH_ROWS, 0, 0, 1);
    metrics_observe(m, METRIC_BATCH_ROWS, 0, 0, 2);
    metrics_observe(m, METRIC_BATCH_ROWS, 0, 0, 3);
    metrics_observe(m, METRIC_BATCH_ROWS, 0, 0, DBL_MAX);
    metrics_observe(m, METRIC_BATCH_ROWS, 0, 0, NAN);
    says(m, "krrd_prediction_batch_rows_bucket{le=\"1.0\"} 1");
    says(m, "krrd_prediction_batch_rows_bucket{le=\"2.0\"} 2");
    says(m, "krrd_prediction_batch_rows_bucket{le=\"4.0\"} 3");
    says(m, "krrd_prediction_batch_rows_bucket{le=\"65536.0\"} 3");
    says(m, "krrd_prediction_batch_rows_bucket{le=\"+Inf\"} 4");
    says(m, "krrd_prediction_batch_rows_count 4");
    assert_true(metrics_value(m, METRIC_BATCH_ROWS, 0, 0) == 4.0);
    metrics_free(m);
}

static void test_routes(void **state)
{
    (void)state;
    struct metrics_registry *m = open_registry();
    const int unknown = metrics_route(m, NULL);
    metrics_observe(m, METRIC_REQUEST_SECONDS, metrics_route(m, &routes[1]), 2, 0.01);
    metrics_observe(m, METRIC_REQUEST_SECONDS, unknown, 4, 0.01);
    says(m, "krrd_http_request_seconds_count{method=\"POST\",route=\"/v1/jobs\",code=\"2xx\"} 1");
    says(m, "krrd_http_request_seconds_count{method=\"other\",route=\"other\",code=\"4xx\"} 1");
    struct buf text cleanup_buf = BUF_INIT;
    metrics_print(m, METRICS_TEXT, &text);
    assert_null(strstr(text.data, "/v1/jobs/{id}")); /* never asked for */
    metrics_free(m);
}

/* Labels out of range stay within the family. */
static void test_wild_labels(void **state)
{
    (void)state;
    struct metrics_registry *m = open_registry();
    for (int id = 0; id < METRIC_COUNT_; id++) {
        metrics_gauge(m, (enum metric)id, -1, 1000000, 7);
        metrics_gauge(m, (enum metric)id, 1000000, -1, 7);
    }
    says(m, "krrd_requests_shed_total{cause=\"other\"} 7");
    metrics_free(m);
}

static void test_without_a_registry(void **state)
{
    (void)state;
    metrics_count(NULL, METRIC_SHED, 0, 0, 1);
    metrics_gauge(NULL, METRIC_READY, 0, 0, 1);
    metrics_observe(NULL, METRIC_BATCH_ROWS, 0, 0, 1);
    assert_true(metrics_value(NULL, METRIC_READY, 0, 0) == 0.0);
    assert_int_equal(metrics_route(NULL, &routes[1]), 0);
    assert_null(metrics_free(NULL));
}

/* Every family has a name, a help text and a kind that is printed. */
static void test_every_family_is_described(void **state)
{
    (void)state;
    struct metrics_registry *m = open_registry();
    struct buf text cleanup_buf = BUF_INIT;
    metrics_print(m, METRICS_OPENMETRICS, &text);
    int heads = 0;
    for (const char *at = text.data; (at = strstr(at, "# HELP krrd_")) != NULL; at++) {
        heads++;
        assert_true(strchr(at + 12, ' ')[1] != '\n');
    }
    assert_int_equal(heads, METRIC_COUNT_);
    assert_null(strstr(text.data, "(null)"));
    metrics_free(m);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct metrics_registry *m = NULL;
    struct err err;
    for (int64_t i = 1; i <= METRIC_COUNT_ + 1; i++) {
        mem_fail_nth(i);
        assert_int_equal(metrics_new(routes, &m, &err), -ERR_NO_MEMORY);
        mem_fail_nth(0);
    }
}

static void test_text(void **state)
{
    (void)state;
    struct buf text cleanup_buf = BUF_INIT, labels cleanup_buf = BUF_INIT;
    metrics_label(&labels, "a", "x\"y\\z\n");
    metrics_label(&labels, "b", "");
    assert_string_equal(labels.data, "a=\"x\\\"y\\\\z\\n\",b=\"\"");
    metrics_print_head(&text, METRICS_OPENMETRICS, METRICS_COUNTER, "krrd_x_bytes", "Help.");
    metrics_print_sample(&text, METRICS_COUNTER, "krrd_x_bytes", labels.data, INFINITY);
    metrics_print_head(&text, METRICS_TEXT, METRICS_INFO, "krrd_build", "Help.");
    metrics_print_sample(&text, METRICS_INFO, "krrd_build", "", NAN);
    assert_string_equal(text.data, "# HELP krrd_x_bytes Help.\n"
                                   "# TYPE krrd_x_bytes counter\n"
                                   "# UNIT krrd_x_bytes bytes\n"
                                   "krrd_x_bytes_total{a=\"x\\\"y\\\\z\\n\",b=\"\"} +Inf\n"
                                   "# HELP krrd_build_info Help.\n"
                                   "# TYPE krrd_build_info gauge\n"
                                   "krrd_build_info NaN\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_and_gauges),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_wild_labels),
        cmocka_unit_test(test_without_a_registry),
        cmocka_unit_test(test_every_family_is_described),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
