#include "engine/methods/normal_cg.h"

#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/cg_columns.h"
#include "engine/normal.h"

/* Notation of solver_pcg.c: omega = z'r, eta = omega / p'v, gamma = omega_new / omega. */

enum { STALE_CHECKS = 3, MATRICES = 6 };

static const double restart_drift = 0.5;
static const double noise_drift = 0.1;
static const double improvement = 0.9;
static const double runaway = 100.0; /* times the best: no plateau that CG may leave */

/* What the pass under way sums up in V. */
enum stage {
    STAGE_RIGHT_HAND_SIDE, /* -K_nm' Y */
    STAGE_START,           /* the residual of coefficients to begin with */
    STAGE_PRODUCT,         /* H P */
    STAGE_RESIDUAL,        /* the true residual */
    STAGES
};

struct solver {
    struct problem p;
    double tolerance;
    int64_t residual_every;
    const struct precond_ops *precond;
    struct precond *M;
    int (*start)(struct precond *m, const struct mat *B, struct err *err);
    bool built;
    double build_fraction;
    enum stage stage;
    struct normal_pass pass;
    bool given; /* B holds coefficients although no iteration was done */
    int64_t iteration, since_check;
    int stale_checks;
    int ended; /* a positive reason, or 0 */
    struct cg_columns c;
    struct mat B, R, Z, P, V;
    struct mat best_B; /* columns with the true residual c.best; 0 where that is 1 */
    double *doubt;     /* [t]: what the last check found the recurrence to be off by, relative */
};

static void matrices_of(struct solver *s, struct mat *ret[MATRICES])
{
    struct mat *const all[MATRICES] = {&s->B, &s->R, &s->Z, &s->P, &s->V, &s->best_B};
    for (int i = 0; i < MATRICES; i++) {
        ret[i] = all[i];
    }
}

void normal_cg_teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *all[MATRICES];
    matrices_of(s, all);
    for (int i = 0; i < MATRICES; i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
    }
    s->precond->teardown(s->M);
    cg_columns_deinit(&s->c);
    mem_free(s->doubt);
    mem_free(s);
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t m = p->restricted->m;
    s->doubt = mem_zarray((size_t)p->t, sizeof(double));
    if (s->doubt == NULL || cg_columns_init(&s->c, p->be, p->t, err) < 0) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        s->c.relative[j] = s->c.best[j] = 1.0;
    }
    struct mat *all[MATRICES];
    matrices_of(s, all);
    int r = memory_check_matrix(p->be, m, MATRICES * p->t, p->dtype, "conjugate gradients", err);
    for (int i = 0; r == 0 && i < MATRICES; i++) {
        r = p->be->ops->mat_new(p->be, p->dtype, m, p->t, all[i], err);
    }
    return r;
}

int normal_cg_setup(const struct problem *p, const struct solver_options *o,
                    const struct normal_method *method, struct solver **ret, struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->tolerance = o->tolerance;
    s->residual_every = method->residual_every;
    s->precond = method->precond;
    s->start = method->start;
    int r = allocate(s, err);
    if (r == 0) {
        r = s->precond->setup(p, &o->params, &s->M, err);
    }
    if (r < 0) {
        normal_cg_teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int next_directions(struct solver *s, struct err *err)
{
    const int r = s->precond->apply(s->M, &s->R, &s->Z, err);
    s->stage = STAGE_PRODUCT;
    return r == 0 ? cg_columns_directions(&s->c, &s->Z, &s->R, &s->P, err) : r;
}

/* X <- -V (all columns). */
static int take_negative(struct solver *s, const struct mat *X, struct err *err)
{
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.one[j] = -1.0;
        s->c.work[j] = 0.0;
    }
    return s->p.be->ops->col_axpby(s->p.be, s->c.one, &s->V, s->c.work, X, err);
}

/* ---- what follows a pass ---- */

/* B = 0, R = K_nm' Y; then either coefficients to begin with, or the first direction. */
static int begin(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = take_negative(s, &s->R, err);
    if (r == 0) {
        r = o->col_dots(s->p.be, &s->R, &s->R, s->c.dots, err);
    }
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        s->c.norm[j] = sqrt(s->c.dots[j]);
        s->c.frozen[j] = s->c.norm[j] == 0;
        s->c.relative[j] = s->c.best[j] = s->c.frozen[j] ? 0.0 : 1.0;
        if (!isfinite(s->c.norm[j])) {
            return cg_columns_diverged(err);
        }
    }
    if (r == 0 && cg_columns_frozen(&s->c)) {
        return REASON_CONVERGED;
    }
    if (r < 0 || (s->p.start == NULL && s->start == NULL)) {
        return r == 0 ? next_directions(s, err) : r;
    }
    s->stage = STAGE_START;
    return s->p.start != NULL ? o->copy(s->p.be, s->p.start, &s->B, err)
                              : s->start(s->M, &s->B, err);
}

