/*
 * Preconditioned conjugate gradients for (K + ridge I) B = Y.
 *
 * Paper: Diaz, Epperly, Frangella, Tropp, Webber, "Robust, randomized preconditioning for kernel
 * ridge regression", arXiv:2304.12465, Algorithm 3 (after Golub and Van Loan, 10.3).
 * Notation of the paper, a column a target; the t columns run side by side and share each product
 * with K, while every scalar below has one value a column:
 *     M = K + ridge I     beta -> B   r -> R   z -> Z   p -> P   v = M p -> V
 *     omega = z'r         eta = omega / p'v    gamma = omega_new / omega
 *
 * Cost of a step: n^2 kernel values, n^2 t multiplications, one application of the preconditioner.
 * Memory: 5 n t numbers and the preconditioner; in mixed precision 2 n t float32 numbers and the
 * points in float64 besides.
 *
 * Beyond the paper:
 *   - Every `residual_every` iterations, and before a column may count as converged, the recursive
 *     residual is replaced by the true one, Y - M B. A column whose two residuals differ by more
 *     than half starts again from steepest descent (gamma = 0).
 *   - A column whose true residual reached the tolerance is frozen; Y_j = 0 is frozen from the
 * start with B_j = 0.
 *   - p'v <= 0 or z'r <= 0 for r /= 0 ends with BREAKDOWN before B changes; infinity or NaN with
 *     -ERR_DIVERGED.
 *   - STAGNATED: in STALE_CHECKS checks in a row no column's true residual fell below 0.9 of its
 * best so far, and in all of them more than a tenth of it was the drift between the two residuals,
 *     that is, rounding error. A mere plateau, which CG often leaves, has no such drift.
 *   - Given coefficients to begin with, the first step takes R = Y - M B for them; a column that
 *     they leave with more than |Y_j| begins with B_j = 0 all the same.
 *
 * In mixed precision (the problem has exact points) products take float32 kernel values and float32
 * vectors, all else is float64, and residuals that count are measured with float64 kernel values,
 * which costs two to three such products. The first product decides whether that can pay: when its
 * errors, estimated from some rows (drift.h), exceed a third of what the ridge adds to it, it is
 * made again with the exact points, and so are all that follow: from the first iteration on the
 * solve is that of float64, to the bit. Else the drift is estimated from the same rows first:
 * whenever the residual has halved, every `residual_every` iterations, and before a column counts
 * as converged. Then
 *   - a column is frozen when residual and drift together are within the tolerance;
 *   - when the drift exceeds a fiftieth of some residual and a tenth of the tolerance, all are
 *     replaced by the true ones, and a column whose drift exceeds a twentieth starts again. This is
 *     iterative refinement or, while the drift is small enough to keep the direction, the residual
 *     replacement of van der Vorst and Ye (SIAM J. Sci. Comput. 22, 2000); a direction kept with
 *     more drift than that makes the iteration crawl;
 *   - when a column has to start again with more than three quarters of its smallest residual so
 *     far, or the float32 matrix shows a direction of non-positive curvature, float32 has given
 *     what it can: the iteration goes on from there with the exact points, as in float64.
 * A certificate that finds what the sample missed makes the drift be measured on all rows from then
 * on. The preconditioner is always made from the exact points: it takes few kernel values.
 *
 * Between two steps the iteration is B, R, P and a few numbers a column: the content of a
 * checkpoint. The preconditioner follows from the seed and is built again, but for one that wants
 * to be kept (precond.h).
 */
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/cg_columns.h"
#include "engine/methods/drift.h"
#include "engine/methods/methods.h"

enum { STALE_CHECKS = 3 };

static const double restart_drift = 0.5;
static const double noise_drift = 0.1;
static const double improvement = 0.9;

/* Of mixed precision: */
static const double look_fall = 0.5;
static const double replace_drift = 0.02;
static const double small_drift = 0.1; /* of the tolerance: the residual has to fall by it more */
static const double anew_drift = 0.05;
static const double coarse = 1.0 / 3;  /* of the ridge's part in a product: errors of the first */
static const double refinement = 0.75; /* the most that a new beginning may leave */

