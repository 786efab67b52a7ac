/* The state machine: every action from every status, and what each allowed one leaves behind. */
#include "unit/store_fixture.h"

#define JOB "job_1"

/* Brings a new job to a status by the ordinary ways. */
static void bring_to(struct fixture *f, enum job_status status, int64_t max_attempts)
{
    enum job_status now;
    OK(insert_job(f, JOB, "m", 0, max_attempts));
    if (status == JOB_PAUSED) {
        OK(jobs_pause(f->store, JOB, 2500, &now, &f->err));
    } else if (status == JOB_CANCELLED) {
        OK(jobs_cancel(f->store, JOB, 2500, &now, &f->err));
    } else if (status != JOB_QUEUED) {
        claim(f, JOB);
    }
    if (status == JOB_CANCELLING) {
        OK(jobs_cancel(f->store, JOB, 3500, &now, &f->err));
    } else if (status == JOB_SUCCEEDED || status == JOB_FAILED) {
        OK(finish(f, JOB, status, 0));
    }
    assert_int_equal(status_of(f, JOB), status);
}

static int lose(struct fixture *f, const char *message, const char *error, int64_t now_ms,
                enum job_status *ret_status)
{
    const struct job_loss loss = {.message = message, .error = error};
    return jobs_worker_lost(f->store, JOB, &loss, now_ms, ret_status, &f->err);
}

enum action {
    CLAIM,
    CANCEL,
    PAUSE,
    RESUME,
    PUT_ASIDE,
    LOSE_FIRST, /* further attempts are left */
    LOSE_LAST,
    PROGRESS,
    FINISH_AS, /* + the status */
    ACTION_COUNT = FINISH_AS + JOB_STATUS_COUNT_
};

static const struct job_claim cpu = {.worker = "cpu:1", .device = "cpu"};

/* Returns the call's result; *ret_status is what the call itself reports, where it does. */
static int act(struct fixture *f, enum action action, int *ret_status)
{
    enum job_status status = JOB_STATUS_COUNT_;
    int rc;
    struct job_row row;
    switch (action) {
    case CLAIM:
        rc = jobs_claim(f->store, JOB, &cpu, 4000, &row, &f->err);
        if (rc == 0) {
            job_row_deinit(&row);
        }
        return rc;
    case CANCEL:
        rc = jobs_cancel(f->store, JOB, 4000, &status, &f->err);
        break;
    case PAUSE:
        rc = jobs_pause(f->store, JOB, 4000, &status, &f->err);
        break;
    case RESUME:
        return jobs_resume(f->store, JOB, 4000, &f->err);
    case PUT_ASIDE:
        rc = jobs_put_aside(f->store, JOB, 4000, &status, &f->err);
        break;
    case LOSE_FIRST:
    case LOSE_LAST:
        rc = lose(f, "Lost.", "{\"e\":1}", 4000, &status);
        break;
    case PROGRESS:
        return jobs_progress(f->store, JOB, "{\"fraction\":0.5}", "Half.", 4000, NULL, &f->err);
    default:
        return finish(f, JOB, (enum job_status)(action - FINISH_AS), 0);
    }
    if (rc == 0) {
        *ret_status = (int)status;
    }
    return rc;
}

/* The diagram, written down a second time: where an action leads, or -1 where it is refused. */
static int expected_status(enum action action, enum job_status from)
{
    const bool active = from == JOB_RUNNING || from == JOB_CANCELLING;
    switch (action) {
    case CLAIM:
        return from == JOB_QUEUED ? JOB_RUNNING : -1;
    case CANCEL:
        return from == JOB_QUEUED || from == JOB_PAUSED ? JOB_CANCELLED
               : active                                 ? JOB_CANCELLING
                                                        : -1;
    case PAUSE:
        return from == JOB_QUEUED || from == JOB_PAUSED ? JOB_PAUSED
               : from == JOB_RUNNING                    ? JOB_RUNNING
                                                        : -1;
    case RESUME:
        return from == JOB_PAUSED ? JOB_QUEUED : -1;
    case PUT_ASIDE:
        return from == JOB_RUNNING ? JOB_QUEUED : from == JOB_CANCELLING ? JOB_CANCELLED : -1;
    case LOSE_FIRST:
        return from == JOB_RUNNING ? JOB_QUEUED : from == JOB_CANCELLING ? JOB_CANCELLED : -1;
    case LOSE_LAST:
        return from == JOB_RUNNING ? JOB_FAILED : from == JOB_CANCELLING ? JOB_CANCELLED : -1;
    case PROGRESS:
        return active ? (int)from : -1;
    default:
        return active && action - FINISH_AS >= (int)JOB_SUCCEEDED ? (int)action - FINISH_AS : -1;
    }
}

