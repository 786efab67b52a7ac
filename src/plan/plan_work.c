/*
 * What the backend's operations cost in what the machine's rates are of. The constants are of one
 * thread of a Zen 4 core with AVX-512 and OpenBLAS, in processor time beside other work, as ratios
 * to the rates that a worker measures:
 *
 *     nanoseconds of a kernel value, gaussian, 12,000 x 1,000   float64            float32
 *                                                d     3     18     90       3     18
 *     symmetric product, each used twice             .28    .60   2.02     .10    .24
 *     product, each used once                        .51   1.06   3.83     .26    .54
 *     with the transpose: two products of it         .89   1.39   4.51     .41    .65
 *     written down in float64                       2.13   2.93   5.67    1.30   1.67
 *     written down in its own type                                         .87   1.18
 *
 *     multiply-adds of the rate that cost as much as one     n = 91    300   1,000   2,000
 *     Cholesky factor, n^3 / 6                                  3.6    1.7     1.3     1.2
 *     triangular solve of n right-hand sides, n^3 / 2           4.3    2.3     1.4     1.2
 *     eigenvectors, n^3                                                3.6
 */
#include <math.h>
#include <string.h>

#include "plan/plan_parts.h"
#include "plan/rules.h"

/* Products that last do better in float32 than those of a few milliseconds that are measured. */
static const double single_share = 0.9;
/* Of a byte: long columns that the measurement reads are the best case; writing fetches what it
 * overwrites, and a solve goes through a triangle in short pieces. */
static const double read_share = 1.4, write_share = 3.2, triangle_share = 3.2;
/* The second use of a value by the transpose, in rule_value_cost's units. */
static const double transpose_single = 20, transpose_dual = 14.6;
/* Seconds of a byte of memory that the system gives. */
static const double page_s = 8e-10;
static const double eigen_cost = 3.6;

static double *values_of(struct plan_work *w, enum dtype dtype)
{
    return dtype == DTYPE_F32 ? &w->values_f32 : &w->values_f64;
}

/* The rates are of a gaussian with PLAN_RATE_FEATURES features and one target. */
static double rated(double cost, enum dtype dtype)
{
    return cost / rule_value_cost(NULL, PLAN_RATE_FEATURES, 1, dtype);
}

/* Whether a kernel (NULL: not chosen yet, as rule_value_cost has it) takes the faster way of
 * plan_rates.near_f32. The Materns have it, too, but are steeper: how many of their rows are near
 * enough is not known here. */
static bool has_near_way(const char *kernel)
{
    return kernel == NULL || strcmp(kernel, "gaussian") == 0;
}

/* What it saves of the cost of g->d features. */
static double saved(const struct planning *g, enum dtype dtype)
{
    const struct plan_rates *r = &g->machine->rates;
    const double far = dtype == DTYPE_F32 ? r->values_f32 : r->values_f64;
    const double near = dtype == DTYPE_F32 ? r->near_f32 : r->near_f64;
    if (!(near > far) || g->d < PLAN_NEAR_FEATURES || !has_near_way(g->plan->kernel)) {
        return 0.0;
    }
    const double cost = rule_value_cost(NULL, PLAN_RATE_FEATURES, 1, dtype);
    return fmin((1.0 - far / near) * cost / PLAN_RATE_FEATURES, 0.5) * g->d;
}

void plan__values(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  int used)
{
    const double cost = rule_value_cost(g->plan->kernel, g->d, g->t, dtype) - saved(g, dtype);
    *values_of(w, dtype) += values * rated(cost, dtype) * 2.0 / used;
}

/* Blocks of values are always by differences. */
void plan__stored(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  double number)
{
    const double cost = rule_value_cost(g->plan->kernel, g->d, g->t, dtype);
    *values_of(w, dtype) += values * rated(cost, dtype) * 2.0;
    w->written += values * number;
}

void plan__normal(const struct planning *g, struct plan_work *w, double values)
{
    const double transpose = g->points == DTYPE_F32 ? transpose_single : transpose_dual;
    plan__values(g, w, 2.0 * values, g->points, 2);
    *values_of(w, g->points) += values * rated(transpose, g->points);
}

void plan__dense(struct plan_work *w, double multiply_adds, enum dtype dtype)
{
    *(dtype == DTYPE_F32 ? &w->multiply_adds_f32 : &w->multiply_adds_f64) += multiply_adds;
}

void plan__factor(struct plan_work *w, double n, enum dtype dtype)
{
    plan__dense(w, (1.1 + 180.0 / fmax(n, 1.0)) * n * n * n / 6.0, dtype);
}

void plan__solve(struct plan_work *w, double n, double sides, enum dtype dtype)
{
    plan__dense(w, (0.95 + 450.0 / fmax(n, 1.0)) * n * n * sides / 2.0, dtype);
}

void plan__substitute(struct plan_work *w, double n, double times)
{
    w->read += triangle_share / read_share * times * 4.0 * n * n;
}

void plan__eigen(struct plan_work *w, double n)
{
    plan__dense(w, eigen_cost * n * n * n, DTYPE_F64);
}

void plan__touch(struct plan_work *w, double bytes)
{
    w->seconds += page_s * bytes;
}

void plan__add(struct plan_work *to, const struct plan_work *from, double times)
{
    to->values_f32 += times * from->values_f32;
    to->values_f64 += times * from->values_f64;
    to->multiply_adds_f32 += times * from->multiply_adds_f32;
    to->multiply_adds_f64 += times * from->multiply_adds_f64;
    to->read += times * from->read;
    to->written += times * from->written;
    to->seconds += times * from->seconds;
}

double plan__seconds(const struct plan_work *w, const struct plan_rates *r)
{
    return single_share * w->values_f32 / r->values_f32 + w->values_f64 / r->values_f64 +
           w->multiply_adds_f32 / r->multiply_adds_f32 +
           w->multiply_adds_f64 / r->multiply_adds_f64 +
           (read_share * w->read + write_share * w->written) / r->bytes + w->seconds;
}
