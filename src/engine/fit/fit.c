#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/ram.h"
#include "base/utf8.h"
#include "engine/fit/fit_model.h"
#include "engine/fit/fit_parts.h"
#include "engine/normal.h"
#include "engine/precond.h"

void fit__say(const struct fit *f, const char *level, const char *fmt, ...)
{
    if (f->control->message == NULL) {
        return;
    }
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    utf8_mend(text);
    f->control->message(f->control->context, level, text);
}

/* Of the largest float32: a full model's coefficients are well above the least one. */
static const double ridge_share = 1e-4;

/* A phase that takes long is told of after so many seconds of silence. */
static const double silence_s = 2.0;

static void show(struct fit *f, const char *phase, double share)
{
    if (f->control->report == NULL) {
        return;
    }
    struct progress p = progress_none();
    f->told = f->control->now(f->control->context);
    p.phase = phase;
    p.step = share;
    p.elapsed_s = f->earlier.elapsed_s + f->told - f->control->started;
    p.search = search_progress_of(&f->result.search);
    f->control->report(f->control->context, &p);
}

void fit__show_phase(struct fit *f, const char *phase)
{
    show(f, phase, NAN);
}

void fit__show_share(struct fit *f, const char *phase, double share)
{
    if (f->control->now(f->control->context) - f->told >= silence_s) {
        show(f, phase, share);
    }
}

