/* job_spec_check_columns, _tested and _centers: specs against the columns of data sets. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "spec_fixture.h"

/* Columns a, b, c, y (class column), mask. */
static struct dataset_info example_info(void)
{
    static const char text[] =
        "{\"rows\":9,\"columns\":5,\"dtype\":\"float64\","
        "\"column_names\":[\"a\",\"b\",\"c\",\"y\",\"mask\"],\"target_columns\":[3],"
        "\"task\":\"classification\",\"classes\":2,\"class_labels\":[\"0\",\"1\"],\"warnings\":[]}";
    struct json *j cleanup_json = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    struct dataset_info info;
    assert_int_equal(dataset_info_from_json(j, &info, NULL), 0);
    return info;
}

#define AUTO(head, metric)                                                                         \
    head ",\"regularization\":\"auto\",\"search\":{\"metric\":\"" metric "\"}"

static void test_columns(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *pointer; /* NULL: fits */
    } cases[] = {
        {HEAD "}", NULL},
        {HEAD ",\"features\":[\"c\",\"a\"],\"kernel\":{\"bandwidth\":[1,2]}}", NULL},
        {HEAD ",\"test\":{\"mask\":\"mask\"},\"kernel\":{\"bandwidth\":[1,2,3]}}", NULL},
        {HEAD ",\"target\":[\"a\",\"b\"],\"kernel\":{\"bandwidth\":[1,2,3]}}", NULL},
        {HEAD ",\"target\":\"y\",\"task\":\"classification\"}", NULL},
        {HEAD ",\"task\":\"regression\"}", NULL},
        {HEAD ",\"target\":\"q\"}", "#/target"},
        {HEAD ",\"target\":[\"a\",\"q\"]}", "#/target/1"},
        {HEAD ",\"features\":[\"a\",\"A\"]}", "#/features/1"},
        {HEAD ",\"features\":[\"a\",\"y\"]}", "#/features/1"},
        {HEAD ",\"features\":[\"mask\"],\"test\":{\"mask\":\"mask\"}}", "#/features/0"},
        {HEAD ",\"test\":{\"mask\":\"y\"}}", "#/test/mask"},
        {HEAD ",\"test\":{\"mask\":\"q\"}}", "#/test/mask"},
        {HEAD ",\"target\":[\"a\",\"b\",\"c\",\"y\",\"mask\"]}", "#/features"},
        {HEAD ",\"kernel\":{\"bandwidth\":[1,2,3]}}", "#/kernel/bandwidth"},
        {HEAD ",\"features\":[\"a\"],\"kernel\":{\"bandwidth\":[1,2]}}", "#/kernel/bandwidth"},
        {HEAD ",\"target\":\"a\",\"task\":\"classification\"}", "#/task"},
        {AUTO(HEAD, "auc") "}", NULL},
        {AUTO(HEAD, "auto") "}", NULL},
        {AUTO(HEAD, "rmse") "}", "#/search/metric"},
        {AUTO(HEAD, "rmse") ",\"task\":\"regression\"}", NULL},
        {AUTO(HEAD, "accuracy") ",\"task\":\"regression\"}", "#/search/metric"},
        {AUTO(HEAD, "accuracy") ",\"target\":\"a\"}", "#/search/metric"},
        {AUTO(HEAD, "smape") ",\"target\":\"a\"}", NULL},
    };
    struct dataset_info info = example_info();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec *s = accept(cases[i].text);
        struct err err = {.code = ERR_OK};
        const int rc = job_spec_check_columns(s, &info, &err);
        assert_int_equal(rc, cases[i].pointer == NULL ? 0 : -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].pointer == NULL ? "" : cases[i].pointer);
        job_spec_free(s);
    }
    dataset_info_deinit(&info);
}

/* So many columns with names of so many bytes each, which are of two characters that JSON escapes
 * and others, the last a target. */
