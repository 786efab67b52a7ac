#include "store/migrations.h"

#include "store/webhooks.h"
#include "unit/store_fixture.h"

static const char first[] = "CREATE TABLE t (i INTEGER) STRICT; INSERT INTO t VALUES (1);";
static const char second[] = "ALTER TABLE t ADD COLUMN j INTEGER; UPDATE t SET j = i + 1;";
static const char broken[] = "INSERT INTO t VALUES (5, 5); CREATE TABLE t (again INTEGER);";

static int version_of(struct fixture *f, struct sql *db)
{
    int version = -1;
    OK(migrations_version(db, &version, &f->err));
    return version;
}

/* An old database is brought up to date in order, with its rows; nothing is applied twice. */
static void test_step_by_step(void **state)
{
    struct fixture *f = *state;
    const struct migrations old = {.texts = (const char *const[]){first}, .count = 1};
    const struct migrations new = {.texts = (const char *const[]){first, second}, .count = 2};
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    assert_int_equal(version_of(f, db), 0);
    OK(migrations_run(db, &old, &f->err));
    assert_int_equal(version_of(f, db), 1);
    sql_close(db);

    OK(sql_open(f->path, &db, &f->err));
    OK(migrations_run(db, &new, &f->err));
    OK(migrations_run(db, &new, &f->err));
    assert_int_equal(version_of(f, db), 2);
    int64_t j = 0;
    assert_int_equal(sql_number(db, "SELECT j FROM t", SQL_NO_ARGS, &j, &f->err), 1);
    assert_int_equal(j, 2);
    FAILS(migrations_run(db, &old, &f->err), ERR_UNSUPPORTED, "schema 2; this one knows 1");
    assert_int_equal(version_of(f, db), 2);
    sql_close(db);
}

/* A migration that fails leaves the version before it, whole. */
static void test_failure_leaves_the_last_version(void **state)
{
    struct fixture *f = *state;
    const struct migrations list = {.texts = (const char *const[]){first, second, broken},
                                    .count = 3};
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    FAILS(migrations_run(db, &list, &f->err), ERR_INTERNAL, "refused a statement");
    assert_int_equal(version_of(f, db), 2);
    int64_t count = 0;
    assert_int_equal(sql_number(db, "SELECT count(*) FROM t", SQL_NO_ARGS, &count, &f->err), 1);
    assert_int_equal(count, 1);
    sql_close(db);
}

static void test_other_programs(void **state)
{
    struct fixture *f = *state;
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    OK(sql_script(db, "CREATE TABLE recipes (name TEXT)", &f->err));
    int version;
    FAILS(migrations_version(db, &version, &f->err), ERR_UNSUPPORTED, "another program");
    FAILS(migrations_run(db, &migrations, &f->err), ERR_UNSUPPORTED, "another program");
    OK(sql_script(db, "PRAGMA user_version = 1; PRAGMA application_id = 7", &f->err));
    FAILS(migrations_run(db, &migrations, &f->err), ERR_UNSUPPORTED, "another program");
    sql_close(db);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_UNSUPPORTED, "another program");
}

/* A job of the schema's first version is there in the newest one, without a data set of centers. */
static void test_jobs_of_version_1(void **state)
{
    struct fixture *f = *state;
    const struct migrations old = {.texts = migrations.texts, .count = 1};
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    OK(migrations_run(db, &old, &f->err));
    OK(sql_script(db,
                  "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, "
                  "created_ms, queued_ms) VALUES ('job_1', 'queued', 'm', 'ds_1', "
                  "'{\"metadata\":{\"team\":\"a\"}}', 0, 3, 5, 5)",
                  &f->err));
    sql_close(db);

    fixture_open(f);
    struct job_row row;
    OK(jobs_get(f->store, "job_1", &row, &f->err));
    assert_string_equal(row.dataset, "ds_1");
    assert_string_equal(row.centers_dataset, "");
    assert_null(row.plan);
    assert_int_equal(row.created_ms, 5);
    job_row_deinit(&row);
    assert_int_equal(number_of(f, "SELECT count(*) FROM job_metadata "
                                  "WHERE name = 'team' AND value = 'a' AND job = 'job_1'"),
                     1);
    OK(sql_open(f->path, &db, &f->err));
    assert_int_equal(version_of(f, db), migrations.count);
    sql_close(db);
}

/* A database as that version of the program left it, which a statement has filled, opened. */
static void open_old(struct fixture *f, int version, const char *filling)
{
    const struct migrations old = {.texts = migrations.texts, .count = version};
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    OK(migrations_run(db, &old, &f->err));
    assert_int_equal(version_of(f, db), version);
    OK(sql_script(db, filling, &f->err));
    sql_close(db);
    fixture_open(f);
}

static void remove_database(struct fixture *f)
{
    fixture_close(f);
    assert_int_equal(unlink(f->path), 0);
}

