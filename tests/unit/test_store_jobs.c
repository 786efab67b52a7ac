#include "store/jobs.h"

#include "unit/store_fixture.h"

static void test_status_names(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < JOB_STATUS_COUNT_; i++) {
        enum job_status status = JOB_STATUS_COUNT_;
        OK(job_status_parse(job_status_name((enum job_status)i), &status, &f->err));
        assert_int_equal(status, i);
        assert_int_equal(job_status_final(status), i >= JOB_SUCCEEDED);
    }
    enum job_status status;
    FAILS(job_status_parse("done", &status, &f->err), ERR_INVALID, "queued, running");
    FAILS(job_status_parse("", &status, &f->err), ERR_INVALID, "queued, running");
    assert_string_equal(job_status_name(JOB_STATUS_COUNT_), "unknown");
}

static void test_insert_and_get(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_dataset(f, "ds_2");
    add_dataset(f, "ds_3");
    struct job_row job = {.id = "job_1",
                          .model = (char[]){"homo"},
                          .dataset = "ds_1",
                          .test_dataset = "ds_2",
                          .centers_dataset = "ds_3",
                          .spec = (char[]){"{\"seed\":7}"},
                          .priority = -3,
                          .max_attempts = 2};
    OK(jobs_insert(f->store, &job, NULL, 1234, &f->err));
    struct job_row row;
    OK(jobs_get(f->store, "job_1", &row, &f->err));
    assert_string_equal(row.id, "job_1");
    assert_int_equal(row.status, JOB_QUEUED);
    assert_string_equal(row.model, "homo");
    assert_string_equal(row.dataset, "ds_1");
    assert_string_equal(row.test_dataset, "ds_2");
    assert_string_equal(row.centers_dataset, "ds_3");
    assert_string_equal(row.spec, "{\"seed\":7}");
    assert_int_equal(row.priority, -3);
    assert_int_equal(row.max_attempts, 2);
    assert_int_equal(row.attempt, 0);
    assert_int_equal(row.created_ms, 1234);
    assert_int_equal(row.queued_ms, 1234);
    assert_int_equal(row.started_ms, 0);
    assert_int_equal(row.finished_ms, 0);
    assert_int_equal(row.model_version, 0);
    assert_null(row.reason);
    assert_null(row.progress);
    assert_null(row.result);
    assert_null(row.error);
    assert_null(row.worker);
    assert_null(row.device);
    job_row_deinit(&row);
    job_row_deinit(&row);

    struct event_row *events;
    int64_t count;
    OK(events_list(f->store, "job_1", 0, 10, &events, &count, &f->err));
    assert_int_equal(count, 1);
    assert_string_equal(events[0].type, "status");
    assert_string_equal(events[0].level, "info");
    assert_string_equal(events[0].data, "{\"status\":\"queued\",\"reason\":null,\"attempt\":0}");
    events_list_free(events, count);
}

static void test_insert_refusals(void **state)
{
    struct fixture *f = *state;
    FAILS(insert_job(f, "job_1", "m", 0, 3), ERR_NOT_FOUND, "no such data set");
    assert_string_equal(f->err.pointer, "#/dataset");
    add_dataset(f, "ds_1");
    struct job_row job = {.id = "job_1",
                          .model = (char[]){"m"},
                          .dataset = "ds_1",
                          .test_dataset = "ds_7",
                          .spec = (char[]){"{}"},
                          .max_attempts = 1};
    FAILS(jobs_insert(f->store, &job, NULL, 1, &f->err), ERR_NOT_FOUND, "no such data set");
    assert_string_equal(f->err.pointer, "#/test/dataset");
    snprintf(job.test_dataset, sizeof(job.test_dataset), "ds_1"); /* the same one twice is fine */
    snprintf(job.centers_dataset, sizeof(job.centers_dataset), "ds_8");
    FAILS(jobs_insert(f->store, &job, NULL, 1, &f->err), ERR_NOT_FOUND, "no such data set");
    assert_string_equal(f->err.pointer, "#/centers/dataset");
    job.centers_dataset[0] = '\0';
    OK(jobs_insert(f->store, &job, NULL, 1, &f->err));
    FAILS(insert_job(f, "job_1", "m", 0, 3), ERR_CONFLICT, "already");
    FAILS(insert_job(f, "job_2", "", 0, 3), ERR_INVALID, "accepts");
    FAILS(insert_job(f, "job_2", "m", 0, 0), ERR_INVALID, "accepts");
    FAILS(insert_job(f, "", "m", 0, 3), ERR_INVALID, "accepts");
    /* Nothing of the refused ones is left. */
    assert_int_equal(number_of(f, "SELECT count(*) FROM jobs"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM events"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM dataset_holds"), 1);
    struct job_row row;
    FAILS(jobs_get(f->store, "job_2", &row, &f->err), ERR_NOT_FOUND, "no such job");
}

