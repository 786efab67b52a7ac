/* Readers of questions: damaged bodies of every form, lack of memory, and that what is taken is
 * whole and finite. What each form means is tested over HTTP (tests/http/test_bodies.py,
 * test_infer.py). */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/bodies/infer.h"
#include "server/bodies/question.h"
#include "support/assert.h"
#include "support/mutate.h"

static const char *const features[] = {"a", "b/c", "d"};
static const char *const labels[] = {"x", "y"};
static const char *const targets[] = {"t"};
static const struct served_model regression = {
    .name = "m", .version = 1, .d = 3, .outputs = 1, .features = features, .targets = targets};
static const struct served_model classifier = {.name = "m",
                                               .version = 1,
                                               .d = 3,
                                               .outputs = 1,
                                               .classes = 2,
                                               .variances = 2,
                                               .features = features,
                                               .targets = targets,
                                               .labels = labels};

/* The text column "a" became two features on upload. */
static const char *const text_features[] = {"a=y z", "d", "a=x"};
static const struct served_model texts = {
    .name = "m", .version = 1, .d = 3, .outputs = 1, .features = text_features, .targets = targets};

/* Models that fill in what is missing. */
static const double fill[] = {7.5, 8.5, 9.5}, text_fill[] = {0, 9.5, 0};
static const struct served_model filling = {.name = "m",
                                            .version = 1,
                                            .d = 3,
                                            .outputs = 1,
                                            .variances = 1,
                                            .features = features,
                                            .fill = fill,
                                            .targets = targets};
static const struct served_model filling_texts = {.name = "m",
                                                  .version = 1,
                                                  .d = 3,
                                                  .outputs = 1,
                                                  .features = text_features,
                                                  .fill = text_fill,
                                                  .targets = targets};

/* "d" tells where "a" is missing. */
static const int64_t indicates[] = {-1, -1, 0};
static const struct served_model telling = {.name = "m",
                                            .version = 1,
                                            .d = 3,
                                            .outputs = 1,
                                            .features = features,
                                            .fill = fill,
                                            .indicates = indicates,
                                            .indicators = 1,
                                            .targets = targets};

enum kind { JSON, CSV, CSV_HEADED, CSV_BARE, CSV_COMMA, NPY, INFER };

static bool is_csv(enum kind kind)
{
    return kind == CSV || kind == CSV_HEADED || kind == CSV_BARE || kind == CSV_COMMA;
}

/* Models with texts are asked for in tables with more columns than they know. */
static int read_body(enum kind kind, const char *body, size_t len, const struct served_model *m,
                     struct question *ret, struct err *err)
{
    struct infer in = {.id = NULL};
    const struct columns_rules rules = {.extra = m->features == text_features ? EXTRA_IGNORED
                                                                              : EXTRA_REFUSED};
    int r = 0;
    switch (kind) {
    case JSON:
        return question_read_json(body, len, m, rules, ret, err);
    case CSV:
        return question_read_csv(body, len, m, rules, (struct csv_form){INGEST_HEADER_AUTO, false},
                                 ret, err);
    case CSV_HEADED:
        return question_read_csv(body, len, m, rules,
                                 (struct csv_form){INGEST_HEADER_PRESENT, false}, ret, err);
    case CSV_BARE:
        return question_read_csv(body, len, m, rules,
                                 (struct csv_form){INGEST_HEADER_ABSENT, false}, ret, err);
    case CSV_COMMA:
        return question_read_csv(body, len, m, rules, (struct csv_form){INGEST_HEADER_AUTO, true},
                                 ret, err);
    case NPY:
        return question_read_npy(body, len, m, ret, err);
    case INFER:
        r = infer_read(body, len, INFER_NO_HEADER, m, &in, ret, err);
        infer_deinit(&in);
        return r;
    }
    return -ERR_INTERNAL;
}

static void check_question(const struct question *q)
{
    assert_true(q->rows > 0);
    for (int64_t i = 0; i < 3 * q->rows; i++) {
        assert_true(isfinite(q->X[i]));
    }
}

