#include "server/serving/served.h"

#include "unit/store_fixture.h"

#define CLASSES                                                                                    \
    "{\"features\":[\"a\",\"b\",\"c\"],\"targets\":[\"kind\"],\"classes\":[\"x\",\"say "           \
    "\\\"y\\\"\"],"                                                                                \
    "\"precision\":\"float32\",\"centers\":6,\"variance\":{\"directions\":5}}"
#define NUMBERS                                                                                    \
    "{\"features\":[\"a\"],\"targets\":[\"u\",\"v\"],\"classes\":null,\"precision\":\"float64\","  \
    "\"variance\":null}"
#define VARIED                                                                                     \
    "{\"features\":[\"a\"],\"targets\":[\"u\",\"v\"],\"classes\":null,\"centers\":7,\"variance\":" \
    "{\"directions\":3}}"

#define VAST                                                                                       \
    "{\"features\":[\"a\"],\"targets\":[\"u\"],\"centers\":1e300,\"variance\":"                    \
    "{\"directions\":1e300}}"
#define NEGATIVE                                                                                   \
    "{\"features\":[\"a\"],\"targets\":[\"u\"],\"centers\":-7,\"variance\":{\"directions\":-1}}"

/* One more version of the model. */
static void publish(struct fixture *f, const char *job, const char *model, const char *description)
{
    int64_t key;
    OK(insert_job(f, job, model, 0, 3));
    claim(f, job);
    OK(models_stage(f->store, job, &key, &f->err));
    OK(models_stage_chunk(f->store, key, "abc", 3, &f->err));
    OK(models_stage_seal(f->store, key, description, SHA, 3, &f->err));
    OK(finish(f, job, JOB_SUCCEEDED, key));
}

static const struct served_model *find(struct fixture *f, struct served *s, const char *name,
                                       const char *version)
{
    const struct served_model *m = NULL;
    OK(served_find(s, name, version, &m, &f->err));
    return m;
}

static void test_what_is_known(void **state)
{
    struct fixture *f = *state;
    struct served *s;
    add_dataset(f, "ds_1");
    publish(f, "job_1", "kinds", CLASSES);
    publish(f, "job_2", "numbers", NUMBERS);
    publish(f, "job_3", "varied", VARIED);
    OK(served_new(f->store, &s, &f->err));
    const struct served_model *m = find(f, s, "kinds", NULL);
    assert_string_equal(m->name, "kinds");
    assert_string_equal(m->digest, "sha256:" SHA);
    assert_int_equal(m->version, 1);
    assert_int_equal(m->bytes, 3);
    assert_int_equal(m->d, 3);
    assert_int_equal(m->outputs, 1);
    assert_int_equal(m->classes, 2);
    assert_string_equal(m->features[2], "c");
    assert_string_equal(m->labels[1], "say \"y\"");
    assert_string_equal(m->labels_text, "[\"x\",\"say \\\"y\\\"\"]");
    assert_contains(m->head_text, "{\"model\":\"kinds\",\"version\":1,\"digest\":\"sha256:");
    assert_true(m->float32);
    assert_int_equal(m->variances, 2); /* of the scores */
    assert_int_equal(m->directions, 5);
    assert_int_equal(m->factor_bytes, 6 * 5 * 8);
    assert_null(served_release(m));
    m = find(f, s, "numbers", "1");
    assert_int_equal(m->outputs, 2);
    assert_string_equal(m->targets[1], "v");
    assert_int_equal(m->classes, 0);
    assert_null(m->labels);
    assert_null(m->labels_text);
    assert_false(m->float32);
    assert_int_equal(m->variances + m->directions + m->factor_bytes, 0);
    served_release(m);
    m = find(f, s, "varied", NULL);
    assert_int_equal(m->variances, 2); /* of the targets */
    assert_int_equal(m->factor_bytes, 7 * 3 * 8);
    served_release(m);
    served_free(s);
}

/* Of a damaged database, say: no count is taken for more than it can be. */
static void test_counts_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct served *s;
    add_dataset(f, "ds_1");
    publish(f, "job_1", "vast", VAST);
    publish(f, "job_2", "negative", NEGATIVE);
    OK(served_new(f->store, &s, &f->err));
    const struct served_model *m = find(f, s, "vast", NULL);
    assert_true(m->centers == 1000000000 && m->directions == 1000000000);
    assert_true(m->factor_bytes == INT64_C(8000000000000000000));
    served_release(m);
    m = find(f, s, "negative", NULL);
    assert_true(m->centers == 0 && m->directions == 0 && m->factor_bytes == 0);
    served_release(m);
    served_free(s);
}