struct solver {
    struct problem p;
    struct problem best_points; /* what the preconditioner is made from */
    const struct points *X;     /* what products are taken with */
    struct drift drift;         /* in mixed precision */
    double tolerance;
    int64_t residual_every;
    const struct precond_ops *precond;
    struct precond *M;
    bool built;
    double build_fraction;
    bool warm;    /* coefficients to begin with wait for the first step */
    bool resumed; /* from a checkpoint with directions: P is made already */
    bool given;   /* B holds somebody's coefficients although no iteration was done */
    int64_t iteration;
    int64_t since_check; /* iterations since the residual was last looked at or replaced */
    double looked;       /* the largest relative residual then */
    int stale_checks;
    bool wide;            /* products are with the exact points now */
    bool wide_from_start; /* and so was every product that an iteration took */
    bool strict;          /* a certificate was missed: no estimates of the drift any more */
    int ended;            /* a positive reason, or 0 */
    struct cg_columns c;
    double *away; /* [t] estimated drift */
    struct mat B, R, Z, P, V;
    struct mat P32, V32; /* in mixed precision */
};

static const char widened_note[] =
    "Float32 kernel values do not get the residual any further: the iteration goes on with float64 "
    "ones, which take longer. `precision` \"float64\" would begin with them.";
static const char wide_note[] =
    "Float32 kernel values are too coarse for so small a regularization: the iteration takes "
    "float64 ones from the start, as with `precision` \"float64\". They take longer, but float32 "
    "ones would need more iterations.";

/* Products are in float32 while there is something better. */
static bool narrow(const struct solver *s)
{
    return s->p.exact != NULL && !s->wide;
}

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const matrices[] = {&s->B, &s->R, &s->Z, &s->P, &s->V, &s->P32, &s->V32};
    for (int i = 0; i < 7; i++) {
        s->p.be->ops->mat_free(s->p.be, matrices[i]);
    }
    drift_deinit(&s->drift);
    s->precond->teardown(s->M);
    cg_columns_deinit(&s->c);
    mem_free(s->away);
    mem_free(s);
}

static int allocate_mixed(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    int r = p->be->ops->mat_new(p->be, DTYPE_F32, p->n, p->t, &s->P32, err);
    if (r == 0) {
        r = p->be->ops->mat_new(p->be, DTYPE_F32, p->n, p->t, &s->V32, err);
    }
    return r == 0 ? drift_init(&s->drift, p, err) : r;
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    s->away = mem_zarray((size_t)p->t, sizeof(*s->away));
    if (s->away == NULL || cg_columns_init(&s->c, p->be, p->t, err) < 0) {
        return err_no_memory(err);
    }
    struct mat *const matrices[] = {&s->B, &s->R, &s->Z, &s->P, &s->V};
    int r = memory_check_matrix(p->be, p->n, 6 * p->t, p->dtype, "solver `pcg`", err);
    for (int i = 0; r == 0 && i < 5; i++) {
        r = p->be->ops->mat_new(p->be, p->dtype, p->n, p->t, matrices[i], err);
    }
    return r == 0 && p->exact != NULL ? allocate_mixed(s, err) : r;
}

/* B = 0, R = Y. */
static int initialise(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    int r = o->copy(p->be, &p->Y, &s->R, err);
    if (r == 0) {
        r = o->col_dots(p->be, &p->Y, &p->Y, s->c.dots, err);
    }
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        s->c.norm[j] = sqrt(s->c.dots[j]);
        s->c.frozen[j] = s->c.norm[j] == 0;
        s->c.relative[j] = s->c.frozen[j] ? 0.0 : 1.0;
        s->c.best[j] = s->c.relative[j];
        s->c.one[j] = 1.0;
    }
    return r;
}

