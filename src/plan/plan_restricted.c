/*
 * Restricted models: m centers. The formulas follow the headers of engine/methods/ and
 * engine/rowset.h, n training rows, t targets; all vectors are float64.
 */
#include <math.h>
#include <string.h>

#include "plan/plan_parts.h"
#include "plan/rules.h"

#define MIB 1048576.0
static const double factor_cost = 1.25, eigen_cost = 4.0;

static bool selects(const struct planning *g)
{
    const char *name = g->spec->centers.method->name;
    return strcmp(name, "uniform") != 0 && strcmp(name, "file") != 0;
}

static double tile_rows(const struct planning *g, double n, double t)
{
    return fmin((double)rule_tile_rows((int64_t)g->d, (int64_t)t, (int64_t)g->centers), n);
}

/* A tile of rows on its way: read, prepared. */
static double tile_bytes(const struct planning *g, double n, double t, double point)
{
    return tile_rows(g, n, t) * (g->d * g->host + g->ld * point + 16.0 * t);
}

/* Rows stay on the backend where half of the free memory holds them, beside a tile as it is read.
 */
static double rows_bytes(const struct planning *g)
{
    const double room =
        g->machine->own_memory ? (double)g->machine->device_bytes : (double)g->machine->free_bytes;
    const double all = g->n * (g->d * g->point + 8.0 * g->t);
    const double read = tile_rows(g, g->n, g->t) * (g->d * g->host + 8.0 * g->t);
    return all <= room / 2.0 ? g->n * (g->ld * g->point + 8.0 * g->t) + read
                             : tile_bytes(g, g->n, g->t, g->point);
}

/* What the products of engine/products.h hold where the backend has no operation for them: a block
 * of values, and of the sketch's columns besides. */
enum { PRODUCT_ROWS = 4096 };

static double product_bytes(const struct planning *g)
{
    const double fit = fmax(floor(32.0 * MIB / (8.0 * g->centers)), 1.0);
    const double rows = fmin(fmin(fit, PRODUCT_ROWS), tile_rows(g, g->n, g->t));
    return g->machine->own_memory ? 8.0 * rows * (g->centers + g->t) : 0;
}

static double sketch_bytes(const struct planning *g, double d, double columns)
{
    const double fit = fmax(floor(16.0 * MIB / (8.0 * d)), 1.0);
    const double rows = fmin(fmin(fit, PRODUCT_ROWS), columns);
    const double values = fmax(floor(32.0 * MIB / (8.0 * rows)), 1.0);
    return g->machine->own_memory ? 8.0 * rows * (d + fmin(fmin(values, PRODUCT_ROWS), g->centers))
                                  : 0;
}

/* Rows, centers (in float64 besides, for their own matrix), right-hand sides, the answer. */
static struct plan_moment uploaded(const struct planning *g)
{
    struct plan_moment at = g->base;
    const double m = g->centers, twice = g->points == DTYPE_F32 ? 12.0 : 8.0;
    const bool started = g->spec->warm_start.model[0] != '\0';
    at.parts[PLAN_DATA] += m * (g->d * g->host + 8.0);
    at.parts[PLAN_POINTS] = rows_bytes(g) + m * g->ld * twice;
    at.parts[PLAN_VECTORS] = 8.0 * m * g->t * (started ? 2.0 : 1.0);
    at.parts[PLAN_LIBRARY] = plan__library(g, m);
    at.parts[PLAN_OTHER] = product_bytes(g);
    return at;
}

/* A pass over the rows evaluates each value once and uses it twice. */
static void pass(struct planning *g, struct plan_work *w, double passes)
{
    plan__values(g, w, passes * 2.0 * g->n * g->centers, g->points, 2);
}

/* The certificate is in float64, of tiles that are read again; then the test rows pass. */
static void certify(struct planning *g, const struct plan_moment *at)
{
    struct plan_moment certifying = *at;
    const double m = g->centers;
    const double certificate =
        tile_bytes(g, g->n, 2.0 * g->t, 8.0) + 8.0 * m * g->ld + 32.0 * m * g->t;
    certifying.parts[PLAN_OTHER] += fmax(certificate, tile_bytes(g, g->m, 0, g->point));
    plan__moment(g, at, "solving");
    plan__moment(g, &certifying, "certifying");
    plan__values(g, &g->finish, 2.0 * g->n * m, DTYPE_F64, 2);
    plan__values(g, &g->finish, m * m, DTYPE_F64, 2);
    plan__values(g, &g->finish, g->m * m, g->points, 1);
}

