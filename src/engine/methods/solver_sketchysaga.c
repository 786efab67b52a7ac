/*
 * SketchySAGA: stochastic gradients with variance reduction by a table, and a preconditioner from a
 * sample of the rows, for a restricted problem (normal.h).
 *
 * Papers: Rathore, Frangella, Udell, "Have ASkotch: Fast methods for large-scale,
 * memory-constrained kernel ridge regression", arXiv:2407.10070, version 1, Algorithm 5; Frangella,
 * Rathore, Zhao, Udell, arXiv:2309.02014. Everything by rule is in stochastic.h. Notation:
 *     w -> B   psi -> table   x -> mean = K_nm' table   b_g -> a batch of b rows
 *     D = (K_b B - Y_b) - table_b          what is new of the batch's residuals
 *     G = mean + ridge K_mm B + (n/b) K_b' D
 *     mean += K_b' D,  table_b += D,  B -= eta P^-1 G,  eta = 1 / (2 L)
 *
 * A step is one batch; an iteration is an epoch, each row once in a new random order. An epoch
 * evaluates n m kernel values, each once, and m^2 for each batch. Memory besides that of
 * stochastic.h: n t numbers of the table and 3 m t.
 *
 * Residual. |mean + ridge K_mm B| estimates that of the normal equations for nothing: it is exact
 * where the table is. The true one takes a pass over the rows, which renews table and mean. It is
 * computed every `residual_every` epochs, and when the estimate has reached the tolerance at the
 * end of an epoch; only it decides, and steps report the last one known.
 *
 * Where the estimate grows beyond `grown` times the gradient at 0, or the true residual beyond
 * `grown` times its best, the step is halved and B goes back to where the residual was smallest:
 * -ERR_DIVERGED after HALVINGS_MAX times without anything better than 0. STAGNATED: STALE_CHECKS
 * true residuals in a row that are not below `improvement` times the best.
 *
 * Deviations from the paper:
 *   - The table begins as the residuals at the first B, by one pass, and mean as their exact sum,
 *     not both as 0.
 *   - L is that of batches of b rows, not of n/50 rows: a batch of the size that steps take is what
 *     a step must not overshoot.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/stochastic.h"
#include "engine/normal.h"

enum { HALVINGS_MAX = 12, STALE_CHECKS = 5 };

static const double grown = 10.0;
static const double improvement = 0.98;
static const char halved_note[] =
    "The step was halved because the residual grew: the batches are rougher than those that the "
    "step size was measured on. A larger `batch_size` makes steps safer.";

/* What the pass under way renews the table for. */
enum purpose {
    PURPOSE_NONE,  /* no pass: batches */
    PURPOSE_BEGIN, /* B = 0: the norms of K_nm' Y */
    PURPOSE_START, /* the residual of coefficients to begin with */
    PURPOSE_CHECK, /* the true residual */
    PURPOSE_BACK,  /* after a step back */
    PURPOSES
};

struct solver {
    struct problem p;
    struct stochastic s;
    double tolerance;
    int64_t residual_every;
    bool built, given;
    double build_fraction;
    enum purpose purpose;
    int64_t tile;  /* of the pass under way */
    int64_t batch; /* of the epoch under way */
    int64_t epoch, since_check;
    int halvings, stale_checks;
    int ended;       /* a positive reason, or 0 */
    double relative; /* the last true residual, the largest over columns; 1: at 0 */
    double estimate; /* at the last batch */
    double least;    /* the smallest true residual; of best_B */
    double *norm;    /* [t]: |K_nm' Y_j| */
    struct mat B, mean, best_B;
    struct mat table; /* n x t */
};

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const all[] = {&s->B, &s->mean, &s->best_B, &s->table};
    for (int i = 0; i < 4; i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
    }
    stochastic_deinit(&s->s);
    mem_free(s->norm);
    mem_free(s);
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t m = p->restricted->m;
    s->norm = mem_zarray((size_t)p->t, sizeof(double));
    if (s->norm == NULL) {
        return err_no_memory(err);
    }
    int rc = memory_check_pair(p->be, p->n, p->t, p->dtype, m, 3 * p->t, p->dtype,
                               "table of `sketchysaga`", err);
    rc = rc == 0 ? o->mat_new(p->be, p->dtype, p->n, p->t, &s->table, err) : rc;
    struct mat *const narrow[] = {&s->B, &s->mean, &s->best_B};
    for (int i = 0; rc == 0 && i < 3; i++) {
        rc = o->mat_new(p->be, p->dtype, m, p->t, narrow[i], err);
    }
    return rc;
}

