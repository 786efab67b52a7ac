#include "server/http/http_text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static void decodes_to(const char *text, const char *expected)
{
    char *got = NULL;
    assert_true(http_percent_decode(text, strlen(text), &got));
    if (expected == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, expected);
    }
    mem_free(got);
}

static void test_percent_decode(void **state)
{
    (void)state;
    decodes_to("", "");
    decodes_to("abc", "abc");
    decodes_to("a%20b", "a b");
    decodes_to("%2F%2f", "//");
    decodes_to("%C3%BC", "ü");
    decodes_to("ü", "ü");
    decodes_to("%25zz", "%zz");
    decodes_to("%", NULL);
    decodes_to("a%2", NULL);
    decodes_to("%zz", NULL);
    decodes_to("%2 ", NULL);
    decodes_to("%00", NULL);
    decodes_to("%0a", NULL);
    decodes_to("%7f", NULL);
    decodes_to("%ff", NULL);
    decodes_to("%C3", NULL);
    decodes_to("%c0%80", NULL);
}

/* An escape cut off by the length is not read beyond it. */
static void test_percent_decode_length(void **state)
{
    (void)state;
    char *got = NULL;
    assert_true(http_percent_decode("ab%20", 2, &got));
    assert_string_equal(got, "ab");
    mem_free(got);
    assert_true(http_percent_decode("a%20", 3, &got));
    assert_null(got);
}

static void test_percent_decode_no_memory(void **state)
{
    (void)state;
    char *got = NULL;
    mem_fail_nth(1);
    assert_false(http_percent_decode("a", 1, &got));
    assert_null(got);
}

static void test_names_and_values(void **state)
{
    (void)state;
    assert_true(http_token_valid("X-Request-Id"));
    assert_false(http_token_valid(""));
    assert_false(http_token_valid("a b"));
    assert_false(http_token_valid("a:"));
    assert_false(http_token_valid("\xC3\xBC"));
    assert_true(http_value_valid(""));
    assert_true(http_value_valid("a\tb \xFF"));
    assert_false(http_value_valid("a\nb"));
    assert_false(http_value_valid("a\rb"));
    assert_false(http_value_valid("a\x7F"));
}

static void test_request_id(void **state)
{
    (void)state;
    char text[130];
    memset(text, 'a', sizeof(text));
    text[128] = '\0';
    assert_true(http_request_id_valid(text));
    text[128] = 'a';
    text[129] = '\0';
    assert_false(http_request_id_valid(text));
    assert_false(http_request_id_valid(""));
    assert_false(http_request_id_valid("a\"b"));
}