static int setup(const struct problem *p, const struct solver_options *options, struct solver **ret,
                 struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->best_points = *p;
    if (p->exact != NULL) {
        s->best_points.X = p->exact;
        s->best_points.points_dtype = DTYPE_F64;
    }
    s->X = p->X;
    s->looked = 1.0;
    s->tolerance = options->tolerance;
    s->residual_every = param_int(&options->params, "residual_every");
    s->precond = options->precond;
    s->warm = p->start != NULL;
    int r = allocate(s, err);
    if (r == 0) {
        r = initialise(s, err);
    }
    if (r == 0) {
        r = s->precond->setup(&s->best_points, &options->precond_params, &s->M, err);
    }
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int next_directions(struct solver *s, struct err *err)
{
    const int r = s->precond->apply(s->M, &s->R, &s->Z, err);
    return r == 0 ? cg_columns_directions(&s->c, &s->Z, &s->R, &s->P, err) : r;
}

/* V = M P through float32. */
static int narrow_product(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(s->X, p->n);
    for (int64_t j = 0; j < p->t; j++) {
        s->c.work[j] = p->ridge;
        s->c.one[j] = 1.0;
    }
    int r = o->copy(p->be, &s->P, &s->P32, err);
    if (r == 0) {
        r = o->kmv(p->be, all, all, 1.0, &s->P32, 0.0, &s->V32, err);
    }
    if (r == 0) {
        r = o->copy(p->be, &s->V32, &s->V, err);
    }
    return r == 0 ? o->col_axpby(p->be, s->c.work, &s->P, s->c.one, &s->V, err) : r;
}

/* V = M P. */
static int own_product(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct view all = view_all(s->X, p->n);
    const int r = p->be->ops->copy(p->be, &s->P, &s->V, err);
    return r == 0 ? p->be->ops->kmv(p->be, all, all, 1.0, &s->P, p->ridge, &s->V, err) : r;
}

/* Whether the errors of the first product are beyond a third of what the ridge adds to it: the
 * float32 matrix is then that of a problem with quite another ridge, and its iterations are lost.
 * They are estimated from rows; infinity and NaN count as beyond. */
static int too_coarse(struct solver *s, bool *ret, struct err *err)
{
    const struct problem *p = &s->p;
    int r = drift_of_product(&s->drift, &s->P, &s->V, s->away, err);
    if (r == 0) {
        r = p->be->ops->col_dots(p->be, &s->P, &s->P, s->c.dots, err);
    }
    *ret = false;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double share = p->ridge * sqrt(s->c.dots[j]);
        *ret = *ret || (!s->c.frozen[j] && !(s->away[j] <= coarse * share));
    }
    return r;
}

/* The first product decides whether float32 is worth a try. If not, the directions are as good for
 * float64: the iteration is from there on what it would have been in float64. */
static int first_product(struct solver *s, struct err *err)
{
    bool wide = false;
    int r = narrow_product(s, err);
    r = r == 0 ? too_coarse(s, &wide, err) : r;
    if (r < 0 || !wide) {
        return r;
    }
    s->wide = s->wide_from_start = true;
    s->X = s->p.exact;
    r = s->p.widened != NULL ? s->p.widened(s->p.widened_context, err) : 0;
    return r == 0 ? own_product(s, err) : r;
}

static int any_product(struct solver *s, struct err *err)
{
    if (!narrow(s)) {
        return own_product(s, err);
    }
    return s->iteration == 0 ? first_product(s, err) : narrow_product(s, err);
}

/* V = M P, eta = omega / p'v. */
static int product(struct solver *s, struct err *err)
{
    int r = any_product(s, err);
    if (r == 0) {
        r = cg_columns_lengths(&s->c, &s->P, &s->V, err);
    }
    return r == -ERR_DIVERGED && narrow(s) ? REASON_BREAKDOWN : r;
}

static int update(struct solver *s, struct err *err)
{
    const int r = cg_columns_update(&s->c, &s->P, &s->V, &s->B, &s->R, err);
    s->iteration++;
    s->since_check++;
    return r;
}

/* Z = Y - M B, R = Z - R (the drift); |drift_j|^2 in work, |Z_j|^2 in dots; then R = Z. */
static int replace_residual(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(p->exact != NULL ? p->exact : p->X, p->n);
    for (int64_t j = 0; j < p->t; j++) {
        s->c.work[j] = -p->ridge;
        s->c.one[j] = 1.0;
        s->c.gamma[j] = -1.0;
    }
    int r = o->copy(p->be, &p->Y, &s->Z, err);
    if (r == 0) {
        r = o->kmv(p->be, all, all, -1.0, &s->B, 1.0, &s->Z, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, s->c.work, &s->B, s->c.one, &s->Z, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, s->c.one, &s->Z, s->c.gamma, &s->R, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &s->R, &s->R, s->c.work, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &s->Z, &s->Z, s->c.dots, err);
    }
    return r == 0 ? o->copy(p->be, &s->Z, &s->R, err) : r;
}

