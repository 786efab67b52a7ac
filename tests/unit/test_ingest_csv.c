/* Tables as text: their header, syntax, numbers, names and limits. */
#include "ingest_fixture.h"

static void test_header_and_numbers(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "age, height ,y\n1,2.5,-3e2\n.5,+7,8.25\n");
    assert_columns(f, "age,height,y");
    assert_values(f, 1, 2.5, -300, 0.5, 7, 8.25);
    assert_int_equal(f->info.dtype, DTYPE_F64);
    assert_int_equal(f->info.task, TASK_REGRESSION);
    assert_int_equal(f->info.targets, 1);
    assert_int_equal(f->info.target_columns[0], 2);
    assert_int_equal(f->info.warnings, 0);
}

static void test_no_header(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "1,2\n3,4.5\n5,6");
    assert_columns(f, "column0,column1");
    assert_values(f, 1, 2, 3, 4.5, 5, 6);
    accept_text(f, "1,red\n2,blue\n3,red\n");
    assert_columns(f, "column0,column1");
    assert_values(f, 1, 1, 2, 0, 3, 1);
    assert_classes(f, "blue,red");
}

/* Names that are numbers, an empty name, a text target below a name, a header above text only. */
static void test_header_rule(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "2010,2011,y\n1,2,3.5\n4,5,6\n");
    assert_columns(f, "2010,2011,y");
    accept_text(f, ",a,,y\n1,2,3,4.5\n5,6,7,8\n");
    assert_columns(f, "column0,a,column2,y");
    accept_text(f, "a,y\n1,red\n2,blue\n");
    assert_columns(f, "a,y");
    assert_classes(f, "blue,red");
    accept_text(f, "0,1,1e3,y\n1,2,3,4.5\n5,6,7,8\n");
    assert_int_equal(f->info.warnings, 0);
    accept_text(f, "1,NA,2.5\n4,5,6\n7,8,9.5\n");
    assert_columns(f, "1,NA,2.5");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "names of the columns, \"2.5\" among them");
    f->options.one_hot = true;
    accept_text(f, "a,y\nu,red\nv,blue\n");
    assert_columns(f, "a=u,a=v,y");
}

/* Text alone: names and values look alike. */
static void test_doubtful_header_warns(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    accept_text(f, "Paris,a\nRome,b\nOslo,a\n");
    assert_columns(f, "Paris=Oslo,Paris=Rome,a");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0],
                    "names of the columns, though \"a\" is a value of its own column, too. If it "
                    "holds data, give the table a header, or upload it with header=absent.");
    accept_text(f, "city,kind\nRome,b\nOslo,a\n");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "nothing tells.");
    f->options.header = INGEST_HEADER_PRESENT;
    accept_text(f, "Paris,a\nRome,b\nOslo,a\n");
    assert_int_equal(f->info.warnings, 0);
    f->options.header = INGEST_HEADER_AUTO;
    accept_text(f, "city,kind\nRome,b\nOslo,a\nRome,b\nOslo,a\nRome,b\nOslo,a\nRome,b\n"
                   "Oslo,a\nRome,b\nOslo,a\n");
    assert_int_equal(f->info.warnings, 0);
}

static void test_syntax(void **state)
{
    struct fixture *f = *state;
    /* Byte order mark, CR LF, blank lines, quotes, blanks, no end of line at the end. */
    accept_text(f, "\xef\xbb\xbf\"a\"\"x\",\"b,c\",y\r\n\r\n \t\r\n 1 ,\"2\",\" 3.5 \"\r\n4\t,5,6");
    assert_columns(f, "a\"x,b,c,y");
    assert_values(f, 1, 2, 3.5, 4, 5, 6);
    accept_text(f, "\xef\xbb\xbf\xef\xbb\xbfx,y\n1,2.5\n3,4\n");
    assert_columns(f, "x,y");
    assert_int_equal(f->info.warnings, 0);
    accept_text(f, "a,y\r1,2.5\r3,4\r");
    assert_values(f, 1, 2.5, 3, 4);
    accept_text(f, "\"a\nb\",y\n1,2.5\n3,4\n");
    assert_columns(f, "a\nb,y");
}