static struct dataset_info long_names(int columns, int size)
{
    struct dataset_info info = {.rows = 9, .columns = columns, .targets = 1};
    info.column_names = mem_zarray((size_t)columns, sizeof(*info.column_names));
    info.target_columns = mem_zarray(1, sizeof(*info.target_columns));
    assert_true(info.column_names != NULL && info.target_columns != NULL);
    for (int i = 0; i < columns; i++) {
        char name[300];
        snprintf(name, sizeof(name), "\"\x01%0*d", size - 2, i);
        info.column_names[i] = mem_strdup(name);
    }
    info.target_columns[0] = columns - 1;
    return info;
}

/* What a worker tells of the model has them in one frame. */
static void test_names_altogether(void **state)
{
    (void)state;
    struct job_spec *s = accept(HEAD "}");
    struct dataset_info info = long_names(50000, 200);
    struct err err = {.code = ERR_OK};
    assert_int_equal(job_spec_check_columns(s, &info, &err), 0); /* 209 bytes each */
    dataset_info_deinit(&info);
    info = long_names(51000, 200);
    assert_int_equal(job_spec_check_columns(s, &info, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/features");
    assert_contains(err.detail, "10659209 bytes");
    dataset_info_deinit(&info);
    job_spec_free(s);
}

/* Columns a, b, c and the target `target` of the classes 0 and `label`; none: it holds numbers. */
static struct dataset_info tested_info(const char *target, const char *label)
{
    struct buf text cleanup_buf = BUF_INIT;
    buf_printf(&text,
               "{\"rows\":9,\"columns\":4,\"dtype\":\"float64\","
               "\"column_names\":[\"%s\",\"c\",\"b\",\"a\"],\"target_columns\":[0],",
               target);
    if (label != NULL) {
        buf_printf(&text,
                   "\"task\":\"classification\",\"classes\":2,\"class_labels\":[\"0\",\"%s\"],",
                   label);
    } else {
        buf_str(&text, "\"task\":\"regression\",\"classes\":0,\"class_labels\":[],");
    }
    buf_str(&text, "\"warnings\":[]}");
    struct json *j cleanup_json = NULL;
    struct dataset_info info;
    assert_int_equal(json_parse(text.data, text.len, &j, NULL), 0);
    assert_int_equal(dataset_info_from_json(j, &info, NULL), 0);
    return info;
}

/* A test data set has features and target under their names, and no other classes. */
static void test_columns_of_a_test(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *target, *label;
        const char *wrong; /* NULL: fits */
    } cases[] = {
        {"\"features\":[\"a\",\"b\"]", "y", "1", NULL},
        {"\"features\":[\"a\",\"b\"]", "y", "2", "the class \"2\""},
        {"\"features\":[\"a\",\"b\"]", "y", NULL, "numbers, not classes"},
        {"\"features\":[\"a\",\"b\"]", "z", "1", "lacks columns of the training data: \"y\"."},
        {"\"features\":[\"mask\"]", "z", "1",
         "lacks columns of the training data: \"y\", \"mask\"."},
        {"\"seed\":1", "y", "1", "\"mask\""},
        {"\"features\":[\"a\"],\"task\":\"regression\"", "y", "2", NULL},
        {"\"features\":[\"a\"],\"target\":\"b\"", "z", "2", NULL},
    };
    struct dataset_info info = example_info();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text cleanup_buf = BUF_INIT;
        buf_printf(&text, HEAD ",%s,\"test\":{\"dataset\":\"" DS "\"}}", cases[i].fields);
        struct job_spec *s = accept(text.data);
        struct dataset_info tested = tested_info(cases[i].target, cases[i].label);
        struct err err = {.code = ERR_OK};
        const int rc = job_spec_check_tested(s, &info, &tested, &err);
        assert_int_equal(rc, cases[i].wrong == NULL ? 0 : -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].wrong == NULL ? "" : "#/test/dataset");
        assert_contains(err.detail, cases[i].wrong == NULL ? "" : cases[i].wrong);
        dataset_info_deinit(&tested);
        job_spec_free(s);
    }
    dataset_info_deinit(&info);
}

