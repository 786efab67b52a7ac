/* The outbox: what a job's end puts into it, what is due, and what attempts make of it. */
#include "store/webhooks.h"

#include "base/json.h"
#include "unit/store_fixture.h"

#define SPEC_TO(url, events)                                                                       \
    "{\"metadata\":{\"team\":\"blue\"},\"webhook\":{\"url\":\"" url "\",\"events\":[" events "]}}"
#define SPEC(events) SPEC_TO("https://example.org/x", events)
static const char every_end[] = SPEC("\"succeeded\",\"failed\",\"cancelled\"");

static void add_with(struct fixture *f, const char *id, const char *spec)
{
    struct job_row row = {.model = (char[]){"m"},
                          .dataset = "ds_1",
                          .spec = (char *)(uintptr_t)spec, /* read only */
                          .max_attempts = 3};
    snprintf(row.id, sizeof(row.id), "%s", id);
    OK(jobs_insert(f->store, &row, NULL, 2000, &f->err));
}

/* Ends the queued job at that time; its message, which there must be. */
static struct webhook_row cancelled_with(struct fixture *f, const char *id, const char *spec,
                                         int64_t now_ms)
{
    struct webhook_row row;
    enum job_status status;
    add_with(f, id, spec);
    OK(jobs_cancel(f->store, id, now_ms, &status, &f->err));
    assert_int_equal(webhooks_of_job(f->store, id, &row, &f->err), 1);
    return row;
}

static struct webhook_row cancelled(struct fixture *f, const char *id, int64_t now_ms)
{
    return cancelled_with(f, id, every_end, now_ms);
}

static bool has_message(struct fixture *f, const char *id)
{
    struct webhook_row row;
    const int rc = webhooks_of_job(f->store, id, &row, &f->err);
    OK(rc);
    if (rc == 1) {
        webhook_row_deinit(&row);
    }
    return rc == 1;
}

/* The job that is due; "": none. */
static const char *due_but(struct fixture *f, int64_t now_ms, struct webhooks_busy busy,
                           char ret[ID_SIZE])
{
    struct webhook_row row;
    const int rc = webhooks_due(f->store, now_ms, &busy, &row, &f->err);
    OK(rc);
    ret[0] = '\0';
    if (rc == 1) {
        memcpy(ret, row.job, ID_SIZE);
        webhook_row_deinit(&row);
    }
    return ret;
}

static const char *due(struct fixture *f, int64_t now_ms, char ret[ID_SIZE])
{
    return due_but(f, now_ms, (struct webhooks_busy){.tried = true}, ret);
}

static void test_the_end_of_a_job(void **state)
{
    struct fixture *f = *state;
    struct webhook_row row;
    add_dataset(f, "ds_1");
    add_with(f, "job_1", every_end);
    claim(f, "job_1");
    assert_false(has_message(f, "job_1"));
    OK(finish(f, "job_1", JOB_SUCCEEDED, stage(f, "job_1", 1)));
    assert_int_equal(webhooks_of_job(f->store, "job_1", &row, &f->err), 1);
    assert_string_equal(row.state, "pending");
    assert_string_equal(row.url, "https://example.org/x");
    assert_int_equal(strncmp(row.id, "msg_", 4), 0);
    assert_int_equal(row.attempts, 0);
    assert_int_equal(row.created_ms, 5000);
    assert_int_equal(row.next_ms, 5000);
    assert_int_equal(row.finished_ms, 0);
    struct json *body = NULL;
    assert_int_equal(json_parse(row.body, strlen(row.body), &body, &f->err), 0);
    const struct json *job = json_get(body, "data");
    assert_string_equal(json_string(json_get(body, "type")), "job.succeeded");
    assert_string_equal(json_string(json_get(body, "timestamp")), "1970-01-01T00:00:05.000Z");
    assert_string_equal(json_string(json_get(job, "id")), "job_1");
    assert_string_equal(json_string(json_get(json_get(job, "metadata"), "team")), "blue");
    assert_true(json_number(json_get(job, "model_version")) == 1.0);
    assert_true(json_number(json_get(json_get(job, "result"), "iterations")) == 3.0);
    json_free(body);
    webhook_row_deinit(&row);
}

/* Only of ends that were asked for, and only where anything was. */
static void test_what_is_not_told(void **state)
{
    struct fixture *f = *state;
    enum job_status status;
    add_dataset(f, "ds_1");
    add_with(f, "job_1", SPEC("\"succeeded\",\"failed\""));
    add_job(f, "job_2");
    OK(jobs_cancel(f->store, "job_1", 5, &status, &f->err));
    OK(jobs_cancel(f->store, "job_2", 5, &status, &f->err));
    assert_false(has_message(f, "job_1"));
    assert_false(has_message(f, "job_2"));
    assert_int_equal(number_of(f, "SELECT count(*) FROM webhooks"), 0);
}

