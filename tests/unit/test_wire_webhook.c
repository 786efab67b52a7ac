/* The webhook of a job: read, refused by its pointer, written back. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"
#include "wire/webhook.h"

static int read_text(const char *text, struct webhook_spec *ret, struct err *err)
{
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, err), 0);
    const int r = webhook_read(j, ret, err);
    json_free(j);
    return r;
}

static void test_round_trip(void **state)
{
    static const char *const texts[] = {
        "{\"webhook\":null}",
        "{\"webhook\":{\"url\":\"https://a.b/c?d#e\",\"events\":[\"failed\"]}}",
        "{\"webhook\":{\"url\":\"HTTPS://a:65535\",\"events\":[\"failed\"]}}",
        "{\"webhook\":{\"url\":\"http://[::1]:8/\",\"events\":[\"succeeded\",\"cancelled\"]}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct webhook_spec s;
        struct err err;
        assert_int_equal(read_text(texts[i], &s, &err), 0);
        struct json *j = json_new_object();
        webhook_write(&s, j);
        char *text = json_print(j);
        assert_string_equal(text, texts[i]);
        mem_free(text);
        json_free(j);
    }
    struct webhook_spec s;
    struct err err;
    assert_int_equal(read_text("{\"webhook\":{\"url\":\"https://a\"}}", &s, &err), 0);
    assert_true(s.succeeded && s.failed && s.cancelled);
    assert_int_equal(read_text("{}", &s, &err), 0);
    assert_string_equal(s.url, "");
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"{\"webhook\":1}", "#/webhook"},
        {"{\"webhook\":{}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":1}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"\"}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"example.org\"}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"https:///x\"}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"https://a@b/\"}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"https://a\\\\b/\"}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"https://a/\\u00e9\"}}", "#/webhook/url"},
        {"{\"webhook\":{\"url\":\"https://a/\",\"secret\":1}}", "#/webhook/secret"},
        {"{\"webhook\":{\"url\":\"https://a/\",\"events\":null}}", "#/webhook/events"},
        {"{\"webhook\":{\"url\":\"https://a/\",\"events\":[1]}}", "#/webhook/events/0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct webhook_spec s;
        struct err err;
        assert_int_equal(read_text(cases[i].text, &s, &err), -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].pointer);
    }
}

static void test_servers(void **state)
{
    static const struct {
        const char *url;
        bool named;
    } cases[] = {
        {"https://a", true},           {"https://a/b:c", true},
        {"https://a:/", true},         {"https://a:65535?b", true},
        {"http://127.0.0.1:8/", true}, {"http://[::1]", true},
        {"http://[::1]:8/", true},     {"https://a:0/", false},
        {"https://a:99999/", false},   {"https://a:18446744073709551696/", false},
        {"https://a:-1", false},       {"https://a:8x/", false},
        {"https://:80/", false},       {"https://[::1/", false},
        {"https://[]/", false},        {"https://[::1]8/", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct webhook_spec s;
        struct err err;
        char text[128];
        snprintf(text, sizeof text, "{\"webhook\":{\"url\":\"%s\"}}", cases[i].url);
        assert_int_equal(read_text(text, &s, &err), 0);
        assert_int_equal(webhook_names_server(&s), cases[i].named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