static void test_delimiters(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a;b;y\n1;2;3.5\n4;5;6\n");
    assert_columns(f, "a,b,y");
    assert_values(f, 1, 2, 3.5, 4, 5, 6);
    accept_text(f, "\"a,;x\"\tb\ty\n1\t 2\t3.5\n4\t5\t6\n");
    assert_columns(f, "a,;x,b,y");
    accept_text(f, "\"a,\n\nx\";b;y\n1; 2;3.5\n4;5;6\n");
    assert_columns(f, "a,\n\nx,b,y");
    refuse_text(f, "a\tb\ty\n1\t\t3\n4\t5\t6\n", ERR_INVALID, "#/line/2/column/2", "empty");
    refuse_text(f, "a;y\n1;2,5\n3;4,5\n", ERR_INVALID, "#/line/2/column/2",
                "\"2,5\" has a decimal comma");
    refuse_text(f, "a b y\n1 2 3\n4 5 6\n", ERR_INVALID, "#/target",
                "The one column is \"a b y\": the cells of a line are parted by commas");
    refuse_text(f, "a|b|y\n1|2|3\n4|5|6\n", ERR_INVALID, "#/target", "parted by commas");
    refuse_text(f, "a\n1\n4\n", ERR_INVALID, "#/target", "no column to predict from.");
}

static void test_bad_numbers(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "age,y\n1,2\n3,4\nx1,6\n", ERR_INVALID, "#/line/4/column/1",
                "Line 4, column 1 (\"age\"): \"x1\" is not a number; ignore=COLUMN (krr: ");
    refuse_text(f, "1,2\n3,4\n5,x\n", ERR_INVALID, "#/line/3/column/2",
                "Line 3, column 2 (\"column1\", counted from 0): \"x\" is not a number, unlike");
    refuse_text(f, "a,y\n1,2\nnan,3\n", ERR_INVALID, "#/line/3/column/1",
                "\"nan\" is not a finite number");
    refuse_text(f, "a,y\nNaN,2\n1,3\n", ERR_INVALID, "#/line/2/column/1", "not a finite number");
    refuse_text(f, "a,y\n1,-inf\n1,3\n", ERR_INVALID, "#/line/2/column/2", "not a finite number");
    refuse_text(f, "a,y\n1,2\n1,1e999\n", ERR_INVALID, "#/line/3/column/2",
                "\"1e999\" is not a finite number");
    refuse_text(f, "a,y\n1,2\n0x10,3\n", ERR_INVALID, "#/line/3/column/1", "is hexadecimal");
    refuse_text(f, "a,y\n1,2\n1\x01\xff,3\n", ERR_INVALID, "#/line/3/column/1",
                "\"1\\x01\\xff\" is not a number");
    refuse_text(f, "a,y\n1,2\n,3\n", ERR_INVALID, "#/line/3/column/1",
                "Line 3, column 1 (\"a\"): the cell is empty");
    refuse_text(f, "a,y\n1,2\n3,\"\"\n", ERR_INVALID, "#/line/3/column/2", "the cell is empty");
    refuse_text(f, "a,y\n1,2\n3,  \n", ERR_INVALID, "#/line/3/column/2", "the cell is empty");
}

/* Physical lines count: blank ones, and those within quotes. The cell's own line is named. */
static void test_line_numbers(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "\"a\nb\",y\n\n1,2\n\n\nx,3\n", ERR_INVALID, "#/line/7/column/1", "Line 7");
    refuse_text(f, "a,b,y\n1,2,3\n\"1\n\",x,3\n", ERR_INVALID, "#/line/4/column/2",
                "Line 4, column 2");
    refuse_text(f, "a,b,y\n1,2,3\n\"1\n\",3\n", ERR_INVALID, "#/line/3", "Line 3: 2 cells");
    refuse_text(f, "a,y\r\n1,2\r\nx,3\r\n", ERR_INVALID, "#/line/3/column/1", "Line 3");
}

