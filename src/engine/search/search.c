#include "engine/search/search_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/data/fit_rows.h"
#include "engine/evidence.h"
#include "engine/search/ridge_path.h"
#include "plan/rules.h"

static void deinit(struct search *s)
{
    mem_free(s->sampled_X);
    mem_free(s->sampled_Y);
    mem_free(s->order);
    mem_free(s->truth);
    mem_free(s->truth_class);
    mem_free(s->A);
    mem_free(s->R);
    mem_free(s->diagonals);
    mem_free(s->index);
    mem_free(s->centers);
    mem_free(s->missed);
    mem_free(s->evidence);
}

double search__regularization(const struct search *s, int64_t l)
{
    const struct search_spec *spec = s->task->spec;
    return spec->regularizations > 0 ? spec->regularization[l] : s->task->regularization;
}

double search__ridge(const struct search *s, int64_t l)
{
    const int64_t rows = s->result->metric == SEARCH_EVIDENCE ? s->task->data->n : s->n;
    return (double)rows * search__regularization(s, l);
}

/* ---- rows ---- */

static int sample(struct search *s, struct rng *rng, struct err *err)
{
    const struct fit_data *data = s->task->data;
    const size_t row = (size_t)data->d * dtype_size(data->dtype);
    cleanup_mem int64_t *index = mem_array((size_t)s->n, sizeof(*index));
    s->sampled_X = mem_array((size_t)s->n, row);
    s->sampled_Y = mem_array((size_t)(s->n * s->t), sizeof(double));
    if (index == NULL || s->sampled_X == NULL || s->sampled_Y == NULL) {
        return err_no_memory(err);
    }
    const struct row_source rows = fit_rows_train(data);
    int r = rng_choose(rng, data->n, s->n, index, err);
    r = r == 0 ? rows.read(&rows, 0, index, s->n, s->sampled_X, s->sampled_Y, err) : r;
    s->X.data = s->sampled_X;
    s->Y = s->sampled_Y;
    return r;
}

static int draw_rows(struct search *s, struct err *err)
{
    if (s->result->centers > 0) {
        return search__draw_centers(s, err);
    }
    struct rng rng = rng_new(s->task->seed, RNG_SEARCH);
    s->order = mem_array((size_t)s->n, sizeof(*s->order));
    if (s->order == NULL) {
        return err_no_memory(err);
    }
    const int r = s->n < s->task->data->n ? sample(s, &rng, err) : 0;
    for (int64_t i = 0; i < s->n; i++) {
        s->order[i] = i;
    }
    rng_shuffle(&rng, s->order, s->n);
    return r;
}

/* The truth that left-out predictions are compared with, as fit_data_metrics wants it. */
static int load_truth(struct search *s, struct err *err)
{
    const struct fit_data *data = s->task->data;
    s->truth = mem_array((size_t)(s->n * s->t), sizeof(double));
    s->truth_class = mem_zarray((size_t)s->n, sizeof(int64_t));
    if (s->truth == NULL || s->truth_class == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < s->t; j++) {
        for (int64_t i = 0; i < s->n; i++) {
            const double y = data->target_mean[j] + data->target_scale[j] * s->Y[i + j * s->n];
            s->truth[i + j * s->n] = y;
            if (y > s->truth[i + s->truth_class[i] * s->n]) {
                s->truth_class[i] = j; /* one target a class: 1 for the row's own */
            }
        }
    }
    s->judge = *data;
    s->judge.m = s->n;
    s->judge.truth = s->truth;
    s->judge.truth_class = s->truth_class;
    return 0;
}

static int init(struct search *s, struct err *err)
{
    const struct search_spec *spec = s->task->spec;
    if (spec->folds > s->n) {
        return err_at(err, ERR_INVALID, "#/search/folds",
                      "There are %" PRId64 " folds and %" PRId64 " training rows.", spec->folds,
                      s->n);
    }
    const bool full = s->result->centers == 0;
    const int64_t diagonals = full && spec->folds == 0 ? search_regularizations(s->task->spec) : 0;
    s->A = mem_array((size_t)(full ? s->n * s->t : 0), sizeof(double));
    s->R = mem_array((size_t)(s->n * s->t), sizeof(double));
    s->diagonals = mem_array((size_t)(s->n * diagonals), sizeof(double));
    if (s->A == NULL || s->R == NULL || s->diagonals == NULL) {
        return err_no_memory(err);
    }
    const int r = draw_rows(s, err);
    return r == 0 ? load_truth(s, err) : r;
}

/* ---- progress ---- */

/* Between two shares that are said. */
static const double silence_s = 1.0;

