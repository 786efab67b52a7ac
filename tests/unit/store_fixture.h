/* A store in a directory of its own, and short ways to fill it. Included by test_store_*.c. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/datasets.h"
#include "store/events.h"
#include "store/internal.h"
#include "store/jobs.h"
#include "store/models.h"
#include "store/store.h"
#include "support/assert.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct fixture {
    char dir[64];
    char path[96];
    struct store *store;
    struct err err;
};

/* The call worked; else its sentence is shown. */
#define OK(call) check_ok(f, (call), #call, __FILE__, __LINE__)
/* The call failed with this code and a sentence that holds the part. */
#define FAILS(call, expected, part)                                                                \
    do {                                                                                           \
        f->err = (struct err){.code = ERR_OK};                                                     \
        assert_int_equal((call), -(expected));                                                     \
        assert_int_equal(f->err.code, (expected));                                                 \
        assert_contains(f->err.detail, (part));                                                    \
    } while (0)

static inline void check_ok(struct fixture *f, int rc, const char *call, const char *file, int line)
{
    if (rc < 0) {
        print_error("%s: %d, %s\n", call, rc, f->err.detail);
        _fail(file, line);
    }
}

static inline void fixture_open(struct fixture *f)
{
    OK(store_open(f->path, &f->store, &f->err));
}

static inline void fixture_close(struct fixture *f)
{
    f->store = store_close(f->store);
}

/* A directory without a store. */
static inline int setup_empty(void **state)
{
    struct fixture *f = mem_zalloc(sizeof(*f));
    if (f == NULL) {
        return -1;
    }
    *state = f;
    snprintf(f->dir, sizeof(f->dir), "/tmp/krrd-test-store-XXXXXX");
    if (mkdtemp(f->dir) == NULL) {
        return -1;
    }
    snprintf(f->path, sizeof(f->path), "%s/krrd.db", f->dir);
    return 0;
}

static inline int setup(void **state)
{
    const int rc = setup_empty(state);
    if (rc == 0) {
        fixture_open(*state);
    }
    return rc;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    static const char *const suffixes[] = {"", "-wal", "-shm", "-lock", "-journal"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char file[128];
        snprintf(file, sizeof(file), "%s%s", f->path, suffixes[i]);
        remove(file); /* a directory too, when it is empty */
    }
    const int rc = rmdir(f->dir);
    mem_free(f);
    return rc; /* fails when the store has left something else behind */
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define EMPTY_TEST(name) cmocka_unit_test_setup_teardown(name, setup_empty, teardown)

static inline void add_dataset(struct fixture *f, const char *id)
{
    struct dataset_row row = {
        .name = (char[]){"iris"},
        .info = (char[]){"{\"rows\":150}"},
        .rows = 150,
        .columns = 5,
        .bytes = 6000,
        .sha256 = SHA,
        .created_ms = 1000,
    };
    snprintf(row.id, sizeof(row.id), "%s", id);
    OK(datasets_insert(f->store, &row, NULL, &f->err));
}

static inline int insert_job(struct fixture *f, const char *id, const char *model, int64_t priority,
                             int64_t max_attempts)
{
    char name[64];
    snprintf(name, sizeof(name), "%s", model);
    struct job_row row = {
        .model = name,
        .dataset = "ds_1",
        .spec = (char[]){"{\"model\":\"m\"}"},
        .priority = priority,
        .max_attempts = max_attempts,
    };
    snprintf(row.id, sizeof(row.id), "%s", id);
    return jobs_insert(f->store, &row, NULL, 2000, &f->err);
}

/* A queued job for the model "m" on the data set "ds_1", which is there already. */
static inline void add_job(struct fixture *f, const char *id)
{
    OK(insert_job(f, id, "m", 0, 3));
}

/* The next job for a device with memory for any, claimed: 1; 0: there is none. */
static inline int claim_next(struct fixture *f, const char *device, int64_t now_ms,
                             struct job_row *ret)
{
    char kind[JOBS_DEVICE_SIZE];
    struct job_head head;
    snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(device, ":"), device);
    const struct jobs_offer offers[] = {
        {"auto", INT64_MAX}, {kind, INT64_MAX}, {device, INT64_MAX}};
    const int rc = jobs_next(f->store, offers, 3, now_ms, &head, &f->err);
    if (rc <= 0) {
        return rc;
    }
    const struct job_claim c = {.worker = "cpu:0", .device = device};
    const int claimed = jobs_claim(f->store, head.id, &c, now_ms, ret, &f->err);
    return claimed < 0 ? claimed : 1;
}

/* Claims the next job, which must be this one. */
static inline void claim(struct fixture *f, const char *id)
{
    struct job_row row;
    assert_int_equal(claim_next(f, "cpu", 3000, &row), 1);
    assert_string_equal(row.id, id);
    assert_int_equal(row.status, JOB_RUNNING);
    job_row_deinit(&row);
}

static inline enum job_status status_of(struct fixture *f, const char *id)
{
    struct job_row row;
    OK(jobs_get(f->store, id, &row, &f->err));
    const enum job_status status = row.status;
    job_row_deinit(&row);
    return status;
}

static inline int64_t number_of(struct fixture *f, const char *sql)
{
    int64_t n = -1;
    OK(sql_number(f->store->db, sql, SQL_NO_ARGS, &n, &f->err));
    return n;
}

static inline int finish(struct fixture *f, const char *id, enum job_status status, int64_t staged)
{
    const struct job_end end = {
        .status = status,
        .reason = "converged",
        .result = "{\"iterations\":3}",
        .message = "Done.",
        .staged_model = staged,
    };
    return jobs_finish(f->store, id, &end, 5000, &f->err);
}

/* Stages and seals a model of `chunks` chunks of 1000 bytes. */
static inline int64_t stage(struct fixture *f, const char *job, int chunks)
{
    char data[1000];
    int64_t key;
    OK(models_stage(f->store, job, &key, &f->err));
    for (int i = 0; i < chunks; i++) {
        memset(data, 'a' + i, sizeof(data));
        OK(models_stage_chunk(f->store, key, data, sizeof(data), &f->err));
    }
    OK(models_stage_seal(f->store, key, "{\"kernel\":\"gaussian\"}", SHA, 1000 * chunks, &f->err));
    return key;
}

/* A new job, run to its end with a model of one chunk; returns the model's version. */
static inline int64_t train(struct fixture *f, const char *id, const char *model)
{
    OK(insert_job(f, id, model, 0, 3));
    claim(f, id);
    const int64_t key = stage(f, id, 1);
    OK(finish(f, id, JOB_SUCCEEDED, key));
    struct job_row row;
    OK(jobs_get(f->store, id, &row, &f->err));
    const int64_t version = row.model_version;
    job_row_deinit(&row);
    return version;
}

/* The job's events are numbered 1 to `count`, and its own counter says the same. */
static inline void check_gapless(struct fixture *f, const char *job, int64_t count)
{
    struct event_row *rows = NULL;
    int64_t n = 0;
    OK(events_list(f->store, job, 0, EVENTS_LIMIT_MAX, &rows, &n, &f->err));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(rows[i].id, i + 1);
        assert_string_equal(rows[i].job, job);
    }
    events_list_free(rows, n);
    assert_int_equal(n, count);
    int64_t last = -1;
    OK(sql_number(f->store->db, "SELECT last_event FROM jobs WHERE id = ?1",
                  SQL_ARGS(sql_text(job)), &last, &f->err));
    assert_int_equal(last, count);
}
