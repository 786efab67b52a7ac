#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan_parts.h"
#include "plan/rules.h"
#include "plan/scratch.h"

#define MIB 1048576.0

/* engine/choose/bandwidth.h: the median of so many distances, sorted. */
static const double median_distances = 5e5;
/* engine/fit/fit_choose.c: rows that are looked at where the data are not loaded. */
static const double looked_rows = 4096;
/* Seconds: to read and standardise a number, to sort a distance, and of each of its features; of an
 * exponential function; of each job beside its work, for files, events, and the model's way to the
 * disk. */
static const double number_s = 6e-9, distance_s = 1.45e-7, difference_s = 4e-10, function_s = 2e-8,
                    job_s = 0.003;

const char *plan_part_name(enum plan_part p)
{
    static const char *const names[PLAN_PARTS] = {
        [PLAN_PROCESS] = "process",
        [PLAN_LIBRARY] = "library",
        [PLAN_DATA] = "data",
        [PLAN_POINTS] = "points",
        [PLAN_VECTORS] = "vectors",
        [PLAN_SOLVER] = "solver",
        [PLAN_PRECONDITIONER] = "preconditioner",
        [PLAN_KERNEL_CACHE] = "kernel_cache",
        [PLAN_OTHER] = "other",
    };
    return names[p];
}

/* ---- what the files share ---- */

static double sum_parts(const double parts[PLAN_PARTS])
{
    double sum = 0;
    for (int i = 0; i < PLAN_PARTS; i++) {
        sum += parts[i];
    }
    return sum;
}

void plan__moment(struct planning *g, const struct plan_moment *m, const char *name)
{
    struct plan *p = g->plan;
    const double sum = sum_parts(m->parts);
    p->reserved_bytes = fmax(p->reserved_bytes, sum + m->untouched - p->mapped_bytes);
    if (p->moment == NULL || sum > sum_parts(p->parts)) {
        memcpy(p->parts, m->parts, sizeof(p->parts));
        p->moment = name;
    }
}

/* Columns of a factor that leaves nothing of the kernel matrix but the rounding of its values: at
 * most its rank, where the kernel has few features. A gaussian with the usual bandwidth has little
 * more than its Taylor polynomial's terms. 12,000 normal points of 2, 3, 4 features: 195, 745 and
 * more than 1,096 columns; in float32 79, 181 and 331. */
double plan__rank(const struct planning *g, double most)
{
    const int64_t taylor_degree = g->host < 8.0 ? 8 : 15; /* of values in float32, in float64 */
    const char *name = g->plan->kernel != NULL ? g->plan->kernel : "";
    const bool usual = g->spec->kernel.kind == SPEC_BANDWIDTH_MEDIAN;
    const bool smooth = usual && strcmp(name, "gaussian") == 0;
    const int64_t degree = strcmp(name, "polynomial") == 0
                               ? param_int(&g->spec->kernel.params, "degree")
                               : taylor_degree;
    const int64_t rank = rule_kernel_rank(smooth ? "polynomial" : name, (int64_t)g->d, degree);
    return fmin(most, (double)rank);
}

/* Of a thread, with the scratch of products with one vector; without it. */
static const double thread_bytes = MIB, bare_bytes = MIB / 4.0;

/* Code that is used for the first time, OpenBLAS's strips of the matrices that it multiplies, and
 * the scratch of each thread; seen on x86-64. */
double plan__library(const struct planning *g, double columns)
{
    if (g->machine->own_memory) {
        return 0;
    }
    const double strips = 2.0 * MIB * fmin(columns / 1000.0, 1.0);
    return fmax(0.5 * MIB + strips + thread_bytes * g->machine->threads,
                (double)g->machine->left_bytes);
}

double plan__products(const struct planning *g, double vectors)
{
    const double threads = g->machine->threads;
    const bool restricted = g->centers > 0;
    const struct scratch_shape shape = {.rows = restricted ? g->centers : g->n,
                                        .ld = g->panel,
                                        .columns = vectors,
                                        .point = g->point,
                                        .weight = restricted ? 8.0 : g->vector,
                                        .threads = threads};
    const double scratch = restricted ? scratch_normal(&shape) : scratch_symmetric(&shape);
    return g->machine->own_memory ? 0 : fmax(scratch - (thread_bytes - bare_bytes) * threads, 0);
}

