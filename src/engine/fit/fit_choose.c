#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "engine/choose/bandwidth.h"
#include "engine/choose/choose.h"
#include "engine/fit/fit_parts.h"
#include "engine/grid.h"
#include "engine/memory.h"
#include "engine/precond.h"
#include "plan/rules.h"

/* Whether anything is left to be chosen on held-out rows. */
static bool is_open(const struct job_spec *spec)
{
    const struct method_def *m = spec->kernel.method;
    return m == NULL || (m->has_bandwidth && spec->kernel.kind == SPEC_BANDWIDTH_AUTO &&
                         spec->search.bandwidths == 0);
}

/* Rows that rules of thumb look at: all, or some of data that is not loaded. */
static int64_t sample_rows(const struct fit *f)
{
    enum { SAMPLE_ROWS = 4096 };
    const int64_t n = f->data.n, width = f->data.d + f->data.t;
    const int64_t fit = is_open(f->spec) ? rule_choice_rows(n, f->spec->stop.time_budget_s) : 0;
    const int64_t chosen = fit + rule_choice_held(n, fit, width, RULE_HELD_AGAIN);
    return chosen > SAMPLE_ROWS ? chosen : SAMPLE_ROWS;
}

static int look_at_rows(struct fit *f, struct rows *ret, const double **ret_Y, struct err *err)
{
    *ret = fit_data_train(&f->data);
    *ret_Y = f->data.Y;
    if (!f->data.streamed) {
        return 0;
    }
    int r = 0;
    if (f->sample == NULL) {
        r = fit_centers_sample(&f->data, sample_rows(f), (uint64_t)f->spec->seed, &f->sample,
                               &f->sample_Y, &f->sampled, err);
    }
    ret->n = f->sampled;
    ret->data = f->sample;
    *ret_Y = f->sample_Y;
    return r;
}

/* The kernel with the least error behind `after`'s, or -1. */
static int next_worse(const double *errors, int after)
{
    int ret = -1;
    for (int i = 0; i < KERNEL_COUNT_; i++) {
        const bool behind = errors[i] > 0 && (after < 0 || errors[i] > errors[after] ||
                                              (errors[i] == errors[after] && i > after));
        ret = behind && (ret < 0 || errors[i] < errors[ret]) ? i : ret;
    }
    return ret;
}

/* Not of a choice that an earlier attempt has made. */
static void say_errors(const struct fit *f)
{
    const struct choice *c = &f->chosen;
    char list[KERNEL_COUNT_ * 40] = "", rows[100] = "";
    size_t at = 0;
    for (int i = next_worse(c->errors, -1); i >= 0; i = next_worse(c->errors, i)) {
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s %.4g", at > 0 ? ", " : "",
                               kernel_name((enum kernel_id)i), c->errors[i]);
    }
    if (c->held > 0) {
        snprintf(rows, sizeof(rows), ", of models of %" PRId64 " rows on %" PRId64 " others",
                 c->fitted, c->held);
    }
    if (at > 0) {
        fit__say(
            f, "info",
            "Squared errors there, each kernel at its best, as a share of what the mean has%s: "
            "%s.",
            rows, list);
    }
}

static void say_chosen(const struct fit *f)
{
    if (f->chosen.late) {
        fit__say(
            f, "warning",
            "The choice of what the job leaves open was cut off after %d %s: the rest of the time "
            "budget is for the model. A larger `stop.time_budget_s` lets it come to its end.",
            f->chosen.fits, f->chosen.fits == 1 ? "fit" : "fits");
    }
    if (f->spec->kernel.method == NULL) {
        const bool few = f->data.n < CHOOSE_HELD_OUT;
        fit__say(f, "info", "Kernel chosen on held-out training rows%s: %s.",
                 few ? ", one at a time" : "", kernel_name(f->kernel.id));
        say_errors(f);
    }
}

