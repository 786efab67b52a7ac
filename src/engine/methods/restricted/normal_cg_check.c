#include <float.h>
#include <math.h>

#include "engine/methods/restricted/normal_cg_parts.h"

static const double restart_drift = 0.5;
static const double noise_drift = 0.1;
static const double improvement = 0.9;
static const double runaway = 100.0; /* times the best: no plateau that CG may leave */
static const double falls_most = 2;
static const double deeper = 0.1;

int normal_cg_take_negative(struct solver *s, const struct mat *X, struct err *err)
{
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.one[j] = -1.0;
        s->c.work[j] = 0.0;
    }
    return s->p.be->ops->col_axpby(s->p.be, s->c.one, &s->V, s->c.work, X, err);
}

static int copy_column(struct solver *s, const struct mat *A, const struct mat *B, int64_t j,
                       struct err *err)
{
    const struct mat from = mat_cols(*A, j, 1), to = mat_cols(*B, j, 1);
    return s->p.be->ops->copy(s->p.be, &from, &to, err);
}

/* Keeps the columns of B, and of V, whose residuals are the least so far. */
static int keep_best(struct solver *s, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        if (s->c.relative[j] < s->c.best[j]) {
            s->c.best[j] = s->c.relative[j];
            r = copy_column(s, &s->B, &s->best_B, j, err);
            r = r == 0 ? copy_column(s, &s->V, &s->best_R, j, err) : r;
        }
    }
    return r;
}

/* Z = the recurrence's residual less the true one, in the variables of B. */
static int drift(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = 0;
    if (normal_cg_whitened(s)) {
        r = core_multiply(s->p.be, &s->v, &s->block, &s->R, err);
        r = r == 0 ? o->copy(s->p.be, s->v.W, &s->Z, err) : r;
    } else {
        r = o->copy(s->p.be, &s->R, &s->Z, err);
    }
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.one[j] = 1.0;
    }
    return r == 0 ? o->col_axpby(s->p.be, s->c.one, &s->V, s->c.one, &s->Z, err) : r;
}

/* V = the true residual; its squared norm in dots and that of the drift in work. */
static int true_residual(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = drift(s, err);
    if (r == 0) {
        r = normal_cg_take_negative(s, &s->V, err);
    }
    if (r == 0) {
        r = o->col_dots(s->p.be, &s->Z, &s->Z, s->c.work, err);
    }
    if (r == 0) {
        r = o->col_dots(s->p.be, &s->V, &s->V, s->c.dots, err);
    }
    return r == 0 && normal_cg_whitened(s) ? core_whiten(s->p.be, &s->v, &s->V, err) : r;
}

/* R = V where columns begin anew, and everywhere in the variables of B. L^-1 multiplies what the
 * true residual has of rounding errors: among directions that are conjugate already, the one of the
 * recurrence is the better one. */
static int replace_residual(struct solver *s, struct err *err)
{
    for (int64_t j = 0; j < s->p.t; j++) {
        const bool anew = !normal_cg_whitened(s) || s->c.omega[j] == 0;
        s->c.one[j] = anew ? 1.0 : 0.0;
        s->c.work[j] = anew ? 0.0 : 1.0;
    }
    return s->p.be->ops->col_axpby(s->p.be, s->c.one, &s->V, s->c.work, &s->R, err);
}

/* What the true residual says of a column. Whether it gets anywhere. */
static bool judge(struct solver *s, int64_t j)
{
    const double truth = sqrt(s->c.dots[j]), off = sqrt(s->c.work[j]);
    s->c.relative[j] = truth / s->c.norm[j];
    s->doubt[j] = off / s->c.norm[j];
    s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
    s->c.omega[j] = off > restart_drift * truth || s->c.broken[j] ? 0 : s->c.omega[j];
    const bool improved = s->c.relative[j] < improvement * s->c.best[j];
    const bool plateau =
        off <= noise_drift * truth && !s->c.broken[j] && s->c.relative[j] < runaway * s->c.best[j];
    s->falls[j] = improved ? 0 : s->falls[j] + s->c.broken[j];
    return improved || plateau;
}

/* A column that broke down goes on from its best coefficients, by steepest descent; where that did
 * not help either, it stays there, and the others go on. */
static int begin_anew(struct solver *s, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        if (s->c.broken[j] && !s->c.frozen[j]) {
            s->c.frozen[j] = s->falls[j] >= falls_most;
            s->c.relative[j] = s->c.best[j];
            r = copy_column(s, &s->best_B, &s->B, j, err);
            r = r == 0 ? copy_column(s, &s->best_R, &s->R, j, err) : r;
        }
        s->c.broken[j] = false;
    }
    return r;
}

/* Directions go on where they were: of a column that converged R is the true residual, and P and
 * omega are those of its last step. */
int normal_cg_deepen(struct solver *s, struct err *err)
{
    const double largest = cg_columns_largest(&s->c);
    s->tolerance = deeper * fmin(s->tolerance, largest);
    s->deepened = true;
    if (!(s->tolerance > DBL_EPSILON)) {
        return REASON_STAGNATED;
    }
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
    }
    s->stale_checks = 0;
    const int r = normal_cg_directions(s, err);
    s->ended = r > 0 ? r : 0;
    return r;
}

int normal_cg_check(struct solver *s, struct err *err)
{
    int r = true_residual(s, err);
    bool stale = true;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        if (s->c.frozen[j]) {
            continue;
        }
        if (!isfinite(s->c.dots[j])) {
            return cg_columns_diverged(err);
        }
        stale = !judge(s, j) && stale;
    }
    s->since_check = 0;
    s->stale_checks = stale ? s->stale_checks + 1 : 0;
    r = r == 0 ? keep_best(s, err) : r;
    r = r == 0 ? replace_residual(s, err) : r;
    r = r == 0 ? begin_anew(s, err) : r;
    if (r < 0) {
        return r;
    }
    if (cg_columns_frozen(&s->c)) {
        return cg_columns_largest(&s->c) <= s->tolerance ? REASON_CONVERGED : REASON_BREAKDOWN;
    }
    return s->stale_checks >= NORMAL_CG_STALE_CHECKS ? REASON_STAGNATED
                                                     : normal_cg_directions(s, err);
}
