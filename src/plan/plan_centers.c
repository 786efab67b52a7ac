/*
 * Selection of centers (engine/centers.h): what each way to select takes. n training rows, m
 * centers that are asked for; all matrices are those of engine/methods/centers/center_scores.h or
 * of a partial factorisation.
 */
#include <math.h>
#include <string.h>

#include "plan/plan_parts.h"
#include "plan/rules.h"
#include "plan/spectrum.h"

enum {
    CANDIDATES = 20000,
    CANDIDATES_NAMED = 100000,
    CANDIDATES_LEAST = 256,
    BLOCK_LEAST = 256,
    FIRST_NESTED = 512
};

static bool selects(const struct planning *g)
{
    const char *name = g->spec->centers.method->name;
    return strcmp(name, "uniform") != 0 && strcmp(name, "file") != 0;
}

/* Bytes of a number of the matrices that a selection makes, as engine/fit/fit_centers.c has it. */
static double selection_number(const struct planning *g)
{
    const enum precision p = g->spec->precision;
    return p == PRECISION_FLOAT32 || p == PRECISION_MIXED ? 4.0 : 8.0;
}

static enum dtype selection_dtype(const struct planning *g)
{
    return selection_number(g) < 8.0 ? DTYPE_F32 : DTYPE_F64;
}

/* Bytes of a point of the rows' type, prepared. */
static double selection_point(const struct planning *g)
{
    return g->ld * g->host + (g->host < 8.0 ? g->parts : 0.0);
}

/* A partial factorisation of a sample, of as many columns as it has rank for. */
static void select_pivots(struct planning *g, struct plan_moment *at)
{
    const double most = g->centers, m = plan__rank(g, most), w = selection_number(g);
    const double N = fmin(plan__int_or(g, "sample", fmax(20.0 * most, 20000.0)), g->n);
    at->parts[PLAN_OTHER] =
        N * (w * m + g->d * g->host + selection_point(g) + 40.0) + 0.24 * most * most;
    at->untouched = N * w * (most - m);
    g->centers = m;
    g->plan->assumed = g->plan->assumed || m < most;
    plan__stored(g, &g->setup, 1.1 * N * m, selection_dtype(g), w);
    plan__dense(&g->setup, 0.6 * N * m * m, selection_dtype(g));
}

static void select_means(struct planning *g, struct plan_moment *at)
{
    /* Narrow products: so many features more take as long. */
    const double narrow = 15.0, products = 1.5, least_s = 3e-9;
    const double m = g->centers, n = g->n;
    const double sample = fmin(plan__int_or(g, "sample", fmax(10.0 * m, 20000.0)), n);
    const double rows = plan__int_or(g, "rows", fmin(fmax(100.0 * m, 200000.0), 3.0 * n));
    const double block = fmin(m, 1024.0) * 1024.0; /* engine/methods/centers/nearest.h */
    at->parts[PLAN_OTHER] =
        (8.0 + g->host) * block + (2.0 * sample + 4.0 * m) * g->d * 8.0 + 24.0 * sample + 32.0 * m;
    plan__dense(&g->setup, products * (sample + rows) * m * (g->d + narrow), DTYPE_F64);
    g->setup.seconds += least_s * (sample + rows) * m; /* of each row's distances */
}

/* ---- leverage scores ---- */

/* The lambda of the scores, as a share of max k, which is taken for 1: the one that the selection
 * names, or, where it is not asked for a number of centers, the job's; 0: it is looked for. */
static double named_lambda(const struct planning *g)
{
    const struct param_value *lambda = param_get(&g->params, "regularization");
    const double job = g->spec->centers.count == 0 ? g->spec->regularization : 0.0;
    return lambda->is_auto ? job : lambda->real;
}