/* The data set of the centers has the job's features under their names; more does not matter. */
static void test_columns_of_centers(void **state)
{
    (void)state;
    static const char *const names[][5] = {
        {"a", "b", "c", "y", "mask"}, {"mask", "c", "b", "a", "z"}, {"a", "b", "C", "y", "mask"}};
    static const struct {
        const char *fields;
        int names;
        const char *missing; /* NULL: fits */
    } cases[] = {
        {"\"seed\":1", 0, NULL},
        {"\"seed\":1", 1, NULL},
        {"\"target\":\"a\"", 1, "\"y\""},
        {"\"seed\":1", 2, "\"c\""},
        {"\"features\":[\"mask\",\"a\"]", 2, NULL},
        {"\"features\":[\"a\",\"c\"]", 2, "\"c\""},
    };
    struct dataset_info info = example_info();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text cleanup_buf = BUF_INIT;
        buf_printf(&text, HEAD ",%s,\"centers\":{\"method\":\"file\",\"dataset\":\"" DS "\"}}",
                   cases[i].fields);
        struct job_spec *s = accept(text.data);
        char *columns[5];
        for (int k = 0; k < 5; k++) {
            columns[k] = (char *)(uintptr_t)names[cases[i].names][k];
        }
        const struct dataset_info centers = {.columns = 5, .column_names = columns};
        struct err err = {.code = ERR_OK};
        const int rc = job_spec_check_centers(s, &info, &centers, &err);
        assert_int_equal(rc, cases[i].missing == NULL ? 0 : -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].missing == NULL ? "" : "#/centers/dataset");
        assert_contains(err.detail, cases[i].missing == NULL ? "" : cases[i].missing);
        job_spec_free(s);
    }
    dataset_info_deinit(&info);
}

/* What a job must have in common with the model that it begins with. */
static void test_starts(void **state)
{
    (void)state;
    static const char *const abm[] = {"a", "b", "c", "mask"}, *const ca[] = {"c", "a"};
    static const char *const bits[] = {"0", "1"}, *const words[] = {"no", "yes"};
    const struct start_model classifier = {4, abm, 1, 2, bits}, other = {4, abm, 1, 2, words};
    const struct start_model three = {4, abm, 1, 3, bits}, regression = {4, abm, 1, 0, NULL};
    const struct start_model pair = {2, ca, 2, 0, NULL}, single = {2, ca, 1, 0, NULL};
    const struct {
        const char *fields;
        const struct start_model *model;
        const char *part; /* NULL: fits */
    } cases[] = {
        {"\"seed\":1", &classifier, NULL},
        {"\"seed\":1", &other, "Class 1 of the earlier model is \"no\", of this job \"0\""},
        {"\"seed\":1", &three, "3 classes, this job has 2"},
        {"\"seed\":1", &regression, "another task: regression"},
        {"\"task\":\"regression\"", &regression, NULL},
        {"\"task\":\"regression\"", &classifier, "another task: classification"},
        {"\"seed\":1,\"test\":{\"mask\":\"mask\"}", &classifier, "4 features, this job has 3"},
        {"\"target\":[\"b\",\"mask\"],\"features\":[\"c\",\"a\"]", &pair, NULL},
        {"\"target\":[\"b\",\"mask\"],\"features\":[\"a\",\"c\"]", &pair,
         "Feature 1 of the earlier model is \"c\", of this job \"a\""},
        {"\"target\":[\"b\",\"mask\"],\"features\":[\"c\",\"a\"]", &single,
         "1 targets, this job has 2"},
    };
    struct dataset_info info = example_info();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text cleanup_buf = BUF_INIT;
        buf_printf(&text, HEAD ",%s}", cases[i].fields);
        struct job_spec *s = accept(text.data);
        struct err err = {.code = ERR_OK};
        const int rc = job_spec_check_start(s, &info, cases[i].model, &err);
        assert_int_equal(rc, cases[i].part == NULL ? 0 : -ERR_INVALID);
        assert_string_equal(err.pointer, cases[i].part == NULL ? "" : "#/warm_start");
        assert_contains(err.detail, cases[i].part == NULL ? "" : cases[i].part);
        job_spec_free(s);
    }
    dataset_info_deinit(&info);
}

TEST_MAIN(cmocka_unit_test(test_starts), cmocka_unit_test(test_columns),
          cmocka_unit_test(test_columns_of_a_test), cmocka_unit_test(test_columns_of_centers),
          cmocka_unit_test(test_names_altogether))
