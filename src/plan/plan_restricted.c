/*
 * Restricted models: m centers. The formulas follow the headers of engine/methods/ and
 * engine/rowset.h, n training rows, t targets; all vectors are float64.
 */
#include <math.h>
#include <string.h>

#include "plan/plan_parts.h"
#include "plan/rules.h"

#define MIB 1048576.0

/* Of a number of a row that is read and prepared. */
static const double row_number_s = 6e-9;

static double tile_rows(const struct planning *g, double n, double t)
{
    return fmin((double)rule_tile_rows((int64_t)g->d, (int64_t)t, (int64_t)g->centers), n);
}

/* A row on its way: read, and prepared in so many bytes a number. */
static double row_bytes(const struct planning *g, double t, double point)
{
    return g->d * g->host + g->ld * point + 16.0 * t;
}

static double tile_bytes(const struct planning *g, double n, double t, double point)
{
    return tile_rows(g, n, t) * row_bytes(g, t, point);
}

/* Rows stay on the backend where half of the free memory holds them, beside a tile as it is read.
 */
static double rows_bytes(const struct planning *g)
{
    const bool device = g->machine->own_memory;
    const double room = (double)(device ? g->machine->device_bytes : g->machine->free_bytes);
    const struct rule_rows all = {.kernel = g->plan->kernel,
                                  .n = (int64_t)g->n,
                                  .d = (int64_t)g->d,
                                  .t = (int64_t)g->t,
                                  .points = g->points,
                                  .vectors = g->vectors,
                                  .device = device};
    const double read = tile_rows(g, g->n, g->t) * (g->d * g->host + 8.0 * g->t);
    return rule_rows_stay(&all, room / 2.0)
               ? g->n * (g->ld * (g->point + g->halves) + 8.0 * g->t) + read
               : tile_bytes(g, g->n, g->t, g->point + g->halves);
}

/* What the products of engine/products.h take on a GPU: a block of values for many right-hand sides
 * (gpu/cuda_normal.c, GROUPS); else at most one side's sums. What their workspaces take beside is
 * within what the backend leaves free (CUDA_RESERVE_BYTES). */
enum { PRODUCT_ROWS = 4096, FEW_SINGLE = 6, FEW_DOUBLE = 12, SUMS = 1 << 20 };

static double product_bytes(const struct planning *g, double t)
{
    const double fit = fmax(floor(32.0 * MIB / (8.0 * g->centers)), 1.0);
    const double all = tile_rows(g, g->n, g->t), rows = fmin(fmin(fit, PRODUCT_ROWS), all);
    const bool many = t > (g->points == DTYPE_F32 ? FEW_SINGLE : FEW_DOUBLE);
    return !g->machine->own_memory ? 0
           : many                  ? 8.0 * rows * (g->centers + t)
                                   : 8.0 * fmin(SUMS, all * t);
}

/* Rows, centers (in float64 besides, for their own matrix), right-hand sides, the answer. */
static struct plan_moment uploaded(const struct planning *g)
{
    struct plan_moment at = g->base;
    const double m = g->centers, twice = g->points == DTYPE_F32 ? 12.0 : 8.0;
    const bool started = g->spec->warm_start.model[0] != '\0';
    at.parts[PLAN_DATA] += m * (g->d * g->host + 8.0);
    at.parts[PLAN_POINTS] = rows_bytes(g) + m * g->ld * (twice + g->halves);
    at.parts[PLAN_VECTORS] = 8.0 * m * g->t * (started ? 2.0 : 1.0);
    at.parts[PLAN_LIBRARY] = plan__library(g, m) + plan__products(g, g->t);
    at.parts[PLAN_OTHER] = product_bytes(g, g->t);
    return at;
}

/* A pass over the rows evaluates each value once and uses it twice. */
static void pass(struct planning *g, struct plan_work *w, double passes)
{
    plan__normal(g, w, passes * g->n * g->centers, g->points);
}

/* A product with the centers' own matrix, in float64. */
static void core(struct planning *g, struct plan_work *w, double times)
{
    plan__values(g, w, times * g->centers * g->centers, DTYPE_F64, 2);
}

