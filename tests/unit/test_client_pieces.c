#include "client/pieces.h"

#include <string.h>

#include "support/assert.h"

static FILE *file_of(const char *text, size_t size)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    rewind(f);
    return f;
}

/* All pieces, each with a '|' behind it. */
static void expect(const char *text, const char *pieces, int64_t records)
{
    FILE *f = file_of(text, strlen(text));
    struct pieces p;
    struct buf piece = BUF_INIT, all = BUF_INIT;
    struct err err;
    int r;
    pieces_begin(&p, f);
    while ((r = pieces_next(&p, &piece, &err)) == 1) {
        buf_add(&all, piece.data, piece.len);
        buf_char(&all, '|');
    }
    assert_int_equal(r, 0);
    assert_string_equal(all.data ? all.data : "", pieces);
    assert_int_equal(p.records, records);
    buf_deinit(&piece);
    buf_deinit(&all);
    pieces_deinit(&p);
    fclose(f);
}

static void a_small_file_is_one_piece(void **state)
{
    (void)state;
    expect("a,b\n1,2\n3,4\n", "a,b\n1,2\n3,4\n|", 2);
    expect("1,2\n3,4\n", "1,2\n3,4\n|", 2);
    expect("1;-2e3\n", "1;-2e3\n|", 1);
}

static void the_last_line_needs_no_end(void **state)
{
    (void)state;
    expect("a,b\n1,2\n3,4", "a,b\n1,2\n3,4|", 2);
    expect("1", "1|", 1);
}

static void a_first_line_of_numbers_is_no_header(void **state)
{
    (void)state;
    expect("\"1\",\"2\"\n\"3\",\"4\"\n", "\"1\",\"2\"\n\"3\",\"4\"\n|", 2);
    expect("\"1\",2\n3,4\n", "\"1\",2\n3,4\n|", 2);
    expect("a,\"\n1\"\n1,2\n", "a,\"\n1\"\n1,2\n|", 1);
    expect("2010-01-01,1\n1,2\n", "2010-01-01,1\n1,2\n|", 1);
    expect("NA,\"?\",3\n,1,2\n", "NA,\"?\",3\n,1,2\n|", 2); /* missing values are no names */
    expect("NAN/A,3\n1,2\n", "NAN/A,3\n1,2\n|", 1);
}

static void lines_may_end_in_a_carriage_return(void **state)
{
    (void)state;
    expect("x0,x1\r1,2\r3,4\r", "x0,x1\r1,2\r3,4\r|", 2);
    expect("x0,x1\r\n1,2\r\n", "x0,x1\r\n1,2\r\n|", 1);
}

static void blank_lines_in_front_are_dropped(void **state)
{
    (void)state;
    expect("\n \r\nx0,x1\n1,2\n", "x0,x1\n1,2\n|", 1);
    expect("\n1,2\n3,4\n", "1,2\n3,4\n|", 2);
    expect("\n\n", "", 0);
}

static void nothing_gives_nothing(void **state)
{
    (void)state;
    expect("", "", 0);
    expect("a,b\n", "", 0);
}

static void a_byte_order_mark_is_dropped(void **state)
{
    (void)state;
    expect("\xEF\xBB\xBF"
           "1,2\n",
           "1,2\n|", 1);
    expect("\xEF\xBB\xBF"
           "a,b\n1,2\n",
           "a,b\n1,2\n|", 1);
    expect("\xEF\xBB\xBF\xEF\xBB\xBF"
           "a,b\n1,2\n",
           "a,b\n1,2\n|", 1);
}

/* Rows of a table that takes several pieces: every piece begins with the header and ends with a
 * whole row, and together they are the table. */
static void a_long_file_comes_in_whole_records(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, piece = BUF_INIT, rows = BUF_INIT;
    const char *header = "\"x\n1\",y\n";
    struct err err;
    struct pieces p;
    buf_str(&text, header);
    for (int i = 0; i < 200000; i++) {
        buf_printf(&text, i % 7 == 0 ? "\"%d\",0.5\n" : "%d,0.25\n", i);
    }
    FILE *f = file_of(text.data, text.len);
    int count = 0;
    pieces_begin(&p, f);
    while (pieces_next(&p, &piece, &err) == 1) {
        count++;
        assert_int_equal(strncmp(piece.data, header, strlen(header)), 0);
        assert_int_equal(piece.data[piece.len - 1], '\n');
        assert_true(piece.len < 2 * PIECE_BYTES);
        buf_add(&rows, piece.data + strlen(header), piece.len - strlen(header));
    }
    assert_true(count > 1);
    assert_int_equal(p.records, 200000);
    assert_string_equal(rows.data, text.data + strlen(header));
    pieces_deinit(&p);
    buf_deinit(&text);
    buf_deinit(&piece);
    buf_deinit(&rows);
    fclose(f);
}

static void a_quote_that_is_never_closed_is_found(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, piece = BUF_INIT;
    struct err err;
    struct pieces p;
    buf_str(&text, "a\n\"1\n");
    for (int i = 0; i < 20000; i++) {
        buf_printf(&text, "%08191d\n", 0);
    }
    FILE *f = file_of(text.data, text.len);
    pieces_begin(&p, f);
    assert_int_equal(pieces_next(&p, &piece, &err), -ERR_PARSE);
    pieces_deinit(&p);
    buf_deinit(&text);
    buf_deinit(&piece);
    fclose(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_file_is_one_piece),
        cmocka_unit_test(the_last_line_needs_no_end),
        cmocka_unit_test(a_first_line_of_numbers_is_no_header),
        cmocka_unit_test(lines_may_end_in_a_carriage_return),
        cmocka_unit_test(blank_lines_in_front_are_dropped),
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(a_byte_order_mark_is_dropped),
        cmocka_unit_test(a_long_file_comes_in_whole_records),
        cmocka_unit_test(a_quote_that_is_never_closed_is_found),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
