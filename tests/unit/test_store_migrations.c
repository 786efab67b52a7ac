#include "store/migrations.h"

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

/* No model of a database from before pins is pinned. */
static void test_models_of_version_10(void **state)
{
    struct fixture *f = *state;
    const struct migrations old = {.texts = migrations.texts, .count = 10};
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    OK(migrations_run(db, &old, &f->err));
    sql_close(db);
    fixture_open(f);
    struct model_row *rows = NULL;
    int64_t count = -1;
    OK(models_pinned(f->store, &rows, &count, &f->err));
    assert_int_equal(count, 0);
    models_list_free(rows, count);
}

TEST_MAIN(EMPTY_TEST(test_models_of_version_10), EMPTY_TEST(test_jobs_of_version_1),
          EMPTY_TEST(test_step_by_step), EMPTY_TEST(test_failure_leaves_the_last_version),
          EMPTY_TEST(test_other_programs))