/* Its factor. */
static void core_factor(struct planning *g)
{
    plan__stored(g, &g->setup, g->centers * g->centers, DTYPE_F64, 8.0);
    plan__factor(&g->setup, g->centers, DTYPE_F64);
}

/* One pass has every target twice: residual, and right-hand side. Solves with the centers' factor
 * for both, and once more for its own residual. */
static void certificate(struct planning *g, bool whitened)
{
    const double m = g->centers, t = g->t;
    g->finish.seconds += row_number_s * g->n * (g->d + 2.0 * t);
    g->t = 2.0 * t;
    plan__normal(g, &g->finish, g->n * m, DTYPE_F64);
    g->t = t;
    core(g, &g->finish, whitened ? 2.0 : 1.0);
    if (whitened) {
        plan__stored(g, &g->finish, m * m, DTYPE_F64, 8.0);
        plan__factor(&g->finish, m, DTYPE_F64);
        plan__substitute(g, &g->finish, m, 3.0);
        plan__multiplied(g, &g->finish, m * m, DTYPE_F64);
    }
}

/* The certificate is in float64, of tiles that are read again; then the test rows pass, in the
 * vectors' type. */
static void certify(struct planning *g, const struct plan_moment *at)
{
    struct plan_moment certifying = *at;
    const double m = g->centers;
    const bool wide = g->vector > 4.0;
    const double tested = tile_bytes(g, g->m, 0, wide ? 8.0 : g->point + g->halves);
    const double twice = tile_bytes(g, g->n, 2.0 * g->t, 8.0) + 8.0 * m * g->ld + 32.0 * m * g->t;
    const bool whitened = rule_whitens((int64_t)g->n, (int64_t)m);
    const double factor = whitened ? 8.0 * m * m : 0;
    certifying.parts[PLAN_OTHER] += fmax(twice + factor, tested);
    plan__moment(g, at, "solving");
    plan__moment(g, &certifying, "certifying");
    certificate(g, whitened);
    plan__values(g, &g->finish, g->m * m, wide ? DTYPE_F64 : g->points, 1);
}

/* ---- conjugate gradients ---- */

/* normal_cg.h: 7 m t numbers and scratch; an iteration is a pass, and a product with the centers'
 * matrix, or, where there are triangles to solve with, with its factor. */
static void conjugate(struct planning *g, struct plan_moment *at, double triangles)
{
    enum { MULTIPLY_ROWS = 256 };
    const double m = g->centers, t = g->t;
    at->parts[PLAN_VECTORS] += 56.0 * m * t;
    if (triangles > 0 || g->spec->warm_start.model[0] != '\0') { /* coefficients to begin with */
        at->parts[PLAN_VECTORS] += 16.0 * t * tile_rows(g, g->n, g->t);
        at->parts[PLAN_OTHER] = product_bytes(g, 2.0 * t);
        at->parts[PLAN_LIBRARY] += plan__products(g, 2.0 * t) - plan__products(g, t);
    }
    pass(g, &g->setup, 1.0);
    pass(g, &g->iteration, 1.0);
    if (triangles > 0) {
        at->parts[PLAN_VECTORS] += 8.0 * (m + fmin(m, MULTIPLY_ROWS)) * t;
        plan__substitute(g, &g->iteration, m, triangles);
        g->iteration.read += 4.0 * m * m;
        plan__dense(&g->iteration, m * m * t / 2.0, DTYPE_F64);
    } else {
        core(g, &g->iteration, 1.0);
    }
}

/* The residual that is computed afresh, against the drift of the recurrence. */
static void look(struct planning *g)
{
    pass(g, &g->iteration, 1.0 / (double)param_int(&g->params, "residual_every"));
}

static void cg(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    conjugate(g, &at, 0);
    look(g);
    certify(g, &at);
}

static void falkon(struct planning *g)
{
    struct plan_moment at = uploaded(g);
    const double m = g->centers;
    conjugate(g, &at, 4.0);
    look(g);
    at.parts[PLAN_PRECONDITIONER] = 16.0 * m * m;
    core_factor(g);
    plan__factor(&g->setup, m, DTYPE_F64);
    plan__dense(&g->setup, m * m * m / 2.0, DTYPE_F64);
    certify(g, &at);
}

