#include "engine/fit/fit_centers.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/centers/center_rank.h"
#include "engine/methods/row_order.h"
#include "plan/rules.h"

/* Of the memory that is free when the fit begins, for rows that stay on the backend. */
static const double resident_share = 0.5;

void fit_centers_deinit(struct fit_centers *c)
{
    if (c->Z != NULL && c->Z != c->core) {
        c->be->ops->points_free(c->be, c->Z);
    }
    if (c->core != NULL) {
        c->be->ops->points_free(c->be, c->core);
    }
    rowset_free(c->rows);
    rowset_free(c->tests);
    centers_deinit(&c->chosen);
    fit_rows_file_deinit(&c->file);
    *c = (struct fit_centers){0};
}

int fit_centers_sample(const struct fit_data *data, int64_t most, uint64_t seed, void **ret,
                       double **ret_Y, int64_t *ret_count, struct err *err)
{
    const struct row_source s = fit_rows_train(data);
    const int64_t count = s.n < most ? s.n : most;
    cleanup_mem int64_t *index = mem_array((size_t)count, sizeof(*index));
    void *X = mem_array((size_t)(count * s.d), dtype_size(s.dtype));
    double *Y = mem_array((size_t)(count * s.t), sizeof(*Y));
    int r = index != NULL && X != NULL && Y != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        const struct row_order order = row_order_new(seed, ORDER_FIT_SAMPLE, 0, s.n);
        for (int64_t i = 0; i < count; i++) {
            index[i] = row_order_at(&order, i);
        }
        r = s.read(&s, 0, index, count, X, Y, err);
    }
    if (r < 0) {
        mem_free(X);
        mem_free(Y);
        return r;
    }
    *ret = X;
    *ret_Y = Y;
    *ret_count = count;
    return 0;
}

int64_t fit_centers_count(const struct job_spec *spec, const struct dataset *file, int64_t n)
{
    const int64_t usual = file != NULL ? file->info.rows : rule_centers(n);
    return spec->centers.count > 0 ? spec->centers.count : usual;
}

/* ---- selection ---- */

static int64_t count_of(const struct center_ops *ops, const struct fit_centers_task *task)
{
    if (task->count > 0) {
        return task->count;
    }
    return ops->own_count ? task->spec->centers.count
                          : fit_centers_count(task->spec, task->file, task->data->n);
}

static int run_selection(const struct center_ops *ops, struct center_selection *s,
                         const struct fit_centers_task *task, struct centers *ret, struct err *err)
{
    double fraction = 0;
    int r = 0;
    while (r == 0) {
        r = task->stop(task->stop_context, err);
        if (r == 0) {
            r = ops->step(s, &fraction, err);
            task->told(task->stop_context, fraction);
        }
    }
    return r < 0 ? r : ops->take(s, ret, err);
}

static int select_centers(struct fit_centers *c, const struct fit_centers_task *task,
                          struct err *err)
{
    const struct job_spec *spec = task->spec;
    const struct center_ops *ops = center_find(spec->centers.method->name);
    if (ops == NULL) {
        return err_at(err, ERR_UNSUPPORTED, "#/centers/method",
                      "This selector of centers is not part of this program.");
    }
    const bool narrow = spec->precision == PRECISION_FLOAT32 || spec->precision == PRECISION_MIXED;
    const struct center_task selection = {
        .be = task->be,
        .kernel = task->kernel,
        .rows = &c->train,
        .file = task->file != NULL ? &c->from_file : NULL,
        .count = count_of(ops, task),
        .regularization = task->regularization,
        .dtype = narrow ? DTYPE_F32 : DTYPE_F64,
        .seed = (uint64_t)spec->seed,
    };
    struct center_selection *s = NULL;
    int r = ops->setup(&selection, &spec->centers.params, &s, err);
    if (r == 0) {
        r = run_selection(ops, s, task, &c->chosen, err);
    }
    ops->teardown(s);
    c->dependent = c->chosen.m;
    if (r == 0) {
        r = center_rank_reduce(task->be, task->kernel, &c->chosen, task->stop, task->stop_context,
                               err);
    }
    c->dependent -= c->chosen.m;
    c->host = (struct rows){
        .dtype = c->chosen.dtype, .n = c->chosen.m, .d = c->chosen.d, .data = c->chosen.points};
    return r;
}

/* ---- on the backend ---- */

static int put_centers(struct fit_centers *c, const struct fit_centers_task *task, struct err *err)
{
    const struct backend_ops *o = task->be->ops;
    int r = o->points_new(task->be, task->kernel, DTYPE_F64, &c->host, &c->core, err);
    c->Z = c->core;
    if (r == 0 && task->points != DTYPE_F64) {
        c->Z = NULL;
        r = o->points_new(task->be, task->kernel, task->points, &c->host, &c->Z, err);
    }
    return r;
}

