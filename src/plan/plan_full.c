/*
 * Full models: a coefficient for every training row. The formulas follow the headers of
 * engine/methods/, n training rows, t targets, v and p bytes of a vector's number and of a kernel
 * value.
 */
#include <math.h>
#include <string.h>

#include "plan/plan_parts.h"
#include "plan/rules.h"
#include "plan/scratch.h"

#define MIB 1048576.0
/* A column of the triangle begins within a page and ends within one. */
static const double page_share = 0.6 * 4096;
/* engine/methods/preconds/precond_nystrom_gaussian.c, engine/solve/certify.h. */
static const double block_numbers = 8388608, piece_work = 4e9, certify_entries = 1e10;
/* Points whose scores are made at once: engine/methods/blocks/leverage.c. */
static const double leverage_rows = 4096;
/* Of refinement with a float32 factor, as engine/methods/full/solver_cholesky.c has it. */
static const double refinement_products = 4;
/* Multiply-adds of a sketch's tall matrix, which is made orthogonal and decomposed: n k^2 each. */
static const double tall_cost = 12.0;
/* By pieces, as pivots come: thin products. */
static double thin_cost(double columns)
{
    return 1.1 + 300.0 / fmax(columns, 1.0);
}
/* With float32 values the residual is computed in float64 once in so many iterations. */
static const double refined_every = 5;

/* What a solver adds while it solves; the certificate is made beside it. */
static void solve_and_certify(struct planning *g, const struct plan_moment *at)
{
    struct plan_moment certifying = *at;
    const double n = g->n, entries = n * n;
    const bool sampled = entries > certify_entries;
    const bool exact = g->plan->precision == PRECISION_MIXED;
    certifying.parts[PLAN_OTHER] +=
        16.0 * n * g->t + (exact ? 0 : 8.0 * n * g->ld) +
        (sampled ? 8.0 * n * (g->t + 2.0) + n * (4.0 * g->ld + g->parts) : 0);
    plan__moment(g, at, "solving");
    plan__moment(g, &certifying, "certifying");
    plan__values(g, &g->finish, entries, sampled ? DTYPE_F32 : DTYPE_F64, 2);
    plan__values(g, &g->finish, n * g->m, DTYPE_F64, 1);
}

/* Points, right-hand sides and coefficients; in mixed precision the points twice. */
static struct plan_moment uploaded(const struct planning *g)
{
    struct plan_moment at = g->base;
    const bool mixed = g->plan->precision == PRECISION_MIXED;
    const bool started = g->spec->warm_start.model[0] != '\0' || g->spec->search.wanted;
    at.parts[PLAN_POINTS] =
        g->ld * (g->n * (mixed ? 12.0 : g->host) + g->m * g->host + (g->n + g->m) * g->halves);
    at.parts[PLAN_VECTORS] = g->vector * g->t * (g->n * (started ? 3.0 : 2.0) + g->m);
    return at;
}

/* ---- cholesky ---- */

/* Only the lower triangle of the factor is touched, and whole blocks on the diagonal; of its other
 * pages none, unless the system hands out large ones. */
static double touched(const struct planning *g, double number)
{
    const double n = g->n, block = (double)param_int(&g->params, "block_size");
    const double all = number * n * n;
    const double lower = number * (n * n / 2.0 + n * fmin(block, n) / 2.0) + page_share * n;
    return g->machine->huge_pages || g->machine->own_memory ? all : fmin(lower, all);
}

/* max k(x,x): 1, or of a kernel of inner products that at the longest of n normal points (Laurent,
 * Massart, "Adaptive estimation of a quadratic functional by model selection", Annals of Statistics
 * 28(5), 2000, lemma 1). */
static double largest_value(const struct planning *g)
{
    const char *kernel = g->plan->kernel != NULL ? g->plan->kernel : "";
    const bool cubic = strcmp(kernel, "polynomial") == 0;
    if (!cubic && strcmp(kernel, "linear") != 0) {
        return 1.0;
    }
    const struct param_set *params = &g->spec->kernel.params;
    const struct param_value *gamma = param_get(params, "gamma");
    const double logs = log(g->n), longest = g->d + 2.0 * sqrt(g->d * logs) + 2.0 * logs;
    const double dot = (gamma->is_auto ? 1.0 / g->d : gamma->real) * longest;
    return pow(dot + param_real(params, "coef0"),
               cubic ? (double)param_int(params, "degree") : 1.0);
}

