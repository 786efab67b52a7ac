#include "wire/promote.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/assert.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return j;
}

/* Reads {"promote": text}, which must be fine, and writes it again. */
static struct promote_spec accept(const char *text, const char *written)
{
    char document[512];
    snprintf(document, sizeof(document), "{\"promote\":%s}", text);
    cleanup_json struct json *j = parse(document), *again = json_new_object();
    struct promote_spec s;
    struct err err = {.code = ERR_OK};
    if (promote_read(j, &s, &err) < 0) {
        fail_msg("%s: %s %s", text, err.pointer, err.detail);
    }
    promote_write(&s, again);
    cleanup_mem char *printed = json_print(again);
    snprintf(document, sizeof(document), "{\"promote\":%s}", written);
    assert_string_equal(printed, document);
    return s;
}

static void test_read_and_write(void **state)
{
    (void)state;
    assert_string_equal(accept("null", "null").alias, "");
    assert_int_equal(accept("{\"alias\":\"p\"}", "{\"alias\":\"p\",\"if\":{}}").count, 0);
    static const char both[] = "{\"alias\":\"prod\",\"if\":{\"smape\":{\"lt\":0.02,\"le\":"
                               "\"current\"},\"r2\":{\"ge\":-1}}}";
    const struct promote_spec s = accept(both, both);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.conditions[0].metric, SEARCH_SMAPE);
    assert_int_equal(s.conditions[0].op, PROMOTE_LT);
    assert_true(s.conditions[0].limit == 0.02);
    assert_true(s.conditions[1].current);
    assert_int_equal(s.conditions[2].metric, SEARCH_R2);
    struct buf text = BUF_INIT;
    buf_str(&text, "{\"alias\":\"a\",\"if\":{");
    for (enum search_metric m = SEARCH_SMAPE; m <= SEARCH_AUC; m++) {
        buf_printf(&text, "%s\"%s\":{\"lt\":1,\"le\":1,\"gt\":0,\"ge\":0}",
                   m > SEARCH_SMAPE ? "," : "", search_metric_name(m));
    }
    buf_str(&text, "}}");
    assert_int_equal(accept(text.data, text.data).count, PROMOTE_CONDITIONS_MAX);
    buf_deinit(&text);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"3", "#/promote"},
        {"{}", "#/promote/alias"},
        {"{\"alias\":\"\"}", "#/promote/alias"},
        {"{\"alias\":\"a b\"}", "#/promote/alias"},
        {"{\"alias\":\"-a\"}", "#/promote/alias"},
        {"{\"alias\":\"a\",\"when\":{}}", "#/promote/when"},
        {"{\"alias\":\"a\",\"if\":[]}", "#/promote/if"},
        {"{\"alias\":\"a\",\"if\":{\"loss\":{\"lt\":1}}}", "#/promote/if/loss"},
        {"{\"alias\":\"a\",\"if\":{\"smape\":1}}", "#/promote/if/smape"},
        {"{\"alias\":\"a\",\"if\":{\"smape\":{}}}", "#/promote/if/smape"},
        {"{\"alias\":\"a\",\"if\":{\"smape\":{\"eq\":1}}}", "#/promote/if/smape/eq"},
        {"{\"alias\":\"a\",\"if\":{\"smape\":{\"lt\":\"best\"}}}", "#/promote/if/smape/lt"},
        {"{\"alias\":\"a\",\"if\":{\"smape\":{\"lt\":null}}}", "#/promote/if/smape/lt"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char document[256];
        snprintf(document, sizeof(document), "{\"promote\":%s}", cases[i].text);
        cleanup_json struct json *j = parse(document);
        struct promote_spec s;
        struct err err = {.code = ERR_OK};
        assert_int_equal(promote_read(j, &s, &err), -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].pointer);
    }
}

static int check(const char *condition, int64_t classes, bool tested, struct err *err)
{
    char document[128];
    snprintf(document, sizeof(document), "{\"promote\":{\"alias\":\"a\",\"if\":{%s}}}", condition);
    cleanup_json struct json *j = parse(document);
    struct promote_spec s;
    assert_int_equal(promote_read(j, &s, NULL), 0);
    return promote_check(&s, classes, tested, err);
}

