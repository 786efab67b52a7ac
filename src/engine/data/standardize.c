#include "engine/data/standardize.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "base/sort.h"
#include "engine/squares.h"

/* mean = first + sum (x - first) / n: a large offset costs no digits, and the mean of a constant
 * column is that constant exactly, whatever its binary form, so that its deviation is exactly 0. */
static void means(const struct dataset *ds, const int64_t *rows, int64_t n, const int64_t *columns,
                  int64_t d, double *ret)
{
    for (int64_t j = 0; j < d; j++) {
        ret[j] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            const double first = dataset_at(ds, rows[0], columns[j]);
            ret[j] += (dataset_at(ds, rows[i], columns[j]) - first) / (double)n;
        }
    }
    for (int64_t j = 0; j < d; j++) {
        ret[j] += dataset_at(ds, rows[0], columns[j]);
    }
}

/* Deviations are multiplied by it before they are squared (squares.h). */
static double shrink(double largest)
{
    return squares_factor(squares_exponent(largest));
}

/* The deviation from the mean of squares of shrunk ones; 1 where all are 0. */
static double scale_of(double square, double factor)
{
    return square == 0 ? 1.0 : sqrt(square) / factor;
}

/* At most SCALES_BLOCK columns, row by row. */
enum { SCALES_BLOCK = 64 };

static void scales(const struct dataset *ds, const int64_t *rows, int64_t n, const int64_t *columns,
                   int64_t d, const double *mean, double *ret)
{
    double factor[SCALES_BLOCK] = {0}, square[SCALES_BLOCK] = {0};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            factor[j] = fmax(factor[j], fabs(dataset_at(ds, rows[i], columns[j]) - mean[j]));
        }
    }
    for (int64_t j = 0; j < d; j++) {
        factor[j] = shrink(factor[j]);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            const double e = (dataset_at(ds, rows[i], columns[j]) - mean[j]) * factor[j];
            square[j] += e * e / (double)n;
        }
    }
    for (int64_t j = 0; j < d; j++) {
        ret[j] = scale_of(square[j], factor[j]);
    }
}

void standardize_columns(const struct dataset *ds, const int64_t *rows, int64_t n,
                         const int64_t *columns, int64_t d, double *ret_mean, double *ret_scale)
{
    means(ds, rows, n, columns, d, ret_mean);
    for (int64_t j = 0; j < d; j += SCALES_BLOCK) {
        const int64_t count = d - j < SCALES_BLOCK ? d - j : SCALES_BLOCK;
        scales(ds, rows, n, columns + j, count, ret_mean + j, ret_scale + j);
    }
}

enum { ORIGIN_SAMPLE = 1001, ORIGIN_ROWS_MIN = 5, ORIGIN_TAIL = 10 };

int standardize_origin(const struct dataset *ds, const int64_t *rows, int64_t n,
                       const int64_t *columns, int64_t d, double *mean, struct err *err)
{
    const int64_t count = n < ORIGIN_SAMPLE ? n : ORIGIN_SAMPLE;
    const int64_t tail = count > ORIGIN_TAIL ? count / ORIGIN_TAIL : 1;
    if (count < ORIGIN_ROWS_MIN) {
        return 0;
    }
    cleanup_mem double *sample = mem_array((size_t)count, sizeof(*sample));
    if (sample == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < d; j++) {
        for (int64_t i = 0; i < count; i++) {
            sample[i] = dataset_at(ds, rows[i * n / count], columns[j]);
        }
        sort_f64(sample, count);
        if (!(mean[j] >= sample[tail] && mean[j] <= sample[count - 1 - tail])) {
            mean[j] = sample[count / 2];
        }
    }
    return 0;
}

/* The mean less what the sum of many shares has lost of it. */
static double corrected(const struct sequence *x, double mean)
{
    double lost = 0;
    for (int64_t i = 0; i < x->n; i++) {
        lost += (x->at(x->context, i) - mean) / (double)x->n;
    }
    return mean + lost;
}

bool standardize_sequence(const struct sequence *x, double *ret_mean, double *ret_scale)
{
    const double first = x->at(x->context, 0), n = (double)x->n;
    double mean = 0, largest = 0, square = 0;
    bool constant = true;
    for (int64_t i = 0; i < x->n; i++) {
        const double value = x->at(x->context, i);
        mean += (value - first) / n;
        constant = constant && value == first;
    }
    mean = corrected(x, mean + first);
    for (int64_t i = 0; i < x->n; i++) {
        largest = fmax(largest, fabs(x->at(x->context, i) - mean));
    }
    const double factor = shrink(largest);
    for (int64_t i = 0; i < x->n; i++) {
        const double e = (x->at(x->context, i) - mean) * factor;
        square += e * e / n;
    }
    *ret_mean = mean;
    *ret_scale = scale_of(square, factor);
    return constant;
}

static double element(const void *context, int64_t i)
{
    return ((const double *)context)[i];
}

bool standardize_vector(const double *x, int64_t n, double *ret_mean, double *ret_scale)
{
    const struct sequence all = {.at = element, .context = x, .n = n};
    return standardize_sequence(&all, ret_mean, ret_scale);
}

void standardize_row(const double *raw, int64_t d, const double *mean, const double *scale,
                     enum dtype dtype, void *X, int64_t i)
{
    if (dtype == DTYPE_F32) {
        float *to = (float *)X + i * d;
        for (int64_t j = 0; j < d; j++) {
            to[j] = (float)((raw[j] - mean[j]) / scale[j]);
        }
    } else {
        double *to = (double *)X + i * d;
        for (int64_t j = 0; j < d; j++) {
            to[j] = (raw[j] - mean[j]) / scale[j];
        }
    }
}

int standardize_refuse(const char *name, enum dtype dtype, struct err *err)
{
    return err_at(err, ERR_INVALID, "#/precision",
                  "The feature \"%.64s\" has values too large for %s.", name, dtype_name(dtype));
}

int standardize_gather(const struct dataset *ds, const int64_t *rows, int64_t n,
                       const int64_t *columns, int64_t d, const double *mean, const double *scale,
                       enum dtype dtype, void **ret, struct err *err)
{
    cleanup_mem double *raw = mem_array((size_t)d, sizeof(double));
    int64_t count;
    if (raw == NULL || __builtin_mul_overflow(n, d, &count)) {
        return err_no_memory(err);
    }
    void *X = mem_array((size_t)count, dtype_size(dtype));
    if (X == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < d; j++) {
            raw[j] = columns[j] < 0 ? 0.0 : dataset_at(ds, rows[i], columns[j]);
        }
        standardize_row(raw, d, mean, scale, dtype, X, i);
    }
    const struct rows all = {.dtype = dtype, .n = n, .d = d, .data = X};
    for (int64_t k = 0; k < count; k++) {
        if (!isfinite(rows_at(&all, 0, k))) {
            const int64_t column = columns[k % d];
            mem_free(X);
            return standardize_refuse(column < 0 ? "" : ds->info.column_names[column], dtype, err);
        }
    }
    *ret = X;
    return 0;
}