static void check_cell(struct fixture *f, enum action action, enum job_status from)
{
    bring_to(f, from, action == LOSE_LAST ? 1 : 3);
    const int64_t events = number_of(f, "SELECT last_event FROM jobs");
    const int to = expected_status(action, from);
    int reported = -1;
    f->err = (struct err){.code = ERR_OK};
    const int rc = act(f, action, &reported);
    if (to < 0) {
        assert_int_equal(rc, -ERR_CONFLICT);
        assert_int_equal(reported, -1);
        assert_contains(f->err.detail, job_status_name(from));
        assert_int_equal(status_of(f, JOB), from);
        check_gapless(f, JOB, events);
    } else {
        assert_int_equal(rc, 0);
        assert_true(reported == -1 || reported == to);
        assert_int_equal(status_of(f, JOB), to);
        const bool silent =
            (action == CANCEL && from == JOB_CANCELLING) || (action == PAUSE && from == JOB_PAUSED);
        check_gapless(f, JOB, silent ? events : events + 1);
    }
    int64_t queued = -1; /* which is counted by triggers */
    OK(jobs_count(f->store, JOB_QUEUED, &queued, &f->err));
    assert_int_equal(queued, status_of(f, JOB) == JOB_QUEUED);
    const bool final = job_status_final(status_of(f, JOB));
    assert_int_equal(number_of(f, "SELECT count(*) FROM dataset_holds"), final ? 0 : 1);
    assert_int_equal(jobs_delete(f->store, JOB, &f->err), final ? 0 : -ERR_CONFLICT);
    OK(sql_script(f->store->db, "DELETE FROM jobs", &f->err));
}

static void test_matrix(void **state)
{
    struct fixture *f = *state;
    /* A hundred jobs: the disk's patience is tested elsewhere. */
    OK(sql_script(f->store->db, "PRAGMA synchronous = OFF", &f->err));
    add_dataset(f, "ds_1");
    int allowed = 0;
    for (int action = 0; action < ACTION_COUNT; action++) {
        for (int from = 0; from < JOB_STATUS_COUNT_; from++) {
            check_cell(f, (enum action)action, (enum job_status)from);
            allowed += expected_status((enum action)action, (enum job_status)from) >= 0;
        }
    }
    assert_int_equal(allowed, 1 + 4 + 3 + 1 + 2 + 2 + 2 + 2 + 6);
}

static void test_absent_job(void **state)
{
    struct fixture *f = *state;
    struct job_row row;
    for (int action = CLAIM; action < ACTION_COUNT; action++) {
        int reported = -1;
        FAILS(act(f, (enum action)action, &reported), ERR_NOT_FOUND, "no such job");
        assert_int_equal(reported, -1);
    }
    assert_int_equal(claim_next(f, "cpu", 4000, &row), 0);
}

/* The data of the job's newest event. */
static void check_last_event(struct fixture *f, const char *level, const char *message,
                             const char *data)
{
    struct event_row *rows;
    int64_t count;
    OK(events_list(f->store, JOB, number_of(f, "SELECT last_event - 1 FROM jobs"), 10, &rows,
                   &count, &f->err));
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].level, level);
    assert_string_equal(rows[0].message, message);
    assert_string_equal(rows[0].data, data);
    events_list_free(rows, count);
}

