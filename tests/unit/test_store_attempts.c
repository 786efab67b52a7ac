/* Attempts after the first: when they begin, which of them count, and what a daemon that comes back
 * makes of them. */
#include "unit/store_fixture.h"

#define JOB "job_1"

/* ---- waits ---- */

/* Loses the running job at now_ms, which is to start again `wait` later and not before. */
static void check_wait(struct fixture *f, int64_t now_ms, double jitter, int64_t wait)
{
    const struct job_loss loss = {.message = "Lost.", .first_ms = 1000, .jitter = jitter};
    enum job_status status;
    struct job_row row;
    int64_t next;
    OK(jobs_worker_lost(f->store, JOB, &loss, now_ms, &status, &f->err));
    assert_int_equal(status, JOB_QUEUED);
    OK(jobs_get(f->store, JOB, &row, &f->err));
    assert_int_equal(row.next_attempt_ms, now_ms + wait);
    job_row_deinit(&row);
    OK(jobs_next_attempt(f->store, now_ms, &next, &f->err));
    assert_int_equal(next, now_ms + wait);
    assert_int_equal(claim_next(f, "cpu", now_ms + wait - 1, &row), 0);
    OK(jobs_next_attempt(f->store, now_ms + wait, &next, &f->err));
    assert_int_equal(next, 0);
    assert_int_equal(claim_next(f, "cpu", now_ms + wait, &row), 1);
    assert_int_equal(row.next_attempt_ms, 0);
    job_row_deinit(&row);
}

static void test_attempts_wait_longer_and_longer(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 100));
    claim(f, JOB);
    check_wait(f, 10000, 0.0, 1000);
    check_wait(f, 20000, 0.0, 2000);
    check_wait(f, 30000, 1.0, 2000); /* of 4000 the last half is left out */
    check_wait(f, 40000, 0.5, 6000); /* of 8000 */
    for (int i = 5; i < 100; i++) {
        check_wait(f, 1000000, 0.0, i < 10 ? 1000 << (i - 1) : JOBS_RETRY_MAX_MS);
    }
}

static void test_a_job_that_waits_lets_others_pass(void **state)
{
    struct fixture *f = *state;
    const struct job_loss loss = {.message = "Lost.", .first_ms = 1000};
    enum job_status status;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 9, 3));
    OK(insert_job(f, "job_2", "m", 0, 3));
    claim(f, JOB);
    OK(jobs_worker_lost(f->store, JOB, &loss, 5000, &status, &f->err));
    struct job_row row;
    assert_int_equal(claim_next(f, "cpu", 5500, &row), 1);
    assert_string_equal(row.id, "job_2");
    job_row_deinit(&row);
    /* Who resumes a job means now. */
    OK(jobs_pause(f->store, JOB, 5600, &status, &f->err));
    OK(jobs_resume(f->store, JOB, 5700, &f->err));
    assert_int_equal(claim_next(f, "cpu", 5700, &row), 1);
    job_row_deinit(&row);
}

/* A clock that is put back holds up nothing for longer than the longest wait. */
static void test_a_clock_that_is_put_back(void **state)
{
    struct fixture *f = *state;
    const struct job_loss loss = {.message = "Lost.", .first_ms = 1000};
    enum job_status status;
    struct job_row row;
    int64_t next;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 3));
    claim(f, JOB);
    OK(jobs_worker_lost(f->store, JOB, &loss, 1000000000, &status, &f->err));
    OK(jobs_next_attempt(f->store, 5000, &next, &f->err));
    assert_int_equal(next, 0);
    assert_int_equal(claim_next(f, "cpu", 5000, &row), 1);
    job_row_deinit(&row);
}

/* Known as such, it is followed: the wait is as long as it was. */
static void test_a_clock_that_jumps(void **state)
{
    struct fixture *f = *state;
    const struct job_loss loss = {.message = "Lost.", .first_ms = 1000};
    enum job_status status;
    struct job_row row;
    int64_t next;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 3));
    claim(f, JOB);
    OK(jobs_worker_lost(f->store, JOB, &loss, 1000000000, &status, &f->err));
    OK(jobs_shift_attempts(f->store, -900000000, &f->err));
    OK(jobs_next_attempt(f->store, 100000400, &next, &f->err));
    assert_int_equal(next, 100001000);
    assert_int_equal(claim_next(f, "cpu", 100000400, &row), 0);
    assert_int_equal(claim_next(f, "cpu", 100001000, &row), 1);
    assert_int_equal(row.next_attempt_ms, 0);
    job_row_deinit(&row);
}

/* ---- attempts that get ahead ---- */

/* Claims the job, as it is with this checkpoint. */
static void claim_with(struct fixture *f, const char *checkpoint, int64_t attempt)
{
    const struct job_claim c = {.worker = "cpu:1", .device = "cpu", .checkpoint = checkpoint};
    struct job_row row;
    OK(jobs_claim(f->store, JOB, &c, 4000, &row, &f->err));
    assert_int_equal(row.attempt, attempt);
    job_row_deinit(&row);
}

/* Loses its worker, as it is with this one. */
static enum job_status lose_with(struct fixture *f, const char *checkpoint)
{
    const struct job_loss loss = {.message = "Lost.", .checkpoint = checkpoint};
    enum job_status status;
    OK(jobs_worker_lost(f->store, JOB, &loss, 5000, &status, &f->err));
    return status;
}

