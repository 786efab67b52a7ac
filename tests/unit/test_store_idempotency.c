#include "store/idempotency.h"

#include "unit/store_fixture.h"

static struct idempotency_row answer(const char *operation, const char *key, int64_t created_ms)
{
    struct idempotency_row row = {
        .status = 202,
        .request = SHA,
        .location = "/v1/jobs/job_1",
        .body = (char[]){"{}"},
        .created_ms = created_ms,
    };
    snprintf(row.operation, sizeof(row.operation), "%s", operation);
    snprintf(row.key, sizeof(row.key), "%s", key);
    return row;
}

static int add(struct fixture *f, const char *id, const struct idempotency_row *row)
{
    struct job_row job = {
        .model = (char[]){"m"}, .dataset = "ds_1", .spec = (char[]){"{}"}, .max_attempts = 1};
    snprintf(job.id, sizeof(job.id), "%s", id);
    return jobs_insert(f->store, &job, row, 1, &f->err);
}

static bool owner_has(struct fixture *f, const char *owner, const char *operation, const char *key,
                      int64_t oldest_ms)
{
    struct idempotency_row row;
    const int rc = idempotency_get(f->store, operation, owner, key, oldest_ms, &row, &f->err);
    OK(rc);
    if (rc == 1) {
        assert_string_equal(row.key, key);
        assert_string_equal(row.operation, operation);
        assert_string_equal(row.owner, owner);
        idempotency_row_deinit(&row);
    }
    return rc == 1;
}

static bool has(struct fixture *f, const char *operation, const char *key, int64_t oldest_ms)
{
    return owner_has(f, "", operation, key, oldest_ms);
}

static void test_kept_and_read(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    struct idempotency_row row = answer("jobs", "k", 50);
    row.body = (char[]){"{\"id\":1}"};
    OK(add(f, "job_1", &row));
    fixture_close(f);
    fixture_open(f);
    struct idempotency_row kept;
    assert_int_equal(idempotency_get(f->store, "jobs", "", "k", 50, &kept, &f->err), 1);
    assert_string_equal(kept.request, SHA);
    assert_int_equal(kept.status, 202);
    assert_string_equal(kept.location, "/v1/jobs/job_1");
    assert_string_equal(kept.body, "{\"id\":1}");
    assert_int_equal(kept.created_ms, 50);
    idempotency_row_deinit(&kept);
    assert_false(has(f, "datasets", "k", 0));
    assert_false(has(f, "jobs", "K", 0));
    assert_false(has(f, "jobs", "k", 51));
}

/* The same key of two owners is two. */
static void test_owners(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    struct idempotency_row row = answer("jobs", "k", 50);
    snprintf(row.owner, sizeof(row.owner), "alice");
    OK(add(f, "job_1", &row));
    assert_true(owner_has(f, "alice", "jobs", "k", 0));
    assert_false(owner_has(f, "bob", "jobs", "k", 0));
    assert_false(owner_has(f, "", "jobs", "k", 0));
    snprintf(row.owner, sizeof(row.owner), "bob");
    snprintf(row.location, sizeof(row.location), "/v1/jobs/job_2");
    OK(add(f, "job_2", &row));
    struct idempotency_row kept;
    assert_int_equal(idempotency_get(f->store, "jobs", "alice", "k", 0, &kept, &f->err), 1);
    assert_string_equal(kept.location, "/v1/jobs/job_1");
    idempotency_row_deinit(&kept);
    assert_true(owner_has(f, "bob", "jobs", "k", 0));
}

/* The job and its answer are there both, or neither. */
static void test_one_transaction(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    const struct idempotency_row row = answer("jobs", "k", 50);
    add_job(f, "job_1");
    FAILS(add(f, "job_1", &row), ERR_CONFLICT, "already");
    assert_false(has(f, "jobs", "k", 0));
    const struct idempotency_row bad = answer("jobs", "", 50);
    FAILS(add(f, "job_2", &bad), ERR_INVALID, "accepts");
    assert_int_equal(number_of(f, "SELECT count(*) FROM jobs"), 1);
    assert_int_equal(number_of(f, "SELECT count(*) FROM idempotency_keys"), 0);
}

static void test_expire(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    for (int i = 0; i < 5; i++) {
        char id[16], key[16];
        snprintf(id, sizeof(id), "job_%d", i);
        snprintf(key, sizeof(key), "k%d", i);
        const struct idempotency_row row = answer("jobs", key, 10 * i);
        OK(add(f, id, &row));
    }
    int64_t count = -1;
    OK(idempotency_expire(f->store, 30, 2, &count, &f->err));
    assert_int_equal(count, 2);
    assert_false(has(f, "jobs", "k1", 0));
    assert_true(has(f, "jobs", "k2", 0));
    OK(idempotency_expire(f->store, 30, 100, &count, &f->err));
    assert_int_equal(count, 1);
    assert_true(has(f, "jobs", "k3", 0));
    const struct idempotency_row later = answer("jobs", "k3", 900);
    OK(add(f, "job_9", &later)); /* in place of the expired one */
    assert_true(has(f, "jobs", "k3", 900));
    assert_int_equal(number_of(f, "SELECT count(*) FROM jobs"), 6);
}

TEST_MAIN(STORE_TEST(test_kept_and_read), STORE_TEST(test_owners), STORE_TEST(test_one_transaction),
          STORE_TEST(test_expire))
