/* The promotion of a model in the transaction that ends its job. */
#include "base/json.h"
#include "unit/store_fixture.h"

struct gate {
    struct promote_spec spec;
    struct json *metrics;
};

static struct gate make_gate(const char *promote, const char *metrics)
{
    struct gate g;
    struct json *j = NULL;
    assert_int_equal(json_parse(promote, strlen(promote), &j, NULL), 0);
    assert_int_equal(promote_read(j, &g.spec, NULL), 0);
    json_free(j);
    assert_int_equal(json_parse(metrics, strlen(metrics), &g.metrics, NULL), 0);
    return g;
}

#define GATE(condition) "{\"promote\":{\"alias\":\"prod\",\"if\":{" condition "}}}"

/* Runs a job to its end with the gate; its model's description has the metrics. `failure` NULL: the
 * model was loaded. */
static int end_job(struct fixture *f, const char *id, const char *promote, const char *metrics,
                   const char *failure)
{
    struct gate g = make_gate(promote, metrics);
    const struct job_promotion p = {
        .spec = &g.spec, .metrics = g.metrics, .loaded = failure == NULL, .failure = failure};
    char description[128];
    int64_t key;
    add_job(f, id);
    claim(f, id);
    OK(models_stage(f->store, id, &key, &f->err));
    OK(models_stage_chunk(f->store, key, "x", 1, &f->err));
    snprintf(description, sizeof(description), "{\"result\":{\"metrics\":%s}}", metrics);
    OK(models_stage_seal(f->store, key, description, SHA, 1, &f->err));
    const struct job_end end = {.status = JOB_SUCCEEDED,
                                .reason = "converged",
                                .message = "Done.",
                                .staged_model = key,
                                .promotion = &p};
    const int rc = jobs_finish(f->store, id, &end, 5000, &f->err);
    json_free(g.metrics);
    return rc;
}

/* The version that the alias stands for; 0: none. */
static int64_t prod(struct fixture *f)
{
    struct alias_row row;
    if (aliases_get(f->store, "m", "prod", &row, NULL) < 0) {
        return 0;
    }
    const int64_t version = row.version;
    alias_row_deinit(&row);
    return version;
}

/* The job's own word of it, which its last event but one has, too. */
static void check_told(struct fixture *f, const char *id, bool promoted, const char *part)
{
    struct job_row row;
    struct event_row *events = NULL;
    int64_t count = 0;
    OK(jobs_get(f->store, id, &row, &f->err));
    assert_contains(row.promotion, promoted ? "\"promoted\":true" : "\"promoted\":false");
    assert_contains(row.promotion, part);
    OK(events_list(f->store, id, 0, EVENTS_LIMIT_MAX, &events, &count, &f->err));
    assert_true(count >= 2);
    assert_string_equal(events[count - 2].type, "message");
    assert_string_equal(events[count - 2].data, row.promotion);
    assert_string_equal(events[count - 2].level, promoted ? "info" : "warning");
    assert_string_equal(events[count - 1].type, "status");
    events_list_free(events, count);
    job_row_deinit(&row);
}

static void test_a_row_of_jobs(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    OK(end_job(f, "job_1", GATE("\"smape\":{\"lt\":0.1}"), "{\"smape\":0.2}", NULL));
    check_told(f, "job_1", false, "conditions_not_met");
    assert_int_equal(prod(f), 0);
    OK(end_job(f, "job_2", GATE("\"smape\":{\"lt\":\"current\"}"), "{\"smape\":0.2}", NULL));
    check_told(f, "job_2", true, "\"from\":null,\"to\":2");
    assert_int_equal(prod(f), 2);
    OK(end_job(f, "job_3", GATE("\"smape\":{\"lt\":\"current\"}"), "{\"smape\":0.2}", NULL));
    check_told(f, "job_3", false, "\"limit\":0.2,\"value\":0.2,\"met\":false");
    OK(end_job(f, "job_4", GATE("\"smape\":{\"lt\":\"current\"}"), "{\"smape\":0.1}", NULL));
    check_told(f, "job_4", true, "\"from\":2,\"to\":4");
    OK(end_job(f, "job_5", GATE(""), "{\"smape\":0.3}", "The worker is gone."));
    check_told(f, "job_5", false, "The worker is gone.");
    assert_int_equal(prod(f), 4);
    struct alias_move *moves = NULL;
    int64_t count = 0;
    OK(aliases_history(f->store, "m", "prod", 10, &moves, &count, &f->err));
    assert_int_equal(count, 2);
    assert_string_equal(moves[0].kind, "promotion");
    assert_string_equal(moves[0].job, "job_4");
    aliases_history_free(moves, count);
    check_gapless(f, "job_5", 4);
}

/* The job's end is refused: the alias has not moved either. */
static void test_one_transaction(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    struct gate g = make_gate(GATE(""), "{}");
    const struct job_promotion p = {.spec = &g.spec, .metrics = g.metrics, .loaded = true};
    add_job(f, "job_1");
    claim(f, "job_1");
    const struct job_end end = {.status = JOB_SUCCEEDED,
                                .reason = "converged",
                                .result = "{}",
                                .message = "Done.",
                                .staged_model = stage(f, "job_1", 1),
                                .promotion = &p};
    OK(sql_script(f->store->db,
                  "CREATE TRIGGER refuse BEFORE UPDATE OF finished_ms ON jobs "
                  "BEGIN SELECT raise(ABORT, 'no'); END",
                  &f->err));
    assert_true(jobs_finish(f->store, "job_1", &end, 5000, &f->err) < 0);
    assert_int_equal(prod(f), 0);
    assert_int_equal(number_of(f, "SELECT count(*) FROM alias_moves"), 0);
    assert_int_equal(number_of(f, "SELECT count(*) FROM jobs WHERE promotion IS NOT NULL"), 0);
    OK(sql_script(f->store->db, "DROP TRIGGER refuse", &f->err));
    OK(jobs_finish(f->store, "job_1", &end, 5000, &f->err));
    assert_int_equal(prod(f), 1);
    FAILS(jobs_finish(f->store, "job_1", &end, 5000, &f->err), ERR_CONFLICT, "");
    json_free(g.metrics);
}

/* As many aliases as a model may have: the job ends well, and says that it was not promoted. */
static void test_no_room_for_an_alias(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    assert_int_equal(train(f, "job_1", "m"), 1);
    for (int i = 0; i < ALIASES_MAX; i++) {
        char alias[16];
        snprintf(alias, sizeof(alias), "a%d", i);
        const struct alias_change c = {.name = "m", .alias = alias, .expected = ALIAS_ANY};
        struct alias_row row;
        OK(aliases_set(f->store, &c, 1, 7000, &row, &f->err));
        alias_row_deinit(&row);
    }
    OK(end_job(f, "job_2", GATE(""), "{}", NULL));
    check_told(f, "job_2", false, "at most 100 aliases");
    assert_int_equal(status_of(f, "job_2"), JOB_SUCCEEDED);
}

TEST_MAIN(STORE_TEST(test_a_row_of_jobs), STORE_TEST(test_one_transaction),
          STORE_TEST(test_no_room_for_an_alias))
