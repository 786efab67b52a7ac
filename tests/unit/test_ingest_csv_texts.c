/* Columns of text in tables: classes of a target, 0/1 columns, and texts among numbers. */
#include "ingest_fixture.h"

static void test_classes(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1,setosa\n2,virginica\n3,setosa\n4,10b\n5,\"a,b\"\n");
    assert_int_equal(f->info.task, TASK_CLASSIFICATION);
    assert_classes(f, "10b,a,b,setosa,virginica");
    assert_int_equal(f->info.classes, 4);
    assert_values(f, 1, 2, 2, 3, 3, 2, 4, 0, 5, 1);
    /* Numbers: by the rule, or because the client says so. */
    accept_text(f, "a,y\n1,-1\n2,1\n3,1\n4,-1\n");
    assert_classes(f, "-1,1");
    assert_values(f, 1, 0, 2, 1, 3, 1, 4, 0);
    assert_int_equal(f->info.warnings, 0);
    f->options.task = TASK_CLASSIFICATION;
    accept_text(f, "a,y\n1,2.5\n2,1\n3,300\n");
    assert_classes(f, "1,2.5,300");
    assert_values(f, 1, 1, 2, 0, 3, 2);
    f->options.task = TASK_REGRESSION;
    accept_text(f, "a,y\n1,-1\n2,1\n3,1\n4,-1\n");
    assert_int_equal(f->info.task, TASK_REGRESSION);
    assert_values(f, 1, -1, 2, 1, 3, 1, 4, -1);
}

static void test_guessed_classes_warn(void **state)
{
    struct fixture *f = *state;
    cleanup_buf struct buf b = BUF_INIT, ages = BUF_INIT;
    for (int i = 0; i < 60; i++) {
        buf_printf(&b, "%d,%d\n", i * i, 3 + i % 3);
    }
    for (int i = 0; i < 51 * 20; i++) {
        buf_printf(&ages, "%d,%d\n", i, 20 + i % 51);
    }
    accept_text(f, b.data);
    assert_int_equal(f->info.task, TASK_CLASSIFICATION);
    assert_classes(f, "3,4,5");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0],
                    "whole numbers 3 to 5 and was taken for 3 classes; "
                    "task=regression (krr: --task regression) makes it numbers.");
    accept_text(f, ages.data);
    assert_int_equal(f->info.task, TASK_REGRESSION);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0],
                    "20 to 70 and was taken for numbers; task=classification (krr: --task "
                    "classification) makes it 51 classes.");
    f->options.task = TASK_REGRESSION;
    accept_text(f, ages.data);
    assert_int_equal(f->info.warnings, 0);
}

static void test_text_refused(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "color,y\nred,1\nblue,2\n", ERR_INVALID, "#/line/2/column/1",
                "Line 2, column 1 (\"color\"): \"red\" is not a number; ignore=COLUMN (krr: "
                "--ignore COLUMN) "
                "leaves the column out, one_hot=true (krr: --one-hot) turns");
    f->options.task = TASK_REGRESSION;
    refuse_text(f, "a,y\n1,red\n2,blue\n", ERR_INVALID, "#/line/2/column/2", "classification");
    f->options.task = TASK_AUTO;
    /* A target of numbers stays one, unless the client says that it is none. */
    refuse_text(f, "a,y\n1,2\n2,blue\n", ERR_INVALID, "#/line/3/column/2",
                "\"blue\" is not a number, unlike other cells of the target; "
                "task=classification (krr: --task classification) makes it one of classes");
    refuse_text(f, "a,y\nx,2\n2,3\n", ERR_INVALID, "#/line/2/column/1", "one_hot=true");
    refuse_text(f, "a,y\n1,2\nx,3\n", ERR_INVALID, "#/line/3/column/1", "one_hot=true");
    refuse_text(f, "a,y\n1,red\n2,red\n", ERR_INVALID, "#/target", "one class only");
    refuse_text(f, "a,y\n1,red\n2,\n", ERR_INVALID, "#/line/3/column/2", "empty");
    refuse_text(f, "a,y\n1,red\n2,\xff\n", ERR_INVALID, "#/line/3/column/2", "is not UTF-8");
    f->options.targets = (const char *const[]){"b", "y"};
    f->options.target_count = 2;
    refuse_text(f, "a,b,y\n1,2,red\n2,3,blue\n", ERR_INVALID, "#/line/2/column/3",
                "classification");
}