static void direct(struct planning *g)
{
    enum { SINGLE_STEPS = 2 };
    struct plan_moment at = uploaded(g);
    const double m = g->centers, block = fmax(32.0 * MIB, 512.0 * m);
    const double touched = fmin(block, 8.0 * m * tile_rows(g, g->n, g->t));
    conjugate(g, &at, 4.0);
    at.parts[PLAN_SOLVER] = 16.0 * m * m;
    g->plan->iterations = 0;
    struct plan_moment building = at;
    building.parts[PLAN_SOLVER] += touched;
    building.untouched = block - touched;
    building.parts[PLAN_OTHER] = 0; /* no pass over the rows yet */
    plan__moment(g, &building, "solving");
    plan__stored(g, &g->setup, g->n * m, g->points, 8.0);
    plan__solve(&g->setup, m, g->n, DTYPE_F64);
    plan__dense(&g->setup, 1.1 * g->n * m * m / 2.0, DTYPE_F64);
    core_factor(g);
    plan__factor(&g->setup, m, DTYPE_F64);
    /* Steps that refine it: another one where values in float32 have made it. */
    const double refined = g->spec->precision == PRECISION_FLOAT32 ? SINGLE_STEPS : 1.0;
    pass(g, &g->setup, 1.0 + fmin(refined, (double)g->spec->stop.max_iterations));
    certify(g, &at);
}

/* One pass; then the posterior: its decomposition, and the factor that the model is read from. */
static void inducing(struct planning *g)
{
    enum { PANEL = 4096 };
    struct plan_moment at = uploaded(g);
    const double m = g->centers, t = g->t, block = fmax(32.0 * MIB, 512.0 * m);
    const double touched = fmin(block, 8.0 * m * tile_rows(g, g->n, g->t));
    const bool weighted = strcmp(param_choice(&g->params, "approximation"), "fitc") == 0;
    at.parts[PLAN_SOLVER] = 24.0 * m * m + touched;
    at.parts[PLAN_VECTORS] += 24.0 * m * t + (weighted ? 8.0 * g->n : 0);
    at.untouched = block - touched;
    g->plan->iterations = 0;
    struct plan_moment building = at, ending = at;
    building.parts[PLAN_OTHER] = 0; /* no pass over the rows yet */
    plan__moment(g, &building, "solving");
    ending.parts[PLAN_OTHER] = 16.0 * m * m + 24.0 * fmin(m, PANEL) * m;
    ending.parts[PLAN_DATA] += 8.0 * m * m;
    plan__moment(g, &ending, "solving");
    plan__stored(g, &g->setup, g->n * m, g->points, 8.0);
    plan__solve(&g->setup, m, g->n, DTYPE_F64);
    plan__dense(&g->setup, 1.1 * g->n * m * m / 2.0, DTYPE_F64);
    core_factor(g);
    plan__factor(&g->setup, m, DTYPE_F64);
    plan__eigen(&g->finish, m);
    plan__dense(&g->finish, 1.5 * m * m * m, DTYPE_F64);
    certify(g, &at);
}

/* Products of the centers' own matrix for the directions, w at a time, a third of the sums beside
 * them, usually. */
static void directions(struct planning *g, double p, double w)
{
    const double m = g->centers, t = g->t, products = ceil(p / w);
    g->t = w;
    core(g, &g->setup, products);
    g->t = t;
    plan__dense(&g->setup, 5.0 * m * p * p, DTYPE_F64);
}

/* Of K_nm, as it is written down. */
static void block(const struct planning *g, struct plan_moment *at)
{
    enum { BLOCK_ROWS = 65536 };
    const double m = g->centers;
    const double rows = fmin(fmax(floor(32.0 * MIB / (8.0 * m)), 64.0), BLOCK_ROWS);
    const double touched = fmin(rows, tile_rows(g, g->n, g->t));
    at->parts[PLAN_OTHER] += 8.0 * m * touched;
    at->untouched += 8.0 * m * (rows - touched);
}