static void check_ended_job(struct fixture *f)
{
    struct job_row row;
    struct event_row *events = NULL;
    int64_t count = 0;
    OK(jobs_get(f->store, "job_1", &row, &f->err));
    assert_int_equal(row.status, JOB_SUCCEEDED);
    assert_int_equal(row.model_version, 1);
    assert_int_equal(row.finished_ms, 9);
    assert_int_equal(row.next_attempt_ms, 0);
    assert_null(row.promotion);
    assert_null(row.plan);
    job_row_deinit(&row);
    OK(events_list(f->store, "job_1", 0, EVENTS_LIMIT_MAX, &events, &count, &f->err));
    assert_int_equal(count, 2);
    assert_string_equal(events[1].message, "Done.");
    events_list_free(events, count);
}

static void check_model(struct fixture *f)
{
    struct model_row model;
    void *data = NULL;
    size_t size = 0;
    OK(models_get(f->store, "m", 0, &model, &f->err));
    assert_string_equal(model.sha256, SHA);
    assert_int_equal(models_chunk(f->store, model.key, 0, &data, &size, &f->err), 1);
    assert_int_equal(size, 3);
    mem_free(data);
    model_row_deinit(&model);
}

/* A job that has ended, its events and its model are read from every version there has been, and
 * the next job goes on from them. */
static void test_rows_of_every_version(void **state)
{
    static const char filling[] =
        "INSERT INTO datasets (id, name, info, rows, columns, bytes, sha256, created_ms) "
        "VALUES ('ds_1', 'd', '{}', 5, 2, 80, '" SHA "', 1);"
        "INSERT INTO jobs (id, status, reason, model, model_version, dataset, spec, worker, "
        "priority, attempt, max_attempts, created_ms, queued_ms, started_ms, finished_ms, "
        "last_event) VALUES ('job_1', 'succeeded', 'converged', 'm', 1, 'ds_1', '{}', 'cpu:0', 0, "
        "1, 3, 5, 5, 6, 9, 2);"
        "INSERT INTO events (job, id, created_ms, level, type, message, data) VALUES "
        "(1, 1, 5, 'info', 'status', 'Queued.', NULL), (1, 2, 9, 'info', 'status', 'Done.', NULL);"
        "INSERT INTO model_names VALUES ('m', 2);"
        "INSERT INTO models (name, version, job, dataset, description, sha256, bytes, chunks, "
        "created_ms) VALUES ('m', 1, 'job_1', 'ds_1', '{}', '" SHA "', 3, 1, 9);"
        "INSERT INTO model_chunks VALUES (1, 0, x'010203');";
    struct fixture *f = *state;
    for (int version = 1; version < migrations.count; version++) {
        open_old(f, version, filling);
        check_ended_job(f);
        check_model(f);
        assert_int_equal(train(f, "job_2", "m"), 2);
        remove_database(f);
    }
}

/* Jobs that end from now on tell of it, those of before do not. */
static void test_ends_of_version_12(void **state)
{
    struct fixture *f = *state;
    open_old(f, 12,
             "INSERT INTO jobs (id, status, reason, model, dataset, spec, worker, priority, "
             "attempt, max_attempts, created_ms, queued_ms, started_ms, finished_ms) VALUES "
             "('job_1', 'failed', 'failed', 'm', 'ds_1', '{\"webhook\":{\"url\":\"http://x/\","
             "\"events\":[\"cancelled\",\"failed\"]}}', 'cpu:0', 0, 1, 3, 5, 5, 6, 9), "
             "('job_2', 'queued', NULL, 'm', 'ds_1', '{\"webhook\":{\"url\":\"http://x/\","
             "\"events\":[\"cancelled\",\"failed\"]}}', NULL, 0, 0, 3, 5, 5, NULL, NULL);");
    struct webhook_row row;
    enum job_status status;
    assert_int_equal(webhooks_of_job(f->store, "job_1", &row, &f->err), 0);
    OK(jobs_cancel(f->store, "job_2", 20, &status, &f->err));
    assert_int_equal(webhooks_of_job(f->store, "job_1", &row, &f->err), 0);
    assert_int_equal(webhooks_of_job(f->store, "job_2", &row, &f->err), 1);
    assert_string_equal(row.state, "pending");
    webhook_row_deinit(&row);
}

/* An answer from before answers had owners is given to whoever asks again. */
static void test_answers_of_version_13(void **state)
{
    struct fixture *f = *state;
    open_old(f, 13,
             "INSERT INTO idempotency_keys (operation, key, request, status, location, body, "
             "created_ms) VALUES ('jobs', 'k', '" SHA "', 202, '/v1/jobs/job_1', '{}', 50);");
    static const char *const owners[] = {"", "alice", "bob"};
    for (size_t i = 0; i < 3; i++) {
        struct idempotency_row row;
        assert_int_equal(idempotency_get(f->store, "jobs", owners[i], "k", 0, &row, &f->err), 1);
        assert_string_equal(row.location, "/v1/jobs/job_1");
        assert_string_equal(row.body, "{}");
        assert_int_equal(row.created_ms, 50);
        idempotency_row_deinit(&row);
    }
    int64_t count = 0;
    OK(idempotency_expire(f->store, 51, 10, &count, &f->err));
    assert_int_equal(count, 1);
}