/* The ids of a list joined by blanks, all pages of `limit` one after another. */
static void check_list(struct fixture *f, struct jobs_filter filter, int64_t limit,
                       const char *expected)
{
    char text[256] = "", after[ID_SIZE] = "";
    for (bool more = true; more;) {
        struct jobs_page page;
        OK(jobs_list(f->store, &filter, (struct store_page){after, limit}, &page, &f->err));
        assert_true(page.count <= limit && (page.count == limit || !page.more));
        for (int64_t i = 0; i < page.count; i++) {
            const size_t len = strlen(text);
            snprintf(text + len, sizeof(text) - len, "%s ", page.rows[i].id + 4);
            int64_t position;
            OK(jobs_queue_position(f->store, page.rows[i].id, &position, &f->err));
            assert_int_equal(page.positions[i], position);
        }
        more = page.more;
        snprintf(after, sizeof(after), "%s", page.last);
        jobs_page_deinit(&page);
    }
    assert_string_equal(text, expected);
}

static void test_list_and_filters(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    const struct jobs_filter all = {.model = NULL};
    check_list(f, all, 10, "");
    for (int i = 1; i <= 9; i++) {
        char id[ID_SIZE];
        snprintf(id, sizeof(id), "job_%d", i);
        OK(insert_job(f, id, i % 3 == 0 ? "b" : "a", 0, 3));
    }
    enum job_status status;
    OK(jobs_cancel(f->store, "job_3", 1, &status, &f->err));
    OK(jobs_cancel(f->store, "job_4", 1, &status, &f->err));
    claim(f, "job_1");
    const int64_t limits[] = {1, 2, 3, 4, 9, 100};
    for (int i = 0; i < 6; i++) {
        check_list(f, all, limits[i], "9 8 7 6 5 4 3 2 1 ");
        check_list(f, (struct jobs_filter){.model = "a"}, limits[i], "8 7 5 4 2 1 ");
        check_list(f, (struct jobs_filter){.statuses = 1u << JOB_QUEUED}, limits[i],
                   "9 8 7 6 5 2 ");
        check_list(f, (struct jobs_filter){.model = "a", .statuses = 1u << JOB_CANCELLED},
                   limits[i], "4 ");
        check_list(f, (struct jobs_filter){.model = "b", .statuses = 1u << JOB_QUEUED}, limits[i],
                   "9 6 ");
        check_list(f, (struct jobs_filter){.model = "c"}, limits[i], "");
    }
    struct jobs_page page;
    int64_t count;
    FAILS(jobs_list(f->store, &all, (struct store_page){"", 101}, &page, &f->err), ERR_INVALID,
          "1 to 100");

    const int64_t expected[JOB_STATUS_COUNT_] = {
        [JOB_QUEUED] = 6, [JOB_RUNNING] = 1, [JOB_CANCELLED] = 2};
    for (int i = 0; i < JOB_STATUS_COUNT_; i++) {
        OK(jobs_count(f->store, (enum job_status)i, &count, &f->err));
        assert_int_equal(count, expected[i]);
    }
}

static int64_t position_of(struct fixture *f, const char *id)
{
    int64_t position = -9;
    OK(jobs_queue_position(f->store, id, &position, &f->err));
    return position;
}

