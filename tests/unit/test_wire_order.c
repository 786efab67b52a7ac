#include "wire/order.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/assert.h"

#define DS "ds_01HZXW5GQ0ABCDEFGHJKMNPQRS"
#define SPEC "{\"model\":\"m\",\"dataset\":\"" DS "\"}"
#define SPEC_TWO "{\"model\":\"m\",\"dataset\":\"" DS "\",\"test\":{\"dataset\":\"" DS "\"}}"

#define SPEC_CENTERS                                                                               \
    "{\"model\":\"m\",\"dataset\":\"" DS "\",\"centers\":{\"method\":\"file\",\"dataset\":\"" DS   \
    "\"}}"

static int read_text(const char *text, struct order **ret, struct err *err)
{
    struct json *j cleanup_json = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return order_read(j, ret, err);
}

static void check_round_trip(const struct order *o)
{
    struct json *first cleanup_json = order_write(o);
    struct order *again = NULL;
    assert_int_equal(order_read(first, &again, NULL), 0);
    struct json *second cleanup_json = order_write(again);
    char *a cleanup_mem = json_print(first);
    char *b cleanup_mem = json_print(second);
    assert_string_equal(a, b);
    order_free(again);
}

static void test_read(void **state)
{
    (void)state;
    struct order *o = NULL;
    assert_int_equal(
        read_text("{\"job\":\"job_1\",\"spec\":" SPEC ",\"dataset_path\":\"/d/x\"}", &o, NULL), 0);
    assert_string_equal(o->job, "job_1");
    assert_int_equal(o->attempt, 1);
    assert_string_equal(o->dataset_path, "/d/x");
    assert_null(o->test_dataset_path);
    assert_null(o->centers_dataset_path);
    assert_null(o->centers_dataset_sha256);
    assert_null(o->dataset_sha256);
    assert_null(o->checkpoint_path);
    assert_close(o->checkpoint_interval_s, 30.0, 0);
    assert_true(isnan(o->setup_s) && isnan(o->finish_s));
    assert_string_equal(o->spec->model, "m");
    check_round_trip(o);
    order_free(o);

    assert_int_equal(read_text("{\"job\":\"job_1\",\"spec\":" SPEC ",\"dataset_path\":\"/d/x\","
                               "\"dataset_sha256\":\"00ff\",\"checkpoint_path\":\"c/1\","
                               "\"checkpoint_interval_s\":0.5,\"setup_s\":4.5,\"finish_s\":0}",
                               &o, NULL),
                     0);
    assert_string_equal(o->dataset_sha256, "00ff");
    assert_string_equal(o->checkpoint_path, "c/1");
    assert_close(o->checkpoint_interval_s, 0.5, 0);
    assert_close(o->setup_s, 4.5, 0);
    assert_close(o->finish_s, 0.0, 0);
    check_round_trip(o);
    order_free(o);

    assert_int_equal(read_text("{\"job\":\"job_01HZXW5GQ0ABCDEFGHJKMNPQRS\",\"attempt\":3,"
                               "\"spec\":" SPEC_TWO ",\"dataset_path\":\"a\","
                               "\"test_dataset_path\":\"b\"}",
                               &o, NULL),
                     0);
    assert_int_equal(o->attempt, 3);
    assert_string_equal(o->test_dataset_path, "b");
    check_round_trip(o);
    order_free(o);

    assert_int_equal(read_text("{\"job\":\"j\",\"spec\":" SPEC_CENTERS ",\"dataset_path\":\"a\","
                               "\"centers_dataset_path\":\"c\",\"centers_dataset_sha256\":\"01\"}",
                               &o, NULL),
                     0);
    assert_string_equal(o->centers_dataset_path, "c");
    assert_string_equal(o->centers_dataset_sha256, "01");
    assert_null(o->test_dataset_path);
    check_round_trip(o);
    assert_null(order_free(o));
    assert_null(order_free(NULL));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *pointer;
    } cases[] = {
        {"3", "#"},
        {"{}", "#/job"},
        {"{\"job\":\"a b\",\"spec\":" SPEC ",\"dataset_path\":\"a\"}", "#/job"},
        {"{\"job\":\"j2345678901234567890123456789012\",\"spec\":" SPEC ",\"dataset_path\":\"a\"}",
         "#/job"},
        {"{\"job\":\"j\",\"dataset_path\":\"a\"}", "#/spec"},
        {"{\"job\":\"j\",\"spec\":{},\"dataset_path\":\"a\"}", "#/spec/model"},
        {"{\"job\":\"j\",\"spec\":[],\"dataset_path\":\"a\"}", "#/spec"},
        {"{\"job\":\"j\",\"spec\":" SPEC "}", "#/dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"\"}", "#/dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"test_dataset_path\":\"b\"}",
         "#/test_dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC_TWO ",\"dataset_path\":\"a\"}", "#/test_dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC_TWO ",\"dataset_path\":\"a\",\"test_dataset_path\":null}",
         "#/test_dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"centers_dataset_path\":\"b\"}",
         "#/centers_dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC_CENTERS ",\"dataset_path\":\"a\"}",
         "#/centers_dataset_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"attempt\":0}", "#/attempt"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"checkpoint_path\":3}",
         "#/checkpoint_path"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"checkpoint_interval_s\":-1}",
         "#/checkpoint_interval_s"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"setup_s\":-1}", "#/setup_s"},
        {"{\"job\":\"j\",\"spec\":" SPEC ",\"dataset_path\":\"a\",\"more\":0}", "#/more"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct order *o = NULL;
        struct err err;
        assert_int_equal(read_text(cases[i].text, &o, &err), -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].pointer);
        assert_null(o);
    }
}