static void check_claims(struct fixture *f, const char *id, const char *device, int64_t bytes,
                         const char *plan)
{
    struct job_row row;
    OK(jobs_get(f->store, id, &row, &f->err));
    assert_string_equal(row.wanted_device, device);
    assert_int_equal(row.host_bytes, bytes);
    if (plan != NULL) {
        assert_string_equal(row.plan, plan);
    } else {
        assert_null(row.plan);
    }
    job_row_deinit(&row);
}

#define PLAN_15(device, cache)                                                                     \
    "{\"solver\":\"pcg\",\"memory\":{\"host_bytes\":700,\"device_bytes\":" device                  \
    ",\"reserved_bytes\":900,\"parts\":{\"process\":20,\"kernel_cache\":" cache "}}"

/* What claims go by is taken from specifications and plans, and plans say what they did not. One
 * that is damaged costs its own job at most. */
static void test_jobs_of_version_15(void **state)
{
    struct fixture *f = *state;
    open_old(
        f, 15,
        "INSERT INTO jobs (id, status, model, dataset, spec, plan, priority, max_attempts, "
        "created_ms, queued_ms) VALUES "
        "('job_1', 'queued', 'm', 'ds_1', '{}', NULL, 0, 3, 5, 5), "
        "('job_2', 'queued', 'm', 'ds_1', '{\"device\":\"cuda:1\"}', '" PLAN_15(
            "800",
            "64") "}', 0, 3, 5, 5), "
                  "('job_3', 'queued', 'm', 'ds_1', '{\"device\":\"cpu\"}', '" PLAN_15(
                      "0",
                      "0") ",\"kernel_cache_bytes\":7}', 0, 3, 5, 5), "
                           "('job_4', 'queued', 'm', 'ds_1', '{', '{\"memory\":', 0, 3, 5, 5), "
                           "('job_5', 'queued', 'm', 'ds_1', '[{\"device\":7}]', '{\"memory\":5}', "
                           "0, 3, 5, 5), "
                           "('job_6', 'queued', 'm', 'ds_1', '{\"device\":5}', NULL, 0, 3, 5, 5), "
                           "('job_7', 'queued', 'm', 'ds_1', "
                           "'{\"device\":"
                           "\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\"}', "
                           "NULL, 0, 3, 5, 5);");
    check_claims(f, "job_6", "auto", 0, NULL);
    check_claims(f, "job_7", "auto", 0, NULL); /* 10 letters, 20 bytes */
    check_claims(f, "job_1", "auto", 0, NULL);
    check_claims(f, "job_2", "cuda:1", 700, PLAN_15("800", "64") ",\"kernel_cache_bytes\":64}");
    check_claims(f, "job_3", "cpu", 900, PLAN_15("0", "0") ",\"kernel_cache_bytes\":7}");
    check_claims(f, "job_4", "auto", 0, "{\"memory\":");
    check_claims(f, "job_5", "auto", 0, "{\"memory\":5}");
    struct job_row row;
    assert_int_equal(claim_next(f, "cuda:1", 3000, &row), 1);
    assert_string_equal(row.id, "job_1");
    job_row_deinit(&row);
    assert_int_equal(claim_next(f, "cuda:1", 3000, &row), 1);
    assert_string_equal(row.id, "job_2");
    job_row_deinit(&row);
}

/* No model of a database from before pins is pinned. */
static void test_models_of_version_10(void **state)
{
    struct fixture *f = *state;
    open_old(f, 10, "");
    struct model_row *rows = NULL;
    int64_t count = -1;
    OK(models_pinned(f->store, &rows, &count, &f->err));
    assert_int_equal(count, 0);
    models_list_free(rows, count);
}

/* Nothing was learned before anything was. */
static void test_experience_of_version_17(void **state)
{
    struct fixture *f = *state;
    open_old(f, 17, "");
    assert_int_equal(number_of(f, "SELECT count(*) FROM plan_experience"), 0);
    assert_int_equal(store_schema_version(f->store), migrations.count);
}

