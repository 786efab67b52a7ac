#include "store/models.h"

#include "unit/store_fixture.h"

static void test_publish_and_get(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    claim(f, "job_1");
    const int64_t key = stage(f, "job_1", 2);
    struct model_row row;
    FAILS(models_get(f->store, "m", 0, &row, &f->err), ERR_NOT_FOUND, "no such model");
    FAILS(models_get(f->store, "m", 1, &row, &f->err), ERR_NOT_FOUND, "no such model");
    OK(finish(f, "job_1", JOB_SUCCEEDED, key));
    for (int64_t version = 0; version <= 1; version++) {
        OK(models_get(f->store, "m", version, &row, &f->err));
        assert_int_equal(row.key, key);
        assert_string_equal(row.name, "m");
        assert_int_equal(row.version, 1);
        assert_string_equal(row.job, "job_1");
        assert_string_equal(row.dataset, "ds_1");
        assert_string_equal(row.description, "{\"kernel\":\"gaussian\"}");
        assert_int_equal(row.bytes, 2000);
        assert_string_equal(row.sha256, SHA);
        assert_int_equal(row.created_ms, 5000);
        model_row_deinit(&row);
    }
    FAILS(models_get(f->store, "m", 2, &row, &f->err), ERR_NOT_FOUND, "\"m\" has no version 2");
    FAILS(models_get(f->store, "m", -1, &row, &f->err), ERR_NOT_FOUND, "no version -1");
    FAILS(models_get(f->store, "M", 0, &row, &f->err), ERR_NOT_FOUND, "no such model");
}

static void test_stage_refusals(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    int64_t key = -7;
    FAILS(models_stage(f->store, "job_9", &key, &f->err), ERR_NOT_FOUND, "no such job");
    FAILS(models_stage(f->store, "job_1", &key, &f->err), ERR_CONFLICT, "not running");
    assert_int_equal(key, -7);
    claim(f, "job_1");
    OK(models_stage(f->store, "job_1", &key, &f->err));
    assert_true(key > 0);
    FAILS(models_stage_chunk(f->store, key + 1, "x", 1, &f->err), ERR_NOT_FOUND, "staged model");
    FAILS(models_stage_chunk(f->store, key, "", 0, &f->err), ERR_INVALID, "empty");
    FAILS(models_stage_chunk(f->store, key, "x", MODELS_CHUNK_MAX + 1, &f->err), ERR_TOO_LARGE,
          "8388608");
    OK(models_stage_chunk(f->store, key, "abc", 3, &f->err));
    FAILS(models_stage_seal(f->store, key, "{}", SHA, 4, &f->err), ERR_CORRUPT,
          "4 bytes, but 3 have been stored");
    FAILS(models_stage_seal(f->store, key, "{}", "short", 3, &f->err), ERR_INVALID, "accepts");
    FAILS(models_stage_seal(f->store, key, NULL, SHA, 3, &f->err), ERR_INVALID, "accepts");
    FAILS(finish(f, "job_1", JOB_SUCCEEDED, key), ERR_CONFLICT, "not complete");
    assert_int_equal(status_of(f, "job_1"), JOB_RUNNING);
    OK(models_stage_seal(f->store, key, "{}", SHA, 3, &f->err));
    FAILS(models_stage_seal(f->store, key, "{}", SHA, 3, &f->err), ERR_CONFLICT, "already");
    FAILS(models_stage_chunk(f->store, key, "d", 1, &f->err), ERR_CONFLICT, "already");
    FAILS(finish(f, "job_1", JOB_SUCCEEDED, key + 1), ERR_NOT_FOUND, "staged model");

    /* Another job cannot publish it. */
    add_job(f, "job_2");
    claim(f, "job_2");
    FAILS(finish(f, "job_2", JOB_SUCCEEDED, key), ERR_NOT_FOUND, "staged model");
    assert_int_equal(status_of(f, "job_2"), JOB_RUNNING);
    OK(finish(f, "job_1", JOB_SUCCEEDED, key));
    FAILS(models_stage_chunk(f->store, key, "x", 1, &f->err), ERR_NOT_FOUND, "staged model");
    FAILS(models_stage_seal(f->store, key, "{}", SHA, 3, &f->err), ERR_NOT_FOUND, "staged model");
}