static void test_what_the_task_has(void **state)
{
    (void)state;
    struct err err = {.code = ERR_OK};
    assert_int_equal(check("\"r2\":{\"gt\":0}", 0, true, &err), 0);
    assert_int_equal(check("\"auc\":{\"gt\":0}", 2, true, &err), 0);
    assert_int_equal(check("\"accuracy\":{\"gt\":0}", 3, true, &err), 0);
    assert_int_equal(check("", 3, false, &err), 0);
    assert_int_equal(check("\"r2\":{\"gt\":0}", 2, true, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/promote/if/r2");
    assert_int_equal(check("\"accuracy\":{\"gt\":0}", 0, true, &err), -ERR_INVALID);
    assert_int_equal(check("\"auc\":{\"gt\":0}", 3, true, &err), -ERR_INVALID);
    assert_contains(err.detail, "two classes");
    assert_int_equal(check("\"r2\":{\"gt\":0}", 0, false, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/promote/if");
}

static bool decide(const char *condition, const char *metrics, const char *current)
{
    char document[128];
    snprintf(document, sizeof(document), "{\"promote\":{\"alias\":\"a\",\"if\":{%s}}}", condition);
    cleanup_json struct json *j = parse(document), *found = parse(metrics);
    cleanup_json struct json *present = current != NULL ? parse(current) : NULL, *told = NULL;
    struct promote_spec s;
    assert_int_equal(promote_read(j, &s, NULL), 0);
    const bool met = promote_decide(&s, found, present, &told);
    bool all = true;
    assert_int_equal(json_size(told), s.count);
    for (const struct json *at = json_first(told); at != NULL; at = json_next(at)) {
        all &= json_bool(json_get(at, "met"));
    }
    assert_int_equal(all, met);
    /* What is worth it before "current" is known may still fail then, and never the other way. */
    assert_true(promote_worth(&s, found) || !met);
    return met;
}

static void test_decisions(void **state)
{
    (void)state;
    static const char good[] = "{\"smape\":0.25,\"r2\":0.5,\"auc\":null}";
    assert_true(decide("", good, NULL));
    assert_true(decide("\"smape\":{\"lt\":0.3}", good, NULL));
    assert_false(decide("\"smape\":{\"lt\":0.25}", good, NULL));
    assert_true(decide("\"smape\":{\"le\":0.25}", good, NULL));
    assert_false(decide("\"r2\":{\"gt\":0.5}", good, NULL));
    assert_true(decide("\"r2\":{\"ge\":0.5}", good, NULL));
    assert_true(decide("\"r2\":{\"gt\":0.4},\"smape\":{\"lt\":1}", good, NULL));
    assert_false(decide("\"r2\":{\"gt\":0.4},\"smape\":{\"lt\":0.1}", good, NULL));
    assert_false(decide("\"r2\":{\"gt\":0.4,\"lt\":0.45}", good, NULL));
    /* A metric that is not there meets nothing. */
    assert_false(decide("\"mae\":{\"lt\":1}", good, NULL));
    assert_false(decide("\"auc\":{\"ge\":0}", good, NULL));
    assert_false(decide("\"r2\":{\"ge\":0}", "null", NULL));
    /* Against the present version; there is none; nothing is known of it. */
    assert_true(decide("\"smape\":{\"lt\":\"current\"}", good, "{\"smape\":0.26}"));
    assert_false(decide("\"smape\":{\"lt\":\"current\"}", good, "{\"smape\":0.25}"));
    assert_true(decide("\"smape\":{\"lt\":\"current\"}", good, NULL));
    assert_false(decide("\"auc\":{\"gt\":\"current\"}", good, NULL));
    assert_false(decide("\"smape\":{\"lt\":\"current\"}", good, "null"));
    assert_false(decide("\"smape\":{\"lt\":\"current\"}", good, "{\"r2\":0.4}"));
}

TEST_MAIN(cmocka_unit_test(test_read_and_write), cmocka_unit_test(test_refusals),
          cmocka_unit_test(test_what_the_task_has), cmocka_unit_test(test_decisions))