/* Sums over the rows of products of two kernel values: as large as those of the centers, they must
 * be numbers, and single values must be such of the operator's type. */
static int check_range(const struct fit_centers *c, const struct fit_centers_task *task,
                       struct err *err)
{
    const struct backend_ops *o = task->be->ops;
    const int64_t m = c->chosen.m;
    const double most = task->points == DTYPE_F32 ? (double)FLT_MAX : DBL_MAX;
    struct mat d = {0};
    cleanup_mem double *values = mem_array((size_t)m, sizeof(*values));
    int r = values != NULL ? o->mat_new(task->be, DTYPE_F64, m, 1, &d, err) : err_no_memory(err);
    r = r == 0 ? o->kdiag(task->be, view_all(c->core, m), &d, err) : r;
    r = r == 0 ? o->mat_get(task->be, &d, values, m, err) : r;
    for (int64_t i = 0; r == 0 && i < m; i++) {
        const double size = fabs(values[i]);
        r = size <= most && isfinite((double)c->train.n * size * size) ? 0 : kernel_overflows(err);
    }
    o->mat_free(task->be, &d);
    return r;
}

static int make_rowset(const struct fit_centers *c, const struct fit_centers_task *task,
                       const struct row_source *source, enum dtype points, int64_t budget,
                       struct rowset **ret, struct err *err)
{
    const struct rowset_spec spec = {
        .be = task->be,
        .kernel = task->kernel,
        .source = source,
        .points = points,
        .vectors = task->vectors,
        .centers = c->chosen.m,
        .budget = budget,
    };
    return rowset_new(&spec, ret, err);
}

/* Test rows are predicted as the model will do it, in mixed precision by float64 values. */
static int make_rowsets(struct fit_centers *c, const struct fit_centers_task *task, struct err *err)
{
    const int64_t room = memory_available_on(task->be);
    const int64_t budget = room < INT64_MAX ? (int64_t)(resident_share * (double)room) : 0;
    const int r = make_rowset(c, task, &c->train, task->points, budget, &c->rows, err);
    return r < 0 || c->test.n == 0
               ? r
               : make_rowset(c, task, &c->test, task->vectors, 0, &c->tests, err);
}

int fit_centers_select(struct fit_centers *c, const struct fit_centers_task *task, struct err *err)
{
    *c = (struct fit_centers){
        .be = task->be,
        .train = fit_rows_train(task->data),
        .test = fit_rows_test(task->data),
    };
    int r = 0;
    if (task->file != NULL) {
        r = fit_rows_file_init(&c->file, task->data, task->file, err);
        c->from_file = r == 0 ? fit_rows_file(&c->file) : c->from_file;
    }
    return r == 0 ? select_centers(c, task, err) : r;
}

int fit_centers_upload(struct fit_centers *c, const struct fit_centers_task *task, struct err *err)
{
    int r = put_centers(c, task, err);
    r = r == 0 ? check_range(c, task, err) : r;
    r = r == 0 ? make_rowsets(c, task, err) : r;
    c->problem = (struct restricted){
        .rows = c->rows,
        .source = &c->train,
        .kernel = task->kernel,
        .Z = c->Z,
        .core = c->core,
        .centers = &c->host,
        .m = c->chosen.m,
        .weights = c->chosen.weights,
        .positions = task->spec->centers.dataset[0] == '\0' ? c->chosen.rows : NULL,
    };
    return r;
}

/* Rows of P, of a tile. */
static int predict_tile(struct fit_centers *c, const struct row_tile *t, const struct mat *A,
                        const struct mat *part, double *P, struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    const struct mat some = mat_rows(*part, 0, t->count);
    const struct points *Z = A->dtype == DTYPE_F64 ? c->core : c->Z;
    int r = o->kmv(c->be, t->rows, view_all(Z, c->chosen.m), 1.0, A, 0.0, &some, err);
    return r == 0 ? o->mat_get(c->be, &some, P + t->first, c->test.n, err) : r;
}

int fit_centers_predict(struct fit_centers *c, const struct mat *A, double *P, struct err *err)
{
    struct mat part = {0};
    int r = 0;
    for (int64_t i = 0; r == 0 && i < rowset_tiles(c->tests); i++) {
        struct row_tile t;
        r = rowset_tile(c->tests, i, &t, err);
        if (r == 0 && part.rows < t.count) {
            r = c->be->ops->mat_new(c->be, A->dtype, t.count, A->cols, &part, err);
        }
        r = r == 0 ? predict_tile(c, &t, A, &part, P, err) : r;
    }
    rowset_rest(c->tests);
    c->be->ops->mat_free(c->be, &part);
    return r;
}