/* As bless_oversampling of engine/methods/centers/center_bless.c. */
static double oversampling(const struct planning *g)
{
    const struct param_value *q2 = param_get(&g->params, "q2");
    const double of_a_count = named_lambda(g) > 0 ? 5.0 : fmin(fmax(g->centers / 20.0, 5.0), 100.0);
    return q2->is_auto ? of_a_count : q2->real;
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
 * (engine/methods/centers/centers_rls.c).
 */
static double level_points(const struct planning *g)
{
    const char *kernel = g->plan->kernel != NULL ? g->plan->kernel : "";
    const char *method = g->spec->centers.method->name;
    const bool path = strncmp(method, "bless", 5) == 0;
    const double block = strcmp(method, "squeak") == 0 ? BLOCK_LEAST : 0; /* at least */
    const bool rough = strncmp(kernel, "laplacian", 9) == 0 || strcmp(kernel, "matern12") == 0;
    const bool coarse = oversampling(g) > 5.0 && param_get(&g->params, "q2")->is_auto;
    const bool slow = plan__rank(g, g->centers) < g->centers; /* a dimension that hardly grows */
    const double drawn = slow && !path ? 1.25 : coarse ? 0.6 : !path ? 1.0 : rough ? 0.75 : 0.85;
    const double most = oversampling(g) * plan__rank(g, g->centers);
    const double nested = path ? 1.0 : 2.0;
    return (short_of_rank(g) ? nested * most : drawn * g->centers) + block;
}

/* Work of scores of some rows from some points, with a factor of these (engine/methods/
 * center_scores.h): in float32 but for the smallest lambda. */
static void score(struct planning *g, double points, double rows, double lambda)
{
    const double narrow_least = 1e-6;
    const bool narrow = g->host < 8.0 && lambda >= narrow_least;
    const enum dtype host = g->host < 8.0 ? DTYPE_F32 : DTYPE_F64;
    const enum dtype dtype = narrow ? DTYPE_F32 : DTYPE_F64;
    plan__stored(g, &g->setup, points * points, host, 8.0);
    plan__factor(&g->setup, points, DTYPE_F64);
    plan__stored(g, &g->setup, rows * points, host, narrow ? 4.0 : 8.0);
    plan__solve(&g->setup, points, rows, dtype);
    g->setup.read += 2.0 * rows * points * (narrow ? 4.0 : 8.0);
}

/* Points that differ, of so many draws from so many rows. */
static double distinct(double draws, double rows)
{
    return rows * -expm1(-draws / fmax(rows, 1.0));
}

/* The order of a Matern kernel. One that is not chosen yet may be a gaussian or a laplacian, of
 * which scores find few centers or nearly all rows: it counts as what lies between. */
static double smoothness(const struct planning *g)
{
    const char *kernel = g->plan->kernel != NULL ? g->plan->kernel : "matern32";
    static const struct {
        const char *kernel;
        double order;
    } orders[] = {{"gaussian", INFINITY}, {"matern52", 2.5}, {"matern32", 1.5}};
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        if (strcmp(orders[i].kernel, kernel) == 0) {
            return orders[i].order;
        }
    }
    return 0.5;
}

/* The bandwidth over the median distance: of standardised features that is known, of others the
 * job's own number says nothing. */
static double bandwidth_medians(const struct planning *g)
{
    const bool l1 = g->plan->kernel != NULL && strcmp(g->plan->kernel, "laplacian_l1") == 0;
    const double median = l1 ? 1.13 * g->d : sqrt(2.0 * g->d);
    const bool given = g->spec->kernel.kind == SPEC_BANDWIDTH_SCALAR;
    return given && g->spec->standardize.features ? g->spec->kernel.bandwidth / median : 1.0;
}

static bool of_distances(const struct planning *g)
{
    return g->spec->kernel.method == NULL || g->spec->kernel.method->has_bandwidth;
}

static struct spectrum spectrum_of(const struct planning *g)
{
    struct spectrum ret = {.rest = 0};
    if (of_distances(g)) {
        spectrum_make(g->d, smoothness(g), bandwidth_medians(g), &ret);
    }
    return ret;
}

/* The effective dimension at lambda, relative to max k; `s` is of kernels of distances. Of others
 * there are few eigenvalues, of which few are large. */
static double dimension(const struct planning *g, const struct spectrum *s, double lambda)
{
    const double rank = plan__rank(g, 1e15), spread = rank < g->centers ? 30.0 : 3.0;
    return of_distances(g) ? spectrum_dimension(s, g->n, lambda)
                           : 1.0 / (spread * lambda + 1.0 / rank);
}

