#include "store/events.h"

#include "unit/store_fixture.h"

static int64_t append(struct fixture *f, const char *job, const char *message)
{
    const struct event_new event = {
        .level = "warning", .type = "message", .message = message, .data = "{\"a\":1}"};
    int64_t id = -1;
    OK(events_append(f->store, job, &event, 4000, &id, &f->err));
    return id;
}

/* Each job counts by itself, whatever comes between. */
static void test_numbers_within_each_job(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    add_job(f, "job_2");
    assert_int_equal(append(f, "job_1", "a"), 2);
    assert_int_equal(append(f, "job_2", "b"), 2);
    assert_int_equal(append(f, "job_1", "c"), 3);
    check_gapless(f, "job_1", 3);
    check_gapless(f, "job_2", 2);

    struct event_row *rows;
    int64_t count;
    OK(events_list(f->store, "job_1", 2, 10, &rows, &count, &f->err));
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].id, 3);
    assert_string_equal(rows[0].job, "job_1");
    assert_int_equal(rows[0].created_ms, 4000);
    assert_string_equal(rows[0].level, "warning");
    assert_string_equal(rows[0].type, "message");
    assert_string_equal(rows[0].message, "c");
    assert_string_equal(rows[0].data, "{\"a\":1}");
    events_list_free(rows, count);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    struct event_new event = {.level = "info", .type = "message", .message = "x"};
    int64_t id = -7;
    FAILS(events_append(f->store, "job_9", &event, 1, &id, &f->err), ERR_NOT_FOUND, "no such job");
    event.level = "loud";
    FAILS(events_append(f->store, "job_1", &event, 1, &id, &f->err), ERR_INVALID, "accepts");
    event.level = "error";
    event.type = "rumour";
    FAILS(events_append(f->store, "job_1", &event, 1, &id, &f->err), ERR_INVALID, "accepts");
    event.type = "message";
    event.message = NULL;
    FAILS(events_append(f->store, "job_1", &event, 1, &id, &f->err), ERR_INVALID, "accepts");
    assert_int_equal(id, -7);
    event.message = "y";
    OK(events_append(f->store, "job_1", &event, 1, NULL, &f->err));
    check_gapless(f, "job_1", 2); /* a refused event takes no number */
}

static void test_list_bounds(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    for (int i = 0; i < 40; i++) {
        append(f, "job_1", "tick");
    }
    struct event_row *rows = NULL;
    int64_t count = -1;
    OK(events_list(f->store, "job_1", 0, 41, &rows, &count, &f->err));
    assert_int_equal(count, 41);
    assert_string_equal(rows[0].type, "status");
    events_list_free(rows, count);
    OK(events_list(f->store, "job_1", 10, 7, &rows, &count, &f->err));
    assert_int_equal(count, 7);
    assert_int_equal(rows[0].id, 11);
    assert_int_equal(rows[6].id, 17);
    events_list_free(rows, count);
    OK(events_list(f->store, "job_1", 41, 7, &rows, &count, &f->err));
    assert_int_equal(count, 0);
    events_list_free(rows, count);
    OK(events_list(f->store, "job_1", -5, 1, &rows, &count, &f->err));
    assert_int_equal(rows[0].id, 1);
    events_list_free(rows, count);
    FAILS(events_list(f->store, "job_1", 0, 0, &rows, &count, &f->err), ERR_INVALID, "limit");
    FAILS(events_list(f->store, "job_1", 0, EVENTS_LIMIT_MAX + 1, &rows, &count, &f->err),
          ERR_INVALID, "limit");
    FAILS(events_list(f->store, "job_9", 0, 1, &rows, &count, &f->err), ERR_NOT_FOUND,
          "no such job");
}

TEST_MAIN(STORE_TEST(test_numbers_within_each_job), STORE_TEST(test_refusals),
          STORE_TEST(test_list_bounds))
