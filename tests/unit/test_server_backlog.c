/* What waits for the store: in order, within its limit. */
#include <string.h>

#include "base/mem.h"
#include "server/jobs/backlog.h"
#include "support/assert.h"

static void test_order_and_limit(void **state)
{
    (void)state;
    struct backlog b = {.first = NULL};
    struct err err;
    struct json *event = json_new_object();
    json_set_string(event, "message", "first");
    assert_int_equal(backlog_add_event(&b, event, 7, &err), 0);
    assert_int_equal(backlog_add_piece(&b, "abc", 3, &err), 0);
    assert_int_equal(backlog_add_event(&b, event, 8, &err), 0);
    json_free(event); /* copied */
    assert_int_equal(b.bytes, 2 * BACKLOG_EVENT_BYTES + 3);
    assert_string_equal(json_string(json_get(b.first->event, "message")), "first");
    assert_int_equal(b.first->wall_ms, 7);
    backlog_drop_first(&b);
    assert_null(b.first->event);
    assert_memory_equal(b.first->piece, "abc", 3);
    char *large = mem_alloc(BACKLOG_MAX);
    memset(large, 0, BACKLOG_MAX);
    assert_int_equal(backlog_add_piece(&b, large, BACKLOG_MAX, &err), -ERR_TOO_LARGE);
    assert_int_equal(backlog_add_piece(&b, large, BACKLOG_MAX - 3 - BACKLOG_EVENT_BYTES, &err), 0);
    assert_int_equal(backlog_add_piece(&b, large, 1, &err), -ERR_TOO_LARGE);
    mem_free(large);
    backlog_drop_pieces(&b);
    assert_int_equal(b.bytes, BACKLOG_EVENT_BYTES);
    assert_true(b.first == b.last && b.first->wall_ms == 8);
    struct backlog taken = {.first = NULL};
    backlog_put_back(&b, &taken);
    backlog_move_first(&b, &taken);
    assert_true(!b.first && !b.last && b.bytes == 0);
    assert_int_equal(backlog_add_piece(&b, "d", 1, &err), 0);
    backlog_put_back(&b, &taken);
    assert_true(!taken.first && !taken.last && taken.bytes == 0);
    assert_int_equal(b.bytes, BACKLOG_EVENT_BYTES + 1);
    assert_true(b.first->wall_ms == 8 && b.first->next == b.last && b.last->piece);
    backlog_move_first(&b, &taken);
    backlog_move_first(&b, &taken);
    backlog_put_back(&b, &taken);
    backlog_drop_first(&b);
    backlog_drop_first(&b);
    assert_true(!b.first && !b.last && b.bytes == 0);
    assert_int_equal(backlog_add_piece(&b, "d", 1, &err), 0);
    backlog_deinit(&b);
}

static void test_lack_of_memory(void **state)
{
    (void)state;
    struct backlog b = {.first = NULL};
    struct err err;
    struct json *event = json_new_object();
    for (int n = 1; n <= 2; n++) {
        mem_fail_nth(n);
        assert_int_equal(backlog_add_piece(&b, "abc", 3, &err), -ERR_NO_MEMORY);
        mem_fail_nth(n);
        assert_int_equal(backlog_add_event(&b, event, 0, &err), -ERR_NO_MEMORY);
    }
    mem_fail_nth(0);
    assert_true(!b.first && b.bytes == 0);
    json_free(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_limit),
        cmocka_unit_test(test_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
