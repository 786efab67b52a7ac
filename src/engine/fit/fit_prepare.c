#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "engine/fit/fit_parts.h"
#include "engine/fit/warm.h"
#include "engine/memory.h"
#include "plan/rules.h"

/* A grid of one to three dimensions takes 150 to 250 for each of its places. */
#define GRID_ROW_BYTES 2048.0
/* Test rows are multiplied now and then, training rows in every step: they may not make the grid of
 * these much larger. */
#define GRID_GROWTH_MOST 2.0

static int make_points(const struct fit *f, const struct rows *rows, enum dtype dtype,
                       struct points **ret, struct err *err)
{
    return f->be->ops->points_new(f->be, &f->kernel, dtype, rows, ret, err);
}

/* A selection may take far longer than the solve, and leaves nothing to keep. Where an earlier
 * attempt has left coefficients, they are worth their centers. */
static int stop_selecting(void *context, struct err *err)
{
    struct fit *f = context;
    const double budget = f->spec->stop.time_budget_s;
    const int r = fit__stop_here(f, err);
    f->spent = r == 0 && !f->earlier.usable && fit__elapsed(f) >= budget;
    return f->spent ? err_at(err, ERR_TOO_LARGE, "#/stop/time_budget_s",
                             "The time budget of %g s was spent before the centers were selected: "
                             "ask for fewer, or for a method that looks at fewer rows.",
                             budget)
                    : r;
}

static void tell_selected(void *context, double fraction)
{
    fit__show_share(context, "centers", fraction);
}

enum dtype fit__centers_dtype(const struct fit *f)
{
    return f->result.precision == PRECISION_FLOAT64 ? DTYPE_F64 : DTYPE_F32;
}

static struct fit_centers_task centers_task(struct fit *f, const struct dataset *file)
{
    return (struct fit_centers_task){
        .be = f->be,
        .spec = f->spec,
        .data = &f->data,
        .file = file,
        .kernel = &f->kernel,
        .points = fit__centers_dtype(f),
        .vectors = f->vectors,
        .regularization = f->result.regularization,
        .count = f->chosen.centers,
        .stop = stop_selecting,
        .told = tell_selected,
        .stop_context = f,
    };
}

/* What the selection found of the leverage scores, if it has some, for the result. */
static void note_levels(struct fit *f)
{
    const struct centers *c = &f->centers.chosen;
    struct fit_result *r = &f->result;
    r->levels = c->levels < FIT_LEVELS_MOST ? c->levels : FIT_LEVELS_MOST;
    for (int64_t h = 0; h < r->levels; h++) {
        r->path[h] = c->path[c->levels - r->levels + h];
    }
    if (r->levels > 0) {
        const struct center_level *last = &r->path[r->levels - 1];
        fit__say(f, "info", "Leverage scores: effective dimension %.4g at the regularization %.4g.",
                 last->effective_dimension, last->lambda);
    }
}

int fit__select_centers(struct fit *f, const struct dataset *file, struct err *err)
{
    const int64_t planned = fit_centers_count(f->spec, file, f->data.n);
    fit__show_phase(f, "centers");
    int r = fit__timely_centers(f, file, planned, err);
    const struct fit_centers_task task = centers_task(f, file);
    r = r == 0 ? fit_centers_select(&f->centers, &task, err) : r;
    f->result.centers = f->centers.chosen.m;
    if (r == 0) {
        fit__say(f, "info", "Centers: %" PRId64 ", for %" PRId64 " training rows.",
                 f->result.centers, f->data.n);
        note_levels(f);
        fit__warn_of_centers(f);
    }
    if (r == 0 && f->centers.dependent > 0) {
        fit__say(f, "info",
                 "%" PRId64 " more were left out: with this kernel what they add is a combination "
                 "of the others.",
                 f->centers.dependent);
    }
    return r;
}

