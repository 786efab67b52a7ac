#include "engine/fit.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "engine/bandwidth.h"
#include "engine/choose.h"
#include "engine/fit_centers.h"
#include "engine/fit_data.h"
#include "engine/fit_model.h"
#include "engine/memory.h"
#include "engine/normal.h"
#include "engine/precond.h"
#include "engine/warm.h"

struct fit {
    struct backend *be;
    const struct job_spec *spec;
    const struct solve_control *control;
    struct fit_data data;
    void *sample; /* [sampled, d]: some rows of data that is not loaded */
    double *sample_Y;
    int64_t sampled;
    struct kernel kernel;
    const struct solver_ops *solver;
    struct solver_options options;
    enum dtype vectors;
    bool restricted;            /* a model on few centers */
    struct fit_centers centers; /* of such a one, in place of X, X_test and Y */
    struct points *X, *X_test;
    struct points *exact; /* mixed precision: X in float64, else NULL */
    struct mat Y, A, P;   /* P: predictions of the test rows */
    double *predicted;    /* [m, t] */
    double *found;        /* [n, t] the coefficients a search found, or NULL */
    struct mat start;     /* those, or an earlier model's; no rows: none */
    bool paused;          /* asked to, before the solve */
    char problem[SHA256_HEX_SIZE];
    struct fit_result result;
};