double plan__int_or(const struct planning *g, const char *key, double automatic)
{
    const struct param_value *v = param_get(&g->params, key);
    return v->is_auto ? automatic : v->real;
}

/* ---- sizes ---- */

static int64_t count_features(const struct job_spec *spec, const struct dataset_info *info,
                              int64_t targets)
{
    if (spec->features > 0) {
        return spec->features;
    }
    int64_t others = targets + (spec->test.kind == SPEC_TEST_MASK);
    bool *siblings = mem_zarray((size_t)info->columns, sizeof(*siblings));
    if (siblings != NULL && job_spec_mark_siblings(spec, info, siblings, NULL) == 0) {
        for (int64_t j = 0; j < info->columns; j++) {
            others += siblings[j];
        }
    }
    mem_free(siblings);
    return info->columns > others ? info->columns - others : 1;
}

/* As engine/data/split.c. */
static double test_rows(const struct job_spec *spec, const struct plan_data *data)
{
    const double rows = (double)data->train->rows;
    if (spec->test.kind == SPEC_TEST_DATASET) {
        return data->test != NULL ? (double)data->test->rows : 0;
    }
    if (spec->test.kind == SPEC_TEST_MASK || !(spec->test.fraction > 0)) {
        return 0;
    }
    return fmin(fmax(round(spec->test.fraction * rows), 1.0), rows - 1.0);
}

static bool classifies(const struct job_spec *spec, const struct dataset_info *info)
{
    return spec->task == TASK_CLASSIFICATION ||
           (spec->task == TASK_AUTO && info->task == TASK_CLASSIFICATION);
}

static void measure_problem(struct planning *g, const struct plan_data *data)
{
    const struct job_spec *spec = g->spec;
    const struct dataset_info *info = data->train;
    const int64_t targets = spec->targets > 0 ? spec->targets : info->targets;
    const bool apart = spec->test.kind == SPEC_TEST_DATASET;
    g->m = test_rows(spec, data);
    g->n = fmax((double)info->rows - (apart ? 0 : g->m), 1);
    g->d = (double)count_features(spec, info, targets);
    g->t = (double)(classifies(spec, info) && info->classes > 0 ? info->classes : targets);
    g->plan->assumed = spec->test.kind == SPEC_TEST_MASK;
    g->plan->train_rows = (int64_t)g->n;
    g->plan->test_rows = (int64_t)g->m;
    g->plan->features = (int64_t)g->d;
    g->plan->targets = (int64_t)g->t;
}

static void measure_kernel(struct planning *g)
{
    const struct method_def *kernel = g->spec->kernel.method;
    g->plan->kernel = kernel != NULL ? kernel->name : NULL;
    /* Kernels of distances have a sum beside each point, the gaussian on some processors a factor
     * behind it. */
    const bool gaussian = kernel == NULL || strcmp(kernel->name, "gaussian") == 0;
    g->panel = g->d + (kernel == NULL || kernel->has_bandwidth ? 1 : 0);
    g->ld = g->panel + (gaussian ? 1 : 0);
    g->parts = g->machine->own_memory ? rule_point_parts(g->plan->kernel, (int64_t)g->d) : 0.0;
}

static double file_bytes(const struct dataset_info *info)
{
    return info == NULL
               ? 0
               : (double)info->rows * (double)info->columns * (double)dtype_size(info->dtype);
}

/* From loading to the end: the process, mapped files, row numbers, rows, targets, predictions. */
static void measure_base(struct planning *g, const struct plan_data *data)
{
    const bool streamed = g->centers > 0, classes = classifies(g->spec, data->train);
    double *parts = g->base.parts;
    parts[PLAN_PROCESS] =
        (double)(g->machine->base_bytes + (g->machine->own_memory ? g->machine->left_bytes : 0));
    const double files =
        file_bytes(data->train) + file_bytes(data->test) + file_bytes(data->centers);
    g->plan->mapped_bytes = streamed ? files : 0;
    parts[PLAN_DATA] =
        files + 8.0 * (g->n + g->m) + g->m * (classes ? 8.0 : 8.0 * g->t) + 8.0 * g->m * g->t;
    if (!streamed) {
        parts[PLAN_DATA] += (g->n + g->m) * g->d * g->host + 8.0 * g->n * g->t;
    }
    if (g->spec->search.wanted && !streamed) {
        parts[PLAN_DATA] += 8.0 * g->n * g->t;
    }
    g->setup.seconds += job_s + number_s * (g->n + g->m) * (g->d + g->t);
}

