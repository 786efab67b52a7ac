#include "bench/limit.h"

#include <math.h>

#include "bench/ceiling_loops.h"

/* Seconds of one evaluation's square root, beside `busy` seconds of multiply-adds: the divider's
 * own, as far as the others do not fill them, but not less than it takes from their pipes. */
static double root_time(const struct ceiling_rates *rates, bool wide, double busy)
{
    const double newton = rates->steps > 0 ? 1.0 / rates->steps : (wide ? 7.0 : 4.0) / rates->fma;
    const double taken = fmax(1.0 / rates->beside - CEILING_BESIDE / rates->fma, 0.0);
    return fmin(newton, fmax(1.0 / rates->root - busy, taken));
}

static int multiplications(int degree)
{
    int count = 0;
    for (; degree > 1; degree >>= 1) {
        count += 1 + (degree & 1);
    }
    return count;
}

int limit_function_ops(const struct limit_case *c)
{
    switch (c->kernel) {
    case KERNEL_MATERN32:
        return 2;
    case KERNEL_MATERN52:
        return 3;
    case KERNEL_POLYNOMIAL:
        return multiplications(c->degree);
    case KERNEL_SIGMOID:
        return c->values == DTYPE_F64 ? 5 : 3;
    default:
        return 0;
    }
}

bool limit_has_power(enum kernel_id id)
{
    return kernel_uses_distance(id) || id == KERNEL_SIGMOID;
}

bool limit_has_root(enum kernel_id id)
{
    return kernel_uses_distance(id) && !kernel_uses_l1(id) && id != KERNEL_GAUSSIAN;
}

/* Seconds of one entry by arithmetic. */
static double arithmetic_time(const struct limit_case *c, const struct ceiling *ceiling)
{
    const struct ceiling_rates *values = c->values == DTYPE_F32 ? &ceiling->f32 : &ceiling->f64;
    const struct ceiling_rates *vectors = c->vectors == DTYPE_F32 ? &ceiling->f32 : &ceiling->f64;
    const int uses = c->symmetric ? 2 : 1;
    const double distance = (double)c->d / (kernel_uses_l1(c->kernel) ? values->pair : values->fma);
    double time = (double)(uses * c->rhs) / vectors->fma;
    if (c->cached_bytes > 0) {
        return time / uses;
    }
    time += distance + limit_function_ops(c) / values->fma;
    if (limit_has_power(c->kernel)) {
        time += 1.0 / values->exp2;
    }
    if (limit_has_root(c->kernel)) {
        time += root_time(values, c->values == DTYPE_F64, time);
    }
    return time / uses;
}

double limit_bytes(const struct limit_case *c)
{
    const int64_t rows = c->symmetric ? c->n : c->n + c->m;
    const double points = c->cached_bytes > 0
                              ? (double)c->cached_bytes
                              : (double)rows * (double)c->d * (double)dtype_size(c->values);
    const double vectors = (double)(c->n + c->m) * (double)c->rhs * (double)dtype_size(c->vectors);
    return points + vectors;
}

double limit_entries_per_s(const struct limit_case *c, const struct ceiling *ceiling)
{
    const double entries = (double)c->n * (double)c->m;
    const double memory = limit_bytes(c) / ceiling->read_bytes;
    return entries / fmax(entries * arithmetic_time(c, ceiling), memory);
}

double limit_of_fma(const struct limit_case *c, const struct ceiling *ceiling)
{
    struct ceiling by_fma = *ceiling;
    by_fma.f32.exp2 = ceiling->f32.fma / 5;
    by_fma.f64.exp2 = ceiling->f64.fma / 10;
    return limit_entries_per_s(c, &by_fma);
}
