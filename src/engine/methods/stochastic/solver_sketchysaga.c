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
 *     mean += K_b' D,  table_b += D,  B -= eta P^-1 G,  eta = alpha / L
 * with the paper's alpha, `learning_rate_scaling`, 1/2 unless given.
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
 * true residuals in a row that are not below `improvement` times the best. The best are those of
 * the smallest true residual among coefficients whose f, which comes with it, is not above that of
 * 0; they are handed out where the present ones are known to be worse.
 *
 * Deviations from the paper:
 *   - Batches are those of shuffled epochs, each row once an epoch, not drawn afresh each step.
 *   - The table begins as the residuals at the first B, by one pass, and mean as their exact sum,
 *     not both as 0.
 *   - L is that of batches of b rows, not of n/50 rows: a batch of the size that steps take is what
 *     a step must not overshoot.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/stochastic/stochastic_course.h"
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
    PURPOSE_BACK,  /* the best, again */
    PURPOSES
};

struct solver {
    struct problem p;
    struct stochastic s;
    double tolerance;
    int64_t residual_every;
    bool built, given;
    double build_fraction;
    struct stochastic_course c; /* at.own: epochs since the last check; is.own: the estimate */
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
    mem_free(s);
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t m = p->restricted->m;
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
    s->c.at.purpose = PURPOSE_BEGIN;
    s->c.is.relative = s->c.is.least = s->c.is.own = 1.0;
    int rc = allocate(s, err);
    rc = rc == 0 ? stochastic_init(&s->s, p, &options->params, err) : rc;
    s->s.scaling = param_real(&options->params, "learning_rate_scaling");
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

/* Back to the best coefficients. */
static int take_best(struct solver *s, struct err *err)
{
    s->c.at.purpose = PURPOSE_BACK;
    s->c.at.tile = 0;
    return s->p.be->ops->copy(s->p.be, &s->best_B, &s->B, err);
}

/* The same, and on with half the step. */
static int step_back(struct solver *s, struct err *err)
{
    if (++s->c.at.backs > HALVINGS_MAX) {
        return s->c.is.least < 1.0 ? REASON_STAGNATED : stochastic_diverged(err);
    }
    return take_best(s, err);
}

/* ---- passes ---- */

/* table = K B - Y of a tile, mean += K' of that. */
static int renew(struct solver *s, struct err *err)
{
    const struct restricted *r = s->p.restricted;
    struct row_tile t;
    int rc = rowset_tile(r->rows, s->c.at.tile, &t, err);
    if (rc < 0) {
        return rc;
    }
    const struct mat table = mat_rows(s->table, t.first, t.count);
    rc = stochastic_delta(&s->s, t.rows, &t.Y, &s->B, NULL, &table, &s->s.E, err);
    rc = rc == 0 ? stochastic_add(&s->s, 1.0, &s->s.E, s->c.at.tile > 0 ? 1.0 : 0.0, &s->mean, err)
                 : rc;
    s->c.at.tile++;
    return rc;
}

/* The sum of X_j'Z_j over columns. */
static int sum_products(struct solver *s, const struct mat *X, const struct mat *Z, double *ret,
                        struct err *err)
{
    const int rc = s->p.be->ops->col_dots(s->p.be, X, Z, s->s.dots, err);
    *ret = 0;
    for (int64_t j = 0; rc == 0 && j < s->p.t; j++) {
        *ret += s->s.dots[j];
    }
    return rc;
}

/* B = 0: K_nm' Y is -mean. */
static int begin(struct solver *s, struct err *err)
{
    bool zero;
    int rc = stochastic_take_norms(&s->s, &s->mean, &zero, err);
    rc = rc == 0 ? sum_products(s, &s->table, &s->table, &s->c.is.zero, err) : rc;
    s->c.at.purpose = PURPOSE_NONE;
    if (rc == 0 && zero) {
        s->c.is.relative = 0;
        return REASON_CONVERGED;
    }
    if (rc == 0 && s->p.start != NULL) {
        s->c.at.purpose = PURPOSE_START;
        return s->p.be->ops->copy(s->p.be, s->p.start, &s->B, err);
    }
    return rc;
}

/* The residual of B, of which table and mean are exact, and f - f at 0 = (|table|^2 +
 * B'(G - mean) - |Y|^2) / 2, G being the gradient. */
static int true_residual(struct solver *s, double *ret, struct err *err)
{
    struct backend *be = s->p.be;
    const struct mat *G = &s->s.G;
    double squares = 0, slope = 0, before = 0;
    int rc = sum_products(s, &s->table, &s->table, &squares, err);
    rc = rc == 0 ? sum_products(s, &s->B, &s->mean, &before, err) : rc;
    rc = rc == 0 ? be->ops->copy(be, &s->mean, G, err) : rc;
    rc = rc == 0 ? normal_add_core(s->p.restricted, be, s->p.ridge, &s->B, G, err) : rc;
    rc = rc == 0 ? sum_products(s, &s->B, G, &slope, err) : rc;
    rc = rc == 0 ? be->ops->col_dots(be, G, G, s->s.dots, err) : rc;
    *ret = stochastic_relative(&s->s);
    s->c.is.value = 0.5 * (squares + slope - before - s->c.is.zero);
    return rc;
}

/* Coefficients to begin with that are worse than none are dropped. */
static int take_start(struct solver *s, double relative, struct err *err)
{
    if (!(relative < 1.0 && s->c.is.value <= 0)) {
        return take_best(s, err); /* which are still 0 */
    }
    s->c.at.given = true;
    s->c.is.relative = s->c.is.least = relative;
    const int rc = s->p.be->ops->copy(s->p.be, &s->B, &s->best_B, err);
    return rc == 0 && relative <= s->tolerance ? REASON_CONVERGED : rc;
}

static int check(struct solver *s, double relative, struct err *err)
{
    const bool sound = s->c.is.value <= 0;
    const bool better = sound && relative < improvement * s->c.is.least;
    s->c.at.own = 0;
    s->c.at.stale = better ? 0 : s->c.at.stale + 1;
    if (s->c.at.stale >= STALE_CHECKS && s->c.is.least < 1.0) {
        return REASON_STAGNATED;
    }
    if (!(relative <= grown * s->c.is.least)) {
        return step_back(s, err);
    }
    s->c.is.relative = relative;
    int rc = 0;
    if (sound && relative < s->c.is.least) {
        s->c.is.least = relative;
        rc = s->p.be->ops->copy(s->p.be, &s->B, &s->best_B, err);
    }
    return rc == 0 && relative <= s->tolerance ? REASON_CONVERGED : rc;
}

static int pass(struct solver *s, struct err *err)
{
    int rc = renew(s, err);
    if (rc < 0 || s->c.at.tile < rowset_tiles(s->p.restricted->rows)) {
        return rc;
    }
    const enum purpose purpose = s->c.at.purpose;
    s->c.at.tile = 0;
    if (purpose == PURPOSE_BEGIN) {
        return begin(s, err);
    }
    double relative;
    rc = true_residual(s, &relative, err);
    s->c.at.purpose = PURPOSE_NONE;
    s->c.is.own = relative;
    if (rc < 0 || purpose == PURPOSE_BACK) {
        return rc;
    }
    return purpose == PURPOSE_START ? take_start(s, relative, err) : check(s, relative, err);
}

/* ---- batches ---- */

static int end_epoch(struct solver *s)
{
    s->c.at.batch = 0;
    s->c.at.epoch++;
    s->c.at.own++;
    if (s->c.at.own >= s->residual_every || s->c.is.own <= s->tolerance) {
        s->c.at.purpose = PURPOSE_CHECK;
    }
    return 0;
}

static int iterate(struct solver *s, struct err *err)
{
    struct backend *be = s->p.be;
    const struct backend_ops *o = be->ops;
    struct row_batches *b = &s->s.batches;
    const int64_t count = row_batches_draw(b, s->c.at.epoch, s->c.at.batch);
    const struct mat T = mat_rows(s->s.T, 0, count), D = mat_rows(s->s.D, 0, count);
    const struct saga_point at = {.W = &s->B, .mean = &s->mean, .weight = 1.0};
    const double eta = s->s.scaling / s->s.L * exp2(-(double)s->c.at.backs);
    struct row_tile t;
    int rc = rowset_batch(s->p.restricted->rows, b->index, count, &t, err);
    rc = rc == 0 ? o->gather_rows(be, &s->table, b->index, &T, err) : rc;
    rc = rc == 0 ? stochastic_saga_step(&s->s, &at, t.rows, &t.Y, &T, &D, eta, err) : rc;
    s->c.is.own = stochastic_relative(&s->s);
    for (int64_t j = 0; j < s->p.t; j++) {
        s->s.one[j] = 1.0;
    }
    rc = rc == 0 ? o->add_rows(be, s->s.one, &D, b->index, &s->table, err) : rc;
    s->c.at.given = true;
    s->c.at.batch++;
    if (rc == 0 && !(s->c.is.own <= grown)) {
        s->c.at.batch = 0;
        s->c.at.epoch++;
        return step_back(s, err);
    }
    return rc == 0 && s->c.at.batch == b->batches ? end_epoch(s) : rc;
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
    int rc = (int)s->c.at.ended;
    if (rc == 0 && building) {
        rc = build(s, err);
    } else if (rc == 0) {
        rc = s->c.at.purpose != PURPOSE_NONE ? pass(s, err) : iterate(s, err);
    }
    s->c.at.ended = rc > 0 ? rc : 0;
    *ret = (struct step_report){
        .phase = building && rc == 0 ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->build_fraction : (double)NAN,
        .iteration = s->c.at.epoch,
        .relative_residual = s->c.is.relative,
        .usable = s->c.at.given || rc == REASON_CONVERGED,
        .rank = s->built ? s->s.P.rank : 0,
        .note = s->c.at.backs > 0 ? halved_note : s->s.note,
    };
    return rc;
}

/* The best known where the present ones are known to be worse; 0 where only that is better. */
static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    const bool worse = s->c.at.ended != 0 || !(s->c.is.own <= 1.0);
    const bool best = s->c.is.value > 0 || (worse && s->c.is.least < 1.0);
    return s->p.be->ops->copy(s->p.be, best ? &s->best_B : &s->B, A, err);
}

/* ---- checkpoints ---- */

static const struct stochastic_bounds bounds = {
    .purposes = PURPOSES, .backs = HALVINGS_MAX + 1, .stale = STALE_CHECKS, .own = INT32_MAX};

static int save(const struct solver *s, struct state *to, struct err *err)
{
    const struct stochastic_matrix kept[] = {
        {"B", &s->B}, {"best", &s->best_B}, {"mean", &s->mean}, {NULL, NULL}};
    const int rc = stochastic_save(&s->s, &s->c, kept, to, err);
    return rc == 0 ? state_lend_mats(to, "table", s->p.be, &s->table, 1, err) : rc;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    const struct stochastic_matrix kept[] = {
        {"B", &s->B}, {"best", &s->best_B}, {"mean", &s->mean}, {NULL, NULL}};
    const int rc = stochastic_load(&s->s, from, &bounds, kept, &s->c, err);
    return rc == 0 ? state_get_mats(from, "table", s->p.be, &s->table, 1, err) : rc;
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