static void test_drop_stage(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    claim(f, "job_1");
    const int64_t key = stage(f, "job_1", 2);
    OK(models_drop_stage(f->store, key, &f->err));
    OK(models_drop_stage(f->store, key, &f->err));
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 0);
    const int64_t second = stage(f, "job_1", 1);
    assert_true(second > key); /* a handle is never used twice */
    OK(finish(f, "job_1", JOB_SUCCEEDED, second));
    OK(models_drop_stage(f->store, second, &f->err)); /* published: untouched */
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 1);
}

static void test_pins(void **state)
{
    struct fixture *f = *state;
    struct model_row *rows = NULL;
    int64_t count = -1;
    struct model_row row;
    add_dataset(f, "ds_1");
    train(f, "job_1", "a");
    train(f, "job_2", "a");
    train(f, "job_3", "b");
    OK(models_pinned(f->store, &rows, &count, &f->err));
    assert_int_equal(count, 0);
    models_list_free(rows, count);
    OK(models_get(f->store, "a", 2, &row, &f->err));
    OK(models_pin(f->store, row.key, true, &f->err));
    OK(models_pin(f->store, row.key + 100, true, &f->err)); /* gone */
    OK(models_pinned(f->store, &rows, &count, &f->err));
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].key, row.key);
    assert_int_equal(rows[0].version, 2);
    models_list_free(rows, count);
    fixture_close(f);
    fixture_open(f);
    OK(models_pinned(f->store, &rows, &count, &f->err));
    assert_int_equal(count, 1);
    models_list_free(rows, count);
    OK(models_pin(f->store, row.key, false, &f->err));
    OK(models_pinned(f->store, &rows, &count, &f->err));
    assert_int_equal(count, 0);
    models_list_free(rows, count);
    model_row_deinit(&row);
}

/* Whatever a job has staged and not published goes with its end, in the same transaction. */
static void test_leftovers_go_with_the_job(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_0");
    claim(f, "job_0");
    const int64_t other = stage(f, "job_0", 1); /* of a job that goes on */
    const enum job_status ends[] = {JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED};
    for (int i = 0; i < 3; i++) {
        char id[ID_SIZE];
        snprintf(id, sizeof(id), "job_%d", i + 1);
        add_job(f, id);
        claim(f, id);
        stage(f, id, 2);
        const int64_t chosen = stage(f, id, 1);
        OK(finish(f, id, ends[i], chosen));
        /* Published with success alone. */
        assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 2);
        assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 2);
        struct job_row row;
        OK(jobs_get(f->store, id, &row, &f->err));
        assert_int_equal(row.model_version, i == 0 ? 1 : 0);
        job_row_deinit(&row);
    }
    OK(finish(f, "job_0", JOB_SUCCEEDED, other));
    struct model_row row;
    OK(models_get(f->store, "m", 0, &row, &f->err));
    assert_int_equal(row.version, 2);
    model_row_deinit(&row);
}

static void test_versions_are_never_used_twice(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    assert_int_equal(train(f, "job_1", "m"), 1);
    assert_int_equal(train(f, "job_2", "m"), 2);
    assert_int_equal(train(f, "job_3", "n"), 1);
    OK(models_delete(f->store, "m", 2, &f->err));
    assert_int_equal(train(f, "job_4", "m"), 3);
    OK(models_delete(f->store, "m", 1, &f->err));
    OK(models_delete(f->store, "m", 3, &f->err));
    struct model_row row;
    FAILS(models_get(f->store, "m", 0, &row, &f->err), ERR_NOT_FOUND, "no such model");
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(train(f, "job_5", "m"), 4);
    FAILS(models_delete(f->store, "m", 3, &f->err), ERR_NOT_FOUND, "\"m\" has no version 3");
    FAILS(models_delete(f->store, "m", 0, &f->err), ERR_NOT_FOUND, "no version 0");
    FAILS(models_delete(f->store, "q", 1, &f->err), ERR_NOT_FOUND, "no such model");
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 2);
}