static const char npy[] = "\x93NUMPY\x01\x00\x39\x00{'descr': '<f4', 'fortran_order': False, "
                          "'shape': (1, 3)}\0\0\0\0\0\0\x80\x3f\0\0\0\x40";

static const struct {
    enum kind kind;
    const char *text;
    size_t len; /* 0: the text's */
    enum { NUMBERS, TEXTS, LACKING, LACKING_TEXTS, TELLING } what;
} bodies[] = {
    {JSON, "{\"instances\": [[1, 2, 3], [4.5e3, -5, 0.6], {\"a\": 1, \"d\": 3, \"b/c\": 2}]}", 0,
     NUMBERS},
    {JSON, "{\"inputs\": {\"d\": [1, 2, 3], \"b/c\": [1, 2, 3], \"a\": [4, 5, 6]}}", 0, NUMBERS},
    {JSON,
     "{\"dataframe_split\": {\"columns\": [\"d\", \"a\", \"b/c\"], \"index\": [0, [{}]],"
     " \"data\": [[1, 2, 3], [4, 5, 6]]}, \"return_scores\": false}",
     0, NUMBERS},
    {JSON, "{\"dataframe_records\": [{\"a\": 1, \"b/c\": 2, \"d\": 3}], \"return_variance\": true}",
     0, NUMBERS},
    {JSON, "{\"instances\": [{\"a\": \"x\", \"u\": [{}], \"d\": 3}, {\"d\": 2, \"a\": \" y z\"}]}",
     0, TEXTS},
    {JSON, "{\"inputs\": {\"u\": [\"v\"], \"a\": [\"x\", \"y z\"], \"d\": [1, 2]}}", 0, TEXTS},
    {JSON,
     "{\"dataframe_split\": {\"columns\": [\"u\", \"d\", \"a\"], \"data\": [[null, 2, \"x\"], [3, "
     "5, "
     "\"y z\"]]}}",
     0, TEXTS},
    {CSV, "u,a,d,t\n,x,1,2\n\"q,\",\" y z \",2,\n", 0, TEXTS},
    {CSV, "a;d;\"b/c\"\r\n1;2;3\r\n\r\n 4 ;\"5\";-6e2", 0, NUMBERS},
    {CSV,
     "\xEF\xBB\xBF\xEF\xBB\xBF"
     "a,d,\"b/c\"\n1,2,3\n",
     0, NUMBERS},
    {CSV, "1,2,3\n4,5,6\n7,8,.5\n", 0, NUMBERS},
    {CSV, "d,t,a,b/c\n1,\"x\",2,3\n4,,5,6\n", 0, NUMBERS},
    {CSV, "\"a\n\";\"\r\nd\";b/c;t\r1;2;3;\"u\n\n\"\"v\"\r4;\"5\r\n\";6;", 0, NUMBERS},
    {CSV_HEADED, "\"u\n1\",d,a\n,3,x\n\"7\n\n8\",2,\"\ny z\"\n", 0, TEXTS},
    {CSV_BARE, "1,2,\"3\n\"\n4,5,6\n", 0, NUMBERS},
    {CSV_COMMA, "d;a;b/c\n1,5;-,25e1;\"3\n\"\n4;5,;6\n", 0, NUMBERS},
    {CSV_COMMA, "1,5\t2\t3\n0,1\t5\t6", 0, NUMBERS},
    {NPY, npy, sizeof npy - 1, NUMBERS},
    {INFER,
     "{\"id\": \"q\", \"inputs\": [{\"name\": \"X\", \"shape\": [2, 3], \"datatype\": \"FP32\", "
     "\"data\": [[1, 2, 3], [4, 5, 6]]}], \"outputs\": [{\"name\": \"y\", \"parameters\": "
     "{\"binary_data\": true}}], \"parameters\": {\"timeout\": 5, \"priority\": 1}}",
     0, NUMBERS},
    {INFER,
     "{\"inputs\": [{\"data\": [1, 2, 3, 4, 5, 6], \"name\": \"X\", \"shape\": [2, 3], "
     "\"datatype\": \"FP64\"}]}",
     0, NUMBERS},
    {JSON,
     "{\"instances\": [[1, null, 3], [null, null, null], {\"a\": null, \"d\": 3, \"b/c\": 2}]}", 0,
     LACKING},
    {JSON, "{\"inputs\": {\"d\": [null, 2, null], \"b/c\": [1, 2, 3], \"a\": [4, null, null]}}", 0,
     LACKING},
    {JSON,
     "{\"dataframe_split\": {\"data\": [[null, 2, 3], [4, 5, null]],"
     " \"columns\": [\"d\", \"a\", \"b/c\"]}}",
     0, LACKING},
    {JSON, "{\"instances\": [{\"a\": null, \"u\": 1, \"d\": null}, {\"d\": 2, \"a\": \"?\"}]}", 0,
     LACKING_TEXTS},
    {JSON, "{\"inputs\": {\"a\": [null, \"y z\", \"\"], \"d\": [1, null, 2]}}", 0, LACKING_TEXTS},
    {CSV, "a,d,t\nNA,1,2\n\"\",,\nx,?,1\n", 0, LACKING_TEXTS},
    {CSV, "1,,3\nnull,NaN,N/A\n\"?\",5,\n", 0, LACKING},
    {CSV, ",NA,\n1,2,3\n", 0, LACKING},
    {INFER,
     "{\"inputs\": [{\"name\": \"X\", \"shape\": [2, 3], \"datatype\": \"FP32\", "
     "\"data\": [[1, null, 1.000000059604644775390625], [null, 5, null]]}]}",
     0, LACKING},
    {INFER,
     "{\"inputs\": [{\"data\": [null, 2, null, null, null, 6], \"name\": \"X\", \"shape\": [2, 3], "
     "\"datatype\": \"FP64\"}]}",
     0, LACKING},
    {JSON, "{\"instances\": [[1, 2], [null, 2], [1, 2, 0], {\"b/c\": 2, \"a\": null}]}", 0,
     TELLING},
    {JSON, "{\"inputs\": {\"b/c\": [2, 2], \"a\": [1, null]}}", 0, TELLING},
    {JSON, "{\"dataframe_split\": {\"columns\": [\"b/c\", \"a\"], \"data\": [[2, 1], [2, null]]}}",
     0, TELLING},
    {CSV, "1,2\n,2\n", 0, TELLING},
    {CSV, "b/c,a\n2,1\n2,NA\n", 0, TELLING},
    {CSV, "1,2,\n,2,0\n", 0, TELLING},
};
enum { BODIES = sizeof bodies / sizeof *bodies };

