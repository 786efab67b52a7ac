/*
 * The pivots of randomly pivoted Cholesky (precond_rpcholesky.c, where the papers are): each is a
 * row drawn in proportion to what the centers so far leave of k(x, x). Rows that see no center come
 * first, however few they are, and a row that repeats others never comes.
 *
 * The factor needs N m numbers for the N rows it looks at: all, or a uniform sample of them. Cost:
 * N m kernel values and N m^2 / 2 multiplications. When the kernel matrix of these rows has no
 * further rank at the precision of its values, fewer than m centers come back: more would only
 * repeat them.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/centers/center_set.h"
#include "engine/methods/methods.h"
#include "engine/methods/preconds/rpcholesky.h"
#include "engine/methods/row_order.h"

/* Rows that are looked at by default, and the part of the free memory that the factor may take. */
enum { SAMPLE_A_CENTER = 20, SAMPLE_LEAST = 20000, MEMORY_PART = 4 };

struct center_selection {
    struct center_task task;
    int64_t wanted, N;
    int64_t *sample; /* [N], ascending */
    void *X;         /* [N, d] */
    struct points *points;
    struct pivoted *pivoted;
    int64_t block;
};

static const struct pivot_rule rule = {
    .name = "center selector `rpcholesky`",
    .propose = rpcholesky_propose,
    .choose = rpcholesky_choose,
};

static void teardown(struct center_selection *s)
{
    if (s == NULL) {
        return;
    }
    if (s->pivoted != NULL) {
        pivoted_teardown(&s->pivoted->base);
    }
    s->task.be->ops->points_free(s->task.be, s->points);
    mem_free(s->sample);
    mem_free(s->X);
    mem_free(s);
}

static int64_t choose_sample(const struct center_selection *s, const struct param_value *v)
{
    const int64_t n = s->task.rows->n, m = s->wanted;
    int64_t wish = v->is_auto ? SAMPLE_A_CENTER * m : (int64_t)v->real;
    if (v->is_auto) {
        const int64_t row = m * (int64_t)dtype_size(s->task.dtype);
        const int64_t fits = memory_available_on(s->task.be) / MEMORY_PART / row;
        wish = wish > SAMPLE_LEAST ? wish : SAMPLE_LEAST;
        wish = wish < fits ? wish : fits;
    }
    wish = wish > m ? wish : m;
    return wish < n ? wish : n;
}

static int setup(const struct center_task *task, const struct param_set *params,
                 struct center_selection **ret, struct err *err)
{
    const int rc = center_task_check(task, false, err);
    if (rc < 0) {
        return rc;
    }
    struct center_selection *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->task = *task;
    s->wanted = center_task_wanted(task);
    s->N = choose_sample(s, param_get(params, "sample"));
    s->block = rpcholesky_block(s->wanted, param_get(params, "block_size"));
    *ret = s;
    return 0;
}

static int load(struct center_selection *s, struct err *err)
{
    const struct row_source *rows = s->task.rows;
    const struct row_order order = row_order_new(s->task.seed, ORDER_SAMPLE, 0, rows->n);
    s->sample = mem_array((size_t)s->N, sizeof(*s->sample));
    s->X = mem_array((size_t)s->N, (size_t)rows->d * dtype_size(rows->dtype));
    if (s->sample == NULL || s->X == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < s->N; i++) {
        s->sample[i] = s->N == rows->n ? i : row_order_at(&order, i);
    }
    center_sort_rows(s->sample, s->N);
    const int rc = rows->read(rows, 0, s->sample, s->N, s->X, NULL, err);
    const struct rows X = {.dtype = rows->dtype, .n = s->N, .d = rows->d, .data = s->X};
    return rc == 0 ? s->task.be->ops->points_new(s->task.be, s->task.kernel, rows->dtype, &X,
                                                 &s->points, err)
                   : rc;
}

static int start(struct center_selection *s, struct err *err)
{
    int rc = load(s, err);
    if (rc < 0) {
        return rc;
    }
    const struct problem p = {
        .be = s->task.be,
        .X = s->points,
        .n = s->N,
        .t = 1,
        .d = s->task.rows->d,
        .dtype = s->task.dtype,
        .points_dtype = s->task.rows->dtype,
    };
    rc = pivoted_new(&rule, &p, s->wanted, s->block, &s->pivoted, err);
    if (rc == 0) {
        s->pivoted->rng = rng_new(s->task.seed, RNG_CENTERS);
    }
    return rc;
}

static int step(struct center_selection *s, double *ret_fraction, struct err *err)
{
    if (s->pivoted == NULL) {
        *ret_fraction = 0;
        return start(s, err);
    }
    return pivoted_grow(s->pivoted, ret_fraction, err);
}

/* No row has a pivot where no k(x,x) is above 0: one center stays, as of the other selectors
 * (center_rank.h). */
static int take(struct center_selection *s, struct centers *ret, struct err *err)
{
    static const int64_t first_row = 0;
    const size_t size = (size_t)s->task.rows->d * dtype_size(s->task.rows->dtype);
    int64_t count = 0;
    const int64_t *pivots = pivoted_pivots(&s->pivoted->base, &count);
    struct center_set set;
    center_set_init(&set, s->task.rows->d, s->task.rows->dtype);
    int rc = 0;
    if (count == 0) {
        pivots = &first_row;
        count = 1;
    }
    for (int64_t j = 0; rc >= 0 && j < count; j++) {
        const char *point = (const char *)s->X + (size_t)pivots[j] * size;
        rc = center_set_add(&set, point, s->sample[pivots[j]], 1.0, err);
    }
    rc = rc < 0 ? rc : center_set_take(&set, 0, ret, err);
    center_set_deinit(&set);
    return rc;
}

const struct center_ops centers_rpcholesky_ops = {
    .name = "rpcholesky",
    .setup = setup,
    .step = step,
    .take = take,
    .teardown = teardown,
};