static bool narrow_factor(const struct planning *g)
{
    const struct param_value *factor = param_get(&g->params, "factor");
    const int64_t n = (int64_t)g->n;
    if (g->vectors == DTYPE_F32) {
        return factor->is_auto || strcmp(factor->choice, "float32") == 0;
    }
    if (!factor->is_auto) {
        return strcmp(factor->choice, "float32") == 0;
    }
    return dtype_matrix_bytes(n, n, DTYPE_F64) > g->machine->free_bytes ||
           rule_narrow_factor(n, (int64_t)g->d, (int64_t)g->t, g->ridge, largest_value(g));
}

/* Multiply-adds of the rate that one costs where a factor is made by blocks of columns: those
 * beside the diagonal are thin. */
static double by_blocks(double n, enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1.1 + 600.0 / n : 0.95 + 1800.0 / n;
}

static void cholesky(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    const bool narrow = narrow_factor(g), refined = narrow && g->vectors == DTYPE_F64;
    const enum dtype type = narrow ? DTYPE_F32 : DTYPE_F64;
    const double n = g->n, number = (double)dtype_size(type);
    g->plan->block_rows = (int64_t)fmin(n, (double)param_int(&g->params, "block_size"));
    g->plan->iterations = 0;
    at.parts[PLAN_SOLVER] = touched(g, number);
    at.untouched = number * n * n - at.parts[PLAN_SOLVER];
    at.parts[PLAN_VECTORS] += n * g->t * (refined ? 5.0 * 8.0 + 4.0 : 3.0 * g->vector);
    at.parts[PLAN_LIBRARY] = plan__library(g, n) + plan__products(g, g->t);
    plan__stored(g, &g->setup, n * n / 2.0, g->points, number);
    plan__dense(&g->setup, by_blocks(n, type) * n * n * n / 6.0, type);
    if (refined) {
        plan__values(g, &g->setup, refinement_products * n * n, DTYPE_F64, 2);
        plan__multiplied(g, &g->setup, refinement_products * n * n, type);
    }
    const double singles = fmin(g->t, 4.0); /* which read the factor each for itself */
    g->setup.read += number * n * n * singles;
    plan__dense(&g->setup, n * n * (g->t - singles), type);
    solve_and_certify(g, &at);
}

/* ---- pcg ---- */

/* What symmetric products with so many vectors sum up in, beside float32 ones. */
static double totals(const struct planning *g, double vectors)
{
    const struct scratch_shape shape = {.rows = g->n, .columns = vectors};
    return g->points == DTYPE_F32 ? scratch_totals(&shape) : 0;
}

/* Columns that the factor ends with: by pivots, where nothing is left. */
static double pivot_rank(const struct planning *g, double most)
{
    const bool sketch = strcmp(g->plan->preconditioner, "nystrom_gaussian") == 0;
    return sketch ? most : plan__rank(g, most);
}

/* Columns of the factor that are touched. A factor of less than 32 MiB may come from memory that
 * was used before, and then counts as a whole. */
static double touched_rank(struct planning *g, double most)
{
    const double k = pivot_rank(g, most);
    g->plan->assumed = g->plan->assumed || k < most;
    return k < most && g->vector * g->n * most >= 32.0 * MIB ? k : most;
}

static double choose_rank(const struct planning *g)
{
    const bool sketch = strcmp(g->plan->preconditioner, "nystrom_gaussian") == 0;
    const struct rank_shape shape = {
        .n = (int64_t)g->n,
        .d = (int64_t)g->d,
        .t = (int64_t)g->t,
        .dtype = g->vectors,
        .room = g->machine->own_memory ? g->machine->device_bytes : g->machine->free_bytes,
    };
    return (double)rule_rank(&shape, sketch ? RANK_SKETCH : RANK_COLUMNS,
                             param_get(&g->precond_params, "rank"));
}

/* The factor F and its Gram matrix; *ret_building is what there is more of while it is made. */
static double lowrank(struct planning *g, double k, double *ret_building)
{
    const double n = g->n, v = g->vector, b = fmin(fmax(ceil(k / 10.0), 10.0), 2048.0);
    const bool sketch = strcmp(g->plan->preconditioner, "nystrom_gaussian") == 0;
    const double factor = n * k * v + 8.0 * k * k + n * v + k * g->t * (v + 8.0);
    const double widened = v < 8.0 ? 8.0 * fmin(n, 4096.0) * k : 0; /* summed in float64 */
    if (sketch) {
        /* As many rows of K at a time as a piece of work has, and fit. */
        const double rows = fmax(piece_work / (n * (k + g->d + 10.0)), 128.0);
        const double dense = v * n * fmin(fmin(rows, n), fmax(block_numbers / n, 128.0));
        *ret_building = n * k * v + 8.0 * k * k + fmax(fmax(dense, widened), 512.0 * n);
    } else {
        *ret_building = 16.0 * n + (v + 16.0) * b * b + fmax(v * b * k, widened);
    }
    return factor;
}

