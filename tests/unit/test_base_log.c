#include "base/log.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "support/assert.h"

struct fixture {
    int fds[2];
    struct log log;
    char text[4096];
};

static int setup(void **state)
{
    struct fixture *f = mem_zalloc(sizeof(*f));
    *state = f;
    if (f == NULL || pipe(f->fds) < 0) {
        return -1;
    }
    f->log = (struct log){.fd = f->fds[1], .level = LOG_INFO, .program = "tester"};
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    close(f->fds[0]);
    close(f->fds[1]);
    mem_free(f);
    return 0;
}

/* The one line that was written, parsed. */
static struct json *read_line(struct fixture *f)
{
    const ssize_t n = read(f->fds[0], f->text, sizeof(f->text) - 1);
    assert_true(n > 0);
    f->text[n] = '\0';
    assert_ptr_equal(strchr(f->text, '\n'), f->text + n - 1);
    struct json *line = NULL;
    assert_int_equal(json_parse(f->text, (size_t)n, &line, NULL), 0);
    return line;
}

static void test_line(void **state)
{
    struct fixture *f = *state;
    log_msg(&f->log, LOG_WARNING, "job.started", "job", "job_1", "worker", "cpu:\"0\"\n", "who",
            (char *)NULL, NULL);
    cleanup_json struct json *line = read_line(f);
    assert_int_equal(json_size(line), 7);
    assert_string_equal(json_key(json_first(line)), "time");
    assert_int_equal(strlen(json_string(json_get(line, "time"))), 24);
    assert_string_equal(json_string(json_get(line, "level")), "warning");
    assert_string_equal(json_string(json_get(line, "program")), "tester");
    assert_string_equal(json_string(json_get(line, "event")), "job.started");
    assert_string_equal(json_string(json_get(line, "job")), "job_1");
    assert_string_equal(json_string(json_get(line, "worker")), "cpu:\"0\"\n");
    assert_int_equal(json_type(json_get(line, "who")), JSON_NULL);
}

static void test_levels_are_a_threshold(void **state)
{
    struct fixture *f = *state;
    log_msg(&f->log, LOG_DEBUG, "unseen", NULL);
    f->log.level = LOG_OFF;
    log_msg(&f->log, LOG_ERROR, "unseen", NULL);
    log_msg(&f->log, LOG_OFF, "unseen", NULL);
    f->log.level = LOG_DEBUG;
    log_msg(&f->log, LOG_DEBUG, "seen", NULL);
    cleanup_json struct json *line = read_line(f);
    assert_string_equal(json_string(json_get(line, "event")), "seen");
    assert_int_equal(json_size(line), 4);
}

static void test_out_of_memory_is_said(void **state)
{
    struct fixture *f = *state;
    mem_fail_nth(1);
    log_msg(&f->log, LOG_ERROR, "lost", NULL);
    cleanup_json struct json *line = read_line(f);
    assert_string_equal(json_string(json_get(line, "event")), "log.out_of_memory");
}

static void test_a_dead_descriptor_is_ignored(void **state)
{
    struct fixture *f = *state;
    struct log dead = {.fd = -1, .level = LOG_DEBUG, .program = "tester"};
    log_msg(&dead, LOG_ERROR, "nobody.listens", NULL);
    log_msg(&f->log, LOG_ERROR, "alive", NULL);
    cleanup_json struct json *line = read_line(f);
    assert_string_equal(json_string(json_get(line, "event")), "alive");
}

static void test_level_names(void **state)
{
    (void)state;
    static const char *const names[] = {"debug", "info", "warning", "error", "off"};
    enum log_level level = LOG_OFF;
    struct err err;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(log_level_parse(names[i], &level, &err), 0);
        assert_int_equal(level, i);
    }
    level = LOG_INFO;
    assert_int_equal(log_level_parse("Warning", &level, &err), -ERR_INVALID);
    assert_contains(err.detail, "\"Warning\"");
    assert_int_equal(log_level_parse("", &level, &err), -ERR_INVALID);
    assert_int_equal(log_level_parse(NULL, &level, &err), -ERR_INVALID);
    assert_int_equal(level, LOG_INFO);
}

TEST_MAIN(cmocka_unit_test_setup_teardown(test_line, setup, teardown),
          cmocka_unit_test_setup_teardown(test_levels_are_a_threshold, setup, teardown),
          cmocka_unit_test_setup_teardown(test_out_of_memory_is_said, setup, teardown),
          cmocka_unit_test_setup_teardown(test_a_dead_descriptor_is_ignored, setup, teardown),
          cmocka_unit_test(test_level_names))
