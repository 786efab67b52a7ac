#include "client/sse.h"

#include <string.h>

#include "support/assert.h"

struct seen {
    struct buf all; /* data of events, each with a '|' behind it */
    int left;       /* events to take before saying no; < 0: any number */
};

static bool take(void *context, const char *data, size_t size)
{
    struct seen *s = context;
    buf_add(&s->all, data, size);
    buf_char(&s->all, '|');
    return --s->left != 0;
}

/* The stream in pieces of each size from 1 to 9 bytes gives the same events. */
static void expect(const char *stream, const char *events, const char *id)
{
    for (size_t step = 1; step < 10; step++) {
        struct sse s = {.id = ""};
        struct seen seen = {.left = -1};
        for (size_t at = 0; at < strlen(stream); at += step) {
            const size_t rest = strlen(stream) - at;
            assert_true(sse_feed(&s, stream + at, rest < step ? rest : step, take, &seen));
        }
        assert_string_equal(seen.all.data ? seen.all.data : "", events);
        assert_string_equal(s.id, id);
        sse_deinit(&s);
        buf_deinit(&seen.all);
    }
}

static void events_come_whole_from_any_pieces(void **state)
{
    (void)state;
    expect("id: 1\nevent: status\ndata: {\"a\":1}\n\nid: 2\ndata: b\n\n", "{\"a\":1}|b|", "2");
}

static void all_line_ends_are_line_ends(void **state)
{
    (void)state;
    expect("id: 1\r\ndata: a\r\n\r\nid: 2\rdata: b\r\rdata:c\n\n", "a|b|c|", "2");
}

static void comments_and_unknown_fields_are_passed_over(void **state)
{
    (void)state;
    expect("retry: 2000\n\n: hello\n\ndatabase: x\ndata: a\n\n", "a|", "");
}

static void several_data_lines_are_one_text(void **state)
{
    (void)state;
    expect("data: a\ndata: b\n\n", "a\nb|", "");
}

static void an_event_that_was_cut_off_does_not_count(void **state)
{
    (void)state;
    struct sse s = {.id = ""};
    struct seen seen = {.left = -1};
    const char *first = "id: 1\ndata: a\n\nid: 2\ndata: lost";
    const char *again = "id: 2\ndata: b\n\n";
    assert_true(sse_feed(&s, first, strlen(first), take, &seen));
    assert_string_equal(s.id, "1");
    sse_restart(&s);
    assert_true(sse_feed(&s, again, strlen(again), take, &seen));
    assert_string_equal(seen.all.data, "a|b|");
    assert_string_equal(s.id, "2");
    sse_deinit(&s);
    buf_deinit(&seen.all);
}

static void who_takes_can_say_no(void **state)
{
    (void)state;
    struct sse s = {.id = ""};
    struct seen seen = {.left = 1};
    const char *stream = "data: a\n\ndata: b\n\n";
    assert_false(sse_feed(&s, stream, strlen(stream), take, &seen));
    assert_string_equal(seen.all.data, "a|");
    sse_deinit(&s);
    buf_deinit(&seen.all);
}

/* What a server sends without end must not fill the memory. */
static void no_event_is_endless(void **state)
{
    (void)state;
    static const char line[] = "data: 0123456789abcdef\n";
    struct sse s = {.id = ""};
    struct seen seen = {.left = -1};
    size_t fed = 0;
    while (fed < 8 * SSE_EVENT_MAX && sse_feed(&s, "x", 1, take, &seen)) {
        fed++;
    }
    assert_int_equal(fed, SSE_EVENT_MAX);
    sse_restart(&s);
    for (fed = 0; fed < 8 * SSE_EVENT_MAX && sse_feed(&s, line, strlen(line), take, &seen);) {
        fed += 16;
    }
    assert_in_range(fed, SSE_EVENT_MAX - 64 * 1024, SSE_EVENT_MAX);
    sse_deinit(&s);
    buf_deinit(&seen.all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_whole_from_any_pieces),
        cmocka_unit_test(all_line_ends_are_line_ends),
        cmocka_unit_test(comments_and_unknown_fields_are_passed_over),
        cmocka_unit_test(several_data_lines_are_one_text),
        cmocka_unit_test(an_event_that_was_cut_off_does_not_count),
        cmocka_unit_test(who_takes_can_say_no),
        cmocka_unit_test(no_event_is_endless),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
