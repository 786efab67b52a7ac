#include "server/http/problem.h"

#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static int status_of(enum err_code code, const char *pointer)
{
    struct err err;
    err_at(&err, code, pointer, "A sentence.");
    return problem_status(&err);
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(status_of(ERR_PARSE, ""), 400);
    assert_int_equal(status_of(ERR_PARSE, "#/line/3"), 400);
    assert_int_equal(status_of(ERR_INVALID, ""), 400);
    assert_int_equal(status_of(ERR_INVALID, "#/seed"), 422);
    assert_int_equal(status_of(ERR_NOT_FOUND, ""), 404);
    assert_int_equal(status_of(ERR_CONFLICT, ""), 409);
    assert_int_equal(status_of(ERR_CANCELLED, ""), 409);
    assert_int_equal(status_of(ERR_TOO_LARGE, ""), 413);
    assert_int_equal(status_of(ERR_UNSUPPORTED, ""), 422);
    assert_int_equal(status_of(ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE), 415);
    assert_int_equal(status_of(ERR_BUSY, ""), 503);
    assert_int_equal(status_of(ERR_DEADLINE, ""), 504);
    assert_int_equal(status_of(ERR_READ_ONLY, ""), 503);
    assert_int_equal(status_of(ERR_DISK_FULL, ""), 507);
    assert_int_equal(status_of(ERR_IO, ""), 500);
    assert_int_equal(status_of(ERR_CORRUPT, ""), 500);
    assert_int_equal(status_of(ERR_NO_MEMORY, ""), 500);
    assert_int_equal(status_of(ERR_INTERNAL, ""), 500);
}

static char *print(int status, const struct err *err)
{
    struct json *problem = problem_json(status, err, "/v1/x");
    char *text = json_print(problem);
    json_free(problem);
    assert_non_null(text);
    return text;
}

static void test_members(void **state)
{
    (void)state;
    struct err err;
    err_at(&err, ERR_INVALID, "#/seed", "Too \"large\".");
    char *text = print(422, &err);
    assert_string_equal(text,
                        "{\"type\":\"urn:krrd:problem:invalid_value\","
                        "\"title\":\"A value is not allowed here.\",\"status\":422,"
                        "\"code\":\"invalid_value\",\"detail\":\"Too \\\"large\\\".\","
                        "\"instance\":\"/v1/x\",\"errors\":[{\"pointer\":\"#/seed\","
                        "\"detail\":\"Too \\\"large\\\".\"}],\"error\":\"Too \\\"large\\\".\"}");
    mem_free(text);
}

/* What went wrong inside is for the log. */
static void test_internals_stay_inside(void **state)
{
    (void)state;
    const enum err_code codes[] = {ERR_IO, ERR_CORRUPT, ERR_INTERNAL};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct err err;
        err_at(&err, codes[i], "#/secret", "SELECT secret FROM /secret/path");
        char *text = print(500, &err);
        assert_null(strstr(text, "secret"));
        assert_non_null(strstr(text, err_sentence(codes[i])));
        mem_free(text);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    struct err err;
    err_at(&err, ERR_INVALID, "#/seed", "A sentence.");
    for (int64_t n = 1; n < 100; n++) {
        mem_fail_nth(n);
        struct json *problem = problem_json(422, &err, "/");
        char *text = problem != NULL ? json_print(problem) : NULL;
        mem_fail_nth(0);
        json_free(problem);
        if (text != NULL) {
            assert_true(n > 5);
            mem_free(text);
            return;
        }
    }
    fail_msg("It never succeeded.");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_internals_stay_inside),
        cmocka_unit_test(test_no_memory),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
