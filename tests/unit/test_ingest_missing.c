/* Values that are missing: left out with their rows, or filled in. */
#include "ingest_fixture.h"
#include "wire/missing.h"

static int setup_drop(void **state)
{
    const int r = setup(state);
    ((struct fixture *)*state)->options.missing = INGEST_MISSING_DROP;
    return r;
}

static int setup_fill(void **state)
{
    const int r = setup(state);
    ((struct fixture *)*state)->options.missing = INGEST_MISSING_FILL;
    return r;
}

static int setup_indicate(void **state)
{
    const int r = setup(state);
    ((struct fixture *)*state)->options.missing = INGEST_MISSING_INDICATE;
    return r;
}

#define INDICATE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_indicate, teardown)
#define DROP_TEST(name) cmocka_unit_test_setup_teardown(name, setup_drop, teardown)
#define FILL_TEST(name) cmocka_unit_test_setup_teardown(name, setup_fill, teardown)

static void assert_missing(const struct fixture *f, int64_t dropped, int64_t filled)
{
    const struct dataset_missing *told = &f->info.missing, *kept = &f->data->info.missing;
    assert_true(told->allowed && kept->allowed);
    assert_int_equal(told->dropped_rows, dropped);
    assert_int_equal(told->filled, filled);
    assert_int_equal(kept->dropped_rows, dropped);
    assert_int_equal(kept->filled, filled);
    assert_true((kept->fill != NULL) == (f->options.missing != INGEST_MISSING_DROP));
    assert_true((kept->indicates != NULL) == (f->options.missing == INGEST_MISSING_INDICATE));
    struct err err;
    assert_int_equal(dataset_check(f->data, &err), 0);
}