/* ---- choosing ---- */

static bool by_median(const struct job_spec *spec)
{
    const bool distance = spec->kernel.method == NULL || spec->kernel.method->has_bandwidth;
    return distance && spec->kernel.kind <= SPEC_BANDWIDTH_AUTO && spec->search.bandwidths == 0;
}

/* engine/choose/choose.h: fits on a sample, one for each kernel, bandwidth and regularization
 * (those that a walk always comes to; what it goes on to is not known), and on the larger one of
 * large sets; how often a median is taken for either, the model's included; and for how many
 * kernels bandwidths are learned. */
struct trials {
    double fits, medians, fits_again, medians_again, learned, finer;
};

static struct trials count_trials(const struct job_spec *spec, bool held_out, bool learns)
{
    const bool kernels = spec->kernel.method == NULL;
    const bool bandwidths = spec->kernel.kind == SPEC_BANDWIDTH_AUTO;
    const bool ridges = spec->open_regularization || spec->search.regularizations > 0;
    const double names = kernels ? RULE_KERNELS : 1, tried = ridges ? RULE_RIDGES : 1;
    if (!kernels && !(bandwidths && by_median(spec))) {
        return (struct trials){.medians = 1};
    }
    const double learned = bandwidths && spec->search.bandwidths == 0 && learns ? names : 0;
    const bool plainly = spec->standardize.features && spec->search.bandwidths == 0 && held_out;
    const double plain = plainly ? names * RULE_PLAIN : 0;
    const double pairs =
        bandwidths ? names * RULE_BANDWIDTHS + RULE_BEYOND + learned + plain : names;
    const double again = fmin(pairs, kernels ? RULE_CHOICE_AGAIN : RULE_CHOICE_PAIRS);
    const double finer = held_out ? RULE_FINER * ((bandwidths ? 1 : 0) + (ridges ? 1 : 0)) : 0;
    return (struct trials){.fits = pairs * tried,
                           .finer = finer,
                           .learned = learned,
                           .medians = names + 1,
                           .fits_again = again * tried,
                           .medians_again = fmin(names, again)};
}

/* One matrix of the fitted rows for all fits, and the sample, whose first rows come again for
 * further folds, with as many sets of points as there are `kernels` at a time. */
static void try_kernels(struct planning *g, struct plan_moment *at, double fitted, double rows,
                        double folds, double kernels, double fits)
{
    const double stored = rows + (folds - 1.0) * (rows - fitted);
    const double numbers = (1.0 + kernels) * g->d + 3.0 * g->t;
    const double bytes = 8.0 * (fitted * fitted + stored * numbers);
    at->parts[PLAN_OTHER] = fmax(at->parts[PLAN_OTHER], bytes);
    at->parts[PLAN_LIBRARY] = fmax(at->parts[PLAN_LIBRARY], plan__library(g, fitted));
    plan__dense(&g->choice, folds * fits * fitted * fitted * (fitted / 6.0 + g->t - 1.0),
                DTYPE_F64);
    plan__values(g, &g->choice, folds * fits * fitted * rows, DTYPE_F64, 1);
}

/* Finer steps from the best of them; where fitted rows judge, there is the identity, too. */
static void try_finer(struct planning *g, struct plan_moment *at, double fitted, double rows,
                      int folds, double fits)
{
    const bool all = rule_choice_leaves_out((int64_t)fitted, (int64_t)(rows - fitted), folds);
    const double factors = all && fits > 0 ? RULE_LEFT_OUT * (fits + 1) : fits;
    const double bytes = 8.0 * (2.0 * fitted * fitted + rows * (2.0 * g->d + 3.0 * g->t));
    at->parts[PLAN_OTHER] = fmax(at->parts[PLAN_OTHER], factors > fits ? bytes : 0.0);
    plan__dense(&g->choice, folds * factors * pow(fitted, 3) / 6.0, DTYPE_F64);
    plan__values(g, &g->choice, folds * fits * fitted * rows, DTYPE_F64, 1);
}