static int choose_on_held_out(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    struct rows X;
    const double *Y;
    int r = look_at_rows(f, &X, &Y, err);
    if (r < 0) {
        return r;
    }
    const struct choose_data data = {
        .be = f->be,
        .X = &X,
        .scales = spec->standardize.features && spec->search.bandwidths == 0 ? f->data.feature_scale
                                                                             : NULL,
        .n = f->data.n,
        .Y = Y,
        .t = f->data.t,
        .points_dtype = f->data.dtype,
        .seed = (uint64_t)spec->seed,
        .any_kernel = spec->kernel.method == NULL,
        .kernel = f->kernel.id,
        .any_bandwidth = spec->kernel.kind == SPEC_BANDWIDTH_AUTO,
        .learns = spec->kernel.kind == SPEC_BANDWIDTH_AUTO && spec->search.bandwidths == 0,
        .bandwidth = spec->kernel.kind == SPEC_BANDWIDTH_SCALAR ? spec->kernel.bandwidth : 0,
        .bandwidths =
            spec->kernel.kind == SPEC_BANDWIDTH_PER_FEATURE ? spec->kernel.bandwidths : NULL,
        .any_regularization = spec->open_regularization || spec->search.regularizations > 0,
        .regularization = spec->regularization,
        .time_budget_s = spec->stop.time_budget_s,
        .stop = fit__stop_here,
        .late = isfinite(spec->stop.time_budget_s) ? fit__late : NULL,
        .stop_context = f,
    };
    f->choice_made = true;
    return choose_kernel(&data, &f->chosen, err);
}

/* What an earlier attempt has chosen: this one could come to something else by its clock. */
static int take_kept(struct fit *f, struct err *err)
{
    const struct state *resume = f->control->resume;
    struct choice kept;
    const int r = resume != NULL ? choice_load(resume, f->data.d, fit__given(f), &kept, err) : 0;
    if (r > 0) {
        f->chosen = kept;
        f->choice_made = true;
    }
    return r < 0 ? r : 0;
}

static int choose_kernel_id(struct fit *f, struct err *err)
{
    const struct method_def *m = f->spec->kernel.method;
    f->chosen = (struct choice){.medians = 1};
    int r = m == NULL ? 0 : kernel_id_parse(m->name, &f->kernel.id, err);
    r = r == 0 ? take_kept(f, err) : r;
    if (r == 0 && is_open(f->spec) && !f->choice_made) {
        r = choose_on_held_out(f, err);
    }
    if (r == 0 && is_open(f->spec)) {
        f->kernel.id = f->chosen.kernel;
        say_chosen(f);
    }
    return r;
}

static void say_bandwidth(const struct fit *f, bool degenerate)
{
    const double medians = f->chosen.medians;
    if (degenerate) {
        fit__say(f, "warning",
                 "All training rows looked at are equal, so that their distances have no median; "
                 "the bandwidth is %.6g.",
                 f->kernel.bandwidth);
    } else if (medians == 1) {
        fit__say(f, "info", "Bandwidth by the median rule: %.6g.", f->kernel.bandwidth);
    } else {
        fit__say(f, "info", "Bandwidth, %.3g times the median distance: %.6g.", medians,
                 f->kernel.bandwidth);
    }
}

/* The feature with the next bandwidth after that of `after` (-1: the narrowest), or -1. */
static int64_t next_wider(const double *b, int64_t d, int64_t after)
{
    int64_t ret = -1;
    for (int64_t j = 0; j < d; j++) {
        const bool behind = after < 0 || b[j] > b[after] || (b[j] == b[after] && j > after);
        ret = behind && (ret < 0 || b[j] < b[ret]) ? j : ret;
    }
    return ret;
}

/* Of what it is divided by: nobody learns of a constant. */
static bool is_constant(const struct fit *f, int64_t j)
{
    return f->spec->standardize.features && f->data.feature_scale[j] == 1.0;
}

/* One bandwidth for features as they are, in their units. */
static void say_plain(const struct fit *f)
{
    fit__say(
        f, "info",
        "Features are not standardised in effect: as they are they have less error on held-out "
        "rows. Bandwidth, %.3g times the median distance: %.6g.",
        f->chosen.medians, f->chosen.bandwidths[0] * f->data.feature_scale[0]);
}

/* The features that matter most, by name. */
static void say_learned(const struct fit *f)
{
    enum { NAMED = 3, LONGEST = 60 };
    const double *b = f->chosen.bandwidths;
    char list[NAMED * (LONGEST + 20)] = "";
    int64_t j = next_wider(b, f->data.d, -1);
    const double most = 100 * b[j]; /* what is as wide does not matter */
    for (size_t i = 0, at = 0; i < NAMED && j >= 0; j = next_wider(b, f->data.d, j)) {
        if (is_constant(f, j) || b[j] > most) {
            continue;
        }
        const char *name = f->data.train->info.column_names[f->data.columns.features[j]];
        const int length = (int)utf8_fit(name, strlen(name), LONGEST);
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%.*s %.4g", i++ > 0 ? ", " : "",
                               length, name, b[j]);
    }
    fit__say(f, "info",
             "Bandwidths learned, one a feature; a wide one means that the feature matters little. "
             "The narrowest: %s.",
             list);
}

