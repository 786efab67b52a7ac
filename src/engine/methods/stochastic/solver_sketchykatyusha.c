/*
 * SketchyKatyusha: stochastic gradients with variance reduction by snapshots and with momentum, and
 * a preconditioner from a sample of the rows, for a restricted problem (normal.h).
 *
 * Papers: Frangella, Rathore, Zhao, Udell, "PROMISE: Preconditioned stochastic optimization methods
 * by incorporating scalable curvature estimates", arXiv:2309.02014, Algorithm 7; Kovalev, Horvath,
 * Richtarik, "Don't jump through hoops and remove those loops", arXiv:1901.08689, Algorithm 2.
 * Everything by rule is in stochastic.h. Notation:
 *     y -> Y   z -> Z   w, the snapshot -> W   its gradient -> gradient   q batches an epoch
 *     sigma = mu / L,  theta2 = 1/2,  theta1 = min(sqrt(2 q sigma / 3), 1/2),
 *     eta = theta2 / ((1 + theta2) theta1)
 *     X = theta1 Z + theta2 W + (1 - theta1 - theta2) Y
 *     G = gradient(W) + ((n/b) K_b' K_b + ridge K_mm) (X - W)
 *     Z' = (eta sigma X + Z - eta / L P^-1 G) / (1 + eta sigma)
 *     Y = X + theta1 (Z' - Z),  Z = Z',  and W = Y with the chance 1 / q
 *
 * A step is one batch, or a piece of the pass over all rows that a snapshot takes; an iteration is
 * an epoch, q batches, which meet each row once. An epoch evaluates n m kernel values, and as many
 * for its snapshots on average; besides, m^2 for each batch. There is no table: memory besides that
 * of stochastic.h is 8 m t numbers, and nothing grows with n.
 *
 * Residual. That of every snapshot is exact, and steps report the last one. The best snapshot is
 * that of the smallest one among those whose f is not above that of 0. The momentum is dropped
 * where f has risen from one snapshot to the next. Where the residual grows beyond `grown` times
 * its best, or a gradient beyond `grown` times that at 0, L is doubled and everything goes back to
 * the best snapshot: -ERR_DIVERGED after DOUBLINGS_MAX times without anything better than 0.
 * STAGNATED: STALE_SNAPSHOTS in a row that are not below `improvement` times the best.
 *
 * Deviations from the papers: mu, the convexity of f in the norm of P, is not lambda. With P exact
 * for its sample, H >= c ridge / rho P, where c says how much the sample exaggerates; a quarter is
 * taken, and a hundredth for sketches (rank < m), of which nothing is known: too small a mu costs
 * little, since momentum that leads uphill is dropped. After LOWER_EVERY snapshots in a row that
 * were no better it is lowered to a quarter.
 */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/stochastic/stochastic_course.h"
#include "engine/normal.h"
#include "engine/products.h"

enum { DOUBLINGS_MAX = 12, STALE_SNAPSHOTS = 20, LOWER_EVERY = 5, MATRICES = 8 };

static const double grown = 10.0;
static const double improvement = 0.98;
static const double mu_share_exact = 0.25, mu_share_sketch = 0.01;
/* Of a guess, so that ridge = 0 has a momentum at all. */
static const double sigma_floor = 1e-12;
static const double theta2 = 0.5;
static const double lowering = 0.25;
static const char doubled_note[] =
    "The step was halved because the residual grew: the batches are rougher than those that the "
    "step size was measured on. A larger `batch_size` makes steps safer.";

/* What the pass under way computes the gradient of W for. */
enum purpose {
    PURPOSE_NONE,  /* no pass: batches */
    PURPOSE_BEGIN, /* W = 0: -K_nm' Y */
    PURPOSE_START, /* coefficients to begin with */
    PURPOSE_SNAPSHOT,
    PURPOSES
};

struct solver {
    struct problem p;
    struct stochastic s;
    double tolerance, mu; /* mu = 0: by rule */
    bool built, given;
    double build_fraction;
    double theta1, eta, sigma, L;
    struct stochastic_course c; /* at.own: how often mu was lowered; is.own: f(W) - f(0), summed
                                   over columns */
    struct normal_pass pass;
    struct mat Y, Z, W, X, best_W;
    struct mat gradient, rhs; /* of f at W; K_nm' Y */
    struct mat V;             /* X - W */
};

