/*
 * Centers by leverage scores in a single pass over the rows, in their order.
 *
 * Paper: D. Calandriello, A. Lazaric, M. Valko, "Distributed adaptive sampling for kernel matrix
 * approximation", AISTATS 2017, arXiv:1803.10172 (SQUEAK, one machine); in the notation of
 * arXiv:1810.13258, (7), for the next block U of rows, J u U -> J:
 *
 *     s_u = 1 for the rows u of U;  l from J u U, with these s and the ridge n lambda
 *     point j stays with chance c_j = min(1, q2 l_j s_j), and then stands for s_j / c_j rows
 *
 * A row equal to a point of J makes that one stand for one row more. Instead of several copies of
 * each point with a chance of their own, as published, each point has one.
 *
 * Beyond the paper: asked for m points, lambda is first looked for by a run of BLESS
 * (center_bless.h) unless it is named, and the last draw is of exactly m points with chances in
 * proportion. Cost: about 10 n m^2 multiplications with blocks as large as J, no smaller than
 * BLOCK_LEAST. Memory: that of center_scores.h for 2 m points.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/methods/centers/center_bless.h"
#include "engine/methods/methods.h"

enum { BLOCK_LEAST = 256 };

struct center_selection {
    struct center_task task;
    int64_t wanted, block;
    double q2, lambda, largest;
    enum { LAMBDA, BEGIN, READ, FACTOR, SCORE, FILL, ALL } phase;
    int64_t next, end; /* rows read, and the end of the block at hand */
    struct rng rng;
    struct bless bless;
    struct center_set J, fresh;
    struct center_scores scores;
    double *values; /* [room]: scores of J */
    int64_t room, scored;
    struct center_draw draw;
};

static void teardown(struct center_selection *s)
{
    if (s != NULL) {
        bless_deinit(&s->bless);
        center_set_deinit(&s->J);
        center_set_deinit(&s->fresh);
        center_scores_deinit(&s->scores);
        center_draw_deinit(&s->draw);
        mem_free(s->values);
        mem_free(s);
    }
}