static int take_median(struct fit *f, struct err *err)
{
    struct rows X;
    const double *Y;
    bool degenerate = false;
    int r = look_at_rows(f, &X, &Y, err);
    if (r < 0) {
        return r;
    }
    r = bandwidth_median(&X, kernel_uses_l1(f->kernel.id), (uint64_t)f->spec->seed,
                         &f->kernel.bandwidth, &degenerate, err);
    if (r == 0) {
        f->kernel.bandwidth *= f->chosen.medians;
        say_bandwidth(f, degenerate);
    }
    return r;
}

static int choose_bandwidth(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    f->kernel.bandwidth = 1.0;
    if (!kernel_uses_distance(f->kernel.id)) {
        return 0;
    }
    if (spec->search.bandwidths > 0) {
        return 0; /* the search's choice */
    }
    if (spec->kernel.kind == SPEC_BANDWIDTH_PER_FEATURE) {
        f->kernel.bandwidths = spec->kernel.bandwidths;
        return 0;
    }
    if (spec->kernel.kind == SPEC_BANDWIDTH_SCALAR) {
        f->kernel.bandwidth = spec->kernel.bandwidth;
        return 0;
    }
    if (f->chosen.bandwidths != NULL) {
        f->kernel.bandwidths = f->chosen.bandwidths;
        if (f->chosen.plain) {
            say_plain(f);
        } else {
            say_learned(f);
        }
        return 0;
    }
    return take_median(f, err);
}

int fit__choose_kernel(struct fit *f, struct err *err)
{
    f->kernel.d = f->data.d;
    f->kernel.gamma = 1.0;
    f->kernel.degree = 1;
    int r = choose_kernel_id(f, err);
    if (r == 0 && f->spec->kernel.method != NULL && f->spec->kernel.params.defs != NULL) {
        kernel_set_params(&f->kernel, &f->spec->kernel.params);
    }
    return r == 0 ? choose_bandwidth(f, err) : r;
}

static void say_found(const struct fit *f)
{
    const struct search_result *r = &f->result.search;
    if (r->count < r->pairs) {
        fit__say(f, "warning",
                 "The search tried %" PRId64 " of %" PRId64
                 " pairs: the rest of the time budget is for the model.",
                 r->count, r->pairs);
    }
    if (r->sampled) {
        fit__say(f, "info",
                 "The search ran on a sample of %" PRId64 " of the %" PRId64 " training rows.",
                 r->rows, f->data.n);
    }
    if (r->centers > 0) {
        fit__say(f, "info", "The models that it judged had %" PRId64 " centers.", r->centers);
    }
    if (isnan(r->points[r->best].bandwidth)) {
        fit__say(f, "info", "Regularization found: %.6g.", f->result.regularization);
    } else {
        fit__say(f, "info", "Regularization found: %.6g, with the bandwidth %.6g.",
                 f->result.regularization, f->kernel.bandwidth);
    }
}

static void take_found(struct fit *f)
{
    const struct search_result *r = &f->result.search;
    f->result.regularization = r->points[r->best].regularization;
    if (!isnan(r->points[r->best].bandwidth)) {
        f->kernel.bandwidth = r->points[r->best].bandwidth;
    }
    say_found(f);
}

/* Of the prior, where models know it; NaN: open. */
static double amplitude_of(const struct job_spec *spec)
{
    const bool known = spec->solver.method->posterior;
    const struct param_value *given = known ? param_get(&spec->solver.params, "amplitude") : NULL;
    return given == NULL || given->is_auto ? (double)NAN : given->real;
}

static bool is_bound(const struct job_spec *spec)
{
    return spec->solver.method->posterior &&
           strcmp(param_choice(&spec->solver.params, "approximation"), "vfe") == 0;
}