static void matrices_of(struct solver *s, struct mat *ret[MATRICES])
{
    struct mat *const all[MATRICES] = {&s->Y,      &s->Z,        &s->W,   &s->X,
                                       &s->best_W, &s->gradient, &s->rhs, &s->V};
    for (int i = 0; i < MATRICES; i++) {
        ret[i] = all[i];
    }
}

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *all[MATRICES];
    matrices_of(s, all);
    for (int i = 0; i < MATRICES; i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
    }
    stochastic_deinit(&s->s);
    mem_free(s);
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t m = p->restricted->m;
    struct mat *all[MATRICES];
    matrices_of(s, all);
    int rc = memory_check_matrix(p->be, m, MATRICES * p->t, p->dtype, "coefficients", err);
    for (int i = 0; rc == 0 && i < MATRICES; i++) {
        rc = p->be->ops->mat_new(p->be, p->dtype, m, p->t, all[i], err);
    }
    return rc;
}

static int setup(const struct problem *p, const struct solver_options *options, struct solver **ret,
                 struct err *err)
{
    const struct param_set *params = &options->params;
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->tolerance = options->tolerance;
    s->mu = param_get(params, "mu")->is_auto ? 0 : param_real(params, "mu");
    s->c.at.purpose = PURPOSE_BEGIN;
    s->c.is.relative = s->c.is.least = 1.0;
    int rc = allocate(s, err);
    rc = rc == 0 ? stochastic_init(&s->s, p, params, err) : rc;
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

/* The constants of the momentum, of L and its doublings. */
static void set_constants(struct solver *s)
{
    const double share = s->s.P.exact ? mu_share_exact : mu_share_sketch;
    const double guess = share * fmin(s->p.ridge / s->s.P.rho, 1.0);
    s->L = s->s.L * exp2((double)s->c.at.backs);
    const double guessed = fmax(guess * pow(lowering, (double)s->c.at.own) / s->L, sigma_floor);
    s->sigma = fmin(s->mu > 0 ? s->mu / s->L : guessed, 1.0);
    s->theta1 = fmin(sqrt(2.0 * (double)s->s.batches.batches * s->sigma / 3.0), 0.5);
    s->eta = theta2 / ((1.0 + theta2) * s->theta1);
}

/* Y and Z go back to W. */
static int drop_momentum(struct solver *s, struct err *err)
{
    const int rc = s->p.be->ops->copy(s->p.be, &s->W, &s->Y, err);
    return rc == 0 ? s->p.be->ops->copy(s->p.be, &s->W, &s->Z, err) : rc;
}

/* Back to the best snapshot, with twice the L. */
static int step_back(struct solver *s, struct err *err)
{
    if (++s->c.at.backs > DOUBLINGS_MAX) {
        return s->c.is.least < 1.0 ? REASON_STAGNATED : stochastic_diverged(err);
    }
    set_constants(s);
    s->c.at.purpose = PURPOSE_SNAPSHOT;
    s->pass = (struct normal_pass){0};
    s->c.is.own = INFINITY;
    const int rc = s->p.be->ops->copy(s->p.be, &s->best_W, &s->W, err);
    return rc == 0 ? drop_momentum(s, err) : rc;
}

/* ---- snapshots ---- */

/* W = 0: its gradient is -K_nm' Y. */
static int begin(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int rc = stochastic_add(&s->s, -1.0, &s->gradient, 0.0, &s->rhs, err);
    bool zero = false;
    rc = rc == 0 ? stochastic_take_norms(&s->s, &s->rhs, &zero, err) : rc;
    s->c.at.purpose = PURPOSE_NONE;
    if (rc == 0 && zero) {
        s->c.is.relative = 0;
        return REASON_CONVERGED;
    }
    if (rc == 0 && s->p.start != NULL) {
        s->c.at.purpose = PURPOSE_START;
        return o->copy(s->p.be, s->p.start, &s->W, err);
    }
    return rc;
}

/* f(W) - f(0) = W'(gradient - rhs) / 2 and the residual. */
static int measure(struct solver *s, double *ret_value, double *ret_relative, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    double *dots = s->s.dots;
    *ret_value = 0;
    int rc = o->col_dots(s->p.be, &s->W, &s->gradient, dots, err);
    for (int64_t j = 0; j < s->p.t; j++) {
        *ret_value += 0.5 * dots[j];
    }
    rc = rc == 0 ? o->col_dots(s->p.be, &s->W, &s->rhs, dots, err) : rc;
    for (int64_t j = 0; j < s->p.t; j++) {
        *ret_value -= 0.5 * dots[j];
    }
    rc = rc == 0 ? o->col_dots(s->p.be, &s->gradient, &s->gradient, dots, err) : rc;
    *ret_relative = stochastic_relative(&s->s);
    return rc;
}

/* Coefficients to begin with that are worse than none are dropped. */
static int take_start(struct solver *s, struct err *err)
{
    double value, relative;
    int rc = measure(s, &value, &relative, err);
    if (rc < 0) {
        return rc;
    }
    s->c.at.purpose = PURPOSE_NONE;
    if (!(relative < 1.0 && value <= 0)) { /* best_W is still 0 */
        rc = s->p.be->ops->copy(s->p.be, &s->best_W, &s->W, err);
        rc = rc == 0 ? stochastic_add(&s->s, -1.0, &s->rhs, 0.0, &s->gradient, err) : rc;
        return rc == 0 ? drop_momentum(s, err) : rc;
    }
    s->c.at.given = true;
    s->c.is.relative = s->c.is.least = relative;
    s->c.is.own = value;
    rc = s->p.be->ops->copy(s->p.be, &s->W, &s->best_W, err);
    rc = rc == 0 ? drop_momentum(s, err) : rc;
    return rc == 0 && relative <= s->tolerance ? REASON_CONVERGED : rc;
}

static int take_snapshot(struct solver *s, struct err *err)
{
    double value, relative;
    int rc = measure(s, &value, &relative, err);
    if (rc < 0) {
        return rc;
    }
    s->c.at.purpose = PURPOSE_NONE;
    const bool sound = value <= 0;
    s->c.at.stale = sound && relative < improvement * s->c.is.least ? 0 : s->c.at.stale + 1;
    if (s->c.at.stale >= STALE_SNAPSHOTS && s->c.is.least < 1.0) {
        return REASON_STAGNATED;
    }
    if (!(relative <= grown * s->c.is.least)) {
        return step_back(s, err);
    }
    const bool uphill = value > s->c.is.own;
    s->c.is.own = value;
    s->c.is.relative = relative;
    if (sound && relative < s->c.is.least) {
        s->c.is.least = relative;
        rc = s->p.be->ops->copy(s->p.be, &s->W, &s->best_W, err);
    }
    if (rc == 0 && relative <= s->tolerance) {
        return REASON_CONVERGED;
    }
    const bool stuck = s->c.at.stale > 0 && s->c.at.stale % LOWER_EVERY == 0;
    s->c.at.own += stuck;
    set_constants(s);
    return rc == 0 && (uphill || stuck) ? drop_momentum(s, err) : rc;
}

/* A piece of the gradient at W, and what follows the last one. */
static int pass(struct solver *s, struct err *err)
{
    const struct restricted *r = s->p.restricted;
    int rc = normal_gradient(r, s->p.be, &s->pass, &s->W, true, &s->gradient, err);
    if (rc <= 0) {
        return rc;
    }
    if (s->c.at.purpose == PURPOSE_BEGIN) {
        return begin(s, err);
    }
    rc = normal_add_core(r, s->p.be, s->p.ridge, &s->W, &s->gradient, err);
    if (rc < 0) {
        return rc;
    }
    return s->c.at.purpose == PURPOSE_START ? take_start(s, err) : take_snapshot(s, err);
}

/* ---- batches ---- */

/* X, V = X - W and G = gradient(W) + H_b V. */
static int gradient(struct solver *s, struct view P, struct err *err)
{
    struct backend *be = s->p.be;
    const struct restricted *r = s->p.restricted;
    struct stochastic *c = &s->s;
    const double share = (double)s->p.n / (double)P.count;
    int rc = be->ops->copy(be, &s->Y, &s->X, err);
    rc = rc == 0 ? stochastic_add(c, s->theta1, &s->Z, 1.0 - s->theta1 - theta2, &s->X, err) : rc;
    rc = rc == 0 ? stochastic_add(c, theta2, &s->W, 1.0, &s->X, err) : rc;
    rc = rc == 0 ? be->ops->copy(be, &s->X, &s->V, err) : rc;
    rc = rc == 0 ? stochastic_add(c, -1.0, &s->W, 1.0, &s->V, err) : rc;
    rc = rc == 0 ? product_normal(be, P, view_all(r->Z, r->m), NULL, &s->V, NULL, false, &c->E, err)
                 : rc;
    rc = rc == 0 ? be->ops->copy(be, &s->gradient, &c->G, err) : rc;
    rc = rc == 0 ? stochastic_add(c, share, &c->E, 1.0, &c->G, err) : rc;
    return rc == 0 ? normal_add_core(r, be, s->p.ridge, &s->V, &c->G, err) : rc;
}

/* Z' = (eta sigma X + Z - eta / L D) / (1 + eta sigma), Y = X + theta1 (Z' - Z), D = P^-1 G. */
static int move(struct solver *s, struct err *err)
{
    struct stochastic *c = &s->s;
    const double pull = s->eta * s->sigma, over = 1.0 / (1.0 + pull);
    int rc = hessian_sketch_apply(&c->P, &c->G, err);
    rc = rc == 0 ? s->p.be->ops->copy(s->p.be, &s->X, &s->Y, err) : rc;
    rc = rc == 0 ? stochastic_add(c, -s->theta1, &s->Z, 1.0, &s->Y, err) : rc;
    rc = rc == 0 ? stochastic_add(c, pull * over, &s->X, over, &s->Z, err) : rc;
    rc = rc == 0 ? stochastic_add(c, -s->eta / s->L * over, &c->G, 1.0, &s->Z, err) : rc;
    return rc == 0 ? stochastic_add(c, s->theta1, &s->Z, 1.0, &s->Y, err) : rc;
}

/* The coin of a step is a pure function of its number. */
static bool snapshot_due(const struct solver *s)
{
    const int64_t batches = s->s.batches.batches;
    struct rng rng = rng_new(s->p.seed, RNG_SOLVER);
    rng.position = (uint64_t)(s->c.at.epoch * batches + s->c.at.batch);
    return rng_uniform(&rng) * (double)batches < 1.0;
}

static int iterate(struct solver *s, struct err *err)
{
    struct row_batches *b = &s->s.batches;
    const int64_t count = row_batches_draw(b, s->c.at.epoch, s->c.at.batch);
    struct row_tile t;
    int rc = rowset_batch(s->p.restricted->rows, b->index, count, &t, err);
    rc = rc == 0 ? gradient(s, t.rows, err) : rc;
    rc = rc == 0 ? s->p.be->ops->col_dots(s->p.be, &s->s.G, &s->s.G, s->s.dots, err) : rc;
    if (rc < 0) {
        return rc;
    }
    const bool wild = !(stochastic_relative(&s->s) <= grown);
    const bool due = snapshot_due(s);
    rc = wild ? step_back(s, err) : move(s, err);
    s->c.at.given = true;
    if (++s->c.at.batch == b->batches) {
        s->c.at.batch = 0;
        s->c.at.epoch++;
    }
    if (rc == 0 && due && !wild) {
        s->c.at.purpose = PURPOSE_SNAPSHOT;
        rc = s->p.be->ops->copy(s->p.be, &s->Y, &s->W, err);
    }
    return rc;
}

/* ---- steps ---- */

static int build(struct solver *s, struct err *err)
{
    const int rc = stochastic_build(&s->s, &s->build_fraction, err);
    s->built = rc > 0;
    if (s->built) {
        set_constants(s);
    }
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
        .note = s->c.at.backs > 0 ? doubled_note : s->s.note,
    };
    return rc;
}