static void test_one_hot(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.targets = (const char *const[]){"y"};
    f->options.target_count = 1;
    accept_text(f, "size,y,color\n1,2.5,red\n2,3.5,blue\n3,4.5,\"red\"\n4,5.5,7\n");
    assert_columns(f, "size,y,color=7,color=blue,color=red");
    assert_int_equal(f->info.target_columns[0], 1);
    assert_values(f, 1, 2.5, 0, 0, 1, 2, 3.5, 0, 1, 0, 3, 4.5, 0, 0, 1, 4, 5.5, 1, 0, 0);
    accept_text(f, "color,y\nred,yes\nblue,no\nred,no\n");
    assert_columns(f, "color=blue,color=red,y");
    assert_values(f, 0, 1, 1, 1, 0, 0, 0, 1, 0);
    assert_classes(f, "no,yes");
    assert_int_equal(f->info.target_columns[0], 2);
    refuse_text(f, "c,c=u,y\nu,1,1.5\nv,2,3\n", ERR_INVALID, "#/one_hot", "\"c=u\"");
    refuse_text(f, "c,c=w,y\nu,1,1.5\nv,2,3\n", ERR_INVALID, "#/one_hot", "\"c=w\"");
}

/* The order of the rows says nothing about a column. */
static void test_text_below_numbers(void **state)
{
    struct fixture *f = *state;
    f->options.task = TASK_CLASSIFICATION;
    accept_text(f, "a,y\n1,1\n2,z\n3,1\n4,1.0\n");
    assert_classes(f, "1,1.0,z");
    assert_values(f, 1, 0, 2, 2, 3, 0, 4, 1);
    refuse_text(f, "a,y\n1,1\n2,\n3,z\n", ERR_INVALID, "#/line/3/column/2", "empty");
    refuse_text(f, "a,y\n1,1\n2,z\n3,2,3\n", ERR_INVALID, "#/line/4", "3 cells");
    refuse_text(f, "a;y\n1;1\n2;2,5\n", ERR_INVALID, "#/line/3/column/2", "decimal comma");
    f->options.task = TASK_AUTO;
    f->options.one_hot = true;
    accept_text(f, "t,u,y\n1,2,1.5\nx,3,2\n2,v,1\n");
    assert_columns(f, "t=1,t=2,t=x,u=2,u=3,u=v,y");
    assert_values(f, 1, 0, 0, 1, 0, 0, 1.5, 0, 0, 1, 0, 1, 0, 2, 0, 1, 0, 0, 0, 1, 1);
    assert_int_equal(f->info.warnings, 2);
    assert_contains(f->info.warning_texts[0], "holds text, as \"x\", and 2 different numbers");
    refuse_text(f, "t,y\n1,1.5\nx,2\nnan,1\nx,0x10\n", ERR_INVALID, "#/line/5/column/2",
                "hexadecimal");
}

enum { ORDERS = 6 };