static void make_lowrank(struct planning *g, double k)
{
    const double n = g->n;
    if (strcmp(g->plan->preconditioner, "nystrom_gaussian") == 0) {
        plan__evaluated(g, &g->setup, n * n, g->points);
        plan__dense(&g->setup, n * n * k + tall_cost * n * k * k, g->vectors);
        plan__dense(&g->setup, n * k * k, DTYPE_F64);
        g->setup.seconds += 2e-8 * n * k + 6e-9 * n * n; /* random numbers; values written, read */
    } else {
        plan__stored(g, &g->setup, 1.1 * n * k, g->points, g->vector);
        plan__dense(&g->setup, thin_cost(k) * n * k * k / 2.0, g->vectors);
        plan__dense(&g->setup, thin_cost(k) * n * k * k / 2.0, DTYPE_F64);
        plan__factor(&g->setup, k, DTYPE_F64);
    }
}

/* All values as gpu/cuda_cache.c lays them out: whole blocks. Products of more rows keep nothing.
 */
static double device_cache_bytes(const struct planning *g)
{
    const double tile = 128.0, widest = 256.0, most_rows = 2.0e6;
    const double block = fmin(tile * ceil(ceil(g->n / 48.0) / tile), widest);
    const double count = ceil(g->n / block);
    return g->n < most_rows ? g->point * count * (count + 1.0) / 2.0 * block * block : 0;
}

/* All values as cpu/cache.h lays them out: blocks with each other, and some spare rows. */
static double cache_bytes(const struct planning *g)
{
    if (g->machine->own_memory) {
        return device_cache_bytes(g);
    }
    const double spare_rows = 30, panel = 64, fewer = 48, page = 2.0 * MIB; /* panel widths */
    const double rows = fmax(panel * ceil(g->n / 8.0 / panel), fewer * ceil(g->n / 8.0 / fewer));
    const double block = fmin(rows, 2048.0);
    const double whole = floor(g->n / block), rest = g->n - whole * block;
    const double pairs = 0.5 * (g->n * g->n + whole * block * block + rest * rest);
    const double firsts = 0.5 * (ceil(g->n / block) + 1.0); /* tasks a block comes first in */
    return ceil(g->point * (pairs + spare_rows * g->n * firsts) / page) * page;
}

/* Kernel values that are kept: the engine follows what is decided here. */
static double kept_values(struct planning *g)
{
    const struct keep_shape shape = {
        .kernel = g->plan->kernel,
        .d = (int64_t)g->d,
        .t = (int64_t)g->t,
        .dtype = g->points,
        .room = g->machine->own_memory ? g->machine->device_bytes : g->machine->free_bytes,
        .device = g->machine->own_memory,
    };
    const double all = cache_bytes(g), slack = 1.1; /* of which nothing is to be missing */
    const double room = (double)rule_kept_bytes(g->spec, &shape, &g->machine->rates);
    const double kept = fmin(all, room);
    g->plan->kernel_cache_bytes = (int64_t)fmin(room, ceil(slack * all));
    plan__values(g, &g->setup, kept > 0 ? g->n * g->n : 0, g->points, 2);
    g->setup.written += kept / 2.0;
    if (!g->machine->own_memory) {
        plan__touch(&g->setup, kept); /* large pages: twice as dear */
    }
    return kept;
}

/* What precond_kronecker.c has for the largest grid that it takes: nobody has looked at the rows.
 * Seconds are those of a grid as wide as it is high, with gaps here and there. */
static double kronecker(struct planning *g)
{
    const double n = g->n, t = g->t, places = 4.0 * n, axis_most = 4096.0, steps = 20.0;
    const double axes = fmin(fmax(g->d, 1.0), 6.0), longest = fmin(n, axis_most);
    const double size = fmin(pow(n, 1.0 / axes), axis_most);
    for (int k = 0; k < (int)axes; k++) {
        plan__eigen(&g->setup, size);
    }
    plan__dense(&g->iteration, 2.0 * steps * n * axes * size * t, DTYPE_F64);
    g->iteration.read += 8.0 * 10.0 * steps * n * t;
    g->plan->assumed = true;
    return 8.0 * (places * (4.0 * t + 5.0) + n * (2.0 * t + 4.0) + 4.0 * longest * longest);
}

