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
 *     of a further target, in units of a feature (12,000 x 1,000 or n = 3,000, d = 18, t columns)
 *                                                t     8     48     64    128
 *     symmetric product, float32                      3.0    3.4    5.3    5.3
 *     symmetric product, float64                      2.8    3.0    4.0    4.4
 *     with the transpose, float64, half of it         2.3    3.0    4.9    4.9
 *     product, float32                                3.0    2.6    2.6    2.7
 *     product, float64                                2.4    2.6    2.7    2.8
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

/* cpu/tile/tile.h: so many targets share an evaluation of the kernel. */
static const double shared_most = 64, target_cost = 3.0, plain_share = 0.9;

/* Evaluations of each value for all targets, of which `most` share one. A device writes values down
 * for many. */
static double evaluations(const struct planning *g, double most)
{
    return g->machine->own_memory ? 1.0 : fmax(ceil(g->t / most), 1.0);
}

/* Of the targets, in units of rule_value_cost, for each use of a value. */
static double targets_cost(const struct planning *g, int used)
{
    return (used == 2 ? 1.0 : plain_share) * target_cost * g->t;
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

/* One evaluation, as a use of it counts. */
static double value_cost(const struct planning *g, enum dtype dtype)
{
    return rule_value_cost(g->plan->kernel, g->d, 0, dtype) - saved(g, dtype);
}

void plan__values(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  int used)
{
    const double evaluated = value_cost(g, dtype) * evaluations(g, shared_most) * 2.0 / used;
    const double cost = evaluated + targets_cost(g, used);
    *values_of(w, dtype) += values * rated(cost, dtype);
}

void plan__further(const struct planning *g, struct plan_work *w, double uses, enum dtype dtype)
{
    const double cost = targets_cost(g, 2) - target_cost;
    *values_of(w, dtype) += uses * rated(cost, dtype);
}

void plan__evaluated(const struct planning *g, struct plan_work *w, double values, enum dtype dtype)
{
    const double cost = rule_value_cost(g->plan->kernel, g->d, 1, dtype) - saved(g, dtype);
    *values_of(w, dtype) += values * rated(cost, dtype) * 2.0;
}

/* Blocks of values are always by differences. */
void plan__stored(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  double number)
{
    const double cost = rule_value_cost(g->plan->kernel, g->d, 1, dtype);
    *values_of(w, dtype) += values * rated(cost, dtype) * 2.0;
    w->written += values * number;
}

/* Targets that go together: those whose sums, for each thread, the backend has room for. */
static double together(const struct planning *g)
{
    const double totals = 32.0 * 1048576.0, each = 8.0 * g->centers * (g->machine->threads + 1.0);
    return fmin(fmax(floor(totals / each), 1.0), shared_most);
}

void plan__normal(const struct planning *g, struct plan_work *w, double values, enum dtype dtype)
{
    const double transpose = dtype == DTYPE_F32 ? transpose_single : transpose_dual;
    const double most = together(g);
    const double evaluated = (2.0 * value_cost(g, dtype) + transpose) * evaluations(g, most);
    const double cost = evaluated + 2.0 * targets_cost(g, 2);
    *values_of(w, dtype) += values * rated(cost, dtype);
}

void plan__multiplied(const struct planning *g, struct plan_work *w, double numbers,
                      enum dtype dtype)
{
    w->read += numbers * (double)dtype_size(dtype);
    plan__dense(w, numbers * (g->t - 1.0), dtype);
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

void plan__substitute(const struct planning *g, struct plan_work *w, double n, double times)
{
    w->read += triangle_share / read_share * times * 4.0 * n * n;
    plan__dense(w, times * n * n / 2.0 * (g->t - 1.0), DTYPE_F64);
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
