#include "engine/methods/centers/center_draw.h"

#include "base/mem.h"
#include "engine/mat.h"

int center_draw_init(struct center_draw *w, const struct row_source *from, enum dtype dtype,
                     uint64_t seed, struct err *err)
{
    *w = (struct center_draw){.from = from, .dtype = dtype};
    w->order = row_order_new(seed, ORDER_DRAW, 0, from->n);
    w->index = mem_array(DRAW_ROWS, sizeof(*w->index));
    w->X = mem_array((size_t)from->d, DRAW_ROWS * dtype_size(from->dtype));
    w->point = mem_array((size_t)from->d, sizeof(double));
    return w->index != NULL && w->X != NULL && w->point != NULL ? 0 : err_no_memory(err);
}

void center_draw_deinit(struct center_draw *w)
{
    mem_free(w->index);
    mem_free(w->X);
    mem_free(w->point);
    *w = (struct center_draw){.from = NULL};
}

/* Row i of X in the set's type. */
static const void *point_at(struct center_draw *w, int64_t i)
{
    const struct rows X = {.dtype = w->from->dtype, .n = DRAW_ROWS, .d = w->from->d, .data = w->X};
    if (X.dtype == w->dtype) {
        return (const char *)w->X + (size_t)(i * X.d) * dtype_size(X.dtype);
    }
    for (int64_t j = 0; j < X.d; j++) {
        if (w->dtype == DTYPE_F32) {
            ((float *)w->point)[j] = (float)rows_at(&X, i, j);
        } else {
            ((double *)w->point)[j] = rows_at(&X, i, j);
        }
    }
    return w->point;
}

int center_draw_step(struct center_draw *w, struct center_set *set, int64_t wanted, double stands,
                     bool free_points, struct err *err)
{
    const int64_t left = w->from->n - w->next, lacking = wanted - set->m;
    int64_t count = lacking < left ? lacking : left;
    count = count < DRAW_ROWS ? count : DRAW_ROWS;
    if (count <= 0) {
        return 1;
    }
    for (int64_t i = 0; i < count; i++) {
        w->index[i] = row_order_at(&w->order, w->next + i);
    }
    int rc = w->from->read(w->from, 0, w->index, count, w->X, NULL, err);
    for (int64_t i = 0; rc >= 0 && i < count; i++) {
        rc = center_set_add(set, point_at(w, i), free_points ? -1 : w->index[i], stands, err);
    }
    w->next += count;
    return rc < 0 ? rc : set->m == wanted || w->next == w->from->n;
}

static int begin(struct center_draw *w, const struct center_task *task,
                 const struct center_set *set, struct err *err)
{
    if (w->from != NULL) {
        return 0;
    }
    const struct row_source *rows = task->rows;
    const int rc = center_draw_init(w, rows, rows->dtype, task->seed, err);
    w->had = set->m;
    return rc;
}

int center_draw_all(struct center_draw *w, const struct center_task *task, struct center_set *set,
                    struct err *err)
{
    const int rc = begin(w, task, set, err);
    return rc < 0 ? rc : center_draw_step(w, set, task->rows->n, 1.0, false, err);
}

int center_draw_fill(struct center_draw *w, const struct center_task *task, struct center_set *set,
                     struct err *err)
{
    int rc = begin(w, task, set, err);
    if (rc == 0) {
        rc = center_draw_step(w, set, center_task_wanted(task), 0.0, false, err);
    }
    for (int64_t j = w->had; rc > 0 && j < set->m; j++) {
        set->stands[j] = 1.0;
    }
    return rc;
}