/* A parameter of BLESS that other selectors leave at its default. */
static double bless_param(const struct planning *g, const char *key, double otherwise)
{
    const char *method = g->spec->centers.method->name;
    const bool has =
        strcmp(method, "bless") == 0 || (strcmp(method, "bless_r") == 0 && strcmp(key, "q1") != 0);
    return has ? plan__int_or(g, key, otherwise) : otherwise;
}

/* 0: as many as lambda asks for. */
static double asked_centers(const struct planning *g)
{
    return g->spec->centers.count > 0 ? g->centers : 0.0;
}

/* Of a level's candidates. */
static double most_candidates(const struct planning *g)
{
    const double m = asked_centers(g);
    const double usual = named_lambda(g) > 0 ? CANDIDATES_NAMED : fmax(20.0 * m, CANDIDATES);
    return fmax(bless_param(g, "candidates", usual), 2.0 * m);
}

/* A dimension is met within the error of its estimate. */
static const double met_share = 0.98;

/* The levels of BLESS down to the lambda that is named, or until q2 d is what is asked for or
 * rounding ends the path (engine/methods/centers/center_bless.h). Returns the last lambda, relative
 * to max k. */
static double walk_path(struct planning *g, const struct spectrum *s, bool lambda_only)
{
    const double m = asked_centers(g), q = bless_param(g, "q", 2.0), q1 = bless_param(g, "q1", 3.0);
    const double q2 = oversampling(g), named = named_lambda(g), most = most_candidates(g);
    const double least = fmax(g->host < 8.0 ? 1.2e-7 : 1e-14, named);
    double points = 0, lambda = 1.0;
    for (bool last = false; !last;) {
        lambda = fmax(lambda / q, least);
        last = lambda <= least;
        const double rows =
            fmin(fmin(fmax(q1 / lambda, last ? 2.0 * m : CANDIDATES_LEAST), most), g->n);
        const double drawn = q2 * dimension(g, s, lambda);
        score(g, points, rows, lambda);
        if (drawn >= met_share * m && !last && !(named > 0)) {
            last = true; /* again at its lambda, for exactly m points */
            if (!lambda_only) {
                score(g, points, fmin(fmax(rows, 2.0 * m), g->n), lambda);
            }
        }
        points = distinct(drawn, rows);
    }
    return lambda;
}

/*
 * Where no number is asked for: q2 times the effective dimension are drawn, with replacement or
 * each row with a chance of its own, which is 1 at most. Recursion takes scores from points that
 * are too few, which makes them too large; SQUEAK loses points on its way. On airfoil, bike and
 * hflights with smooth kernels this is 0.75 to 1.5 times what jobs found.
 */
static double found_centers(const struct planning *g, const struct spectrum *s, double rows,
                            double lambda)
{
    const char *method = g->spec->centers.method->name;
    const double drawn = oversampling(g) * dimension(g, s, lambda);
    const double each = (fmin(drawn, rows) + distinct(drawn, rows)) / 2.0;
    const double recursive = 1.35, passing = 0.8;
    return strcmp(method, "bless") == 0     ? distinct(drawn, rows)
           : strcmp(method, "bless_r") == 0 ? each
           : strcmp(method, "squeak") == 0  ? passing * each
                                            : fmin(recursive * each, rows);
}

/* Of the selectors that go through all rows once lambda is known. Fewer points than are asked for
 * stay, since the largest scores are 1; where the rank is short of them, q2 times that and an
 * excess, since scores come out too large. Where no number is asked for, what lambda asks for. */
static double kept_points(const struct planning *g, const struct spectrum *s, double rows,
                          double excess, double lambda)
{
    if (g->spec->centers.count == 0) {
        return found_centers(g, s, rows, lambda);
    }
    const double share = 0.65, all = oversampling(g) * plan__rank(g, 1e15);
    const double most = all < met_share * g->centers ? g->n : share * g->centers;
    return fmin(distinct(excess * all, rows), most);
}

/* Recursively: subsets of twice the size each, up to all rows. */
static void score_nested(struct planning *g, const struct spectrum *s, double lambda)
{
    for (double rows = g->n; rows > FIRST_NESTED; rows /= 2.0) {
        const double half = rows / 2.0;
        score(g, half > FIRST_NESTED ? kept_points(g, s, half, 3.0, lambda) : half, rows, lambda);
    }
}

