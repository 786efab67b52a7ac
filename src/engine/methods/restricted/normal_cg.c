#include "engine/methods/restricted/normal_cg_parts.h"

#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"

/* Notation of solver_pcg.c: omega = z'r, eta = omega / p'v, gamma = omega_new / omega. */

void normal_cg_teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const all[] = {&s->coefs, &s->sums, &s->P, &s->Z, &s->best_R, &s->block};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
    }
    s->method.precond->teardown(s->M);
    cg_columns_deinit(&s->c);
    mem_free(s->doubt);
    mem_free(s->falls);
    mem_free(s);
}

static int allocate_matrices(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t m = p->restricted->m, t = p->t;
    struct mat *const pairs[] = {&s->coefs, &s->sums}, *const singles[] = {&s->P, &s->Z,
                                                                           &s->best_R};
    int r =
        memory_check_matrix(p->be, m, NORMAL_CG_MATRICES * t, p->dtype, "conjugate gradients", err);
    for (int i = 0; r == 0 && i < 2; i++) {
        r = o->mat_new(p->be, p->dtype, m, 2 * t, pairs[i], err);
    }
    for (int i = 0; r == 0 && i < 3; i++) {
        r = o->mat_new(p->be, p->dtype, m, t, singles[i], err);
    }
    if (r == 0) {
        s->B = mat_cols(s->coefs, 0, t);
        s->best_B = mat_cols(s->coefs, t, t);
        s->V = mat_cols(s->sums, 0, t);
        s->R = mat_cols(s->sums, t, t);
    }
    const int64_t rows = m < CORE_MULTIPLY_ROWS ? m : CORE_MULTIPLY_ROWS;
    return r == 0 && s->method.variables != NULL
               ? o->mat_new(p->be, DTYPE_F64, rows, t, &s->block, err)
               : r;
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    s->doubt = mem_zarray((size_t)p->t, sizeof(double));
    s->falls = mem_zarray((size_t)p->t, sizeof(double));
    if (s->doubt == NULL || s->falls == NULL || cg_columns_init(&s->c, p->be, p->t, err) < 0) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        s->c.relative[j] = s->c.best[j] = 1.0;
    }
    return allocate_matrices(s, err);
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
    s->method = *method;
    int r = allocate(s, err);
    if (r == 0) {
        r = s->method.precond->setup(p, &o->params, &s->M, err);
    }
    if (r < 0) {
        normal_cg_teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- directions ---- */

static bool any_moves(const struct solver *s)
{
    bool moves = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        moves = moves || (!s->c.frozen[j] && !s->c.broken[j]);
    }
    return moves;
}

static bool any_broken(const struct solver *s)
{
    bool broken = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        broken = broken || s->c.broken[j];
    }
    return broken;
}

/* What B moves along. */
static const struct mat *moves_along(const struct solver *s)
{
    return normal_cg_whitened(s) ? &s->Z : &s->P;
}

int normal_cg_directions(struct solver *s, struct err *err)
{
    int r = s->method.precond->apply(s->M, &s->R, &s->Z, err);
    r = r == 0 ? cg_columns_directions(&s->c, &s->Z, &s->R, &s->P, err) : r;
    if (r < 0) {
        return r;
    }
    s->stage = any_moves(s) ? STAGE_PRODUCT : STAGE_RESIDUAL;
    return normal_cg_whitened(s) ? core_unwhiten(s->p.be, &s->v, &s->P, &s->Z, err) : 0;
}

/* Of coefficients that are the best so far, with their residual in the variables of B. */
static int first_directions(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = normal_cg_whitened(s) ? core_whiten(s->p.be, &s->v, &s->R, err) : 0;
    r = r == 0 ? o->copy(s->p.be, &s->B, &s->best_B, err) : r;
    r = r == 0 ? o->copy(s->p.be, &s->R, &s->best_R, err) : r;
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.best[j] = s->c.relative[j];
    }
    if (r == 0 && cg_columns_frozen(&s->c)) {
        return REASON_CONVERGED;
    }
    return r == 0 ? normal_cg_directions(s, err) : r;
}

/* ---- what follows a pass ---- */