static void test_ragged(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "\na,b,y\n1,2,3\n4,5,6\n7,8\n", ERR_INVALID, "#/line/5",
                "Line 5: 2 cells, expected 3 as in line 2.");
    refuse_text(f, "1,2,3\n4,5,6\n7,8,9,\n", ERR_INVALID, "#/line/3",
                "Line 3: 4 cells, expected 3 as in line 1.");
    refuse_text(f, "a,b,y\n1,2\n", ERR_INVALID, "#/line/2", "2 cells, expected 3");
    /* The number of cells goes before what is in them. */
    refuse_text(f, "a,b,y\n1,2,3\nx\n", ERR_INVALID, "#/line/3", "1 cells, expected 3");
    refuse_text(f, "a,b,y\n1,2,3\n4,x,6,7", ERR_INVALID, "#/line/3", "4 cells, expected 3");
}

static void test_quotes(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "a,y\n1,2\n5\",3\n", ERR_PARSE, "#/line/3", "Line 3: a quotation mark");
    refuse_text(f, "a,y\n1,2\n\"5\"6,3\n", ERR_PARSE, "#/line/3", "a quotation mark");
    refuse_text(f, "a,y\n1,2\n3,\"4\n5,6\n7,8\n", ERR_PARSE, "#/line/3",
                "Line 3: the quoted cell that begins here is never closed");
}

static void test_too_short(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "", ERR_INVALID, "#", "The file is empty.");
    refuse_text(f, "\n \n\n", ERR_INVALID, "#/rows", "no data rows");
    refuse_text(f, "\xef\xbb\xbf", ERR_INVALID, "#/rows", "no data rows");
    refuse_text(f, "a,b\n", ERR_INVALID, "#/rows", "no data rows");
    refuse_text(f, "1,2\n", ERR_INVALID, "#/rows", "at least two rows");
    refuse_text(f, "a,b\n1,2\n", ERR_INVALID, "#/rows", "at least two rows");
    refuse_text(f, "1,red\n", ERR_INVALID, "#/rows", "at least two rows");
}

/* What programs of spreadsheets write, and what to do about it. */
static void test_spreadsheets(void **state)
{
    struct fixture *f = *state;
    refuse_bytes(f,
                 "\xff\xfe"
                 "a\0,\0y\0\n\0",
                 10, ERR_PARSE, "#/line/1",
                 "byte order mark of UTF-16; tables of text are in UTF-8");
    refuse_bytes(f, "\xfe\xff\0a\0,\0y\0\n", 10, ERR_PARSE, "#/line/1", "iconv -f UTF-16 -t UTF-8");
    refuse_text(f, "sep=;\na;y\n1;2\n3;4\n", ERR_INVALID, "#/line/1",
                "Line 1: \"sep=;\" tells Excel what parts the cells.");
    refuse_text(f, "\xef\xbb\xbfSEP=,\r\na,y\r\n1,2\r\n", ERR_INVALID, "#/line/1", "leave it out");
    accept_text(f, "sep=a,y\n1,2\n3,4\n"); /* a name */
    assert_columns(f, "sep=a,y");
}

static void test_names(void **state)
{
    struct fixture *f = *state;
    refuse_text(f, "a,b,a,y\n1,2,3,4\n5,6,7,8\n", ERR_INVALID, "#/line/1/column/3",
                "Line 1, column 3: column 1 has the name \"a\" as well.");
    refuse_text(f, "column1,,y\n1,2,3\n5,6,7\n", ERR_INVALID, "#/line/1/column/2", "\"column1\"");
    refuse_text(f, "a\xff,y\n1,2\n3,4\n", ERR_INVALID, "#/line/1/column/1", "is not UTF-8");
    cleanup_buf struct buf b = BUF_INIT;
    for (int i = 0; i < 256; i++) {
        buf_char(&b, 'n');
    }
    const size_t fits = b.len;
    buf_str(&b, ",y\n1,2\n3,4\n");
    accept_text(f, b.data);
    assert_int_equal(strlen(f->info.column_names[0]), fits);
    cleanup_buf struct buf longer = BUF_INIT;
    buf_printf(&longer, "n%s", b.data);
    refuse_text(f, longer.data, ERR_INVALID, "#/line/1/column/1", "longer than 256 bytes");
}