/* The best snapshot at the end, or where the last one is worse than 0. */
static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    const bool best = s->c.at.ended != 0 || s->c.is.own > 0;
    return s->p.be->ops->copy(s->p.be, best ? &s->best_W : &s->Y, A, err);
}

/* ---- checkpoints ---- */

enum { KEPT = 6 };

static const struct stochastic_bounds bounds = {
    .purposes = PURPOSES, .backs = DOUBLINGS_MAX + 1, .stale = STALE_SNAPSHOTS, .own = INT32_MAX};

static void kept_of(const struct solver *s, struct stochastic_matrix ret[KEPT + 1])
{
    const struct stochastic_matrix all[KEPT + 1] = {{"Y", &s->Y},
                                                    {"Z", &s->Z},
                                                    {"W", &s->W},
                                                    {"best", &s->best_W},
                                                    {"gradient", &s->gradient},
                                                    {"rhs", &s->rhs},
                                                    {NULL, NULL}};
    for (int i = 0; i <= KEPT; i++) {
        ret[i] = all[i];
    }
}

static int save(const struct solver *s, struct state *to, struct err *err)
{
    struct stochastic_matrix kept[KEPT + 1];
    kept_of(s, kept);
    struct stochastic_course c = s->c;
    c.at.tile = s->pass.tile;
    return stochastic_save(&s->s, &c, kept, to, err);
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    struct stochastic_matrix kept[KEPT + 1];
    kept_of(s, kept);
    const int rc = stochastic_load(&s->s, from, &bounds, kept, &s->c, err);
    s->pass.tile = rc == 0 ? s->c.at.tile : s->pass.tile;
    return rc;
}

const struct solver_ops solver_sketchykatyusha_ops = {
    .name = "sketchykatyusha",
    .restricted = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
