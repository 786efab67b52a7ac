#include "bench/scores.h"

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/centers/center_scores.h"

enum { PANEL = 1024 };

static int read_points(const struct center_task *task, struct points **ret, struct err *err)
{
    const struct row_source *rows = task->rows;
    cleanup_mem void *X = mem_array((size_t)rows->n, (size_t)rows->d * dtype_size(rows->dtype));
    if (X == NULL) {
        return err_no_memory(err);
    }
    const int r = rows->read(rows, 0, NULL, rows->n, X, NULL, err);
    const struct rows all = {.dtype = rows->dtype, .n = rows->n, .d = rows->d, .data = X};
    return r == 0 ? task->be->ops->points_new(task->be, task->kernel, rows->dtype, &all, ret, err)
                  : r;
}

/* |L^-1 e_i|^2 of the columns first .. first+count-1, which begin in their own rows. */
static int panel(const struct center_task *task, const struct mat *L, int64_t first, int64_t count,
                 double *ret, struct err *err)
{
    const struct backend_ops *o = task->be->ops;
    const int64_t rows = L->rows - first;
    const struct mat below = mat_cols(mat_rows(*L, first, rows), first, rows);
    struct mat E = {0};
    int r = o->mat_new(task->be, DTYPE_F64, rows, count, &E, err);
    if (r == 0) {
        const struct mat top = mat_rows(E, 0, count);
        r = o->add_diag(task->be, 1.0, &top, err);
    }
    if (r == 0) {
        r = o->trsm(task->be, false, false, &below, &E, err);
    }
    if (r == 0) {
        r = o->col_dots(task->be, &E, &E, ret, err);
    }
    o->mat_free(task->be, &E);
    return r;
}

int scores_exact(const struct center_task *task, double *ret, struct err *err)
{
    const struct backend_ops *o = task->be->ops;
    const int64_t n = task->rows->n;
    const double ridge = task->regularization * (double)n;
    struct points *P = NULL;
    struct mat L = {0};
    int r = memory_check_matrix(task->be, n, n, DTYPE_F64, "The matrix of the exact scores", err);
    if (r == 0) {
        r = read_points(task, &P, err);
    }
    if (r == 0) {
        r = o->mat_new(task->be, DTYPE_F64, n, n, &L, err);
    }
    if (r == 0) {
        r = o->kblock(task->be, view_all(P, n), view_all(P, n), &L, err);
    }
    if (r == 0) {
        r = o->add_diag(task->be, ridge, &L, err);
    }
    if (r == 0) {
        r = o->potrf(task->be, &L, 0.0, NULL, err);
    }
    for (int64_t i = 0; r == 0 && i < n; i += PANEL) {
        r = panel(task, &L, i, n - i < PANEL ? n - i : PANEL, ret + i, err);
    }
    for (int64_t i = 0; r == 0 && i < n; i++) {
        ret[i] = 1.0 - ridge * ret[i];
    }
    o->mat_free(task->be, &L);
    o->points_free(task->be, P);
    return r;
}

static int gather(const struct center_task *task, const struct centers *c, struct center_set *J,
                  struct err *err)
{
    const size_t size = (size_t)c->d * dtype_size(c->dtype);
    const double part = (double)task->rows->n / (double)c->m;
    int r = 0;
    for (int64_t j = 0; r >= 0 && j < c->m; j++) {
        const double weight = c->weights != NULL ? c->weights[j] : 1.0;
        r = center_set_add(J, (const char *)c->points + (size_t)j * size, j, part / weight, err);
    }
    return r < 0 ? r : 0;
}

static int score_all(struct center_scores *s, const struct center_task *task, double *ret,
                     struct err *err)
{
    const struct row_source *rows = task->rows;
    const int64_t piece = center_scores_piece(s);
    cleanup_mem void *X = mem_array((size_t)piece, (size_t)rows->d * dtype_size(rows->dtype));
    int r = X != NULL ? 0 : err_no_memory(err);
    for (int64_t i = 0; r == 0 && i < rows->n; i += piece) {
        const int64_t count = rows->n - i < piece ? rows->n - i : piece;
        r = rows->read(rows, i, NULL, count, X, NULL, err);
        if (r == 0) {
            r = center_scores_of(s, X, count, ret + i, err);
        }
    }
    return r;
}

int scores_of_centers(const struct center_task *task, const struct centers *c, double *ret,
                      struct err *err)
{
    struct center_scores s = {.m = 0};
    struct center_set J;
    double largest = 0;
    center_set_init(&J, c->d, c->dtype);
    int r = gather(task, c, &J, err);
    if (r == 0) {
        r = center_largest(task, &largest, err);
    }
    if (r == 0) {
        r = center_scores_start(&s, task, &J, task->regularization, largest, err);
    }
    while (r == 0) {
        r = center_scores_build(&s, err);
    }
    r = r > 0 ? score_all(&s, task, ret, err) : r;
    center_scores_deinit(&s);
    center_set_deinit(&J);
    return r;
}