/* An attempt that got ahead goes on, whatever ends its workers; one that did not is spent. */
static void test_attempts_that_get_ahead(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 3));
    claim_with(f, "", 1);
    assert_int_equal(lose_with(f, ""), JOB_QUEUED);
    claim_with(f, "", 2);
    assert_int_equal(lose_with(f, "a"), JOB_QUEUED);
    claim_with(f, "a", 2);
    assert_int_equal(lose_with(f, "b"), JOB_QUEUED);
    claim_with(f, "b", 2);
    assert_int_equal(lose_with(f, "b"), JOB_QUEUED);
    claim_with(f, "b", 3);
    assert_int_equal(lose_with(f, "c"), JOB_QUEUED);
    claim_with(f, "c", 3);
    assert_int_equal(lose_with(f, NULL), JOB_FAILED);
}

/* What is kept each time and never of use does not go on for ever. */
static void test_an_end_of_what_only_seems_to_get_ahead(void **state)
{
    struct fixture *f = *state;
    char checkpoint[16] = "";
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 1));
    for (int i = 0; i <= JOBS_SPARED_MAX; i++) {
        claim_with(f, checkpoint, 1);
        snprintf(checkpoint, sizeof checkpoint, "%d", i);
        assert_int_equal(lose_with(f, checkpoint), i < JOBS_SPARED_MAX ? JOB_QUEUED : JOB_FAILED);
    }
}

/* ---- a daemon that comes back ---- */

static void collect(void *context, const char *id)
{
    char *all = context;
    snprintf(all + strlen(all), 64 - strlen(all), "%s ", id);
}

static void test_each_unfinished(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    enum job_status status;
    add_job(f, "job_1");
    claim(f, "job_1");
    add_job(f, "job_2");
    OK(jobs_pause(f->store, "job_2", 1, &status, &f->err));
    add_job(f, "job_3");
    OK(jobs_cancel(f->store, "job_3", 1, &status, &f->err));
    add_job(f, "job_4");
    char all[64] = "";
    OK(jobs_each_unfinished(f->store, collect, all, &f->err));
    assert_string_equal(all, "job_1 job_2 job_4 ");
}

static void test_recover(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    OK(insert_job(f, "job_1", "m", 0, 3)); /* will run, with attempts left */
    OK(insert_job(f, "job_2", "m", 0, 1)); /* will run its last attempt */
    OK(insert_job(f, "job_3", "m", 0, 3)); /* will be cancelling */
    claim(f, "job_1");
    claim(f, "job_2");
    claim(f, "job_3");
    enum job_status status;
    OK(jobs_cancel(f->store, "job_3", 1, &status, &f->err));
    train(f, "job_4", "m");
    add_job(f, "job_5"); /* stays queued */
    int64_t count = -1;
    OK(jobs_recover(f->store, NULL, 9000, &count, &f->err));
    assert_int_equal(count, 3);
    assert_int_equal(status_of(f, "job_1"), JOB_QUEUED);
    assert_int_equal(status_of(f, "job_2"), JOB_FAILED);
    assert_int_equal(status_of(f, "job_3"), JOB_CANCELLED);
    assert_int_equal(status_of(f, "job_4"), JOB_SUCCEEDED);
    assert_int_equal(status_of(f, "job_5"), JOB_QUEUED);
    check_gapless(f, "job_1", 3);
    check_gapless(f, "job_5", 1);
    struct job_row row;
    OK(jobs_get(f->store, "job_2", &row, &f->err));
    assert_contains(row.error, "The daemon stopped while the job ran");
    job_row_deinit(&row);
    OK(jobs_get(f->store, "job_3", &row, &f->err));
    assert_string_equal(row.reason, "cancelled");
    assert_null(row.error);
    job_row_deinit(&row);
    OK(jobs_recover(f->store, NULL, 9000, &count, &f->err));
    assert_int_equal(count, 0);
}

static void read_checkpoint(void *context, const char *job, char ret[JOBS_CHECKPOINT_SIZE])
{
    snprintf(ret, JOBS_CHECKPOINT_SIZE, "%s", strcmp(job, JOB) == 0 ? (char *)context : "");
}

/* The daemon was killed three times while the job got ahead, then as often while it did not. */
static void test_recovery_of_what_got_ahead(void **state)
{
    struct fixture *f = *state;
    char checkpoint[8] = "0";
    const struct jobs_kept kept = {.read = read_checkpoint, .context = checkpoint};
    int64_t count;
    struct job_row row;
    add_dataset(f, "ds_1");
    OK(insert_job(f, JOB, "m", 0, 3));
    for (int i = 0; i < 6; i++) {
        claim_with(f, checkpoint, i < 3 ? 1 : i - 2);
        checkpoint[0] = (char)(i < 3 ? '1' + i : checkpoint[0]);
        OK(jobs_recover(f->store, &kept, 9000, &count, &f->err));
        OK(jobs_get(f->store, JOB, &row, &f->err));
        assert_int_equal(row.status, i < 5 ? JOB_QUEUED : JOB_FAILED);
        assert_string_equal(row.reason, i < 3 ? "daemon_stopped" : "worker_lost");
        job_row_deinit(&row);
    }
}

TEST_MAIN(STORE_TEST(test_attempts_that_get_ahead),
          STORE_TEST(test_an_end_of_what_only_seems_to_get_ahead),
          STORE_TEST(test_recovery_of_what_got_ahead), STORE_TEST(test_recover),
          STORE_TEST(test_each_unfinished), STORE_TEST(test_attempts_wait_longer_and_longer),
          STORE_TEST(test_a_job_that_waits_lets_others_pass),
          STORE_TEST(test_a_clock_that_is_put_back), STORE_TEST(test_a_clock_that_jumps))