static void show(struct search *s, double share)
{
    const struct solve_control *c = s->task->control;
    const double all = (double)search_bandwidths(s->task->spec), now = c->now(c->context);
    struct progress p = progress_none();
    p.phase = "searching";
    p.step = ((double)s->bandwidths + share) / all;
    p.elapsed_s = now - c->started;
    p.search = search_progress_of(s->result);
    s->told = now;
    c->report(c->context, &p);
}

static void show_done(struct search *s, int64_t bandwidths)
{
    s->bandwidths = bandwidths;
    if (s->task->control->report != NULL) {
        show(s, 0);
    }
}

void search__show_share(void *context, double share)
{
    struct search *s = context;
    const struct solve_control *c = s->task->control;
    if (c->report != NULL && c->now(c->context) - s->told >= silence_s) {
        show(s, share);
    }
}

/* What a decomposition takes of a full model's bandwidth: 9 n^3 multiplications, and n^3 / folds
 * for each regularization where there are folds, otherwise next to nothing. */
static double decomposition_share(const struct search *s)
{
    const double folds = (double)s->task->spec->folds;
    const double ridges = (double)search_regularizations(s->task->spec);
    return folds > 0 ? 9.0 / (9.0 + ridges / folds) : 0.9;
}

static void show_pair(struct search *s, int64_t l, double share)
{
    const double begun = decomposition_share(s);
    const double pairs = (double)search_regularizations(s->task->spec);
    search__show_share(s, begun + (1.0 - begun) * ((double)l + share) / pairs);
}

/* ---- one pair ---- */

/* R <- what the predictions miss when each row is left out. */
static void leave_one_out(struct search *s, int64_t l)
{
    const double *h = s->diagonals + l * s->n;
    for (int64_t k = 0; k < s->n * s->t; k++) {
        s->R[k] = s->A[k] / h[k % s->n];
    }
}

/* R <- the same, a fold at a time. `index`, `missed`: workspace of n and n t. */
static int leave_folds_out(struct search *s, struct ridge_path *path, int64_t l, double ridge,
                           int64_t *index, double *missed, struct err *err)
{
    const int64_t folds = s->task->spec->folds;
    for (int64_t f = 0; f < folds; f++) {
        const int stopped = s->task->stop(s->task->stop_context, err);
        if (stopped < 0) {
            return stopped;
        }
        show_pair(s, l, (double)f / (double)folds);
        int64_t count = 0;
        for (int64_t k = f; k < s->n; k += folds) {
            index[count++] = s->order[k];
        }
        const int r = ridge_path_fold(path, ridge, index, count, s->A, missed, err);
        if (r < 0) {
            return r;
        }
        for (int64_t k = 0; k < count * s->t; k++) {
            s->R[index[k % count] + k / count * s->n] = missed[k];
        }
    }
    return 0;
}

static int left_out(struct search *s, struct ridge_path *path, int64_t l, double ridge,
                    struct err *err)
{
    const int r = ridge_path_solve(path, ridge, false, s->A, err);
    if (r < 0) {
        return r;
    }
    if (s->task->spec->folds == 0) {
        leave_one_out(s, l);
        return 0;
    }
    cleanup_mem int64_t *index = mem_array((size_t)s->n, sizeof(*index));
    cleanup_mem double *missed = mem_array((size_t)(s->n * s->t), sizeof(*missed));
    return index != NULL && missed != NULL ? leave_folds_out(s, path, l, ridge, index, missed, err)
                                           : err_no_memory(err);
}

/* Is point `at` better than the best so far? Metrics beyond the range of double judge nothing. */
static bool wins(const struct search *s, int64_t at)
{
    const struct search_result *r = s->result;
    const struct search_point *p = &r->points[at];
    const double mine = search_score(r->metric, p);
    if (!isfinite(mine) || s->leader < 0) {
        return isfinite(mine);
    }
    const struct search_point *q = &r->points[s->leader];
    const double other = search_score(r->metric, q);
    return mine > other || (mine == other && p->regularization > q->regularization);
}

/* What is to be small: 0 is perfect. */
static double loss(const struct search_result *r, int64_t at)
{
    const double value = search_score(r->metric, &r->points[at]);
    return search_metric_rises(r->metric) ? 1.0 - value : -value;
}

/* The pair to take. Models on centers stand for one of more terms: their number regularizes, so
 * that they may not tell small regularizations apart which that one does. Of those that are as good
 * as the best, with its bandwidth, the largest is taken. */