static double largest_residual(const struct solver *s)
{
    double largest = 0;
    for (int64_t j = 0; j < s->p.t; j++) {
        largest = fmax(largest, s->c.frozen[j] ? 0.0 : s->c.relative[j]);
    }
    return largest;
}

/* From here on with the exact points. R is true, and every column starts anew: from B_j = 0 where
 * float32 made it worse than that. */
static int widen(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    s->wide = true;
    s->X = p->exact;
    s->stale_checks = 0;
    for (int64_t j = 0; j < p->t; j++) {
        const bool worse = !s->c.frozen[j] && !(s->c.relative[j] < 1.0);
        s->c.omega[j] = 0;
        s->c.one[j] = worse ? 0.0 : 1.0;
        s->c.gamma[j] = worse ? 1.0 : 0.0;
        s->c.work[j] = 0.0;
        s->c.relative[j] = worse ? 1.0 : s->c.relative[j];
    }
    int r = o->col_axpby(p->be, s->c.work, &p->Y, s->c.one, &s->B, err);
    if (r == 0) {
        r = o->col_axpby(p->be, s->c.gamma, &p->Y, s->c.one, &s->R, err);
    }
    return r == 0 && p->widened != NULL ? p->widened(p->widened_context, err) : r;
}

/* A column must begin again without having got far since it did so last. */
static bool exhausted(const struct solver *s, int64_t j, double drift)
{
    return narrow(s) && !s->c.frozen[j] && s->c.relative[j] > refinement * s->c.best[j] &&
           drift > anew_drift * s->c.relative[j];
}

/* Replaces the residual, freezes what has converged, and answers CONVERGED, STAGNATED or 0. */
static int check(struct solver *s, struct err *err)
{
    const int r = replace_residual(s, err);
    if (r < 0) {
        return r;
    }
    bool stale = true, widens = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        if (s->c.frozen[j]) {
            continue;
        }
        if (!isfinite(s->c.dots[j])) {
            return cg_columns_diverged(err);
        }
        const double truth = sqrt(s->c.dots[j]), drift = sqrt(s->c.work[j]);
        s->c.relative[j] = truth / s->c.norm[j];
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
        if (drift > (narrow(s) ? anew_drift : restart_drift) * truth) {
            s->c.omega[j] = 0;
        }
        if (s->c.relative[j] < improvement * s->c.best[j] || drift <= noise_drift * truth) {
            stale = false;
        }
        widens = widens || exhausted(s, j, drift / s->c.norm[j]);
        s->c.best[j] = fmin(s->c.best[j], s->c.relative[j]);
    }
    s->since_check = 0;
    s->looked = largest_residual(s);
    s->stale_checks = stale && !narrow(s) ? s->stale_checks + 1 : 0;
    if (cg_columns_frozen(&s->c)) {
        return REASON_CONVERGED;
    }
    if (widens) {
        return widen(s, err);
    }
    return s->stale_checks >= STALE_CHECKS ? REASON_STAGNATED : 0;
}

/* In mixed precision: freezes what has converged for all that the sample shows, and checks where it
 * shows too much drift. */
static int look(struct solver *s, struct err *err)
{
    const int r = drift_estimate(&s->drift, &s->B, &s->R, s->away, err);
    if (r < 0) {
        return r;
    }
    bool drifted = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        if (s->c.frozen[j]) {
            continue;
        }
        const double drift = s->away[j] / s->c.norm[j];
        s->c.frozen[j] = s->c.relative[j] + drift <= s->tolerance;
        const double harmless = fmax(replace_drift * s->c.relative[j], small_drift * s->tolerance);
        drifted = drifted || (!s->c.frozen[j] && !(drift <= harmless));
    }
    s->since_check = 0;
    s->looked = largest_residual(s);
    if (drifted) {
        return check(s, err);
    }
    return cg_columns_frozen(&s->c) ? REASON_CONVERGED : 0;
}