static void test_a_whole_life(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, JOB);
    struct job_row row;
    assert_int_equal(claim_next(f, "cpu", 3000, &row), 1);
    assert_string_equal(row.worker, "cpu:0");
    assert_string_equal(row.device, "cpu");
    assert_int_equal(row.attempt, 1);
    assert_int_equal(row.started_ms, 3000);
    assert_string_equal(row.spec, "{\"model\":\"m\"}");
    job_row_deinit(&row);
    check_last_event(f, "info", "Started on cpu:0, attempt 1 of 3.",
                     "{\"status\":\"running\",\"reason\":null,\"attempt\":1}");

    int64_t event = 0;
    OK(jobs_progress(f->store, JOB, "{\"fraction\":0.5}", "Half.", 3500, &event, &f->err));
    assert_int_equal(event, 3);
    check_last_event(f, "info", "Half.", "{\"fraction\":0.5}");
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_string_equal(row.progress, "{\"fraction\":0.5}");
    job_row_deinit(&row);

    enum job_status status;
    OK(lose(f, "Killed by signal 9.", "{}", 4000, &status));
    assert_int_equal(status, JOB_QUEUED);
    check_last_event(f, "warning", "Killed by signal 9.",
                     "{\"status\":\"queued\",\"reason\":\"worker_lost\",\"attempt\":1}");
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_string_equal(row.reason, "worker_lost");
    assert_null(row.progress);
    assert_null(row.worker);
    assert_null(row.device);
    assert_null(row.error);
    assert_int_equal(row.queued_ms, 4000);
    assert_int_equal(row.started_ms, 0);
    assert_int_equal(row.created_ms, 2000);
    job_row_deinit(&row);

    claim(f, JOB);
    OK(finish(f, JOB, JOB_SUCCEEDED, stage(f, JOB, 2)));
    check_last_event(f, "info", "Done.",
                     "{\"status\":\"succeeded\",\"reason\":\"converged\",\"attempt\":2}");
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_int_equal(row.status, JOB_SUCCEEDED);
    assert_string_equal(row.reason, "converged");
    assert_string_equal(row.result, "{\"iterations\":3}");
    assert_string_equal(row.worker, "cpu:0");
    assert_int_equal(row.model_version, 1);
    assert_int_equal(row.attempt, 2);
    assert_int_equal(row.finished_ms, 5000);
    job_row_deinit(&row);
    check_gapless(f, JOB, 6);
}

static void test_attempts_are_spent(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, JOB);
    enum job_status status = JOB_QUEUED;
    for (int attempt = 1; attempt <= 3; attempt++) {
        claim(f, JOB);
        stage(f, JOB, 1);
        OK(lose(f, "Exit 1.", "{\"e\":1}", 4000, &status));
        assert_int_equal(status, attempt < 3 ? JOB_QUEUED : JOB_FAILED);
        assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 0);
    }
    check_last_event(f, "error", "Exit 1.",
                     "{\"status\":\"failed\",\"reason\":\"worker_lost\",\"attempt\":3}");
    struct job_row row;
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_string_equal(row.error, "{\"e\":1}");
    assert_string_equal(row.reason, "worker_lost");
    assert_int_equal(row.finished_ms, 4000);
    job_row_deinit(&row);
}

static void check_waiting(struct fixture *f, enum job_status status, const char *reason,
                          int64_t attempt)
{
    struct job_row row;
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_int_equal(row.status, status);
    assert_string_equal(row.reason, reason);
    assert_int_equal(row.attempt, attempt);
    if (status != JOB_RUNNING) {
        assert_null(row.worker);
        assert_int_equal(row.started_ms, 0);
    }
    job_row_deinit(&row);
}