/* Three matrices of the rows, and at each step a factor, its inverse and the inverse of their
 * product (engine/choose/relevance.h); differences twice, of each pair of rows. */
static void learn_bandwidths(struct planning *g, struct plan_moment *at, double rows,
                             double kernels)
{
    const double steps = kernels * RULE_LEARNED_STARTS * RULE_LEARNED_STEPS;
    const double pairs = rows * rows / 2.0;
    const double bytes = 8.0 * (4.0 * rows * rows + 2.0 * rows * (g->d + 2.0 * g->t));
    at->parts[PLAN_OTHER] = fmax(at->parts[PLAN_OTHER], bytes);
    plan__dense(&g->choice, steps * pow(rows, 3) * (1.0 / 6.0 + 1.0), DTYPE_F64);
    g->choice.seconds += steps * pairs * (function_s + 2.0 * difference_s * g->d);
}

/* In the folds that judge them, and then of all rows. */
static void learn_all(struct planning *g, struct plan_moment *at, int64_t fitted, int folds,
                      double kernels)
{
    const double budget = g->spec->stop.time_budget_s;
    const double rows = (double)rule_learned_rows(fitted, folds, (int64_t)g->d, budget);
    if (kernels > 0) {
        learn_bandwidths(g, at, rows, kernels * folds);
        learn_bandwidths(g, at, folds > 1 ? g->n : 0, 1);
    }
}

static double held_and_fitted(const struct planning *g, int64_t fitted, int times)
{
    const int64_t width = (int64_t)(g->d + g->t);
    return (double)(fitted + rule_choice_held((int64_t)g->n, fitted, width, times));
}

/* The kernel, its bandwidth. */
static void choose_kernel(struct planning *g)
{
    struct plan_moment at = g->base;
    const double budget = g->spec->stop.time_budget_s;
    const double fitted = (double)rule_choice_first((int64_t)g->n, budget);
    const int64_t more = rule_choice_rows((int64_t)g->n, budget);
    const double tried = held_and_fitted(g, (int64_t)fitted, RULE_HELD_FIRST);
    const double tried_again = held_and_fitted(g, more, RULE_HELD_AGAIN);
    const double pairs = fmin(g->n * (g->n - 1.0) / 2.0, median_distances);
    const int folds = rule_choice_folds((int64_t)g->n, budget);
    const bool learns = rule_learned_rows((int64_t)fitted, folds, (int64_t)g->d, budget) > 0;
    const struct trials trials = count_trials(g->spec, g->n >= RULE_HELD_OUT_LEAST, learns);
    const double taken = trials.medians + (more > 0 ? trials.medians_again : 0);
    const bool open = trials.fits > 0;
    if (g->centers > 0 && (open || by_median(g->spec))) {
        const double looked = fmax(looked_rows, open ? tried_again : 0);
        at.parts[PLAN_DATA] += fmin(g->n, looked) * (g->d * g->host + 8.0 * g->t);
    }
    if (open) {
        const double each = trials.learned > 0 ? folds : 1; /* learns its own bandwidths */
        try_kernels(g, &at, fitted, tried, folds, each, trials.fits);
        try_finer(g, &at, fitted, tried, folds, trials.finer);
        try_kernels(g, &at, (double)more, tried_again, 1, 1, trials.fits_again);
        try_finer(g, &at, (double)more, tried_again, 1, trials.finer);
        learn_all(g, &at, (int64_t)fitted, folds, trials.learned);
    }
    at.parts[PLAN_LIBRARY] = fmax(at.parts[PLAN_LIBRARY], plan__library(g, 0));
    if (open || by_median(g->spec)) {
        const double distances = 16.0 * pairs; /* sorted beside themselves */
        at.parts[PLAN_OTHER] = fmax(at.parts[PLAN_OTHER], distances);
        g->choice.seconds += taken * (distance_s + difference_s * g->d) * pairs;
    }
    plan__moment(g, &at, "loading");
}