static int setup(const struct problem *p, const struct solver_options *options, struct solver **ret,
                 struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->tolerance = options->tolerance;
    s->residual_every = param_int(&options->params, "residual_every");
    s->purpose = PURPOSE_BEGIN;
    s->relative = s->least = s->estimate = 1.0;
    int rc = allocate(s, err);
    rc = rc == 0 ? stochastic_init(&s->s, p, &options->params, err) : rc;
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int diverged(struct err *err)
{
    return err_set(err, ERR_DIVERGED,
                   "The residual grew however small the step was made. Scale the features and the "
                   "target, raise `regularization`, or take the solver `falkon`.");
}

/* The largest sqrt(squares[j]) / norm[j] over columns; NaN where one is. */
static double largest(const struct solver *s, const double *squares)
{
    double found = 0;
    for (int64_t j = 0; j < s->p.t; j++) {
        const double relative = s->norm[j] > 0 ? sqrt(squares[j]) / s->norm[j] : 0.0;
        found = isnan(relative) || isnan(found) ? (double)NAN : fmax(found, relative);
    }
    return found;
}

/* Back to the best coefficients, with half the step. */
static int step_back(struct solver *s, struct err *err)
{
    if (++s->halvings > HALVINGS_MAX) {
        return s->least < 1.0 ? REASON_STAGNATED : diverged(err);
    }
    s->purpose = PURPOSE_BACK;
    s->tile = 0;
    return s->p.be->ops->copy(s->p.be, &s->best_B, &s->B, err);
}

/* ---- passes ---- */

/* table = K B - Y of a tile, mean += K' of that. */
static int renew(struct solver *s, struct err *err)
{
    const struct restricted *r = s->p.restricted;
    struct row_tile t;
    int rc = rowset_tile(r->rows, s->tile, &t, err);
    if (rc < 0) {
        return rc;
    }
    const struct mat table = mat_rows(s->table, t.first, t.count);
    rc = stochastic_delta(&s->s, t.rows, &t.Y, &s->B, NULL, &table, &s->s.E, err);
    rc = rc == 0 ? stochastic_add(&s->s, 1.0, &s->s.E, s->tile > 0 ? 1.0 : 0.0, &s->mean, err) : rc;
    s->tile++;
    return rc;
}

/* B = 0: K_nm' Y is -mean. */
static int begin(struct solver *s, struct err *err)
{
    double *squares = s->s.dots;
    int rc = s->p.be->ops->col_dots(s->p.be, &s->mean, &s->mean, squares, err);
    bool zero = true;
    for (int64_t j = 0; rc == 0 && j < s->p.t; j++) {
        s->norm[j] = sqrt(squares[j]);
        zero = zero && s->norm[j] == 0;
        if (!isfinite(s->norm[j])) {
            return diverged(err);
        }
    }
    s->purpose = PURPOSE_NONE;
    if (rc == 0 && zero) {
        s->relative = 0;
        return REASON_CONVERGED;
    }
    if (rc == 0 && s->p.start != NULL) {
        s->purpose = PURPOSE_START;
        return s->p.be->ops->copy(s->p.be, s->p.start, &s->B, err);
    }
    return rc;
}

/* The residual of B, of which table and mean are exact. */
static int true_residual(struct solver *s, double *ret, struct err *err)
{
    struct backend *be = s->p.be;
    const struct mat *G = &s->s.G;
    int rc = be->ops->copy(be, &s->mean, G, err);
    rc = rc == 0 ? normal_add_core(s->p.restricted, be, s->p.ridge, &s->B, G, err) : rc;
    rc = rc == 0 ? be->ops->col_dots(be, G, G, s->s.dots, err) : rc;
    *ret = largest(s, s->s.dots);
    return rc;
}

/* Coefficients to begin with that are worse than none are dropped. */
static int take_start(struct solver *s, double relative, struct err *err)
{
    if (!(relative < 1.0)) {
        return step_back(s, err); /* best_B is still 0 */
    }
    s->given = true;
    s->relative = s->least = relative;
    const int rc = s->p.be->ops->copy(s->p.be, &s->B, &s->best_B, err);
    return rc == 0 && relative <= s->tolerance ? REASON_CONVERGED : rc;
}

static int check(struct solver *s, double relative, struct err *err)
{
    const bool better = relative < improvement * s->least;
    s->since_check = 0;
    s->stale_checks = better ? 0 : s->stale_checks + 1;
    if (s->stale_checks >= STALE_CHECKS && s->least < 1.0) {
        return REASON_STAGNATED;
    }
    if (!(relative <= grown * s->least)) {
        return step_back(s, err);
    }
    s->relative = relative;
    int rc = 0;
    if (relative < s->least) {
        s->least = relative;
        rc = s->p.be->ops->copy(s->p.be, &s->B, &s->best_B, err);
    }
    return rc == 0 && relative <= s->tolerance ? REASON_CONVERGED : rc;
}

static int pass(struct solver *s, struct err *err)
{
    int rc = renew(s, err);
    if (rc < 0 || s->tile < rowset_tiles(s->p.restricted->rows)) {
        return rc;
    }
    const enum purpose purpose = s->purpose;
    s->tile = 0;
    if (purpose == PURPOSE_BEGIN) {
        return begin(s, err);
    }
    double relative;
    rc = true_residual(s, &relative, err);
    s->purpose = PURPOSE_NONE;
    s->estimate = relative;
    if (rc < 0 || purpose == PURPOSE_BACK) {
        return rc;
    }
    return purpose == PURPOSE_START ? take_start(s, relative, err) : check(s, relative, err);
}

/* ---- batches ---- */

static int end_epoch(struct solver *s)
{
    s->batch = 0;
    s->epoch++;
    s->since_check++;
    if (s->since_check >= s->residual_every || s->estimate <= s->tolerance) {
        s->purpose = PURPOSE_CHECK;
    }
    return 0;
}

static int iterate(struct solver *s, struct err *err)
{
    struct backend *be = s->p.be;
    const struct backend_ops *o = be->ops;
    struct row_batches *b = &s->s.batches;
    const int64_t count = row_batches_draw(b, s->epoch, s->batch);
    const struct mat T = mat_rows(s->s.T, 0, count), D = mat_rows(s->s.D, 0, count);
    const struct saga_point at = {.W = &s->B, .mean = &s->mean, .weight = 1.0};
    const double eta = 0.5 / s->s.L * exp2(-s->halvings);
    struct row_tile t;
    int rc = rowset_batch(s->p.restricted->rows, b->index, count, &t, err);
    rc = rc == 0 ? o->gather_rows(be, &s->table, b->index, &T, err) : rc;
    rc = rc == 0 ? stochastic_saga_step(&s->s, &at, t.rows, &t.Y, &T, &D, eta, err) : rc;
    s->estimate = largest(s, s->s.dots);
    for (int64_t j = 0; j < s->p.t; j++) {
        s->s.one[j] = 1.0;
    }
    rc = rc == 0 ? o->add_rows(be, s->s.one, &D, b->index, &s->table, err) : rc;
    s->given = true;
    s->batch++;
    if (rc == 0 && !(s->estimate <= grown)) {
        s->batch = 0;
        s->epoch++;
        return step_back(s, err);
    }
    return rc == 0 && s->batch == b->batches ? end_epoch(s) : rc;
}

/* ---- steps ---- */

static int build(struct solver *s, struct err *err)
{
    const int rc = stochastic_build(&s->s, &s->build_fraction, err);
    s->built = rc > 0;
    return rc < 0 ? rc : 0;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    const bool building = !s->built;
    int rc = s->ended;
    if (rc == 0 && building) {
        rc = build(s, err);
    } else if (rc == 0) {
        rc = s->purpose != PURPOSE_NONE ? pass(s, err) : iterate(s, err);
    }
    s->ended = rc > 0 ? rc : 0;
    *ret = (struct step_report){
        .phase = building && rc == 0 ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->build_fraction : (double)NAN,
        .iteration = s->epoch,
        .relative_residual = s->relative,
        .usable = s->given || rc == REASON_CONVERGED,
        .rank = s->built ? s->s.P.rank : 0,
        .note = s->halvings > 0 ? halved_note : s->s.note,
    };
    return rc;
}

/* The best known where the present ones are known to be worse. */
static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    const bool worse = s->ended != 0 || !(s->estimate <= 1.0);
    const bool best = worse && s->least < 1.0;
    return s->p.be->ops->copy(s->p.be, best ? &s->best_B : &s->B, A, err);
}

