#include "export/sample.h"

#include <math.h>

#include "base/mem.h"
#include "export/formula.h"
#include "wire/names.h"

void sample_deinit(struct sample *s)
{
    s->X = mem_free(s->X);
    s->rows = 0;
}

static int64_t rows_wanted(const struct model_file *f)
{
    const double cost = (double)f->m * (double)(f->d + f->t + 16);
    const double affordable = SAMPLE_WORK / cost;
    return affordable >= SAMPLE_ROWS_MAX ? SAMPLE_ROWS_MAX
           : affordable < 4              ? 4
                                         : (int64_t)affordable;
}

/* ---- rows of a data set ---- */

static int find_columns(const struct model_file *f, const struct dataset *ds, int64_t *ret,
                        struct err *err)
{
    cleanup_name_index struct name_index index = {0};
    int rc = name_index_init(&index, ds->info.column_names, ds->info.columns, err);
    for (int64_t j = 0; rc == 0 && j < f->d; j++) {
        ret[j] = name_index_find(&index, f->feature_names[j]);
        rc = ret[j] >= 0 ? 0 : err_set(err, ERR_NOT_FOUND, "A feature is not there any more.");
    }
    return rc;
}

/* The k-th of the rows that are taken, or -1: there is none. */
static int64_t row_at(const struct sample_source *source, const struct dataset *ds, int64_t k,
                      int64_t rows)
{
    const int64_t row = source->rows != NULL ? source->rows[k] : k * ds->info.rows / rows;
    return row >= 0 && row < ds->info.rows ? row : -1;
}

static int copy_rows(const struct model_file *f, const struct sample_source *source,
                     const struct dataset *ds, const int64_t *columns, struct sample *ret,
                     struct err *err)
{
    const int64_t there = source->rows != NULL ? source->count : ds->info.rows;
    const int64_t wanted = rows_wanted(f), rows = there < wanted ? there : wanted;
    if (rows == 0) {
        return err_set(err, ERR_NOT_FOUND, "There is no row.");
    }
    ret->X = mem_array((size_t)(rows * f->d), sizeof(*ret->X));
    if (ret->X == NULL) {
        return err_no_memory(err);
    }
    for (int64_t k = 0; k < rows; k++) {
        const int64_t row = row_at(source, ds, k, rows);
        if (row < 0) {
            return err_set(err, ERR_NOT_FOUND, "A row is not there.");
        }
        for (int64_t j = 0; j < f->d; j++) {
            ret->X[k * f->d + j] = dataset_at(ds, row, columns[j]);
        }
    }
    ret->rows = rows;
    return 0;
}

static int take_rows(const struct model_file *f, const struct sample_source *source,
                     struct sample *ret, struct err *err)
{
    struct dataset *ds = NULL;
    cleanup_mem int64_t *columns = mem_array((size_t)f->d, sizeof(*columns));
    int rc = columns != NULL ? dataset_open(source->path, &ds, err) : err_no_memory(err);
    rc = rc == 0 ? find_columns(f, ds, columns, err) : rc;
    rc = rc == 0 ? copy_rows(f, source, ds, columns, ret, err) : rc;
    ret->label = source->label;
    dataset_free(ds);
    return rc;
}

/* ---- centers ---- */

static int take_centers(const struct model_file *f, struct sample *ret, struct err *err)
{
    const int64_t wanted = rows_wanted(f), rows = f->m < wanted ? f->m : wanted;
    ret->X = mem_array((size_t)(rows * f->d), sizeof(*ret->X));
    if (ret->X == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = i * f->m / rows * f->d;
        for (int64_t j = 0; j < f->d; j++) {
            const double z = f->dtype == DTYPE_F32 ? (double)((const float *)f->centers)[from + j]
                                                   : ((const double *)f->centers)[from + j];
            ret->X[i * f->d + j] = z * f->feature_scale[j] + f->feature_mean[j];
        }
    }
    ret->rows = rows;
    ret->label = "centers";
    return 0;
}

int sample_take(const struct model_file *f, const struct sample_source *sources, int count,
                struct sample *ret, struct err *err)
{
    struct sample s = {.X = NULL};
    for (int i = 0; i < count; i++) {
        struct err why;
        const int rc = sources[i].path != NULL ? take_rows(f, &sources[i], &s, &why) : -1;
        if (rc == 0) {
            *ret = s;
            return 0;
        }
        sample_deinit(&s);
    }
    const int rc = take_centers(f, &s, err);
    if (rc == 0) {
        *ret = s;
    }
    return rc;
}

/* ---- the error ---- */

int sample_measure(const struct model_file *f, bool svm, const struct sample *s,
                   const double *served, struct sample_error *ret, struct err *err)
{
    const int64_t count = s->rows * f->t;
    cleanup_mem double *exported = mem_array((size_t)count, sizeof(*exported));
    int rc = exported != NULL ? formula_evaluate(f, svm, s->X, s->rows, exported, err)
                              : err_no_memory(err);
    if (rc < 0) {
        return rc;
    }
    struct sample_error e = {
        .rows = s->rows, .label = s->label, .arithmetic = svm ? "float32" : "float64"};
    for (int64_t k = 0; k < count; k++) {
        const double difference = fabs(exported[k] - served[k]);
        if (!isnan(e.largest) && !(difference <= e.largest)) {
            e.largest = difference; /* once NaN, always NaN */
        }
        e.largest_value = fmax(e.largest_value, fabs(served[k]));
    }
    *ret = e;
    return 0;
}

struct json *sample_error_to_json(const struct sample_error *e)
{
    struct json *j = json_new_object();
    json_set_int(j, "rows", e->rows);
    json_set_string(j, "of", e->label);
    json_set_string(j, "arithmetic", e->arithmetic);
    json_set_number(j, "max_abs_error", e->largest);
    json_set_number(j, "max_abs_prediction", e->largest_value);
    return j;
}
