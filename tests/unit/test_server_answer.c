/* Answers with variances, in every form; what is usual in them is tested over HTTP
 * (tests/http/test_bodies.py, test_infer.py). */
#include "server/bodies/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/bodies/infer.h"
#include "store/models.h"
#include "support/assert.h"

static const double values[] = {1, 2, 3, 4}, variances[] = {0.5, 0.25, 0, 8};
static const double picked[] = {1, 0}, scores[] = {0.125, 0.875, 0.75, 0.25};

/* "outputs" and "classes" are of a description. */
static const struct served_model *model_of(const char *outputs, const char *classes)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_printf(&text,
               "{\"features\":[\"x\"],\"targets\":%s,\"classes\":%s,\"centers\":2,"
               "\"variance\":{\"directions\":1}}",
               outputs, classes);
    struct model_row row = {.key = 1,
                            .name = mem_strdup("m"),
                            .version = 1,
                            .description = mem_strdup(text.data),
                            .bytes = 1000};
    const struct served_model *m = NULL;
    assert_int_equal(served_of_row(&row, &m, NULL), 0);
    return m;
}

static struct serving_answer answer_of(const struct served_model *m)
{
    const bool classes = m->classes > 0;
    return (struct serving_answer){.model = m,
                                   .rows = m->variances == 2 ? 2 : 4,
                                   .values = classes ? picked : values,
                                   .scores = classes ? scores : NULL,
                                   .variances = variances};
}

static void check_text(void (*write)(const struct serving_answer *a, struct buf *ret),
                       const struct serving_answer *a, const char *expected)
{
    cleanup_buf struct buf text = BUF_INIT;
    write(a, &text);
    assert_non_null(text.data);
    assert_contains(text.data, expected);
}

static void write_json(const struct serving_answer *a, struct buf *ret)
{
    answer_write_json(a, -1, ret);
}

static void write_json_unknown(const struct serving_answer *a, struct buf *ret)
{
    answer_write_json(a, 0, ret);
}

static void write_csv(const struct serving_answer *a, struct buf *ret)
{
    answer_write_csv(a, true, false, ret);
}

static void test_texts(void **state)
{
    (void)state;
    const struct served_model *one = model_of("[\"y\"]", "null");
    const struct served_model *two = model_of("[\"u\",\"v\"]", "null");
    const struct served_model *kinds = model_of("[\"kind\"]", "[\"no\",\"yes\"]");
    struct serving_answer a = answer_of(one);
    check_text(write_json, &a, "\"predictions\":[1,2,3,4],\"variances\":[0.5,0.25,0,8]}");
    check_text(write_json_unknown, &a, "[0.5,0.25,0,8],\"unknown_values\":0}");
    check_text(write_csv, &a, "y,y_variance\r\n1,0.5\r\n2,0.25\r\n3,0\r\n4,8\r\n");
    a = answer_of(two);
    check_text(write_json, &a, "\"predictions\":[[1,2],[3,4]],\"variances\":[[0.5,0.25],[0,8]]}");
    check_text(write_csv, &a, "u,v,u_variance,v_variance\r\n1,2,0.5,0.25\r\n3,4,0,8\r\n");
    a = answer_of(kinds);
    check_text(write_json, &a,
               "\"predictions\":[\"yes\",\"no\"],\"classes\":[\"no\",\"yes\"],\"scores\":"
               "[[0.125,0.875],[0.75,0.25]],\"variances\":[[0.5,0.25],[0,8]]}");
    check_text(write_csv, &a,
               "prediction,no,yes,no_variance,yes_variance\r\nyes,0.125,0.875,0.5,0.25\r\n");
    a.scores = NULL;
    check_text(write_json, &a, "\"yes\"],\"variances\":[[0.5,0.25],[0,8]]}");
    check_text(write_csv, &a, "prediction,no_variance,yes_variance\r\nyes,0.5,0.25\r\n");
    served_release(one);
    served_release(two);
    served_release(kinds);
}