int fit__upload_restricted(struct fit *f, struct err *err)
{
    const struct fit_centers_task task = centers_task(f, NULL);
    int r = fit_centers_upload(&f->centers, &task, err);
    if (r == 0 && !rowset_resident(f->centers.rows)) {
        fit__say(f, "info", "There is no room for the rows: they are read as they are needed.");
    }
    if (r == 0) {
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
int fit__upload(struct fit *f, struct err *err)
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

/* As the job's plan has decided, or, without a plan, by the same rule. Where float32 gives way to
 * float64 it stays at that: a part of the values is kept then, and the memory is what was planned.
 */
static int64_t kept_bytes(const struct fit *f, enum dtype points)
{
    const struct keep_shape shape = {
        .kernel = kernel_name(f->kernel.id),
        .d = f->kernel.d,
        .t = f->data.t,
        .dtype = points,
        .room = memory_available_on(f->be),
        .device = f->be->isa == NULL,
    };
    const int64_t *planned = f->planned_cache;
    if (planned == NULL) {
        return rule_kept_bytes(f->spec, &shape, NULL);
    }
    return *planned < shape.room / 2 ? *planned : shape.room / 2;
}

/* A state to go on from may have coefficients that are worth more than the time. */
static int stop_keeping(void *context, struct err *err)
{
    struct fit *f = context;
    const double budget = f->spec->stop.time_budget_s;
    const int r = fit__stop_here(f, err);
    f->spent = r == 0 && !f->resumes && fit__elapsed(f) >= budget;
    return f->spent ? err_at(err, ERR_TOO_LARGE, "#/stop/time_budget_s",
                             "The time budget of %g s was spent while the kernel values to keep in "
                             "memory were computed, before the method had any coefficients.",
                             budget)
                    : r;
}

static void tell_grid(const struct fit *f, const struct grid *g)
{
    char shape[32 * GRID_DIMS] = "";
    size_t end = 0;
    for (int k = 0; k < g->dims; k++) {
        end += (size_t)snprintf(shape + end, sizeof shape - end, "%s%" PRId64, k > 0 ? " x " : "",
                                g->size[k]);
    }
    if (g->scattered) {
        fit__say(f, "info",
                 "The rows have few features: products with the kernel matrix go by Fourier "
                 "transforms of %s places.",
                 shape);
        return;
    }
    fit__say(f, "info",
             "The rows lie on a %sgrid of %s places: products with the kernel matrix go by %s.",
             g->kronecker ? "" : "regular ", shape,
             g->kronecker ? "a matrix for each feature" : "Fourier transforms");
}

/* Of the training points, and with `test` of these and the test points. */
static int search_grid(struct fit *f, bool test, struct grid *ret, struct err *err)
{
    struct points *sets[POINTS_GRID_SETS] = {f->X};
    int count = 1;
    if (f->exact != NULL) {
        sets[count++] = f->exact;
    }
    if (test) {
        sets[count++] = f->X_test;
    }
    const double room = (double)memory_available_on(f->be) / 2;
    const int64_t bytes = (int64_t)fmin(GRID_ROW_BYTES * (double)f->data.n, room);
    return f->be->ops->points_grid(f->be, sets, count, bytes, ret, err);
}

/* Where the rows lie on a grid, or go by one: all points that the solver and its test multiply
 * with, or those of the solver alone. */
int fit__find_grid(struct fit *f, struct err *err)
{
    if (!f->solver->whole_products || f->be->ops->points_grid == NULL) {
        return 0;
    }
    struct grid *own = &f->result.grid, all = {.dims = 0};
    int r = search_grid(f, false, own, err);
    if (r == 0 && own->dims > 0 && f->X_test != NULL) {
        r = search_grid(f, true, &all, err);
        const bool fits = all.dims > 0 && all.scattered == own->scattered &&
                          grid_places(&all) <= GRID_GROWTH_MOST * grid_places(own);
        if (fits) {
            *own = all;
        } else if (r == 0) {
            r = search_grid(f, false, own, err);
        }
    }
    if (r == 0 && own->dims > 0) {
        tell_grid(f, own);
    }
    if (r == -ERR_NO_MEMORY) { /* it goes without */
        *own = (struct grid){.dims = 0};
        return 0;
    }
    return r;
}

/* Kernel values in memory, where the solver multiplies with the whole matrix again and again. The
 * solve asks in its own way. */
int fit__keep_kernel(struct fit *f, struct points *X, enum dtype points, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    if (!f->solver->whole_products || o->points_cache == NULL || f->result.grid.dims > 0) {
        return 0;
    }
    const int64_t budget = kept_bytes(f, points);
    int64_t *const bytes = &f->result.kernel_cache_bytes;
    const bool solving = f->be->stop != NULL;
    if (!solving) {
        f->be->stop = stop_keeping;
        f->be->stop_context = f;
    }
    const int r = o->points_cache(f->be, X, budget, KERNEL_STORE_EXACT, bytes, err);
    f->be->stop = solving ? f->be->stop : NULL;
    if (r == 0 && *bytes > 0) {
        fit__say(f, "info", "Kernel values kept in memory: %.3g GB, of %.3g GB that they may take.",
                 (double)*bytes / 1e9, (double)budget / 1e9);
    }
    return r;
}

/* The solver multiplies with the exact points from now on: what is kept of the others goes. A pause
 * or a cancel that is asked for meanwhile is the driver's to hear, before the next step: this is in
 * the middle of one, or of taking a checkpoint up. */
int fit__widened(void *context, struct err *err)
{
    struct fit *f = context;
    int64_t bytes;
    f->result.precision = PRECISION_FLOAT64;
    const int r = f->result.kernel_cache_bytes > 0
                      ? f->be->ops->points_cache(f->be, f->X, 0, KERNEL_STORE_EXACT, &bytes, err)
                      : 0;
    f->result.kernel_cache_bytes = 0;
    mem_trim(); /* what goes shall not lie beside what comes */
    const int kept = r == 0 ? fit__keep_kernel(f, f->exact, DTYPE_F64, err) : r;
    return kept == -ERR_CANCELLED ? 0 : kept;
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
        fit__say(f, found > 0 ? "info" : "warning",
                 "Warm start: %" PRId64 " of %" PRId64
                 " %s have coefficients in the earlier model.",
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
        return f->resumes ? 0 : no_earlier_model(f, err);
    }
    if (f->solver->direct || f->solver->cold) {
        fit__say(f, "info", "Warm start: the solver \"%s\" %s and has no use for one.",
                 f->solver->name,
                 f->solver->direct ? "is direct" : "makes its directions from the targets");
        return 0;
    }
    return upload_start(f, earlier, err);
}

int fit__take_start(struct fit *f, struct model **earlier, struct err *err)
{
    const int r = prepare_start(f, earlier != NULL ? *earlier : NULL, err);
    if (earlier != NULL) {
        *earlier = model_free(*earlier);
    }
    return r;
}