int fit__stop_here(void *context, struct err *err)
{
    struct fit *f = context;
    const struct solve_control *c = f->control;
    if (c->cancelled != NULL && c->cancelled(c->context)) {
        return err_set(err, ERR_CANCELLED, "%s", err_sentence(ERR_CANCELLED));
    }
    f->paused = c->paused != NULL && c->paused(c->context);
    return f->paused ? err_set(err, ERR_CANCELLED, "%s", reason_sentence(REASON_PAUSED)) : 0;
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

const char *fit__given(const struct fit *f)
{
    return f->control->problem != NULL ? f->control->problem : "";
}

/* The digest that binds a checkpoint to this problem: what the caller knows of it, the kernel that
 * was chosen, to the last bit, and the preconditioner that the clock has taken away, which would be
 * changed under the iteration. Of a restricted one nothing in it changes once its centers are
 * selected. */
static int digest(const struct fit *f, bool mixed, char ret[SHA256_HEX_SIZE], struct err *err)
{
    struct sha256 *hash = sha256_new();
    if (hash == NULL) {
        return err_no_memory(err);
    }
    const char *given = fit__given(f);
    const struct kernel *k = &f->kernel;
    char text[256];
    snprintf(text, sizeof(text), "|%s|%a|%a|%a|%d|%" PRId64 "|%a|%d%s", kernel_name(k->id),
             k->bandwidth, k->gamma, k->coef0, k->degree, k->d, f->result.regularization, mixed,
             f->chosen.hurry == HURRY_MOST ? "|unpreconditioned" : "");
    sha256_update(hash, given, strlen(given));
    sha256_update(hash, text, strlen(text));
    if (f->chosen.bandwidths != NULL) {
        sha256_update(hash, f->chosen.bandwidths, (size_t)k->d * sizeof(double));
    }
    sha256_hex(hash, ret);
    sha256_free(hash);
    return 0;
}

/* What an earlier attempt has come to, where this one will go on from it. Whether products are
 * mixed is known once there are points: until then either will do. */
static int look_back(struct fit *f, struct err *err)
{
    const struct state *resume = f->control->resume;
    int r = 0;
    for (int mixed = 0; r == 0 && resume != NULL && !f->resumes && mixed < 2; mixed++) {
        r = digest(f, mixed != 0, f->problem, err);
        f->resumes = r == 0 && checkpoint_glance(resume, f->problem, &f->earlier);
    }
    return r;
}

void fit__expect_solver(struct fit *f, const char *name)
{
    if (f->resumes && !checkpoint_solver_is(f->control->resume, name)) {
        f->resumes = false;
        f->earlier = (struct checkpoint_record){.elapsed_s = 0};
    }
}

/* How many steps an evaluation is worth: those of a restricted solver are pieces of a pass. */
static double evaluation_steps(const struct fit *f)
{
    const double values = (double)f->data.n * (double)f->A.rows;
    const double steps = f->restricted ? ceil(values / NORMAL_PIECE) : 1.0;
    return steps * (double)f->data.m / (double)f->data.n;
}

/* Of the kernel values that the solver works with. */
static enum dtype points_dtype(const struct fit *f)
{
    if (f->restricted) {
        return fit__centers_dtype(f);
    }
    return f->exact != NULL ? DTYPE_F32 : f->data.dtype;
}

/* Coefficients of a full model are targets over the ridge: float32 has no such small numbers. */
static int check_ridge(const struct fit *f, struct err *err)
{
    const double ridge = (double)f->data.n * f->result.regularization;
    const bool held = f->restricted || f->vectors != DTYPE_F32 || ridge <= ridge_share * FLT_MAX;
    return held ? 0
                : err_at(err, ERR_INVALID, "#/regularization",
                         "The coefficients are about the targets over %lld rows times "
                         "regularization, %.3g: float32 has no such small numbers. Take precision "
                         "\"float64\", or a smaller regularization.",
                         (long long)f->data.n, ridge);
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
        .widened = fit__widened,
        .widened_context = f,
        .host = f->restricted ? NULL : &host,
        .kernel = &f->kernel,
        .n = f->data.n,
        .t = f->data.t,
        .d = f->data.d,
        .product_share = f->result.grid.dims > 0 ? f->result.grid.share : 0.0,
        .ridge = (double)f->data.n * f->result.regularization,
        .dtype = f->vectors,
        .points_dtype = points_dtype(f),
        .Y = f->Y,
        .seed = (uint64_t)spec->seed,
        .rank_kept = f->resumes ? checkpoint_rank(f->control->resume) : 0,
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
    control.posterior = &f->posterior;
    control.search = f->result.search.count > 0 ? &f->result.search : NULL;
    control.choice = f->choice_made ? &f->chosen : NULL;
    control.searched = fit__given(f);
    int r = check_ridge(f, err);
    r = r == 0 ? digest(f, f->exact != NULL, f->problem, err) : r;
    if (r == 0) {
        r = solve_run(f->solver, &problem, &f->options, &limits, &control,
                      f->data.m > 0 ? &evaluator : NULL, &f->kernel, &host, &f->A,
                      &f->result.outcome, err);
        f->solved = control.now(control.context);
    }
    return r;
}

/* Centers are selected by every attempt anew, within what the ones before have left of the time.
 * Which solver is the right one depends on how many centers there are. */
static int prepare(struct fit *f, const struct dataset *file, struct err *err)
{
    int r = look_back(f, err);
    if (r == 0 && f->restricted) {
        r = fit__select_centers(f, file, err);
    }
    mem_trim();
    if (r == 0) {
        r = fit__choose_method(f, err);
    }
    if (r == 0) {
        r = fit__stop_here(f, err);
    }
    if (r < 0) {
        return r;
    }
    return f->restricted ? fit__upload_restricted(f, err) : fit__upload(f, err);
}

/* The last evaluation was that of the coefficients which are handed out. */
static int show_tested(const struct fit *f, const struct fit_input *in, struct err *err)
{
    const struct fit_data *data = &f->data;
    const struct tested_rows rows = {
        .columns = &data->columns,
        .names = data->train->info.column_names,
        .m = data->m,
        .t = data->t,
        .rows = data->split.test,
        .truth = data->truth,
        .truth_class = data->truth_class,
        .predicted = f->predicted,
    };
    return in->tested != NULL && data->m > 0 ? in->tested(in->context, &rows, err) : 0;
}

/* Variances in the targets' own units squared have to be numbers: those of targets of 1e160 are
 * not, and those of 1e-170 would be 0. */
static void drop_extreme_variances(struct fit *f)
{
    const struct posterior *p = &f->posterior;
    bool good = true;
    for (int64_t j = 0; p->factor != NULL && j < p->t; j++) {
        const double scale = f->data.target_scale[j];
        const double least = fmin(p->ridge, 1.0) * p->amplitude[j] * scale * scale;
        const double most = fmax(p->ridge, 1.0) * p->amplitude[j] * scale * scale;
        good = good && isfinite(most) && (least > 0 || p->amplitude[j] == 0);
    }
    if (!good) {
        fit__say(f, "warning",
                 "The model has no variance: in the units of its targets squared it would be 0 or "
                 "infinite. Scale the targets.");
        posterior_deinit(&f->posterior);
    }
}

static int choose_timed(struct fit *f, struct err *err)
{
    const double began = f->control->now(f->control->context);
    const int r = fit__choose_kernel(f, err);
    f->choice_s = f->control->now(f->control->context) - began;
    return r;
}

static int run(struct fit *f, const struct fit_input *in, struct model **ret, struct err *err)
{
    fit__show_phase(f, "loading");
    if (f->be->notice[0] != '\0') {
        fit__say(f, "warning", "%s", f->be->notice);
    }
    int r = fit_data_load(f->spec, in->train, in->test, &f->data, err);
    if (r < 0) {
        return r;
    }
    fit__warn(f);
    r = fit__tell_words(f, in->centers, err);
    fit__show_phase(f, "kernel");
    if (r == 0) {
        r = fit__stop_here(f, err);
    }
    if (r == 0) {
        r = choose_timed(f, err);
    }
    if (r == 0) {
        r = fit__search(f, in->centers, err);
    }
    if (r == 0) {
        fit__settle(f);
    }
    mem_trim(); /* what choosing has freed is no part of the solve's memory */
    if (r == 0) {
        r = prepare(f, in->centers, err);
    }
    if (r == 0) {
        r = fit__take_start(f, in->earlier, err);
    }
    if (r == 0) {
        r = fit__find_grid(f, err);
    }
    if (r == 0) {
        const bool single = f->exact != NULL || f->vectors == DTYPE_F32;
        r = fit__keep_kernel(f, f->X, single ? DTYPE_F32 : DTYPE_F64, err);
    }
    if (r == 0) {
        r = solve(f, err);
    }
    if (r == 0 && f->result.outcome.model) {
        fit__warn_of_metrics(f);
        r = show_tested(f, in, err);
    }
    if (r == 0 && f->result.outcome.model) {
        f->result.log_evidence = f->posterior.p > 0 ? f->posterior.log_evidence : NAN;
        drop_extreme_variances(f);
        f->result.directions = f->posterior.p;
        void **points = f->restricted ? &f->centers.chosen.points : &f->data.X;
        r = fit_model_make(f->be, &f->kernel, &f->data, points, &f->A, &f->posterior, ret, err);
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
    posterior_deinit(&f->posterior);
    mem_free(f->found);
    mem_free(f->predicted);
    mem_free(f->sample);
    mem_free(f->sample_Y);
    choice_deinit(&f->chosen);
    fit_centers_deinit(&f->centers);
    fit_data_deinit(&f->data);
}

/* Of `seconds` in one attempt, which ended at `now`. */
static struct fit_phases phases_of(const struct fit *f, double seconds, double now)
{
    const struct solve_outcome *o = &f->result.outcome;
    if (o->earlier_s > 0) {
        return (struct fit_phases){.setup_s = NAN};
    }
    const double after = isnan(f->solved) ? 0.0 : now - f->solved, finish = o->finish_s + after;
    return (struct fit_phases){.setup_s = fmax(seconds - o->iterations_s - finish, 0.0),
                               .choice_s = f->choice_s,
                               .choice_cut_off = f->chosen.late,
                               .iterations_s = o->iterations_s,
                               .finish_s = finish};
}

static void complete_result(struct fit *f)
{
    const double now = f->control->now(f->control->context);
    struct fit_result *r = &f->result;
    r->solver = f->solver != NULL ? f->solver->name : "";
    r->preconditioner = f->options.precond != NULL ? f->options.precond->name : "";
    r->rank = r->outcome.rank;
    r->ridge = (double)f->data.n * r->regularization;
    r->train_rows = f->data.n;
    r->test_rows = f->data.m;
    r->seconds = r->outcome.earlier_s + now - f->control->started;
    r->phases = phases_of(f, r->seconds, now);
    r->peak_memory_bytes = ram_peak();
}

/* Lack of memory or time, and a job that was cancelled or paused, are results, wherever they are
 * met. */
static int failure_to_result(struct fit *f, int r)
{
    const enum reason stopped = f->paused ? REASON_PAUSED : REASON_CANCELLED;
    f->result.outcome = (struct solve_outcome){
        .earlier_s = f->earlier.elapsed_s,
        .reason = r == -ERR_NO_MEMORY ? REASON_OUT_OF_MEMORY
                  : f->spent          ? REASON_TIME_BUDGET
                                      : stopped,
        .relative_residual = 1.0,
        .relative_residual_bound = 1.0,
        .whitened_residual = NAN,
        .metrics = metrics_none(),
    };
    return r == -ERR_NO_MEMORY || r == -ERR_CANCELLED || f->spent ? 0 : r;
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
        .result.log_evidence = NAN,
        .result.bandwidth = NAN,
        .solved = NAN,
    };
    if (spec->precision == PRECISION_FLOAT32 && !f.restricted) {
        f.vectors = DTYPE_F32; /* normal equations lose too many digits in float32 */
    }
    f.planned_cache = in->kernel_cache_bytes;
    f.open_centers = in->open_centers;
    struct model *model = NULL;
    ram_peak_reset();
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
