#include "store/store.h"

#include <fcntl.h>

#include "store/migrations.h"
#include "unit/store_fixture.h"

static void test_open_close_and_reopen(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(store_schema_version(f->store), migrations.count);
    add_dataset(f, "ds_1");
    fixture_close(f);
    char wal[128];
    snprintf(wal, sizeof(wal), "%s-wal", f->path);
    assert_int_equal(access(wal, F_OK), -1); /* closing has put the log into the database */
    fixture_open(f);
    struct dataset_row row;
    OK(datasets_get(f->store, "ds_1", &row, &f->err));
    assert_int_equal(row.rows, 150);
    dataset_row_deinit(&row);
    assert_null(store_close(NULL));
}

static void test_settings(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *sql;
        int64_t value;
    } expected[] = {
        {"PRAGMA synchronous", 2},
        {"PRAGMA foreign_keys", 1},
        {"PRAGMA busy_timeout", STORE_PATIENCE_MS},
        {"PRAGMA trusted_schema", 0},
        {"PRAGMA cell_size_check", 1},
        {"PRAGMA secure_delete", 0},
        {"PRAGMA auto_vacuum", 2}, /* incremental */
        {"PRAGMA page_size", 16384},
        {"SELECT count(*) FROM pragma_foreign_key_check", 0},
        {"PRAGMA journal_size_limit", 64 << 20},
        {"SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND NOT strict "
         "AND name NOT LIKE 'sqlite%'",
         0},
        {"SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'", 1},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(number_of(f, expected[i].sql), expected[i].value);
    }
}

static void test_second_daemon_is_refused(void **state)
{
    struct fixture *f = *state;
    struct store *other = NULL;
    FAILS(store_open(f->path, &other, &f->err), ERR_CONFLICT, "Another daemon");
    assert_null(other);
    add_dataset(f, "ds_1"); /* the first one goes on */
    fixture_close(f);
    fixture_open(f);
}

/* The lock goes with the process, however it ends, and a program that the daemon starts does not
 * inherit it. */
static void test_lock_vanishes_with_the_process(void **state)
{
    struct fixture *f = *state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct store *s;
        if (store_open(f->path, &s, NULL) < 0 || write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_CONFLICT, "Another daemon");
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
    fixture_open(f);
    assert_int_equal(fcntl(f->store->lock_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

static void write_file(const char *path, const void *data, size_t size, off_t offset)
{
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, size, offset), size);
    close(fd);
}

static void test_not_a_database(void **state)
{
    struct fixture *f = *state;
    char junk[4096];
    memset(junk, 'j', sizeof(junk));
    write_file(f->path, junk, sizeof(junk), 0);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_CORRUPT, "not a database");
    char after[4096];
    const int fd = open(f->path, O_RDONLY);
    assert_int_equal(read(fd, after, sizeof(after)), sizeof(after));
    close(fd);
    assert_memory_equal(after, junk, sizeof(junk)); /* a refused file has not been changed */
}

static void test_short_text_is_no_database(void **state)
{
    struct fixture *f = *state;
    write_file(f->path, "hello", 5, 0);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_CORRUPT, "not a database");
}

static void test_empty_file_becomes_a_database(void **state)
{
    struct fixture *f = *state;
    write_file(f->path, "", 0, 0);
    fixture_open(f);
    assert_int_equal(store_schema_version(f->store), migrations.count);
}

/* Every page but the first is overwritten in turn: never a crash, always the same answer. */
static void test_damaged_pages(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    train(f, "job_1", "m");
    const off_t page = 16384;
    fixture_close(f);
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    assert_true(info.st_size / page > 5);
    char junk[4000], saved[4000];
    memset(junk, 0x5a, sizeof(junk));
    int found = 0;
    for (off_t at = page; at < info.st_size; at += page) {
        const int fd = open(f->path, O_RDONLY);
        assert_int_equal(pread(fd, saved, sizeof(saved), at), sizeof(saved));
        close(fd);
        write_file(f->path, junk, sizeof(junk), at);
        f->err.code = ERR_OK;
        const int rc = store_open(f->path, &f->store, &f->err);
        if (rc < 0) {
            assert_int_equal(rc, -ERR_CORRUPT);
            assert_contains(f->err.detail, "damaged");
            found++;
        }
        fixture_close(f);
        write_file(f->path, saved, sizeof(saved), at);
    }
    assert_int_equal(found, info.st_size / page - 1); /* every b-tree page is checked */
    fixture_open(f);
    assert_int_equal(status_of(f, "job_1"), JOB_SUCCEEDED);
}

static void test_damaged_schema(void **state)
{
    struct fixture *f = *state;
    fixture_close(f);
    char junk[64];
    memset(junk, 0xff, sizeof(junk));
    write_file(f->path, junk, sizeof(junk), 100); /* the first page's b-tree header */
    FAILS(store_open(f->path, &f->store, &f->err), ERR_CORRUPT, "damaged");
}

static void test_truncated(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    train(f, "job_1", "m");
    fixture_close(f);
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(truncate(f->path, info.st_size / 2), 0);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_CORRUPT, "damaged");
}

