#include "store/shrink.h"

#include "store/migrations.h"
#include "unit/store_fixture.h"

#define PAGE 16384
#define STEP (1 << 20)

static int64_t size_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

static int64_t log_size(const struct fixture *f)
{
    char wal[128];
    snprintf(wal, sizeof(wal), "%s-wal", f->path);
    return access(wal, F_OK) == 0 ? size_of(wal) : 0;
}

/* Stages a model of so many chunks of 1 MiB; `mark` is in every byte. */
static int64_t stage_large(struct fixture *f, int chunks, char mark)
{
    const size_t size = 1 << 20;
    char *data = mem_alloc(size);
    int64_t key = 0;
    assert_non_null(data);
    memset(data, mark, size);
    OK(models_stage_import(f->store, "m", &key, &f->err));
    for (int i = 0; i < chunks; i++) {
        OK(models_stage_chunk(f->store, key, data, size, &f->err));
    }
    OK(store_flush(f->store, &f->err));
    mem_free(data);
    return key;
}

static int64_t publish(struct fixture *f, int chunks, char mark)
{
    int64_t version = 0;
    const int64_t key = stage_large(f, chunks, mark);
    OK(models_stage_seal(f->store, key, "{}", SHA, (int64_t)chunks << 20, &f->err));
    OK(models_publish_import(f->store, key, 1000, NULL, &version, &f->err));
    return key;
}

static void check_model(struct fixture *f, int64_t key, int chunks, char mark)
{
    for (int i = 0; i < chunks; i++) {
        void *data = NULL;
        size_t size = 0;
        assert_int_equal(models_chunk(f->store, key, i, &data, &size, &f->err), 1);
        assert_int_equal(size, 1 << 20);
        for (size_t at = 0; at < size; at += 1000) {
            assert_int_equal(((char *)data)[at], mark);
        }
        mem_free(data);
    }
}

static int shrink_all(struct fixture *f, int64_t keep)
{
    int steps = 0, rc;
    while ((rc = store_shrink(f->store, keep, STEP, &f->err)) == STORE_SHRINK_MORE) {
        steps++;
        assert_true(steps < 1000);
    }
    if (rc == STORE_SHRINK_CUT) {
        rc = store_end_shrinking(f->store, &f->err);
    }
    OK(rc);
    return steps;
}

static void check_whole(struct fixture *f)
{
    static const char check[] = "SELECT count(*) FROM pragma_integrity_check "
                                "WHERE integrity_check = 'ok'";
    assert_int_equal(number_of(f, check), 1);
}

/* A model that lies before others goes: pages behind it move, in steps, and the file is shorter. */
static void test_what_is_deleted_goes_back(void **state)
{
    struct fixture *f = *state;
    publish(f, 10, 'a');
    const int64_t kept = publish(f, 10, 'b');
    OK(store_cut_log(f->store, &f->err));
    const int64_t before = size_of(f->path);
    OK(models_delete(f->store, "m", 1, &f->err));
    const int64_t deleted = number_of(f, "PRAGMA freelist_count") * PAGE;
    assert_true(deleted >= 10 << 20);
    const int steps = shrink_all(f, 0);
    assert_int_equal(steps, (deleted + STEP - 1) / STEP);
    assert_int_equal(number_of(f, "PRAGMA freelist_count"), 0);
    assert_true(size_of(f->path) <= before - (10 << 20));
    assert_int_equal(log_size(f), 0);
    check_model(f, kept, 10, 'b');
    check_whole(f);
    assert_int_equal(shrink_all(f, 0), 0);
}

/* Free pages up to twice what is kept are left for what comes next. */
static void test_what_is_kept_is_left(void **state)
{
    struct fixture *f = *state;
    publish(f, 10, 'a');
    OK(models_delete(f->store, "m", 1, &f->err));
    assert_int_equal(shrink_all(f, 6 << 20), 0);
    assert_true(shrink_all(f, 4 << 20) > 0);
    assert_int_equal(number_of(f, "PRAGMA freelist_count"), (4 << 20) / PAGE);
}

/* A step commits what was batched, and a reader's view is its own. */
static void test_beside_a_batch_and_a_reader(void **state)
{
    struct fixture *f = *state;
    publish(f, 10, 'a');
    struct sql *reader = NULL;
    struct sql_stmt *st = NULL;
    OK(sql_open(f->path, &reader, &f->err));
    assert_int_equal(
        sql_first(reader, "SELECT number FROM model_chunks", SQL_NO_ARGS, &st, &f->err), 1);
    OK(models_delete(f->store, "m", 1, &f->err));
    const int64_t staged = stage_large(f, 1, 'c');
    int rc;
    while ((rc = store_shrink(f->store, 0, STEP, &f->err)) == STORE_SHRINK_MORE) {
    }
    assert_int_equal(rc, STORE_SHRINK_CUT);
    assert_int_equal(store_end_shrinking(f->store, &f->err), -ERR_BUSY); /* the log is needed */
    assert_int_equal(store_shrink(f->store, 0, STEP, &f->err), STORE_SHRINK_CUT);
    for (int i = 1; i < 10; i++) {
        assert_int_equal(sql_next(st, &f->err), 1);
    }
    sql_done(st);
    sql_close(reader);
    assert_int_equal(shrink_all(f, 0), 0);
    assert_int_equal(log_size(f), 0);
    assert_true(size_of(f->path) < 3 << 20);
    OK(models_stage_seal(f->store, staged, "{}", SHA, 1 << 20, &f->err));
    check_whole(f);
}