/* Directions; then one pass, and the posterior as above, of p columns. */
static void kmcg_restricted(struct planning *g)
{
    enum { PANEL = 4096, BLOCK_ROWS = 65536 };
    struct plan_moment at = uploaded(g), first, ending;
    const double m = g->centers, t = g->t;
    const double p = (double)rule_directions((int64_t)m, param_int(&g->params, "directions"));
    const double w = t + (double)rule_probes((int64_t)t, param_get(&g->params, "probes"));
    const double rows = fmin(fmax(floor(32.0 * MIB / (8.0 * p)), 64.0), BLOCK_ROWS);
    const double touched = fmin(rows, tile_rows(g, g->n, t));
    const bool weighted = strcmp(param_choice(&g->params, "approximation"), "fitc") == 0;
    at.parts[PLAN_VECTORS] += 8.0 * m * t;
    first = at;
    first.parts[PLAN_VECTORS] += 8.0 * m * (t + 4.0 * w);
    first.parts[PLAN_SOLVER] = 16.0 * m * p + 16.0 * p * p + 48.0 * p * w;
    at.parts[PLAN_VECTORS] += 16.0 * p * t + (weighted ? 8.0 * g->n : 0);
    at.parts[PLAN_SOLVER] = 8.0 * m * p + 16.0 * p * p + 8.0 * touched * (p + t + 1.0);
    at.untouched = 8.0 * (rows - touched) * (p + t + 1.0);
    block(g, &at);
    g->plan->iterations = 0;
    plan__moment(g, &first, "solving");
    ending = at;
    ending.parts[PLAN_OTHER] += 8.0 * p * p + 24.0 * fmin(m, PANEL) * p;
    ending.parts[PLAN_DATA] += 8.0 * m * p;
    plan__moment(g, &at, "solving");
    plan__moment(g, &ending, "solving");
    directions(g, p, w);
    plan__stored(g, &g->setup, g->n * m, g->points, 8.0);
    plan__dense(&g->setup, g->n * m * p, DTYPE_F64);
    plan__dense(&g->setup, 1.1 * g->n * p * p / 2.0, DTYPE_F64);
    plan__factor(&g->setup, p, DTYPE_F64);
    plan__eigen(&g->finish, p);
    plan__dense(&g->finish, m * p * p, DTYPE_F64);
    certify(g, &at);
}

/* Values of all rows a part of the sketch, on their way into it; of d rows, which are read and
 * written for each tile. A GPU adds every value for each of its signs. */
static void sketch(struct planning *g, double d, double parts, struct rule_sketch signs)
{
    const double m = g->centers, tiles = ceil(g->n / tile_rows(g, g->n, g->t));
    plan__evaluated(g, &g->setup, parts * g->n * m, g->points);
    g->setup.written +=
        (g->machine->own_memory ? 4.0 * signs.block : 4.0) * signs.copies * g->n * m;
    g->setup.written += 8.0 * tiles * d * m;
}

static void krill(struct planning *g)
{
    enum { COLUMNS = 1 << 16 };
    struct plan_moment at = uploaded(g);
    const double m = g->centers, t = g->t;
    const double d = ceil(param_real(&g->params, "oversampling") * m);
    const struct rule_sketch signs = rule_sketch_signs((int64_t)g->n, (int64_t)d, &g->params);
    const int numbers = signs.block * signs.copies;
    const double parts = rule_sketch_parts((int64_t)d, (int64_t)m, numbers);
    conjugate(g, &at, 4.0);
    look(g);
    at.parts[PLAN_PRECONDITIONER] =
        16.0 * m * m + 16.0 * m * t + 8.0 * d * t +
        (1.0 + 9.0 * signs.copies) * (fmin(COLUMNS, g->n) + 2.0 * signs.block);
    g->plan->rank = (int64_t)m;
    struct plan_moment building = at;
    building.parts[PLAN_PRECONDITIONER] += 8.0 * m * (d / parts + numbers);
    building.parts[PLAN_OTHER] = 0; /* no pass over the rows yet */
    plan__moment(g, &building, "solving");
    sketch(g, d, parts, signs);
    core_factor(g);
    plan__solve(&g->setup, m, d, DTYPE_F64);
    plan__dense(&g->setup, d * m * m / 2.0, DTYPE_F64);
    plan__factor(&g->setup, m, DTYPE_F64);
    certify(g, &at);
}

