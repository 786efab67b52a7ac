/* The end of what a worker wrote, and that all of it is passed on. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/pool/tail.h"
#include "support/assert.h"

struct place {
    struct tail tail;
    FILE *log;
};

static int setup(void **state)
{
    struct place *p = mem_zalloc(sizeof *p);
    p->log = tmpfile();
    *state = p;
    return p->log ? 0 : -1;
}

static int teardown(void **state)
{
    struct place *p = *state;
    fclose(p->log);
    mem_free(p);
    return 0;
}

static void add(struct place *p, const char *text)
{
    tail_add(&p->tail, text, strlen(text), fileno(p->log));
}

static void check_log(struct place *p, const char *expected)
{
    char text[256] = "";
    const ssize_t n = pread(fileno(p->log), text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static void check_lines(const struct place *p, const char *expected)
{
    cleanup_json struct json *lines = json_new_array();
    tail_lines(&p->tail, lines);
    cleanup_mem char *text = json_print(lines);
    assert_string_equal(text, expected);
}

static void test_lines_are_passed_on_whole(void **state)
{
    struct place *p = *state;
    check_lines(p, "[]");
    add(p, "one\ntw");
    check_log(p, "one\n");
    add(p, "o\n\nthree");
    check_log(p, "one\ntwo\n\n");
    tail_end(&p->tail, fileno(p->log));
    tail_end(&p->tail, fileno(p->log));
    check_log(p, "one\ntwo\n\nthree\n");
    check_lines(p, "[\"one\",\"two\",\"three\"]");
}

static void test_only_printable_characters_are_told(void **state)
{
    struct place *p = *state;
    add(p, "a\x1b[1m\xc3\xa4\t\"b\"\n");
    check_log(p, "a\x1b[1m\xc3\xa4\t\"b\"\n");
    check_lines(p, "[\"a?[1m???\\\"b\\\"\"]");
}

static const char *first(const struct json *lines)
{
    return json_string(json_first(lines));
}

static const char *last(const struct json *lines)
{
    const struct json *line = json_first(lines);
    while (json_next(line)) {
        line = json_next(line);
    }
    return json_string(line);
}

/* More than is kept: all of it is in the log, the last lines are told. */
static void test_a_flood(void **state)
{
    struct place *p = *state;
    for (int i = 0; i < 5000; i++) {
        char line[32];
        snprintf(line, sizeof line, "line %d\n", i);
        add(p, line);
    }
    cleanup_json struct json *lines = json_new_array();
    tail_lines(&p->tail, lines);
    assert_int_equal(json_size(lines), TAIL_LINES);
    assert_string_equal(first(lines), "line 4980");
    assert_string_equal(last(lines), "line 4999");
    rewind(p->log);
    for (int i = 0; i < 5000; i++) {
        int number;
        assert_int_equal(fscanf(p->log, "line %d\n", &number), 1);
        assert_int_equal(number, i);
    }
    assert_int_equal(fgetc(p->log), EOF);
}

static void test_a_line_without_an_end(void **state)
{
    struct place *p = *state;
    enum { SIZE = 3 * TAIL_BYTES + 17 };
    char *text = mem_zalloc(SIZE + 1);
    memset(text, 'x', SIZE);
    add(p, text);
    tail_end(&p->tail, fileno(p->log));
    assert_int_equal(lseek(fileno(p->log), 0, SEEK_END), SIZE + 1);
    cleanup_json struct json *lines = json_new_array();
    tail_lines(&p->tail, lines);
    assert_int_equal(json_size(lines), 1);
    assert_int_equal(strlen(first(lines)), TAIL_LINE_BYTES);
    mem_free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_are_passed_on_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_printable_characters_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_without_an_end, setup, teardown),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