/* Keeps the columns of B whose residuals, true ones, are the least so far. */
static int keep_best(struct solver *s, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        if (s->c.relative[j] < s->c.best[j]) {
            const struct mat from = mat_cols(s->B, j, 1), to = mat_cols(s->best_B, j, 1);
            s->c.best[j] = s->c.relative[j];
            r = s->p.be->ops->copy(s->p.be, &from, &to, err);
        }
    }
    return r;
}

/* R_j = -V_j, or B_j = 0 where the coefficients to begin with are no better than that. */
static int take_start(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->col_dots(s->p.be, &s->V, &s->V, s->c.dots, err);
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        const double relative = s->c.norm[j] > 0 ? sqrt(s->c.dots[j]) / s->c.norm[j] : INFINITY;
        const bool taken = relative < 1.0;
        s->given = s->given || taken;
        s->c.relative[j] = taken ? relative : s->c.relative[j];
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
        s->c.one[j] = taken ? 1.0 : 0.0;   /* of B */
        s->c.gamma[j] = taken ? 0.0 : 1.0; /* of R */
        s->c.eta[j] = taken ? -1.0 : 0.0;  /* of V in R */
        s->c.work[j] = 0.0;
    }
    if (r == 0) { /* What was not taken may be infinite: it is overwritten, never scaled. */
        r = o->col_axpby(s->p.be, s->c.work, &s->R, s->c.one, &s->B, err);
    }
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        const struct mat V = mat_cols(s->V, j, 1), R = mat_cols(s->R, j, 1);
        r = s->c.eta[j] != 0 ? o->col_axpby(s->p.be, &s->c.eta[j], &V, &s->c.gamma[j], &R, err) : 0;
    }
    r = r == 0 ? keep_best(s, err) : r;
    if (r == 0 && cg_columns_frozen(&s->c)) {
        return REASON_CONVERGED;
    }
    return r == 0 ? next_directions(s, err) : r;
}

/* V = H P is there. */
static int update(struct solver *s, struct err *err)
{
    int r = cg_columns_lengths(&s->c, &s->P, &s->V, err);
    if (r == 0) {
        r = cg_columns_update(&s->c, &s->P, &s->V, &s->B, &s->R, err);
    }
    if (r != 0) {
        return r;
    }
    s->iteration++;
    s->since_check++;
    if (s->since_check >= s->residual_every || cg_columns_below(&s->c, s->tolerance)) {
        s->stage = STAGE_RESIDUAL;
        return 0;
    }
    return next_directions(s, err);
}

/* Z = -V, the true residual, and its drift from R; R = Z. */
static int replace_residual(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = take_negative(s, &s->Z, err);
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.one[j] = 1.0;
        s->c.gamma[j] = -1.0;
    }
    if (r == 0) {
        r = o->col_axpby(s->p.be, s->c.one, &s->Z, s->c.gamma, &s->R, err);
    }
    if (r == 0) {
        r = o->col_dots(s->p.be, &s->R, &s->R, s->c.work, err);
    }
    if (r == 0) {
        r = o->col_dots(s->p.be, &s->Z, &s->Z, s->c.dots, err);
    }
    return r == 0 ? o->copy(s->p.be, &s->Z, &s->R, err) : r;
}