/* ---- conjugate gradients ---- */

/* normal_cg.h: 6 m t numbers; an iteration is a pass, and a product with the centers' matrix. */
static void conjugate(struct planning *g, struct plan_moment *at, double triangles)
{
    const double m = g->centers;
    at->parts[PLAN_VECTORS] += 48.0 * m * g->t + 8.0 * m * g->t;
    pass(g, &g->setup, 1.0);
    pass(g, &g->iteration, 1.0);
    plan__values(g, &g->iteration, m * m, DTYPE_F64, 2);
    g->iteration.bytes += triangles * 4.0 * m * m;
}

static void cg(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    conjugate(g, &at, 0);
    certify(g, &at);
}

static void falkon(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    const double m = g->centers;
    conjugate(g, &at, 4.0);
    at.parts[PLAN_PRECONDITIONER] = 16.0 * m * m;
    plan__values(g, &g->setup, m * m, DTYPE_F64, 1);
    plan__dense(&g->setup, factor_cost * (m * m * m / 3.0 + m * m * m / 2.0), DTYPE_F64);
    certify(g, &at);
}

static void direct(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    const double m = g->centers, block = fmax(32.0 * MIB, 512.0 * m);
    const double touched = fmin(block, 8.0 * m * tile_rows(g, g->n, g->t));
    conjugate(g, &at, 2.0);
    at.parts[PLAN_SOLVER] = 8.0 * m * m;
    g->plan->iterations = 0;
    struct plan_moment building = at;
    building.parts[PLAN_SOLVER] += touched;
    building.untouched = block - touched;
    building.parts[PLAN_OTHER] = fmin(32.0 * MIB, 8.0 * m * m);
    plan__moment(g, &building, "solving");
    plan__values(g, &g->setup, g->n * m, g->points, 1);
    plan__dense(&g->setup, factor_cost * (g->n * m * m / 2.0 + m * m * m / 6.0), DTYPE_F64);
    pass(g, &g->setup, 2.0);
    certify(g, &at);
}

static void krill(struct planning *g)
{
    enum { PHI_COLUMNS = 1 << 14 };
    struct plan_moment at = uploaded(g);
    const double m = g->centers, t = g->t;
    const double d = ceil(param_real(&g->params, "oversampling") * m);
    const double nonzeros = fmin((double)param_int(&g->params, "nonzeros"), d);
    const double parts = rule_sketch_parts((int64_t)d, (int64_t)m, (int)nonzeros);
    conjugate(g, &at, 4.0);
    at.parts[PLAN_PRECONDITIONER] =
        16.0 * m * m + 16.0 * m * t + 8.0 * d * t + 9.0 * fmin(PHI_COLUMNS, g->n) * nonzeros;
    g->plan->rank = (int64_t)m;
    struct plan_moment building = at;
    building.parts[PLAN_PRECONDITIONER] += 8.0 * m * (d / parts + nonzeros);
    building.parts[PLAN_OTHER] =
        sketch_bytes(g, ceil(d / parts), fmin(PHI_COLUMNS, tile_rows(g, g->n, t)));
    plan__moment(g, &building, "solving");
    pass(g, &g->setup, parts);
    plan__values(g, &g->setup, m * m, DTYPE_F64, 1);
    g->setup.bytes += 16.0 * g->n * m * nonzeros / 4.0;
    plan__dense(&g->setup, factor_cost * (d * m * m + m * m * m / 3.0), DTYPE_F64);
    certify(g, &at);
}

/* ---- stochastic methods ---- */

