#include "wire/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

static const char description[] =
    "{\"rows\":2,\"columns\":3,\"dtype\":\"float32\",\"column_names\":[\"a\",\"b\",\"y\"],"
    "\"target_columns\":[2],\"task\":\"classification\",\"classes\":2,"
    "\"class_labels\":[\"no\",\"yes\"],\"warnings\":[\"w\"]}";

static int read_text(const char *text, struct dataset_info *ret, struct err *err)
{
    struct json *j cleanup_json = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return dataset_info_from_json(j, ret, err);
}

static void test_task_names(void **state)
{
    (void)state;
    enum task t = TASK_AUTO;
    assert_int_equal(task_parse("classification", &t, NULL), 0);
    assert_int_equal(t, TASK_CLASSIFICATION);
    assert_int_equal(task_parse("ranking", &t, NULL), -ERR_INVALID);
    assert_string_equal(task_name(TASK_REGRESSION), "regression");
}

static void test_info_round_trip(void **state)
{
    (void)state;
    struct dataset_info info;
    assert_int_equal(read_text(description, &info, NULL), 0);
    assert_int_equal(info.rows, 2);
    assert_int_equal(info.targets, 1);
    assert_int_equal(dataset_info_column(&info, "y"), 2);
    assert_int_equal(dataset_info_column(&info, "z"), -1);
    assert_string_equal(info.class_labels[1], "yes");
    struct json *j cleanup_json = NULL;
    assert_int_equal(dataset_info_to_json(&info, &j, NULL), 0);
    char *text cleanup_mem = json_print(j);
    assert_string_equal(text, description);
    dataset_info_deinit(&info);
    dataset_info_deinit(&info);
}

/* What became of missing values stands behind the rest, where they may be missing at all. */
static void test_info_missing(void **state)
{
    (void)state;
    static const char *const cases[] = {
        ",\"missing\":{\"dropped_rows\":3,\"filled\":0,\"fill\":null,\"made_up\":null}}",
        ",\"missing\":{\"dropped_rows\":0,\"filled\":2,\"fill\":[0.1,0,null],\"made_up\":[2,0,0],"
        "\"indicates\":[null,0,null]}}",
        ",\"missing\":{\"dropped_rows\":0,\"filled\":2,\"fill\":[0.1,-2,null],\"made_up\":[2,0,0]}"
        "}",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "%.*s%s", (int)strlen(description) - 1, description, cases[i]);
        struct dataset_info info;
        assert_int_equal(read_text(text, &info, NULL), 0);
        assert_true(info.missing.allowed);
        assert_int_equal(info.missing.dropped_rows, i == 0 ? 3 : 0);
        assert_int_equal(info.missing.filled, i == 0 ? 0 : 2);
        assert_true((info.missing.fill == NULL) == (i == 0));
        struct json *j cleanup_json = NULL;
        assert_int_equal(dataset_info_to_json(&info, &j, NULL), 0);
        char *again cleanup_mem = json_print(j);
        assert_string_equal(again, text);
        dataset_info_deinit(&info);
    }
}

/* Which columns were one of words stands behind all. */
static void test_info_words(void **state)
{
    (void)state;
    static const char text[] =
        "{\"rows\":2,\"columns\":5,\"dtype\":\"float32\","
        "\"column_names\":[\"a=b=1\",\"a=b=\",\"x\",\"c=u\",\"y\"],\"target_columns\":[4],"
        "\"task\":\"regression\",\"classes\":0,\"class_labels\":[],\"warnings\":[],\"words\":"
        "[{\"column\":\"a=b\",\"first\":0,\"count\":2},{\"column\":\"c\",\"first\":3,\"count\":1}]"
        "}";
    static const int64_t of[] = {0, 0, -1, 1, -1};
    struct dataset_info info;
    assert_int_equal(read_text(text, &info, NULL), 0);
    assert_int_equal(info.words.count, 2);
    assert_string_equal(info.words.names[1], "c");
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(dataset_words_of(&info.words, i), of[i]);
    }
    struct json *j cleanup_json = NULL;
    assert_int_equal(dataset_info_to_json(&info, &j, NULL), 0);
    char *again cleanup_mem = json_print(j);
    assert_string_equal(again, text);
    dataset_info_deinit(&info);
}