/* As data sets are: until the job that begins with a version has finished. */
static void test_what_jobs_begin_with_stays(void **state)
{
    struct fixture *f = *state;
    struct job_row row = {
        .id = "job_2",
        .model = (char[]){"n"},
        .dataset = "ds_1",
        .spec = (char[]){"{\"warm_start\":{\"model\":\"m\",\"version\":1}}"},
        .max_attempts = 3,
    };
    enum job_status status;
    add_dataset(f, "ds_1");
    assert_int_equal(train(f, "job_0", "m"), 1);
    assert_int_equal(train(f, "job_1", "m"), 2);
    OK(jobs_insert(f->store, &row, NULL, 2000, &f->err));
    FAILS(models_delete(f->store, "m", 1, &f->err), ERR_CONFLICT, "job_2");
    claim(f, "job_2");
    FAILS(models_delete(f->store, "m", 1, &f->err), ERR_CONFLICT, "job_2");
    OK(models_delete(f->store, "m", 2, &f->err));
    OK(jobs_put_aside(f->store, "job_2", 4000, &status, &f->err));
    FAILS(models_delete(f->store, "m", 1, &f->err), ERR_CONFLICT, "job_2");
    OK(jobs_cancel(f->store, "job_2", 5000, &status, &f->err));
    OK(models_delete(f->store, "m", 1, &f->err));
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    struct model_row *rows = NULL;
    int64_t count = -1;
    bool more = true;
    OK(models_list(f->store, (struct store_page){"", 10}, &rows, &count, &more, &f->err));
    assert_int_equal(count, 0);
    assert_false(more);
    models_list_free(rows, count);
    FAILS(models_versions(f->store, "b", 0, &rows, &count, &more, &f->err), ERR_NOT_FOUND,
          "no such model");

    train(f, "job_1", "b");
    train(f, "job_2", "c");
    train(f, "job_3", "b");
    train(f, "job_4", "a");
    train(f, "job_5", "gone");
    OK(models_delete(f->store, "gone", 1, &f->err));
    add_job(f, "job_6");
    claim(f, "job_6");
    stage(f, "job_6", 1); /* staged ones are not seen */

    OK(models_list(f->store, (struct store_page){NULL, 2}, &rows, &count, &more, &f->err));
    assert_int_equal(count, 2);
    assert_true(more);
    assert_string_equal(rows[0].name, "a");
    assert_string_equal(rows[1].name, "b");
    assert_int_equal(rows[1].version, 2);
    assert_string_equal(rows[1].job, "job_3");
    models_list_free(rows, count);
    OK(models_list(f->store, (struct store_page){"b", 2}, &rows, &count, &more, &f->err));
    assert_int_equal(count, 1);
    assert_false(more);
    assert_string_equal(rows[0].name, "c");
    models_list_free(rows, count);
    FAILS(models_list(f->store, (struct store_page){"", 0}, &rows, &count, &more, &f->err),
          ERR_INVALID, "limit");

    OK(models_versions(f->store, "b", 0, &rows, &count, &more, &f->err));
    assert_int_equal(count, 2);
    assert_int_equal(rows[0].version, 2);
    assert_int_equal(rows[1].version, 1);
    models_list_free(rows, count);
    FAILS(models_versions(f->store, "m", 0, &rows, &count, &more, &f->err), ERR_NOT_FOUND,
          "no such model");
}

#define BIG_SIZE ((size_t)20 << 20)

static unsigned char *big_model(void)
{
    uint64_t *words = mem_alloc(BIG_SIZE);
    assert_non_null(words);
    uint64_t x = 88172645463325252u; /* xorshift */
    for (size_t i = 0; i < BIG_SIZE / sizeof(x); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = x;
    }
    return (unsigned char *)words;
}

