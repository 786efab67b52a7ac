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

TEST_MAIN(INGEST_TEST(test_names_of_many_columns), INGEST_TEST(test_names_that_begin_as_others))
