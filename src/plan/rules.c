#include "plan/rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/minmax.h"

/* ---- kernel values ---- */

#define LAPLACIAN_L1 "laplacian_l1"

/* Beside the features: the function of the distance or the product, in float32 and in float64. */
static const struct {
    const char *kernel;
    double single, dual;
} functions[] = {
    {"gaussian", 3, 8},  {"laplacian", 9, 12}, {LAPLACIAN_L1, 5, 10},
    {"matern12", 9, 12}, {"matern32", 10, 14}, {"matern52", 11, 15},
    {"linear", 1, 0},    {"polynomial", 3, 8}, {"sigmoid", 9, 12},
};
static const double target_cost = 3.0;

/* Whether values are products of powers, which need no function (ADR 78): up to as many features as
 * in cpu/tile/tile.c (tile_loops.powers_to). */
static bool by_powers(const char *kernel, double d, enum dtype dtype)
{
    return kernel != NULL && strcmp(kernel, LAPLACIAN_L1) == 0 &&
           d <= (dtype == DTYPE_F32 ? 64 : 128);
}

double rule_value_cost(const char *kernel, double d, double t, enum dtype dtype)
{
    if (by_powers(kernel, d, dtype)) {
        return d + 1.0 + target_cost * t;
    }
    size_t which = 0;
    for (size_t i = 0; kernel != NULL && i < sizeof(functions) / sizeof(functions[0]); i++) {
        which = strcmp(functions[i].kernel, kernel) == 0 ? i : which;
    }
    const double function = dtype == DTYPE_F32 ? functions[which].single : functions[which].dual;
    return d + function + target_cost * t;
}

/* What reading a byte from memory costs, in units of rule_value_cost: by the table, or as measured,
 * which is believed within a factor of four: other work beside a measurement may spoil it. */
static double byte_cost(const struct plan_rates *rates, enum dtype dtype)
{
    const bool single = dtype == DTYPE_F32;
    const double usual = single ? 3.7 : 1.8, most = 4.0;
    const double values = rates == NULL ? 0 : single ? rates->values_f32 : rates->values_f64;
    if (!(values > 0) || !(rates->bytes > 0)) {
        return usual;
    }
    /* A rate counts a value as often as it is used: twice. */
    const double unit = 2.0 / (values * rule_value_cost(NULL, PLAN_RATE_FEATURES, 1, dtype));
    return fmin(fmax(1.0 / (rates->bytes * unit), usual / most), usual * most);
}

/* Where nobody has measured it: one right-hand side of few features, whose values come sooner than
 * a device's memory brings them (gpu/short_products.cuh, which uses none that are kept). */
static bool computed_at_once(const struct keep_shape *s, const struct plan_rates *rates)
{
    const bool gaussian = s->kernel == NULL || strcmp(s->kernel, "gaussian") == 0;
    const bool measured = rates != NULL && rates->values_f32 > 0;
    return s->device && !measured && gaussian && s->dtype == DTYPE_F32 && s->t == 1 && s->d <= 92;
}

static bool keeping_pays(const struct keep_shape *s, const struct plan_rates *rates)
{
    const double products = 20, worth = 0.8, t = (double)s->t;
    const double computed = rule_value_cost(s->kernel, (double)s->d, t, s->dtype);
    const double read = byte_cost(rates, s->dtype) * (double)dtype_size(s->dtype) + target_cost * t;
    return !computed_at_once(s, rates) && (computed + read) / products + read < worth * computed;
}

int64_t rule_kept_bytes(const struct job_spec *spec, const struct keep_shape *shape,
                        const struct plan_rates *rates)
{
    const bool brief = spec->stop.time_budget_s < 5.0 || spec->stop.max_iterations < 20;
    if (spec->kernel_cache_bytes != SPEC_CACHE_AUTO) {
        return min_i64(spec->kernel_cache_bytes, shape->room / 2);
    }
    const bool keep = !brief && shape->room < INT64_MAX && keeping_pays(shape, rates);
    return keep ? shape->room / 4 : 0;
}

/* ---- solver, precision ---- */

/* The most rows for which a factorisation is the cheaper way. */
static double cholesky_rows(int64_t d, bool narrow, enum precision precision)
{
    const double features = (double)(d < RULE_KEPT_FEATURES ? d : RULE_KEPT_FEATURES);
    const double value = (features + 18.0) / (precision == PRECISION_FLOAT64 ? 2.0 : 4.0);
    return narrow ? 12.0 * (30.0 * value + 110.0) : 6.0 * (200.0 * value + 110.0);
}