/* Block by block, the points and the block's rows from themselves. */
static void score_blocks(struct planning *g, const struct spectrum *s, double lambda)
{
    const double points = kept_points(g, s, g->n, 1.5, lambda), block = fmax(points, BLOCK_LEAST);
    struct planning one = *g;
    one.setup = (struct plan_work){.seconds = 0};
    score(&one, points + block, points + block, lambda);
    plan__add(&g->setup, &one.setup, g->n / block);
}

/* By leverage scores: the matrix of a level's points and pieces of candidates. */
static void select_scores(struct planning *g, const struct spectrum *s, struct plan_moment *at)
{
    enum { PIECE_LEAST = 128, PIECE_MOST = 4096 };
    const char *method = g->spec->centers.method->name;
    const double scored = fmin(g->n, fmax(20.0 * g->centers, CANDIDATES));
    const double m = level_points(g), w = selection_number(g);
    const double piece = fmin(fmin(fmax(8e9 / (m * m), PIECE_LEAST), PIECE_MOST), g->n);
    at->parts[PLAN_OTHER] = m * (8.0 * m + (w < 8.0 ? 4.0 * m : 0) + w * piece) + scored * 32.0 +
                            piece * (g->d * g->host + selection_point(g)) +
                            (2.0 * g->centers + m) * selection_point(g);
    const bool path = strncmp(method, "bless", 5) == 0;
    const double lambda = path || !(named_lambda(g) > 0) ? walk_path(g, s, !path) : named_lambda(g);
    if (strcmp(method, "squeak") == 0) {
        score_blocks(g, s, lambda);
    } else if (!path) {
        score_nested(g, s, lambda);
    }
    g->plan->assumed = true;
}

/* As many as the scores at lambda ask for, of the candidates or of all rows. */
static void find_count(struct planning *g, const struct spectrum *s)
{
    const bool path = strncmp(g->spec->centers.method->name, "bless", 5) == 0;
    const double lambda = named_lambda(g), q1 = bless_param(g, "q1", 3.0);
    const double wish = fmax(q1 / fmax(lambda, 1e-300), CANDIDATES_LEAST);
    const double rows = path ? fmin(fmin(wish, most_candidates(g)), g->n) : g->n;
    g->centers = fmax(floor(found_centers(g, s, rows, lambda)), 1.0);
}

static void select_centers(struct planning *g)
{
    const char *name = g->spec->centers.method->name;
    const bool weighted = g->spec->centers.method->weighted;
    const struct spectrum s = weighted ? spectrum_of(g) : (struct spectrum){.rest = 0};
    struct planning with = *g; /* the selector's parameters in the place of the solver's */
    struct plan_moment at = g->base;
    with.params = g->spec->centers.params;
    if (weighted && g->spec->centers.count == 0) {
        find_count(&with, &s);
        g->centers = with.centers;
    }
    at.parts[PLAN_DATA] += g->centers * (2.0 * g->d * g->host + 64.0);
    at.parts[PLAN_LIBRARY] = plan__library(g, g->centers);
    if (strcmp(name, "rpcholesky") == 0) {
        select_pivots(&with, &at);
    } else if (strcmp(name, "kmeans") == 0) {
        select_means(&with, &at);
    } else if (selects(g)) {
        select_scores(&with, &s, &at);
    }
    g->setup = with.setup;
    plan__moment(g, &at, "centers");
    g->centers = with.centers;
    g->plan->centers = (int64_t)with.centers;
}

/* Of a kernel of finite rank the fit keeps as many centers as that
 * (engine/methods/centers/center_rank.h): columns of all centers, as long as they are independent.
 */
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
    plan__stored(g, &g->setup, finite ? m * r : 0, DTYPE_F64, 8.0);
    plan__dense(&g->setup, finite ? m * r * r : 0, DTYPE_F64);
    g->centers = r;
    g->plan->centers = (int64_t)r;
}

void plan__centers(struct planning *g)
{
    select_centers(g);
    keep_independent(g);
}
