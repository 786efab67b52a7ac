/* How a fit goes along: the seconds of its phases, and pauses from which it goes on. */
#include "engine/fit/fit.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "engine_fixture.h"

/* ---- phases ---- */

/* A clock that goes on by a second a look, and only while one of some phases was reported last. */
struct shift {
    const char *while_in; /* their names, in a row */
    const char *phase;
    double now;
};

static double shift_now(void *context)
{
    struct shift *s = context;
    s->now += strstr(s->while_in, s->phase) != NULL ? 1.0 : 0.0;
    return s->now;
}

static void shift_report(void *context, const struct progress *p)
{
    ((struct shift *)context)->phase = p->phase;
}

/* The seconds of a job during some phases, and what its result says of them. */
static struct fit_phases phases_while(const char *while_in, const char *fields, double *ret_seconds)
{
    struct dataset *ds = fixture_smooth(200, 21);
    struct backend *be = fixture_backend();
    struct job_spec *spec = fixture_spec_read(fields);
    struct shift story = {.while_in = while_in, .phase = "loading"};
    const struct solve_control control = {
        .context = &story, .now = shift_now, .report = shift_report};
    const struct fit_input in = {.train = ds};
    struct model *m = NULL;
    struct fit_result result;
    assert_int_equal(fit_run(be, spec, &in, &control, &m, &result, NULL), 0);
    assert_non_null(m);
    const struct fit_phases p = result.phases;
    assert_close(p.setup_s + p.iterations_s + p.finish_s, result.seconds, 1e-12);
    *ret_seconds = result.seconds;
    model_free(m);
    job_spec_free(spec);
    backend_close(be);
    fixture_dataset_free(ds);
    return p;
}

/* A phase is reported some looks at the clock after it began. */
static const double looks = 6;

static void test_phases(void **state)
{
    (void)state;
#define SLOW                                                                                       \
    "'kernel':'gaussian','regularization':1e-9,'stop':{'max_iterations':20,'tolerance':1e-14}"
    static const char *const solvers[] = {
        "'solver':{'name':'pcg','preconditioner':{'name':'rpcholesky','rank':5}}," SLOW,
        "'solver':'falkon','centers':{'method':'uniform','count':50}," SLOW};
    double all;
    for (size_t i = 0; i < sizeof(solvers) / sizeof(solvers[0]); i++) {
        struct fit_phases p = phases_while("iterating", solvers[i], &all);
        assert_true(all > 20);
        assert_true(p.iterations_s >= all - looks && p.iterations_s <= all);
        p = phases_while("certifying saving", solvers[i], &all);
        assert_true(all >= 7 && p.finish_s >= all - 2 && p.iterations_s == 0);
        p = phases_while("loading kernel centers preconditioner", solvers[i], &all);
        assert_true(p.setup_s >= 3 && p.setup_s >= all - looks);
    }
    static const char direct[] = "'solver':'cholesky','kernel':'gaussian'";
    struct fit_phases p = phases_while("loading kernel factorizing iterating", direct, &all);
    assert_true(p.setup_s >= 3 && p.setup_s >= all - looks);
    assert_close(p.iterations_s, 0.0, 0.0);
    p = phases_while("certifying saving", direct, &all);
    assert_true(all >= 7 && p.finish_s >= all - 2);
}

/* ---- pauses ---- */

/* A job that is asked to pause at its pause_at-th question, and from then on. */
struct rest {
    double now, tick; /* seconds a look at the clock takes; 0: 1e-3 */
    int64_t pause_at, asked, discarded;
    int64_t room;    /* bytes of memory; 0: what there is */
    struct buf kept; /* the last checkpoint's file */
};

struct tight_ops {
    struct backend_ops ops;
    int64_t room;
};

static int64_t tight_room(struct backend *be)
{
    return ((const struct tight_ops *)be->ops)->room;
}

static double rest_now(void *context)
{
    struct rest *s = context;
    return s->now += s->tick > 0 ? s->tick : 1e-3;
}

static bool rest_paused(void *context)
{
    struct rest *s = context;
    return s->asked++ >= s->pause_at;
}

static void rest_message(void *context, const char *level, const char *text)
{
    (void)level;
    ((struct rest *)context)->discarded += strstr(text, "discarded") != NULL;
}

static int rest_sink(void *context, const void *data, size_t size, struct err *err)
{
    struct buf *to = context;
    buf_add(to, data, size);
    return to->failed ? err_no_memory(err) : 0;
}

