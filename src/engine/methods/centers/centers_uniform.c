/*
 * Distinct rows, drawn uniformly without replacement. Also the rows of a data set that is given as
 * the centers: all of them, or `count` drawn in the same way. Fewer than asked for come back only
 * when there are no more distinct points.
 *
 * A step reads DRAW_ROWS rows at most; memory is that of the centers.
 */
#include "base/mem.h"
#include "engine/methods/centers/center_draw.h"
#include "engine/methods/methods.h"

struct center_selection {
    int64_t wanted;
    bool free_points;
    struct center_draw draw;
    struct center_set set;
};

static void teardown(struct center_selection *s)
{
    if (s != NULL) {
        center_draw_deinit(&s->draw);
        center_set_deinit(&s->set);
        mem_free(s);
    }
}

static int start(const struct center_task *task, const struct row_source *from, int64_t wanted,
                 bool free_points, struct center_selection **ret, struct err *err)
{
    struct center_selection *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->wanted = wanted;
    s->free_points = free_points;
    center_set_init(&s->set, from->d, task->rows->dtype);
    const int rc = center_draw_init(&s->draw, from, task->rows->dtype, task->seed, err);
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int setup_uniform(const struct center_task *task, const struct param_set *params,
                         struct center_selection **ret, struct err *err)
{
    (void)params;
    const int rc = center_task_check(task, false, err);
    return rc < 0 ? rc : start(task, task->rows, center_task_wanted(task), false, ret, err);
}

static int setup_file(const struct center_task *task, const struct param_set *params,
                      struct center_selection **ret, struct err *err)
{
    (void)params;
    const struct row_source *file = task->file;
    const int rc = center_task_check(task, true, err);
    if (rc < 0) {
        return rc;
    }
    if (file == NULL || file->n < 1) {
        return err_set(err, ERR_INVALID, "There is no data set with the centers, or it is empty.");
    }
    if (file->d != task->rows->d) {
        return err_set(err, ERR_INVALID, "The centers have %lld features, the training rows %lld.",
                       (long long)file->d, (long long)task->rows->d);
    }
    const bool all = task->count == 0 || task->count > file->n;
    return start(task, file, all ? file->n : task->count, true, ret, err);
}

static int step(struct center_selection *s, double *ret_fraction, struct err *err)
{
    const int rc = center_draw_step(&s->draw, &s->set, s->wanted, 1.0, s->free_points, err);
    *ret_fraction = rc > 0 ? 1.0 : (double)s->set.m / (double)s->wanted;
    return rc;
}

static int take(struct center_selection *s, struct centers *ret, struct err *err)
{
    return center_set_take(&s->set, 0, ret, err);
}

const struct center_ops centers_uniform_ops = {
    .name = "uniform",
    .setup = setup_uniform,
    .step = step,
    .take = take,
    .teardown = teardown,
};

const struct center_ops centers_file_ops = {
    .name = "file",
    .own_count = true,
    .setup = setup_file,
    .step = step,
    .take = take,
    .teardown = teardown,
};