/* The residual is looked at when it is time to, and answered for as by check. */
static int inspect(struct solver *s, struct err *err)
{
    const bool claimed =
        s->since_check >= s->residual_every || cg_columns_below(&s->c, s->tolerance);
    if (narrow(s)) {
        const bool due = claimed || largest_residual(s) <= look_fall * s->looked;
        return !due ? 0 : s->strict ? check(s, err) : look(s, err);
    }
    return claimed ? check(s, err) : 0;
}

/* Where float32 made a matrix that is not positive definite, or overflowed. */
static int recover(struct solver *s, struct err *err)
{
    const int r = check(s, err);
    return r == 0 && narrow(s) ? widen(s, err) : r;
}

/* B = start, R = Y - M B; B_j = 0, R_j = Y_j where that is no worse. */
static int begin_warm(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    s->warm = false;
    int r = o->copy(p->be, p->start, &s->B, err);
    if (r == 0) {
        r = replace_residual(s, err);
    }
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double relative = s->c.norm[j] > 0 ? sqrt(s->c.dots[j]) / s->c.norm[j] : INFINITY;
        const bool taken = relative < 1.0;
        s->c.one[j] = taken ? 1.0 : 0.0;
        s->c.gamma[j] = taken ? 0.0 : 1.0;
        s->c.work[j] = 0.0;
        s->given = s->given || taken;
        s->c.relative[j] = taken ? relative : s->c.relative[j];
        s->c.best[j] = s->c.relative[j];
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
    }
    s->looked = largest_residual(s);
    if (r == 0) { /* What was not taken may be infinite: it is overwritten, never scaled. */
        r = o->col_axpby(p->be, s->c.work, &p->Y, s->c.one, &s->B, err);
    }
    return r == 0 ? o->col_axpby(p->be, s->c.gamma, &p->Y, s->c.one, &s->R, err) : r;
}

static int build(struct solver *s, struct err *err)
{
    int r = s->precond->build(s->M, &s->build_fraction, err);
    if (r > 0) {
        s->built = true;
        r = s->resumed ? 0 : next_directions(s, err);
    }
    return r;
}

static int iterate(struct solver *s, struct err *err)
{
    int r = product(s, err);
    if (r == REASON_BREAKDOWN && narrow(s)) {
        r = recover(s, err);
    } else if (r == 0) {
        r = update(s, err);
        r = r == 0 ? inspect(s, err) : r;
    }
    return r == 0 ? next_directions(s, err) : r;
}

static bool usable(const struct solver *s)
{
    return s->iteration > 0 || s->given || cg_columns_frozen(&s->c);
}

static void describe(const struct solver *s, bool building, struct step_report *ret)
{
    *ret = (struct step_report){
        .phase = building ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->build_fraction : NAN,
        .iteration = s->iteration,
        .relative_residual = cg_columns_largest(&s->c),
        .usable = usable(s),
        .savable = s->precond->save != NULL,
        .rank = s->built ? s->precond->rank(s->M) : 0,
        .note = s->wide_from_start ? wide_note
                : s->wide          ? widened_note
                                   : NULL,
    };
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = s->ended;
    const bool building = !s->built;
    if (r == 0 && cg_columns_frozen(&s->c)) {
        r = REASON_CONVERGED;
    } else if (r == 0 && s->warm) {
        r = begin_warm(s, err);
    } else if (r == 0) {
        r = building ? build(s, err) : iterate(s, err);
    }
    if (r > 0) {
        s->ended = r;
    }
    describe(s, building && r == 0, ret);
    return r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, &s->B, A, err);
}

/* What the sample missed is measured on all rows. */
static int refuse(struct solver *s, struct err *err)
{
    if (!narrow(s) || s->strict) {
        return REASON_STAGNATED;
    }
    s->strict = true;
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.frozen[j] = s->c.norm[j] == 0;
        s->c.omega[j] = 0;
    }
    int r = check(s, err);
    if (r == 0 && s->built) {
        r = next_directions(s, err);
    }
    r = r == REASON_CONVERGED ? REASON_STAGNATED : r; /* the certificate knows better */
    s->ended = r > 0 ? r : 0;
    return r;
}

/* ---- checkpoints ---- */

enum { COUNTERS = 6, COLUMN_NUMBERS = 4 };