static void test_targets(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "a,b,0\n1,2,3.5\n4,5,6\n";
    f->options.targets = (const char *const[]){"a"};
    f->options.target_count = 1;
    accept_text(f, text);
    assert_int_equal(f->info.target_columns[0], 0);
    f->options.targets = (const char *const[]){"1"};
    accept_text(f, text);
    assert_int_equal(f->info.target_columns[0], 1);
    f->options.targets = (const char *const[]){"0"}; /* a name goes before an index */
    accept_text(f, text);
    assert_int_equal(f->info.target_columns[0], 2);
    f->options.targets = (const char *const[]){"b", "a"};
    f->options.target_count = 2;
    accept_text(f, text);
    assert_int_equal(f->info.targets, 2);
    assert_int_equal(f->info.target_columns[0], 1);
    assert_int_equal(f->info.target_columns[1], 0);
    f->options.targets = (const char *const[]){"a", "a"};
    refuse_text(f, text, ERR_INVALID, "#/target", "The column \"a\" is given twice");
    f->options.targets = (const char *const[]){"a", "zz"};
    refuse_text(f, text, ERR_INVALID, "#/target",
                "There is no column \"zz\". The columns are \"a\", \"b\", \"0\".");
    f->options.targets = (const char *const[]){"a", "b", "0"};
    f->options.target_count = 3;
    refuse_text(f, text, ERR_INVALID, "#/target", "leave no column");
}

/* Not more than ten names are listed, and fewer where they are long. */
static void test_unknown_target_is_short(void **state)
{
    struct fixture *f = *state;
    static const char *const wanted[] = {"3", "-1", "1.0", "", "99999999999999999999"};
    f->options.target_count = 1;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        f->options.targets = &wanted[i];
        refuse_text(f, "a,b,y\n1,2,3\n4,5,6\n", ERR_INVALID, "#/target", "There is no column");
    }
    cleanup_buf struct buf b = BUF_INIT;
    for (int i = 0; i < 12; i++) {
        buf_printf(&b, "%sc%d", i == 0 ? "" : ",", i);
    }
    buf_str(&b, "\n1,2,3,4,5,6,7,8,9,10,11,12\n1,2,3,4,5,6,7,8,9,10,11,12\n");
    refuse_text(f, b.data, ERR_INVALID, "#/target", "\"c9\", \xe2\x80\xa6.");
}

/* What is left out may hold anything, and the rest is as if it had never been there. */
static void test_ignored(void **state)
{
    struct fixture *f = *state;
    f->options.ignored = (const char *const[]){"when", "1"};
    f->options.ignored_count = 2;
    accept_text(f, "a,name,y,when\n1,red,2.5,2020-01-01\n2,,3.5,\n3,7,4.5,\xff\n");
    assert_columns(f, "a,y");
    assert_int_equal(f->info.target_columns[0], 1);
    assert_values(f, 1, 2.5, 2, 3.5, 3, 4.5);
    f->options.one_hot = true;
    accept_text(f, "when,name,color,y\nx,1,red,yes\ny,2,blue,no\n,,red,no\n");
    assert_columns(f, "color=blue,color=red,y");
    assert_values(f, 0, 1, 1, 1, 0, 0, 0, 1, 0);
    refuse_text(f, "a,b,y\n1,2,3\n2,3,4\n", ERR_INVALID, "#/ignore", "There is no column \"when\"");
    refuse_text(f, "when,b,y\n1,2,3\n2,3,4\n", ERR_INVALID, "#/target", "1 column(s)");
    refuse_text(f, "a,b,y,when\n1,x,3\n2,3,4\n", ERR_INVALID, "#/line/2", "3 cells");
    f->options.targets = (const char *const[]){"when"};
    f->options.target_count = 1;
    refuse_text(f, "a,b,y,when\n1,2,3,4\n2,3,4,5\n", ERR_INVALID, "#/target",
                "\"when\" is to be ignored and is a target");
}

