#include "engine/fit/fit_model.h"

#include <math.h>

#include "base/mem.h"
#include "wire/names.h"

static char **copy_names(char *const *names, const int64_t *index, int64_t count)
{
    char **copy = mem_zarray((size_t)count, sizeof(*copy));
    for (int64_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = mem_strdup(names[index != NULL ? index[i] : i]);
        if (copy[i] == NULL) {
            return (char **)names_free(copy, count);
        }
    }
    return copy;
}

static int copy_all_names(const struct fit_data *data, struct model *m, struct err *err)
{
    char *const *names = data->train->info.column_names;
    m->feature_names = copy_names(names, data->columns.features, data->d);
    m->outputs = data->columns.targets;
    m->target_names = copy_names(names, data->columns.target, m->outputs);
    bool ok = m->feature_names != NULL && m->target_names != NULL;
    if (data->columns.task == TASK_CLASSIFICATION) {
        m->class_labels = copy_names(data->columns.labels, NULL, data->t);
        ok = ok && m->class_labels != NULL;
    }
    return ok ? 0 : err_no_memory(err);
}

/* The feature that is a column of the data set, or -1. */
static double place_of(const struct fit_data *data, int64_t column)
{
    for (int64_t j = 0; column >= 0 && j < data->d; j++) {
        if (data->columns.features[j] == column) {
            return (double)j;
        }
    }
    return -1;
}

/* Which features tell of others that they are missing; none, where none of them does. */
static int copy_indicators(const struct fit_data *data, struct model *m, struct err *err)
{
    const int64_t *of = data->train->info.missing.indicates;
    bool any = false;
    double *places = mem_array((size_t)data->d, sizeof(double));
    for (int64_t j = 0; places != NULL && j < data->d; j++) {
        places[j] = place_of(data, of[data->columns.features[j]]);
        any = any || places[j] >= 0;
    }
    if (places != NULL && !any) {
        mem_free(places);
        return 0;
    }
    m->feature_indicates = places;
    return places != NULL ? 0 : err_no_memory(err);
}

/* None where one of the features has none. */
static int copy_fill(const struct fit_data *data, struct model *m, struct err *err)
{
    const double *fill = data->train->info.missing.fill;
    bool all = fill != NULL;
    for (int64_t j = 0; all && j < data->d; j++) {
        all = isfinite(fill[data->columns.features[j]]);
    }
    if (!all) {
        return 0;
    }
    m->feature_fill = mem_array((size_t)data->d, sizeof(double));
    for (int64_t j = 0; m->feature_fill != NULL && j < data->d; j++) {
        m->feature_fill[j] = fill[data->columns.features[j]];
    }
    return m->feature_fill == NULL                       ? err_no_memory(err)
           : data->train->info.missing.indicates != NULL ? copy_indicators(data, m, err)
                                                         : 0;
}

static int copy_kernel(const struct kernel *kernel, struct model *m, struct err *err)
{
    m->kernel = *kernel;
    if (kernel->bandwidths != NULL) {
        m->bandwidths = mem_dup(kernel->bandwidths, (size_t)kernel->d * sizeof(double));
        m->kernel.bandwidths = m->bandwidths;
        return m->bandwidths != NULL ? 0 : err_no_memory(err);
    }
    return 0;
}

/* A from the backend, transposed to rows. */
static int copy_coefficients(struct backend *be, const struct mat *A, struct model *m,
                             struct err *err)
{
    const int64_t n = m->m, t = m->t;
    cleanup_mem double *columns = mem_array((size_t)(n * t), sizeof(double));
    m->coef = mem_array((size_t)(n * t), sizeof(double));
    if (columns == NULL || m->coef == NULL) {
        return err_no_memory(err);
    }
    const int r = be->ops->mat_get(be, A, columns, n, err);
    for (int64_t i = 0; r == 0 && i < n; i++) {
        for (int64_t j = 0; j < t; j++) {
            m->coef[i * t + j] = columns[i + j * n];
        }
    }
    return r;
}

static void *take(void *slot)
{
    void *p = *(void **)slot;
    *(void **)slot = NULL;
    return p;
}

/* Variances in the targets' own units. Targets were scaled by the data's target_scale. */
static int copy_variances(const struct posterior *p, const struct fit_data *data, struct model *m,
                          struct err *err)
{
    if (p->factor == NULL) {
        return 0;
    }
    m->p = p->p;
    m->prior_variance = mem_array((size_t)p->t, sizeof(double));
    m->noise_variance = mem_array((size_t)p->t, sizeof(double));
    if (m->prior_variance == NULL || m->noise_variance == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        const double scale = data->target_scale[j];
        m->prior_variance[j] = p->amplitude[j] * scale * scale;
        m->noise_variance[j] = p->ridge * m->prior_variance[j];
    }
    return 0;
}

int fit_model_make(struct backend *be, const struct kernel *kernel, struct fit_data *data,
                   void **points, const struct mat *A, struct posterior *posterior,
                   struct model **ret, struct err *err)
{
    struct model *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->task = data->columns.task;
    m->m = A->rows;
    m->d = data->d;
    m->t = data->t;
    m->dtype = data->dtype;
    int r = copy_kernel(kernel, m, err);
    if (r == 0) {
        r = copy_all_names(data, m, err);
    }
    if (r == 0) {
        r = copy_fill(data, m, err);
    }
    if (r == 0) {
        r = copy_variances(posterior, data, m, err);
    }
    if (r == 0) {
        r = copy_coefficients(be, A, m, err);
    }
    if (r < 0) {
        model_free(m);
        return r;
    }
    m->centers = take(points);
    m->feature_mean = take(&data->feature_mean);
    m->feature_scale = take(&data->feature_scale);
    m->target_mean = take(&data->target_mean);
    m->target_scale = take(&data->target_scale);
    m->variance_factor = take(&posterior->factor);
    *ret = m;
    return 0;
}
