/* Whole fits with a clock and a cancel, and what was said during them. For test_engine_fit*.c. */
#pragma once

#include <math.h>
#include <string.h>

#include "engine_fixture.h"
#include "story_fixture.h"

/* The last report's metrics, as the job's `progress` keeps them. */
static inline void story_report(void *context, const struct progress *p)
{
    struct story *s = context;
    s->fell = s->fell || (p->step < s->last.step && strcmp(p->phase, s->last.phase) == 0);
    s->selecting += strcmp(p->phase, "centers") == 0 && p->step > 0 && p->step <= 1;
    s->last = *p;
}

static inline int fit(struct backend *be, const char *fields, const struct dataset *train,
                      const struct dataset *test, struct story *story, struct model **ret,
                      struct fit_result *ret_result, struct err *err)
{
    struct job_spec *spec = fixture_spec_read(fields);
    const struct solve_control control = {
        .context = story,
        .now = story_now,
        .cancelled = story_cancelled,
        .report = story_report,
        .message = story_message,
    };
    *ret = NULL;
    const struct fit_input in = {.train = train, .test = test};
    const int r = fit_run(be, spec, &in, &control, ret, ret_result, err);
    job_spec_free(spec);
    assert_int_equal(be->bytes, 0);
    return r;
}

/* The job succeeds; its messages are checked and thrown away. */
static inline struct model *fit_well(const char *fields, const struct dataset *train,
                                     const struct dataset *test, const char *message,
                                     struct fit_result *ret_result)
{
    struct backend *be = fixture_backend();
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct err err = {.code = ERR_OK};
    if (fit(be, fields, train, test, &story, &m, ret_result, &err) < 0 || m == NULL) {
        fail_msg("%s: %s %s", fields, err.pointer, err.detail);
    }
    assert_string_equal(story.last.phase, "saving");
    assert_close(story.last.fraction, 1.0, 0);
    assert_true(isnan(story.last.eta_s));
    assert_memory_equal(&story.last.metrics, &ret_result->outcome.metrics, sizeof(struct metrics));
    if (message != NULL) {
        assert_contains(story.messages.data != NULL ? story.messages.data : "", message);
    }
    buf_deinit(&story.messages);
    backend_close(be);
    return m;
}

/* `classes` clouds of points in the plane. */
static inline struct dataset *clouds(int64_t rows, int64_t classes, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, 3 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        const int64_t c = i % classes;
        v[3 * i] = 6 * (double)(c % 6) + rng_normal(&rng);
        v[3 * i + 1] = 6 * (double)(c / 6) + rng_normal(&rng);
        v[3 * i + 2] = (double)c;
    }
    struct dataset *ds = fixture_dataset(v, rows, 3, classes);
    mem_free(v);
    return ds;
}
