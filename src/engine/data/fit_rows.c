#include "engine/data/fit_rows.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "engine/data/standardize.h"

/* Which rows of which data set a source stands for. */
struct reading {
    const struct fit_data *fit;
    const struct dataset *ds;
    const int64_t *features; /* [d] columns of ds */
    const int64_t *list;     /* rows of ds, or NULL: all, in their order */
};

/* The features of one row of the data set, as numbers; what it lacks is 0 (DATASET_ZERO). */
static void gather(const struct reading *r, int64_t row, double *ret)
{
    const int64_t columns = r->ds->info.columns, d = r->fit->d;
    if (r->ds->info.dtype == DTYPE_F32) {
        const float *from = (const float *)r->ds->data + row * columns;
        for (int64_t j = 0; j < d; j++) {
            ret[j] = r->features[j] < 0 ? 0.0 : (double)from[r->features[j]];
        }
    } else {
        const double *from = (const double *)r->ds->data + row * columns;
        for (int64_t j = 0; j < d; j++) {
            ret[j] = r->features[j] < 0 ? 0.0 : from[r->features[j]];
        }
    }
}

/* The first of the numbers that is not finite, or -1. A sum is finite, or one of them is not: the
 * list is looked through only then. */
static int64_t not_finite(const struct rows *x)
{
    double sum = 0;
    for (int64_t k = 0; k < x->n * x->d; k++) {
        sum += 0.0 * rows_at(x, 0, k);
    }
    for (int64_t k = 0; sum != 0.0 && k < x->n * x->d; k++) {
        if (!isfinite(rows_at(x, 0, k))) {
            return k;
        }
    }
    return -1;
}

static int read_features(const struct reading *r, int64_t first, const int64_t *index,
                         int64_t count, enum dtype dtype, void *ret_X, struct err *err)
{
    cleanup_mem double *raw = mem_array((size_t)r->fit->d, sizeof(double));
    if (raw == NULL) {
        return err_no_memory(err);
    }
    const struct fit_data *f = r->fit;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = index != NULL ? index[i] : first + i;
        gather(r, r->list != NULL ? r->list[at] : at, raw);
        standardize_row(raw, f->d, f->feature_mean, f->feature_scale, dtype, ret_X, i);
    }
    const struct rows all = {.dtype = dtype, .n = count, .d = f->d, .data = ret_X};
    const int64_t bad = not_finite(&all);
    return bad < 0 ? 0
                   : standardize_refuse(
                         f->train->info.column_names[f->columns.features[bad % f->d]], dtype, err);
}

/* Targets as fit_data has them: centered and scaled, or one centered 0/1 column a class. */
static void read_targets(const struct fit_data *f, int64_t first, const int64_t *index,
                         int64_t count, double *ret)
{
    const bool classes = f->columns.task == TASK_CLASSIFICATION;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = f->split.train[index != NULL ? index[i] : first + i];
        for (int64_t j = 0; j < f->t; j++) {
            const double raw = columns_target(&f->columns, f->train, row, classes ? 0 : j);
            const double y = classes ? (double)(raw == (double)j) : raw;
            ret[i + j * count] = (y - f->target_mean[j]) / f->target_scale[j];
        }
    }
}

static int read_train(const struct row_source *s, int64_t first, const int64_t *index,
                      int64_t count, void *ret_X, double *ret_Y, struct err *err)
{
    const struct fit_data *f = s->context;
    const struct reading r = {
        .fit = f, .ds = f->train, .features = f->columns.features, .list = f->split.train};
    if (ret_Y != NULL) {
        read_targets(f, first, index, count, ret_Y);
    }
    return read_features(&r, first, index, count, s->dtype, ret_X, err);
}

static int read_test(const struct row_source *s, int64_t first, const int64_t *index, int64_t count,
                     void *ret_X, double *ret_Y, struct err *err)
{
    const struct fit_data *f = s->context;
    const struct reading r = {
        .fit = f, .ds = f->tested, .features = f->tested_columns.features, .list = f->split.test};
    (void)ret_Y;
    return read_features(&r, first, index, count, s->dtype, ret_X, err);
}

static int read_file(const struct row_source *s, int64_t first, const int64_t *index, int64_t count,
                     void *ret_X, double *ret_Y, struct err *err)
{
    const struct fit_rows_file *file = s->context;
    const struct reading r = {.fit = file->fit, .ds = file->file, .features = file->features};
    (void)ret_Y;
    return read_features(&r, first, index, count, s->dtype, ret_X, err);
}

/* Sources are read-only; the interface's context is any object's. */
static void *context_of(const void *object)
{
    return (void *)(uintptr_t)object;
}

struct row_source fit_rows_train(const struct fit_data *f)
{
    return (struct row_source){.context = context_of(f),
                               .n = f->n,
                               .d = f->d,
                               .t = f->t,
                               .dtype = f->dtype,
                               .read = read_train};
}

struct row_source fit_rows_test(const struct fit_data *f)
{
    return (struct row_source){
        .context = context_of(f), .n = f->m, .d = f->d, .dtype = f->dtype, .read = read_test};
}

int fit_rows_file_init(struct fit_rows_file *r, const struct fit_data *f,
                       const struct dataset *file, struct err *err)
{
    *r = (struct fit_rows_file){.fit = f, .file = file};
    return columns_match_centers(&f->columns, &f->train->info, &file->info, &r->features, err);
}

void fit_rows_file_deinit(struct fit_rows_file *r)
{
    mem_free(r->features);
    *r = (struct fit_rows_file){0};
}

struct row_source fit_rows_file(const struct fit_rows_file *r)
{
    return (struct row_source){.context = context_of(r),
                               .n = r->file->info.rows,
                               .d = r->fit->d,
                               .dtype = r->fit->dtype,
                               .read = read_file};
}