static void test_changes(void **state)
{
    struct fixture *f = *state;
    struct served *s;
    add_dataset(f, "ds_1");
    publish(f, "job_1", "m", NUMBERS);
    OK(served_new(f->store, &s, &f->err));
    const struct served_model *first = find(f, s, "m", NULL);
    publish(f, "job_2", "m", CLASSES);
    const struct served_model *still = find(f, s, "m", NULL);
    assert_ptr_equal(still, first); /* without a look at the store */
    served_release(still);
    served_changed(s);
    const struct served_model *second = find(f, s, "m", NULL);
    assert_int_equal(second->version, 2);
    assert_int_equal(first->version, 1); /* who holds it keeps it */
    served_release(second);
    OK(models_delete(f->store, "m", 2, &f->err));
    served_changed(s);
    second = find(f, s, "m", NULL);
    assert_int_equal(second->version, 1);
    served_free(s); /* held ones live on */
    assert_string_equal(second->targets[0], "u");
    served_release(second);
    served_release(first);
    assert_null(served_release(NULL));
}

/* Of a version that somebody holds the description is read once, whatever changes meanwhile. */
static void test_held_ones_are_found_again(void **state)
{
    struct fixture *f = *state;
    struct served *s;
    add_dataset(f, "ds_1");
    publish(f, "job_1", "m", NUMBERS);
    publish(f, "job_2", "m", NUMBERS);
    OK(served_new(f->store, &s, &f->err));
    const struct served_model *second = find(f, s, "m", NULL), *first = find(f, s, "m", "1");
    served_changed(s);
    const struct served_model *again = find(f, s, "m", "2");
    assert_ptr_equal(again, second);
    served_release(second);
    served_release(again);
    again = find(f, s, "m", "1");
    assert_ptr_equal(again, first);
    served_release(again);
    served_changed(s); /* nobody holds the second one any more */
    second = find(f, s, "m", NULL);
    assert_int_equal(second->version, 2);
    OK(models_delete(f->store, "m", 2, &f->err));
    publish(f, "job_3", "n", CLASSES); /* may have the key of the one that was deleted */
    served_changed(s);
    again = find(f, s, "n", NULL);
    assert_string_equal(again->name, "n");
    served_release(again);
    served_free(s);
    served_release(second);
    served_release(first);
}

static void test_what_is_not_there(void **state)
{
    struct fixture *f = *state;
    struct served *s;
    const struct served_model *m = NULL;
    add_dataset(f, "ds_1");
    publish(f, "job_1", "m", NUMBERS);
    publish(f, "job_2", "odd", "{\"features\":");
    OK(served_new(f->store, &s, &f->err));
    FAILS(served_find(s, "n", NULL, &m, &f->err), ERR_NOT_FOUND, "no such model");
    FAILS(served_find(s, "m", "2", &m, &f->err), ERR_NOT_FOUND, "no version 2");
    static const char *const bad[] = {"", "0", "01", "-1", "1x", " 1", "9999999999999999999"};
    for (size_t i = 1; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(served_find(s, "m", bad[i], &m, &f->err), ERR_NOT_FOUND, "not the number");
    }
    FAILS(served_find(s, "odd", NULL, &m, &f->err), ERR_CORRUPT, "damaged");
    assert_null(m);
    served_free(s);
    assert_null(served_free(NULL));
}

/* Every allocation fails once: nothing is leaked, and the next call works. */
static void test_no_memory(void **state)
{
    struct fixture *f = *state;
    struct served *s;
    const struct served_model *m;
    add_dataset(f, "ds_1");
    publish(f, "job_1", "m", CLASSES);
    OK(served_new(f->store, &s, &f->err));
    int rc = -1;
    for (int n = 1; rc < 0; n++) {
        assert_true(n < 1000);
        mem_fail_nth(n);
        rc = served_find(s, "m", NULL, &m, &f->err);
        mem_fail_nth(0);
    }
    served_release(m);
    served_release(find(f, s, "m", NULL));
    served_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_what_is_known),     STORE_TEST(test_counts_that_cannot_be),
        STORE_TEST(test_changes),           STORE_TEST(test_held_ones_are_found_again),
        STORE_TEST(test_what_is_not_there), STORE_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