static const struct served_model *model_of(int i, bool classes)
{
    const struct served_model *const models[] = {[NUMBERS] = classes ? &classifier : &regression,
                                                 [TEXTS] = &texts,
                                                 [LACKING] = &filling,
                                                 [LACKING_TEXTS] = &filling_texts,
                                                 [TELLING] = &telling};
    return models[bodies[i].what];
}

static size_t length_of(int i)
{
    return bodies[i].len > 0 ? bodies[i].len : strlen(bodies[i].text);
}

static void test_good(void **state)
{
    (void)state;
    for (int i = 0; i < BODIES; i++) {
        struct question q = {.X = NULL};
        struct err err = {.code = ERR_OK};
        const int r =
            read_body(bodies[i].kind, bodies[i].text, length_of(i), model_of(i, true), &q, &err);
        if (r < 0) {
            print_error("body %d: %s %s\n", i, err.pointer, err.detail);
        }
        assert_int_equal(r, 0);
        check_question(&q);
        question_deinit(&q);
    }
}

/* Whoever fills in nothing refuses them all, and whoever does puts its values in their place. */
static void test_lacking(void **state)
{
    (void)state;
    for (int i = 0; i < BODIES; i++) {
        struct question q = {.X = NULL};
        if (bodies[i].what != LACKING && bodies[i].what != LACKING_TEXTS) {
            continue;
        }
        const struct served_model *without = bodies[i].what == LACKING_TEXTS ? &texts : &regression;
        assert_true(read_body(bodies[i].kind, bodies[i].text, length_of(i), without, &q, NULL) < 0);
        const struct served_model *m = model_of(i, false);
        assert_int_equal(read_body(bodies[i].kind, bodies[i].text, length_of(i), m, &q, NULL), 0);
        int filled = 0;
        for (int64_t k = 0; k < 3 * q.rows; k++) {
            assert_true(q.X[k] <= 6 || q.X[k] == m->fill[k % 3]);
            filled += q.X[k] > 6;
        }
        assert_true(filled > 0);
        question_deinit(&q);
    }
}

