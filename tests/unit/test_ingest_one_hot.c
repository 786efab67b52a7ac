/* Columns of text as 0/1 columns where there are very many of them. */
#include "ingest_fixture.h"

enum { WIDE = 60000, PREFIX = 240 };

static void add_line(struct buf *b, const char *cell, const char *last)
{
    for (int j = 0; j < WIDE; j++) {
        buf_printf(b, "%s,", cell);
    }
    buf_printf(b, "%s\n", last);
}

/* Names that agree for long in every column but the last, whose name is given. */
static void add_wide(struct buf *b, const char *last)
{
    char prefix[PREFIX + 1];
    memset(prefix, 'p', PREFIX);
    prefix[PREFIX] = '\0';
    for (int j = 0; j < WIDE; j++) {
        buf_printf(b, "%s%06d,", prefix, j);
    }
    buf_printf(b, "%s%s\n", last[0] == '=' ? prefix : "", last[0] == '=' ? "000000=b" : last);
    add_line(b, "a", "1.5");
    add_line(b, "a", "2.5");
}

/* Pairs of names that are looked at one by one take minutes. */
static void test_names_of_many_columns(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.max_columns = 65536;
    f->options.max_unpacked_bytes = (int64_t)64 << 20;
    cleanup_buf struct buf good = BUF_INIT;
    cleanup_buf struct buf bad = BUF_INIT;
    add_wide(&good, "y");
    accept_bytes(f, good.data, good.len);
    assert_int_equal(f->info.columns, WIDE + 1);
    assert_int_equal(f->info.target_columns[0], WIDE);
    add_wide(&bad, "=");
    refuse_bytes(f, bad.data, bad.len, ERR_INVALID, "#/one_hot", "is named as if one-hot");
}

/* "=" sorts behind many other bytes, and names may begin with whole other names. */
static void test_names_that_begin_as_others(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.ignored = (const char *const[]){"c=old"};
    f->options.ignored_count = 1;
    accept_text(f, "c=old,c,cc,c!,c<=,c>,y\n1,u,v,w,1,2,1.5\n2,v,v,u,2,3,3\n");
    assert_columns(f, "c=u,c=v,cc=v,c!=u,c!=w,c<=,c>,y");
    f->options.ignored_count = 0;
    refuse_text(f, "c!,c<=,cc,c>,c=,c,y\n1,1,1,1,1,u,1.5\n2,2,2,2,2,v,3\n", ERR_INVALID,
                "#/one_hot",
                "The column \"c=\" is named as if one-hot encoding had made it of the "
                "column \"c\"");
    refuse_text(f, "c!,c=u,c,c!=,y\nw,1,1,1,1.5\nv,2,2,2,3\n", ERR_INVALID, "#/one_hot", "\"c!=\"");
    accept_text(f, "c!,c=u,c,y\nw,1,1,1.5\nv,2,2,3\n");
}

/* Rows from `first` on whose texts come once each, in COLUMNS columns. */
enum { COLUMNS = 20 };

static void add_texts(struct buf *b, int first, int rows)
{
    for (int i = first; i < first + rows; i++) {
        for (int j = 0; j < COLUMNS; j++) {
            buf_printf(b, "t%d,", i);
        }
        buf_printf(b, "%d.5\n", i);
    }
}

static void add_header(struct buf *b)
{
    for (int j = 0; j < COLUMNS; j++) {
        buf_printf(b, "c%d,", j);
    }
    buf_str(b, "y\n");
}

/* The sum over all columns is refused at the text that is one too many, before what follows. */
static void test_texts_of_all_columns_are_limited(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.max_columns = 50 * COLUMNS + 1;
    cleanup_buf struct buf b = BUF_INIT;
    add_header(&b);
    add_texts(&b, 0, 50);
    add_texts(&b, 0, 50);
    accept_bytes(f, b.data, b.len);
    assert_int_equal(f->info.columns, 50 * COLUMNS + 1);
    f->options.max_columns--;
    refuse_bytes(f, b.data, b.len, ERR_TOO_LARGE, "#/one_hot", "makes 1001 columns, more than");
    add_texts(&b, 50, 1);
    buf_str(&b, "this row, is too short\n");
    refuse_bytes(f, b.data, b.len, ERR_TOO_LARGE, "#/line/102/column/1",
                 "Line 102, column 1 (\"c0\"): one-hot encoding makes more columns of the texts up "
                 "to here than the limit of 1000 (--max-columns).");
}

/* Texts of a target are classes, no columns. */
static void test_classes_do_not_count_as_columns(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.max_columns = 3;
    accept_text(f, "c,y\nu,k\nv,l\nu,m\nv,n\nu,o\n");
    assert_columns(f, "c=u,c=v,y");
    assert_int_equal(f->info.classes, 5);
}

TEST_MAIN(INGEST_TEST(test_names_of_many_columns), INGEST_TEST(test_names_that_begin_as_others),
          INGEST_TEST(test_texts_of_all_columns_are_limited),
          INGEST_TEST(test_classes_do_not_count_as_columns))
