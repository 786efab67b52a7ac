#include "bench/limit_device.h"

#include <math.h>

/* What one evaluation and its uses take: instructions of either type, of special functions, and
 * multiply-adds of the tensor cores. */
struct counts {
    double lanes32, lanes64, mufu, tensor;
};

/* Powers, roots and reciprocals. */
static int special_functions(const struct limit_case *c)
{
    return limit_has_power(c->kernel) + limit_has_root(c->kernel) + (c->kernel == KERNEL_SIGMOID);
}

static int function_lanes(const struct limit_case *c)
{
    if (c->values == DTYPE_F64) {
        return limit_function_ops(c) + 11 * limit_has_power(c->kernel) +
               7 * limit_has_root(c->kernel);
    }
    const int ops = c->kernel == KERNEL_SIGMOID ? 2 : limit_function_ops(c);
    return ops + special_functions(c);
}

static double whole_steps(int64_t d, int64_t step)
{
    return (double)((d + step - 1) / step * step);
}

static double distance_products(const struct limit_case *c)
{
    return c->values == DTYPE_F64 ? whole_steps(c->d, 4) : 3.0 * whole_steps(c->d, 16);
}

static struct counts count(const struct limit_case *c, bool tensor)
{
    struct counts n = {0};
    double values = 0.0;
    if (c->cached_bytes == 0) {
        const double distance = (double)(kernel_uses_l1(c->kernel) ? 2 * c->d : c->d);
        values = 1.0 + (tensor ? 0.0 : distance) + function_lanes(c);
        n.tensor = tensor ? distance_products(c) : 0.0;
        n.mufu = c->values == DTYPE_F32 ? special_functions(c) : 0.0;
    }
    *(c->values == DTYPE_F64 ? &n.lanes64 : &n.lanes32) += values;
    *(c->vectors == DTYPE_F64 ? &n.lanes64 : &n.lanes32) +=
        (double)(c->symmetric ? 2 : 1) * (double)c->rhs;
    return n;
}

/* A time, and which unit takes it. */
struct bound {
    double seconds;
    const char *unit;
};

static struct bound longer(struct bound a, struct bound b)
{
    return a.seconds >= b.seconds ? a : b;
}

/* All entries, their distances by lanes or by tensor cores. */
static struct bound arithmetic(const struct limit_case *c, const struct device_ceiling *ceiling,
                               bool tensor)
{
    const struct counts n = count(c, tensor);
    const double evaluations = (double)c->n * (double)c->m / (c->symmetric ? 2.0 : 1.0);
    const double lanes = fmax((n.lanes32 + n.lanes64) / ceiling->fma32, n.lanes64 / ceiling->fma64);
    struct bound most = {evaluations * lanes, "lanes"};
    most = longer(most, (struct bound){evaluations * n.mufu / ceiling->ex2, "mufu"});
    if (tensor) {
        const double rate = c->values == DTYPE_F64 ? ceiling->tensor64 : ceiling->tensor16;
        most = longer(most, (struct bound){evaluations * n.tensor / rate, "tensor"});
    }
    return most;
}

static bool has_tensor_way(const struct limit_case *c, const struct device_ceiling *ceiling)
{
    const double rate = c->values == DTYPE_F64 ? ceiling->tensor64 : ceiling->tensor16;
    return rate > 0.0 && !kernel_uses_l1(c->kernel) && c->cached_bytes == 0;
}

struct device_limit limit_of_device(const struct limit_case *c,
                                    const struct device_ceiling *ceiling)
{
    struct bound most = arithmetic(c, ceiling, false);
    if (has_tensor_way(c, ceiling)) {
        const struct bound tensor = arithmetic(c, ceiling, true);
        most = tensor.seconds < most.seconds ? tensor : most;
    }
    most = longer(most, (struct bound){limit_bytes(c) / ceiling->copy_bytes, "memory"});
    return (struct device_limit){(double)c->n * (double)c->m / most.seconds, most.unit};
}