static void test_claim_order_and_position(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    OK(insert_job(f, "job_1", "m", 0, 3));
    OK(insert_job(f, "job_2", "m", 5, 3));
    OK(insert_job(f, "job_3", "m", -1, 3));
    OK(insert_job(f, "job_4", "m", 5, 3));
    OK(insert_job(f, "job_5", "m", 0, 3));
    const char *const order[] = {"job_2", "job_4", "job_1", "job_5", "job_3"};
    for (int first = 0; first < 5; first++) {
        for (int i = 0; i < 5; i++) {
            assert_int_equal(position_of(f, order[i]), i < first ? -1 : i - first);
        }
        claim(f, order[first]);
    }
    struct job_row row;
    assert_int_equal(claim_next(f, "cpu", 1, &row), 0);
    int64_t position;
    FAILS(jobs_queue_position(f->store, "job_9", &position, &f->err), ERR_NOT_FOUND, "no such job");

    /* A job that is queued again keeps its age. */
    OK(insert_job(f, "job_6", "m", 0, 3));
    enum job_status status;
    const struct job_loss loss = {.message = "Lost."};
    OK(jobs_worker_lost(f->store, "job_1", &loss, 1, &status, &f->err));
    assert_int_equal(position_of(f, "job_1"), 0);
    assert_int_equal(position_of(f, "job_6"), 1);
    claim(f, "job_1");
}

/* The claim walks a partial index that has all that it looks at, and sorts nothing. */
static void test_claim_uses_its_index(void **state)
{
    struct fixture *f = *state;
    struct sql_stmt *st = NULL;
    char explain[512];
    snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", jobs__next_of_device);
    assert_int_equal(sql_first(f->store->db, explain,
                               SQL_ARGS(sql_int(1), sql_text("cpu"), sql_int(1)), &st, &f->err),
                     1);
    char *plan = sql_col_text(st, 3);
    assert_contains(plan, "USING INDEX jobs_claims (wanted_device=?)");
    mem_free(plan);
    assert_int_equal(sql_next(st, &f->err), 0); /* no second step, which would be a sort */
    sql_done(st);
}

static int insert_for(struct fixture *f, const char *id, int64_t priority, const char *device,
                      int64_t bytes)
{
    struct job_row row = {.model = (char[]){"m"},
                          .dataset = "ds_1",
                          .spec = (char[]){"{}"},
                          .priority = priority,
                          .max_attempts = 3,
                          .host_bytes = bytes};
    snprintf(row.id, sizeof(row.id), "%s", id);
    snprintf(row.wanted_device, sizeof(row.wanted_device), "%s", device);
    return jobs_insert(f->store, &row, NULL, 2000, &f->err);
}

/* The job that the offers come to; "": none. */
static const char *next_of(struct fixture *f, const struct jobs_offer *offers, int count,
                           struct job_head *ret)
{
    ret->id[0] = '\0';
    const int rc = jobs_next(f->store, offers, count, 1, ret, &f->err);
    OK(rc);
    assert_int_equal(rc, ret->id[0] != '\0');
    return ret->id;
}

/* A job is next for the device that it asks for, and for no other, in one order with all. */
static void test_next_by_device(void **state)
{
    struct fixture *f = *state;
    struct job_head head;
    static const struct jobs_offer cpu[] = {{"auto", INT64_MAX}, {"cpu", INT64_MAX}};
    static const struct jobs_offer gpu[] = {
        {"auto", INT64_MAX}, {"cuda", INT64_MAX}, {"cuda:3", INT64_MAX}};
    add_dataset(f, "ds_1");
    OK(insert_for(f, "job_1", 0, "cuda", 5));
    assert_string_equal(next_of(f, cpu, 2, &head), "");
    OK(insert_for(f, "job_2", 0, "cpu", 5));
    OK(insert_for(f, "job_3", 1, "cuda:3", 5));
    OK(insert_for(f, "job_4", 1, "auto", 5));
    OK(insert_for(f, "job_5", 2, "cuda:1", 5));
    assert_string_equal(next_of(f, cpu, 2, &head), "job_4");
    assert_string_equal(next_of(f, gpu, 3, &head), "job_3");
    assert_string_equal(head.wanted_device, "cuda:3");
    assert_int_equal(head.priority, 1);
    assert_int_equal(head.host_bytes, 5);
    claim(f, "job_4");
    claim(f, "job_2");
    assert_string_equal(next_of(f, cpu, 2, &head), "");
    assert_string_equal(next_of(f, gpu, 2, &head), "job_1");
    assert_string_equal(next_of(f, gpu, 0, &head), "");
}