/* An end that is taken back takes its message along. */
static void test_an_end_that_fails(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_with(f, "job_1", every_end);
    claim(f, "job_1");
    const struct job_end end = {
        .status = JOB_SUCCEEDED, .reason = "converged", .message = "Done.", .staged_model = 99};
    assert_true(jobs_finish(f->store, "job_1", &end, 5000, &f->err) < 0);
    assert_false(has_message(f, "job_1"));
}

static void test_due_by_age(void **state)
{
    struct fixture *f = *state;
    char id[ID_SIZE];
    add_dataset(f, "ds_1");
    struct webhook_row second = cancelled(f, "job_1", 2000), first = cancelled(f, "job_2", 1000);
    struct webhook_row third = cancelled(f, "job_3", 3000);
    cleanup_json struct json *one = json_new_array(), *two = json_new_array();
    json_push(one, json_new_string(first.id));
    json_push(two, json_new_string(first.id));
    json_push(two, json_new_string(second.id));
    const struct webhooks_busy but_one = {.ids = one}, but_two = {.ids = two};
    assert_string_equal(due(f, 999, id), "");
    assert_string_equal(due(f, 1000, id), "job_2");
    assert_string_equal(due(f, 5000, id), "job_2");
    assert_string_equal(due_but(f, 5000, but_one, id), "job_1");
    assert_string_equal(due_but(f, 5000, but_two, id), "job_3");
    assert_string_equal(due_but(f, 2999, but_two, id), "");
    assert_true(strcmp(first.id, second.id) != 0 && strcmp(second.id, third.id) != 0);
    webhook_row_deinit(&first);
    webhook_row_deinit(&second);
    webhook_row_deinit(&third);
}

/* After the clock has been put back by years, nothing waits for years. */
static void test_due_though_the_clock_was_put_back(void **state)
{
    struct fixture *f = *state;
    char id[ID_SIZE];
    add_dataset(f, "ds_1");
    struct webhook_row row = cancelled(f, "job_1", 100000000000);
    assert_string_equal(due(f, 5000, id), "job_1");
    assert_string_equal(due(f, 100000000000 - WEBHOOK_WAIT_MAX_MS, id), "");
    webhook_row_deinit(&row);
}

static void record(struct fixture *f, const char *id, struct webhook_result r, int64_t now_ms)
{
    OK(webhooks_record(f->store, id, &r, now_ms, &f->err));
}

static void test_tried_again_and_delivered(void **state)
{
    struct fixture *f = *state;
    char id[ID_SIZE];
    add_dataset(f, "ds_1");
    struct webhook_row row = cancelled(f, "job_1", 1000);
    char message[WEBHOOK_ID_SIZE];
    memcpy(message, row.id, sizeof(message));
    const struct webhook_result refused = {
        .state = "pending", .status = 500, .error = "No.", .next_ms = 4000};
    record(f, message, refused, 1500);
    assert_string_equal(due(f, 3999, id), "");
    assert_string_equal(due(f, 4000, id), "job_1");
    char *body = mem_strdup(row.body);
    webhook_row_deinit(&row);
    assert_int_equal(webhooks_of_job(f->store, "job_1", &row, &f->err), 1);
    assert_string_equal(row.id, message);
    assert_string_equal(row.body, body);
    assert_int_equal(row.attempts, 1);
    assert_int_equal(row.last_status, 500);
    assert_string_equal(row.last_error, "No.");
    webhook_row_deinit(&row);
    record(f, message, (struct webhook_result){.state = "delivered", .status = 204}, 4100);
    record(f, message, refused, 4200); /* a late word of one that is done changes nothing */
    assert_int_equal(webhooks_of_job(f->store, "job_1", &row, &f->err), 1);
    assert_string_equal(row.state, "delivered");
    assert_int_equal(row.attempts, 2);
    assert_int_equal(row.last_status, 204);
    assert_null(row.last_error);
    assert_int_equal(row.next_ms, 0);
    assert_int_equal(row.finished_ms, 4100);
    assert_string_equal(due(f, 9000000, id), "");
    webhook_row_deinit(&row);
    mem_free(body);
}

static void assert_receiver(struct fixture *f, const char *id, const char *spec,
                            const char *expected)
{
    struct webhook_row row = cancelled_with(f, id, spec, 1000);
    assert_string_equal(row.receiver, expected);
    webhook_row_deinit(&row);
}