static int search(struct fit *f, const struct dataset *file, struct err *err)
{
    const struct job_spec *spec = f->spec;
    struct search_result *found = &f->result.search;
    const struct search_task task = {
        .be = f->be,
        .spec = &spec->search,
        .data = &f->data,
        .kernel = f->kernel,
        .regularization = f->result.regularization,
        .centers = f->restricted ? fit_centers_count(spec, file, f->data.n) : 0,
        .amplitude = amplitude_of(spec),
        .bound = is_bound(spec),
        .seed = (uint64_t)spec->seed,
        .time_budget_s = spec->stop.time_budget_s,
        .control = f->control,
        .stop = fit__stop_here,
        .stop_context = f,
    };
    if (!f->restricted) {
        f->found = mem_array((size_t)(f->data.n * f->data.t), sizeof(double));
    }
    const bool there = f->restricted || f->found != NULL;
    const int r = there ? search_run(&task, found, f->found, err) : err_no_memory(err);
    if (r == 0 && found->count > 0) {
        take_found(f);
    }
    if (found->count == 0 || found->sampled || found->centers > 0) {
        f->found = mem_free(f->found);
    }
    return r;
}

/* Of rows nearly free of noise: systems below are solved no more accurately than their model is. */
static const double least_regularization = 1e-9;

/* That of the ridge which was chosen with the kernel, for all training rows. */
static void take_chosen(struct fit *f)
{
    const double given = f->result.regularization, here = f->chosen.regularization;
    const double least = here < given ? fmin(here, least_regularization) : given;
    if (!f->choice_made) {
        return;
    }
    f->result.regularization = fmax(least, f->chosen.ridge / (double)f->data.n);
}

/* Regularization and bandwidth: the job's own, or chosen with the kernel, or the best pair of its
 * search, which one attempt makes for all. */
int fit__search(struct fit *f, const struct dataset *file, struct err *err)
{
    const struct state *resume = f->control->resume;
    f->result.regularization = f->spec->regularization;
    if (f->spec->open_regularization) {
        take_chosen(f);
    }
    if (!f->spec->search.wanted) {
        return 0;
    }
    if (resume != NULL && search_result_load(resume, fit__given(f), &f->result.search)) {
        const struct search_spec *spec = &f->spec->search;
        f->result.search.pairs = search_bandwidths(spec) * search_regularizations(spec);
        take_found(f);
        return 0;
    }
    return search(f, file, err);
}

/* Places for each row, rows for each place, values of a feature, and targets, up to which a grid's
 * own preconditioner is made sooner than one of low rank (n r^2, r = 10 n^1/2: eigenvectors of an
 * axis take its size cubed ten times), in no more memory than plans have for that one. What there
 * is of memory does not decide: a later attempt is to have the same. */
enum { GRID_PLACES_MOST = 2, GRID_ROWS_MOST = 4, GRID_AXIS_MOST = 1024, GRID_TARGETS_MOST = 16 };

/* Of a grid's places that part at least has a row, and none has so many times the rows that they
 * have on average: where few have most rows its preconditioner takes many steps. */
#define GRID_USED_LEAST 3 /* a third */
#define GRID_CROWD_MOST 8

static int rows_are_spread(const struct rows *rows, const struct grid_axes *axes, bool *ret,
                           struct err *err)
{
    cleanup_mem int64_t *count = mem_zarray((size_t)axes->places, sizeof *count);
    if (count == NULL) {
        return err_no_memory(err);
    }
    int64_t used = 0, most = 0;
    for (int64_t i = 0; i < rows->n; i++) {
        const int64_t here = ++count[grid_axes_place(axes, rows, i)];
        used += here == 1;
        most = here > most ? here : most;
    }
    *ret = used * GRID_USED_LEAST >= axes->places && most * used <= GRID_CROWD_MOST * rows->n;
    return 0;
}

/* Whether the rows, exactly as they are, lie on a grid that is mostly full. */
static int rows_fill_grid(const struct fit *f, bool *ret, struct err *err)
{
    const struct rows rows = fit_data_train(&f->data);
    struct grid_axes axes;
    *ret = kernel_is_product(f->kernel.id) && f->data.t <= GRID_TARGETS_MOST;
    if (!*ret) {
        return 0;
    }
    int r = grid_find_axes(&rows, 1, rows.d, GRID_PLACES_MOST * rows.n, &axes, err);
    *ret = r == 0 && axes.dims > 0 && rows.n <= GRID_ROWS_MOST * axes.places;
    double cubes = 0.0;
    for (int k = 0; k < axes.dims; k++) {
        cubes += pow((double)axes.size[k], 3);
        *ret = *ret && axes.size[k] <= GRID_AXIS_MOST;
    }
    *ret = *ret && cubes <= (double)rows.n * (double)rows.n;
    r = *ret ? rows_are_spread(&rows, &axes, ret, err) : r;
    grid_axes_deinit(&axes);
    return r;
}