/* Freezes what has converged, and answers CONVERGED, STAGNATED or goes on. */
static int check(struct solver *s, struct err *err)
{
    int r = replace_residual(s, err);
    if (r < 0) {
        return r;
    }
    s->since_check = 0;
    bool stale = true;
    for (int64_t j = 0; j < s->p.t; j++) {
        if (s->c.frozen[j]) {
            continue;
        }
        if (!isfinite(s->c.dots[j])) {
            return cg_columns_diverged(err);
        }
        const double truth = sqrt(s->c.dots[j]), drift = sqrt(s->c.work[j]);
        s->c.relative[j] = truth / s->c.norm[j];
        s->doubt[j] = drift / s->c.norm[j];
        s->c.frozen[j] = s->c.relative[j] <= s->tolerance;
        s->c.omega[j] = drift > restart_drift * truth ? 0 : s->c.omega[j];
        const bool plateau =
            drift <= noise_drift * truth && s->c.relative[j] < runaway * s->c.best[j];
        if (s->c.relative[j] < improvement * s->c.best[j] || plateau) {
            stale = false;
        }
    }
    s->stale_checks = stale ? s->stale_checks + 1 : 0;
    r = keep_best(s, err);
    if (r < 0 || cg_columns_frozen(&s->c)) {
        return r < 0 ? r : REASON_CONVERGED;
    }
    return s->stale_checks >= STALE_CHECKS ? REASON_STAGNATED : next_directions(s, err);
}

/* ---- steps ---- */

/* A piece of the pass under way, and what follows when it was the last one. */
static int advance(struct solver *s, struct err *err)
{
    static int (*const follow[STAGES])(struct solver * s, struct err * err) = {
        [STAGE_RIGHT_HAND_SIDE] = begin,
        [STAGE_START] = take_start,
        [STAGE_PRODUCT] = update,
        [STAGE_RESIDUAL] = check,
    };
    const struct restricted *re = s->p.restricted;
    const bool product = s->stage == STAGE_PRODUCT;
    const struct mat *X = product ? &s->P : &s->B; /* B is still 0 for the right-hand side */
    int r = normal_gradient(re, s->p.be, &s->pass, X, !product, &s->V, err);
    if (r <= 0) {
        return r;
    }
    r = s->stage == STAGE_RIGHT_HAND_SIDE ? 0
                                          : normal_add_core(re, s->p.be, s->p.ridge, X, &s->V, err);
    return r == 0 ? follow[s->stage](s, err) : r;
}

static int build(struct solver *s, struct err *err)
{
    const int r = s->precond->build(s->M, &s->build_fraction, err);
    s->built = r > 0;
    return r < 0 ? r : 0;
}

/* Infinity or NaN beyond good coefficients is the end of what the precision gives. */
static int soften(const struct solver *s, int r)
{
    bool good = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        good = good || s->c.best[j] < 1.0;
    }
    return r == -ERR_DIVERGED && good ? REASON_BREAKDOWN : r;
}

int normal_cg_step(struct solver *s, struct step_report *ret, struct err *err)
{
    const bool building = !s->built;
    int r = s->ended;
    if (r == 0) {
        r = building ? build(s, err) : soften(s, advance(s, err));
    }
    s->ended = r > 0 ? r : 0;
    *ret = (struct step_report){
        .phase = building && r == 0 ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->build_fraction : (double)NAN,
        .iteration = s->iteration,
        .relative_residual = cg_columns_largest(&s->c),
        .usable = s->iteration > 0 || s->given || r == REASON_CONVERGED,
        .rank = s->built ? s->precond->rank(s->M) : 0,
    };
    return r;
}

/* Between checks the recurrence is believed where it promises less than the best by more than what
 * the last check found it to be off by. */