/* Three rows below "t;y" in one of their orders; 0, or the refusal. */
static int ingest_ordered(struct fixture *f, const char *const row[3], int order)
{
    static const int orders[ORDERS][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const int *o = orders[order];
    cleanup_buf struct buf b = BUF_INIT;
    buf_printf(&b, "t;y\n%s\n%s\n%s\n", row[o[0]], row[o[1]], row[o[2]]);
    return ingest(f, b.data, b.len);
}

static void accept_orders(struct fixture *f, const char *columns, const char *classes,
                          const char *const row[3])
{
    for (int i = 0; i < ORDERS; i++) {
        assert_int_equal(ingest_ordered(f, row, i), 0);
        assert_columns(f, columns);
        assert_classes(f, classes);
    }
}

static void refuse_orders(struct fixture *f, const char *part, const char *const row[3])
{
    for (int i = 0; i < ORDERS; i++) {
        assert_int_equal(ingest_ordered(f, row, i), -ERR_INVALID);
        assert_contains(f->err.detail, part);
    }
}

#define ROWS(...) ((const char *const[]){__VA_ARGS__})

/* Numbers that the reader refuses make no column one of text, and are texts in one that is. */
static void test_refused_numbers_among_texts(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    accept_orders(f, "t=1,t=nan,t=red,y", "", ROWS("1;2", "nan;3", "red;4"));
    accept_orders(f, "t=-inf,t=0x1f,t=x,y", "", ROWS("0x1f;2", "-inf;3", "x;4"));
    accept_orders(f, "t=1,t=2,5,t=x,y", "", ROWS("2,5;2", "1;3", "x;4"));
    refuse_orders(f, "\"NaN\" is not a finite number", ROWS("1;2", "NaN;3", "2;4"));
    refuse_orders(f, "\"0x1f\" is hexadecimal", ROWS("1;2", "0x1f;3", "2;4"));
    refuse_orders(f, "\"2,5\" has a decimal comma", ROWS("1;2", "2,5;3", "2;4"));
    f->options.task = TASK_CLASSIFICATION;
    accept_orders(f, "t,y", "1.0,nan,z", ROWS("1;1.0", "2;nan", "3;z"));
    refuse_orders(f, "\"nan\" is not a finite number", ROWS("1;1", "2;nan", "3;2"));
    refuse_text(f, "t,y\n1,1\nnan,1\n2,nan\n3,x\n", ERR_INVALID, "#/line/3/column/1", "\"nan\"");
}

/* Of a column that begins with nan the text below is told of, which takes one_hot; without text,
 * and below a number, the nan. */
static void test_texts_below_refused_numbers(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "t,y\nnan,1\nred,2\nblue,3\n", ERR_INVALID, "#/line/3/column/1",
                "Line 3, column 1 (\"t\"): \"red\" is not a number; ignore=COLUMN");
    assert_contains(f->err.detail, "one_hot=true");
    refuse_text(f, "t,y\nnan,1\n0x1f,2\nred,3\n", ERR_INVALID, "#/line/4/column/1", "one_hot=true");
    refuse_text(f, "t;y\n2,5;1\nred;2\n", ERR_INVALID, "#/line/3/column/1", "one_hot=true");
    refuse_text(f, "t,y\nnan,1\n1,2\nred,3\n", ERR_INVALID, "#/line/2/column/1", "\"nan\"");
    refuse_text(f, "t,y\nnan,1\ninf,2\n", ERR_INVALID, "#/line/2/column/1", "\"nan\"");
    refuse_text(f, "t,y\n1,1\nnan,2\nred,3\n", ERR_INVALID, "#/line/3/column/1", "\"nan\"");
    refuse_text(f, "t,u,y\nnan,1,1\n1,nan,2\n", ERR_INVALID, "#/line/2/column/1", "\"nan\"");
    refuse_text(f, "t,y\nnan,1\nred\n", ERR_INVALID, "#/line/3", "");
    refuse_text(f, "t,y\n1,nan\n2,red\n", ERR_INVALID, "#/line/2/column/2", "\"nan\"");
}

/* A target that nobody called one of classes is one of texts alone, or one of numbers alone. */
static void test_undecided_target(void **state)
{
    struct fixture *f = *state;
    accept_orders(f, "t,y", "a,b,z", ROWS("1;a", "2;b", "3;z"));
    refuse_orders(f, "\"z\" is not a number, unlike other cells of the target; task=class",
                  ROWS("1;1.5", "2;z", "3;2"));
    refuse_orders(f, "column 2", ROWS("1;a", "2;nan", "3;b"));
}