/* ---- stochastic methods ---- */

/* So many steps on a batch each take the centers' matrix, and P^-1, which other work has driven
 * from the caches. */
static void batches(struct planning *g, struct plan_work *w, double count, double r, bool exact)
{
    core(g, w, count);
    w->seconds += row_number_s * g->n * g->d;
    const double numbers = exact ? g->centers * g->centers : 2.0 * g->centers * r;
    plan__multiplied(g, w, count * numbers, DTYPE_F64);
}

/* The damping is found by a race: for each of about four, the smoothness of batches of b rows by
 * power iterations, and some epochs (engine/methods/stochastic/stochastic_race.h). */
static void race(struct planning *g, double b, double r, bool exact)
{
    enum { CANDIDATES = 4, BATCHES = 4, EPOCHS = 4, SCORING = 2 };
    const double powers = CANDIDATES * BATCHES * (double)param_int(&g->params, "power_iterations");
    const double steps = CANDIDATES * (BATCHES * EPOCHS + SCORING), t = g->t;
    plan__normal(g, &g->setup, steps * b * g->centers, g->points);
    batches(g, &g->setup, steps, r, exact);
    g->t = 1;
    plan__normal(g, &g->setup, powers * b * g->centers, g->points);
    batches(g, &g->setup, powers, r, exact);
    g->t = t;
    for (int i = 0; i < CANDIDATES; i++) {
        plan__factor(&g->setup, r, DTYPE_F64);
    }
}

static void stochastic(struct planning *g)
{
    enum { RACE_BATCHES = 4, PIECE_ROWS = 1024 };
    struct plan_moment at = uploaded(g);
    const bool saga = strcmp(g->plan->solver, "sketchysaga") == 0;
    const double n = g->n, m = g->centers, t = g->t;
    const double b = (double)rule_batch_rows((int64_t)n, (int64_t)m, &g->params);
    const double r = (double)rule_sketch_rank((int64_t)m, &g->params);
    const double rows = (double)rule_hessian_rows((int64_t)n, (int64_t)r, &g->params);
    const double batch = b * row_bytes(g, t, g->point + g->halves);
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
    /* The sum over the rows, by solves with the centers' factor where it is exact. */
    plan__stored(g, &g->setup, rows * m, g->points, 8.0);
    core_factor(g);
    if (exact) {
        plan__solve(&g->setup, m, rows, DTYPE_F64);
        plan__dense(&g->setup, rows * m * m / 2.0, DTYPE_F64);
    } else {
        plan__dense(&g->setup, rows * m * r + 2.0 * m * r * r, DTYPE_F64);
    }
    pass(g, &g->setup, 1.0);
    race(g, b, exact ? m : r, exact);
    pass(g, &g->iteration, saga ? 1.0 : 2.0);
    if (saga) {
        look(g);
    }
    batches(g, &g->iteration, ceil(n / b) * (saga ? 1.0 : 2.0), exact ? m : r, exact);
    certify(g, &at);
}

/* ---- eigenpro3, eigenpro4 ---- */

/* Passes of an epoch: one at the end of the last plain epoch and of those that follow, and one in
 * `residual_every` plain epochs. */
static double eigenpro_passes(const struct planning *g)
{
    const bool started = g->spec->warm_start.model[0] != '\0';
    const double epochs = (double)g->plan->iterations;
    const double plain = fmin((double)param_int(&g->params, "plain_epochs"), epochs);
    const double every = (double)param_int(&g->params, "residual_every");
    return started || plain == 0 ? 1.0
                                 : (epochs - plain + 1.0 + floor((plain - 1.0) / every)) / epochs;
}

