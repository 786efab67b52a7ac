/* Columns of a data set in another one, and which of them tell a target. */
#include <stdio.h>
#include <string.h>

#include "spec_fixture.h"
#include "wire/dataset_match.h"

#define REST                                                                                       \
    "\"dtype\":\"float64\",\"target_columns\":[0],\"task\":\"regression\",\"classes\":0,"          \
    "\"class_labels\":[],\"warnings\":[]"

/* y, two columns of words, a number, and what tells where the first and the number are missing. */
static const char table[] =
    "{\"rows\":9,\"columns\":8,"
    "\"column_names\":[\"y\",\"a=1\",\"a=2\",\"b=1\",\"b=2\",\"n\",\"a_missing\",\"n_missing\"]"
    "," REST ",\"missing\":{\"dropped_rows\":0,\"filled\":2,\"fill\":[1,0,0,0,0,3,0,0],"
    "\"made_up\":[0,2,2,0,0,1,0,0],\"indicates\":[null,null,null,null,null,null,1,5]},"
    "\"words\":[{\"column\":\"a\",\"first\":1,\"count\":2},{\"column\":\"b\",\"first\":3,\"count\":"
    "2}]}";

static struct dataset_info info_of(const char *text)
{
    struct json *j cleanup_json = NULL;
    struct dataset_info info;
    struct err err = {.code = ERR_OK};
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    if (dataset_info_from_json(j, &info, &err) < 0) {
        fail_msg("%s %s", err.pointer, err.detail);
    }
    return info;
}

static void test_siblings(void **state)
{
    (void)state;
    static const struct {
        const char *target, *siblings;
    } cases[] = {
        {"\"n\"", "........"},
        {"\"a=1\"", "..x....."},
        {"[\"a=2\",\"a=1\"]", "........"},
        {"[\"b=2\",\"a=1\"]", "..xx...."},
        {"\"n_missing\"", ".....x.."},
        {"\"a_missing\"", ".xx....."},
        {"[\"a_missing\",\"a=1\"]", "..x....."},
        {"null", "........"},
    };
    struct dataset_info info = info_of(table);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        bool found[8] = {false};
        snprintf(text, sizeof(text), HEAD ",\"target\":%s}", cases[i].target);
        struct job_spec *s = accept(text);
        assert_int_equal(job_spec_mark_siblings(s, &info, found, NULL), 0);
        for (int k = 0; k < 8; k++) {
            assert_int_equal(found[k], cases[i].siblings[k] == 'x');
        }
        job_spec_free(s);
    }
    dataset_info_deinit(&info);
}

/* Places there, 0 for a column of zeros; or what is wrong. */
static void assert_match(const char *other_text, const int64_t places[8], const char *wrong)
{
    struct dataset_info info = info_of(table), other = info_of(other_text);
    struct dataset_match m;
    struct err err = {.code = ERR_OK};
    dataset_match_init(&m, &info, &other);
    for (int64_t i = 1; i < 8; i++) {
        int64_t at = 0;
        assert_int_equal(dataset_match_feature(&m, i, &at, NULL), 0);
        assert_int_equal(at, places[i]);
    }
    const int rc = dataset_match_end(&m, "#/here", "The other", &err);
    assert_int_equal(rc, wrong == NULL ? 0 : -ERR_INVALID);
    assert_string_equal(err.pointer, wrong == NULL ? "" : "#/here");
    assert_string_equal(err.detail, wrong == NULL ? "" : wrong);
    dataset_match_deinit(&m);
    dataset_info_deinit(&info);
    dataset_info_deinit(&other);
}

static void test_match(void **state)
{
    (void)state;
    assert_match(table, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}, NULL);
    /* Other words and an order of its own; nothing is missing. */
    assert_match(
        "{\"rows\":9,\"columns\":5,\"column_names\":[\"b=2\",\"b=3\",\"n\",\"a=0\",\"y\"]," REST
        ",\"words\":[{\"column\":\"b\",\"first\":0,\"count\":2},"
        "{\"column\":\"a\",\"first\":3,\"count\":1}]}",
        (const int64_t[]){0, -1, -1, -1, 0, 2, -1, -1}, NULL);
    /* Names alone are no columns of words. */
    assert_match(
        "{\"rows\":9,\"columns\":4,\"column_names\":[\"b=2\",\"n\",\"a=1\",\"y\"]," REST "}",
        (const int64_t[]){0, 2, -1, -1, 0, 1, -1, -1},
        "The other lacks columns of the training data: \"a\" (of words), \"b\" (of words), "
        "\"a_missing\".");
}

static void test_what_was_filled_in(void **state)
{
    (void)state;
    static const char filled[] =
        "{\"rows\":9,\"columns\":4,\"column_names\":[\"y\",\"a=1\",\"b=1\",\"n\"]," REST
        ",\"missing\":{\"dropped_rows\":0,\"filled\":2,\"fill\":[1,0,0,3],\"made_up\":[0,%d,3,%d]},"
        "\"words\":[{\"column\":\"a\",\"first\":1,\"count\":1},{\"column\":\"b\",\"first\":2,"
        "\"count\":1}]}";
    static const int64_t places[] = {0, 1, -1, 2, -1, 3, -1, -1};
    char text[512];
    snprintf(text, sizeof(text), filled, 0, 0);
    assert_match(text, places, NULL);
    snprintf(text, sizeof(text), filled, 0, 1);
    assert_match(
        text, places,
        "The other lacks columns of the training data: \"n_missing\". What \"n_missing\" tells "
        "of was filled in there: upload it with missing=indicate.");
    snprintf(text, sizeof(text), filled, 2, 0);
    assert_match(
        text, places,
        "The other lacks columns of the training data: \"a_missing\". What \"a_missing\" tells "
        "of was filled in there: upload it with missing=indicate.");
}

TEST_MAIN(cmocka_unit_test(test_siblings), cmocka_unit_test(test_match),
          cmocka_unit_test(test_what_was_filled_in))