/* However many there are that do not fit, the first that does is found. */
static void test_next_by_memory(void **state)
{
    struct fixture *f = *state;
    struct job_head head;
    char id[ID_SIZE];
    OK(sql_script(f->store->db, "PRAGMA synchronous = OFF", &f->err));
    add_dataset(f, "ds_1");
    for (int i = 0; i < 300; i++) {
        snprintf(id, sizeof(id), "job_%d", i);
        OK(insert_for(f, id, i % 3, "auto", 1000 + i));
    }
    OK(insert_for(f, "job_small", 0, "cpu", 900));
    struct jobs_offer offers[] = {{"auto", 999}, {"cpu", 899}};
    assert_string_equal(next_of(f, offers, 2, &head), "");
    offers[1].most_bytes = 900;
    assert_string_equal(next_of(f, offers, 2, &head), "job_small");
    offers[0].most_bytes = 1001;
    assert_string_equal(next_of(f, offers, 2, &head), "job_1");
    offers[0].most_bytes = INT64_MAX;
    assert_string_equal(next_of(f, offers, 2, &head), "job_2");
}

/* What a look at a long queue costs does not grow with it, whatever is in front. */
static void test_next_of_a_long_queue(void **state)
{
    struct fixture *f = *state;
    struct job_head head;
    int64_t due;
    static const char fill[] =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, created_ms, "
        "queued_ms, wanted_device, host_bytes) SELECT 'job_' || i, 'queued', 'm', 'ds_1', '{}', "
        "i % 5, 3, 1, 1, iif(i < 10000, 'cuda', 'cpu'), i FROM n";
    static const struct jobs_offer offers[] = {
        {"auto", INT64_MAX}, {"cpu", INT64_MAX}, {"cuda", INT64_MAX}};
    OK(sql_script(f->store->db, fill, &f->err));
    assert_string_equal(next_of(f, offers, 2, &head), "job_10000"); /* prepared, too */
    OK(jobs_next_attempt(f->store, 1, &due, &f->err));
    int64_t steps = sql_work(f->store->db);
    assert_string_equal(next_of(f, offers, 2, &head), "job_10000");
    assert_string_equal(next_of(f, offers, 3, &head), "job_4");
    OK(jobs_next_attempt(f->store, 1, &due, &f->err));
    steps = sql_work(f->store->db) - steps;
    assert_true(steps < 300);
}

/* Only jobs that may get the same worker come before each other. */
static void test_positions_by_device(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *id, *device;
        int64_t priority, position;
    } jobs[] = {{"job_1", "cuda", 5, 0},   {"job_2", "cpu", 5, 0},  {"job_3", "cuda:0", 5, 1},
                {"job_4", "cuda:1", 5, 1}, {"job_5", "auto", 4, 4}, {"job_6", "cpu", 3, 2},
                {"job_7", "cuda:1", 3, 3}, {"job_8", "cuda", 3, 5}, {"job_9", "cpu", 9, -1}};
    add_dataset(f, "ds_1");
    for (size_t i = 0; i < 9; i++) {
        OK(insert_for(f, jobs[i].id, jobs[i].priority, jobs[i].device, 0));
    }
    claim(f, "job_9");
    struct jobs_page page;
    OK(jobs_list(f->store, &(struct jobs_filter){.model = NULL}, (struct store_page){"", 20}, &page,
                 &f->err));
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(position_of(f, jobs[i].id), jobs[i].position);
        assert_int_equal(page.positions[8 - i], jobs[i].position);
    }
    jobs_page_deinit(&page);
    static const struct {
        const char *device;
        int64_t priority, length;
    } lengths[] = {{"cpu", 4, 2}, {"cuda:0", 5, 2}, {"cuda:1", 0, 5}, {"auto", 0, 8}};
    for (size_t i = 0; i < 4; i++) {
        int64_t length = -1;
        OK(jobs_queue_length(f->store, lengths[i].priority, lengths[i].device, &length, &f->err));
        assert_int_equal(length, lengths[i].length);
    }
}

static int insert_started(struct fixture *f, const char *id, const char *spec)
{
    struct job_row job = {.model = (char[]){"n"},
                          .dataset = "ds_1",
                          .spec = (char *)(uintptr_t)spec,
                          .max_attempts = 1};
    snprintf(job.id, sizeof(job.id), "%s", id);
    return jobs_insert(f->store, &job, NULL, 1, &f->err);
}

