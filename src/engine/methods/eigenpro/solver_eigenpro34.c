#include <math.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/memory.h"
#include "engine/methods/eigenpro/eigenpro34.h"
#include "engine/methods/methods.h"

enum { LEAST_BATCH = 64, LEAST_VALUES = 1 << 18, LEAST_BATCHES = 8 };

#define STEP_VALUES 1e6 /* kernel values of a step of batches, about */
#define USUAL_ALPHA 0.95
#define WINDOW_BYTES (INT64_C(64) << 20)

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const all[] = {&s->B,  &s->G, &s->D,  &s->Q,       &s->drift,  &s->V,
                               &s->HD, &s->h, &s->hs, &s->us,      &s->av,     &s->u,
                               &s->ug, &s->w, &s->g,  &s->held_av, &s->held_w, &s->gf};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
    }
    center_projection_free(s->projection);
    eigenpro_span_free(s->span);
    conjugate_free(s->outer);
    mem_free(s->centers);
    mem_free(s->rows);
    mem_free(s->far);
    mem_free(s->less);
    mem_free(s->arrays);
    mem_free(s);
}

/* ---- setting up ---- */

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    enum { ARRAYS = EIGENPRO34_REALS + 4 };
    s->arrays = mem_zarray((size_t)s->t, ARRAYS * sizeof(double));
    if (s->arrays == NULL) {
        return err_no_memory(err);
    }
    double **const members[ARRAYS] = {&s->sum,   &s->seen, &s->norm, &s->relative, &s->best,
                                      &s->total, &s->one,  &s->work, &s->dots};
    for (int i = 0; i < ARRAYS; i++) {
        *members[i] = s->arrays + i * s->t;
    }
    eigenpro34__fill(s->one, 1.0, s->t);
    eigenpro34__fill(s->best, INFINITY, s->t);
    int r = memory_check_matrix(p->be, s->m, (11 + 2 * CONJUGATE_KEPT) * s->t, p->dtype,
                                "the solver's vectors", err);
    struct mat *const all[] = {&s->B, &s->G, &s->D, &s->Q, &s->drift, &s->V, &s->HD, &s->h};
    for (int i = 0; r == 0 && i < 8; i++) {
        r = p->be->ops->mat_new(p->be, p->dtype, s->m, s->t, all[i], err);
    }
    return r == 0 ? conjugate_new(p->be, p->dtype, s->m, s->t, &s->outer, err) : r;
}

/* The preconditioner's centers: all, or a random part in ascending order of
 * their places. */
static int draw_centers(struct solver *s, struct err *err)
{
    if (s->c == s->m) {
        return 0;
    }
    s->centers = mem_array((size_t)s->c, sizeof(*s->centers));
    if (s->centers == NULL) {
        return err_no_memory(err);
    }
    const struct row_order order = row_order_new(s->p.seed, ORDER_EIGENPRO_CENTERS, 0, s->m);
    for (int64_t i = 0; i < s->c; i++) {
        s->centers[i] = row_order_at(&order, i);
    }
    return 0;
}

static int64_t int_or(const struct param_set *set, const char *key, int64_t automatic)
{
    return param_get(set, key)->is_auto ? automatic : param_int(set, key);
}

/* Whether the preconditioner knows all of the problem, which leaves nothing for
 * smaller batches to gain. */
static bool whole(const struct solver *s)
{
    const int64_t n = s->p.n;
    return s->s == n && s->c == s->m && s->projecting.exact && n <= s->batch_most &&
           (s->batch_wanted == 0 || s->batch_wanted >= n) && s->q_wanted < 0;
}

