#include "ingest_fixture.h"

static int setup_libsvm(void **state)
{
    const int r = setup(state);
    struct fixture *f = *state;
    f->options.format = INGEST_LIBSVM;
    return r;
}

#define LIBSVM_TEST(name) cmocka_unit_test_setup_teardown(name, setup_libsvm, teardown)

static void test_dense(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "# a comment\n2.5 1:1 3:-0.5\n\n-1 2:7e-1 # another\r\n+3\t4:1 5:2\n");
    assert_columns(f, "x1,x2,x3,x4,x5,y");
    assert_values(f, 1, 0, -0.5, 0, 0, 2.5, 0, 0.7, 0, 0, 0, -1, 0, 0, 0, 1, 2, 3);
    assert_int_equal(f->info.dtype, DTYPE_F64);
    assert_int_equal(f->info.task, TASK_REGRESSION);
    assert_int_equal(f->info.target_columns[0], 5);
}

static void test_classes(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "+1 1:1\n-1 2:1\n-1 1:2\n+1 1:3 2:4\n0 2:5");
    assert_int_equal(f->info.task, TASK_REGRESSION); /* three values, five rows */
    accept_text(f, "+1 1:1\n-1 2:1\n-1\n+1 1:3 2:4");
    assert_int_equal(f->info.task, TASK_CLASSIFICATION);
    assert_classes(f, "-1,1");
    assert_values(f, 1, 0, 1, 0, 1, 0, 0, 0, 0, 3, 4, 1);
}

static void test_target(void **state)
{
    struct fixture *f = *state;
    f->options.targets = (const char *const[]){"x2"};
    f->options.target_count = 1;
    accept_text(f, "1 1:1 2:2.5\n2 1:3 2:1\n");
    assert_int_equal(f->info.target_columns[0], 1);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "1 1:1\n2 0:1 1:2\n", ERR_INVALID, "#/line/2/column/2",
                "Line 2, item 2 (\"0:1\"): indices begin at 1.");
    refuse_text(f, "1 1:1\n2 2:1 1:2\n", ERR_INVALID, "#/line/2/column/3", "indices ascend");
    refuse_text(f, "1 1:1\n2 2:1 2:2\n", ERR_INVALID, "#/line/2/column/3", "2 comes before it");
    refuse_text(f, "1 1:1\n2 qid:3 1:2\n", ERR_UNSUPPORTED, "#/line/2/column/2", "query ids");
    refuse_text(f, "1,2 1:1\n2 1:2\n", ERR_UNSUPPORTED, "#/line/1/column/1", "several labels");
    refuse_text(f, "1:1\n2 1:2\n", ERR_INVALID, "#/line/1/column/1", "without a label");
    refuse_text(f, "a 1:1\n2 1:2\n", ERR_INVALID, "#/line/1/column/1", "not a number");
    refuse_text(f, "nan 1:1\n2 1:2\n", ERR_INVALID, "#/line/1/column/1", "is missing");
    refuse_text(f, "1 1:1e999\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "not finite");
    refuse_text(f, "1 1:0x2\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "hexadecimal");
    refuse_text(f, "1 1:\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "is missing");
    refuse_text(f, "1 :1\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "index is missing");
    refuse_text(f, "1 -1:1\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "not a whole number");
    refuse_text(f, "1 1:1:1\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "not a number");
    refuse_text(f, "1 1\n2 1:2\n", ERR_INVALID, "#/line/1/column/2", "expected index:value");
    refuse_bytes(f, "1 1:1\n2\0 1:2\n", 13, ERR_PARSE, "#/line/2", "NUL");
}

static void test_too_short(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "", ERR_INVALID, "#", "The file is empty.");
    refuse_text(f, "\n# nothing\n", ERR_INVALID, "#/rows", "no data rows");
    refuse_text(f, "1 1:1\n", ERR_INVALID, "#/rows", "at least two rows");
    refuse_text(f, "1\n2\n", ERR_INVALID, "#/rows", "No line of the file has a feature.");
}

/* A few bytes must not make a matrix of gigabytes. */
static void test_limits(void **state)
{
    struct fixture *f = *state;
    f->options.max_columns = 10;
    accept_text(f, "1 9:1\n2 1:2\n");
    assert_int_equal(f->info.columns, 10);
    refuse_text(f, "1 1:1\n2 10:2\n", ERR_TOO_LARGE, "#/line/2/column/2", "above the limit of 9");
    refuse_text(f, "1 1:1\n2 99999999999999999999999:2\n", ERR_TOO_LARGE, "#/line/2/column/2",
                "above the limit");
    f->options.max_unpacked_bytes = 2 * 10 * 8;
    accept_text(f, "1 9:1\n2 1:2\n");
    f->options.max_unpacked_bytes--;
    refuse_text(f, "1 9:1\n2 1:2\n", ERR_TOO_LARGE, "", "dense matrix of 160 bytes");
    f->options.max_unpacked_bytes = 1000000;
    f->options.max_rows = 1;
    refuse_text(f, "1 9:1\n2 1:2\n", ERR_TOO_LARGE, "", "limit of 1 rows");
}

TEST_MAIN(LIBSVM_TEST(test_dense), LIBSVM_TEST(test_classes), LIBSVM_TEST(test_target),
          LIBSVM_TEST(test_refused), LIBSVM_TEST(test_too_short), LIBSVM_TEST(test_limits))