const char *rule_solver(int64_t room, int64_t n, int64_t d, double regularization,
                        enum precision precision)
{
    const bool narrow = precision == PRECISION_FLOAT32 || regularization >= (double)FLT_EPSILON;
    const int64_t bytes = dtype_matrix_bytes(n, n, narrow ? DTYPE_F32 : DTYPE_F64);
    const bool fits = bytes <= room / 4;
    return fits && (double)n <= cholesky_rows(d, narrow, precision) ? "cholesky" : "pcg";
}

const char *rule_restricted_solver(int64_t m, int64_t d)
{
    const double passes = 20.0, value = (double)(d + 18) / 2.0;
    return (double)m <= passes * value ? "direct" : "krill";
}

enum precision rule_precision(const char *solver, bool distance)
{
    return strcmp(solver, "pcg") == 0 && distance ? PRECISION_MIXED : PRECISION_FLOAT64;
}

bool rule_narrow_factor(int64_t n, int64_t d, int64_t t, double ridge, double largest)
{
    enum { NARROW_ROWS = 4096, NARROW_PRODUCTS = 8 };
    const double rows = (double)n;
    const double refinement = NARROW_PRODUCTS * (((double)d + 10.0) / 2.0 + 3.0 * (double)t);
    return n >= NARROW_ROWS && ridge >= rows * (double)FLT_EPSILON * largest &&
           refinement <= rows / 12.0;
}

int64_t rule_centers(int64_t n)
{
    const double usual = ceil(10.0 * sqrt((double)n));
    return usual < (double)n ? (int64_t)usual : n;
}

/* Rows with 2^25 left-out predictions, `each` a row. */
static double rows_left_out(int64_t each)
{
    enum { NUMBERS = 1 << 25 };
    return fmax((double)NUMBERS / (double)each, 1.0);
}

bool rule_search_takes_centers(int64_t n, int64_t each, int64_t max_rows)
{
    return rows_left_out(each) > (double)min_i64(n, max_rows);
}

struct rule_search rule_search_on_centers(int64_t n, int64_t m, int64_t each, int64_t max_rows,
                                          double products)
{
    enum { ROWS = 64, FEW = 100 };
    const double few = (double)min_i64(m, FEW), most = (double)ROWS * (double)max_rows;
    const double rows = fmin(fmin((double)n, most), rows_left_out(each));
    const double fewer = fmax(products / (4.0 * few * few), FEW);
    struct rule_search ret = {.rows = (int64_t)fmin(rows, fewer)};
    double centers = sqrt(products / (4.0 * (double)ret.rows));
    for (int i = 0; i < 40; i++) {
        centers = sqrt(products / (4.0 * (double)ret.rows + 9.0 * centers));
    }
    ret.centers = min_i64(min_i64(m, max_rows), min_i64(ret.rows, (int64_t)fmax(centers, few)));
    return ret;
}

/* Those of a full decomposition of max_rows rows, or fewer within the time budget. */
static double products_in_time(const struct search_spec *spec, double time_budget_s)
{
    const double rows = (double)spec->max_rows;
    return fmin(9.0 * rows * rows * rows, RULE_SEARCH_RATE * time_budget_s);
}

struct rule_search rule_search_size(const struct search_spec *spec, int64_t n, int64_t t,
                                    int64_t centers, double time_budget_s)
{
    const double products = products_in_time(spec, time_budget_s);
    const double full = floor(cbrt(products / 9.0 * (1.0 + 1e-12)));
    const int64_t each = t * search_regularizations(spec);
    const struct rule_search ret = {.rows = min_i64(n, (int64_t)fmax(full, RULE_SEARCH_ROWS_MIN))};
    const bool many = ret.rows < n && spec->folds == 0;
    if (centers == 0 && !(many && rule_search_takes_centers(n, each, spec->max_rows))) {
        return ret;
    }
    return rule_search_on_centers(n, centers > 0 ? centers : n, each, spec->max_rows, products);
}

int64_t rule_search_tile(int64_t rows, int64_t each)
{
    enum { ROWS = 1024, NUMBERS = 1 << 23 };
    const int64_t fit = NUMBERS / each;
    return min_i64(rows, fit < 1 ? 1 : min_i64(fit, ROWS));
}