/* With one member of the description replaced by another value (NULL: removed). */
static void assert_refused(const char *key, const char *value, const char *pointer)
{
    struct json *j cleanup_json = NULL;
    assert_int_equal(json_parse(description, strlen(description), &j, NULL), 0);
    if (value == NULL) {
        json_remove(j, key);
    } else {
        struct json *other = NULL;
        assert_int_equal(json_parse(value, strlen(value), &other, NULL), 0);
        json_set(j, key, other);
    }
    struct dataset_info info;
    struct err err;
    assert_int_equal(dataset_info_from_json(j, &info, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, pointer);
}

static void test_info_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *value;
        const char *pointer;
    } cases[] = {
        {"rows", "0", "#/rows"},
        {"rows", "-1", "#/rows"},
        {"rows", "1.5", "#/rows"},
        {"rows", NULL, "#/rows"},
        {"columns", "4", "#/column_names"},
        {"columns", "2", "#/column_names"},
        {"dtype", "\"int8\"", "#/dtype"},
        {"column_names", "[\"a\",\"a\",\"y\"]", "#/column_names/1"},
        {"column_names", "[\"a\",\"\",\"y\"]", "#/column_names/1"},
        {"column_names", "[\"a\",2,\"y\"]", "#/column_names/1"},
        {"target_columns", "[]", "#/target_columns"},
        {"target_columns", "[3]", "#/target_columns/0"},
        {"target_columns", "[-1]", "#/target_columns/0"},
        {"target_columns", "[0,0]", "#/target_columns/1"},
        {"target_columns", "[0,1]", "#/classes"},
        {"task", "\"auto\"", "#/task"},
        {"task", "\"regression\"", "#/classes"},
        {"classes", "3", "#/classes"},
        {"class_labels", "[\"no\",\"no\"]", "#/class_labels/1"},
        {"class_labels", "[]", "#/classes"},
        {"warnings", "\"w\"", "#/warnings"},
        {"extra", "1", "#/extra"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused(cases[i].key, cases[i].value, cases[i].pointer);
    }
    assert_int_equal(dataset_info_from_json(NULL, &(struct dataset_info){0}, NULL), -ERR_INVALID);
}

static void test_missing_refused(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *pointer;
    } cases[] = {
        {"true", "#/missing"},
        {"{\"dropped_rows\":0,\"fill\":null}", "#/missing/filled"},
        {"{\"dropped_rows\":-1,\"filled\":0,\"fill\":null}", "#/missing/dropped_rows"},
        {"{\"dropped_rows\":0,\"filled\":0}", "#/missing/fill"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":[1,2]}", "#/missing/fill"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":[1,\"\",2]}", "#/missing/fill/1"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":null,\"x\":1}", "#/missing/x"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":null}", "#/missing/made_up"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":[1,2,3],\"made_up\":null}",
         "#/missing/made_up"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":[1,2,3],\"made_up\":[0,-1,0]}",
         "#/missing/made_up/1"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":null,\"made_up\":null,\"indicates\":[null,0,"
         "null]}",
         "#/missing/indicates"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":[1,2,3],\"made_up\":[0,0,0],\"indicates\":["
         "null,3,"
         "null]}",
         "#/missing/indicates/1"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":[1,2,3],\"made_up\":[0,0,0],\"indicates\":["
         "null,0,"
         "1]}",
         "#/missing/indicates/2"},
        {"{\"dropped_rows\":0,\"filled\":0,\"fill\":null,\"made_up\":[0,0,0]}",
         "#/missing/made_up"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused("missing", cases[i].value, cases[i].pointer);
    }
}

#define WORDS(column, first, count)                                                                \
    "{\"column\":\"" column "\",\"first\":" first ",\"count\":" count "}"

static void test_words_refused(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *pointer;
    } cases[] = {
        {"{}", "#/words"},
        {"[]", "#/words"},
        {"[1]", "#/words/0"},
        {"[{\"column\":\"a\",\"first\":0}]", "#/words/0"},
        {"[" WORDS("", "0", "1") "]", "#/column"},
        {"[" WORDS("a", "0", "1") "]", "#/words/0"}, /* the column is "a", not "a=..." */
        {"[" WORDS("a", "0", "0") "]", "#/words/0"},
        {"[" WORDS("a", "-1", "1") "]", "#/words/0"},
        {"[" WORDS("a", "3", "1") "]", "#/words/0"},
        {"[" WORDS("a", "2", "2") "]", "#/words/0"},
        {"[" WORDS("a", "2", "9007199254740991") "]", "#/words/0"},
        {"[1,2,3,4]", "#/words"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused("words", cases[i].value, cases[i].pointer);
    }
}