/* As the file has it: what models read. */
#define assert_fill(f, ...)                                                                        \
    do {                                                                                           \
        const double wanted_[] = {__VA_ARGS__};                                                    \
        assert_int_equal((f)->data->info.columns, sizeof(wanted_) / sizeof(*wanted_));             \
        for (int64_t i_ = 0; i_ < (f)->data->info.columns; i_++) {                                 \
            if (isnan(wanted_[i_])) {                                                              \
                assert_true(isnan((f)->data->info.missing.fill[i_]));                              \
            } else {                                                                               \
                assert_same_bits((f)->data->info.missing.fill[i_], wanted_[i_]);                   \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static void test_names(void **state)
{
    (void)state;
    enum ingest_missing m = INGEST_MISSING_REFUSE;
    assert_int_equal(ingest_missing_parse("fill", &m, NULL), 0);
    assert_int_equal(m, INGEST_MISSING_FILL);
    assert_string_equal(ingest_missing_name(INGEST_MISSING_DROP), "drop");
    assert_int_equal(ingest_missing_parse("", &m, NULL), -ERR_INVALID);
}

static void test_marks(void **state)
{
    (void)state;
    static const char *const marks[] = {"",    "NA",  "N/A",  "n/a",  "#N/A", "<NA>",
                                        "NaN", "nan", "null", "NULL", "None", "?"};
    static const char *const words[] = {"N", "na", "Na", "NAN",  "none",
                                        "0", "-",  "??", "nano", "NULLS"};
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        assert_true(missing_mark(marks[i], strlen(marks[i])));
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        assert_false(missing_mark(words[i], strlen(words[i])));
    }
    assert_true(missing_mark("NA,1", 2));
}

/* Unless somebody asks, a table that lacks a value is refused, and told what to ask for. */
static void test_refused(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1,2\n3,4\n");
    assert_false(f->info.missing.allowed);
    refuse_text(f, "a,y\n1,2\n,3\n", ERR_INVALID, "#/line/3/column/1",
                "(\"a\"): the cell is empty; missing=drop (krr: --missing drop) leaves out rows");
    refuse_text(f, "a,y\n1,2\nNA,3\n", ERR_INVALID, "#/line/3/column/1",
                "\"NA\" is not a number; missing=drop");
    refuse_text(f, "a,y\n1,2\nnan,3\n", ERR_INVALID, "#/line/3/column/1",
                "\"nan\" is not a finite number; missing=drop");
    refuse_text(
        f, "a,y\n1,2\n3,?\n", ERR_INVALID, "#/line/3/column/2",
        "\"?\" is not a number, unlike other cells of the target; missing=drop and missing=fill");
}

static void test_drop(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,b,y\n1,2,3\n,5,6\n7,NA,9\n10,11,12.5\n13,14,nan\n16,17,18\n");
    assert_columns(f, "a,b,y");
    assert_values(f, 1, 2, 3, 10, 11, 12.5, 16, 17, 18);
    assert_missing(f, 3, 0);
    assert_int_equal(f->info.warnings, 1);
    assert_string_equal(f->info.warning_texts[0],
                        "3 of 6 rows were left out, for they lack a value: 1 that of the column "
                        "\"a\", which lacks most.");
    f->options.ignored = (const char *const[]){"b"};
    f->options.ignored_count = 1;
    accept_text(f, "a,b,y\n1,,3\n2,?,4.5\n");
    assert_values(f, 1, 3, 2, 4.5);
    assert_missing(f, 0, 0);
    assert_int_equal(f->info.warnings, 0);
}

static void test_fill(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,b,y\n1,2,3\n,0.25,6.5\n2,NA,9\n4,,\n0,1,2\n");
    assert_values(f, 1, 2, 3, 1, 0.25, 6.5, 2, 3.25 / 3, 9, 0, 1, 2);
    assert_fill(f, 1, 3.25 / 3, 20.5 / 4);
    assert_missing(f, 1, 2);
    assert_int_equal(f->info.warnings, 2);
    assert_string_equal(f->info.warning_texts[0],
                        "1 of 5 rows were left out, for they lack a target: 1 that of the column "
                        "\"y\", which lacks most.");
    assert_contains(f->info.warning_texts[1], "2 missing values were filled in: numbers with the "
                                              "mean of their column, words as none of its words. "
                                              "The column \"a\" lacks most, 1 of 4.");
    accept_text(f, "a,y\n1,2\n2,3.5\n"); /* for predictions */
    assert_fill(f, 1.5, 2.75);
    assert_missing(f, 0, 0);
    assert_int_equal(f->info.warnings, 0);
}

/* A column more for each that lacks a value in a row that stays, behind all others. */
static void test_indicate(void **state)
{
    struct fixture *f = *state;
    static const int64_t of[] = {-1, -1, -1, 0, 1};
    accept_text(f, "a,b,y\n1,2,3\n,0.25,6.5\n2,NA,9\n4,7,\n0,1,2\n");
    assert_columns(f, "a,b,y,a_missing,b_missing");
    assert_values(f, 1, 2, 3, 0, 0, 1, 0.25, 6.5, 1, 0, 2, 3.25 / 3, 9, 0, 1, 0, 1, 2, 0, 0);
    assert_fill(f, 1, 3.25 / 3, 20.5 / 4, 0, 0);
    assert_missing(f, 1, 2);
    assert_memory_equal(f->data->info.missing.indicates, of, sizeof(of));
    assert_int_equal(f->info.target_columns[0], 2);
    assert_contains(f->info.warning_texts[1],
                    "words as none of its words; columns \"…_missing\" tell");
    accept_text(f,
                "a,b,y\n1,2,3\n2,0.25,6.5\n5,,\n"); /* the one that lacks something is left out */
    assert_columns(f, "a,b,y");
    assert_missing(f, 1, 0);
    assert_int_equal(f->data->info.missing.indicates[1], -1);
    f->options.max_columns = 3;
    refuse_text(f, "a,b,y\n1,2,3\n,0.25,6.5\n2,1,9\n", ERR_TOO_LARGE, "#/missing",
                "With missing=indicate the table has 4 columns, more than the limit of 3");
}

/* The mean is that of the exact sum, whatever cancels, and stays finite. */
static void test_exact_means(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1e30,1\n1,2\n-1e30,3.5\n,4\n");
    assert_same_bits(f->info.missing.fill[0], 1.0 / 3);
    accept_text(f, "a,y\n1.7e308,1\n1.7e308,2\n,3.5\n1.7e308,4\n");
    assert_same_bits(f->info.missing.fill[0], 1.7e308);
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "a,y\n?,1.5\n");
    for (int i = 0; i < 10000; i++) {
        buf_str(&b, "0.1,1\n");
    }
    accept_bytes(f, b.data, b.len);
    assert_same_bits(f->info.missing.fill[0], 0.1);
}

static void test_words_fill(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    accept_text(f, "c,a,y\nred,1,1.5\nNone,2,2\n,,3\nblue,4,4\nred,5,\n");
    assert_columns(f, "c=blue,c=red,a,y");
    assert_values(f, 0, 1, 1, 1.5, 0, 0, 2, 2, 0, 0, 7.0 / 3, 3, 1, 0, 4, 4);
    assert_fill(f, 0, 0, 7.0 / 3, 10.5 / 4);
    assert_missing(f, 1, 3);
    accept_text(f, "c,y\n?,1\nred,2.5\nblue,3\n"); /* its first cell is no word */
    assert_columns(f, "c=blue,c=red,y");
    assert_values(f, 0, 0, 1, 0, 1, 2.5, 1, 0, 3);
    accept_text(f, "c,y\nNaN,1\n1,2.5\nblue,3\n"); /* numbers are kinds beside words */
    assert_columns(f, "c=1,c=blue,y");
    assert_values(f, 0, 0, 1, 1, 0, 2.5, 0, 1, 3);
}

/* A word that some rows lack says something, a number that is always the same does not. */
static void test_constant_columns(void **state)
{
    struct fixture *f = *state;
    cleanup_buf struct buf b = BUF_INIT;
    f->options.one_hot = true;
    buf_str(&b, "c,a,y\n");
    for (int i = 0; i < 12; i++) {
        buf_printf(&b, "%s,%s,%d.5\n", i % 3 == 0 ? "" : "here", i % 5 == 0 ? "" : "7", i);
    }
    accept_bytes(f, b.data, b.len);
    assert_int_equal(f->info.warnings, 2);
    assert_contains(f->info.warning_texts[0], "7 missing values were filled in");
    assert_contains(f->info.warning_texts[1], "The feature \"a\" is the same in every row");
}

/* There it is the indicator that says something, which is gone with its column. */
static void test_constant_columns_that_are_told(void **state)
{
    struct fixture *f = *state;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "a,c,y\n");
    for (int i = 0; i < 12; i++) {
        buf_printf(&b, "%s,7,%d.5\n", i % 3 == 0 ? "" : "1", i);
    }
    accept_bytes(f, b.data, b.len);
    assert_columns(f, "a,c,y,a_missing");
    assert_int_equal(f->info.warnings, 2);
    assert_contains(f->info.warning_texts[0], "4 missing values were filled in");
    assert_contains(f->info.warning_texts[1], "The feature \"c\" is the same in every row");
}

