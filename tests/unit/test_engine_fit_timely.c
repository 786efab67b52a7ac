/* What a time budget makes of a job on a machine that is slower than its plan had it. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "engine/choose/choose.h"
#include "engine/fit/fit.h"
#include "engine_fixture.h"

/* A clock that goes on by a second a look while one phase was reported last, and not otherwise. */
struct slow {
    const char *in;
    const char *phase;
    double now;
    bool pausing; /* once an iteration is done */
    int64_t iteration;
    bool named; /* the centers: no plan chose them */
    const char *problem;
    struct buf messages, kept;
};

static double slow_now(void *context)
{
    struct slow *s = context;
    return s->now += strcmp(s->in, s->phase) == 0 ? 1.0 : 0.0;
}

static void slow_report(void *context, const struct progress *p)
{
    struct slow *s = context;
    s->phase = p->phase;
    s->iteration = p->iteration;
}

static void slow_message(void *context, const char *level, const char *text)
{
    buf_printf(&((struct slow *)context)->messages, "%s: %s\n", level, text);
}

static bool slow_paused(void *context)
{
    struct slow *s = context;
    return s->pausing && s->iteration >= 1;
}

static int keep(void *context, const void *data, size_t size, struct err *err)
{
    buf_add(context, data, size);
    return ((struct buf *)context)->failed ? err_no_memory(err) : 0;
}

static int slow_checkpoint(void *context, const struct state *s, struct err *err)
{
    struct slow *story = context;
    buf_deinit(&story->kept);
    story->kept = (struct buf)BUF_INIT;
    return state_write(s, keep, &story->kept, err);
}

/* One attempt, from what the story has kept. */
static struct fit_result attempt(int64_t rows, const char *fields, struct slow *s, bool *ret_model)
{
    struct dataset *ds = fixture_smooth(rows, 21);
    struct backend *be = fixture_backend();
    struct job_spec *spec = fixture_spec_read(fields);
    struct state *resume = NULL;
    if (s->kept.len > 0) {
        assert_int_equal(state_read(s->kept.data, s->kept.len, &resume, NULL), 0);
    }
    s->phase = "loading";
    s->iteration = 0;
    s->now = 0;
    const struct solve_control control = {.context = s,
                                          .now = slow_now,
                                          .report = slow_report,
                                          .message = slow_message,
                                          .paused = slow_paused,
                                          .checkpoint = slow_checkpoint,
                                          .checkpoint_every_s = INFINITY,
                                          .problem = s->problem,
                                          .resume = resume};
    struct model *m = NULL;
    struct fit_result result;
    const struct fit_input in = {.train = ds, .open_centers = !s->named};
    const struct buf image = s->kept;
    s->kept = (struct buf)BUF_INIT;
    assert_int_equal(fit_run(be, spec, &in, &control, &m, &result, NULL), 0);
    assert_int_equal(be->bytes, 0);
    state_free(resume);
    mem_free(image.data);
    *ret_model = m != NULL;
    if (m != NULL) {
        model_free(m);
    }
    job_spec_free(spec);
    backend_close(be);
    fixture_dataset_free(ds);
    return result;
}

static void forget(struct slow *s)
{
    buf_deinit(&s->messages);
    buf_deinit(&s->kept);
}

/* The choice has a quarter of the time, and there is a model. */
static void test_a_choice_is_cut_off(void **state)
{
    (void)state;
    struct slow s = {.in = "kernel"};
    bool model;
    const struct fit_result r = attempt(300, "'stop':{'time_budget_s':40}", &s, &model);
    assert_true(model);
    assert_true(r.seconds < 40);
    assert_contains(s.messages.data,
                    "warning: The choice of what the job leaves open was cut off after 8 fits");
    assert_true(r.phases.choice_cut_off);
    assert_close(r.phases.choice_s, 10, 0.2); /* a second each time that somebody asks for it */
    forget(&s);
}

/* What was planned is too slow for what is left; what was named is taken. */
static void test_fewer_centers(void **state)
{
    (void)state;
    static const char fields[] =
        "'kernel':'gaussian','stop':{'time_budget_s':30},'centers':{'method':'uniform','count':%d}";
    char text[160];
    bool model;
    for (int count = 1000; count > 0; count -= 990) {
        for (int named = 0; named < 2; named++) {
            struct slow s = {.in = "centers", .named = named == 1};
            const bool fewer = count == 1000 && !s.named;
            snprintf(text, sizeof text, fields, count);
            const struct fit_result r = attempt(3000, text, &s, &model);
            assert_true(model);
            assert_int_equal(r.centers < count, fewer);
            assert_int_equal(strstr(s.messages.data, "present pace") != NULL, fewer);
            forget(&s);
        }
    }
}