/* Amounts with a mark among them are no kinds. */
static void test_late_text_limits(void **state)
{
    struct fixture *f = *state;
    cleanup_buf struct buf b = BUF_INIT, first = BUF_INIT, classes = BUF_INIT;
    buf_str(&b, "t,y\n");
    for (int i = 0; i < 50; i++) {
        buf_printf(&b, "%d,%d.5\n", i, i);
    }
    buf_str(&b, "NA,1\n");
    f->options.one_hot = true;
    accept_text(f, b.data);
    assert_int_equal(f->info.columns, 52);
    buf_str(&b, "NA,1\n50,1\n");
    buf_printf(&first, "t,y\nNA,1\n%s50,1\n", b.data + strlen("t,y\n"));
    refuse_text(f, first.data, ERR_INVALID, "#/line/2/column/1", "more than 50 distinct numbers");
    refuse_text(f, b.data, ERR_INVALID, "#/line/52/column/1",
                "Line 52, column 1 (\"t\"): \"NA\" is not a number, and the column has more than "
                "50 distinct numbers, too many for kinds; missing=drop (krr: --missing drop)");
    f->options.task = TASK_CLASSIFICATION;
    for (int i = 0; i < 1000; i++) {
        buf_printf(&classes, "1,%d\n", i);
    }
    buf_str(&classes, "1,z\n");
    refuse_text(f, classes.data, ERR_TOO_LARGE, "#/line/1001/column/2",
                "\"z\" is not a number, and the column has more than 1000 distinct texts, too many "
                "for classes.");
}

/* What the first row makes of a column is not always what was meant. */
static void test_doubtful_texts_warn(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    cleanup_buf struct buf ids = BUF_INIT, good = BUF_INIT, missing = BUF_INIT, target = BUF_INIT;
    cleanup_buf struct buf dates = BUF_INIT;
    for (int i = 0; i < 153; i++) {
        buf_printf(&dates, "day%d,%d,%d.5\n", i % 51, i, i);
    }
    accept_text(f, dates.data);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "became 51 0/1 columns. If its texts are no kinds");
    assert_contains(f->info.warning_texts[0], "ignore=COLUMN");
    buf_str(&missing, "a,b,y\n");
    buf_str(&target, "a,y\n");
    for (int i = 0; i < 60; i++) {
        buf_printf(&ids, "mol%d,%d,%d.5\n", i, i, i);
        buf_printf(&good, "%s,%d,%d.5\n", i % 3 == 0 ? "red" : "blue", i, i);
        buf_printf(&missing, i == 0 ? "3,NA,%d.5\n" : "4,%d,%d.5\n", i < 40 ? i : 39, i);
        buf_printf(&target, i == 0 ? "%d,?\n" : "%d,%d.5\n", i, i);
    }
    accept_text(f, good.data);
    assert_int_equal(f->info.warnings, 0);
    accept_text(f, ids.data);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "60 different texts in 60 rows: as 0/1 columns");
    accept_text(f, missing.data);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "text, as \"NA\", and 39 different numbers");
    assert_contains(f->info.warning_texts[0], "If that marks a missing value, missing=drop (krr: ");
    refuse_text(f, target.data, ERR_INVALID, "#/line/2/column/2", "\"?\" is not a number, unlike");
    f->options.task = TASK_CLASSIFICATION;
    accept_text(f, target.data);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0],
                    "text, as \"?\", and 59 different numbers: all of them "
                    "became classes");
}

static void test_one_hot_limits(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "c,y\n");
    for (int i = 0; i < 1000; i++) {
        buf_printf(&b, "t%d,%d.5\n", i, i);
    }
    f->options.max_columns = 1001;
    f->options.max_unpacked_bytes = 1000 * 1001 * 8;
    accept_text(f, b.data);
    assert_int_equal(f->info.columns, 1001);
    f->options.max_columns = 1000;
    refuse_text(f, b.data, ERR_TOO_LARGE, "#/one_hot", "1001 columns, more than the limit of 1000");
    f->options.max_columns = 2000;
    f->options.max_unpacked_bytes--;
    refuse_text(f, b.data, ERR_TOO_LARGE, "#/one_hot", "8008000 bytes");
    buf_str(&b, "one more,1\n");
    refuse_text(f, b.data, ERR_TOO_LARGE, "#/line/1002/column/1", "more than 1000 distinct texts");
}

TEST_MAIN(INGEST_TEST(test_classes), INGEST_TEST(test_guessed_classes_warn),
          INGEST_TEST(test_text_refused), INGEST_TEST(test_one_hot),
          INGEST_TEST(test_text_below_numbers), INGEST_TEST(test_refused_numbers_among_texts),
          INGEST_TEST(test_texts_below_refused_numbers), INGEST_TEST(test_undecided_target),
          INGEST_TEST(test_late_text_limits), INGEST_TEST(test_doubtful_texts_warn),
          INGEST_TEST(test_one_hot_limits))