static void test_directory_in_its_place(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(f->path, 0700), 0);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_IO, "could not be opened");
    FAILS(store_open("/nonexistent/folder/krrd.db", &f->store, &f->err), ERR_IO, "lock file");
    assert_null(strstr(f->err.detail, "nonexistent")); /* no path in what a client may read */
}

static void test_newer_database_is_refused(void **state)
{
    struct fixture *f = *state;
    char pragma[64];
    snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", migrations.count + 1);
    OK(sql_script(f->store->db, pragma, &f->err));
    fixture_close(f);
    FAILS(store_open(f->path, &f->store, &f->err), ERR_UNSUPPORTED, "newer version");
    assert_null(f->store);
}

/* Commits this and that, tells of it in the midst of a further transaction, and waits. */
static _Noreturn void stop_in_mid_transaction(struct fixture *f, int fd)
{
    fixture_open(f);
    add_dataset(f, "ds_1");
    train(f, "job_1", "m");
    add_job(f, "job_2");
    claim(f, "job_2");
    stage(f, "job_2", 3);
    static const char half[] = "UPDATE jobs SET last_event = 77; DELETE FROM models; "
                               "INSERT INTO model_names VALUES ('half', 2)";
    if (sql_begin(f->store->db, NULL) < 0 || sql_script(f->store->db, half, NULL) < 0 ||
        write(fd, "x", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

/* What was committed is there, what was not is not, and staged models are swept. */
static void test_kill_in_mid_transaction(void **state)
{
    struct fixture *f = *state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stop_in_mid_transaction(f, ready[1]);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    close(ready[0]);
    close(ready[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);

    fixture_open(f);
    assert_int_equal(status_of(f, "job_1"), JOB_SUCCEEDED);
    assert_int_equal(status_of(f, "job_2"), JOB_RUNNING);
    check_gapless(f, "job_1", 3);
    check_gapless(f, "job_2", 2);
    assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_names WHERE name = 'half'"), 0);
    int64_t count = 0;
    OK(jobs_recover(f->store, NULL, 9000, &count, &f->err));
    assert_int_equal(count, 1);
    assert_int_equal(status_of(f, "job_2"), JOB_QUEUED);
    check_gapless(f, "job_2", 3);
    claim(f, "job_2");
    OK(finish(f, "job_2", JOB_FAILED, 0));
    assert_int_equal(train(f, "job_3", "other"), 1);
}

/* Writes events without end, and tells of each one after its commit. */
static _Noreturn void write_events(struct fixture *f, int fd)
{
    fixture_open(f);
    const struct event_new event = {.level = "info", .type = "message", .message = "tick"};
    for (;;) {
        int64_t id;
        if (events_append(f->store, "job_1", &event, 1, &id, NULL) < 0 ||
            store_flush(f->store, NULL) < 0 || write(fd, &id, sizeof(id)) != sizeof(id)) {
            _exit(1);
        }
    }
}

/* Events that nobody was told of go as a batch, without a gap, and what is written later takes
 * their numbers. */
static void test_kill_before_the_flush(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    fixture_close(f);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct event_new event = {.level = "info", .type = "message", .message = "tick"};
        int64_t id = 0;
        fixture_open(f);
        for (int i = 0; i < 5; i++) {
            events_append(f->store, "job_1", &event, 1, &id, NULL);
            if (i == 1) {
                store_flush(f->store, NULL);
            }
        }
        _exit(id == 6 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fixture_open(f);
    check_gapless(f, "job_1", 3);
    claim(f, "job_1"); /* at once durable */
    check_gapless(f, "job_1", 4);
}

/* A kill at any moment: every event that was told of is there, and there are no gaps. */
static void test_kill_while_writing(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    int64_t told = 1;
    for (int round = 0; round < 3; round++) {
        fixture_close(f);
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            write_events(f, ends[1]);
        }
        close(ends[1]);
        for (int i = 0; i < 20 + 7 * round; i++) {
            assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
        }
        kill(child, SIGKILL);
        while (read(ends[0], &told, sizeof(told)) == sizeof(told)) {
        }
        close(ends[0]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        fixture_open(f);
        const int64_t last = number_of(f, "SELECT last_event FROM jobs");
        assert_true(last == told || last == told + 1); /* one may have been committed untold */
        check_gapless(f, "job_1", last);
    }
}

TEST_MAIN(STORE_TEST(test_open_close_and_reopen), STORE_TEST(test_settings),
          STORE_TEST(test_second_daemon_is_refused),
          EMPTY_TEST(test_lock_vanishes_with_the_process), EMPTY_TEST(test_not_a_database),
          EMPTY_TEST(test_short_text_is_no_database),
          EMPTY_TEST(test_empty_file_becomes_a_database), STORE_TEST(test_damaged_pages),
          STORE_TEST(test_damaged_schema), STORE_TEST(test_truncated),
          EMPTY_TEST(test_directory_in_its_place), STORE_TEST(test_newer_database_is_refused),
          EMPTY_TEST(test_kill_in_mid_transaction), STORE_TEST(test_kill_while_writing),
          STORE_TEST(test_kill_before_the_flush))