int normal_cg_coef(struct solver *s, const struct mat *A, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->copy(s->p.be, &s->B, A, err);
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        if (!(s->c.relative[j] + s->doubt[j] < s->c.best[j])) {
            const struct mat from = mat_cols(s->best_B, j, 1), to = mat_cols(*A, j, 1);
            r = o->copy(s->p.be, &from, &to, err);
        }
    }
    return r;
}

/* ---- checkpoints ---- */

enum { COUNTERS = 6, COLUMN_NUMBERS = 6 };

int normal_cg_save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t t = s->p.t;
    const int64_t counters[COUNTERS] = {s->iteration, s->since_check, s->stale_checks,
                                        s->ended,     s->stage,       s->pass.tile};
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < t; j++) {
        columns[j] = s->c.relative[j];
        columns[t + j] = s->c.best[j];
        columns[2 * t + j] = s->c.omega[j];
        columns[3 * t + j] = s->c.frozen[j];
        columns[4 * t + j] = s->c.norm[j];
        columns[5 * t + j] = s->doubt[j];
    }
    int r = state_put_ints(to, "counters", counters, COUNTERS, err);
    r = r == 0 ? state_put_reals(to, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    r = r == 0 ? state_put_mat(to, "B", s->p.be, &s->B, err) : r;
    r = r == 0 ? state_put_mat(to, "R", s->p.be, &s->R, err) : r;
    r = r == 0 ? state_put_mat(to, "P", s->p.be, &s->P, err) : r;
    r = r == 0 ? state_put_mat(to, "best", s->p.be, &s->best_B, err) : r;
    return r == 0 ? state_put_mat(to, "V", s->p.be, &s->V, err) : r;
}

/* What save may have left. */
static bool plausible(const struct solver *s, const int64_t *c)
{
    const bool reason = c[3] == 0 || c[3] == REASON_CONVERGED || c[3] == REASON_STAGNATED ||
                        c[3] == REASON_BREAKDOWN;
    return reason && c[0] >= 0 && c[1] >= 0 && c[2] >= 0 && c[2] <= STALE_CHECKS && c[4] >= 0 &&
           c[4] < STAGES && c[5] >= 0 && c[5] < rowset_tiles(s->p.restricted->rows);
}

static void take_numbers(struct solver *s, const int64_t *counters, const double *columns)
{
    const int64_t t = s->p.t;
    s->iteration = counters[0];
    s->since_check = counters[1];
    s->stale_checks = (int)counters[2];
    s->ended = (int)counters[3];
    s->stage = (enum stage)counters[4];
    s->pass.tile = counters[5];
    s->given = true;
    for (int64_t j = 0; j < t; j++) {
        s->c.relative[j] = columns[j];
        s->c.best[j] = columns[t + j];
        s->c.omega[j] = columns[2 * t + j];
        s->c.frozen[j] = columns[3 * t + j] != 0;
        s->c.norm[j] = columns[4 * t + j];
        s->doubt[j] = columns[5 * t + j];
    }
}

int normal_cg_load(struct solver *s, const struct state *from, struct err *err)
{
    int64_t counters[COUNTERS];
    cleanup_mem double *columns = mem_array((size_t)s->p.t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    int r = state_get_ints(from, "counters", counters, COUNTERS, err);
    if (r == 0 && !plausible(s, counters)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"counters\" is out of range.");
    }
    r = r == 0 ? state_get_reals(from, "columns", columns, COLUMN_NUMBERS * s->p.t, err) : r;
    r = r == 0 ? state_get_mat(from, "B", s->p.be, &s->B, err) : r;
    r = r == 0 ? state_get_mat(from, "R", s->p.be, &s->R, err) : r;
    r = r == 0 ? state_get_mat(from, "P", s->p.be, &s->P, err) : r;
    r = r == 0 ? state_get_mat(from, "best", s->p.be, &s->best_B, err) : r;
    r = r == 0 ? state_get_mat(from, "V", s->p.be, &s->V, err) : r;
    if (r == 0) {
        take_numbers(s, counters, columns);
    }
    return r;
}