static void stochastic(struct planning *g)
{
    enum { RACE_BATCHES = 4, PIECE_ROWS = 1024 };
    struct plan_moment at = uploaded(g);
    const bool saga = strcmp(g->plan->solver, "sketchysaga") == 0;
    const double n = g->n, m = g->centers, t = g->t;
    const double b = (double)rule_batch_rows((int64_t)n, (int64_t)m, &g->params);
    const double r = (double)rule_sketch_rank((int64_t)m, &g->params);
    const double rows = (double)rule_hessian_rows((int64_t)n, (int64_t)r, &g->params);
    const double batch = b * (g->d * g->host + g->ld * g->point + 16.0 * t);
    const double piece = fmin(fmax(8.0 * MIB / (8.0 * m), 16.0), b) * m * 8.0;
    const bool exact = r >= m;
    g->plan->rank = (int64_t)r;
    g->plan->block_rows = (int64_t)b;
    at.parts[PLAN_VECTORS] += 8.0 * ((saga ? n * t : 0) + 12.0 * m * t + 2.0 * b * t + 3.0 * m);
    at.parts[PLAN_SOLVER] = batch;
    at.parts[PLAN_PRECONDITIONER] = exact ? 8.0 * m * m : 8.0 * (2.0 * m * r + 2.0 * r * r + r * t);
    /* The matrix of the centers and the sum over the rows, beside pieces of these, then beside what
     * they become. */
    struct plan_moment building = at, solving = at;
    building.parts[PLAN_PRECONDITIONER] +=
        exact ? 16.0 * m * m + 8.0 * fmax(fmin(rows, PIECE_ROWS) - m, 0) * m : 8.0 * m * r;
    building.parts[PLAN_SOLVER] += (RACE_BATCHES - 1) * batch + 32.0 * b * t;
    building.parts[PLAN_OTHER] = 0; /* no pass over the rows yet */
    plan__moment(g, &building, "solving");
    solving.parts[PLAN_SOLVER] += piece;
    plan__moment(g, &solving, "solving");
    const double sample = rows * m * (exact ? m : r);
    plan__values(g, &g->setup, rows * m + m * m + 40.0 * b * m, g->points, 1);
    plan__dense(&g->setup, factor_cost * (sample + 2.0 * m * m * m / 3.0), DTYPE_F64);
    pass(g, &g->setup, 1.0);
    pass(g, &g->iteration, saga ? 1.0 : 2.0);
    const double batches = ceil(n / b);
    plan__values(g, &g->iteration, batches * m * m, DTYPE_F64, 1);
    g->iteration.bytes += batches * 8.0 * (exact ? 2.0 * m * m : 2.0 * m * r);
    certify(g, &at);
}

/* ---- eigenpro3, eigenpro4 ---- */

static double int_or(const struct planning *g, const char *key, double automatic)
{
    const struct param_value *v = param_get(&g->params, key);
    return v->is_auto ? automatic : v->real;
}

static void eigenpro34(struct planning *g)
{
    enum { KEPT = 5, EXACT = 20000, PROBES = 2000, FAR = 20, FAR_BYTES = 16 };
    struct plan_moment at = uploaded(g), building;
    const bool delayed = strcmp(g->plan->solver, "eigenpro4") == 0;
    const char *how = param_choice(&g->params, "projection");
    const double n = g->n, m = g->centers, t = g->t;
    const bool exact = how[0] == 'e' || (how[0] == 'a' && m <= EXACT);
    const double c = fmin((double)param_int(&g->params, "subsample_centers"), m);
    const double s = fmin(int_or(g, "subsample", fmax(2000, 5.0 * c)), n);
    const double q = fmin(int_or(g, "eigenvectors", fmin(c / 2.0, s / 10.0)), c);
    const double bytes = (double)param_int(&g->params, "batch_memory_mib") * MIB;
    const double most = fmax(fmin(n / 8.0, bytes / (8.0 * m)), 1.0);
    const double b = fmin(int_or(g, "batch_size", fmin(fmax(q, 262144.0 / m), most)), n);
    const double window = delayed ? fmin(m, 64.0 * MIB / (g->d * 8.0)) : b;
    const double probes = fmin(PROBES, n);
    g->plan->rank = (int64_t)q;
    g->plan->block_rows = (int64_t)b;
    g->plan->assumed = true;
    at.parts[PLAN_VECTORS] += 8.0 * m * t * (8.0 + 2.0 * KEPT + 3.0);
    at.parts[PLAN_SOLVER] = 8.0 * b * (m + 3.0 * t + 2.0) + 8.0 * window * (1.0 + t) +
                            window * (g->d * g->host + g->ld * g->point);
    at.parts[PLAN_PRECONDITIONER] = (exact ? 8.0 * m * m : 0) + 8.0 * c * q + FAR_BYTES * n / FAR;
    building = at;
    building.parts[PLAN_SOLVER] = 0;
    building.parts[PLAN_PRECONDITIONER] +=
        fmax(24.0 * c * c + 8.0 * c * q, 8.0 * probes * (probes + c + q));
    plan__moment(g, &building, "solving");
    plan__values(g, &g->setup, (s + n) * c + probes * (probes + c), g->points, 1);
    plan__dense(&g->setup,
                factor_cost * (s * c * c + (exact ? m * m * m / 6.0 : 0)) + eigen_cost * c * c * c +
                    probes * q * (c + probes) + n * q * c,
                DTYPE_F64);
    pass(g, &g->iteration, delayed ? 1.75 : 1.25);
    plan__values(g, &g->iteration, n * m, g->points, 1);
    const double projections = delayed ? ceil(n / window) : ceil(n / b);
    g->iteration.bytes += projections * (exact ? 16.0 * m * m : 0);
    certify(g, &at);
}