/* A method that would end too late gives way to one that has coefficients sooner. */
static void test_a_direct_method_gives_way(void **state)
{
    (void)state;
    bool model;
    struct slow s = {.in = "kernel"};
    struct fit_result r =
        attempt(3000, "'kernel':'gaussian','stop':{'time_budget_s':20}", &s, &model);
    assert_true(model);
    assert_string_equal(r.solver, "pcg");
    assert_string_equal(r.preconditioner, "none");
    assert_contains(s.messages.data, "too few for cholesky");
    forget(&s);
    s = (struct slow){.in = "kernel"};
    r = attempt(3000, "'kernel':'gaussian','stop':{'time_budget_s':2000}", &s, &model);
    assert_true(model);
    assert_string_equal(r.solver, "cholesky");
    forget(&s);
    s = (struct slow){.in = "kernel"};
    r = attempt(1000, "'kernel':'gaussian','solver':'cholesky','stop':{'time_budget_s':13}", &s,
                &model);
    assert_string_equal(r.solver, "cholesky"); /* which the job has asked for */
    forget(&s);
}

/* What one attempt came to holds for the others, whose clocks are their own. */
static void test_decisions_are_made_once(void **state)
{
    (void)state;
    static const char fields[] = "'solver':'pcg','stop':{'time_budget_s':40,'tolerance':1e-13}";
    bool model;
    for (int i = 0; i < 2; i++) {
        struct slow s = {.in = i == 0 ? "kernel" : "", .pausing = true};
        struct fit_result r = attempt(300, fields, &s, &model);
        assert_int_equal(r.outcome.reason, REASON_PAUSED);
        assert_true(s.kept.len > 0);
        s.pausing = false;
        s.in = i == 0 ? "" : "kernel";
        r = attempt(300, fields, &s, &model);
        assert_true(model);
        assert_contains(s.messages.data, "Resumed from the checkpoint");
        forget(&s);
    }
}

/* Pauses an attempt at one problem; the next one is slow, and its problem another where `other`. */
static struct fit_result slow_second(const char *first, const char *second, const char *in,
                                     bool other, struct slow *s)
{
    bool model;
    *s = (struct slow){.in = "", .pausing = true, .problem = "one"};
    attempt(3000, first, s, &model);
    assert_false(model);
    assert_true(s->kept.len > 0);
    buf_deinit(&s->messages);
    s->messages = (struct buf)BUF_INIT;
    s->in = in;
    s->pausing = false;
    s->problem = other ? "other" : "one";
    const struct fit_result r = attempt(3000, second, s, &model);
    assert_true(model);
    assert_int_equal(strstr(s->messages.data, "Resumed from the checkpoint") != NULL,
                     strstr(s->messages.data, "present pace") == NULL);
    return r;
}

/* A checkpoint that will be discarded holds the clock back no more than none. */
static void test_what_is_discarded_does_not_count(void **state)
{
    (void)state;
    static const char centers[] = "'kernel':'gaussian','solver':'falkon',"
                                  "'stop':{'time_budget_s':22,'tolerance':1e-13},"
                                  "'centers':{'method':'uniform','count':1000}";
    static const char full[] = "'kernel':'gaussian','stop':{'time_budget_s':20,'tolerance':1e-13}";
    static const char blocks[] = "'kernel':'gaussian','solver':'askotch2',"
                                 "'stop':{'time_budget_s':20,'tolerance':1e-13}";
    struct slow s;
    for (int other = 0; other < 2; other++) {
        struct fit_result r = slow_second(centers, centers, "centers", other == 1, &s);
        assert_int_equal(r.centers < 1000, other == 1);
        forget(&s);
        /* Of the same problem, but of a solver that the job does not come to by itself. */
        r = slow_second(blocks, full, "kernel", other == 1, &s);
        assert_contains(s.messages.data, "too few for cholesky");
        forget(&s);
    }
}

TEST_MAIN(cmocka_unit_test(test_a_choice_is_cut_off), cmocka_unit_test(test_fewer_centers),
          cmocka_unit_test(test_what_is_discarded_does_not_count),
          cmocka_unit_test(test_a_direct_method_gives_way),
          cmocka_unit_test(test_decisions_are_made_once))