/* R = K_nm' Y. */
static int take_norms(struct solver *s, struct err *err)
{
    int r = s->p.be->ops->col_dots(s->p.be, &s->R, &s->R, s->c.dots, err);
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        s->c.norm[j] = sqrt(s->c.dots[j]);
        s->c.frozen[j] = s->c.norm[j] == 0;
        s->c.relative[j] = s->c.frozen[j] ? 0.0 : 1.0;
        if (!isfinite(s->c.norm[j])) {
            return cg_columns_diverged(err);
        }
    }
    return r;
}

/* B = 0. */
static int begin(struct solver *s, struct err *err)
{
    int r = normal_cg_take_negative(s, &s->R, err);
    r = r == 0 ? take_norms(s, err) : r;
    return r == 0 ? first_directions(s, err) : r;
}

/* R holds -K_nm' Y. R_j = -V_j, or K_nm' Y_j and B_j = 0 where the coefficients to begin with are
 * no better than that. */
static int take_start(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.one[j] = -1.0;
        s->c.work[j] = 0.0;
    }
    int r = o->col_axpby(s->p.be, s->c.work, &s->best_B, s->c.one, &s->R, err); /* best_B = 0 */
    r = r == 0 ? take_norms(s, err) : r;
    r = r == 0 ? o->col_dots(s->p.be, &s->V, &s->V, s->c.dots, err) : r;
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
    return r == 0 ? first_directions(s, err) : r;
}

/* The residual's norm is that in the variables of B, which the tolerance is meant for. */
static int measure(struct solver *s, struct err *err)
{
    if (!normal_cg_whitened(s)) {
        return cg_columns_measure(&s->c, &s->R, err);
    }
    const int r = core_multiply(s->p.be, &s->v, &s->block, &s->R, err);
    return r == 0 ? cg_columns_measure(&s->c, s->v.W, err) : r;
}

/* V is the product with P. */
static int update(struct solver *s, struct err *err)
{
    int r = cg_columns_lengths(&s->c, &s->P, &s->V, err);
    if (r >= 0) {
        r = cg_columns_move(&s->c, moves_along(s), &s->V, &s->B, &s->R, err);
    }
    r = r == 0 ? measure(s, err) : r;
    if (r < 0) {
        return r;
    }
    s->iteration += any_moves(s);
    s->since_check++;
    if (s->since_check >= s->method.residual_every || any_broken(s) ||
        cg_columns_below(&s->c, s->tolerance)) {
        s->stage = STAGE_RESIDUAL;
        return 0;
    }
    return normal_cg_directions(s, err);
}

/* ---- steps ---- */

/* V += the centers' part of H, and V = L^-1 V: of P, in its variables, or of B, in B's. */
static int add_core(struct solver *s, struct err *err)
{
    const bool product = s->stage == STAGE_PRODUCT;
    if (s->stage == STAGE_RIGHT_HAND_SIDE) {
        return 0;
    }
    if (!product || !normal_cg_whitened(s)) {
        return normal_add_core(s->p.restricted, s->p.be, s->p.ridge, product ? &s->P : &s->B, &s->V,
                               err);
    }
    const int r = core_whiten(s->p.be, &s->v, &s->V, err);
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.work[j] = s->p.ridge;
        s->c.one[j] = 1.0;
    }
    return r == 0 ? s->p.be->ops->col_axpby(s->p.be, s->c.work, &s->P, s->c.one, &s->V, err) : r;
}

/* A piece of the pass under way, and what follows when it was the last one. */
static int advance(struct solver *s, struct err *err)
{
    static int (*const follow[STAGES])(struct solver * s, struct err * err) = {
        [STAGE_RIGHT_HAND_SIDE] = begin,
        [STAGE_START] = take_start,
        [STAGE_PRODUCT] = update,
        [STAGE_RESIDUAL] = normal_cg_check,
    };
    const struct restricted *re = s->p.restricted;
    const bool product = s->stage == STAGE_PRODUCT;
    const struct mat *X =
        product ? moves_along(s) : &s->B; /* B is still 0 for the right-hand side */
    int r = s->stage == STAGE_START
                ? normal_gradient_and_sums(re, s->p.be, &s->pass, &s->coefs, &s->sums, err)
                : normal_gradient(re, s->p.be, &s->pass, X, !product, &s->V, err);
    if (r <= 0) {
        return r;
    }
    r = add_core(s, err);
    return r == 0 ? follow[s->stage](s, err) : r;
}