/* ---- checkpoints ---- */

enum { COUNTERS = 9, NUMBERS = 5 };

static int save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t counters[COUNTERS] = {s->purpose, s->tile,         s->batch,
                                        s->epoch,   s->since_check,  s->halvings,
                                        s->ended,   s->stale_checks, s->given};
    const double numbers[NUMBERS] = {s->relative, s->estimate, s->least, s->s.damping, s->s.L};
    int rc = state_put_ints(to, "counters", counters, COUNTERS, err);
    rc = rc == 0 ? state_put_reals(to, "numbers", numbers, NUMBERS, err) : rc;
    rc = rc == 0 ? state_put_reals(to, "norm", s->norm, s->p.t, err) : rc;
    rc = rc == 0 ? state_put_mat(to, "B", s->p.be, &s->B, err) : rc;
    rc = rc == 0 ? state_put_mat(to, "best", s->p.be, &s->best_B, err) : rc;
    rc = rc == 0 ? state_put_mat(to, "mean", s->p.be, &s->mean, err) : rc;
    return rc == 0 ? state_lend_mats(to, "table", s->p.be, &s->table, 1, err) : rc;
}

/* What save may have left. */
static bool plausible(const struct solver *s, const int64_t *c, const double *x)
{
    const bool reason = c[6] == 0 || c[6] == REASON_CONVERGED || c[6] == REASON_STAGNATED;
    return reason && c[0] >= 0 && c[0] < PURPOSES && c[1] >= 0 &&
           c[1] < rowset_tiles(s->p.restricted->rows) && c[2] >= 0 && c[2] < s->s.batches.batches &&
           c[3] >= 0 && c[3] < INT32_MAX && c[4] >= 0 && c[5] >= 0 && c[5] <= HALVINGS_MAX &&
           c[7] >= 0 && c[7] <= STALE_CHECKS && x[3] > 0 && x[4] > 0 && isfinite(x[3]) &&
           isfinite(x[4]);
}