static int rest_checkpoint(void *context, const struct state *s, struct err *err)
{
    struct rest *story = context;
    buf_deinit(&story->kept);
    story->kept = (struct buf)BUF_INIT;
    return state_write(s, rest_sink, &story->kept, err);
}

/* One attempt, from the last one's checkpoint where there is one. */
static struct model *attempt(const struct dataset *ds, const char *fields, struct rest *story,
                             struct fit_result *ret)
{
    struct backend *be = fixture_backend();
    struct tight_ops tight = {.ops = *be->ops, .room = story->room};
    tight.ops.memory_available = tight_room;
    be->ops = story->room > 0 ? &tight.ops : be->ops;
    struct job_spec *spec = fixture_spec_read(fields);
    struct state *resume = NULL;
    struct buf image = story->kept;
    if (image.len > 0) {
        assert_int_equal(state_read(image.data, image.len, &resume, NULL), 0);
    }
    story->kept = (struct buf)BUF_INIT;
    story->asked = 0;
    const struct solve_control control = {.context = story,
                                          .now = rest_now,
                                          .message = rest_message,
                                          .paused = rest_paused,
                                          .checkpoint = rest_checkpoint,
                                          .checkpoint_every_s = INFINITY,
                                          .resume = resume};
    struct model *m = NULL;
    const struct fit_input in = {.train = ds};
    assert_int_equal(fit_run(be, spec, &in, &control, &m, ret, NULL), 0);
    assert_int_equal(be->bytes, 0);
    if (m == NULL) {
        assert_int_equal(ret->outcome.reason, REASON_PAUSED);
    }
    if (story->kept.len == 0) { /* nothing newer: what was kept stays */
        story->kept = image;
    } else {
        buf_deinit(&image);
    }
    state_free(resume);
    job_spec_free(spec);
    backend_close(be);
    return m;
}

/* Centers are selected by every attempt anew. On a machine that has become slower that alone may
 * take more than is left of the time, or more than all of it: the coefficients of the earlier
 * attempt are worth their centers. */
static void test_time_budget_of_a_resumed_selection(void **state)
{
    (void)state;
    struct dataset *ds = fixture_smooth(300, 13);
    struct fit_result result;
    static const char fields[] = "'solver':{'name':'falkon'},'regularization':1e-9,"
                                 "'stop':{'time_budget_s':0.5,'tolerance':1e-14},"
                                 "'centers':{'method':'squeak','count':20,'block_size':1}";
    struct rest story = {.tick = 1e-4, .pause_at = INT64_MAX};
    struct model *m = attempt(ds, fields, &story, &result);
    assert_non_null(m); /* within its time */
    assert_true(result.phases.setup_s > 0 && result.phases.iterations_s > 0);
    model_free(m);
    story.pause_at = story.asked - 3;
    story.now = 0; /* as control.started, or the first attempt would count */
    assert_null(attempt(ds, fields, &story, &result));
    assert_true(story.kept.len > 0);
    story.tick = 1e-1;
    story.pause_at = INT64_MAX;
    const double began = story.now;
    m = attempt(ds, fields, &story, &result);
    assert_int_equal(result.outcome.reason, REASON_TIME_BUDGET);
    assert_true(story.now - began > 0.5); /* of the selection */
    assert_non_null(m);
    assert_true(result.outcome.earlier_s > 0);
    assert_true(isnan(result.phases.setup_s)); /* of the earlier attempt there is only a sum */
    struct json *j = fit_result_to_json(&result);
    assert_int_equal(json_type(json_get(j, "phases")), JSON_NULL);
    json_free(j);
    model_free(m);
    buf_deinit(&story.kept);
    fixture_dataset_free(ds);
}

/* A job that is asked to pause is paused, whatever it is doing: kernel values are being kept, at
 * first float32 ones and then, where the iteration goes over to them or begins with them again
 * after a pause, float64 ones. What it had is not lost, and it ends with the bits it would have. */