/* No unfinished job lacks the model that it begins with. */
static void test_start_model(void **state)
{
    struct fixture *f = *state;
    static const char first[] = "{\"warm_start\":{\"model\":\"m\",\"version\":1}}";
    static const char second[] = "{\"warm_start\":{\"model\":\"m\",\"version\":2}}";
    add_dataset(f, "ds_1");
    FAILS(insert_started(f, "job_2", first), ERR_NOT_FOUND, "no such version");
    assert_string_equal(f->err.pointer, "#/warm_start");
    assert_int_equal(train(f, "job_1", "m"), 1);
    FAILS(insert_started(f, "job_2", second), ERR_NOT_FOUND, "no such version");
    assert_int_equal(number_of(f, "SELECT count(*) FROM jobs"), 1);
    OK(insert_started(f, "job_2", first));
    FAILS(models_delete(f->store, "m", 1, &f->err), ERR_CONFLICT, "job_2");
    enum job_status status;
    OK(jobs_cancel(f->store, "job_2", 2, &status, &f->err));
    OK(models_delete(f->store, "m", 1, &f->err));
}

static void test_delete(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    FAILS(jobs_delete(f->store, "job_1", &f->err), ERR_NOT_FOUND, "no such job");
    assert_int_equal(train(f, "job_1", "m"), 1);
    add_job(f, "job_2");
    FAILS(jobs_delete(f->store, "job_2", &f->err), ERR_CONFLICT, "queued");
    OK(jobs_delete(f->store, "job_1", &f->err));
    struct job_row row;
    FAILS(jobs_get(f->store, "job_1", &row, &f->err), ERR_NOT_FOUND, "no such job");
    assert_int_equal(number_of(f, "SELECT count(*) FROM events WHERE job NOT IN "
                                  "(SELECT key FROM jobs)"),
                     0);
    check_gapless(f, "job_2", 1);
    struct model_row model; /* its model stays */
    OK(models_get(f->store, "m", 1, &model, &f->err));
    assert_string_equal(model.job, "job_1");
    void *chunk;
    size_t size;
    assert_int_equal(models_chunk(f->store, model.key, 0, &chunk, &size, &f->err), 1);
    mem_free(chunk);
    model_row_deinit(&model);
}

static int end_with(struct fixture *f, const char *id, enum job_status status, const char *sample)
{
    const struct job_end end = {
        .status = status, .reason = "failed", .message = "", .test_predictions = sample};
    add_job(f, id);
    claim(f, id);
    return jobs_finish(f->store, id, &end, 5000, &f->err);
}

static void test_test_predictions(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    add_dataset(f, "ds_1");
    OK(end_with(f, "job_1", JOB_SUCCEEDED, "{\"rows\":[3]}"));
    OK(end_with(f, "job_2", JOB_SUCCEEDED, NULL));
    OK(end_with(f, "job_3", JOB_FAILED, "{}"));
    OK(jobs_test_predictions(f->store, "job_1", &text, &f->err));
    assert_string_equal(text, "{\"rows\":[3]}");
    mem_free(text);
    for (int i = 2; i <= 4; i++) {
        const char id[] = {'j', 'o', 'b', '_', (char)('0' + i), '\0'};
        FAILS(jobs_test_predictions(f->store, id, &text, &f->err), ERR_NOT_FOUND, "no test");
    }
    OK(jobs_delete(f->store, "job_1", &f->err));
    FAILS(jobs_test_predictions(f->store, "job_1", &text, &f->err), ERR_NOT_FOUND, "no test");
    assert_int_equal(number_of(f, "SELECT count(*) FROM job_test_predictions"), 0);
}

TEST_MAIN(EMPTY_TEST(test_status_names), STORE_TEST(test_insert_and_get),
          STORE_TEST(test_insert_refusals), STORE_TEST(test_list_and_filters),
          STORE_TEST(test_claim_order_and_position), STORE_TEST(test_claim_uses_its_index),
          STORE_TEST(test_next_by_device), STORE_TEST(test_next_by_memory),
          STORE_TEST(test_next_of_a_long_queue), STORE_TEST(test_positions_by_device),
          STORE_TEST(test_start_model), STORE_TEST(test_delete), STORE_TEST(test_test_predictions))