static void take_numbers(struct solver *s, const int64_t *c, const double *x)
{
    s->purpose = (enum purpose)c[0];
    s->tile = c[1];
    s->batch = c[2];
    s->epoch = c[3];
    s->since_check = c[4];
    s->halvings = (int)c[5];
    s->ended = (int)c[6];
    s->stale_checks = (int)c[7];
    s->given = c[8] != 0;
    s->relative = x[0];
    s->estimate = x[1];
    s->least = x[2];
    stochastic_recall(&s->s, x[3], x[4]);
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    int64_t counters[COUNTERS];
    double numbers[NUMBERS];
    int rc = state_get_ints(from, "counters", counters, COUNTERS, err);
    rc = rc == 0 ? state_get_reals(from, "numbers", numbers, NUMBERS, err) : rc;
    if (rc == 0 && !plausible(s, counters, numbers)) {
        return err_set(err, ERR_CORRUPT, "The checkpoint's arrays have numbers out of range.");
    }
    rc = rc == 0 ? state_get_reals(from, "norm", s->norm, s->p.t, err) : rc;
    rc = rc == 0 ? state_get_mat(from, "B", s->p.be, &s->B, err) : rc;
    rc = rc == 0 ? state_get_mat(from, "best", s->p.be, &s->best_B, err) : rc;
    rc = rc == 0 ? state_get_mat(from, "mean", s->p.be, &s->mean, err) : rc;
    rc = rc == 0 ? state_get_mats(from, "table", s->p.be, &s->table, 1, err) : rc;
    if (rc == 0) {
        take_numbers(s, counters, numbers);
    }
    return rc;
}

const struct solver_ops solver_sketchysaga_ops = {
    .name = "sketchysaga",
    .restricted = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