/* Whether the rest is there or not, the first feature is 1 or missing, and the last tells which. */
static void test_telling(void **state)
{
    (void)state;
    for (int i = 0; i < BODIES; i++) {
        struct question q = {.X = NULL};
        if (bodies[i].what != TELLING) {
            continue;
        }
        assert_int_equal(
            read_body(bodies[i].kind, bodies[i].text, length_of(i), &telling, &q, NULL), 0);
        int told = 0;
        for (int64_t k = 0; k < q.rows; k++) {
            const double *x = q.X + 3 * k;
            assert_true(x[1] == 2 && (x[2] == 0 || x[2] == 1));
            assert_true(x[0] == (x[2] == 1 ? fill[0] : 1));
            told += x[2] == 1;
        }
        assert_true(told > 0 && told < q.rows);
        question_deinit(&q);
    }
}

/* Refused with a reason, or read whole. */
static void test_mutations(void **state)
{
    (void)state;
    struct rng r = rng_new(1, RNG_TEST);
    for (int i = 0; i < BODIES; i++) {
        for (int k = 0; k < 3000; k++) {
            size_t len = 0;
            char *damaged = mutate(&r, bodies[i].text, length_of(i), &len);
            struct question q = {.X = NULL};
            struct err err = {.code = ERR_OK};
            if (read_body(bodies[i].kind, damaged, len, model_of(i, k % 2 == 0), &q, &err) == 0) {
                check_question(&q);
            } else {
                assert_true(err.code != ERR_OK && err.detail[0] != '\0');
                assert_true(err.code != ERR_INTERNAL && err.code != ERR_NO_MEMORY);
                assert_null(q.X);
            }
            question_deinit(&q);
            mem_free(damaged);
        }
    }
}

static void test_every_cut(void **state)
{
    (void)state;
    for (int i = 0; i < BODIES; i++) {
        for (size_t len = 0; len < length_of(i); len++) {
            char *cut = mem_array(len, 1); /* exactly as long, for the sanitizers */
            memcpy(cut, bodies[i].text, len);
            struct question q = {.X = NULL};
            const int r = read_body(bodies[i].kind, cut, len, model_of(i, true), &q, NULL);
            assert_true(r < 0 || is_csv(bodies[i].kind));
            question_deinit(&q);
            mem_free(cut);
        }
    }
}

/* Binary tensors with damaged JSON parts and lengths. */
static void test_binary_mutations(void **state)
{
    (void)state;
    static const char head[] = "{\"inputs\": [{\"name\": \"X\", \"shape\": [2, 3], \"datatype\": "
                               "\"FP32\", \"parameters\": {\"binary_data_size\": 24}}]}";
    struct rng r = rng_new(2, RNG_TEST);
    for (int k = 0; k < 20000; k++) {
        size_t len = 0;
        char *damaged = mutate(&r, head, sizeof head - 1, &len);
        cleanup_buf struct buf body = BUF_INIT;
        buf_add(&body, damaged, len);
        for (int i = 0; i < 24; i++) {
            buf_char(&body, (char)rng_below(&r, 60));
        }
        struct infer in = {.id = NULL};
        struct question q = {.X = NULL};
        const int64_t header = k % 4 == 0 ? (int64_t)rng_below(&r, 200) - 1 : (int64_t)len;
        if (infer_read(body.data, body.len, header, &regression, &in, &q, NULL) == 0) {
            check_question(&q);
        }
        infer_deinit(&in);
        question_deinit(&q);
        mem_free(damaged);
    }
}