static void note_pages(void *context, int64_t pages)
{
    *(int64_t *)context = pages;
}

/* Who listens to the log has it copied, beside the store; then it begins anew. */
static void test_log_is_copied_by_others(void **state)
{
    struct fixture *f = *state;
    int64_t pages = 0, copied = 0;
    OK(store_cut_log(f->store, &f->err));
    const int64_t before = size_of(f->path);
    store_watch_log(f->store, note_pages, &pages);
    const int64_t key = publish(f, 20, 'a');
    assert_true(pages > (20 << 20) / PAGE); /* SQLite would have copied the first thousand */
    assert_int_equal(size_of(f->path), before);
    OK(store_copy_log(f->path, &copied, &f->err));
    assert_int_equal(copied, pages);
    assert_true(size_of(f->path) > before + (20 << 20));
    const int64_t second = stage_large(f, 1, 'b');
    assert_true(pages < 2 * (1 << 20) / PAGE);
    OK(store_copy_log_here(f->store, &copied, &f->err));
    assert_int_equal(copied, pages);
    check_model(f, key, 20, 'a');
    check_model(f, second, 1, 'b');
    check_whole(f);
    store_watch_log(f->store, NULL, NULL);
    OK(models_delete(f->store, "m", 1, &f->err));
    assert_int_equal(pages, copied);
    FAILS(store_copy_log("/no/such/folder/krrd.db", &copied, &f->err), ERR_IO, "opened");
}

/* A database as they were made before. */
static void make_old(struct fixture *f)
{
    struct sql *db = NULL;
    OK(sql_open(f->path, &db, &f->err));
    OK(sql_script(db, "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL", &f->err));
    OK(migrations_run(db, &migrations, &f->err));
    int64_t vacuum = -1;
    OK(sql_number(db, "PRAGMA auto_vacuum", SQL_NO_ARGS, &vacuum, &f->err));
    assert_int_equal(vacuum, 0);
    sql_close(db);
}

static void test_an_old_database_is_written_anew(void **state)
{
    struct fixture *f = *state;
    make_old(f);
    assert_int_equal(chmod(f->path, 0640), 0);
    fixture_open(f);
    assert_int_equal(number_of(f, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(number_of(f, "PRAGMA page_size"), PAGE);
    assert_int_equal(number_of(f, "PRAGMA foreign_keys"), 1);
    assert_int_equal(store_schema_version(f->store), migrations.count);
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_null(store_not_rewritten(f->store));
    publish(f, 3, 'a');
    OK(models_delete(f->store, "m", 1, &f->err));
    assert_true(shrink_all(f, 0) > 0);
}

/* One that somebody reads stays as it is, says so, and works. */
static void test_an_old_database_in_use(void **state)
{
    struct fixture *f = *state;
    make_old(f);
    struct sql *reader = NULL;
    struct sql_stmt *st = NULL;
    OK(sql_open(f->path, &reader, &f->err));
    assert_int_equal(sql_first(reader, "SELECT 1 FROM sqlite_schema", SQL_NO_ARGS, &st, &f->err),
                     1);
    fixture_open(f);
    assert_int_equal(number_of(f, "PRAGMA auto_vacuum"), 0);
    assert_int_equal(store_not_rewritten(f->store)->code, ERR_BUSY);
    publish(f, 3, 'a');
    OK(models_delete(f->store, "m", 1, &f->err));
    assert_int_equal(store_shrink(f->store, 0, STEP, &f->err), 0);
    sql_done(st);
    sql_close(reader);
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(number_of(f, "PRAGMA auto_vacuum"), 2);
    assert_null(store_not_rewritten(f->store));
    check_whole(f);
}

static void test_compact(void **state)
{
    struct fixture *f = *state;
    int64_t before = 0, after = 0;
    publish(f, 10, 'a');
    const int64_t kept = publish(f, 2, 'b');
    OK(models_delete(f->store, "m", 1, &f->err));
    FAILS(store_compact(f->path, &before, &after, &f->err), ERR_CONFLICT, "Another daemon");
    fixture_close(f);
    OK(store_compact(f->path, &before, &after, &f->err));
    assert_true(before > 12 << 20 && after < 3 << 20);
    assert_int_equal(size_of(f->path), after);
    fixture_open(f);
    check_model(f, kept, 2, 'b');
    check_whole(f);
    assert_int_equal(publish(f, 1, 'c'), kept + 1); /* numbers are never used twice */
}

static void test_compact_refuses(void **state)
{
    struct fixture *f = *state;
    int64_t before = 0, after = 0;
    FAILS(store_compact(f->path, &before, &after, &f->err), ERR_NOT_FOUND, "no database");
    struct sql *db = NULL;
    OK(sql_open(f->path, &db, &f->err));
    OK(sql_script(db, "CREATE TABLE recipes (name TEXT)", &f->err));
    sql_close(db);
    FAILS(store_compact(f->path, &before, &after, &f->err), ERR_UNSUPPORTED, "another program");
}

TEST_MAIN(STORE_TEST(test_what_is_deleted_goes_back), STORE_TEST(test_what_is_kept_is_left),
          STORE_TEST(test_beside_a_batch_and_a_reader), STORE_TEST(test_log_is_copied_by_others),
          EMPTY_TEST(test_an_old_database_is_written_anew), EMPTY_TEST(test_an_old_database_in_use),
          STORE_TEST(test_compact), EMPTY_TEST(test_compact_refuses))
