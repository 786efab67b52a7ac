/* Reports of jobs when the store loses a batch, or there is no memory; what is usual is tested over
 * HTTP (tests/http/test_jobs.py, test_storage.py). */
#include "server/jobs/job_report.h"

#include "server/app.h"
#include "unit/store_fixture.h"

struct bench {
    struct fixture *f;
    struct app app;
    struct job_report report;
};

static void on_batch(void *context, bool kept)
{
    struct bench *b = context;
    job_report_batch(&b->report, kept);
}

static void bench_open(struct bench *b, struct fixture *f)
{
    struct job_row row;
    *b = (struct bench){.f = f};
    b->app.store = f->store;
    b->app.log = (struct log){.fd = -1, .level = LOG_OFF, .program = "test"};
    b->app.config.data_dir = f->dir;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    claim(f, "job_1");
    OK(jobs_get(f->store, "job_1", &row, &f->err));
    OK(job_report_init(&b->report, &b->app, &row));
    job_row_deinit(&row);
    store_watch_batches(f->store, on_batch, b);
}

static void bench_close(struct bench *b)
{
    store_watch_batches(b->f->store, NULL, NULL);
    job_report_deinit(&b->report);
}

static void add_piece(struct bench *b, size_t size)
{
    struct fixture *f = b->f;
    char *piece = mem_zalloc(size);
    assert_non_null(piece);
    OK(backlog_add_piece(&b->report.backlog, piece, size, &f->err));
    mem_free(piece);
}

/* The commit of a large batch fails for good: the flush ends, what was said waits, and the job
 * fails with that error. */
static void test_a_batch_that_cannot_be_kept(void **state)
{
    struct fixture *f = *state;
    struct bench b;
    struct job_row row;
    bench_open(&b, f);
    cleanup_json struct json *said = json_new_object();
    json_set_string(said, "message", "hello");
    OK(backlog_add_event(&b.report.backlog, said, 3000, &f->err));
    assert_int_equal(job_report_flush(&b.report), 0);
    OK(sql_script(f->store->db, "ROLLBACK", &f->err)); /* the commit finds nothing */
    add_piece(&b, MODELS_CHUNK_MAX);
    assert_int_equal(job_report_flush(&b.report), -ERR_INTERNAL);
    assert_int_equal(b.report.failure.code, ERR_INTERNAL);
    assert_true(b.report.late && job_report_waits(&b.report));
    assert_int_equal(b.report.staged, 0);
    cleanup_json struct json *done = json_new_object();
    json_set_object(done, "model");
    json_set_string(done, "reason", "converged");
    OK(job_report_done(&b.report, done));
    OK(store_flush(f->store, &f->err));
    assert_false(b.report.late || job_report_waits(&b.report));
    OK(jobs_get(f->store, "job_1", &row, &f->err));
    assert_int_equal(row.status, JOB_FAILED);
    assert_string_equal(row.reason, "failed");
    assert_contains(row.error, b.report.failure.detail);
    job_row_deinit(&row);
    assert_int_equal(number_of(f, "SELECT count(*) FROM events WHERE message = 'hello'"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 0);
    bench_close(&b);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct app app = {.store = NULL};
    const struct job_row row = {.id = "job_1", .spec = (char[]){"{}"}, .plan = (char[]){"{}"}};
    struct job_report report;
    for (int64_t n = 1; n <= 2; n++) {
        mem_fail_nth(n);
        const int r = job_report_init(&report, &app, &row);
        mem_fail_nth(0);
        assert_true(r == 0 || (report.spec == NULL && report.plan == NULL));
        assert_string_equal(report.job, "job_1");
        job_report_deinit(&report);
    }
}

TEST_MAIN(STORE_TEST(test_a_batch_that_cannot_be_kept), cmocka_unit_test(test_no_memory))