/* A data set file in a temporary place; the caller unlinks it. */
static void write_file(char path[32], const char *text, const char *name, enum dtype dtype,
                       int64_t rows, int64_t columns)
{
    static const double doubles[6] = {1, 2, 0, 4, 5.5, 1};
    static const float floats[6] = {1, 2, 0, 4, 5.5, 1};
    struct tensors t = {
        .count = 1,
        .tensor = {{.dtype = dtype, .dims = 2, .shape = {rows, columns}}},
        .metadata = json_new_object(),
    };
    snprintf(t.tensor[0].name, sizeof(t.tensor[0].name), "%s", name);
    if (text != NULL) {
        json_set_string(t.metadata, "dataset", text);
    }
    struct buf b cleanup_buf = BUF_INIT;
    assert_int_equal(tensors_header(&t, 0, &b, NULL), 0);
    tensors_deinit(&t);
    const size_t bytes = (size_t)(rows * columns) * dtype_size(dtype);
    buf_add(&b, dtype == DTYPE_F32 ? (const void *)floats : (const void *)doubles, bytes);
    snprintf(path, 32, "/tmp/krrd-dataset-XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, b.data, b.len, NULL), 0);
    close(fd);
}

static void test_open(void **state)
{
    (void)state;
    char path[32];
    write_file(path, description, "data", DTYPE_F32, 2, 3);
    struct dataset *d = NULL;
    assert_int_equal(dataset_open(path, &d, NULL), 0);
    unlink(path);
    assert_same_bits(dataset_at(d, 0, 1), 2);
    assert_same_bits(dataset_at(d, 1, 1), 5.5);
    assert_int_equal(d->info.classes, 2);
    d = dataset_free(d);
    assert_null(d);

    static const char doubles[] =
        "{\"rows\":3,\"columns\":2,\"dtype\":\"float64\",\"column_names\":[\"a\",\"y\"],"
        "\"target_columns\":[1],\"task\":\"regression\",\"classes\":0,\"class_labels\":[],"
        "\"warnings\":[]}";
    write_file(path, doubles, "data", DTYPE_F64, 3, 2);
    assert_int_equal(dataset_open(path, &d, NULL), 0);
    unlink(path);
    assert_same_bits(dataset_at(d, 2, 0), 5.5);
    dataset_free(d);
}

static void test_check(void **state)
{
    (void)state;
    char path[32];
    struct dataset *d = NULL;
    struct err err;
    write_file(path, description, "data", DTYPE_F32, 2, 3);
    assert_int_equal(dataset_open(path, &d, NULL), 0);
    unlink(path);
    assert_string_equal(d->sha256, "");
    assert_int_equal(dataset_check(d, NULL), 0);
    d->info.target_columns[0] = 1; /* 2 and 5.5 */
    assert_int_equal(dataset_check(d, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.detail, "Row 1 of the column \"b\" holds no class"));
    d->info.task = TASK_REGRESSION;
    assert_int_equal(dataset_check(d, NULL), 0);
    assert_true(sha256_text(d->data, 2 * 3 * sizeof(float), d->sha256));
    assert_int_equal(dataset_check(d, NULL), 0);
    d->sha256[5] ^= 1;
    assert_int_equal(dataset_check(d, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.detail, "digest"));
    dataset_free(d);
}

static void check_corrupt(const char *text, const char *name, enum dtype dtype, int64_t rows,
                          int64_t columns)
{
    char path[32];
    write_file(path, text, name, dtype, rows, columns);
    struct dataset *d = NULL;
    struct err err;
    assert_int_equal(dataset_open(path, &d, &err), -ERR_CORRUPT);
    assert_null(d);
    assert_null(strstr(err.detail, path));
    unlink(path);
}

static void test_open_refused(void **state)
{
    (void)state;
    check_corrupt(description, "data", DTYPE_F32, 3, 2);
    check_corrupt(description, "data", DTYPE_F32, 1, 3);
    check_corrupt(description, "data", DTYPE_F64, 2, 3);
    check_corrupt(description, "date", DTYPE_F32, 2, 3);
    check_corrupt(NULL, "data", DTYPE_F32, 2, 3);
    check_corrupt("", "data", DTYPE_F32, 2, 3);
    check_corrupt("[]", "data", DTYPE_F32, 2, 3);
    check_corrupt("{\"rows\":2", "data", DTYPE_F32, 2, 3);
    struct dataset *d = NULL;
    struct err err;
    assert_true(dataset_open("/nonexistent/file", &d, &err) < 0);
    assert_null(strstr(err.detail, "/nonexistent"));
    assert_true(dataset_open("/dev/null", &d, &err) < 0);
    dataset_free(NULL);
}

static void test_mutations(void **state)
{
    (void)state;
    struct rng r = rng_new(2, RNG_TEST);
    int accepted = 0;
    for (int i = 0; i < 4000; i++) {
        size_t len = 0;
        char *text cleanup_mem = mutate(&r, description, strlen(description), &len);
        struct json *j cleanup_json = NULL;
        struct dataset_info info;
        if (json_parse(text, len, &j, NULL) == 0 && dataset_info_from_json(j, &info, NULL) == 0) {
            assert_true(info.rows >= 1 && info.target_columns[0] < info.columns);
            dataset_info_deinit(&info);
            accepted++;
        }
    }
    assert_in_range(accepted, 20, 2000);
}

TEST_MAIN(cmocka_unit_test(test_task_names), cmocka_unit_test(test_info_round_trip),
          cmocka_unit_test(test_info_missing), cmocka_unit_test(test_info_words),
          cmocka_unit_test(test_words_refused), cmocka_unit_test(test_info_refused),
          cmocka_unit_test(test_missing_refused), cmocka_unit_test(test_open),
          cmocka_unit_test(test_check), cmocka_unit_test(test_open_refused),
          cmocka_unit_test(test_mutations))