static void pcg(struct planning *g)
{
    struct plan_moment at = uploaded(g), building;
    const bool mixed = g->plan->precision == PRECISION_MIXED;
    const bool grid = strcmp(g->plan->preconditioner, "kronecker") == 0;
    const bool plain = grid || strcmp(g->plan->preconditioner, "none") == 0;
    const double n = g->n, t = g->t;
    double more = 0, most = 0, k = 0, columns = 0;
    at.parts[PLAN_KERNEL_CACHE] = kept_values(g);
    at.parts[PLAN_VECTORS] += n * t * (5.0 * g->vector + (mixed ? 8.0 : 0));
    at.parts[PLAN_LIBRARY] = plan__library(g, plain ? 0 : n) + plan__products(g, t);
    at.parts[PLAN_LIBRARY] += totals(g, t);
    at.parts[PLAN_PRECONDITIONER] = grid ? kronecker(g) : 0;
    if (!plain) {
        most = choose_rank(g);
        k = touched_rank(g, most);
        at.untouched = lowrank(g, most, &more) + more;
        at.parts[PLAN_PRECONDITIONER] = lowrank(g, k, &more);
        columns = pivot_rank(g, most);
        make_lowrank(g, columns);
        at.untouched -= at.parts[PLAN_PRECONDITIONER] + more;
    }
    g->plan->rank = (int64_t)most;
    building = at;
    building.parts[PLAN_PRECONDITIONER] += more;
    plan__moment(g, &building, "solving");
    const double read = at.parts[PLAN_KERNEL_CACHE];
    const double computed = 1.0 - fmin(read / (g->point * n * n / 2.0), 1.0);
    /* The residual computed afresh, against the drift; in mixed precision some rows tell that. */
    const double every = (double)param_int(&g->params, "residual_every");
    const double products = mixed ? 1.0 : 1.0 + 1.0 / every;
    plan__values(g, &g->iteration, products * computed * n * n, g->points, 2);
    plan__values(g, &g->iteration, mixed ? n * n / refined_every : 0, DTYPE_F64, 2);
    g->iteration.read += products * read + 16.0 * g->vector * n * t;
    plan__multiplied(g, &g->iteration, 2.0 * n * columns, g->vectors);
    plan__further(g, &g->iteration, products * (1.0 - computed) * n * n, g->points);
    plan__values(g, &g->finish, mixed ? n * n : 0, DTYPE_F64, 2); /* the last residual */
    solve_and_certify(g, &at);
}

/* ---- kmcg ---- */

/* A product of all points with w vectors is an iteration; returns the bytes of values that are kept
 * for it. */
static double block_products(struct planning *g, double w)
{
    const double n = g->n, t = g->t;
    g->t = w;
    const double kept = kept_values(g);
    const double computed = 1.0 - fmin(kept / (g->point * n * n / 2.0), 1.0);
    plan__values(g, &g->iteration, computed * n * n, g->points, 2);
    g->t = t;
    plan__dense(&g->iteration, (1.0 - computed) * n * n * w, g->points);
    g->iteration.read += kept;
    return kept;
}

/* Directions and what is known of them; at the end the factor of the variance, which the model is
 * read from, and the decomposition it comes from. */
static void kmcg(struct planning *g)
{
    enum { PANEL = 4096 };
    struct plan_moment at = uploaded(g), ending;
    const double n = g->n, t = g->t, v = g->vector;
    const double p = (double)rule_directions((int64_t)n, param_int(&g->params, "directions"));
    const double w = t + (double)rule_probes((int64_t)t, param_get(&g->params, "probes"));
    const bool mixed = g->plan->precision == PRECISION_MIXED;
    at.parts[PLAN_KERNEL_CACHE] = block_products(g, w);
    at.parts[PLAN_VECTORS] += v * n * (4.0 * w + 6.0 * t) + (mixed ? 8.0 * n * t : 0);
    at.parts[PLAN_SOLVER] = 2.0 * v * n * p + 16.0 * p * p + p * w * (3.0 * v + 24.0);
    at.parts[PLAN_LIBRARY] = plan__library(g, n) + plan__products(g, w) + totals(g, w);
    ending = at;
    ending.parts[PLAN_OTHER] += 24.0 * p * p + 24.0 * fmin(n, PANEL) * p;
    ending.parts[PLAN_DATA] += 8.0 * n * p;
    plan__moment(g, &ending, "solving");
    plan__dense(&g->iteration, 5.0 * n * p * w, g->vectors); /* half of them are there, usually */
    plan__eigen(&g->finish, p);
    plan__dense(&g->finish, n * p * p, DTYPE_F64);
    solve_and_certify(g, &at);
}

