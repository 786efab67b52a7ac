#include "engine/methods/centers/center_rank.h"

#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "engine/methods/preconds/precond_pivoted.h"
#include "plan/rules.h"

int64_t center_rank_bound(const struct kernel *kernel)
{
    return rule_kernel_rank(kernel_name(kernel->id), kernel->d, (int64_t)kernel->degree);
}

/* Centers keep[0 .. count-1], ascending, to the front. Each still stands for the rows that it stood
 * for, so that its weight, relative to m / n (centers.h), grows as m falls. Handing on the rows of
 * those that go would make more of the few that stay than they are: these are the largest, and the
 * preconditioner that the weights are for comes out several times worse. */
static void compact(struct centers *c, const int64_t *keep, int64_t count)
{
    const size_t size = (size_t)c->d * dtype_size(c->dtype);
    const double fewer = (double)c->m / (double)count;
    char *points = c->points;
    for (int64_t j = 0; j < count; j++) {
        memmove(points + (size_t)j * size, points + (size_t)keep[j] * size, size);
        if (c->rows != NULL) {
            c->rows[j] = c->rows[keep[j]];
        }
        if (c->weights != NULL) {
            c->weights[j] = fewer * c->weights[keep[j]];
        }
    }
    c->m = count;
}

/* A kernel matrix of zeros has no pivot: one center stays. */
static int keep_pivots(struct centers *c, const struct pivoted *pivoted, struct err *err)
{
    int64_t count = 0;
    const int64_t *pivots = pivoted_pivots(&pivoted->base, &count);
    const int64_t kept = count > 0 ? count : 1;
    cleanup_mem int64_t *keep = mem_zarray((size_t)kept, sizeof(*keep));
    if (keep == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < count; j++) {
        keep[j] = pivots[j];
    }
    sort_i64(keep, kept);
    compact(c, keep, kept);
    return 0;
}

int center_rank_reduce(struct backend *be, const struct kernel *kernel, struct centers *c,
                       int (*stop)(void *context, struct err *err), void *stop_context,
                       struct err *err)
{
    const int64_t bound = center_rank_bound(kernel);
    if (bound == INT64_MAX || c->m < 2) {
        return 0;
    }
    const struct rows Z = {.dtype = c->dtype, .n = c->m, .d = c->d, .data = c->points};
    struct problem p = {
        .be = be, .n = c->m, .t = 1, .d = c->d, .dtype = DTYPE_F64, .points_dtype = DTYPE_F64};
    struct points *points = NULL;
    struct pivoted *pivoted = NULL;
    double fraction = 0;
    int r = be->ops->points_new(be, kernel, DTYPE_F64, &Z, &points, err);
    p.X = points;
    const int64_t most = bound < c->m ? bound : c->m;
    r = r == 0 ? pivoted_new(&pivot_rule_greedy, &p, most, pivoted_block(most), &pivoted, err) : r;
    if (r == 0) {
        pivoted->rounding = CENTER_RANK_CUT;
    }
    while (r == 0) {
        r = stop != NULL ? stop(stop_context, err) : 0;
        r = r == 0 ? pivoted_grow(pivoted, &fraction, err) : r;
    }
    r = r > 0 ? keep_pivots(c, pivoted, err) : r;
    if (pivoted != NULL) {
        pivoted_teardown(&pivoted->base);
    }
    be->ops->points_free(be, points);
    return r;
}