/* A search decomposes the matrix of its rows once a bandwidth. */
static void search_full(struct planning *g, double n, double bandwidths, double ridges)
{
    const struct search_spec *spec = &g->spec->search;
    const double t = g->t;
    const bool sampled = n < g->n;
    struct plan_moment at = g->base;
    at.parts[PLAN_LIBRARY] = plan__library(g, n);
    at.parts[PLAN_OTHER] = 8.0 * (3.0 * n * n + n * (6.0 * t + g->ld + 4.0)) +
                           (spec->folds == 0 ? 8.0 * n * ridges : 0) +
                           (sampled ? n * (g->d * g->host + 8.0 * t) : 0);
    plan__moment(g, &at, "search");
    plan__dense(&g->setup, 3.0 * bandwidths * n * n * n, DTYPE_F64);
    plan__dense(&g->setup, 2.0 * bandwidths * ridges * n * n * t, DTYPE_F64);
    if (spec->folds > 0) {
        plan__dense(&g->setup, bandwidths * ridges * n * n * n / (double)spec->folds, DTYPE_F64);
    }
    plan__evaluated(g, &g->setup, bandwidths * n * n, DTYPE_F64);
}

/* engine/search/center_path.h; what a bandwidth's left-out predictions take stays. */
static void search_on_centers(struct planning *g, const struct rule_search *size, double bandwidths,
                              double ridges)
{
    const double n = (double)size->rows, m = (double)size->centers, t = g->t;
    const double tile = (double)rule_search_tile(size->rows, (int64_t)(t * ridges));
    struct plan_moment at = g->base;
    at.parts[PLAN_LIBRARY] = plan__library(g, m);
    at.parts[PLAN_OTHER] =
        8.0 * (3.0 * m * m + m * (ridges * (t + 1.0) + 2.0 * g->ld)) +
        8.0 * n * (t * (ridges + 4.0) + 1.0) +
        8.0 * tile * (3.0 * m + 2.0 * ridges * (t + 1.0) + 2.0 * g->ld + 2.0 * t);
    plan__moment(g, &at, "search");
    plan__dense(&g->setup, bandwidths * (2.5 * n * m * m + 3.0 * m * m * m), DTYPE_F64);
    plan__dense(&g->setup, bandwidths * ridges * n * m * (1.0 + t), DTYPE_F64);
    plan__evaluated(g, &g->setup, 2.0 * bandwidths * n * m, DTYPE_F64);
}

static void search(struct planning *g)
{
    const struct search_spec *spec = &g->spec->search;
    const double bandwidths = (double)search_bandwidths(spec);
    const double ridges = (double)search_regularizations(spec);
    if (!spec->wanted) {
        return;
    }
    const struct rule_search size = rule_search_size(
        spec, (int64_t)g->n, (int64_t)g->t, (int64_t)g->centers, g->spec->stop.time_budget_s);
    if (size.centers > 0) {
        search_on_centers(g, &size, bandwidths, ridges);
    } else {
        search_full(g, (double)size.rows, bandwidths, ridges);
    }
}

/* The parameters of a solver that was chosen are its defaults. */
static void take_solver(struct planning *g, const char *name)
{
    const struct method_def *method = catalog_find(CATALOG_SOLVERS, name);
    const struct job_spec *spec = g->spec;
    g->plan->solver = method->name;
    g->params = spec->solver.params;
    if (spec->solver.method != method) {
        param_read(method->params, NULL, NULL, &g->params, NULL);
    }
    if (method->has_preconditioner && spec->solver.preconditioner != NULL) {
        g->plan->preconditioner = spec->solver.preconditioner->name;
        g->precond_params = spec->solver.preconditioner_params;
    } else if (method->has_preconditioner) {
        const struct method_def *first = catalog_list(CATALOG_PRECONDITIONERS);
        g->plan->preconditioner = first->name;
        param_read(first->params, NULL, NULL, &g->precond_params, NULL);
    }
}

static void choose_solver(struct planning *g)
{
    const struct job_spec *spec = g->spec;
    const bool distance = spec->kernel.method == NULL || spec->kernel.method->has_bandwidth;
    const char *name = spec->solver.method->name;
    if (strcmp(name, "auto") == 0 && g->centers > 0) {
        name = rule_restricted_solver((int64_t)g->centers, (int64_t)g->d);
    } else if (strcmp(name, "auto") == 0) {
        const bool open = spec->precision == PRECISION_AUTO;
        const enum precision p = open ? rule_precision("pcg", distance) : spec->precision;
        const int64_t room =
            g->machine->own_memory ? g->machine->device_bytes : g->machine->free_bytes;
        name = rule_solver(room, (int64_t)g->n, (int64_t)g->d, spec->regularization, p);
    }
    take_solver(g, name);
    g->plan->precision = spec->precision == PRECISION_AUTO
                             ? rule_precision(g->plan->solver, distance)
                             : spec->precision;
}