/* ---- selection of centers ---- */

/* Bytes of a number of the matrices that a selection makes, as engine/fit_centers.c has it. */
static double selection_number(const struct planning *g)
{
    const enum precision p = g->spec->precision;
    return p == PRECISION_FLOAT32 || p == PRECISION_MIXED ? 4.0 : 8.0;
}

/* A partial factorisation of a sample, of as many columns as it has rank for. */
static void select_pivots(struct planning *g, struct plan_moment *at)
{
    const double most = g->centers, m = plan__rank(g, most), w = selection_number(g);
    const double N = fmin(int_or(g, "sample", fmax(20.0 * most, 20000.0)), g->n);
    at->parts[PLAN_OTHER] =
        N * (w * m + g->d * g->host + g->ld * g->host + 32.0) + 0.24 * most * most;
    at->untouched = N * w * (most - m);
    g->centers = m;
    g->plan->assumed = g->plan->assumed || m < most;
    plan__values(g, &g->setup, 1.1 * N * m, DTYPE_F64, 1);
    plan__dense(&g->setup, N * m * m, DTYPE_F64);
}

static void select_means(struct planning *g, struct plan_moment *at)
{
    const double m = g->centers, n = g->n;
    const double sample = fmin(int_or(g, "sample", fmax(10.0 * m, 20000.0)), n);
    const double rows = int_or(g, "rows", fmin(fmax(100.0 * m, 200000.0), 3.0 * n));
    const double block = fmin(m, 1024.0) * 1024.0; /* engine/methods/nearest.h */
    at->parts[PLAN_OTHER] =
        (8.0 + g->host) * block + (2.0 * sample + 4.0 * m) * g->d * 8.0 + 24.0 * sample + 32.0 * m;
    /* Narrow products, and the least of each row's distances. */
    plan__dense(&g->setup, 5.0 * (sample + rows) * m * g->d, DTYPE_F64);
    g->setup.seconds += 3e-9 * (sample + rows) * m;
}

/* As bless_oversampling of engine/methods/center_bless.c. */
static double oversampling(const struct planning *g)
{
    const struct param_value *q2 = param_get(&g->params, "q2");
    return q2->is_auto ? fmin(fmax(g->centers / 20.0, 5.0), 100.0) : q2->real;
}

/* Whether the kernel's rank is too low for as many points as are asked for. */
static bool short_of_rank(const struct planning *g)
{
    return oversampling(g) * plan__rank(g, g->centers) <= g->centers;
}

/*
 * Points of the last level but one. BLESS draws q2 times the effective dimension, as long as that
 * is less than the centers that are asked for, and the dimension at most doubles from a level to
 * the next: between a half of them and all, and more of them with a smooth kernel, whose dimension
 * grows slowly. With the automatic q2 its lambda is coarse, and most levels have fewer candidates
 * than that. Those that go through all rows take about as many as they are asked for, SQUEAK beside
 * the rows of a block. Where the rank is low, it is the dimension that is met at the end, and those
 * that do not go along a path of lambda take it for up to twice as much
 * (engine/methods/centers_rls.c).
 */
static double level_points(const struct planning *g)
{
    enum { COARSE = 100 };
    const char *kernel = g->plan->kernel != NULL ? g->plan->kernel : "";
    const char *method = g->spec->centers.method->name;
    const bool path = strncmp(method, "bless", 5) == 0;
    const double block = strcmp(method, "squeak") == 0 ? 256 : 0; /* at least */
    const bool rough = strncmp(kernel, "laplacian", 9) == 0 || strcmp(kernel, "matern12") == 0;
    const bool coarse = param_get(&g->params, "q2")->is_auto && g->centers > COARSE;
    const bool slow = plan__rank(g, g->centers) < g->centers; /* a dimension that hardly grows */
    const double drawn = slow && !path ? 1.25 : coarse ? 0.6 : !path ? 1.0 : rough ? 0.75 : 0.85;
    const double most = oversampling(g) * plan__rank(g, g->centers);
    const double nested = path ? 1.0 : 2.0;
    return (short_of_rank(g) ? nested * most : drawn * g->centers) + block;
}