/* Rows whose factors, of rows^3 / 6 multiplications each, take a tenth of the time budget. */
static double rows_in_time(double factors, double time_budget_s)
{
    return cbrt(6.0 * RULE_SEARCH_RATE * time_budget_s / 10.0 / factors);
}

/* Of the first sample, in each fold. */
static const double choice_factors = RULE_KERNELS * RULE_BANDWIDTHS * RULE_RIDGES;

int rule_choice_folds(int64_t n, double time_budget_s)
{
    enum { FEWEST = 100, MORE = 300 };
    const int64_t fitted = n - n / RULE_CHOICE_FOLDS;
    const double in_time = rows_in_time(RULE_CHOICE_FOLDS * choice_factors, time_budget_s);
    return n >= FEWEST && n < MORE && (double)fitted <= in_time ? RULE_CHOICE_FOLDS : 1;
}

int64_t rule_choice_first(int64_t n, double time_budget_s)
{
    enum { MOST = 1000, FEWEST = 100 };
    const int folds = rule_choice_folds(n, time_budget_s);
    const double in_time = fmin(rows_in_time(choice_factors, time_budget_s), MOST);
    return folds > 1 ? n - n / folds : min_i64(n - n / 3, max_i64((int64_t)in_time, FEWEST));
}

int64_t rule_learned_rows(int64_t fitted, int folds, int64_t d, double time_budget_s)
{
    enum { MOST = 500, FEWEST = 200, FOLD_FEWEST = 80, FACTORS = 7 };
    const double steps = folds * RULE_KERNELS * RULE_LEARNED_STARTS * RULE_LEARNED_STEPS;
    const double in_time = fmin(rows_in_time(steps * FACTORS, time_budget_s), MOST);
    const int64_t rows = min_i64(fitted, (int64_t)in_time);
    const int64_t fewest = folds > 1 ? FOLD_FEWEST : FEWEST;
    return rows < fewest || d > RULE_LEARNED_FEATURES ? 0 : rows;
}

int64_t rule_choice_rows(int64_t n, double time_budget_s)
{
    enum { SHARE = 8, MOST = 3000, FEWEST = 1250 };
    const double in_time = rows_in_time(RULE_CHOICE_AGAIN * RULE_RIDGES, time_budget_s);
    const int64_t rows = (int64_t)fmin(fmin((double)(n / SHARE), MOST), in_time);
    return rows < FEWEST ? 0 : rows;
}

double rule_choice_limit(double time_budget_s)
{
    return RULE_CHOICE_SHARE * time_budget_s;
}

int64_t rule_choice_held(int64_t n, int64_t fitted, int64_t width, int times)
{
    enum { TIMES_LEAST = 2, FUNCTION = 20 }; /* a kernel's, in multiplications */
    const int64_t as_long = fitted * fitted / 6 / (width + FUNCTION);
    const int64_t most = min_i64(times * fitted, max_i64(TIMES_LEAST * fitted, as_long));
    return min_i64(most, n - fitted);
}

bool rule_choice_leaves_out(int64_t fitted, int64_t held, int folds)
{
    return folds == 1 && held > 0 && held < fitted;
}

int64_t rule_full_rows(bool device)
{
    return device ? 1500000 : 250000;
}

int64_t rule_open_centers(int64_t n)
{
    enum { MOST_CENTERS = 10000 };
    return min_i64(rule_centers(n), MOST_CENTERS);
}

bool rule_whitens(int64_t n, int64_t m)
{
    const double squares = (double)m * (double)m;
    return m <= RULE_WHITENED_FEW ||
           (m <= RULE_WHITENED_MOST && squares <= RULE_WHITENED_SHARE * (double)n);
}

int64_t rule_kernel_rank(const char *kernel, int64_t d, int64_t degree)
{
    const bool linear = strcmp(kernel, "linear") == 0;
    if (!linear && strcmp(kernel, "polynomial") != 0) {
        return INT64_MAX;
    }
    const double most = 1e15;
    double count = 1;
    for (int64_t i = 1; i <= (linear ? 1 : degree) && count < most; i++) {
        count *= (double)(d + i) / (double)i;
    }
    return count < most ? (int64_t)(count + 0.5) : INT64_MAX;
}