/* ---- seconds ---- */

/* Of the time of the iterations, which metrics on the way may take besides (engine/solve/solve.c).
 */
static const double metrics_share = 0.05;

static void take_seconds(struct planning *g)
{
    struct plan *p = g->plan;
    const struct plan_rates *r = &g->machine->rates;
    p->setup_s = p->choice_s = p->iteration_s = p->finish_s = p->total_s = NAN;
    if (r->bytes > 0 && r->values_f32 > 0 && r->values_f64 > 0 && r->multiply_adds_f32 > 0 &&
        r->multiply_adds_f64 > 0) {
        if (!g->machine->own_memory) {
            plan__touch(&g->setup, p->parts[PLAN_SOLVER] + p->parts[PLAN_PRECONDITIONER] +
                                       p->parts[PLAN_KERNEL_CACHE]);
        }
        const double metrics = g->m > 0 ? metrics_share : 0;
        /* The clock ends a choice that takes too much of the budget. */
        p->choice_s = plan__seconds(&g->choice, r);
        p->setup_s = plan__seconds(&g->setup, r) +
                     fmin(p->choice_s, rule_choice_limit(g->spec->stop.time_budget_s));
        p->iteration_s = (1.0 + metrics) * plan__seconds(&g->iteration, r);
        p->finish_s = plan__seconds(&g->finish, r);
        const double steps = (double)p->iterations * p->iteration_s;
        p->total_s = fmin(p->setup_s + steps, g->spec->stop.time_budget_s) + p->finish_s;
    }
}

static void take_bytes(struct planning *g)
{
    struct plan *p = g->plan;
    const double all = sum_parts(p->parts);
    p->host_bytes = all;
    p->device_bytes = 0;
    if (g->machine->own_memory) {
        p->host_bytes = p->parts[PLAN_PROCESS] + p->parts[PLAN_DATA];
        p->device_bytes = all - p->host_bytes;
    }
}

static int64_t count_centers(const struct job_spec *spec, const struct plan_data *data, double n,
                             bool *ret_assumed)
{
    if (spec->centers.method == NULL) {
        return 0;
    }
    if (spec->centers.count > 0) {
        return spec->centers.count < (int64_t)n || data->centers != NULL ? spec->centers.count
                                                                         : (int64_t)n;
    }
    *ret_assumed = *ret_assumed || (data->centers == NULL && spec->centers.method->weighted);
    return data->centers != NULL ? data->centers->rows : rule_centers((int64_t)n);
}

void plan_make(const struct job_spec *spec, const struct plan_data *data,
               const struct plan_machine *machine, struct plan *ret)
{
    *ret = (struct plan){.iterations = spec->stop.max_iterations};
    struct planning g = {.spec = spec, .machine = machine, .plan = ret};
    measure_problem(&g, data);
    measure_kernel(&g);
    ret->centers = count_centers(spec, data, g.n, &ret->assumed);
    g.centers = (double)ret->centers;
    const bool single = spec->precision == PRECISION_FLOAT32;
    g.host = single ? 4 : 8;
    g.vectors = single && g.centers == 0 ? DTYPE_F32 : DTYPE_F64;
    g.vector = (double)dtype_size(g.vectors);
    g.ridge = g.n * spec->regularization;
    measure_base(&g, data);
    choose_kernel(&g);
    search(&g);
    if (g.centers > 0) {
        plan__centers(&g);
    }
    choose_solver(&g);
    g.points = single || ret->precision == PRECISION_MIXED ? DTYPE_F32 : DTYPE_F64;
    g.point = (double)dtype_size(g.points);
    g.halves = g.points == DTYPE_F32 ? g.parts / g.ld : 0.0;
    if (g.centers > 0) {
        plan__restricted(&g);
    } else {
        plan__full(&g);
    }
    take_bytes(&g);
    take_seconds(&g);
}