static int save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t t = s->p.t;
    const int64_t counters[COUNTERS] = {s->iteration,
                                        s->since_check,
                                        s->stale_checks,
                                        s->ended,
                                        s->wide ? 1 + s->wide_from_start : 0,
                                        s->strict};
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < t; j++) {
        columns[j] = s->c.relative[j];
        columns[t + j] = s->c.best[j];
        columns[2 * t + j] = s->c.omega[j];
        columns[3 * t + j] = s->c.frozen[j];
    }
    int r = state_put_ints(to, "counters", counters, COUNTERS, err);
    r = r == 0 ? state_put_reals(to, "looked", &s->looked, 1, err) : r;
    r = r == 0 ? state_put_reals(to, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    r = r == 0 ? state_put_mat(to, "B", s->p.be, &s->B, err) : r;
    r = r == 0 ? state_put_mat(to, "R", s->p.be, &s->R, err) : r;
    r = r == 0 ? state_put_mat(to, "P", s->p.be, &s->P, err) : r;
    if (r < 0 || s->precond->save == NULL) {
        return r;
    }
    const int64_t given = usable(s);
    r = state_put_ints(to, "given", &given, 1, err);
    return r == 0 ? s->precond->save(s->M, to, err) : r;
}

/* What save may have left. */
static bool plausible(const struct solver *s, const int64_t *counters)
{
    const int64_t ended = counters[3];
    const bool reason = ended == 0 || ended == REASON_CONVERGED || ended == REASON_STAGNATED ||
                        ended == REASON_BREAKDOWN;
    return reason && counters[0] >= 0 && counters[1] >= 0 && counters[2] >= 0 &&
           counters[2] <= STALE_CHECKS && counters[4] >= 0 && counters[4] <= 2 &&
           (counters[4] == 0 || s->p.exact != NULL);
}

/* A column has omega > 0 as soon as it has a direction. None has before the preconditioner of a
 * solve that was given coefficients is built. */
static void take_numbers(struct solver *s, const int64_t *counters, const double *columns)
{
    const int64_t t = s->p.t;
    s->iteration = counters[0];
    s->since_check = counters[1];
    s->stale_checks = (int)counters[2];
    s->ended = (int)counters[3];
    s->strict = counters[5] != 0;
    for (int64_t j = 0; j < t; j++) {
        s->c.relative[j] = columns[j];
        s->c.best[j] = columns[t + j];
        s->c.omega[j] = columns[2 * t + j];
        s->c.frozen[j] = columns[3 * t + j] != 0;
        s->resumed = s->resumed || s->c.omega[j] > 0;
    }
}

/* A checkpoint of a building phase need not have coefficients. */
static int load_preconditioner(struct solver *s, const struct state *from, struct err *err)
{
    int64_t given = 0;
    const int r = state_get_ints(from, "given", &given, 1, err);
    s->given = given != 0;
    return r == 0 ? s->precond->load(s->M, from, err) : r;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    const int64_t t = s->p.t;
    int64_t counters[COUNTERS];
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    int r = state_get_ints(from, "counters", counters, COUNTERS, err);
    if (r == 0 && !plausible(s, counters)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"counters\" is out of range.");
    }
    r = r == 0 ? state_get_reals(from, "looked", &s->looked, 1, err) : r;
    r = r == 0 ? state_get_reals(from, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    r = r == 0 ? state_get_mat(from, "B", s->p.be, &s->B, err) : r;
    r = r == 0 ? state_get_mat(from, "R", s->p.be, &s->R, err) : r;
    r = r == 0 ? state_get_mat(from, "P", s->p.be, &s->P, err) : r;
    if (r == 0) {
        take_numbers(s, counters, columns);
        s->warm = false;
        s->given = true;
    }
    if (r == 0 && counters[4] != 0) {
        s->wide = true;
        s->wide_from_start = counters[4] == 2;
        s->X = s->p.exact;
        r = s->p.widened != NULL ? s->p.widened(s->p.widened_context, err) : 0;
    }
    return r == 0 && s->precond->load != NULL ? load_preconditioner(s, from, err) : r;
}

const struct solver_ops solver_pcg_ops = {
    .name = "pcg",
    .whole_products = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .refuse = refuse,
    .save = save,
    .load = load,
    .teardown = teardown,
};