/* A text sets its own feature and clears the others of its column, whatever the form. */
static void test_texts(void **state)
{
    (void)state;
    for (int i = 0; i < BODIES; i++) {
        struct question q = {.X = NULL};
        if (bodies[i].what == TEXTS) {
            assert_int_equal(
                read_body(bodies[i].kind, bodies[i].text, length_of(i), &texts, &q, NULL), 0);
            assert_int_equal(q.rows, 2);
            for (int row = 0; row < 2; row++) {
                assert_true(q.X[3 * row] == row && q.X[3 * row + 2] == 1 - row);
            }
        }
        question_deinit(&q);
    }
}

/* What is wished beside the rows; a model that does not have it says what to do. */
static void test_wishes(void **state)
{
    (void)state;
    static const char wanted[] = "{\"instances\": [[1, 2, 3]], \"return_variance\": true}";
    static const char not_wanted[] = "{\"return_variance\": false, \"instances\": [[1, 2, 3]]}";
    struct question q = {.X = NULL};
    struct err err;
    assert_int_equal(read_body(JSON, wanted, strlen(wanted), &classifier, &q, &err), 0);
    assert_true(q.variance && q.variance_said && q.scores && !q.scores_said);
    question_deinit(&q);
    assert_int_equal(read_body(JSON, not_wanted, strlen(not_wanted), &classifier, &q, &err), 0);
    assert_true(!q.variance && q.variance_said);
    question_deinit(&q);
    assert_int_equal(read_body(CSV, "1,2,3", 5, &classifier, &q, &err), 0);
    assert_true(!q.variance && !q.variance_said);
    question_deinit(&q);
    assert_int_equal(read_body(JSON, not_wanted, strlen(not_wanted), &regression, &q, &err), 0);
    question_deinit(&q);
    assert_int_equal(read_body(JSON, wanted, strlen(wanted), &regression, &q, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/return_variance");
    assert_contains(err.detail, "\"kmcg\", \"kmcg_restricted\" and \"inducing\"");
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < BODIES; i++) {
        int failures = 0, r = -1;
        for (int n = 1; r < 0 && n < 100; n++) {
            struct question q = {.X = NULL};
            struct err err;
            mem_fail_nth(n);
            r = read_body(bodies[i].kind, bodies[i].text, length_of(i), model_of(i, true), &q,
                          &err);
            mem_fail_nth(0);
            assert_true(r == 0 || err.code == ERR_NO_MEMORY);
            failures += r < 0;
            question_deinit(&q);
        }
        assert_int_equal(r, 0);
        assert_true(failures > 0);
    }
}

/* As many rows as a worker takes at once are read, and one more is refused. */
static void test_too_many_rows(void **state)
{
    (void)state;
    static const struct {
        enum kind kind;
        const char *begin, *row, *end;
    } forms[] = {{CSV, "", "1,2,3\n", ""}, {JSON, "{\"inputs\":[[1,2,3]", ",[1,2,3]", "]}"}};
    const size_t most = QUESTION_MAX_BYTES / sizeof(double) / 3;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        cleanup_buf struct buf body = BUF_INIT;
        struct question q = {.X = NULL};
        struct err err;
        buf_str(&body, forms[f].begin);
        for (size_t i = forms[f].kind == JSON; i < most; i++) {
            buf_str(&body, forms[f].row);
        }
        const size_t len = body.len;
        buf_str(&body, forms[f].end);
        assert_int_equal(read_body(forms[f].kind, body.data, body.len, &regression, &q, &err), 0);
        assert_int_equal(q.rows, most);
        question_deinit(&q);
        body.len = len;
        buf_str(&body, forms[f].row);
        buf_str(&body, forms[f].end);
        assert_int_equal(read_body(forms[f].kind, body.data, body.len, &regression, &q, &err),
                         -ERR_TOO_LARGE);
    }
}

