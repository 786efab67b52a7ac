#include "server/http/http_accept.h"

#include "support/assert.h"

static const char *const types[] = {"application/json", "text/csv", "application/x-npy"};

static void check_type(const char *accept, int expected)
{
    const int found = http_accept_type(accept, types, 3);
    if (found != expected) {
        print_error("Accept: %s -> %d, expected %d\n", accept != NULL ? accept : "(none)", found,
                    expected);
        fail();
    }
}

static void test_types(void **state)
{
    (void)state;
    check_type(NULL, 0);
    check_type("", 0);
    check_type("*/*", 0);
    check_type("application/json", 0);
    check_type("text/csv", 1);
    check_type("Text/CSV; charset=utf-8", 1);
    check_type("text/*", 1);
    check_type("application/*", 0);
    check_type("application/x-npy, */*", 2);
    check_type("*/*, application/x-npy", 2);
    check_type("application/json;q=0.5, text/csv", 1);
    check_type("application/json;q=0.5,text/csv;q=0.9,application/x-npy;q=0.123", 1);
    check_type("*/*;q=0.1, application/json;q=0", 1);
    check_type("text/*;q=0, */*", 0);
    check_type("image/png", -1);
    check_type("application/json;q=0", -1);
    check_type("application/json;q=0.000", -1);
    check_type("application/json;v=\"a,b;q=0\";q=1", 0);
    check_type(",, ,text/csv,,", 1);
    check_type(";q=1", -1);
    check_type("application/json;q=x", -1);
    check_type("application/jso", -1);
    check_type("application/json\"", -1);
}

static void accepts(const char *accept, const char *type, double expected)
{
    const double got = http_accept_quality(accept, type);
    assert_true(got > expected - 1e-9 && got < expected + 1e-9);
}

static void test_accept_quality(void **state)
{
    (void)state;
    accepts("", "text/csv", 0.0);
    accepts("text/csv", "text/csv", 1.0);
    accepts("TEXT/CSV", "text/csv", 1.0);
    accepts("text/csvx, text/cs, text, */", "text/csv", 0.0);
    accepts("text/html, text/csv;q=0.25", "text/csv", 0.25);
    accepts("text/html , text/csv ; q=0.25 , a/b", "text/csv", 0.25);
    accepts("*/*;q=0.1, text/*;q=0.2, text/csv;q=0", "text/csv", 0.0);
    accepts("text/csv;q=0.3, */*, text/*;q=0.2", "text/csv", 0.3);
    accepts("*/*;q=0.1, text/*;q=0.2", "text/csv", 0.2);
    accepts("text/*;q=0.2, */*;q=0.1", "image/png", 0.1);
    accepts("text/csv;q=2", "text/csv", 0.0);
    accepts("text/csv;q=abc", "text/csv", 0.0);
    accepts("text/csv;x=\",\";q=0.5, text/html", "text/csv", 0.5);
    accepts("text/csv;version=1.0", "text/csv;version=2.0", 0.0);
    accepts("text/csv;version=2.0;q=0.5", "text/csv;version=2.0", 0.5);
    accepts("text/csv;version=2.0", "text/csv", 1.0);
    accepts("text/csv;version=2", "text/csv;version=2.0", 0.0);
    accepts("text/csv;version=\"2.0\"", "text/csv;version=2.0", 1.0);
    accepts("text/csv;note=\"a, text/html;q=0\", text/html;q=0.5", "text/html", 0.5);
    accepts("text/csv;q=0.2, text/csv;header=absent;q=0.7", "text/csv", 0.7);
    accepts("text/csv;", "text/csv", 1.0);
    accepts(",,;;,", "text/csv", 0.0);
    accepts("br, GZIP;q=0.5, *;q=0", "gzip", 0.5);
    accepts("br, xgzip, gzipx", "gzip", 0.0);
}

static void test_names(void **state)
{
    (void)state;
    static const char type[] = "text/event-stream";
    assert_true(http_accept_names("text/event-stream", type));
    assert_true(http_accept_names("*/*;q=0.1, Text/Event-Stream ;q=0.5", type));
    assert_false(http_accept_names(NULL, type));
    assert_false(http_accept_names("", type));
    assert_false(http_accept_names("text/*, */*", type));
    assert_false(http_accept_names("text/event-stream;q=0", type));
    assert_false(http_accept_names("text/event-stream; q=0.000, */*", type));
    assert_false(http_accept_names("text/event-streams, text/event", type));
    assert_false(http_accept_names("a/b;note=\"text/event-stream\"", type));
    assert_false(http_accept_names("a/b;note=\", text/event-stream\"", type));
}

static void check_header(const char *accept, const char *expected)
{
    char value[16] = "";
    const bool found = http_accept_parameter(accept, "text/csv", "header", value, sizeof value);
    assert_int_equal(found, expected != NULL);
    assert_string_equal(value, expected != NULL ? expected : "");
}

/* Of the type's own element alone. */
static void test_parameters(void **state)
{
    (void)state;
    check_header(NULL, NULL);
    check_header("text/csv", NULL);
    check_header("text/csv;header=absent", "absent");
    check_header("text/csv ; q=0.5 ; Header=\"absent\"", "absent");
    check_header("application/json;header=absent, text/csv", NULL);
    check_header("text/csv, application/json;header=absent", NULL);
    check_header("application/json;header=present, text/csv;header=absent", "absent");
    check_header("text/*;header=absent", NULL);
    check_header("text/csv;subheader=absent", NULL);
    check_header("text/csv;note=\";header=absent\"", NULL);
    check_header("text/csv;header=absent;q=0.5, text/csv;header=present", "present");
    check_header("text/csv;header=0123456789012345678", "012345678901234");
}

static void check_encoding(const char *accept, const char *expected)
{
    const char *found = http_accept_encoding(accept);
    if (expected == NULL) {
        assert_null(found);
    } else {
        assert_non_null(found);
        assert_string_equal(found, expected);
    }
}

static void test_encodings(void **state)
{
    (void)state;
    check_encoding(NULL, NULL);
    check_encoding("", NULL);
    check_encoding("identity", NULL);
    check_encoding("gzip", "gzip");
    check_encoding("GZIP", "gzip");
    check_encoding("deflate", "deflate");
    check_encoding("deflate, gzip", "gzip");
    check_encoding("gzip;q=0.5, deflate", "deflate");
    check_encoding("gzip;q=0, deflate;q=0.1", "deflate");
    check_encoding("gzip;q=0", NULL);
    check_encoding("gzip;q=0.3, identity", NULL);
    check_encoding("br", NULL);
    check_encoding("br, zstd, *", "gzip");
    check_encoding("*;q=0", NULL);
    check_encoding("gzip;q=0, *", "deflate");
}

TEST_MAIN(cmocka_unit_test(test_accept_quality), cmocka_unit_test(test_types),
          cmocka_unit_test(test_names), cmocka_unit_test(test_parameters),
          cmocka_unit_test(test_encodings))