static int setup(const struct center_task *task, const struct param_set *params,
                 struct center_selection **ret, struct err *err)
{
    int rc = center_task_check(task, true, err);
    if (rc < 0) {
        return rc;
    }
    struct center_selection *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    const struct param_value *block = param_get(params, "block_size");
    s->task = center_task_scored(task, params);
    s->wanted = center_task_wanted(task);
    s->q2 = bless_oversampling(&s->task, params);
    s->block = block->is_auto ? 0 : (int64_t)block->real;
    s->lambda = s->task.regularization;
    s->rng = rng_new(task->seed, RNG_CENTERS);
    center_set_init(&s->J, task->rows->d, task->rows->dtype);
    center_set_init(&s->fresh, task->rows->d, task->rows->dtype);
    struct bless_options options = {.count = 0};
    rc = bless_lambda_options(&s->task, s->q2, &options, err);
    if (rc == 0) {
        s->phase = s->wanted == task->rows->n ? ALL : options.at_lambda ? BEGIN : LAMBDA;
        rc = bless_init(&s->bless, &s->task, &options, err);
    }
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static void start_block(struct center_selection *s)
{
    const int64_t own = s->J.m > BLOCK_LEAST ? s->J.m : BLOCK_LEAST;
    const int64_t left = s->task.rows->n - s->next, size = s->block > 0 ? s->block : own;
    s->end = s->next + (size < left ? size : left);
    s->phase = READ;
}

/* J grows by the next rows of the block. */
static int read_rows(struct center_selection *s, struct err *err)
{
    const struct row_source *rows = s->task.rows;
    const size_t size = (size_t)rows->d * dtype_size(rows->dtype);
    const int64_t left = s->end - s->next, count = left < PASS_ROWS ? left : PASS_ROWS;
    cleanup_mem char *X = mem_array((size_t)count, size);
    if (X == NULL) {
        return err_no_memory(err);
    }
    int rc = rows->read(rows, s->next, NULL, count, X, NULL, err);
    for (int64_t i = 0; rc >= 0 && i < count; i++) {
        rc = center_set_add(&s->J, X + (size_t)i * size, s->next + i, 1.0, err);
    }
    if (rc < 0) {
        return rc;
    }
    s->next += count;
    if (s->next < s->end) {
        return 0;
    }
    s->phase = FACTOR;
    s->scored = 0;
    return center_scores_start(&s->scores, &s->task, &s->J, s->lambda, s->largest, err);
}

static int make_room(struct center_selection *s, struct err *err)
{
    if (s->room >= s->J.m) {
        return 0;
    }
    mem_free(s->values);
    s->room = 2 * s->J.m;
    s->values = mem_array((size_t)s->room, sizeof(double));
    return s->values != NULL ? 0 : err_no_memory(err);
}

static int keep(struct center_selection *s, int64_t j, double chance, struct err *err)
{
    const int rc = center_set_add(&s->fresh, center_set_point(&s->J, j), s->J.rows[j],
                                  s->J.stands[j] / chance, err);
    return rc < 0 ? rc : 0;
}

/* values: q2 l s. */
static int keep_each(struct center_selection *s, struct err *err)
{
    int rc = 0;
    for (int64_t j = 0; rc == 0 && j < s->J.m; j++) {
        const double chance = fmin(s->values[j], 1.0);
        if (rng_uniform(&s->rng) < chance) {
            rc = keep(s, j, chance, err);
        }
    }
    return rc == 0 && s->fresh.m == 0 ? keep(s, 0, fmin(s->values[0], 1.0), err) : rc;
}

static int keep_exactly(struct center_selection *s, struct err *err)
{
    struct ordered *list = NULL;
    const int64_t found = order_draw(s->values, s->J.m, s->wanted, &s->rng, &list, err);
    int rc = found < 0 ? (int)found : 0;
    for (int64_t k = 0; rc == 0 && k < found && k < s->wanted; k++) {
        rc = keep(s, list[k].at, list[k].chance, err);
    }
    mem_free(list);
    return rc;
}

/* J has its scores: some of it stays. 1: that was the last block. */
static int resample(struct center_selection *s, struct err *err)
{
    const bool last = s->next == s->task.rows->n;
    for (int64_t j = 0; j < s->J.m; j++) {
        s->values[j] *= s->q2 * s->J.stands[j];
    }
    center_set_clear(&s->fresh);
    const int rc = last && s->wanted > 0 ? keep_exactly(s, err) : keep_each(s, err);
    if (rc < 0) {
        return rc;
    }
    const struct center_set old = s->J;
    s->J = s->fresh;
    s->fresh = old;
    if (!last) {
        start_block(s);
        return 0;
    }
    s->phase = FILL;
    return s->wanted == 0;
}

static int score(struct center_selection *s, struct err *err)
{
    const int64_t left = s->J.m - s->scored, piece = center_scores_piece(&s->scores);
    const int64_t count = left < piece ? left : piece;
    int rc = make_room(s, err);
    if (rc == 0) {
        rc = center_scores_of(&s->scores, center_set_point(&s->J, s->scored), count,
                              s->values + s->scored, err);
    }
    s->scored += count;
    return rc == 0 && s->scored == s->J.m ? resample(s, err) : rc;
}

static int advance(struct center_selection *s, struct err *err)
{
    double part = 0;
    int rc = 0;
    switch (s->phase) {
    case LAMBDA:
        rc = bless_step(&s->bless, &part, err);
        if (rc > 0) {
            s->lambda = s->bless.lambda;
            s->phase = BEGIN;
        }
        return rc < 0 ? rc : 0;
    case BEGIN:
        bless_deinit(&s->bless);
        start_block(s);
        return center_largest(&s->task, &s->largest, err);
    case READ:
        return read_rows(s, err);
    case FACTOR:
        rc = center_scores_build(&s->scores, err);
        s->phase = rc > 0 ? SCORE : FACTOR;
        return rc < 0 ? rc : 0;
    case SCORE:
        return score(s, err);
    case FILL:
        return center_draw_fill(&s->draw, &s->task, &s->J, err);
    case ALL:
        break;
    }
    return center_draw_all(&s->draw, &s->task, &s->J, err);
}

static int step(struct center_selection *s, double *ret_fraction, struct err *err)
{
    const int rc = advance(s, err);
    *ret_fraction = rc > 0 ? 1.0 : 0.99 * (double)s->next / (double)s->task.rows->n;
    return rc;
}

static int take(struct center_selection *s, struct centers *ret, struct err *err)
{
    return center_set_take(&s->J, s->task.rows->n, ret, err);
}

const struct center_ops centers_squeak_ops = {
    .name = "squeak",
    .own_count = true,
    .setup = setup,
    .step = step,
    .take = take,
    .teardown = teardown,
};
