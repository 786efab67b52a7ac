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

static void test_last(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    add_job(f, "job_2");
    append(f, "job_1", "a");
    int64_t last = -1;
    OK(events_last(f->store, "job_1", &last, &f->err));
    assert_int_equal(last, 2);
    OK(events_last(f->store, "job_2", &last, &f->err));
    assert_int_equal(last, 1);
    FAILS(events_last(f->store, "job_9", &last, &f->err), ERR_NOT_FOUND, "no such job");
}

/* The ids of the job's events: "3 4 ". */
static void check_ids(struct fixture *f, const char *job, const char *expected)
{
    struct event_row *rows = NULL;
    int64_t n = 0;
    char text[256] = "";
    OK(events_list(f->store, job, 0, EVENTS_LIMIT_MAX, &rows, &n, &f->err));
    for (int64_t i = 0; i < n; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%d ", (int)rows[i].id);
    }
    events_list_free(rows, n);
    assert_string_equal(text, expected);
}

static int64_t sweep(struct fixture *f, int64_t since_ms, int64_t newest, int64_t limit)
{
    const struct events_kept kept = {.finished_since_ms = since_ms, .newest = newest};
    int64_t count = -1;
    OK(events_sweep(f->store, &kept, limit, &count, &f->err));
    return count;
}

/* Jobs 1 and 2 have finished, at 5000, with 6 and 4 events; job 3 runs, with 5. */
static void fill_three(struct fixture *f)
{
    static const int extra[] = {3, 1, 3};
    add_dataset(f, "ds_1");
    for (int i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof(id), "job_%d", i + 1);
        add_job(f, id);
        claim(f, id);
        for (int k = 0; k < extra[i]; k++) {
            append(f, id, "more");
        }
        if (i < 2) {
            OK(finish(f, id, JOB_SUCCEEDED, 0));
        }
    }
}

static void test_sweep_by_age(void **state)
{
    struct fixture *f = *state;
    fill_three(f);
    assert_int_equal(sweep(f, INT64_MIN, 0, 100), 0);
    assert_int_equal(sweep(f, 5000, 0, 100), 0);
    check_ids(f, "job_1", "1 2 3 4 5 6 ");
    assert_int_equal(sweep(f, 5001, 0, 7), 7); /* 5 of the first, 2 of the second */
    check_ids(f, "job_1", "6 ");
    check_ids(f, "job_2", "3 4 ");
    assert_int_equal(sweep(f, 5001, 0, 7), 1);
    assert_int_equal(sweep(f, 5001, 0, 7), 0);
    check_ids(f, "job_2", "4 ");
    check_ids(f, "job_3", "1 2 3 4 5 ");
    OK(finish(f, "job_3", JOB_SUCCEEDED, 0)); /* numbers go on */
    check_ids(f, "job_3", "1 2 3 4 5 6 ");
}

static void test_sweep_by_number(void **state)
{
    struct fixture *f = *state;
    fill_three(f);
    assert_int_equal(sweep(f, INT64_MIN, 6, 100), 0);
    assert_int_equal(sweep(f, INT64_MIN, 4, 1), 1);
    check_ids(f, "job_1", "2 3 4 5 6 ");
    assert_int_equal(sweep(f, INT64_MIN, 3, 100), 3);
    check_ids(f, "job_1", "4 5 6 ");
    check_ids(f, "job_2", "2 3 4 ");
    check_ids(f, "job_3", "1 2 3 4 5 ");
    assert_int_equal(sweep(f, INT64_MIN, 1, 100), 4);
    assert_int_equal(sweep(f, 9000, 1, 100), 0);
    check_ids(f, "job_2", "4 ");
    assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 0);
}

TEST_MAIN(STORE_TEST(test_sweep_by_age), STORE_TEST(test_sweep_by_number),
          STORE_TEST(test_numbers_within_each_job), STORE_TEST(test_refusals),
          STORE_TEST(test_list_bounds), STORE_TEST(test_last))