/* 20 MiB in chunks of the largest size and a rest come back bit for bit, also after a restart. */
static void test_large_model(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    claim(f, "job_1");
    unsigned char *data = big_model();
    int64_t key;
    OK(models_stage(f->store, "job_1", &key, &f->err));
    for (size_t at = 0; at < BIG_SIZE; at += MODELS_CHUNK_MAX) {
        const size_t rest = BIG_SIZE - at;
        const size_t size = rest < MODELS_CHUNK_MAX ? rest : MODELS_CHUNK_MAX;
        OK(models_stage_chunk(f->store, key, data + at, size, &f->err));
    }
    OK(models_stage_seal(f->store, key, "{}", SHA, (int64_t)BIG_SIZE, &f->err));
    OK(finish(f, "job_1", JOB_SUCCEEDED, key));
    fixture_close(f);
    fixture_open(f);
    size_t at = 0;
    for (int64_t i = 0;; i++) {
        void *chunk = NULL;
        size_t size = 0;
        const int rc = models_chunk(f->store, key, i, &chunk, &size, &f->err);
        OK(rc);
        if (rc == 0) {
            assert_int_equal(i, 3);
            break;
        }
        assert_true(at + size <= BIG_SIZE);
        assert_int_equal(memcmp(chunk, data + at, size), 0);
        at += size;
        mem_free(chunk);
    }
    assert_int_equal(at, BIG_SIZE);
    mem_free(data);

    OK(models_delete(f->store, "m", 1, &f->err));
    void *chunk;
    size_t size;
    FAILS(models_chunk(f->store, key, 0, &chunk, &size, &f->err), ERR_NOT_FOUND, "no such model");
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 0);
    /* The pages are free for the next model. */
    const int64_t in_use =
        number_of(f, "PRAGMA page_count") - number_of(f, "PRAGMA freelist_count");
    assert_true(in_use < 64);
}

static void test_chunk_bounds(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    train(f, "job_1", "m");
    struct model_row row;
    OK(models_get(f->store, "m", 0, &row, &f->err));
    const int64_t key = row.key;
    model_row_deinit(&row);
    void *chunk = NULL;
    size_t size = 77;
    const int64_t absent[] = {1, 2, -1, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(models_chunk(f->store, key, absent[i], &chunk, &size, &f->err), 0);
    }
    mem_fail_nth(1);
    FAILS(models_chunk(f->store, key, 0, &chunk, &size, &f->err), ERR_NO_MEMORY, "memory");
    mem_fail_nth(0);
    assert_null(chunk);
    assert_int_equal(size, 77);
    assert_int_equal(models_chunk(f->store, key, 0, &chunk, &size, &f->err), 1);
    assert_int_equal(size, 1000);
    mem_free(chunk);
}

/* Takes back what is batched, and the store is told so when it commits. */
static void lose_batch(struct fixture *f)
{
    OK(sql_script(f->store->db, "ROLLBACK", &f->err));
    assert_true(store_flush(f->store, &f->err) < 0);
}

/* The key of an import stays its own, whatever becomes of its pieces; a job's may be given again.
 */
static void test_a_batch_is_lost(void **state)
{
    struct fixture *f = *state;
    int64_t first, second, jobs;
    add_dataset(f, "ds_1");
    add_job(f, "job_1");
    claim(f, "job_1");
    OK(models_stage_import(f->store, "m", &first, &f->err));
    OK(models_stage_chunk(f->store, first, "abc", 3, &f->err));
    OK(models_stage(f->store, "job_1", &jobs, &f->err));
    const int64_t losses = store_losses(f->store);
    lose_batch(f);
    assert_int_equal(store_losses(f->store), losses + 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 0);
    OK(models_stage_import(f->store, "n", &second, &f->err));
    assert_int_not_equal(second, first);
    assert_int_equal(second, jobs);
    OK(models_drop_stage(f->store, first, &f->err));
    OK(models_stage_chunk(f->store, second, "abc", 3, &f->err));
}

/* Staged rows of an interrupted daemon are gone after the next start, published ones are not. */
static void test_sweep_at_open(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    train(f, "job_1", "m");
    add_job(f, "job_2");
    claim(f, "job_2");
    stage(f, "job_2", 3);
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 4);
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(number_of(f, "SELECT count(*) FROM models"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM model_chunks"), 1);
    assert_int_equal(status_of(f, "job_2"), JOB_RUNNING); /* jobs_recover's business */
}

TEST_MAIN(STORE_TEST(test_publish_and_get), STORE_TEST(test_stage_refusals), STORE_TEST(test_pins),
          STORE_TEST(test_drop_stage), STORE_TEST(test_leftovers_go_with_the_job),
          STORE_TEST(test_versions_are_never_used_twice), STORE_TEST(test_lists),
          STORE_TEST(test_what_jobs_begin_with_stays), STORE_TEST(test_large_model),
          STORE_TEST(test_chunk_bounds), STORE_TEST(test_a_batch_is_lost),
          STORE_TEST(test_sweep_at_open))