/* No two columns of a table have one name. */
static void test_names_of_columns(void **state)
{
    (void)state;
    static const struct {
        const char *targets, *header;
    } cases[] = {
        {"[\"_variance\",\"v\"]", "_variance,v,_variance_variance,v_variance\r\n"},
        {"[\"y\",\"y_variance\"]", "y,y_variance,y_variance2,y_variance_variance2\r\n"},
        {"[\"z_variance\",\"y\"]", "z_variance,y,z_variance_variance,y_variance\r\n"},
        {"[\"a,b\",\"c\"]", "\"a,b\",c,\"a,b_variance\",c_variance\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct served_model *m = model_of(cases[i].targets, "null");
        const struct serving_answer a = answer_of(m);
        check_text(write_csv, &a, cases[i].header);
        served_release(m);
    }
    const struct served_model *m =
        model_of("[\"y\"]", "[\"y\",\"y_variance\",\"y_variance2\",\"y_variance3\"]");
    struct serving_answer a = answer_of(m);
    a.rows = 1;
    a.scores = values;
    check_text(write_csv, &a, "y_variance3,y_variance4,y_variance_variance4,");
    served_release(m);
}

static void check_array(const struct serving_answer *a, const char *shape, const double *expected,
                        size_t count)
{
    cleanup_buf struct buf npy = BUF_INIT;
    answer_write_npy(a, &npy);
    assert_true(npy.len > count * sizeof(double) && npy.len % 8 == 0);
    char head[200] = "";
    memcpy(head, npy.data + 10, 100);
    assert_contains(head, shape);
    assert_memory_equal(npy.data + npy.len - count * sizeof(double), expected,
                        count * sizeof(double));
}

/* One array holds both: the numbers, and behind those of a row their variances. */
static void test_arrays(void **state)
{
    (void)state;
    const struct served_model *one = model_of("[\"y\"]", "null");
    const struct served_model *kinds = model_of("[\"kind\"]", "[\"no\",\"yes\"]");
    struct serving_answer a = answer_of(one);
    check_array(&a, "'shape': (4, 2)", (const double[]){1, 0.5, 2, 0.25, 3, 0, 4, 8}, 8);
    a = answer_of(kinds);
    check_array(&a, "'shape': (2, 4)", (const double[]){0.125, 0.875, 0.5, 0.25, 0.75, 0.25, 0, 8},
                8);
    served_release(one);
    served_release(kinds);
}

static void test_copies_and_checks(void **state)
{
    (void)state;
    const struct served_model *kinds = model_of("[\"kind\"]", "[\"no\",\"yes\"]");
    struct serving_answer a = answer_of(kinds);
    struct answer_copy copy = {.numbers = NULL};
    assert_int_equal(answer_size(&a), 2 + 4 + 4);
    assert_int_equal(answer_keep(&a, &copy, NULL), 0);
    assert_memory_equal(copy.answer.values, picked, sizeof picked);
    assert_memory_equal(copy.answer.scores, scores, sizeof scores);
    assert_memory_equal(copy.answer.variances, variances, sizeof variances);
    assert_ptr_not_equal(copy.answer.variances, variances);
    answer_copy_deinit(&copy);
    a.scores = NULL;
    assert_int_equal(answer_size(&a), 2 + 4);
    assert_int_equal(answer_keep(&a, &copy, NULL), 0);
    assert_null(copy.answer.scores);
    assert_memory_equal(copy.answer.variances, variances, sizeof variances);
    answer_copy_deinit(&copy);
    const double bad[] = {0, 1, 2, INFINITY};
    struct err err;
    assert_int_equal(answer_check(&a, &err), 0);
    a.variances = bad;
    assert_int_equal(answer_check(&a, &err), -ERR_INVALID);
    assert_contains(err.detail, "variance");
    served_release(kinds);
}

/* The outputs of the Open Inference Protocol, and that this one is computed where it is named. */
static void test_inference(void **state)
{
    (void)state;
    static const char plain[] = "{\"inputs\":[{\"name\":\"X\",\"shape\":[4,1],\"datatype\":"
                                "\"FP64\",\"data\":[1,2,3,4]}]}";
    static const char named[] = "{\"inputs\":[{\"name\":\"X\",\"shape\":[4,1],\"datatype\":"
                                "\"FP64\",\"data\":[1,2,3,4]}],\"outputs\":[{\"name\":"
                                "\"variance\"},{\"name\":\"y\"}]}";
    const struct served_model *m = model_of("[\"y\"]", "null");
    const struct serving_answer a = answer_of(m);
    struct infer in = {.id = NULL};
    struct question q = {.X = NULL};
    cleanup_buf struct buf text = BUF_INIT;
    size_t header = 0;
    assert_int_equal(infer_read(plain, strlen(plain), INFER_NO_HEADER, m, &in, &q, NULL), 0);
    assert_false(q.variance);
    assert_int_equal(in.output_count, 1);
    question_deinit(&q);
    infer_deinit(&in);
    assert_int_equal(infer_read(named, strlen(named), INFER_NO_HEADER, m, &in, &q, NULL), 0);
    assert_true(q.variance);
    infer_write(&in, &a, &text, &header);
    assert_contains(text.data,
                    "\"outputs\":[{\"name\":\"variance\",\"datatype\":\"FP64\",\"shape\":[4,1],"
                    "\"data\":[0.5,0.25,0,8]},{\"name\":\"y\",");
    question_deinit(&q);
    infer_deinit(&in);
    served_release(m);
}

TEST_MAIN(cmocka_unit_test(test_texts), cmocka_unit_test(test_names_of_columns),
          cmocka_unit_test(test_arrays), cmocka_unit_test(test_copies_and_checks),
          cmocka_unit_test(test_inference))
