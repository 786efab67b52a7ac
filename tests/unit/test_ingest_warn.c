/* Columns that are seldom meant: src/ingest/ingest_warn.c, and what the CSV reader adds. */
#include "ingest_fixture.h"

/* n rows of what `row` prints for 0, 1, …, four times each. */
static void add_rows(struct buf *to, const char *head, const char *row, int n)
{
    buf_str(to, head);
    for (int i = 0; i < n; i++) {
        buf_printf(to, row, i, i, i, i);
    }
}

static void accept_rows(struct fixture *f, const char *head, const char *row, int n)
{
    cleanup_buf struct buf b = BUF_INIT;
    add_rows(&b, head, row, n);
    accept_text(f, b.data);
}

static void test_row_numbers_warn(void **state)
{
    struct fixture *f = *state;
    accept_rows(f, ",a,y\n", "%d,3%d,%d.5\n", 12);
    assert_columns(f, "column0,a,y");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(
        f->info.warning_texts[0],
        "column 1, which has no name and is called \"column0\" here, numbers the rows, "
        "and became a feature; ignore=0 (krr: --ignore 0), which counts from 0, leaves it out.");
    accept_text(f, ",a,y\n1,2,3.5\n2,4,3\n3,3,3\n");
    assert_int_equal(f->info.warnings, 1);
    accept_text(f, "Unnamed: 0,a,y\n1,2,3.5\n2,4,3\n3,3,3\n");
    assert_int_equal(f->info.warnings, 1);
    accept_text(f, ",a,y\n1,2,3.5\n2,4,3\n4,3,3\n");
    assert_int_equal(f->info.warnings, 0);
    accept_text(f, "t,a,y\n1,2,3.5\n2,4,3\n3,3,3\n");
    assert_int_equal(f->info.warnings, 0);
    f->options.ignored = (const char *const[]){"0"};
    f->options.ignored_count = 1;
    accept_text(f, ",a,y\n1,2,3.5\n2,4,3\n3,3,3\n");
    assert_int_equal(f->info.warnings, 0);
}

static void test_idle_columns_warn(void **state)
{
    struct fixture *f = *state;
    accept_rows(f, "a,b,y\n", "%d,7,1%d.5\n", 9); /* by chance */
    assert_int_equal(f->info.warnings, 0);
    accept_rows(f, "a,b,y\n", "%d,7,1%d.5\n", 10);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "The feature \"b\" is the same in every row, and "
                                              "teaches nothing; ignore=COLUMN (krr: ");
    accept_rows(f, "a,b,c,y\n", "%d,7,7,1%d.5\n", 10);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "2 features, \"b\" the first, are the same");
    accept_rows(f, "a,b,c,y\n", "%d,%d,-%d,1%d.5\n", 10);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0],
                    "The feature \"b\" has the values of the feature \"a\" in every row. ignore=");
    accept_rows(f, "a,b,c,y\n", "%d,%d,%d.0,%d\n", 10);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "has the values of the target \"y\" in every row. "
                                              "So do 2 more of other columns.");
}

/* Texts in the place of the same numbers are not the same. */
static void test_text_twins(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    accept_rows(f, "a,b,y\n", "u%1$d,v%1$d,%1$d.5\n", 10);
    assert_int_equal(f->info.warnings, 2); /* of texts that hardly repeat */
    accept_rows(f, "a,b,y\n", "u%1$d,u%1$d,%1$d.5\n", 10);
    assert_int_equal(f->info.warnings, 3);
    assert_contains(f->info.warning_texts[2], "\"b\" has the values of the feature \"a\"");
}

/* Numbers and dates that became classes, or columns, because of how they are written. */
static void test_numbers_as_texts_warn(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1,1 000\n2,2 500\n3,1 000\n");
    assert_classes(f, "1 000,2 500");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0],
                    "The column \"y\" holds no numbers, and its 2 different texts became classes: "
                    "\"1 000\" has signs between its thousands");
    accept_text(f, "a,y\n1,2024-01-31\n2,2024-02-01\n3,2024-01-31\n");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "became classes: \"2024-01-31\" is a date");
    accept_text(f, "a,y\n1,2024-01-31\n2,never\n3,2024-01-31\n");
    assert_int_equal(f->info.warnings, 0);
    f->options.one_hot = true;
    accept_text(f, "a,y\n1 000,1.5\n2 000,2\n1 000,3\n");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "2 different texts became 0/1 columns: \"1 000\"");
    f->options.task = TASK_CLASSIFICATION; /* somebody wants that */
    accept_text(f, "a,y\n1,2024-01-31\n2,2024-02-01\n3,2024-01-31\n");
    assert_int_equal(f->info.warnings, 0);
}

TEST_MAIN(INGEST_TEST(test_row_numbers_warn), INGEST_TEST(test_idle_columns_warn),
          INGEST_TEST(test_text_twins), INGEST_TEST(test_numbers_as_texts_warn))