/* ---- block methods ---- */

/* Rows of the blocks that askotch2 measures mu on: where it is left open, with a constant momentum
 * (solver_askotch2.c). */
static double tried_rows(const struct planning *g, double b)
{
    const bool measures = param_get(&g->params, "mu")->is_auto &&
                          param_bool(&g->params, "accelerated") &&
                          !param_bool(&g->params, "restarts");
    return measures ? fmin(4.0 * b, (double)g->n) : 0.0;
}

/* Scores of all rows and what is made of them (methods/blocks/leverage.h); the order of the rows in
 * splits. */
static void leverage(struct planning *g, struct plan_moment *at)
{
    const double n = g->n, core = ceil(sqrt(n));
    at->parts[PLAN_SOLVER] += 25.0 * n;
    struct plan_moment scoring = *at;
    scoring.parts[PLAN_OTHER] += 8.0 * core * (core + leverage_rows);
    plan__moment(g, &scoring, "solving");
    plan__stored(g, &g->setup, n * core, DTYPE_F64, 8.0);
    plan__dense(&g->setup, n * core * core, DTYPE_F64);
}

static void blocks(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    const double n = g->n, t = g->t, v = g->vector;
    const bool two = strcmp(g->plan->solver, "askotch2") == 0;
    const double most = (double)rule_block_rows((int64_t)n, param_get(&g->params, "block_size"));
    const double b = two ? most : ceil(n / ceil(n / most)); /* a partition in even parts */
    const double r = fmin((double)param_int(&g->params, "rank"), b);
    const int64_t powers = param_int(&g->params, "power_iterations");
    const char *kind = param_choice(&g->params, "block_preconditioner");
    const bool open = strcmp(kind, "auto") == 0;
    const bool exact = open ? rule_block_exact((int64_t)n, (int64_t)g->d, (int64_t)b, (int64_t)r,
                                               powers, g->vectors)
                            : strcmp(kind, "cholesky") == 0;
    const bool sketch = !exact && strcmp(kind, "none") != 0;
    const double tall = strcmp(g->plan->solver, "skotch") == 0 ? 4.0 : 5.0;
    g->plan->block_rows = (int64_t)b;
    g->plan->rank = sketch ? (int64_t)r : 0;
    at.parts[PLAN_VECTORS] += v * tall * n * t + 8.0 * n + (16.0 + v) * b * t;
    at.parts[PLAN_SOLVER] = exact ? 8.0 * b * b : v * b * b;
    at.parts[PLAN_PRECONDITIONER] =
        sketch ? b * r * (16.0 + 2.0 * v) + 16.0 * r * r + 8.0 * r * t : 0;
    at.parts[PLAN_LIBRARY] = plan__library(g, b) + plan__products(g, t);
    if (two && b < n && strcmp(param_choice(&g->params, "sampling"), "leverage") == 0) {
        leverage(g, &at);
    }
    plan__values(g, &g->iteration, b * n, g->points, 1);
    /* One block that holds all rows stays as it is. */
    struct plan_work *built = b < n ? &g->iteration : &g->setup;
    plan__stored(g, built, b * b, g->points, exact ? 8.0 : v);
    if (exact) {
        plan__factor(built, b, DTYPE_F64);
    } else {
        plan__dense(built, b * b * r + 2.0 * b * r * r, g->vectors);
    }
    plan__dense(&g->iteration, (exact ? b * b : 2.0 * b * r) * (t - 1.0), DTYPE_F64);
    built->read += sketch ? v * b * b * (double)powers : 0;
    /* The first version sweeps over all blocks; the second tries four where it measures mu. */
    const double swept = two ? tried_rows(g, b) : n;
    plan__values(g, &g->setup, swept * b, g->points, 1);
    plan__dense(&g->setup, swept / b * b * b * b / 6.0, DTYPE_F64);
    /* The true residual, once in so many passes. */
    const double every = (double)param_int(&g->params, "residual_every");
    plan__values(g, &g->iteration, b * n / every, g->points, 2);
    solve_and_certify(g, &at);
}

/* ---- eigenpro2 ---- */

