#include "store/sql.h"

#include "base/clock.h"
#include "unit/store_fixture.h"

/* A bare connection on the fixture's path. */
static struct sql *open_bare(struct fixture *f)
{
    struct sql *db;
    OK(sql_open(f->path, &db, &f->err));
    return db;
}

static void test_values_and_columns(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    static const char insert[] = "INSERT INTO t VALUES (?1, ?2, ?3)";
    static const char select[] = "SELECT i, t, b FROM t ORDER BY rowid";
    OK(sql_script(db, "CREATE TABLE t (i INTEGER, t TEXT, b BLOB) STRICT", &f->err));
    OK(sql_run(db, insert, SQL_ARGS(sql_int(INT64_MIN), sql_text("é"), sql_blob("a\0b", 3)),
               &f->err));
    OK(sql_run(db, insert, SQL_ARGS(sql_int(0), sql_text(NULL), sql_blob(NULL, 0)), &f->err));
    OK(sql_run(db, insert, SQL_ARGS(sql_int(1), sql_text(""), sql_blob("", 0)), &f->err));
    assert_int_equal(sql_changes(db), 1);

    struct sql_stmt *st = NULL;
    OK(sql_start(db, select, SQL_NO_ARGS, &st, &f->err));
    assert_int_equal(sql_next(st, &f->err), 1);
    assert_true(sql_col_int(st, 0) == INT64_MIN);
    char *text = sql_col_text(st, 1);
    assert_string_equal(text, "é");
    mem_free(text);
    size_t size;
    void *blob = sql_col_blob(st, 2, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(blob, "a\0b", 3);
    mem_free(blob);
    char fixed[3];
    sql_col_fixed(st, 1, fixed, sizeof(fixed));
    assert_string_equal(fixed, "é");
    OK(sql_row_check(st, &f->err));
    sql_col_fixed(st, 1, fixed, 2); /* one byte short */
    FAILS(sql_row_check(st, &f->err), ERR_CORRUPT, "wrong form");

    assert_int_equal(sql_next(st, &f->err), 1);
    assert_null(sql_col_text(st, 1));
    assert_null(sql_col_blob(st, 2, &size));
    assert_int_equal(size, 0);
    sql_col_fixed(st, 1, fixed, sizeof(fixed));
    assert_string_equal(fixed, "");

    assert_int_equal(sql_next(st, &f->err), 1);
    text = sql_col_text(st, 1);
    assert_string_equal(text, "");
    mem_free(text);
    blob = sql_col_blob(st, 2, &size);
    assert_non_null(blob);
    assert_int_equal(size, 0);
    mem_free(blob);
    assert_int_equal(sql_next(st, &f->err), 0);
    sql_done(st);
    sql_close(db);
}

/* A kept statement starts afresh, with no value left from the last time. */
static void test_statements_are_kept(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    static const char echo[] = "SELECT ?1";
    static const char count[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                                "WHERE i < 5) SELECT i FROM n";
    for (int64_t i = 0; i < 100; i++) {
        int64_t n = -1;
        assert_int_equal(sql_number(db, echo, SQL_ARGS(sql_int(i)), &n, &f->err), 1);
        assert_int_equal(n, i);
    }
    struct sql_stmt *first = NULL, *second = NULL;
    OK(sql_start(db, count, SQL_NO_ARGS, &first, &f->err));
    assert_int_equal(sql_next(first, &f->err), 1);
    FAILS(sql_start(db, count, SQL_NO_ARGS, &second, &f->err), ERR_INTERNAL, "in use");
    sql_done(first);
    OK(sql_start(db, count, SQL_NO_ARGS, &second, &f->err));
    assert_ptr_equal(first, second);
    assert_int_equal(sql_next(second, &f->err), 1);
    assert_int_equal(sql_col_int(second, 0), 1);
    sql_done(second);
    sql_done(NULL);
    int64_t n;
    FAILS(sql_number(db, echo, SQL_NO_ARGS, &n, &f->err), ERR_INTERNAL, "got 0 values, not 1");
    FAILS(sql_run(db, "SELEKT 1", SQL_NO_ARGS, &f->err), ERR_INTERNAL, "code 1");
    assert_null(sql_close(NULL));
    sql_close(db);
}

static void test_more_statements_than_the_first_space(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    static char texts[100][32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++) {
            snprintf(texts[i], sizeof(texts[i]), "SELECT %d", i);
            int64_t n = -1;
            assert_int_equal(sql_number(db, texts[i], SQL_NO_ARGS, &n, &f->err), 1);
            assert_int_equal(n, i);
        }
    }
    sql_close(db);
}

static void test_constraints(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    OK(sql_script(db,
                  "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER NOT NULL UNIQUE "
                  "CHECK (n > 0)) STRICT; CREATE TABLE b (a INTEGER REFERENCES a (id) "
                  "ON DELETE RESTRICT) STRICT; INSERT INTO a VALUES (1, 1); "
                  "INSERT INTO b VALUES (1);",
                  &f->err));
    FAILS(sql_script(db, "INSERT INTO b VALUES (7)", &f->err), ERR_NOT_FOUND, "does not exist");
    FAILS(sql_script(db, "INSERT INTO a VALUES (2, 1)", &f->err), ERR_CONFLICT, "already");
    FAILS(sql_script(db, "INSERT INTO a VALUES (1, 2)", &f->err), ERR_CONFLICT, "already");
    FAILS(sql_script(db, "DELETE FROM a", &f->err), ERR_CONFLICT, "still refers");
    FAILS(sql_script(db, "INSERT INTO a VALUES (2, 0)", &f->err), ERR_INVALID, "accepts");
    FAILS(sql_script(db, "INSERT INTO a VALUES (2, NULL)", &f->err), ERR_INVALID, "accepts");
    FAILS(sql_script(db, "INSERT INTO a VALUES (2, 'x')", &f->err), ERR_INVALID, "accepts");
    FAILS(sql_script(db, "INSERT INTO b VALUES (zeroblob(1000000001))", &f->err), ERR_TOO_LARGE,
          "too large");
    sql_close(db);
}

static void test_transactions(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    static const char insert[] = "INSERT INTO t VALUES (1)";
    static const char count[] = "SELECT count(*) FROM t";
    int64_t n = -1;
    OK(sql_script(db, "CREATE TABLE t (i INTEGER) STRICT", &f->err));

    OK(sql_begin(db, &f->err));
    OK(sql_run(db, insert, SQL_NO_ARGS, &f->err));
    assert_int_equal(sql_end(db, -ERR_CONFLICT, &f->err), -ERR_CONFLICT);
    sql_number(db, count, SQL_NO_ARGS, &n, &f->err);
    assert_int_equal(n, 0);

    OK(sql_begin(db, &f->err));
    OK(sql_run(db, insert, SQL_NO_ARGS, &f->err));
    assert_int_equal(sql_end(db, 7, &f->err), 7);
    sql_number(db, count, SQL_NO_ARGS, &n, &f->err);
    assert_int_equal(n, 1);

    /* A failure to commit is a failure of the whole: the deferred key has no row. */
    OK(sql_script(db,
                  "CREATE TABLE c (p INTEGER REFERENCES p (i) DEFERRABLE INITIALLY DEFERRED);"
                  "CREATE TABLE p (i INTEGER PRIMARY KEY)",
                  &f->err));
    OK(sql_begin(db, &f->err));
    OK(sql_run(db, insert, SQL_NO_ARGS, &f->err));
    OK(sql_script(db, "INSERT INTO c VALUES (9)", &f->err));
    FAILS(sql_end(db, 0, &f->err), ERR_NOT_FOUND, "does not exist");
    sql_number(db, count, SQL_NO_ARGS, &n, &f->err);
    assert_int_equal(n, 1);
    OK(sql_begin(db, &f->err)); /* nothing was left open */
    OK(sql_end(db, 0, &f->err));
    sql_close(db);
}

static void test_busy(void **state)
{
    struct fixture *f = *state;
    struct sql *one = open_bare(f), *two = open_bare(f);
    OK(sql_script(one, "CREATE TABLE t (i INTEGER) STRICT", &f->err));
    OK(sql_begin(one, &f->err));
    sql_set_patience(two, 300);
    assert_int_equal(sql_refusal(two), ERR_OK);
    double began = clock_monotonic_s();
    FAILS(sql_begin(two, &f->err), ERR_BUSY, "try again");
    assert_true(clock_monotonic_s() - began >= 0.2);
    assert_int_equal(sql_refusal(two), ERR_BUSY);
    began = clock_monotonic_s(); /* it has waited once */
    for (int i = 0; i < 10; i++) {
        FAILS(sql_begin(two, &f->err), ERR_BUSY, "try again");
        FAILS(sql_probe(two, &f->err), ERR_BUSY, "try again");
    }
    assert_true(clock_monotonic_s() - began < 3.0); /* Half of what waiting each time would take. */
    OK(sql_end(one, 0, &f->err));
    OK(sql_begin(two, &f->err));
    OK(sql_end(two, 0, &f->err));
    assert_int_equal(sql_refusal(two), ERR_OK);
    int64_t patience = 0;
    sql_number(two, "PRAGMA busy_timeout", SQL_NO_ARGS, &patience, &f->err);
    assert_int_equal(patience, 300); /* for the next time */
    sql_close(two);
    sql_close(one);
}

/* A full database: a clear error, and nothing half-written. */
static void test_full(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    static const char insert[] = "INSERT INTO t VALUES (zeroblob(?1))";
    static const char count[] = "SELECT count(*) FROM t";
    int64_t n = -1;
    OK(sql_script(db, "CREATE TABLE t (b BLOB) STRICT; PRAGMA max_page_count = 20", &f->err));
    OK(sql_begin(db, &f->err));
    OK(sql_run(db, insert, SQL_ARGS(sql_int(100)), &f->err));
    const int rc = sql_run(db, insert, SQL_ARGS(sql_int(1000000)), &f->err);
    assert_int_equal(rc, -ERR_DISK_FULL);
    assert_contains(f->err.detail, "disk is full");
    assert_int_equal(sql_end(db, rc, &f->err), -ERR_DISK_FULL);
    sql_number(db, count, SQL_NO_ARGS, &n, &f->err);
    assert_int_equal(n, 0);
    assert_int_equal(sql_refusal(db), ERR_DISK_FULL);
    OK(sql_begin(db, &f->err));
    OK(sql_end(db, 0, &f->err));
    assert_int_equal(sql_refusal(db), ERR_DISK_FULL); /* nothing was written */
    OK(sql_begin(db, &f->err));
    OK(sql_run(db, insert, SQL_ARGS(sql_int(100)), &f->err));
    OK(sql_end(db, 0, &f->err));
    assert_int_equal(sql_refusal(db), ERR_OK);
    sql_close(db);
}

/* It writes, and changes nothing. */
static void test_probe(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    int64_t version = 0;
    OK(sql_script(db, "CREATE TABLE t (i INTEGER); PRAGMA user_version = 7", &f->err));
    OK(sql_probe(db, &f->err));
    sql_number(db, "PRAGMA user_version", SQL_NO_ARGS, &version, &f->err);
    assert_int_equal(version, 7);
    OK(sql_script(db, "PRAGMA query_only = ON", &f->err));
    FAILS(sql_probe(db, &f->err), ERR_READ_ONLY, "may not be written");
    assert_int_equal(sql_refusal(db), ERR_READ_ONLY);
    OK(sql_script(db, "PRAGMA query_only = OFF", &f->err));
    OK(sql_probe(db, &f->err));
    assert_int_equal(sql_refusal(db), ERR_OK);
    sql_close(db);
}

/* ---- batches ---- */

static void put(struct fixture *f, struct sql *db, int number)
{
    static const char insert[] = "INSERT INTO t VALUES (?1)";
    OK(sql_begin_batched(db, &f->err));
    OK(sql_end_batched(db, sql_run(db, insert, SQL_ARGS(sql_int(number)), &f->err), &f->err));
}

/* The sum of what a second connection sees. */
static int64_t seen(struct fixture *f, struct sql *other)
{
    static const char sum[] = "SELECT coalesce(sum(i), 0) FROM t";
    int64_t n = -1;
    assert_int_equal(sql_number(other, sum, SQL_NO_ARGS, &n, &f->err), 1);
    return n;
}

static void count_commit(void *context, double seconds, int changes)
{
    int *told = context;
    assert_true(seconds >= 0.0);
    told[0]++;
    told[1] += changes;
}

static void open_two(struct fixture *f, struct sql **ret_db, struct sql **ret_other)
{
    *ret_db = open_bare(f);
    OK(sql_script(*ret_db, "PRAGMA journal_mode = WAL; CREATE TABLE t (i INTEGER UNIQUE) STRICT",
                  &f->err));
    *ret_other = open_bare(f);
}

static void test_batch(void **state)
{
    struct fixture *f = *state;
    struct sql *db, *other;
    int told[2] = {0, 0};
    open_two(f, &db, &other);
    sql_watch(db, count_commit, told);
    OK(sql_flush(db, &f->err)); /* nothing to do */
    put(f, db, 1);
    put(f, db, 2);
    assert_int_equal(seen(f, db), 3);
    assert_int_equal(seen(f, other), 0);
    OK(sql_flush(db, &f->err));
    assert_int_equal(seen(f, other), 3);
    put(f, db, 4);
    OK(sql_begin(db, &f->err));
    OK(sql_end(db, sql_run(db, "INSERT INTO t VALUES (8)", SQL_NO_ARGS, &f->err), &f->err));
    assert_int_equal(seen(f, other), 15); /* the batch went along */
    assert_int_equal(told[0], 2);
    assert_int_equal(told[1], 4);
    assert_int_equal(sql_losses(db), 0);
    sql_close(other);
    sql_close(db);
}

/* Whatever fails, of either kind, leaves the others of the batch. */
static void test_batch_keeps_what_did_not_fail(void **state)
{
    struct fixture *f = *state;
    static const char twice[] = "INSERT INTO t VALUES (1)";
    struct sql *db, *other;
    open_two(f, &db, &other);
    put(f, db, 1);
    OK(sql_begin_batched(db, &f->err));
    OK(sql_run(db, "INSERT INTO t VALUES (100)", SQL_NO_ARGS, &f->err));
    int rc = sql_run(db, twice, SQL_NO_ARGS, &f->err);
    assert_int_equal(sql_end_batched(db, rc, &f->err), -ERR_CONFLICT);
    OK(sql_begin(db, &f->err));
    OK(sql_run(db, "INSERT INTO t VALUES (200)", SQL_NO_ARGS, &f->err));
    rc = sql_run(db, twice, SQL_NO_ARGS, &f->err);
    assert_int_equal(sql_end(db, rc, &f->err), -ERR_CONFLICT);
    put(f, db, 2);
    assert_int_equal(seen(f, other), 0);
    OK(sql_flush(db, &f->err));
    assert_int_equal(seen(f, other), 3);
    assert_int_equal(sql_losses(db), 0);
    sql_close(other);
    sql_close(db);
}

/* A batch of one change that failed does not keep others from writing. */
static void test_empty_batch_holds_no_lock(void **state)
{
    struct fixture *f = *state;
    struct sql *db, *other;
    open_two(f, &db, &other);
    put(f, db, 1);
    OK(sql_flush(db, &f->err));
    OK(sql_begin_batched(db, &f->err));
    const int rc = sql_run(db, "INSERT INTO t VALUES (1)", SQL_NO_ARGS, &f->err);
    assert_int_equal(sql_end_batched(db, rc, &f->err), -ERR_CONFLICT);
    OK(sql_script(other, "PRAGMA busy_timeout = 0", &f->err));
    put(f, other, 2);
    OK(sql_flush(other, &f->err));
    assert_int_equal(sql_losses(db), 0);
    sql_close(other);
    sql_close(db);
}

/* A full disk takes the whole batch, and says so. */
static void test_lost_batch(void **state)
{
    struct fixture *f = *state;
    struct sql *db, *other;
    open_two(f, &db, &other);
    OK(sql_script(db, "CREATE TABLE blobs (b BLOB) STRICT; PRAGMA max_page_count = 20", &f->err));
    put(f, db, 1);
    OK(sql_begin_batched(db, &f->err));
    const int rc =
        sql_run(db, "INSERT INTO blobs VALUES (zeroblob(1000000))", SQL_NO_ARGS, &f->err);
    assert_int_equal(sql_end_batched(db, rc, &f->err), -ERR_DISK_FULL);
    assert_int_equal(sql_losses(db), 1);
    OK(sql_flush(db, &f->err)); /* there is none any more */
    assert_int_equal(seen(f, db), 0);
    put(f, db, 2);
    OK(sql_flush(db, &f->err));
    assert_int_equal(seen(f, other), 2);
    sql_close(other);
    sql_close(db);
}

static void test_read_only(void **state)
{
    struct fixture *f = *state;
    struct sql *db = open_bare(f);
    OK(sql_script(db, "PRAGMA query_only = ON", &f->err));
    FAILS(sql_script(db, "CREATE TABLE t (i INTEGER)", &f->err), ERR_READ_ONLY,
          "may not be written");
    sql_close(db);
    FAILS(sql_open("/nonexistent/folder/krrd.db", &db, &f->err), ERR_IO, "could not be opened");
}

static void test_lack_of_memory(void **state)
{
    struct fixture *f = *state;
    static char texts[4][32];
    for (int n = 1; n <= 4; n++) {
        struct sql *db = NULL;
        struct err err = {.code = ERR_OK};
        char *text = NULL;
        snprintf(texts[n - 1], sizeof(texts[n - 1]), "SELECT 'word %d'", n);
        mem_fail_nth(n);
        int rc = sql_open(f->path, &db, &err);
        struct sql_stmt *st = NULL;
        if (rc == 0) {
            rc = sql_first(db, texts[n - 1], SQL_NO_ARGS, &st, &err);
        }
        if (rc > 0) {
            text = sql_col_text(st, 0);
            rc = sql_row_check(st, &err);
        }
        mem_fail_nth(0);
        assert_int_equal(rc, -ERR_NO_MEMORY); /* connection, statement, list, column */
        assert_null(text);
        sql_done(st);
        sql_close(db);
    }
}

TEST_MAIN(EMPTY_TEST(test_values_and_columns), EMPTY_TEST(test_statements_are_kept),
          EMPTY_TEST(test_more_statements_than_the_first_space), EMPTY_TEST(test_constraints),
          EMPTY_TEST(test_transactions), EMPTY_TEST(test_busy), EMPTY_TEST(test_full),
          EMPTY_TEST(test_batch), EMPTY_TEST(test_batch_keeps_what_did_not_fail),
          EMPTY_TEST(test_empty_batch_holds_no_lock), EMPTY_TEST(test_lost_batch),
          EMPTY_TEST(test_probe), EMPTY_TEST(test_read_only), EMPTY_TEST(test_lack_of_memory))