/* Numbers of FP32 are rounded once: as doubles the three on each side of a number between two
 * floats are the same. */
static void test_single_precision_rounds_once(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "{\"inputs\": [{\"name\": \"X\", \"shape\": [2, 3], \"datatype\": \"FP32\", \"data\": "
        "[16777217.000000001, 16777217, 16777216.999999999, -16777219e0, -16777219.000000001,\n"
        "-16777218.999999999]}]}",
        "{\"inputs\": [{\"data\": [ [16777217.000000001, 16777217, 1677721699.9999999e-2], "
        "[-16777219, -167772190000.00001e-4, -16777218.999999999] ], \"datatype\": \"FP32\", "
        "\"shape\": [2, 3], \"name\": \"X\"}]}"};
    static const double expected[] = {16777218,  16777216,  16777216,
                                      -16777220, -16777220, -16777218};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct question q = {.X = NULL};
        assert_int_equal(read_body(INFER, forms[i], strlen(forms[i]), &regression, &q, NULL), 0);
        assert_int_equal(q.rows, 2);
        for (int k = 0; k < 6; k++) {
            assert_same_bits(q.X[k], expected[k]);
        }
        question_deinit(&q);
    }
}

/* Bodies of many rows, in every form of them: all rows, in order. */
static void test_many_rows(void **state)
{
    (void)state;
    static const struct {
        enum kind kind;
        const char *begin, *row_begin, *row_end, *between, *end;
    } forms[] = {
        {JSON, "{\"instances\":[", "[", "]", ",", "]}"},
        {JSON, "{\"instances\" : [ ", "[", "]", ",\n ", " ] }"},
        {CSV, "", "", "", "\n", ""},
        {INFER, "{\"inputs\":[{\"name\":\"X\",\"datatype\":\"FP64\",\"shape\":[5000,3],\"data\":[",
         "[", "]", ", ", "]}]}"},
        {INFER, "{\"inputs\":[{\"name\":\"X\",\"datatype\":\"FP64\",\"shape\":[5000,3],\"data\":[",
         "", "", ",", "]}]}"},
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        cleanup_buf struct buf body = BUF_INIT;
        struct question q = {.X = NULL};
        struct err err = {.detail = ""};
        buf_str(&body, forms[f].begin);
        for (int i = 0; i < 5000; i++) {
            buf_printf(&body, "%s%s%d,%d,%d%s", i > 0 ? forms[f].between : "", forms[f].row_begin,
                       i, -i % 7, i * i % 1000, forms[f].row_end);
        }
        buf_str(&body, forms[f].end);
        if (read_body(forms[f].kind, body.data, body.len, &regression, &q, &err) != 0) {
            fail_msg("form %zu: %s %s", f, err.pointer, err.detail);
        }
        assert_int_equal(q.rows, 5000);
        for (int i = 0; i < 5000; i++) {
            assert_same_bits(q.X[3 * i], i);
            assert_same_bits(q.X[3 * i + 1], -i % 7);
            assert_same_bits(q.X[3 * i + 2], i * i % 1000);
        }
        question_deinit(&q);
    }
}

TEST_MAIN(cmocka_unit_test(test_good), cmocka_unit_test(test_lacking),
          cmocka_unit_test(test_telling), cmocka_unit_test(test_mutations),
          cmocka_unit_test(test_every_cut), cmocka_unit_test(test_binary_mutations),
          cmocka_unit_test(test_texts), cmocka_unit_test(test_wishes),
          cmocka_unit_test(test_no_memory), cmocka_unit_test(test_too_many_rows),
          cmocka_unit_test(test_single_precision_rounds_once), cmocka_unit_test(test_many_rows))
