#include "store/experience.h"

#include "store_fixture.h"

struct seen {
    int64_t count;
    char first[64], last[64];
};

static void visit(void *context, const char *record)
{
    struct seen *s = context;
    snprintf(s->count++ == 0 ? s->first : s->last, sizeof s->last, "%s", record);
}

static struct seen look(struct fixture *f)
{
    struct seen s = {.count = 0};
    OK(experience_each(f->store, visit, &s, &f->err));
    return s;
}

/* A job that ends so, with this to teach. */
static void end_job(struct fixture *f, const char *id, enum job_status status, const char *record)
{
    OK(insert_job(f, id, "m", 0, 3));
    claim(f, id);
    const struct job_end end = {
        .status = status, .reason = "converged", .message = "Done.", .experience = record};
    OK(jobs_finish(f->store, id, &end, 5000, &f->err));
    assert_int_equal(status_of(f, id), status);
}

static void test_jobs_teach(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    assert_int_equal(look(f).count, 0);
    end_job(f, "job_1", JOB_SUCCEEDED, "{\"a\":1}");
    end_job(f, "job_2", JOB_SUCCEEDED, "{\"a\":2}");
    end_job(f, "job_3", JOB_SUCCEEDED, NULL);
    end_job(f, "job_4", JOB_FAILED, "{\"a\":4}");
    end_job(f, "job_5", JOB_CANCELLED, "{\"a\":5}");
    fixture_close(f);
    fixture_open(f);
    struct seen s = look(f);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.first, "{\"a\":1}");
    assert_string_equal(s.last, "{\"a\":2}");
    OK(jobs_delete(f->store, "job_1", &f->err)); /* what it taught stays */
    assert_int_equal(look(f).count, 2);
}

/* The newest stay. */
static void test_how_many_are_kept(void **state)
{
    struct fixture *f = *state;
    char record[64];
    for (int i = 0; i < EXPERIENCE_KEPT + 30; i++) {
        snprintf(record, sizeof record, "{\"i\":%d}", i);
        OK(sql_begin(f->store->db, &f->err));
        OK(sql_end(f->store->db, experience__append(f->store->db, record, &f->err), &f->err));
    }
    const struct seen s = look(f);
    assert_int_equal(s.count, EXPERIENCE_KEPT);
    assert_string_equal(s.first, "{\"i\":30}");
    assert_string_equal(s.last, record);
}

/* A record that the table does not take costs the job nothing. */
static void test_a_bad_record_fails_no_job(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    end_job(f, "job_1", JOB_SUCCEEDED, "");
    char *large = mem_alloc(5001);
    memset(large, 'x', 5000);
    large[5000] = '\0';
    end_job(f, "job_2", JOB_SUCCEEDED, large);
    mem_free(large);
    OK(store_flush(f->store, &f->err));
    assert_int_equal(look(f).count, 0);
    OK(sql_script(f->store->db, "DROP TABLE plan_experience", &f->err));
    end_job(f, "job_3", JOB_SUCCEEDED, "{\"a\":3}");
    OK(store_flush(f->store, &f->err));
    assert_int_equal(status_of(f, "job_3"), JOB_SUCCEEDED);
}

TEST_MAIN(STORE_TEST(test_jobs_teach), STORE_TEST(test_how_many_are_kept),
          STORE_TEST(test_a_bad_record_fails_no_job))