/* A pause spends no attempt, a lost worker does, whatever was asked before. */
static void test_pause(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 2));
    enum job_status status;
    OK(jobs_pause(f->store, JOB, 2500, &status, &f->err));
    check_waiting(f, JOB_PAUSED, "paused", 0);
    check_last_event(f, "info", "Paused in the queue.",
                     "{\"status\":\"paused\",\"reason\":\"paused\",\"attempt\":0}");
    struct job_row row;
    assert_int_equal(claim_next(f, "cpu", 2600, &row), 0);
    OK(jobs_resume(f->store, JOB, 2700, &f->err));
    claim(f, JOB);
    stage(f, JOB, 1);
    OK(jobs_pause(f->store, JOB, 3000, &status, &f->err));
    assert_int_equal(status, JOB_RUNNING);
    check_waiting(f, JOB_RUNNING, "paused", 1);
    const int64_t events = number_of(f, "SELECT last_event FROM jobs");
    OK(jobs_pause(f->store, JOB, 3000, &status, &f->err)); /* once is enough */
    assert_int_equal(number_of(f, "SELECT last_event FROM jobs"), events);
    FAILS(jobs_resume(f->store, JOB, 3000, &f->err), ERR_CONFLICT, "running");
    OK(jobs_put_aside(f->store, JOB, 4000, &status, &f->err));
    assert_int_equal(status, JOB_PAUSED);
    check_waiting(f, JOB_PAUSED, "paused", 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 0);
    check_last_event(f, "info", "Paused on request.",
                     "{\"status\":\"paused\",\"reason\":\"paused\",\"attempt\":1}");

    /* Taken up in the same attempt, and stopped with the daemon. */
    OK(jobs_resume(f->store, JOB, 5000, &f->err));
    claim(f, JOB);
    assert_int_equal(number_of(f, "SELECT attempt FROM jobs"), 1);
    OK(jobs_put_aside(f->store, JOB, 6000, &status, &f->err));
    check_waiting(f, JOB_QUEUED, "daemon_stopped", 1);
    claim(f, JOB);
    assert_int_equal(number_of(f, "SELECT attempt FROM jobs"), 1);

    /* Lost while it was to pause: paused, and the attempt is spent. */
    OK(jobs_pause(f->store, JOB, 7000, &status, &f->err));
    OK(lose(f, "Exit 1.", "{}", 7000, &status));
    check_waiting(f, JOB_PAUSED, "worker_lost", 1);
    OK(jobs_resume(f->store, JOB, 8000, &f->err));
    OK(jobs_pause(f->store, JOB, 8000, &status, &f->err)); /* and a pause in the queue keeps that */
    OK(jobs_resume(f->store, JOB, 8000, &f->err));
    claim(f, JOB);
    assert_int_equal(number_of(f, "SELECT attempt FROM jobs"), 2);
    OK(jobs_pause(f->store, JOB, 9000, &status, &f->err));
    OK(lose(f, "Exit 1.", "{}", 9000, &status));
    assert_int_equal(status, JOB_FAILED);
}

/* A failing allocation anywhere in the claim leaves the job in the queue, with its one event. */
static void test_claim_without_memory(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, JOB);
    int failures = 0;
    for (int n = 1;; n++) {
        struct job_row row = {.attempt = 77};
        mem_fail_nth(n);
        const int rc = claim_next(f, "cpu", 1, &row);
        mem_fail_nth(0);
        if (rc > 0) {
            assert_int_equal(row.attempt, 1);
            job_row_deinit(&row);
            break;
        }
        failures++;
        assert_int_equal(rc, -ERR_NO_MEMORY);
        assert_int_equal(row.attempt, 77); /* untouched */
        assert_int_equal(status_of(f, JOB), JOB_QUEUED);
        check_gapless(f, JOB, 1);
    }
    assert_true(failures >= 4); /* message, data and the row's texts, at least */
    check_gapless(f, JOB, 2);
}

/* A full disk: a clear error, nothing half-written, and the store goes on when there is room. */
static void test_full_disk(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, JOB);
    claim(f, JOB);
    const int64_t pages = number_of(f, "PRAGMA page_count");
    char limit[64];
    snprintf(limit, sizeof(limit), "PRAGMA max_page_count = %lld", (long long)pages + 2);
    OK(sql_script(f->store->db, limit, &f->err));
    char *text = mem_zalloc(100001);
    memset(text, 'x', 100000);
    FAILS(jobs_progress(f->store, JOB, text, text, 1, NULL, &f->err), ERR_DISK_FULL,
          "disk is full");
    int64_t key;
    OK(models_stage(f->store, JOB, &key, &f->err));
    OK(store_flush(f->store, &f->err)); /* the failure takes along what is not durable */
    FAILS(models_stage_chunk(f->store, key, text, 100000, &f->err), ERR_DISK_FULL, "disk is full");
    struct job_row row;
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_null(row.progress);
    job_row_deinit(&row);
    check_gapless(f, JOB, 2);
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 0);
    assert_int_equal(number_of(f, "SELECT bytes + chunks FROM models"), 0);
    OK(sql_script(f->store->db, "PRAGMA max_page_count = 1000000", &f->err));
    OK(models_stage_chunk(f->store, key, text, 100000, &f->err));
    OK(jobs_progress(f->store, JOB, text, text, 1, NULL, &f->err));
    check_gapless(f, JOB, 3);
    mem_free(text);
}

TEST_MAIN(STORE_TEST(test_matrix), STORE_TEST(test_absent_job), STORE_TEST(test_a_whole_life),
          STORE_TEST(test_attempts_are_spent), STORE_TEST(test_pause),
          STORE_TEST(test_claim_without_memory), STORE_TEST(test_full_disk))
