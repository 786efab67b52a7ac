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
 *     than a twentieth starts again from steepest descent (gamma = 0): near the limit of the
 *     precision, directions that go on beside replaced residuals lead away from it.
 *   - A column whose true residual reached the tolerance is frozen; Y_j = 0 is frozen from the
 * start with B_j = 0.
 *   - p'v <= 0 or z'r <= 0 for r /= 0 ends with BREAKDOWN before B changes; infinity or NaN with
 *     -ERR_DIVERGED.
 *   - STAGNATED: in PCG_STALE_CHECKS checks in a row no column's true residual fell below 0.9 of
 * its best so far, and in all of them more than a tenth of it was the drift between the two
 * residuals, that is, rounding error. A mere plateau, which CG often leaves, has no such drift.
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
#include "engine/methods/full/pcg.h"
#include "engine/methods/methods.h"

static const char widened_note[] =
    "Float32 kernel values do not get the residual any further: the iteration goes on with float64 "
    "ones, which take longer. `precision` \"float64\" would begin with them.";
static const char wide_note[] =
    "Float32 kernel values are too coarse for so small a regularization: the iteration takes "
    "float64 ones from the start, as with `precision` \"float64\". They take longer, but float32 "
    "ones would need more iterations.";

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
    if (!s->borrowed) {
        s->precond->teardown(s->M);
    }
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
    s->M = options->made;
    s->borrowed = options->made != NULL;
    if (r == 0 && !s->borrowed) {
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

static int update(struct solver *s, struct err *err)
{
    const int r = cg_columns_update(&s->c, &s->P, &s->V, &s->B, &s->R, err);
    s->iteration++;
    s->since_check++;
    return r;
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
    int r = pcg_product(s, err);
    if (r == REASON_BREAKDOWN && pcg_narrow(s)) {
        r = pcg_recover(s, err);
    } else if (r == 0) {
        r = update(s, err);
        r = r == 0 ? pcg_inspect(s, err) : r;
    }
    return r == 0 ? next_directions(s, err) : r;
}

static void describe(const struct solver *s, bool building, struct step_report *ret)
{
    *ret = (struct step_report){
        .phase = building ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->build_fraction : NAN,
        .iteration = s->iteration,
        .relative_residual = cg_columns_largest(&s->c),
        .built = s->built,
        .usable = pcg_usable(s),
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
        r = pcg_begin_warm(s, err);
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

/* The directions follow from the residual that is now true. */
static int refuse(struct solver *s, struct err *err)
{
    int r = pcg_refuse(s, err);
    if (r == 0 && s->built) {
        r = next_directions(s, err);
        s->ended = r > 0 ? r : 0;
    }
    return r;
}

const struct solver_ops solver_pcg_ops = {
    .name = "pcg",
    .whole_products = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .refuse = refuse,
    .save = pcg_save,
    .load = pcg_load,
    .teardown = teardown,
};
