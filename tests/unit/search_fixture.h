/* Fits with a search in them, and what was said during them. For test_engine_search*.c. */
#pragma once

#include <math.h>

#include "base/rng.h"
#include "engine_fixture.h"
#include "story_fixture.h"

static inline void story_tell(void *context, const char *text, const struct json *data)
{
    struct story *s = context;
    buf_printf(&s->messages, "told: %s\n", text);
    s->tables++;
    if (json_get(data, "path") != NULL) { /* not what is told of the model */
        s->last_table = json_size(json_get(data, "path"));
    }
}

static inline int fit(const char *fields, const struct dataset *ds, struct story *story,
                      struct model **ret, struct fit_result *ret_result, struct err *err)
{
    struct backend *be = fixture_backend();
    struct job_spec *spec = fixture_spec_read(fields);
    const struct solve_control control = {
        .context = story,
        .now = story_now,
        .cancelled = story_cancelled,
        .message = story_message,
        .tell = story_tell,
    };
    *ret = NULL;
    const struct fit_input in = {.train = ds};
    const int r = fit_run(be, spec, &in, &control, ret, ret_result, err);
    job_spec_free(spec);
    assert_int_equal(be->bytes, 0);
    backend_close(be);
    return r;
}

/* The fit succeeds and says `message`. */
static inline struct model *fit_well(const char *fields, const struct dataset *ds,
                                     const char *message, struct fit_result *ret)
{
    struct story story = {.cancel_at = -1};
    struct model *m = NULL;
    struct err err = {.code = ERR_OK};
    if (fit(fields, ds, &story, &m, ret, &err) < 0 || m == NULL) {
        fail_msg("%s: %s %s", fields, err.pointer, err.detail);
    }
    assert_contains(story.messages.data != NULL ? story.messages.data : "", message);
    if (ret->search.count > 0) {
        assert_int_equal(story.last_table, ret->search.count);
    }
    buf_deinit(&story.messages);
    return m;
}

/* x2 = 10 + sin(2 x0) + noise, the target; x1 = 0, a mask for who needs one. */
static inline struct dataset *waves(int64_t rows, double noise, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, 3 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        v[3 * i] = 2 * rng_normal(&rng);
        v[3 * i + 1] = 0;
        v[3 * i + 2] = 10 + sin(2 * v[3 * i]) + noise * rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, rows, 3, 0);
    mem_free(v);
    return ds;
}