/* ---- the rank of a preconditioner ---- */

static const double build_products = 100.0, grid_products = 20.0;
static const int64_t grid_rank = 100; /* which is made in no time, whatever a product takes */

/* One kernel value. */
static double entry(const struct rank_shape *s)
{
    return (double)s->d + 10.0;
}

/* Each column takes a product of its own by a grid. */
static double product(const struct rank_shape *s)
{
    const double n = (double)s->n, t = (double)s->t;
    return s->share > 0 ? s->share * n * n * (entry(s) + 4.0) / 2.0 * t
                        : n * n * (entry(s) + 4.0 * t) / 2.0;
}

static double build(const struct rank_shape *s, enum rank_source source, double k)
{
    const double n = (double)s->n;
    return source == RANK_COLUMNS ? 2.0 * n * k * k + n * k * entry(s)
                                  : 2.0 * n * n * k + 6.0 * n * k * k + n * n * entry(s);
}

static bool affordable(const struct rank_shape *s, enum rank_source source, int64_t k)
{
    const double once = product(s);
    const double products =
        s->share > 0 ? fmax(build_products * s->share, grid_products) : build_products;
    const double apply = 4.0 * (double)s->n * (double)k * (double)s->t;
    return build(s, source, (double)k) <= products * once && apply <= once;
}

static int64_t fit_into_memory(const struct rank_shape *s, enum rank_source source, int64_t k)
{
    const int64_t columns = source == RANK_SKETCH ? 2 : 1;
    while (k > 1 && dtype_matrix_bytes(s->n, columns * k, s->dtype) > s->room / 3) {
        k /= 2;
    }
    return k;
}