static int open_preconditioner(struct fit *f, struct err *err)
{
    const struct method_def *m = catalog_list(CATALOG_PRECONDITIONERS);
    bool full = false;
    /* What an earlier attempt has begun with a low rank goes on with it. */
    const bool begun = f->resumes && checkpoint_rank(f->control->resume) > 0;
    int r = begun ? 0 : rows_fill_grid(f, &full, err);
    if (full) {
        m = catalog_find(CATALOG_PRECONDITIONERS, "kronecker");
        fit__say(f, "info", "Preconditioner chosen for rows that fill a grid: %s.", m->name);
    }
    f->options.precond = precond_find(m->name);
    return r == 0 ? param_read(m->params, NULL, NULL, &f->options.precond_params, err) : r;
}

static int choose_preconditioner(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    int r = 0;
    if (f->chosen.hurry == HURRY_MOST) {
        f->options.precond = precond_find("none");
        return 0;
    }
    if (spec->solver.preconditioner != NULL) {
        f->options.precond_params = spec->solver.preconditioner_params;
        f->options.precond = precond_find(spec->solver.preconditioner->name);
    } else {
        r = open_preconditioner(f, err);
    }
    if (r == 0 && f->options.precond == NULL) {
        r = err_at(err, ERR_UNSUPPORTED, "#/solver/preconditioner",
                   "This preconditioner is not part of this program.");
    }
    return r;
}

/* What an earlier attempt has begun goes on, though there is memory for a direct method by now. */
static const char *name_solver(const struct fit *f)
{
    if (f->restricted) {
        return rule_restricted_solver(f->centers.chosen.m, f->data.d);
    }
    if (f->resumes && checkpoint_solver_is(f->control->resume, "pcg")) {
        return "pcg";
    }
    const bool distance = kernel_uses_distance(f->kernel.id);
    const enum precision precision =
        f->spec->precision == PRECISION_AUTO ? rule_precision("pcg", distance) : f->spec->precision;
    return rule_solver(memory_available_on(f->be), f->data.n, f->data.d, f->result.regularization,
                       precision);
}

static void choose_arithmetic(struct fit *f, const char *solver)
{
    if (f->spec->precision == PRECISION_AUTO) {
        f->result.precision = rule_precision(solver, kernel_uses_distance(f->kernel.id));
        fit__say(f, "info", "Precision chosen for %s: %s.", solver,
                 precision_name(f->result.precision));
    }
}

int fit__choose_method(struct fit *f, struct err *err)
{
    const struct method_def *method = f->spec->solver.method;
    const bool direct = strcmp(method->name, "auto") == 0 || strcmp(method->name, "cholesky") == 0;
    if (f->found != NULL && direct) {
        f->options.tolerance = f->spec->stop.tolerance;
        f->solver = &search_solution_ops; /* the whole problem has been solved on the way */
        choose_arithmetic(f, f->solver->name);
        return 0;
    }
    f->options.params = f->spec->solver.params;
    f->options.tolerance = f->spec->stop.tolerance;
    if (strcmp(method->name, "auto") == 0) {
        const char *name = name_solver(f);
        fit__expect_solver(f, f->chosen.hurry != HURRY_NONE ? "pcg" : name);
        int r = fit__timely_solver(f, name, err);
        if (r < 0) {
            return r;
        }
        method = catalog_find(CATALOG_SOLVERS, f->chosen.hurry != HURRY_NONE ? "pcg" : name);
        r = param_read(method->params, NULL, NULL, &f->options.params, err);
        if (r < 0) {
            return r;
        }
        fit__say(f, "info", "Solver chosen for %" PRId64 " training rows: %s.", f->data.n,
                 method->name);
    }
    f->solver = solver_find(method->name);
    if (f->solver == NULL) {
        return err_at(err, ERR_UNSUPPORTED, "#/solver/name",
                      "The solver \"%s\" is not part of this program.", method->name);
    }
    choose_arithmetic(f, method->name);
    return method->has_preconditioner ? choose_preconditioner(f, err) : 0;
}
