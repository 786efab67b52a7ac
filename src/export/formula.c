#include "export/formula.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static double center_at(const struct model_file *f, int64_t k)
{
    return f->dtype == DTYPE_F32 ? (double)((const float *)f->centers)[k]
                                 : ((const double *)f->centers)[k];
}

double *formula_shift(const struct model_file *f)
{
    double *shift = mem_zarray((size_t)f->d, sizeof(*shift));
    for (int64_t i = 0; shift != NULL && i < f->m; i++) {
        for (int64_t j = 0; j < f->d; j++) {
            shift[j] += center_at(f, i * f->d + j) / (double)f->m;
        }
    }
    return shift;
}

static bool is(const struct model_file *f, const char *kernel)
{
    return strcmp(f->kernel->name, kernel) == 0;
}

bool formula_smooth(const struct model_file *f)
{
    return is(f, "gaussian") || is(f, "matern32") || is(f, "matern52");
}

/* ---- float64, as the graph has it ---- */

struct wide {
    const struct model_file *f;
    bool smooth, l1;
    double s;      /* bandwidth; 1 where there is one a feature */
    double *shift; /* [d] */
    double *p;     /* [d] the row */
    double *q;     /* [d] a center */
};

static double standardised(const struct model_file *f, const double *x, int64_t j)
{
    const double s = (x[j] - f->feature_mean[j]) / f->feature_scale[j];
    return f->dtype == DTYPE_F32 ? (double)(float)s : s;
}

static double near(const struct wide *w, double z, int64_t j)
{
    if (!w->f->kernel->has_bandwidth) {
        return z;
    }
    const double at = z - w->shift[j];
    return w->f->bandwidths != NULL ? at / w->f->bandwidths[j] : at;
}

static double squared_by_products(const struct wide *w)
{
    double pp = 0, qq = 0, pq = 0;
    for (int64_t j = 0; j < w->f->d; j++) {
        pp += w->p[j] * w->p[j];
        qq += w->q[j] * w->q[j];
        pq += w->p[j] * w->q[j];
    }
    const double d2 = pp + qq - 2.0 * pq;
    return d2 > 0 ? d2 : 0;
}

static double distance_by_differences(const struct wide *w)
{
    double sum = 0;
    for (int64_t j = 0; j < w->f->d; j++) {
        const double diff = w->p[j] - w->q[j];
        sum += w->l1 ? fabs(diff) : diff * diff;
    }
    return w->l1 ? sum : sqrt(sum);
}

static double of_product(const struct wide *w)
{
    const struct model_file *f = w->f;
    double sum = 0;
    for (int64_t j = 0; j < f->d; j++) {
        sum += w->p[j] * w->q[j];
    }
    const double base = sum * f->gamma + f->coef0;
    return is(f, "polynomial") ? pow(base, f->degree) : is(f, "sigmoid") ? tanh(base) : base;
}

static double kernel_value(const struct wide *w)
{
    const struct model_file *f = w->f;
    if (!f->kernel->has_bandwidth) {
        return of_product(w);
    }
    if (!w->smooth) {
        return exp(distance_by_differences(w) * (-1.0 / w->s));
    }
    const double d2 = squared_by_products(w);
    if (is(f, "gaussian")) {
        return exp(d2 * (-0.5 / (w->s * w->s)));
    }
    const bool rougher = is(f, "matern32");
    const double a = sqrt(d2) * (sqrt(rougher ? 3.0 : 5.0) / w->s);
    const double quadratic = rougher ? 0 : d2 * (5.0 / 3.0 / (w->s * w->s));
    return (1.0 + a + quadratic) * exp(-a);
}

static void evaluate_row(const struct wide *w, const double *x, double *ret)
{
    const struct model_file *f = w->f;
    for (int64_t j = 0; j < f->d; j++) {
        w->p[j] = near(w, standardised(f, x, j), j);
    }
    memset(ret, 0, (size_t)f->t * sizeof(*ret));
    for (int64_t i = 0; i < f->m; i++) {
        for (int64_t j = 0; j < f->d; j++) {
            w->q[j] = near(w, center_at(f, i * f->d + j), j);
        }
        const double k = kernel_value(w);
        for (int64_t j = 0; j < f->t; j++) {
            ret[j] += k * f->coef[i * f->t + j];
        }
    }
    for (int64_t j = 0; j < f->t; j++) {
        ret[j] = ret[j] * f->target_scale[j] + f->target_mean[j];
    }
}

static int evaluate_wide(const struct model_file *f, const double *X, int64_t rows, double *ret,
                         struct err *err)
{
    cleanup_mem double *shift = formula_shift(f);
    cleanup_mem double *p = mem_array((size_t)f->d, sizeof(*p));
    cleanup_mem double *q = mem_array((size_t)f->d, sizeof(*q));
    if (shift == NULL || p == NULL || q == NULL) {
        return err_no_memory(err);
    }
    const struct wide w = {
        .f = f,
        .smooth = formula_smooth(f),
        .l1 = is(f, "laplacian_l1"),
        .s = f->bandwidths != NULL ? 1.0 : f->bandwidth,
        .shift = shift,
        .p = p,
        .q = q,
    };
    for (int64_t i = 0; i < rows; i++) {
        evaluate_row(&w, X + i * f->d, ret + i * f->t);
    }
    return 0;
}

/* ---- float32, as SVMRegressor has it: gaussian, one target ---- */

static float narrow_center(const struct model_file *f, int64_t i, int64_t j)
{
    const double z = center_at(f, i * f->d + j);
    return (float)(f->bandwidths != NULL ? z / f->bandwidths[j] : z);
}

static double evaluate_narrow_row(const struct model_file *f, const double *x, float *p)
{
    const double s = f->bandwidths != NULL ? 1.0 : f->bandwidth;
    const float gamma = (float)(0.5 / (s * s));
    for (int64_t j = 0; j < f->d; j++) {
        p[j] = ((float)x[j] - (float)f->feature_mean[j]) / (float)f->feature_scale[j];
        p[j] = f->bandwidths != NULL ? p[j] / (float)f->bandwidths[j] : p[j];
    }
    float sum = 0;
    for (int64_t i = 0; i < f->m; i++) {
        float d2 = 0;
        for (int64_t j = 0; j < f->d; j++) {
            const float diff = p[j] - narrow_center(f, i, j);
            d2 += diff * diff;
        }
        sum += (float)f->coef[i] * expf(-gamma * d2);
    }
    return (double)(sum * (float)f->target_scale[0] + (float)f->target_mean[0]);
}

int formula_evaluate(const struct model_file *f, bool svm, const double *X, int64_t rows,
                     double *ret, struct err *err)
{
    if (!svm) {
        return evaluate_wide(f, X, rows, ret, err);
    }
    cleanup_mem float *p = mem_array((size_t)f->d, sizeof(*p));
    if (p == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < rows; i++) {
        ret[i] = evaluate_narrow_row(f, X + i * f->d, p);
    }
    return 0;
}