static int64_t settle(const struct search *s)
{
    const struct search_result *r = s->result;
    const int64_t count = search_regularizations(s->task->spec);
    int64_t best = s->leader;
    if (r->centers == 0 || best < 0 || r->metric == SEARCH_EVIDENCE) {
        return best;
    }
    const int64_t first = best / count * count;
    for (int64_t at = first; at < first + count && at < r->count; at++) {
        const bool larger = r->points[at].regularization > r->points[best].regularization;
        if (larger && loss(r, at) <= (1.0 + SEARCH_ALIKE) * loss(r, s->leader)) {
            best = at;
        }
    }
    return best;
}

int search__judge(struct search *s, int64_t l, double bandwidth, bool defined, double evidence,
                  struct err *err)
{
    struct search_result *result = s->result;
    struct search_point *point = &result->points[result->count];
    *point =
        (struct search_point){search__regularization(s, l), bandwidth, metrics_none(), evidence};
    if (defined) {
        for (int64_t k = 0; k < s->n * s->t; k++) {
            s->R[k] = s->Y[k] - s->R[k];
        }
        const int r = fit_data_metrics(&s->judge, s->R, &point->metrics, err);
        if (r < 0) {
            return r;
        }
    }
    if (wins(s, result->count)) {
        s->leader = result->count;
    }
    result->count++;
    result->best = settle(s);
    return 0;
}

/* ln p(y) of all targets, once A is there. */
static double evidence(const struct search *s, const struct ridge_path *path, double ridge)
{
    const struct evidence of = {.n = s->n,
                                .ridge = ridge,
                                .amplitude = s->task->amplitude,
                                .log_det = ridge_path_log_det(path, ridge)};
    double sum = 0;
    for (int64_t j = 0; j < s->t; j++) {
        double quadratic = 0;
        for (int64_t i = 0; i < s->n; i++) {
            quadratic += s->Y[i + j * s->n] * s->A[i + j * s->n];
        }
        sum += evidence_of_target(&of, ridge * quadratic);
    }
    return sum;
}

/* A fold's matrix that cannot be factorised, for rounding, leaves the pair without metrics. */
static int try_pair(struct search *s, struct ridge_path *path, int64_t l, double bandwidth,
                    struct err *err)
{
    const double ridge = search__ridge(s, l);
    bool defined = ridge_path_defined(path, ridge);
    int r = defined ? left_out(s, path, l, ridge, err) : 0;
    defined = defined && r == 0;
    r = r == -ERR_NOT_POSITIVE_DEFINITE ? 0 : r;
    const bool wanted = defined && s->result->metric == SEARCH_EVIDENCE;
    const double found = wanted ? evidence(s, path, ridge) : (double)NAN;
    return r == 0 ? search__judge(s, l, bandwidth, defined, found, err) : r;
}

/* ---- one bandwidth ---- */

static void tell(const struct search *s, int64_t first)
{
    const struct solve_control *control = s->task->control;
    const struct search_result *r = s->result;
    if (control->tell == NULL) {
        return;
    }
    cleanup_json struct json *data = search_result_to_json(r);
    char text[256], pair[96] = "no pair could be judged";
    if (r->best >= 0) {
        const struct search_point *p = &r->points[r->best];
        char bandwidth[32] = "";
        if (!isnan(p->bandwidth)) {
            snprintf(bandwidth, sizeof(bandwidth), ", bandwidth %.6g", p->bandwidth);
        }
        snprintf(pair, sizeof(pair), "best so far regularization %.3g%s, %s %.6g",
                 p->regularization, bandwidth, search_metric_name(r->metric),
                 search_value(r, r->best));
    }
    snprintf(text, sizeof(text),
             "Search: %" PRId64 " pairs judged, %" PRId64 " of them just now; %s.", r->count,
             r->count - first, pair);
    control->tell(control->context, text, data);
}

static int try_all(struct search *s, struct ridge_path *path, double bandwidth, struct err *err)
{
    const int64_t count = search_regularizations(s->task->spec), best = s->result->best;
    cleanup_mem double *ridges = mem_array((size_t)count, sizeof(*ridges));
    if (ridges == NULL) {
        return err_no_memory(err);
    }
    for (int64_t l = 0; l < count; l++) {
        ridges[l] = search__ridge(s, l);
    }
    int r = 0;
    if (s->task->spec->folds == 0) {
        r = ridge_path_diagonals(path, ridges, count, s->diagonals, err);
    }
    for (int64_t l = 0; r == 0 && l < count; l++) {
        show_pair(s, l, 0);
        r = try_pair(s, path, l, bandwidth, err);
    }
    const int64_t now_best = s->result->best;
    if (r == 0 && now_best != best && s->coef != NULL) {
        const double ridge = (double)s->n * s->result->points[now_best].regularization;
        r = ridge_path_solve(path, ridge, true, s->coef, err);
    }
    return r;
}

