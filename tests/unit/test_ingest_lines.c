#include "ingest/ingest_lines.h"

#include "ingest_fixture.h"

static int open_lines(struct fixture *f, struct ingest_lines *l, const void *data, size_t len)
{
    write_file(f->in, data, len);
    const int fd = open(f->in, O_RDONLY);
    assert_int_equal(ingest_lines_init(l, fd, &f->err), 0);
    return fd;
}

/* Every line in brackets with its number. */
static void check_lines(struct fixture *f, const char *text, const char *expected)
{
    struct ingest_lines l;
    const int fd = open_lines(f, &l, text, strlen(text));
    for (int round = 0; round < 2; round++) {
        cleanup_buf struct buf b = BUF_INIT;
        buf_str(&b, "");
        char *line = NULL;
        size_t len = 0;
        int r;
        while ((r = ingest_lines_next(&l, &line, &len, &f->err)) == 0) {
            assert_int_equal(strlen(line), len);
            buf_printf(&b, "%d[%s]", (int)l.line, line);
        }
        assert_int_equal(r, 1);
        assert_string_equal(b.data == NULL ? "" : b.data, expected);
        assert_int_equal(ingest_lines_rewind(&l, &f->err), 0);
    }
    ingest_lines_deinit(&l);
    close(fd);
}

static void test_line_ends(void **state)
{
    struct fixture *f = *state;
    check_lines(f, "", "");
    check_lines(f, "a", "1[a]");
    check_lines(f, "a\nb\n", "1[a\n]2[b\n]");
    check_lines(f, "a\r\nb\r\n\r\nc", "1[a\r\n]2[b\r\n]3[\r\n]4[c]");
    check_lines(f, "a\rb\rc\r", "1[a\r]2[b\r]3[c\r]");
    check_lines(f, "a\n\rb\r\r\nc", "1[a\n]2[\r]3[b\r]4[\r\n]5[c]");
}

/* Lines of all lengths around the buffer's size, CR LF split at its end included. */
static void test_long_lines(void **state)
{
    struct fixture *f = *state;
    for (int shift = -3; shift <= 3; shift++) {
        cleanup_buf struct buf b = BUF_INIT;
        const int first = (256 << 10) + shift;
        for (int i = 0; i < first; i++) {
            buf_char(&b, 'a');
        }
        buf_str(&b, "\r\nshort\r\n");
        for (int i = 0; i < 600000; i++) {
            buf_char(&b, 'b');
        }
        struct ingest_lines l;
        const int fd = open_lines(f, &l, b.data, b.len);
        char *line = NULL;
        size_t len = 0;
        assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), 0);
        assert_int_equal(len, first + 2);
        assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), 0);
        assert_string_equal(line, "short\r\n");
        assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), 0);
        assert_int_equal(len, 600000);
        assert_int_equal(line[len - 1], 'b');
        assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), 1);
        assert_int_equal(l.line, 3);
        ingest_lines_deinit(&l);
        close(fd);
    }
}

static void check_limit(struct fixture *f, size_t limit, size_t length, int expected)
{
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "x\n");
    for (size_t i = 0; i < length; i++) {
        buf_char(&b, 'a');
    }
    struct ingest_lines l;
    const int fd = open_lines(f, &l, b.data, b.len);
    l.limit = limit;
    char *line = NULL;
    size_t len = 0;
    assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), 0);
    assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), expected);
    assert_true(l.capacity <= 4 * limit + (1 << 20));
    ingest_lines_deinit(&l);
    close(fd);
}

static void test_limit(void **state)
{
    struct fixture *f = *state;
    check_limit(f, 1000, 1000, 0);
    check_limit(f, 1000, 1001, -ERR_TOO_LARGE);
    assert_string_equal(f->err.pointer, "#/line/2");
    assert_contains(f->err.detail, "Line 2: the line has more than 1000 bytes");
    check_limit(f, 300000, 3000000, -ERR_TOO_LARGE);
    assert_string_equal(f->err.pointer, "#/line/2");
}

static void test_nul(void **state)
{
    struct fixture *f = *state;
    struct ingest_lines l;
    const int fd = open_lines(f, &l, "a\nb\0c\n", 6);
    char *line = NULL;
    size_t len = 0;
    assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), 0);
    assert_int_equal(ingest_lines_next(&l, &line, &len, &f->err), -ERR_PARSE);
    assert_contains(f->err.detail, "Line 2: the line holds a NUL byte");
    ingest_lines_deinit(&l);
    close(fd);
}

TEST_MAIN(INGEST_TEST(test_line_ends), INGEST_TEST(test_long_lines), INGEST_TEST(test_limit),
          INGEST_TEST(test_nul))