static void test_types(void **state)
{
    (void)state;
    char value[8];
    assert_true(http_type_parameter("a/b; X=1;y=\"q\\\"u;o\" ; z = 3", "y", value, sizeof(value)));
    assert_string_equal(value, "q\"u;o");
    assert_true(http_type_parameter("a/b;charset=utf-16-long\t", "CharSet", value, sizeof(value)));
    assert_string_equal(value, "utf-16-");
    assert_true(http_type_parameter("a/b; x=", "x", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_false(http_type_parameter("a/b; xy=1; x; \"x=2\"", "x", value, sizeof(value)));
    assert_false(http_type_parameter("x=1", "x", value, sizeof(value)));
    assert_true(http_element_parameter("a/b;x=1,c/d;y=2", "x", value, sizeof(value)));
    assert_string_equal(value, "1");
    assert_false(http_element_parameter("a/b;x=1,c/d;y=2", "y", value, sizeof(value)));
    assert_true(http_type_is("text/csv", "text/csv"));
    assert_true(http_type_is("Text/CSV ; charset=utf-8", "text/csv"));
    assert_false(http_type_is("text/csvx", "text/csv"));
    assert_false(http_type_is("", "text/csv"));
    assert_true(http_type_is_json("application/json; charset=utf-8"));
    assert_true(http_type_is_json("application/merge-patch+JSON"));
    assert_false(http_type_is_json("+json"));
    assert_false(http_type_is_json("text/json"));
    assert_false(http_type_is_json(""));
}

static void test_target_path(void **state)
{
    (void)state;
    assert_string_equal(http_target_path("/a"), "/a");
    assert_string_equal(http_target_path("http://h:1/a/b"), "/a/b");
    assert_string_equal(http_target_path("HTTPS://h"), "/");
    assert_null(http_target_path("*"));
    assert_null(http_target_path("h:1"));
    assert_null(http_target_path(""));
}

static void assert_target_host(const char *target, const char *expected)
{
    size_t len;
    const char *host = http_target_host(target, &len);
    assert_non_null(host);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(host, expected, len);
}

static void test_target_host(void **state)
{
    (void)state;
    size_t len;
    assert_target_host("http://h:1/a/b@c", "h:1");
    assert_target_host("HTTPS://h", "h");
    assert_target_host("http:///a", "");
    assert_null(http_target_host("/a", &len));
    assert_null(http_target_host("ftp://h/", &len));
}

static void test_length(void **state)
{
    (void)state;
    long long n = -1;
    assert_true(http_length_read("0", &n));
    assert_int_equal(n, 0);
    assert_true(http_length_read("9223372036854775806", &n));
    assert_true(n == LLONG_MAX - 1);
    assert_true(http_length_read("9223372036854775807", &n));
    assert_true(n == LLONG_MAX);
    assert_true(http_length_read("9223372036854775808", &n));
    assert_true(n == LLONG_MAX);
    assert_true(http_length_read("99999999999999999999999999", &n));
    assert_true(n == LLONG_MAX);
    assert_false(http_length_read("", &n));
    assert_false(http_length_read("-1", &n));
    assert_false(http_length_read("+1", &n));
    assert_false(http_length_read("1 ", &n));
    assert_false(http_length_read("0x1", &n));
}

static void test_origin(void **state)
{
    (void)state;
    assert_true(http_origin_allowed(NULL, NULL, "h:1"));
    assert_true(http_origin_allowed(NULL, "http://h:1", "H:1"));
    assert_false(http_origin_allowed(NULL, "http://h:2", "h:1"));
    assert_false(http_origin_allowed(NULL, "null", "h:1"));
    assert_false(http_origin_allowed(NULL, "http://h", NULL));
    assert_true(http_origin_allowed("same-origin", "http://other", "h"));
    assert_true(http_origin_allowed("none", NULL, "h"));
    assert_false(http_origin_allowed("cross-site", NULL, "h"));
    assert_false(http_origin_allowed("same-site", "http://h", "h"));
}

static void test_traceparent(void **state)
{
    (void)state;
    const char *good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_true(http_traceparent_valid(good));
    /* One character changed to one that no field may have. */
    for (size_t i = 0; i < strlen(good); i++) {
        char text[64];
        memcpy(text, good, strlen(good) + 1);
        text[i] = 'X';
        assert_false(http_traceparent_valid(text));
    }
    assert_false(http_traceparent_valid(""));
    assert_false(http_traceparent_valid(good + 1));
}

static void test_prefer_wait(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        long expected;
    } cases[] = {
        {"wait=5", 5},
        {"wait=0", 0},
        {"WAIT = 12", 12},
        {"wait=\"7\"", 7},
        {"wait=7;x=1", 7},
        {"respond-async, wait=10", 10},
        {"respond-async,wait=10 , wait=3", 10},
        {"foo=\"wait=3, wait=4\", wait=9", 9},
        {"wait=99999999999999999999999", 86400},
        {"wait", -1},
        {"wait=", -1},
        {"wait=-1", -1},
        {"wait=5s", -1},
        {"wait=\"5", -1},
        {"waiting=5", -1},
        {"wait=x, wait=4", 4},
        {"", -1},
        {",,,", -1},
        {"foo=\"\\", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(http_prefer_wait(cases[i].text), cases[i].expected);
    }
}

static void test_tag_listed(void **state)
{
    (void)state;
    assert_true(http_tag_matches("\"b\", \"a\"", "\"a\""));
    assert_true(http_tag_matches(" * ", "\"a\""));
    assert_false(http_tag_matches("W/\"a\", \"b\"", "\"a\""));
    assert_true(http_tag_listed("\"a\"", "\"a\""));
    assert_true(http_tag_listed("W/\"a\"", "\"a\""));
    assert_true(http_tag_listed(" \"b,c\" , \"a\" ", "\"a\""));
    assert_true(http_tag_listed("*", "\"a\""));
    assert_false(http_tag_listed("a", "\"a\""));
    assert_false(http_tag_listed("\"a\"b", "\"a\""));
    assert_false(http_tag_listed("\"b, \"a\"", "\"a\""));
    assert_false(http_tag_listed("**", "\"a\""));
    assert_false(http_tag_listed("", "\"a\""));
    assert_false(http_tag_listed("W/", "\"a\""));
    assert_false(http_tag_listed(",,", "\"a\""));
}

static void test_timeout(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "0",  "0.0", "-1",  "+1",    "1e3",   " 1",  "1 ",
                                      "1s", "1,", ".5",  "1..", "86401", "1.2.3", "nan", "inf"};
    double seconds = 7.0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(http_timeout_read(bad[i], &seconds));
        assert_true(seconds == 7.0);
    }
    assert_true(http_timeout_read("0.25", &seconds) && seconds == 0.25);
    assert_true(http_timeout_read("86400", &seconds) && seconds == 86400.0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent_decode),
        cmocka_unit_test(test_percent_decode_length),
        cmocka_unit_test(test_percent_decode_no_memory),
        cmocka_unit_test(test_names_and_values),
        cmocka_unit_test(test_request_id),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_target_path),
        cmocka_unit_test(test_target_host),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_traceparent),
        cmocka_unit_test(test_prefer_wait),
        cmocka_unit_test(test_tag_listed),
        cmocka_unit_test(test_timeout),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