static void read_params(struct solver *s, const struct param_set *params)
{
    const char *projection = param_choice(params, "projection");
    const struct param_value *rate = param_get(params, "learning_rate");
    s->c = min_i64(param_int(params, "subsample_centers"), s->m);
    s->s = min_i64(int_or(params, "subsample", max_i64(2000, 5 * s->c)), s->p.n);
    s->q_wanted = int_or(params, "eigenvectors", -1);
    s->batch_wanted = int_or(params, "batch_size", 0);
    const int64_t bytes = param_int(params, "batch_memory_mib") << 20;
    s->batch_most = max_i64(bytes / (s->m * (int64_t)dtype_size(s->p.dtype)), 1);
    s->rate_wanted = rate->is_auto ? 0.0 : rate->real;
    s->plain_epochs = param_int(params, "plain_epochs");
    s->residual_every = param_int(params, "residual_every");
    s->projecting = (struct center_projection_spec){
        .p = &s->p,
        .exact = projection[0] == 'e' || (projection[0] == 'a' && s->m <= CENTER_PROJECTION_EXACT),
        .epochs = param_int(params, "projection_epochs"),
        .subsample = s->c,
        .eigenvectors = s->q_wanted,
    };
    const struct param_value *alpha = param_get(params, "alpha");
    s->alpha = !alpha->is_auto ? alpha->real : whole(s) ? 1.0 : USUAL_ALPHA;
}

static int begin(struct solver *s, struct err *err)
{
    s->at.stage = s->plain_epochs > 0 && s->p.start == NULL ? EP_BATCHES : EP_RIGHT_HAND_SIDE;
    s->at.exact = s->projecting.exact;
    return s->p.start != NULL ? s->p.be->ops->copy(s->p.be, s->p.start, &s->V, err) : 0;
}