/* Scheme, host and port. */
static void test_receivers(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    assert_receiver(f, "job_1", every_end, "https://example.org");
    assert_receiver(f, "job_2", SPEC_TO("http://H.Example:80?a=/b", "\"cancelled\""),
                    "http://h.example:80");
    assert_receiver(f, "job_3", SPEC_TO("http://[::1]#x/y", "\"cancelled\""), "http://[::1]");
    assert_receiver(f, "job_4", SPEC_TO("http://h", "\"cancelled\""), "http://h");
}

/* Receivers that have enough to do, and what was tried before. */
static void test_due_but_for_the_busy(void **state)
{
    struct fixture *f = *state;
    char id[ID_SIZE];
    add_dataset(f, "ds_1");
    struct webhook_row slow = cancelled(f, "job_1", 1000);
    struct webhook_row other =
        cancelled_with(f, "job_2", SPEC_TO("https://b.example/", "\"cancelled\""), 2000);
    cleanup_json struct json *full = json_new_array();
    json_push(full, json_new_string(slow.receiver));
    const struct webhooks_busy busy = {.receivers = full, .tried = true};
    assert_string_equal(due(f, 5000, id), "job_1");
    assert_string_equal(due_but(f, 5000, busy, id), "job_2");
    const struct webhook_result no = {.state = "pending", .error = "No.", .next_ms = 1500};
    record(f, slow.id, no, 1200);
    assert_string_equal(due(f, 5000, id), "job_1");
    assert_string_equal(due_but(f, 5000, (struct webhooks_busy){.tried = false}, id), "job_2");
    webhook_row_deinit(&slow);
    webhook_row_deinit(&other);
}

/* Giving up is the job's last event. */
static void test_given_up(void **state)
{
    struct fixture *f = *state;
    struct event_row *events = NULL;
    int64_t count = 0;
    add_dataset(f, "ds_1");
    struct webhook_row row = cancelled(f, "job_1", 1000);
    record(f, row.id,
           (struct webhook_result){
               .state = "given_up", .error = "Nobody is there.", .message = "It was given up."},
           1500);
    OK(events_list(f->store, "job_1", 0, EVENTS_LIMIT_MAX, &events, &count, &f->err));
    assert_string_equal(events[count - 1].message, "It was given up.");
    assert_string_equal(events[count - 1].level, "warning");
    assert_int_equal(events[count - 1].id, count);
    events_list_free(events, count);
    assert_int_equal(number_of(f, "SELECT count(*) FROM webhooks WHERE state = 'given_up'"), 1);
    webhook_row_deinit(&row);
}

static void test_deleted_with_its_job(void **state)
{
    struct fixture *f = *state;
    char id[ID_SIZE];
    add_dataset(f, "ds_1");
    struct webhook_row row = cancelled(f, "job_1", 1000);
    OK(jobs_delete(f->store, "job_1", &f->err));
    assert_string_equal(due(f, 9000000, id), "");
    record(f, row.id, (struct webhook_result){.state = "delivered", .status = 200}, 1500);
    assert_int_equal(number_of(f, "SELECT count(*) FROM webhooks"), 0);
    webhook_row_deinit(&row);
}

/* How many wait, and since when the oldest has. */
static void test_counted(void **state)
{
    struct fixture *f = *state;
    struct webhooks_waiting waiting;
    add_dataset(f, "ds_1");
    OK(webhooks_waiting(f->store, &waiting, &f->err));
    assert_int_equal(waiting.count, 0);
    assert_int_equal(waiting.oldest_ms, 0);
    struct webhook_row second = cancelled(f, "job_1", 2000), first = cancelled(f, "job_2", 1000);
    record(f, first.id,
           (struct webhook_result){.state = "pending", .error = "No.", .next_ms = 90000}, 1500);
    OK(webhooks_waiting(f->store, &waiting, &f->err));
    assert_int_equal(waiting.count, 2);
    assert_int_equal(waiting.oldest_ms, 1000);
    record(f, first.id, (struct webhook_result){.state = "delivered", .status = 200}, 1600);
    OK(webhooks_waiting(f->store, &waiting, &f->err));
    assert_int_equal(waiting.count, 1);
    assert_int_equal(waiting.oldest_ms, 2000);
    webhook_row_deinit(&first);
    webhook_row_deinit(&second);
}

TEST_MAIN(STORE_TEST(test_the_end_of_a_job), STORE_TEST(test_what_is_not_told),
          STORE_TEST(test_an_end_that_fails), STORE_TEST(test_due_by_age),
          STORE_TEST(test_due_though_the_clock_was_put_back),
          STORE_TEST(test_tried_again_and_delivered), STORE_TEST(test_receivers),
          STORE_TEST(test_due_but_for_the_busy), STORE_TEST(test_given_up),
          STORE_TEST(test_deleted_with_its_job), STORE_TEST(test_counted))