/* The largest rank up to `wish` that is affordable; both costs grow with the rank. */
static int64_t reduce_to_cost(const struct rank_shape *shape, enum rank_source source, int64_t wish)
{
    struct rank_shape counted = *shape, *s = &counted;
    s->share = source == RANK_COLUMNS ? s->share : 0; /* kernel values make a sketch in any case */
    const int64_t least = s->share > 0 ? grid_rank : 1;
    int64_t low = wish < least ? wish : least, high = wish + 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (affordable(s, source, middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t rule_rank(const struct rank_shape *s, enum rank_source source,
                  const struct param_value *rank)
{
    const double wish = rank->is_auto ? ceil(10.0 * sqrt((double)s->n)) : rank->real;
    const int64_t within = wish < (double)s->n ? (int64_t)wish : s->n;
    return rank->is_auto ? fit_into_memory(s, source, reduce_to_cost(s, source, within)) : within;
}

/* ---- directions ---- */

int64_t rule_probes(int64_t t, const struct param_value *asked)
{
    enum { VECTORS = 16 };
    const int64_t left = t < VECTORS ? VECTORS - t : 0;
    return asked->is_auto ? left : (int64_t)asked->real;
}

int64_t rule_directions(int64_t n, int64_t asked)
{
    return n < asked ? n : asked;
}

/* ---- blocks ---- */

int64_t rule_block_rows(int64_t n, const struct param_value *block)
{
    enum { ROWS_MIN = 256, ROWS_MAX = 8192, ROWS_WHOLE = 2048 };
    double wish = block->real;
    if (block->is_auto && n <= ROWS_WHOLE) {
        return n;
    }
    if (block->is_auto) {
        wish = fmin(fmax(2.0 * sqrt((double)n), ROWS_MIN), ROWS_MAX);
    }
    return wish < (double)n ? (int64_t)wish : n;
}

/* In multiplications of a dense product: a kernel value of the block's product with all rows takes
 * 2 d + 20, and an entry times a vector, bound by memory, 5. An exact factor is worth a tenth of
 * the product in any case: its steps are never worse. */
static const double entry_cost = 20.0;
static const double vector_cost = 5.0;
static const double exact_share = 0.1;

bool rule_block_exact(int64_t rows, int64_t d, int64_t block, int64_t rank,
                      int64_t power_iterations, enum dtype dtype)
{
    const double b = (double)block, r = (double)rank, n = (double)rows;
    const double halves = dtype == DTYPE_F32 ? 2.0 : 1.0; /* float64 at half the speed */
    const double exact = halves * b * b * b / 3.0;
    const double sketch =
        2.0 * b * b * (r + vector_cost * (double)power_iterations) + 6.0 * halves * b * r * r;
    const double pass = (2.0 * (double)d + entry_cost) * n * b;
    return exact <= fmax(sketch, exact_share * pass);
}

/* ---- stochastic methods ---- */

static bool is_auto(const struct param_set *params, const char *key)
{
    return param_get(params, key)->is_auto;
}

int64_t rule_batch_rows(int64_t n, int64_t m, const struct param_set *params)
{
    enum { BATCH_LEAST = 256, EPOCH_BATCHES = 8, BATCH_FEWEST = 32, BATCH_WHOLE = 512 };
    if (!is_auto(params, "batch_size")) {
        return min_i64(param_int(params, "batch_size"), n);
    }
    const int64_t rank = rule_sketch_rank(m, params);
    if (n <= BATCH_WHOLE && rank == m && rule_hessian_rows(n, rank, params) == n) {
        return n;
    }
    const int64_t share = max_i64(n / EPOCH_BATCHES, min_i64(n / 2, BATCH_FEWEST));
    return max_i64(min_i64(max_i64(m, BATCH_LEAST), share), 1);
}

int64_t rule_sketch_rank(int64_t m, const struct param_set *params)
{
    enum { RANK_EXACT = 8192, RANK_SKETCHED = 500 };
    if (!is_auto(params, "rank")) {
        return min_i64(param_int(params, "rank"), m);
    }
    return m <= RANK_EXACT ? m : RANK_SKETCHED;
}

int64_t rule_hessian_rows(int64_t n, int64_t rank, const struct param_set *params)
{
    enum { HESSIAN_ROWS = 8192 };
    if (!is_auto(params, "hessian_rows")) {
        return min_i64(param_int(params, "hessian_rows"), n);
    }
    const int64_t root = (int64_t)sqrt((double)n);
    const int64_t wanted = max_i64(4 * rank, min_i64(8 * rank, HESSIAN_ROWS));
    return min_i64(max_i64(wanted, root), n);
}

/* ---- restricted problems ---- */

struct rule_sketch rule_sketch_signs(int64_t n, int64_t d, const struct param_set *params)
{
    enum { MANY_ROWS = 8, MOST_SIGNS = 64 };
    const int64_t wanted = param_int(params, "nonzeros");
    int signs = 1;
    while (signs < wanted && signs < MOST_SIGNS && 2 * signs <= d) {
        signs *= 2;
    }
    return n / MANY_ROWS >= d ? (struct rule_sketch){.block = signs, .copies = 1}
                              : (struct rule_sketch){.block = 1, .copies = signs};
}

int rule_sketch_parts(int64_t d, int64_t m, int signs)
{
    const int64_t row = m * (int64_t)sizeof(double), rows = m + RULE_SKETCH_BYTES / row;
    const int64_t parts = (d + rows - 1) / rows;
    return (int)(parts < signs ? parts : signs);
}

double rule_point_parts(const char *kernel, int64_t d)
{
    static const char *const kernels[] = {"gaussian", "matern32", "matern52"};
    bool taken = kernel == NULL;
    for (size_t i = 0; !taken && i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        taken = strcmp(kernel, kernels[i]) == 0;
    }
    const double features = (double)d;
    const double steps = ceil((features + 4.0) / 16.0);
    const double blocks = d > 92   ? steps + 1.0
                          : d > 20 ? 2.0 * steps
                                   : ceil((3.0 * features + 4.0) / 16.0);
    return taken ? 64.0 * blocks : 0.0;
}

bool rule_rows_stay(const struct rule_rows *rows, double budget)
{
    const bool parts = rows->device && rows->points == DTYPE_F32;
    const double point = (double)rows->d * (double)dtype_size(rows->points) +
                         (parts ? rule_point_parts(rows->kernel, rows->d) : 0.0);
    const double targets = (double)rows->t * (double)dtype_size(rows->vectors);
    return (double)rows->n * (point + targets) <= budget;
}

int64_t rule_tile_rows(int64_t d, int64_t t, int64_t m)
{
    const int64_t bytes = (d + t) * (int64_t)sizeof(double);
    int64_t rows = min_i64(RULE_TILE_BYTES / bytes, RULE_TILE_ROWS);
    rows = min_i64(rows, RULE_TILE_VALUES / (m > 0 ? m : 1));
    return rows > 256 ? rows : 256;
}