/* Levels that count, each with the work of the last one: with a low rank the path goes down to
 * where rounding ends it (engine/methods/center_scores.h); else earlier ones have fewer points and
 * candidates. SQUEAK scores its points again with every block, recursive sampling with every half
 * of the rows. */
static double level_count(const struct planning *g)
{
    const double least = g->host < 8.0 ? 1.2e-7 : 1e-14, ratio = 2.0;
    const bool never_met = oversampling(g) * plan__rank(g, g->centers) < g->centers;
    const char *method = g->spec->centers.method->name;
    const double usual = strcmp(method, "squeak") == 0 ? 5.0
                         : strcmp(method, "rls") == 0  ? 3.0
                                                       : 2.0;
    return never_met ? log(1.0 / least) / log(ratio) : usual;
}

/* By leverage scores: the matrix of a level's points and pieces of candidates. */
static void select_scores(struct planning *g, struct plan_moment *at)
{
    enum { PIECE_LEAST = 128, PIECE_MOST = 4096, CANDIDATES = 20000 };
    const double scored = fmin(g->n, fmax(20.0 * g->centers, CANDIDATES));
    const double m = level_points(g), w = selection_number(g);
    const double piece = fmin(fmin(fmax(8e9 / (m * m), PIECE_LEAST), PIECE_MOST), g->n);
    at->parts[PLAN_OTHER] = m * (8.0 * m + (w < 8.0 ? 4.0 * m : 0) + w * piece) + scored * 32.0 +
                            piece * (g->d + g->ld) * g->host +
                            (2.0 * g->centers + m) * g->ld * g->host;
    const double levels = level_count(g);
    plan__values(g, &g->setup, levels * scored * m, DTYPE_F64, 1);
    plan__dense(&g->setup, factor_cost * levels * scored * m * m / 2.0, DTYPE_F64);
    g->plan->assumed = true;
}

static void select_centers(struct planning *g)
{
    const char *name = g->spec->centers.method->name;
    struct planning with = *g; /* the selector's parameters in the place of the solver's */
    struct plan_moment at = g->base;
    with.params = g->spec->centers.params;
    at.parts[PLAN_DATA] += g->centers * (2.0 * g->d * g->host + 64.0);
    at.parts[PLAN_LIBRARY] = plan__library(g, g->centers);
    if (strcmp(name, "rpcholesky") == 0) {
        select_pivots(&with, &at);
    } else if (strcmp(name, "kmeans") == 0) {
        select_means(&with, &at);
    } else if (selects(g)) {
        select_scores(&with, &at);
    }
    g->setup = with.setup;
    plan__moment(g, &at, "centers");
}

/* Of a kernel of finite rank the fit keeps as many centers as that (engine/methods/center_rank.h):
 * columns of all centers, as long as they are independent. */
static void keep_independent(struct planning *g)
{
    const char *kernel = g->plan->kernel != NULL ? g->plan->kernel : "";
    const bool finite = strcmp(kernel, "linear") == 0 || strcmp(kernel, "polynomial") == 0;
    const double m = g->centers, r = finite ? plan__rank(g, m) : m;
    struct plan_moment at = g->base;
    at.parts[PLAN_DATA] += m * (g->d * g->host + 8.0);
    at.parts[PLAN_LIBRARY] = plan__library(g, r);
    at.parts[PLAN_OTHER] = finite ? 8.0 * m * (r + g->ld + 3.0) + 24.0 * r * r / 100.0 : 0;
    plan__moment(g, &at, "centers");
    plan__values(g, &g->setup, finite ? m * r : 0, DTYPE_F64, 1);
    plan__dense(&g->setup, finite ? m * r * r / 2.0 : 0, DTYPE_F64);
    g->centers = r;
    g->plan->centers = (int64_t)r;
}

void plan__centers(struct planning *g)
{
    select_centers(g);
    keep_independent(g);
}

void plan__restricted(struct planning *g)
{
    static const struct {
        const char *solver;
        void (*plan)(struct planning *g);
    } methods[] = {
        {"krill", krill},
        {"falkon", falkon},
        {"falkon_bless", falkon},
        {"direct", direct},
        {"cg", cg},
        {"sketchysaga", stochastic},
        {"sketchykatyusha", stochastic},
        {"eigenpro3", eigenpro34},
        {"eigenpro4", eigenpro34},
    };
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i].solver, g->plan->solver) == 0) {
            methods[i].plan(g);
        }
    }
}
