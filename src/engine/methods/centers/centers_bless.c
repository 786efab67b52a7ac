/*
 * Centers by BLESS and BLESS-R (center_bless.h): points in proportion to their leverage scores,
 * with weights and the path of all lambda. `count` 0, "auto" in a job: as many as the
 * regularization asks for, the job's or the selection's own.
 */
#include "base/mem.h"
#include "engine/methods/centers/center_bless.h"
#include "engine/methods/methods.h"

struct center_selection {
    struct bless bless;
};

static void teardown(struct center_selection *s)
{
    if (s != NULL) {
        bless_deinit(&s->bless);
        mem_free(s);
    }
}

static int start(const struct center_task *task, const struct param_set *params,
                 bool with_replacement, struct center_selection **ret, struct err *err)
{
    int rc = center_task_check(task, true, err);
    if (rc < 0) {
        return rc;
    }
    struct center_selection *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    const struct center_task scored = center_task_scored(task, params);
    const struct bless_options options = bless_options_of(&scored, params, with_replacement);
    rc = bless_init(&s->bless, &scored, &options, err);
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int setup_bless(const struct center_task *task, const struct param_set *params,
                       struct center_selection **ret, struct err *err)
{
    return start(task, params, true, ret, err);
}

static int setup_bless_r(const struct center_task *task, const struct param_set *params,
                         struct center_selection **ret, struct err *err)
{
    return start(task, params, false, ret, err);
}

static int step(struct center_selection *s, double *ret_fraction, struct err *err)
{
    return bless_step(&s->bless, ret_fraction, err);
}

static int take(struct center_selection *s, struct centers *ret, struct err *err)
{
    struct bless *b = &s->bless;
    const int rc = center_set_take(&b->J, b->task.rows->n, ret, err);
    if (rc == 0) {
        ret->path = b->path;
        ret->levels = b->levels;
        ret->limited_by = b->asked > 0 ? "candidates" : NULL;
        ret->asked = b->asked;
        ret->scored = b->pass.count;
        b->path = NULL;
    }
    return rc;
}

const struct center_ops centers_bless_ops = {
    .name = "bless",
    .own_count = true,
    .setup = setup_bless,
    .step = step,
    .take = take,
    .teardown = teardown,
};

const struct center_ops centers_bless_r_ops = {
    .name = "bless_r",
    .own_count = true,
    .setup = setup_bless_r,
    .step = step,
    .take = take,
    .teardown = teardown,
};