/* Words that are only in rows that were left out are nobody's, be they kinds or classes. */
static void test_words_of_dropped_rows(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    accept_text(f, "c,a,y\ngreen,?,no\nred,1,yes\nblue,2,no\nred,,perhaps\nred,4,no\n");
    assert_columns(f, "c=blue,c=red,a,y");
    assert_classes(f, "no,yes");
    assert_values(f, 0, 1, 1, 1, 1, 0, 2, 0, 0, 1, 4, 0);
    assert_missing(f, 2, 0);
}

static void test_class_targets(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1,\n2,yes\n3,no\n,no\n"); /* its first cell is none of numbers */
    assert_int_equal(f->info.task, TASK_CLASSIFICATION);
    assert_classes(f, "no,yes");
    assert_values(f, 2, 1, 3, 0, 2.5, 0);
    assert_fill(f, 2.5, NAN);
    assert_missing(f, 1, 1);
    accept_text(f, "a,y\n1,0\n2,NA\n3,1\n4,0\n5,1\n");
    assert_classes(f, "0,1");
    assert_values(f, 1, 0, 3, 1, 4, 0, 5, 1);
    refuse_text(f, "a,y\n1,\n2,yes\n3,7\n", ERR_INVALID, "#/line/3/column/2",
                "\"yes\" is not a number, unlike other cells of the target");
}

static void test_headers(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "1,NA,3\n2,5,6.5\n3,7,9\n"); /* NA is no name above 5 */
    assert_columns(f, "column0,column1,column2");
    assert_values(f, 1, 6, 3, 2, 5, 6.5, 3, 7, 9);
    accept_text(f, "a,b\nNA,1\n2,2.5\n3,4\n");
    assert_columns(f, "a,b");
    accept_text(f, ",a,y\n0,?,3.5\n1,4,3\n2,3,3\n");
    assert_columns(f, "column0,a,y");
    assert_contains(f->info.warning_texts[0], "numbers the rows");
}

/* A column that numbers the rows is one also where rows are left out. */
static void test_row_numbers(void **state)
{
    struct fixture *f = *state;
    accept_text(f, ",a,y\n0,?,3.5\n1,4,3\n2,3,3\n3,,3\n4,1,1\n");
    assert_int_equal(f->info.warnings, 2);
    assert_contains(f->info.warning_texts[0], "numbers the rows");
}

static void test_no_value(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "a,b,y\n1,,2\n3,NA,4\n", ERR_INVALID, "#/column/2",
                "The column \"b\" holds no value in any of the 2 rows. ignore=COLUMN");
    refuse_text(f, "a,b,y\n1,2,\n3,4,?\n", ERR_INVALID, "#/column/3",
                "The column \"y\" holds no value in any of the 2 rows.");
    refuse_text(f, "a,b,y\n1,2,\n3,,4\n5,?,6\n", ERR_INVALID, "#/column/2",
                "holds no value in any of the 2 rows that have a target. ignore=COLUMN");
    f->options.missing = INGEST_MISSING_DROP;
    refuse_text(f, "a,b,y\n1,,2\n3,NA,4\n", ERR_INVALID, "#/column/2", "any of the 2 rows. ignore");
    refuse_text(f, "a,b,y\n1,2,\n,4,5\n6,7,8\n", ERR_INVALID, "#/rows",
                "2 of 3 data rows lack a value and were left out; a data set needs at least two");
    refuse_text(f, "a,b,y\n", ERR_INVALID, "#/rows", "The file has no data rows.");
}