static void test_pause_anywhere(void **state)
{
    (void)state;
    static const char fields[] = "'solver':'pcg','kernel':'gaussian','regularization':1e-11,"
                                 "'kernel_cache_bytes':10000000";
    struct dataset *ds = fixture_smooth(150, 12);
    struct fit_result result;
    struct rest whole = {.pause_at = INT64_MAX};
    struct model *expected = attempt(ds, fields, &whole, &result);
    assert_int_equal(result.precision, PRECISION_FLOAT64); /* it went over */
    assert_true(result.kernel_cache_bytes > 0);
    bool paused = true;
    for (int64_t k = 0; paused; k++) {
        struct rest story = {.pause_at = k};
        struct model *m = attempt(ds, fields, &story, &result);
        paused = m == NULL;
        for (story.pause_at = k % 6; m == NULL; story.pause_at = INT64_MAX) {
            m = attempt(ds, fields, &story, &result);
        }
        assert_int_equal(story.discarded, 0);
        assert_memory_equal(m->coef, expected->coef, (size_t)(m->m * m->t) * sizeof(double));
        model_free(m);
        buf_deinit(&story.kept);
    }
    model_free(expected);
    buf_deinit(&whole.kept);
    fixture_dataset_free(ds);
}

/* Paused shortly before its end a job has a checkpoint, from which it ends as it would have. */
static void check_kept(const struct dataset *ds, const char *fields)
{
    struct fit_result result;
    struct rest story = {.pause_at = INT64_MAX};
    struct model *expected = attempt(ds, fields, &story, &result);
    assert_non_null(expected);
    buf_deinit(&story.kept);
    story = (struct rest){.pause_at = story.asked - 2};
    struct model *m = attempt(ds, fields, &story, &result);
    if (m != NULL || story.kept.len == 0) {
        fail_msg("%s: no checkpoint", fields);
    }
    story.pause_at = INT64_MAX;
    m = attempt(ds, fields, &story, &result);
    assert_int_equal(story.discarded, 0);
    assert_memory_equal(m->coef, expected->coef, (size_t)(m->m * m->t) * sizeof(double));
    model_free(m);
    model_free(expected);
    buf_deinit(&story.kept);
}

/* A checkpoint takes all that a job has to keep: what its solver does, what was chosen for it, with
 * a bandwidth for each feature, and what its search found. */
static void test_all_is_kept(void **state)
{
    (void)state;
    static const char *const jobs[] = {
        "'search':{'regularization':[1e-9,1e-8],'max_rows':100},"
        "'solver':{'name':'skotch','block_size':20}",
        "'search':{'regularization':[1e-9,1e-8],'max_rows':100},"
        "'solver':{'name':'askotch','block_size':20}",
        "'search':{'regularization':[1e-9,1e-8],'max_rows':100},"
        "'solver':{'name':'askotch2','block_size':20,'sampling':'leverage'}",
        "'kernel':{'name':'gaussian','bandwidth':'auto'},"
        "'solver':{'name':'eigenpro3','eigenvectors':5,'batch_size':20},'centers':{'count':20}",
        "'search':{'regularization':[1e-9,1e-8]},"
        "'solver':{'name':'eigenpro4','eigenvectors':5,'batch_size':20},'centers':{'count':20}",
        "'search':{'regularization':[1e-9,1e-8],'metric':'evidence'},"
        "'solver':{'name':'kmcg','directions':10}",
    };
    struct dataset *ds = fixture_smooth(110, 12);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char fields[512];
        snprintf(fields, sizeof fields, "%s,'stop':{'max_iterations':12,'tolerance':1e-15}",
                 jobs[i]);
        check_kept(ds, fields);
    }
    fixture_dataset_free(ds);
}

/* A search is made by one attempt for all. On a machine that has become slower another would try
 * fewer pairs, and the checkpoint would be of another kernel. */
static void test_search_is_made_once(void **state)
{
    (void)state;
    static const char fields[] =
        "'solver':{'name':'pcg','preconditioner':{'name':'rpcholesky','rank':5}},"
        "'kernel':'gaussian','search':{'bandwidth':[0.1,0.5,3],'regularization':[1e-9,1e-8]},"
        "'stop':{'time_budget_s':2,'tolerance':1e-14}";
    struct dataset *ds = fixture_smooth(300, 14);
    struct fit_result first, result;
    struct rest story = {.tick = 0.3, .pause_at = INT64_MAX};
    model_free(attempt(ds, fields, &story, &result));
    assert_true(result.search.count > 0 && result.search.count < 6); /* the slow one, alone */
    buf_deinit(&story.kept);
    story = (struct rest){.tick = 1e-4, .pause_at = INT64_MAX};
    model_free(attempt(ds, fields, &story, &first));
    assert_int_equal(first.search.count, 6);
    story.pause_at = story.asked - 5;
    assert_null(attempt(ds, fields, &story, &result));
    assert_true(story.kept.len > 0);
    story.tick = 0.3;
    story.pause_at = INT64_MAX;
    struct model *m = attempt(ds, fields, &story, &result);
    assert_non_null(m);
    assert_int_equal(story.discarded, 0);
    assert_true(result.outcome.earlier_s > 0);
    struct json *made = search_result_to_json(&first.search);
    struct json *kept = search_result_to_json(&result.search);
    char *made_text = json_print(made), *kept_text = json_print(kept);
    assert_string_equal(made_text, kept_text);
    assert_close(result.regularization, first.regularization, 0.0);
    assert_close(m->kernel.bandwidth, first.search.points[first.search.best].bandwidth, 0.0);
    mem_free(made_text);
    mem_free(kept_text);
    json_free(made);
    json_free(kept);
    model_free(m);
    buf_deinit(&story.kept);
    fixture_dataset_free(ds);
}