static void say(const struct fit *f, const char *level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void say(const struct fit *f, const char *level, const char *fmt, ...)
{
    if (f->control->message == NULL) {
        return;
    }
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    f->control->message(f->control->context, level, text);
}

static void show_phase(const struct fit *f, const char *phase)
{
    if (f->control->report == NULL) {
        return;
    }
    struct progress p = progress_none();
    p.phase = phase;
    p.elapsed_s = f->control->now(f->control->context) - f->control->started;
    f->control->report(f->control->context, &p);
}

/* Whether to stop before the solve, where there is nothing to keep. */
static int check_stop(struct fit *f, struct err *err)
{
    const struct solve_control *c = f->control;
    if (c->cancelled != NULL && c->cancelled(c->context)) {
        return err_set(err, ERR_CANCELLED, "%s", err_sentence(ERR_CANCELLED));
    }
    f->paused = c->paused != NULL && c->paused(c->context);
    return f->paused ? err_set(err, ERR_CANCELLED, "%s", reason_sentence(REASON_PAUSED)) : 0;
}

static void warn_about_targets(const struct fit *f)
{
    const struct fit_data *data = &f->data;
    const bool classes = data->columns.task == TASK_CLASSIFICATION;
    int64_t constant = 0, first = -1;
    for (int64_t j = 0; j < data->t; j++) {
        constant += data->constant[j];
        first = data->constant[j] && first < 0 ? j : first;
    }
    if (constant == 0) {
        return;
    }
    if (classes && constant < data->t) {
        say(f, "warning",
            "%" PRId64 " of %" PRId64 " classes, \"%.64s\" among them, have no "
            "training row and will never be predicted.",
            constant, data->t, data->columns.labels[first]);
    } else if (classes) {
        say(f, "warning", "All training rows have the same class: the model predicts it always.");
    } else {
        say(f, "warning",
            "The target \"%.64s\" is constant on the training rows: the model predicts that "
            "constant always.",
            data->train->info.column_names[data->columns.target[first]]);
    }
}

/* Rows that rules of thumb look at: all, or some of data that is not loaded. */
enum { SAMPLE_ROWS = 4096 };

static int look_at_rows(struct fit *f, struct rows *ret, const double **ret_Y, struct err *err)
{
    *ret = fit_data_train(&f->data);
    *ret_Y = f->data.Y;
    if (!f->data.streamed) {
        return 0;
    }
    int r = 0;
    if (f->sample == NULL) {
        r = fit_centers_sample(&f->data, SAMPLE_ROWS, (uint64_t)f->spec->seed, &f->sample,
                               &f->sample_Y, &f->sampled, err);
    }
    ret->n = f->sampled;
    ret->data = f->sample;
    *ret_Y = f->sample_Y;
    return r;
}

static int choose_kernel_id(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    struct rows X;
    const double *Y;
    if (spec->kernel.method != NULL) {
        return kernel_id_parse(spec->kernel.method->name, &f->kernel.id, err);
    }
    int r = look_at_rows(f, &X, &Y, err);
    if (r < 0) {
        return r;
    }
    const struct choose_data data = {
        .be = f->be,
        .X = &X,
        .Y = Y,
        .t = f->data.t,
        .points_dtype = f->data.dtype,
        .regularization = spec->regularization,
        .seed = (uint64_t)spec->seed,
        .bandwidth = spec->kernel.kind == SPEC_BANDWIDTH_SCALAR ? spec->kernel.bandwidth : 0,
        .bandwidths =
            spec->kernel.kind == SPEC_BANDWIDTH_PER_FEATURE ? spec->kernel.bandwidths : NULL,
    };
    r = choose_kernel(&data, &f->kernel.id, err);
    if (r == 0) {
        say(f, "info", "Kernel chosen on held-out training rows: %s.", kernel_name(f->kernel.id));
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
    struct rows X;
    const double *Y;
    bool degenerate = false;
    int r = look_at_rows(f, &X, &Y, err);
    if (r < 0) {
        return r;
    }
    r = bandwidth_median(&X, kernel_uses_l1(f->kernel.id), (uint64_t)spec->seed,
                         &f->kernel.bandwidth, &degenerate, err);
    if (r == 0 && degenerate) {
        say(f, "warning",
            "All training rows looked at are equal, so that their distances have no median; the "
            "bandwidth is 1.");
    } else if (r == 0) {
        say(f, "info", "Bandwidth by the median rule: %.6g.", f->kernel.bandwidth);
    }
    return r;
}

static int choose_model(struct fit *f, struct err *err)
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

static int stop_here(void *context, struct err *err)
{
    return check_stop(context, err);
}

static void say_found(const struct fit *f)
{
    const struct search_result *r = &f->result.search;
    if (r->sampled) {
        say(f, "info",
            "The search ran on a sample of %" PRId64 " of the %" PRId64 " training rows.", r->rows,
            f->data.n);
    }
    if (isnan(r->points[r->best].bandwidth)) {
        say(f, "info", "Regularization found: %.6g.", f->result.regularization);
    } else {
        say(f, "info", "Regularization found: %.6g, with the bandwidth %.6g.",
            f->result.regularization, f->kernel.bandwidth);
    }
}

/* Regularization and bandwidth: the job's own, or the best pair of its search. */
static int search(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    struct search_result *found = &f->result.search;
    f->result.regularization = spec->regularization;
    if (!spec->search.wanted) {
        return 0;
    }
    const struct search_task task = {
        .be = f->be,
        .spec = &spec->search,
        .data = &f->data,
        .kernel = f->kernel,
        .regularization = spec->regularization,
        .seed = (uint64_t)spec->seed,
        .time_budget_s = spec->stop.time_budget_s,
        .control = f->control,
        .stop = stop_here,
        .stop_context = f,
    };
    f->found = mem_array((size_t)(f->data.n * f->data.t), sizeof(double));
    const int r = f->found != NULL ? search_run(&task, found, f->found, err) : err_no_memory(err);
    if (r == 0 && found->count > 0) {
        f->result.regularization = found->points[found->best].regularization;
        if (!isnan(found->points[found->best].bandwidth)) {
            f->kernel.bandwidth = found->points[found->best].bandwidth;
        }
        say_found(f);
    }
    if (found->count == 0 || found->sampled) {
        f->found = mem_free(f->found);
    }
    return r;
}

static int choose_preconditioner(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    if (spec->solver.preconditioner != NULL) {
        f->options.precond_params = spec->solver.preconditioner_params;
        f->options.precond = precond_find(spec->solver.preconditioner->name);
    } else {
        const struct method_def *first = catalog_list(CATALOG_PRECONDITIONERS);
        f->options.precond = precond_find(first->name);
        const int r = param_read(first->params, NULL, NULL, &f->options.precond_params, err);
        if (r < 0) {
            return r;
        }
    }
    return f->options.precond != NULL ? 0
                                      : err_at(err, ERR_UNSUPPORTED, "#/solver/preconditioner",
                                               "This preconditioner is not part of this program.");
}

static const char *name_solver(const struct fit *f)
{
    return f->restricted
               ? choose_restricted_solver(f->centers.chosen.m, f->data.d)
               : choose_solver(f->be, f->data.n, f->data.d, f->result.regularization, f->vectors);
}

static int choose_method(struct fit *f, struct err *err)
{
    const struct method_def *method = f->spec->solver.method;
    const bool direct = strcmp(method->name, "auto") == 0 || strcmp(method->name, "cholesky") == 0;
    if (f->found != NULL && direct) {
        f->options.tolerance = f->spec->stop.tolerance;
        f->solver = &search_solution_ops; /* the whole problem has been solved on the way */
        return 0;
    }
    f->options.params = f->spec->solver.params;
    f->options.tolerance = f->spec->stop.tolerance;
    if (strcmp(method->name, "auto") == 0) {
        method = catalog_find(CATALOG_SOLVERS, name_solver(f));
        const int r = param_read(method->params, NULL, NULL, &f->options.params, err);
        if (r < 0) {
            return r;
        }
        say(f, "info", "Solver chosen for %" PRId64 " training rows: %s.", f->data.n, method->name);
    }
    f->solver = solver_find(method->name);
    if (f->solver == NULL) {
        return err_at(err, ERR_UNSUPPORTED, "#/solver/name",
                      "The solver \"%s\" is not part of this program.", method->name);
    }
    return method->has_preconditioner ? choose_preconditioner(f, err) : 0;
}

/* After the kernel is known; `solver` is the name of the method, or what is solved for instead. */
static void choose_arithmetic(struct fit *f, const char *solver)
{
    if (f->spec->precision == PRECISION_AUTO) {
        f->result.precision = choose_precision(solver, f->kernel.id);
        say(f, "info", "Precision chosen for %s: %s.", solver, precision_name(f->result.precision));
    }
}

static int evaluate(void *context, const struct mat *A, struct metrics *ret, struct err *err)
{
    struct fit *f = context;
    const struct backend_ops *o = f->be->ops;
    int r;
    if (f->restricted) {
        r = fit_centers_predict(&f->centers, A, f->predicted, err);
        return r == 0 ? fit_data_metrics(&f->data, f->predicted, ret, err) : r;
    }
    r = o->kmv(f->be, view_all(f->X_test, f->data.m),
               view_all(f->exact != NULL ? f->exact : f->X, f->data.n), 1.0, A, 0.0, &f->P, err);
    if (r == 0) {
        r = o->mat_get(f->be, &f->P, f->predicted, f->data.m, err);
    }
    return r == 0 ? fit_data_metrics(&f->data, f->predicted, ret, err) : r;
}

/* Points that the kernel's bandwidth takes out of the range of numbers are the bandwidth's fault.
 */
static int make_points(struct fit *f, const struct rows *rows, enum dtype dtype,
                       struct points **ret, struct err *err)
{
    const int r = f->be->ops->points_new(f->be, &f->kernel, dtype, rows, ret, err);
    if (r == -ERR_INVALID && err != NULL && err->pointer[0] == '\0') {
        snprintf(err->pointer, sizeof(err->pointer), "#/kernel/bandwidth");
    }
    return r;
}

/* Chooses the centers of a restricted model, and prepares them and the rows on the backend. */
static int upload_restricted(struct fit *f, const struct dataset *file, struct err *err)
{
    const struct fit_centers_task task = {
        .be = f->be,
        .spec = f->spec,
        .data = &f->data,
        .file = file,
        .kernel = &f->kernel,
        .points = f->result.precision == PRECISION_FLOAT64 ? DTYPE_F64 : DTYPE_F32,
        .vectors = f->vectors,
        .regularization = f->result.regularization,
        .stop = stop_here,
        .stop_context = f,
    };
    show_phase(f, "centers");
    int r = fit_centers_init(&f->centers, &task, err);
    if (r == 0) {
        f->result.centers = f->centers.chosen.m;
        say(f, "info", "Centers: %" PRId64 " of %" PRId64 " training rows%s.", f->result.centers,
            f->data.n,
            rowset_resident(f->centers.rows) ? "" : ", which are read as they are needed");
        r = f->be->ops->mat_new(f->be, f->vectors, f->result.centers, f->data.t, &f->A, err);
    }
    f->predicted = mem_array((size_t)(f->data.m * f->data.t), sizeof(double));
    return r == 0 && f->predicted == NULL ? err_no_memory(err) : r;
}

/* The training points, in mixed precision twice. Those that float32 cannot hold stay in float64,
 * where the precision is our choice. */
static int make_training_points(struct fit *f, struct err *err)
{
    const struct rows train = fit_data_train(&f->data);
    const bool mixed = f->result.precision == PRECISION_MIXED;
    int r = make_points(f, &train, mixed ? DTYPE_F32 : train.dtype, &f->X, err);
    if (r == -ERR_INVALID && mixed && f->spec->precision == PRECISION_AUTO) {
        f->result.precision = PRECISION_FLOAT64;
        return make_points(f, &train, train.dtype, &f->X, err);
    }
    return r == 0 && mixed ? make_points(f, &train, train.dtype, &f->exact, err) : r;
}

/* Points, right-hand sides and room for the answer on the backend. */
static int upload(struct fit *f, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    const struct fit_data *data = &f->data;
    const struct rows test = fit_data_test(data);
    int r = make_training_points(f, err);
    if (r == 0) {
        r = o->mat_new(f->be, f->vectors, data->n, data->t, &f->Y, err);
    }
    if (r == 0) {
        r = o->mat_put(f->be, data->Y, data->n, &f->Y, err);
    }
    if (r == 0) {
        r = o->mat_new(f->be, f->vectors, data->n, data->t, &f->A, err);
    }
    if (r == 0 && f->found != NULL) {
        r = o->mat_new(f->be, f->vectors, data->n, data->t, &f->start, err);
        r = r == 0 ? o->mat_put(f->be, f->found, data->n, &f->start, err) : r;
    }
    if (r < 0 || data->m == 0) {
        return r;
    }
    f->predicted = mem_array((size_t)(data->m * data->t), sizeof(double));
    if (f->predicted == NULL) {
        return err_no_memory(err);
    }
    r = make_points(f, &test, test.dtype, &f->X_test, err);
    return r == 0 ? o->mat_new(f->be, f->vectors, data->m, data->t, &f->P, err) : r;
}

/* A job with less time or fewer steps than this computes: keeping values comes before the first
 * step. */
static const double cache_budget_s = 5.0;
enum { CACHE_STEPS = 20 };

/* Kernel values in memory, where the solver multiplies with the whole matrix again and again: as
 * many as the spec asks for, or, left to us, only if that is faster. */
static int keep_kernel(struct fit *f, struct points *X, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    const bool asked = f->spec->kernel_cache_bytes != SPEC_CACHE_AUTO;
    const bool brief =
        f->spec->stop.time_budget_s < cache_budget_s || f->spec->stop.max_iterations < CACHE_STEPS;
    if (!f->solver->whole_products || o->points_cache == NULL || (brief && !asked)) {
        return 0;
    }
    const int64_t budget = memory_cache_budget(f->be, f->spec->kernel_cache_bytes);
    int64_t *const bytes = &f->result.kernel_cache_bytes;
    const enum kernel_storage how = asked ? KERNEL_STORE_EXACT : KERNEL_STORE_IF_FASTER;
    f->be->stop = stop_here;
    f->be->stop_context = f;
    const int r = o->points_cache(f->be, X, budget, how, bytes, err);
    f->be->stop = NULL;
    if (r == 0 && *bytes > 0) {
        say(f, "info", "Kernel values kept in memory: %.3g GB, of %.3g GB that they may take.",
            (double)*bytes / 1e9, (double)budget / 1e9);
    }
    return r;
}

/* The solver multiplies with the exact points from now on: what is kept of the others goes. */
static int widened(void *context, struct err *err)
{
    struct fit *f = context;
    int64_t bytes;
    f->result.precision = PRECISION_FLOAT64;
    const int r = f->result.kernel_cache_bytes > 0
                      ? f->be->ops->points_cache(f->be, f->X, 0, KERNEL_STORE_EXACT, &bytes, err)
                      : 0;
    f->result.kernel_cache_bytes = 0;
    return r == 0 ? keep_kernel(f, f->exact, err) : r;
}

/* The digest that binds a checkpoint to this problem: what the caller knows of it, and the kernel
 * that was chosen, to the last bit. */
static int identify(struct fit *f, struct err *err)
{
    struct sha256 *hash = sha256_new();
    if (hash == NULL) {
        return err_no_memory(err);
    }
    const char *given = f->control->problem != NULL ? f->control->problem : "";
    const struct kernel *k = &f->kernel;
    char text[256];
    snprintf(text, sizeof(text), "|%s|%a|%a|%a|%d|%" PRId64 "|%a|%d", kernel_name(k->id),
             k->bandwidth, k->gamma, k->coef0, k->degree, k->d, f->result.regularization,
             f->exact != NULL);
    sha256_update(hash, given, strlen(given));
    sha256_update(hash, text, strlen(text));
    sha256_hex(hash, f->problem);
    sha256_free(hash);
    return 0;
}

static int no_earlier_model(const struct fit *f, struct err *err)
{
    return err_at(err, ERR_INVALID, "#/warm_start",
                  "The model \"%s\" (version %" PRId64
                  "), whose coefficients this job was to begin with, is not there.",
                  f->spec->warm_start.model, f->spec->warm_start.version);
}

/* What the earlier model gives, brought to the backend. */
static int upload_start(struct fit *f, const struct model *earlier, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    const int64_t n = f->A.rows, t = f->data.t;
    cleanup_mem double *start = mem_zarray((size_t)(n * t), sizeof(double));
    if (start == NULL) {
        return err_no_memory(err);
    }
    const int64_t *which = f->restricted ? f->centers.chosen.rows : NULL;
    const bool rows = !f->restricted || which != NULL; /* free points are no rows to be found */
    int64_t found = 0;
    int r = warm_start(earlier, &f->data, which, rows ? n : 0, start, &found, err);
    if (r == 0) {
        r = o->mat_new(f->be, f->vectors, n, t, &f->start, err);
    }
    if (r == 0) {
        r = o->mat_put(f->be, start, n, &f->start, err);
    }
    if (r == 0) {
        say(f, found > 0 ? "info" : "warning",
            "Warm start: %" PRId64 " of %" PRId64 " %s have coefficients in the earlier model.",
            found, n, f->restricted ? "centers" : "training rows");
    }
    return r;
}

/* A job that has a checkpoint of its own can do without the model, and so can one whose search has
 * found the solution on its way. */
static int prepare_start(struct fit *f, const struct model *earlier, struct err *err)
{
    if (f->spec->warm_start.model[0] == '\0' || f->found != NULL) {
        return 0;
    }
    if (earlier == NULL) {
        return f->control->resume != NULL ? 0 : no_earlier_model(f, err);
    }
    if (f->solver->direct) {
        say(f, "info", "Warm start: the solver \"%s\" is direct and has no use for one.",
            f->solver->name);
        return 0;
    }
    return upload_start(f, earlier, err);
}

static int take_start(struct fit *f, struct model **earlier, struct err *err)
{
    const int r = prepare_start(f, earlier != NULL ? *earlier : NULL, err);
    if (earlier != NULL) {
        *earlier = model_free(*earlier);
    }
    return r;
}

/* How many steps an evaluation is worth: those of a restricted solver are pieces of a pass. */
static double evaluation_steps(const struct fit *f)
{
    const double values = (double)f->data.n * (double)f->A.rows;
    const double steps = f->restricted ? ceil(values / NORMAL_PIECE) : 1.0;
    return steps * (double)f->data.m / (double)f->data.n;
}

static int solve(struct fit *f, struct err *err)
{
    const struct job_spec *spec = f->spec;
    const struct rows host = fit_data_train(&f->data);
    const struct problem problem = {
        .be = f->be,
        .restricted = f->restricted ? &f->centers.problem : NULL,
        .X = f->X,
        .exact = f->exact,
        .widened = widened,
        .widened_context = f,
        .n = f->data.n,
        .t = f->data.t,
        .d = f->data.d,
        .ridge = (double)f->data.n * f->result.regularization,
        .dtype = f->vectors,
        .points_dtype = f->exact != NULL ? DTYPE_F32 : f->data.dtype,
        .Y = f->Y,
        .seed = (uint64_t)spec->seed,
        .start = f->start.rows > 0 ? &f->start : NULL,
    };
    const struct solve_limits limits = {
        .tolerance = spec->stop.tolerance,
        .max_iterations = spec->stop.max_iterations,
        .time_budget_s = spec->stop.time_budget_s,
    };
    const struct solve_evaluator evaluator = {
        .context = f,
        .cost = evaluation_steps(f),
        .evaluate = evaluate,
    };
    struct solve_control control = *f->control;
    control.problem = f->problem;
    const int r = identify(f, err);
    return r < 0 ? r
                 : solve_run(f->solver, &problem, &f->options, &limits, &control,
                             f->data.m > 0 ? &evaluator : NULL, &f->kernel, &host, &f->A,
                             &f->result.outcome, err);
}

static int prepare_full(struct fit *f, struct err *err)
{
    int r = choose_method(f, err);
    if (r == 0) {
        choose_arithmetic(f, f->solver->name);
        r = check_stop(f, err);
    }
    return r == 0 ? upload(f, err) : r;
}

/* Which solver is the right one depends on how many centers there are. */
static int prepare_restricted(struct fit *f, const struct dataset *file, struct err *err)
{
    choose_arithmetic(f, "centers");
    const int r = upload_restricted(f, file, err);
    return r == 0 ? choose_method(f, err) : r;
}

static int run(struct fit *f, const struct fit_input *in, struct model **ret, struct err *err)
{
    show_phase(f, "loading");
    int r = fit_data_load(f->spec, in->train, in->test, &f->data, err);
    if (r < 0) {
        return r;
    }
    warn_about_targets(f);
    show_phase(f, "kernel");
    r = check_stop(f, err);
    if (r == 0) {
        r = choose_model(f, err);
    }
    if (r == 0) {
        r = search(f, err);
    }
    if (r == 0) {
        r = f->restricted ? prepare_restricted(f, in->centers, err) : prepare_full(f, err);
    }
    if (r == 0) {
        r = take_start(f, in->earlier, err);
    }
    if (r == 0) {
        r = keep_kernel(f, f->X, err);
    }
    if (r == 0) {
        r = solve(f, err);
    }
    if (r == 0 && f->result.outcome.model) {
        void **points = f->restricted ? &f->centers.chosen.points : &f->data.X;
        r = fit_model_make(f->be, &f->kernel, &f->data, points, &f->A, ret, err);
    }
    return r;
}

static void deinit(struct fit *f)
{
    const struct backend_ops *o = f->be->ops;
    o->mat_free(f->be, &f->P);
    o->mat_free(f->be, &f->start);
    o->mat_free(f->be, &f->A);
    o->mat_free(f->be, &f->Y);
    if (f->X_test != NULL) {
        o->points_free(f->be, f->X_test);
    }
    if (f->exact != NULL) {
        o->points_free(f->be, f->exact);
    }
    if (f->X != NULL) {
        o->points_free(f->be, f->X);
    }
    mem_free(f->found);
    mem_free(f->predicted);
    mem_free(f->sample);
    mem_free(f->sample_Y);
    fit_centers_deinit(&f->centers);
    fit_data_deinit(&f->data);
}

static void complete_result(struct fit *f)
{
    struct fit_result *r = &f->result;
    r->solver = f->solver != NULL ? f->solver->name : "";
    r->preconditioner = f->options.precond != NULL ? f->options.precond->name : "";
    r->rank = r->outcome.rank;
    r->ridge = (double)f->data.n * r->regularization;
    r->train_rows = f->data.n;
    r->test_rows = f->data.m;
    r->seconds = r->outcome.earlier_s + f->control->now(f->control->context) - f->control->started;
    r->peak_memory_bytes = memory_peak_bytes();
}

/* Lack of memory, and a job that was cancelled or paused, are results, wherever they are met. */
static int failure_to_result(struct fit *f, int r)
{
    const enum reason stopped = f->paused ? REASON_PAUSED : REASON_CANCELLED;
    f->result.outcome = (struct solve_outcome){
        .reason = r == -ERR_NO_MEMORY ? REASON_OUT_OF_MEMORY : stopped,
        .relative_residual = 1.0,
        .relative_residual_bound = 1.0,
        .metrics = metrics_none(),
    };
    return r == -ERR_NO_MEMORY || r == -ERR_CANCELLED ? 0 : r;
}

int fit_run(struct backend *be, const struct job_spec *spec, const struct fit_input *in,
            const struct solve_control *control, struct model **ret, struct fit_result *ret_result,
            struct err *err)
{
    struct fit f = {
        .be = be,
        .spec = spec,
        .control = control,
        .restricted = spec->centers.method != NULL,
        .vectors = DTYPE_F64,
        .result.precision = spec->precision,
    };
    if (spec->precision == PRECISION_FLOAT32 && !f.restricted) {
        f.vectors = DTYPE_F32; /* normal equations lose too many digits in float32 */
    }
    struct model *model = NULL;
    memory_peak_reset();
    int r = run(&f, in, &model, err);
    if (r < 0) {
        r = failure_to_result(&f, r);
    }
    complete_result(&f);
    deinit(&f);
    if (r == 0) {
        *ret = model;
        *ret_result = f.result;
    }
    return r;
}