/* Coefficients to begin with, if there are any; not where a checkpoint has gone further. */
static int start(struct solver *s, struct err *err)
{
    const bool first = s->stage == STAGE_RIGHT_HAND_SIDE && s->pass.tile == 0;
    if (!first || (s->p.start == NULL && s->method.start == NULL)) {
        return 0;
    }
    s->stage = STAGE_START;
    return s->p.start != NULL ? s->p.be->ops->copy(s->p.be, s->p.start, &s->B, err)
                              : s->method.start(s->M, &s->B, err);
}

static int build(struct solver *s, struct err *err)
{
    const int r = s->method.precond->build(s->M, &s->build_fraction, err);
    s->built = r > 0;
    if (s->built && s->method.variables != NULL) {
        s->v = s->method.variables(s->M);
    }
    return s->built ? start(s, err) : r;
}

/* Whether coefficients of any column were ever better than 0. */
static bool has_good(const struct solver *s)
{
    bool good = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        good = good || s->c.best[j] < 1.0;
    }
    return good;
}

/* Between checks the recurrence is believed where it promises less than the best by more than what
 * the last check found it to be off by. In whitened variables the residual of the first iterations
 * may well be larger than that of zeros, in the norm of B's, while the objective falls with each:
 * where zeros are the best so far, they are none. */
static bool hands_out_best(const struct solver *s, int64_t j)
{
    const bool zeros = s->c.best[j] >= 1.0;
    return zeros && s->method.variables != NULL && !s->c.broken[j]
               ? !isfinite(s->c.relative[j])
               : !(s->c.relative[j] + s->doubt[j] < s->c.best[j]);
}

/* Whether coefficients of any column are other than the best where zeros are the best. */
static bool hands_out_any(const struct solver *s)
{
    bool any = false;
    for (int64_t j = 0; j < s->p.t; j++) {
        any = any || !hands_out_best(s, j);
    }
    return any;
}

/* How it ends. Infinity or NaN beyond good coefficients is the end of what the precision gives, and
 * the best are what is left; where there are none, there is no model. */
static int conclude(struct solver *s, int r, struct err *err)
{
    const bool good = has_good(s), usable = r == REASON_STAGNATED && hands_out_any(s);
    if ((r == REASON_BREAKDOWN || r == REASON_STAGNATED) && !good && !usable) {
        return err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/regularization",
                      "The iteration came to nothing better than coefficients of 0: the system is "
                      "singular to working precision. Raise `regularization`, take fewer centers, "
                      "or another solver.");
    }
    if (r != -ERR_DIVERGED || !good) {
        return r;
    }
    for (int64_t j = 0; j < s->p.t; j++) {
        s->c.relative[j] = s->c.best[j];
        s->c.broken[j] = true; /* what it has come to may be no numbers */
    }
    return REASON_BREAKDOWN;
}

/* Of the iteration under way: a pass, and another one before it where it begins with a residual. */
static double share(const struct solver *s)
{
    const double pass = (double)s->pass.tile / (double)rowset_tiles(s->p.restricted->rows);
    if (s->stage != STAGE_PRODUCT) {
        return 0.5 * pass;
    }
    return s->since_check == 0 ? 0.5 + 0.5 * pass : pass;
}

int normal_cg_step(struct solver *s, struct step_report *ret, struct err *err)
{
    const bool building = !s->built;
    int r = s->ended;
    if (r == 0) {
        r = building ? build(s, err) : conclude(s, advance(s, err), err);
    }
    s->ended = r > 0 ? r : 0;
    *ret = (struct step_report){
        .phase = building && r == 0 ? "preconditioner" : "iterating",
        .fraction = building ? 0.3 * s->build_fraction : (double)NAN,
        .iteration = s->iteration,
        .relative_residual = cg_columns_largest(&s->c),
        .usable = s->iteration > 0 || s->given || r == REASON_CONVERGED,
        .rank = s->built ? s->method.precond->rank(s->M) : 0,
        .share = s->built ? share(s) : 0.0,
    };
    return r;
}

int normal_cg_coef(struct solver *s, const struct mat *A, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->copy(s->p.be, &s->B, A, err);
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        if (hands_out_best(s, j)) {
            const struct mat from = mat_cols(s->best_B, j, 1), to = mat_cols(*A, j, 1);
            r = o->copy(s->p.be, &from, &to, err);
        }
    }
    return r;
}