/* Paused near its end, and gone on with where there is more memory, it comes to the same bits. */
static void check_more_memory(const struct dataset *ds, const char *fields, struct rest *story,
                              const struct model *expected, struct fit_result *ret)
{
    story->pause_at = story->asked - 2;
    assert_null(attempt(ds, fields, story, ret));
    assert_true(story->kept.len > 0);
    story->pause_at = INT64_MAX;
    story->room = 0;
    struct model *m = attempt(ds, fields, story, ret);
    assert_non_null(m);
    assert_int_equal(story->discarded, 0);
    assert_true(ret->outcome.earlier_s > 0);
    assert_memory_equal(m->coef, expected->coef, (size_t)(m->m * m->t) * sizeof(double));
    model_free(m);
}

/* Without memory for a direct method a job began to iterate; it goes on so where there is more. */
static void test_memory_changes_no_solver(void **state)
{
    (void)state;
    static const char fields[] =
        "'kernel':'gaussian','regularization':1e-9,'stop':{'tolerance':1e-13}";
    struct dataset *ds = fixture_smooth(300, 15);
    struct fit_result result;
    struct rest story = {.pause_at = INT64_MAX, .room = 1 << 20};
    struct model *expected = attempt(ds, fields, &story, &result);
    assert_non_null(expected);
    check_more_memory(ds, fields, &story, expected, &result);
    model_free(expected);
    buf_deinit(&story.kept);
    fixture_dataset_free(ds);
}

/* A preconditioner that was made where memory was short, and one that was not. */
static void test_memory_changes_no_rank(void **state)
{
    (void)state;
    static const char fields[] = "'kernel':'gaussian','regularization':1e-9,"
                                 "'solver':{'name':'pcg','preconditioner':'nystrom_gaussian'},"
                                 "'stop':{'tolerance':1e-9}";
    struct dataset *ds = fixture_smooth(300, 16);
    struct fit_result result;
    struct rest story = {.pause_at = INT64_MAX};
    model_free(attempt(ds, fields, &story, &result));
    const int64_t usual = result.rank;
    story.room = 1 << 20;
    struct model *expected = attempt(ds, fields, &story, &result);
    assert_non_null(expected);
    const int64_t rank = result.rank;
    assert_in_range(rank, 1, usual - 1);
    check_more_memory(ds, fields, &story, expected, &result);
    assert_int_equal(result.rank, rank);
    model_free(expected);

    /* The other way round less is there than it had: it goes on with less. */
    buf_deinit(&story.kept);
    story.kept = (struct buf)BUF_INIT;
    model_free(attempt(ds, fields, &story, &result));
    story.pause_at = story.asked - 2;
    assert_null(attempt(ds, fields, &story, &result));
    story.pause_at = INT64_MAX;
    story.room = 1 << 20;
    struct model *m = attempt(ds, fields, &story, &result);
    assert_non_null(m);
    assert_int_equal(story.discarded, 0);
    assert_int_equal(result.rank, rank);
    assert_int_equal(result.outcome.reason, REASON_CONVERGED);
    model_free(m);
    buf_deinit(&story.kept);
    fixture_dataset_free(ds);
}

TEST_MAIN(cmocka_unit_test(test_phases), cmocka_unit_test(test_time_budget_of_a_resumed_selection),
          cmocka_unit_test(test_pause_anywhere), cmocka_unit_test(test_all_is_kept),
          cmocka_unit_test(test_search_is_made_once),
          cmocka_unit_test(test_memory_changes_no_solver),
          cmocka_unit_test(test_memory_changes_no_rank))