static int setup(const struct problem *p, const struct solver_options *options, bool delayed,
                 struct solver **ret, struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->m = p->restricted->m;
    s->t = p->t;
    s->tolerance = options->tolerance;
    s->delayed = delayed;
    read_params(s, &options->params);
    int r = allocate(s, err);
    if (r == 0) {
        r = draw_centers(s, err);
    }
    if (r == 0) {
        r = begin(s, err);
    }
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int setup3(const struct problem *p, const struct solver_options *o, struct solver **ret,
                  struct err *err)
{
    return setup(p, o, false, ret, err);
}

static int setup4(const struct problem *p, const struct solver_options *o, struct solver **ret,
                  struct err *err)
{
    return setup(p, o, true, ret, err);
}

/* ---- building ---- */

int eigenpro34__clear(struct solver *s, const struct mat *X, struct err *err)
{
    cleanup_mem double *zero = mem_zarray((size_t)(X->rows * X->cols) + 1, sizeof(double));
    return zero != NULL ? s->p.be->ops->mat_put(s->p.be, zero, max_i64(X->rows, 1), X, err)
                        : err_no_memory(err);
}

static void begin_rows(struct solver *s)
{
    s->at.next = s->at.window = 0;
    s->window_read = false;
    eigenpro34__fill(s->sum, 0.0, s->t);
    eigenpro34__fill(s->seen, 0.0, s->t);
}

/* delta = 0, nothing outside of the span. */
int eigenpro34__begin_epoch(struct solver *s, struct err *err)
{
    begin_rows(s);
    int r = eigenpro34__clear(s, &s->D, err);
    r = r == 0 ? eigenpro34__clear(s, &s->Q, err) : r;
    r = r == 0 ? eigenpro34__clear(s, &s->av, err) : r;
    s->at.stage = eigenpro34__plain(s) ? EP_BATCHES : EP_DRIFT;
    return r;
}

/* Rows that an automatic batch should have: the critical batch, at least
 * LEAST_BATCH for the sake of the products, and at least LEAST_BATCHES batches
 * an epoch. */
static int64_t usual_batch(const struct solver *s, double critical)
{
    const int64_t most = max_i64(min_i64(s->p.n / LEAST_BATCHES, s->batch_most), 1);
    const double products = fmax((double)LEAST_BATCH, (double)LEAST_VALUES / (double)s->m);
    const double wanted = fmax(critical, products);
    return wanted < (double)most ? (int64_t)wanted : most;
}

static int make_buffers(struct solver *s, struct err *err)
{
    const int64_t b = s->batch, q = eigenpro_span_rank(s->span);
    const int64_t part = s->centers != NULL ? s->c : 0;
    const int64_t window = s->delayed ? s->window_rows : 0;
    const int64_t far = eigenpro_span_far(s->span)->count > 0 ? b : 0;
    const struct {
        struct mat *m;
        int64_t rows, cols;
    } buffers[] = {
        {&s->hs, part, s->t}, {&s->us, s->c, s->t},  {&s->av, q, 2 * s->t}, {&s->u, q, s->t},
        {&s->ug, q, s->t},    {&s->w, window, s->t}, {&s->g, b, s->t},      {&s->gf, far, s->t},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof(buffers) / sizeof(*buffers); i++) {
        r = s->p.be->ops->mat_new(s->p.be, s->p.dtype, buffers[i].rows, buffers[i].cols,
                                  buffers[i].m, err);
    }
    s->a = mat_cols(s->av, 0, s->t);
    s->v = mat_cols(s->av, s->t, s->t);
    s->rows = mem_array((size_t)s->window_rows, sizeof(*s->rows));
    s->far = mem_array((size_t)b, sizeof(*s->far));
    s->less = mem_array((size_t)b, sizeof(*s->less));
    return s->rows == NULL || s->far == NULL || s->less == NULL ? err_no_memory(err) : r;
}

/* u = c U' G, ug = (1 - c) U' G. */
static int gradient_moments(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = eigenpro34__moments(s, &s->G, &s->ug, err);
    r = r == 0 ? o->copy(s->p.be, &s->ug, &s->u, err) : r;
    r = r == 0 ? o->scale_rows(s->p.be, eigenpro_span_damping(s->span), &s->u, err) : r;
    eigenpro34__fill(s->work, -1.0, s->t);
    return r == 0 ? o->col_axpby(s->p.be, s->work, &s->u, s->one, &s->ug, err) : r;
}

/* What a saved state had, into its place, and U' G. Where the sizes are others
 * now, the epoch is begun again. */
static int take_held(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const bool same = s->at.rank == s->av.rows && s->at.batch == s->batch &&
                      s->at.next - s->at.window <= s->window_rows;
    int r = 0;
    if (!same) {
        s->at.epoch = s->at.checked ? s->at.epoch : 0;
        r = s->at.checked ? 0 : eigenpro34__clear(s, &s->G, err);
        s->pass.tile = 0;
        return r == 0 ? eigenpro34__begin_epoch(s, err) : r;
    }
    if (s->held_av.rows > 0) {
        r = o->copy(s->p.be, &s->held_av, &s->av, err);
    }
    if (r == 0 && s->held_w.rows > 0) {
        const struct mat w = mat_rows(s->w, 0, s->held_w.rows);
        r = o->copy(s->p.be, &s->held_w, &w, err);
    }
    const bool drifts = s->at.checked && s->av.rows > 0;
    return r == 0 && drifts ? gradient_moments(s, err) : r;
}

/* b, T b and what needs them. T >= 1 always. */
static int finish_building(struct solver *s, struct err *err)
{
    const int64_t n = s->p.n;
    s->batch = min_i64(s->batch_wanted, n);
    if (whole(s)) {
        s->batch = n;
    } else if (s->batch == 0) {
        const int64_t most = usual_batch(s, eigenpro_span_critical(s->span));
        const int64_t batches = (n + most - 1) / most;
        s->batch = (n + batches - 1) / batches;
    }
    const int64_t row = (s->p.d + s->t) * (int64_t)sizeof(double);
    const int64_t room = min_i64(s->m, WINDOW_BYTES / row);
    s->window_rows = s->delayed ? s->batch * max_i64(room / s->batch, 1) : s->batch;
    s->built = true;
    const int r = make_buffers(s, err);
    return r == 0 && s->loaded ? take_held(s, err) : r;
}

static int build(struct solver *s, struct err *err)
{
    double part = 0;
    if (s->projection == NULL) {
        return center_projection_new(&s->projecting, &s->projection, err);
    }
    int r = 1;
    if (s->span == NULL) {
        r = center_projection_build(s->projection, &part, err);
        s->fraction = 0.5 * part;
        if (r <= 0) {
            return r;
        }
        const struct eigenpro_span_spec spec = {
            .p = &s->p,
            .order = row_order_new(s->p.seed, ORDER_EIGENPRO_SPAN, 0, s->p.n),
            .s = s->s,
            .centers = s->centers,
            .c = s->c,
            .L = s->c == s->m ? center_projection_factor(s->projection) : NULL,
            .q = s->q_wanted,
            .alpha = s->alpha,
            .projected = !s->delayed && s->c == s->m && s->projecting.exact,
            .whole = whole(s),
        };
        return eigenpro_span_new(&spec, &s->span, err);
    }
    r = eigenpro_span_step(s->span, &part, err);
    s->fraction = 0.5 + 0.5 * part;
    return r > 0 ? finish_building(s, err) : r;
}

/* ---- epochs ---- */

/* Residuals out of bounds: the epoch again, plain ones from the first. */
static int restart(struct solver *s, struct err *err)
{
    if (++s->at.halvings > EIGENPRO34_HALVINGS) {
        return err_at(err, ERR_DIVERGED, "#/regularization",
                      "The iteration diverges however small the step was made. Scale the "
                      "features "
                      "and the target, raise `regularization`, or use precision float64.");
    }
    int r = 0;
    if (eigenpro34__plain(s)) {
        s->at.epoch = 0;
        eigenpro34__fill(s->relative, 0.0, s->t); /* a look at what was is none of what begins */
        r = eigenpro34__clear(s, &s->G, err);
    }
    return r == 0 ? eigenpro34__begin_epoch(s, err) : r;
}

static int batches(struct solver *s, struct err *err)
{
    double values = 0;
    int r = 0;
    bool grown = false;
    while (r == 0 && !grown && s->at.stage == EP_BATCHES && values < STEP_VALUES) {
        r = eigenpro34__batch(s, &grown, err);
        values += (double)s->batch * (double)(s->m + (s->delayed ? s->window_rows / 2 : 0));
        s->at.stage = eigenpro34__window_ends(s) ? EP_PROJECTION : EP_BATCHES;
    }
    return r == 0 && grown ? restart(s, err) : r;
}

/* An epoch's rows are done, and projected. */
static void end_rows(struct solver *s)
{
    const bool plain = eigenpro34__plain(s);
    s->at.draws++;
    if (plain && s->at.epoch + 1 < s->plain_epochs) {
        s->at.epoch++;
        begin_rows(s);
        s->at.stage = s->at.epoch % s->residual_every == 0 ? EP_LOOK : EP_BATCHES;
        return;
    }
    s->at.stage = EP_CHECK;
}

/* ---- projections ---- */

/* *ret: theta of H; 0 while it is not there yet. */
static int project(struct solver *s, const struct mat *H, struct mat *ret, struct err *err)
{
    int r = s->projecting_now ? 0 : center_projection_begin(s->projection, H, err);
    s->projecting_now = true;
    r = r == 0 ? center_projection_step(s->projection, ret, err) : r;
    s->projecting_now = r == 0;
    return r;
}

/* What P added goes through an inexact projection with the rest. */
static bool takes_along(const struct solver *s)
{
    return !s->projecting.exact && eigenpro_span_rank(s->span) > 0;
}

/* V <- G, less K(Z,Z_c) U (c U' G) where an inexact projection takes along what P adds. */
static int precondition_gradient(struct solver *s, struct err *err)
{
    int r = s->p.be->ops->copy(s->p.be, &s->G, &s->V, err);
    if (r < 0 || eigenpro_span_rank(s->span) == 0) {
        return r;
    }
    r = gradient_moments(s, err);
    return r == 0 && takes_along(s) ? eigenpro34__add_values(s, &s->u, -1.0, &s->V, err) : r;
}

/* What P takes away is taken from the projection: as values, projected with
 * the rest, its rounding errors would outweigh what P leaves. */
static int find_drift(struct solver *s, struct err *err)
{
    struct mat theta;
    int r = s->projecting_now ? 0 : precondition_gradient(s, err);
    r = r == 0 ? project(s, &s->V, &theta, err) : r;
    if (r <= 0) {
        return r;
    }
    s->at.stage = EP_BATCHES;
    r = s->p.be->ops->copy(s->p.be, &theta, &s->drift, err);
    const bool adds = eigenpro_span_rank(s->span) > 0 && !takes_along(s);
    return r == 0 && adds ? eigenpro34__add_functions(s, -1.0, &s->u, &s->drift, err) : r;
}

/* h <- the values at Z of what is to be projected. */
static int values_outside(struct solver *s, struct err *err)
{
    const int r = s->p.be->ops->copy(s->p.be, &s->Q, &s->h, err);
    return r == 0 && takes_along(s) ? eigenpro34__add_values(s, &s->v, 1.0, &s->h, err) : r;
}

/* D -= U v, which theta holds. */
static int take_out(struct solver *s, struct err *err)
{
    return eigenpro34__add_functions(s, -1.0, &s->v, &s->D, err);
}

/* D += theta, and no temporary centers any more. */
static int finish_window(struct solver *s, struct err *err)
{
    struct mat theta;
    int r = s->projecting_now ? 0 : values_outside(s, err);
    r = r == 0 ? project(s, &s->h, &theta, err) : r;
    if (r <= 0) {
        return r;
    }
    r = takes_along(s) ? take_out(s, err) : 0;
    if (r < 0) {
        return r;
    }
    r = s->p.be->ops->copy(s->p.be, &theta, &s->h, err);
    if (r == 0) {
        r = s->p.be->ops->col_axpby(s->p.be, s->one, &s->h, s->one, &s->D, err);
    }
    if (r == 0 && takes_along(s)) {
        r = eigenpro34__refresh_moments(s, err);
    }
    if (r == 0) {
        r = eigenpro34__clear(s, &s->v, err);
    }
    if (r == 0 && !s->at.checked) {
        r = s->p.be->ops->copy(s->p.be, &s->D, &s->V, err);
    }
    if (r == 0) {
        r = eigenpro34__clear(s, &s->Q, err);
    }
    s->at.window = s->at.next;
    s->window_read = false;
    s->at.stage = EP_BATCHES;
    if (r == 0 && s->at.next == s->p.n) {
        end_rows(s);
    }
    return r;
}

/* ---- steps ---- */

static int advance(struct solver *s, struct err *err)
{
    switch ((enum eigenpro34_stage)s->at.stage) {
    case EP_DRIFT:
        return find_drift(s, err);
    case EP_BATCHES:
        return batches(s, err);
    case EP_PROJECTION:
        return finish_window(s, err);
    default:
        return eigenpro34__advance_pass(s, err);
    }
}

static double largest_residual(const struct solver *s)
{
    double largest = 0;
    for (int64_t j = 0; j < s->t; j++) {
        largest = fmax(largest, s->relative[j]);
    }
    return s->at.checked || largest > 0 ? largest : (double)NAN;
}

static bool usable(const struct solver *s)
{
    const bool projected = !s->at.checked && s->at.window > 0;
    return s->at.epoch > 0 || s->at.given || s->at.ended > 0 || projected;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    const bool building = !s->built;
    int r = (int)s->at.ended;
    if (r == 0) {
        r = building ? build(s, err) : advance(s, err);
    }
    s->at.ended = r > 0 ? r : 0;
    *ret = (struct step_report){
        .phase = building && r == 0 ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->fraction : (double)NAN,
        .iteration = s->at.epoch,
        .relative_residual = largest_residual(s),
        .usable = usable(s),
        .rank = s->built ? eigenpro_span_rank(s->span) : 0,
    };
    return r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, s->at.checked ? &s->B : &s->V, A, err);
}

const struct solver_ops solver_eigenpro3_ops = {
    .name = "eigenpro3",
    .restricted = true,
    .setup = setup3,
    .step = step,
    .coef = coef,
    .save = eigenpro34__save,
    .load = eigenpro34__load,
    .teardown = teardown,
};

const struct solver_ops solver_eigenpro4_ops = {
    .name = "eigenpro4",
    .restricted = true,
    .setup = setup4,
    .step = step,
    .coef = coef,
    .save = eigenpro34__save,
    .load = eigenpro34__load,
    .teardown = teardown,
};