/* What is no number and no mark is refused as ever. */
static void test_bad_numbers(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "a,y\n,1\ninf,2\n3,4\n", ERR_INVALID, "#/line/3/column/1", "not a finite");
    refuse_text(f, "a,y\n,1\nx,2\n", ERR_INVALID, "#/line/3/column/1", "\"x\" is not a number");
    refuse_text(f, "a,y\n,1\n2\n", ERR_INVALID, "#/line/3", "1 cells, expected 2");
}

static void test_libsvm(void **state)
{
    struct fixture *f = *state;
    f->options.format = INGEST_LIBSVM;
    accept_text(f, "1.5 1:2 2:nan\n? 1:3\n2 1:NA 2:4\n3 1:4 2:5\n");
    assert_values(f, 2, 4.5, 1.5, 3, 4, 2, 4, 5, 3);
    assert_missing(f, 1, 2);
}

static void test_npy(void **state)
{
    struct fixture *f = *state;
    const float values[] = {0.1f, 1, 2, NAN, 4, 5, 0.2f, 7, NAN, 0.4f, 10, 11};
    cleanup_buf struct buf b = BUF_INIT;
    f->options.format = INGEST_NPY;
    add_npy(&b, "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }", values, 48);
    accept_bytes(f, b.data, b.len);
    const double mean = (double)(float)(((double)0.1f + (double)0.4f) / 2);
    assert_values(f, 0.1f, 1, 2, mean, 4, 5, 0.4f, 10, 11);
    assert_fill(f, mean, 5, 6);
    assert_missing(f, 1, 1);
    f->options.missing = INGEST_MISSING_DROP;
    accept_bytes(f, b.data, b.len);
    assert_values(f, 0.1f, 1, 2, 0.4f, 10, 11);
    assert_missing(f, 2, 0);
    f->options.missing = INGEST_MISSING_REFUSE;
    refuse_bytes(f, b.data, b.len, ERR_INVALID, "#/row/1/column/0", "not finite");
}

/* NaN is no float's alone: integers that float64 does not hold stay refused, and so is infinity. */
static void test_npy_refused(void **state)
{
    struct fixture *f = *state;
    const int64_t large[] = {1, 2, (INT64_C(1) << 53) + 1, 4};
    const double infinite[] = {1, 2, -INFINITY, 4};
    f->options.format = INGEST_NPY;
    cleanup_buf struct buf b = BUF_INIT, c = BUF_INIT;
    add_npy(&b, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", large, 32);
    refuse_bytes(f, b.data, b.len, ERR_INVALID, "#/row/1/column/0", "too large for a float64");
    add_npy(&c, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }", infinite, 32);
    refuse_bytes(f, c.data, c.len, ERR_INVALID, "#/row/0/column/1", "not finite");
}

static void test_npz(void **state)
{
    struct fixture *f = *state;
    const double values[] = {1, NAN, 3, 5, 4, 6};
    cleanup_buf struct buf x = BUF_INIT, y = BUF_INIT, b = BUF_INIT;
    f->options.format = INGEST_NPZ;
    add_npy(&x, "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 1), }", values, 48);
    add_npy(&y, "{'descr': '|S3', 'fortran_order': False, 'shape': (6,), }", "no\0yesnannanyesno",
            18);
    add_zip(f, &b, (const struct member[]){{"X.npy", &x}, {"y.npy", &y}}, 2, ZIP_CM_STORE);
    accept_bytes(f, b.data, b.len);
    assert_classes(f, "no,yes");
    assert_values(f, 1, 0, 11.0 / 3, 1, 4, 1, 6, 0);
    assert_missing(f, 2, 1);
}

TEST_MAIN(cmocka_unit_test(test_names), cmocka_unit_test(test_marks), INGEST_TEST(test_refused),
          DROP_TEST(test_drop), FILL_TEST(test_fill), INDICATE_TEST(test_indicate),
          FILL_TEST(test_exact_means), FILL_TEST(test_words_fill), FILL_TEST(test_constant_columns),
          INDICATE_TEST(test_constant_columns_that_are_told), DROP_TEST(test_words_of_dropped_rows),
          FILL_TEST(test_class_targets), FILL_TEST(test_headers), DROP_TEST(test_row_numbers),
          FILL_TEST(test_no_value), FILL_TEST(test_bad_numbers), FILL_TEST(test_libsvm),
          FILL_TEST(test_npy), FILL_TEST(test_npy_refused), FILL_TEST(test_npz))