/* The identity of an order for this spec; `more` are further fields of the order. */
static void identify(const char *spec, const char *more, char ret[SHA256_HEX_SIZE])
{
    char text[1024];
    struct order *o = NULL;
    snprintf(text, sizeof(text), "{\"job\":\"j\",\"dataset_path\":\"a\",\"spec\":%s%s}", spec,
             more);
    assert_int_equal(read_text(text, &o, NULL), 0);
    assert_int_equal(order_identity(o, ret, NULL), 0);
    order_free(o);
}

#define KEPT(more) "{\"model\":\"m\",\"dataset\":\"" DS "\",\"solver\":{\"name\":\"kmcg\"" more "},"

/* printf '%s\n00ff\n\n\n' SPEC | sha256sum, whatever parameters the method has today. */
static void test_identity_is_of_what_is_said(void **state)
{
    (void)state;
    static const char digest[] = ",\"dataset_sha256\":\"00ff\"";
    char kept[SHA256_HEX_SIZE], id[SHA256_HEX_SIZE];
    identify(KEPT("") "\"seed\":7}", digest, kept);
    assert_string_equal(kept, "7ba8d94c0209eaf0950aabe3224ec0d6bdc69df4f35fa388620691148750aad1");
    identify(KEPT("") " \"seed\" : 7.0}",
             ",\"dataset_sha256\":\"00ff\",\"attempt\":2,\"checkpoint_path\":\"c\",\"setup_s\":3,"
             "\"kernel_cache_bytes\":9",
             id);
    assert_string_equal(id, kept);
}

/* A default that is spelled out is said, too. */
static void test_identity_differs(void **state)
{
    (void)state;
    static const char digest[] = ",\"dataset_sha256\":\"00ff\"";
    static const struct {
        const char *spec, *more;
    } others[] = {
        {KEPT("") "\"seed\":8}", digest},
        {KEPT(",\"probes\":\"auto\"") "\"seed\":7}", digest},
        {KEPT("") "\"seed\":7}", ",\"dataset_sha256\":\"00fe\""},
        {KEPT("") "\"seed\":7}", ""},
        {KEPT("") "\"seed\":7}", ",\"dataset_sha256\":\"00ff\",\"test_dataset_sha256\":\"01\""},
        {KEPT("") "\"seed\":7}", ",\"dataset_sha256\":\"00ff\",\"centers_dataset_sha256\":\"01\""},
    };
    enum { COUNT = sizeof(others) / sizeof(others[0]) };
    char ids[COUNT + 1][SHA256_HEX_SIZE];
    identify(KEPT("") "\"seed\":7}", digest, ids[COUNT]);
    for (int i = 0; i < COUNT; i++) {
        identify(others[i].spec, others[i].more, ids[i]);
    }
    for (int i = 0; i <= COUNT; i++) {
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(ids[i], ids[k]);
        }
    }
}

TEST_MAIN(cmocka_unit_test(test_read), cmocka_unit_test(test_refused),
          cmocka_unit_test(test_identity_is_of_what_is_said),
          cmocka_unit_test(test_identity_differs))