static int try_full(struct search *s, const struct kernel *kernel, double bandwidth,
                    struct err *err)
{
    const struct search_task *task = s->task;
    struct ridge_path *path = NULL;
    int r = ridge_path_new(task->be, kernel, task->data->dtype, &s->X, s->Y, s->t, &path, err);
    if (r == 0) {
        r = try_all(s, path, bandwidth, err);
    }
    ridge_path_free(path);
    return r;
}

static int try_bandwidth(struct search *s, const struct kernel *kernel, struct err *err)
{
    const bool scalar = kernel_uses_distance(kernel->id) && kernel->bandwidths == NULL;
    const double bandwidth = scalar ? kernel->bandwidth : (double)NAN;
    const int64_t first = s->result->count;
    const int r = s->result->centers > 0 ? search__try_centers(s, kernel, bandwidth, err)
                                         : try_full(s, kernel, bandwidth, err);
    if (r == 0) {
        tell(s, first);
    }
    return r;
}

/* The first bandwidth is tried where there is any time; others where by the time of those `done`
 * half of it is left for the model. */
static bool out_of_time(const struct search *s, int64_t done)
{
    const struct solve_control *c = s->task->control;
    const double gone = c->now(c->context) - c->started, budget = s->task->time_budget_s;
    return done > 0 ? gone / (double)done * (double)(done + 1) > budget / 2.0 : gone >= budget;
}

static int try_everything(struct search *s, struct err *err)
{
    const struct search_task *task = s->task;
    const int64_t count = search_bandwidths(task->spec);
    struct kernel kernel = task->kernel;
    show_done(s, 0);
    for (int64_t b = 0; b < count && !out_of_time(s, b); b++) {
        int r = task->stop(task->stop_context, err);
        if (r == 0) {
            kernel.bandwidth =
                task->spec->bandwidths > 0 ? task->spec->bandwidth[b] : kernel.bandwidth;
            r = try_bandwidth(s, &kernel, err);
        }
        if (r < 0) {
            return r;
        }
        show_done(s, b + 1);
    }
    return 0;
}

static int nothing_found(const struct search_result *r, struct err *err)
{
    return err_at(err, ERR_INVALID, "#/search",
                  "None of the %" PRId64
                  " pairs tried could be judged: the kernel matrix with its ridge is not positive "
                  "definite for any of them in this precision, or \"%s\" is not defined on these "
                  "training rows, or beyond the range of double.",
                  r->count, search_metric_name(r->metric));
}

int search_run(const struct search_task *task, struct search_result *ret, double *ret_coef,
               struct err *err)
{
    const struct fit_data *data = task->data;
    const bool classes = data->columns.task == TASK_CLASSIFICATION;
    *ret = (struct search_result){
        .best = -1,
        .pairs = search_bandwidths(task->spec) * search_regularizations(task->spec),
        .folds = task->spec->folds,
        .metric = task->spec->metric != SEARCH_AUTO ? task->spec->metric
                  : classes                         ? SEARCH_ACCURACY
                                                    : SEARCH_RMSE,
    };
    const struct rule_search size =
        rule_search_size(task->spec, data->n, data->t, task->centers, task->time_budget_s);
    ret->rows = size.rows;
    ret->centers = size.centers;
    ret->sampled = size.rows < data->n;
    struct search s = {
        .task = task,
        .result = ret,
        .coef = ret->sampled || ret->centers > 0 ? NULL : ret_coef,
        .n = ret->rows,
        .t = data->t,
        .leader = -1,
        .X = fit_data_train(data),
        .Y = data->Y,
    };
    s.X.n = ret->rows;
    int r = init(&s, err);
    if (r == 0) {
        r = try_everything(&s, err);
    }
    deinit(&s);
    return r == 0 && ret->count > 0 && ret->best < 0 ? nothing_found(ret, err) : r;
}

/* ---- the solution found on the way ---- */

struct solver {
    struct problem p;
};

static int solution_setup(const struct problem *p, const struct solver_options *options,
                          struct solver **ret, struct err *err)
{
    (void)options;
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    *ret = s;
    return 0;
}

static int solution_step(struct solver *s, struct step_report *ret, struct err *err)
{
    (void)s;
    (void)err;
    *ret = (struct step_report){
        .phase = "iterating", .fraction = 1.0, .relative_residual = NAN, .usable = true};
    return REASON_CONVERGED;
}

static int solution_coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, s->p.start, A, err);
}

static void solution_teardown(struct solver *s)
{
    mem_free(s);
}

const struct solver_ops search_solution_ops = {
    .name = "eigendecomposition",
    .setup = solution_setup,
    .step = solution_step,
    .coef = solution_coef,
    .teardown = solution_teardown,
};