static void test_limits(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "a,b,y\n1,2,3.5\n4,5,6\n7,8,9\n";
    f->options.max_rows = 3;
    f->options.max_columns = 3;
    accept_text(f, text);
    f->options.max_rows = 2;
    refuse_text(f, text, ERR_TOO_LARGE, "", "more than the limit of 2 rows");
    f->options.max_rows = 3;
    f->options.max_columns = 2;
    refuse_text(f, text, ERR_TOO_LARGE, "#/line/1", "limit of 2 columns");
}

static void test_constant_target(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1,3.5\n2,3.5\n3,3.5\n");
    assert_int_equal(f->info.task, TASK_REGRESSION);
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "The target \"y\" is constant: it is 3.5");
    f->options.targets = (const char *const[]){"a", "b"};
    f->options.target_count = 2;
    accept_text(f, "a,b,y\n1,3,1\n2,3,2\n2,3,5\n4,3,2");
    assert_int_equal(f->info.warnings, 1);
    assert_contains(f->info.warning_texts[0], "\"b\" is constant: it is 3 ");
}

static void test_odd_bytes(void **state)
{
    struct fixture *f = *state;
    refuse_bytes(f, "a,y\n1,2\n3\0,4\n", 14, ERR_PARSE, "#/line/3", "Line 3: the line holds a NUL");
    refuse_bytes(f, "\xff\xfe\x61\0,\0y\0\n\0", 10, ERR_PARSE, "#/line/1", "UTF-8");
}

/* Labels and warnings that outgrow the room in front of the rows. */
static void test_large_header(void **state)
{
    struct fixture *f = *state;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "a,y\n");
    for (int i = 0; i < 200; i++) {
        buf_printf(&b, "%d,%0200d-\n", i, i);
    }
    accept_text(f, b.data);
    assert_int_equal(f->info.classes, 200);
    assert_same_bits(dataset_at(f->data, 123, 0), 123);
    assert_same_bits(dataset_at(f->data, 123, 1), 123);
}

/* Many rows: several flushes of every buffer, columns of all kinds. */
static void test_many_rows(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.max_unpacked_bytes = INT64_C(1) << 30;
    static const char *const colors[] = {"red", "green", "blue"};
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "n,color,half,y\n");
    const int rows = 60000;
    for (int i = 0; i < rows; i++) {
        buf_printf(&b, "%d,%s,%.1f,%d\n", i, colors[i % 3], i / 2.0, i % 7 * i);
    }
    accept_bytes(f, b.data, b.len);
    assert_columns(f, "n,color=blue,color=green,color=red,half,y");
    for (int i = 0; i < rows; i++) {
        assert_same_bits(dataset_at(f->data, i, 0), i);
        assert_same_bits(dataset_at(f->data, i, 3 - i % 3), 1);
        assert_same_bits(dataset_at(f->data, i, 1 + i % 3), i % 3 == 1 ? 1 : 0);
        assert_same_bits(dataset_at(f->data, i, 4), i / 2.0);
        assert_same_bits(dataset_at(f->data, i, 5), i % 7 * i);
    }
}

TEST_MAIN(INGEST_TEST(test_header_and_numbers), INGEST_TEST(test_no_header),
          INGEST_TEST(test_header_rule), INGEST_TEST(test_doubtful_header_warns),
          INGEST_TEST(test_syntax), INGEST_TEST(test_delimiters), INGEST_TEST(test_bad_numbers),
          INGEST_TEST(test_line_numbers), INGEST_TEST(test_ragged), INGEST_TEST(test_quotes),
          INGEST_TEST(test_too_short), INGEST_TEST(test_spreadsheets), INGEST_TEST(test_names),
          INGEST_TEST(test_targets), INGEST_TEST(test_unknown_target_is_short),
          INGEST_TEST(test_ignored), INGEST_TEST(test_limits), INGEST_TEST(test_constant_target),
          INGEST_TEST(test_odd_bytes), INGEST_TEST(test_large_header), INGEST_TEST(test_many_rows))