/* The queue of a database from before it was counted by blocks. */
static void test_queue_of_version_18(void **state)
{
    struct fixture *f = *state;
    open_old(f, 18,
             "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) "
             "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, "
             "created_ms, queued_ms) SELECT printf('job_%03d', i), "
             "iif(i % 3 = 0, 'paused', 'queued'), 'm', 'ds_1', '{}', i % 2, 3, 5, 5 FROM n;");
    int64_t count = -1;
    OK(jobs_count(f->store, JOB_QUEUED, &count, &f->err));
    assert_int_equal(count, 400);
    OK(jobs_queue_position(f->store, "job_001", &count, &f->err));
    assert_int_equal(count, 0);
    OK(jobs_queue_position(f->store, "job_598", &count, &f->err));
    assert_int_equal(count, 399); /* of the least priority, before 600, which is paused */
}

/* Jobs of a database from before their models were kept keep them, where they have not finished. */
static void test_starts_of_version_20(void **state)
{
    struct fixture *f = *state;
#define START_20 "'{\"warm_start\":{\"model\":\"m\",\"version\":1}}', 0, 3, 5, 5"
    open_old(f, 20,
             "INSERT INTO models (name, version, job, dataset, description, sha256, created_ms) "
             "VALUES ('m', 1, 'job_0', 'ds_1', '{}', '" SHA "', 5);"
             "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, "
             "created_ms, queued_ms) VALUES ('job_1', 'queued', 'n', 'ds_1', " START_20 "), "
             "('job_2', 'queued', 'n', 'ds_1', '{', 0, 3, 5, 5);"
             "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, "
             "created_ms, queued_ms, finished_ms) VALUES "
             "('job_3', 'cancelled', 'n', 'ds_1', " START_20 ", 6);");
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_holds"), 1);
    FAILS(models_delete(f->store, "m", 1, &f->err), ERR_CONFLICT, "job_1");
}

static int64_t claimed_attempt(struct fixture *f)
{
    struct job_row row;
    assert_int_equal(claim_next(f, "cpu", 3000, &row), 1);
    const int64_t attempt = row.attempt;
    job_row_deinit(&row);
    return attempt;
}

/* Attempts of jobs from before losses were counted: one that was put aside goes on. */
static void test_attempts_of_version_19(void **state)
{
    struct fixture *f = *state;
    open_old(f, 19,
             "INSERT INTO jobs (id, status, reason, attempt, model, dataset, spec, priority, "
             "max_attempts, created_ms, queued_ms, worker, started_ms) VALUES "
             "('job_1', 'queued', NULL, 0, 'm', 'ds_1', '{}', 9, 3, 5, 5, NULL, NULL), "
             "('job_2', 'queued', 'daemon_stopped', 2, 'm', 'ds_1', '{}', 8, 3, 5, 5, NULL, NULL), "
             "('job_3', 'queued', 'worker_lost', 2, 'm', 'ds_1', '{}', 7, 3, 5, 5, NULL, NULL), "
             "('job_4', 'running', NULL, 3, 'm', 'ds_1', '{}', 6, 3, 5, 5, 'cpu:0', 6);");
    assert_int_equal(claimed_attempt(f), 1);
    assert_int_equal(claimed_attempt(f), 2);
    assert_int_equal(claimed_attempt(f), 3);
    enum job_status status;
    OK(jobs_put_aside(f->store, "job_4", 4000, &status, &f->err));
    assert_int_equal(claimed_attempt(f), 3);
}

/* A data set of a database from before recipes is there, and found by none. */
static void test_datasets_of_version_14(void **state)
{
    struct fixture *f = *state;
    const struct migrations old = {.texts = migrations.texts, .count = 14};
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    OK(migrations_run(db, &old, &f->err));
    OK(sql_script(db,
                  "INSERT INTO datasets (id, name, info, rows, columns, bytes, sha256, created_ms) "
                  "VALUES ('ds_1', 'iris', '{}', 150, 5, 6000, '" SHA "', 5)",
                  &f->err));
    sql_close(db);
    fixture_open(f);
    struct dataset_row row;
    OK(datasets_get(f->store, "ds_1", &row, &f->err));
    assert_string_equal(row.recipe, "");
    dataset_row_deinit(&row);
    FAILS(datasets_find(f->store, SHA, SHA, &row, &f->err), ERR_NOT_FOUND, "no such data set");
}

TEST_MAIN(EMPTY_TEST(test_models_of_version_10), EMPTY_TEST(test_rows_of_every_version),
          EMPTY_TEST(test_ends_of_version_12), EMPTY_TEST(test_answers_of_version_13),
          EMPTY_TEST(test_experience_of_version_17), EMPTY_TEST(test_queue_of_version_18),
          EMPTY_TEST(test_datasets_of_version_14), EMPTY_TEST(test_attempts_of_version_19),
          EMPTY_TEST(test_starts_of_version_20), EMPTY_TEST(test_jobs_of_version_15),
          EMPTY_TEST(test_jobs_of_version_1), EMPTY_TEST(test_step_by_step),
          EMPTY_TEST(test_failure_leaves_the_last_version), EMPTY_TEST(test_other_programs))