static void eigenpro34(struct planning *g)
{
    enum { KEPT = 5, EXACT = 20000, PROBES = 2000, FAR = 20, FAR_BYTES = 16, POWER_STEPS = 30 };
    struct plan_moment at = uploaded(g), building;
    const bool delayed = strcmp(g->plan->solver, "eigenpro4") == 0;
    const char *how = param_choice(&g->params, "projection");
    const double n = g->n, m = g->centers, t = g->t;
    const bool exact = how[0] == 'e' || (how[0] == 'a' && m <= EXACT);
    const double c = fmin((double)param_int(&g->params, "subsample_centers"), m);
    const double s = fmin(plan__int_or(g, "subsample", fmax(2000, 5.0 * c)), n);
    const double bytes = (double)param_int(&g->params, "batch_memory_mib") * MIB;
    const bool open = plan__int_or(g, "eigenvectors", -1) < 0;
    const bool whole = s == n && c == m && exact && open && n <= bytes / (8.0 * m) &&
                       plan__int_or(g, "batch_size", n) >= n; /* engine/methods/eigenpro */
    const double some = fmin(c / 2.0, s / 10.0);
    const double q = fmin(plan__int_or(g, "eigenvectors", whole ? c : some), c);
    const double most = fmax(fmin(n / 8.0, bytes / (8.0 * m)), 1.0);
    const double usual = whole ? n : fmin(fmax(q, 262144.0 / m), most);
    const double b = fmin(plan__int_or(g, "batch_size", usual), n);
    const double window = delayed ? fmin(m, 64.0 * MIB / (g->d * 8.0)) : b;
    const double probes = whole ? 0.0 : fmin(PROBES, n);
    g->plan->rank = (int64_t)q;
    g->plan->block_rows = (int64_t)b;
    g->plan->assumed = true;
    at.parts[PLAN_VECTORS] += 8.0 * m * t * (8.0 + 2.0 * KEPT + 3.0);
    const double values = whole ? 0.0 : m; /* of a batch of all rows none are kept */
    at.parts[PLAN_SOLVER] = 8.0 * b * (values + 3.0 * t + 2.0) + 8.0 * window * (1.0 + t) +
                            window * row_bytes(g, 0, g->point + g->halves);
    at.parts[PLAN_PRECONDITIONER] = (exact ? 8.0 * m * m : 0) + 8.0 * c * q + FAR_BYTES * n / FAR;
    building = at;
    building.parts[PLAN_SOLVER] = 0;
    building.parts[PLAN_PRECONDITIONER] +=
        fmax(24.0 * c * c + 8.0 * c * q, 8.0 * probes * (probes + c + q));
    plan__moment(g, &building, "solving");
    const double number = (double)sizeof(double);
    plan__stored(g, &g->setup, s * c + probes * (probes + c), g->points, number);
    plan__solve(&g->setup, c, s, DTYPE_F64);
    plan__dense(&g->setup, s * c * c / 2.0 + probes * q * (c + probes), DTYPE_F64);
    plan__eigen(&g->setup, c);
    g->setup.read += POWER_STEPS * number * probes * probes;
    if (exact) {
        core_factor(g);
    }
    if (!delayed) { /* the probes' kernel within the span */
        plan__solve(&g->setup, c, probes, DTYPE_F64);
        plan__dense(&g->setup, probes * probes * c, DTYPE_F64);
    }
    pass(g, &g->iteration, eigenpro_passes(g) + (delayed ? 0.75 : 0.25));
    plan__stored(g, &g->iteration, n * m, g->points, number);
    const double projections = delayed ? ceil(n / window) : ceil(n / b);
    plan__multiplied(g, &g->iteration, projections * (exact ? m * m : 0), DTYPE_F64);
    plan__multiplied(g, &g->iteration, ceil(n / b) * c * q, DTYPE_F64);
    /* The batch's values, for its residual and its step. */
    plan__dense(&g->iteration, 2.0 * n * m * (t - 1.0), DTYPE_F64);
    certify(g, &at);
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
        {"inducing", inducing},
        {"kmcg_restricted", kmcg_restricted},
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
