#include "engine/kernel.h"

#include <math.h>
#include <string.h>

static const char *const kernel_names[KERNEL_COUNT_] = {
    [KERNEL_GAUSSIAN] = "gaussian",
    [KERNEL_LAPLACIAN] = "laplacian",
    [KERNEL_LAPLACIAN_L1] = "laplacian_l1",
    [KERNEL_MATERN12] = "matern12",
    [KERNEL_MATERN32] = "matern32",
    [KERNEL_MATERN52] = "matern52",
    [KERNEL_LINEAR] = "linear",
    [KERNEL_POLYNOMIAL] = "polynomial",
    [KERNEL_SIGMOID] = "sigmoid",
};

const char *kernel_name(enum kernel_id id)
{
    return kernel_names[id];
}

int kernel_id_parse(const char *name, enum kernel_id *ret, struct err *err)
{
    for (int i = 0; i < KERNEL_COUNT_; i++) {
        if (strcmp(name, kernel_names[i]) == 0) {
            *ret = (enum kernel_id)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "There is no kernel named \"%.60s\".", name);
}

bool kernel_uses_distance(enum kernel_id id)
{
    return id != KERNEL_LINEAR && id != KERNEL_POLYNOMIAL && id != KERNEL_SIGMOID;
}

int kernel_check_storage(enum kernel_id id, enum kernel_storage storage, struct err *err)
{
    if (storage != KERNEL_STORE_HALF || kernel_uses_distance(id)) {
        return 0;
    }
    return err_set(
        err, ERR_UNSUPPORTED,
        "Kernel values can be kept in 16 bits only where they lie between 0 and 1; those "
        "of \"%s\" do not.",
        kernel_name(id));
}

bool kernel_uses_l1(enum kernel_id id)
{
    return id == KERNEL_LAPLACIAN_L1;
}

bool kernel_is_product(enum kernel_id id)
{
    return id == KERNEL_GAUSSIAN || id == KERNEL_LAPLACIAN_L1;
}

int kernel_overflows(struct err *err)
{
    return err_at(err, ERR_DIVERGED, "#/kernel",
                  "The kernel's values overflow the precision: scale the features, or take smaller "
                  "kernel parameters.");
}

int kernel_refuse_points(const struct kernel *k, enum dtype dtype, struct err *err)
{
    const bool divided = kernel_uses_distance(k->id);
    return err_at(err, ERR_INVALID, divided ? "#/kernel/bandwidth" : "#/precision",
                  "A row %sis infinity or NaN in %s: scale the features%s%s.",
                  divided ? "divided by the bandwidth " : "", dtype_name(dtype),
                  divided ? ", take a larger bandwidth" : "",
                  dtype == DTYPE_F32 ? ", or take precision \"float64\"" : "");
}

/* How much of its value a kernel loses by an error of 1 in the squared distance, at most; 0: more
 * than is bearable near 0. */
static double slope_of(enum kernel_id id)
{
    switch (id) {
    case KERNEL_GAUSSIAN:
        return 0.7;
    case KERNEL_MATERN32:
        return 0.25;
    case KERNEL_MATERN52:
        return 0.085;
    default:
        return 0;
    }
}

/* Each of the d roundings is at most 2^-24 of the norms' sum; they differ in sign, so that sqrt(d)
 * of them count, and two of the norms. */
double kernel_inner_error(int64_t d)
{
    return 0x1p-24 * (2.0 + 0.4 * sqrt((double)d));
}

double kernel_inner_limit(enum kernel_id id, int64_t d)
{
    const double slope = slope_of(id);
    return slope > 0 ? 4e-6 / (slope * kernel_inner_error(d)) : 0;
}

/* Every kernel's table has some of the three keys; the others keep values that change nothing. */
static const struct param_value *find_value(const struct param_set *params, const char *key)
{
    for (int i = 0; params->defs != NULL && params->defs[i].key != NULL; i++) {
        if (strcmp(params->defs[i].key, key) == 0) {
            return &params->values[i];
        }
    }
    return NULL;
}

void kernel_set_params(struct kernel *k, const struct param_set *params)
{
    const struct param_value *gamma = find_value(params, "gamma");
    const struct param_value *coef0 = find_value(params, "coef0");
    const struct param_value *degree = find_value(params, "degree");
    k->gamma = gamma == NULL || gamma->is_auto ? 1.0 / (double)k->d : gamma->real;
    k->coef0 = coef0 == NULL ? 0.0 : coef0->real;
    k->degree = degree == NULL ? 1 : (int)degree->real;
}

/* |x-z|_1 or |x-z|_2, in bandwidths. */
static double scaled_distance(const struct kernel *k, const double *x, const double *z)
{
    const bool l1 = kernel_uses_l1(k->id);
    double sum = 0.0;
    for (int64_t j = 0; j < k->d; j++) {
        const double s = k->bandwidths != NULL ? k->bandwidths[j] : k->bandwidth;
        const double diff = (x[j] - z[j]) / s;
        sum += l1 ? fabs(diff) : diff * diff;
    }
    return l1 ? sum : sqrt(sum);
}

static double scaled_dot(const struct kernel *k, const double *x, const double *z)
{
    double sum = 0.0;
    for (int64_t j = 0; j < k->d; j++) {
        sum += x[j] * z[j];
    }
    return k->gamma * sum + k->coef0;
}

/* b^degree by repeated squaring, degree >= 0. */
static double int_power(double b, int degree)
{
    double power = 1.0;
    for (; degree > 0; degree >>= 1, b *= b) {
        if (degree & 1) {
            power *= b;
        }
    }
    return power;
}

double kernel_of_distance(enum kernel_id id, double r)
{
    r = r > 1e4 ? 1e4 : r; /* exp is 0 long before; keeps infinity out of the products below */
    switch (id) {
    case KERNEL_GAUSSIAN:
        return exp(-0.5 * r * r);
    case KERNEL_MATERN32:
        return (1.0 + sqrt(3.0) * r) * exp(-sqrt(3.0) * r);
    case KERNEL_MATERN52:
        return (1.0 + sqrt(5.0) * r + 5.0 / 3.0 * r * r) * exp(-sqrt(5.0) * r);
    default: /* laplacian, laplacian_l1, matern12: they differ in the norm alone */
        return exp(-r);
    }
}

double kernel_fall(enum kernel_id id, double r)
{
    switch (id) {
    case KERNEL_MATERN32:
        return 3.0 * exp(-sqrt(3.0) * r);
    case KERNEL_MATERN52:
        return 5.0 / 3.0 * (1.0 + sqrt(5.0) * r) * exp(-sqrt(5.0) * r);
    case KERNEL_LAPLACIAN:
    case KERNEL_MATERN12:
        return r > 0 ? exp(-r) / r : 0.0;
    default: /* gaussian, and laplacian_l1 */
        return kernel_of_distance(id, r);
    }
}

double kernel_eval(const struct kernel *k, const double *x, const double *z)
{
    if (kernel_uses_distance(k->id)) {
        return kernel_of_distance(k->id, scaled_distance(k, x, z));
    }
    const double s = scaled_dot(k, x, z);
    switch (k->id) {
    case KERNEL_POLYNOMIAL:
        return int_power(s, k->degree);
    case KERNEL_SIGMOID:
        return tanh(s);
    default:
        return s;
    }
}