static void eigenpro2(struct planning *g)
{
    enum { DENSE_ROWS = 2500, PAIRS = 1000, OVERSAMPLE = 10, PROBES = 2000, BATCH_ROWS = 750 };
    struct plan_moment at = uploaded(g), building;
    const double n = g->n, t = g->t, v = g->vector;
    const double s = fmin(plan__int_or(g, "subsample", n < 100000 ? 2000 : 12000), n);
    const double bytes = (double)param_int(&g->params, "batch_memory_mib") * MIB;
    const double q = fmin(plan__int_or(g, "eigenvectors", fmin(PAIRS, s / 2.0)), s);
    const double b = fmin(fmin(plan__int_or(g, "batch_size", s), n), bytes / (s * v));
    const double probes = fmin(n > s ? n - s : s, PROBES), l = q + OVERSAMPLE;
    at.parts[PLAN_VECTORS] += 5.0 * v * n * t + 32.0 * n;
    building = at;
    building.parts[PLAN_LIBRARY] = plan__library(g, s);
    building.parts[PLAN_SOLVER] =
        s <= DENSE_ROWS || l > s / 2.0 ? 24.0 * s * s + 4.0 * s * q : 8.0 * s * (2.0 * l + q);
    plan__moment(g, &building, "solving");
    building.parts[PLAN_SOLVER] = s * q * (8.0 + v) + 8.0 * probes * (q + probes);
    plan__moment(g, &building, "solving");
    at.parts[PLAN_LIBRARY] = plan__library(g, fmax(b, s)) + plan__products(g, t);
    at.parts[PLAN_SOLVER] = v * (b * s + s * q + 2.0 * b * t + s * t);
    g->plan->rank = (int64_t)q;
    g->plan->block_rows = (int64_t)b;
    g->plan->assumed = true;
    if (s <= DENSE_ROWS) {
        plan__eigen(&g->setup, s);
    } else {
        plan__dense(&g->setup, 4.0 * s * s * l, DTYPE_F64);
    }
    plan__stored(g, &g->setup, s * s + probes * (s + probes), g->points, 8.0);
    plan__dense(&g->setup, probes * q * (s + probes), DTYPE_F64);
    /* An iteration is a batch, or as many as make 2^22 kernel values; those with the subsample are
     * used again. Batches that find their own size came out at 500 to 1,000 rows. */
    const double own = param_get(&g->params, "batch_size")->is_auto ? fmin(b, BATCH_ROWS) : b;
    const double rows = fmin(fmax(own, 4194304.0 / n), n);
    plan__values(g, &g->iteration, rows * (n - s), g->points, 1);
    plan__stored(g, &g->iteration, rows * s, g->points, v);
    plan__multiplied(g, &g->iteration, 2.0 * s * q * rows / own, g->vectors);
    plan__dense(&g->iteration, 2.0 * rows * s * (t - 1.0), g->vectors);
    /* The true residual, once in so many epochs. */
    const double every = (double)param_int(&g->params, "residual_every");
    plan__values(g, &g->iteration, rows * n / every, g->points, 1);
    solve_and_certify(g, &at);
}

/* ---- all ---- */

/* A search on all rows has found the solution on its way. */
static bool solved_by_search(const struct planning *g)
{
    const struct job_spec *spec = g->spec;
    const char *name = spec->solver.method->name;
    if (!spec->search.wanted || (strcmp(name, "auto") != 0 && strcmp(name, "cholesky") != 0)) {
        return false;
    }
    const struct rule_search size =
        rule_search_size(&spec->search, (int64_t)g->n, (int64_t)g->t, 0, spec->stop.time_budget_s);
    return size.centers == 0 && size.rows == (int64_t)g->n;
}

void plan__full(struct planning *g)
{
    static const struct {
        const char *solver;
        void (*plan)(struct planning *g);
    } methods[] = {
        {"cholesky", cholesky}, {"pcg", pcg},       {"askotch2", blocks},
        {"askotch", blocks},    {"skotch", blocks}, {"eigenpro2", eigenpro2},
        {"kmcg", kmcg},
    };
    if (solved_by_search(g)) {
        const struct plan_moment at = uploaded(g);
        g->plan->solver = "eigendecomposition";
        g->plan->preconditioner = NULL;
        g->plan->precision =
            g->spec->precision == PRECISION_AUTO ? PRECISION_FLOAT64 : g->spec->precision;
        g->plan->iterations = 0;
        solve_and_certify(g, &at);
        return;
    }
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i].solver, g->plan->solver) == 0) {
            methods[i].plan(g);
        }
    }
}
