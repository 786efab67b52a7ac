/*
 * Direct solution of (K + ridge I) A = Y by one Cholesky factorisation for all targets.
 *
 * The factor's panels (cholesky_factor.h), then one step solves L L' A = Y, and each of at most
 * MAX_REFINEMENTS more takes the residual R = Y - (K + ridge I) A by the oracle and keeps
 * A + (L L')^-1 R if its residual is smaller.
 *
 * Cost: n^3/6 multiply-adds. Memory: n^2 numbers of the factor's precision and 3 n t.
 *
 * A pivot not above n eps max_i (K_ii + ridge), the size of the factorisation's own rounding error,
 * ends the solve with -ERR_NOT_POSITIVE_DEFINITE. Points in float32 with vectors in float64
 * ("mixed") factorise float32 kernel values in float64. The answer is CONVERGED when the residual
 * of the working precision reached the tolerance, else STAGNATED: a direct method has nothing left
 * to try.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/methods/full/cholesky.h"
#include "engine/methods/full/cholesky_factor.h"

enum { MAX_REFINEMENTS = 3 };

enum stage { FACTORIZING, SOLVING, CHECKING, REFINING, DONE };

struct solver {
    struct problem p;
    double tolerance;
    enum stage stage;
    int refinements;
    double residual; /* of A, largest over columns; NaN before CHECKING */
    struct factor L;
    struct mat A, R, D;
    double *norms; /* [2 t]: |Y_j|^2, then workspace */
    double *ones;  /* [2 t]: coefficients for column operations, the second half always 1 */
};

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct backend *be = s->p.be;
    factor_deinit(&s->L);
    be->ops->mat_free(be, &s->A);
    be->ops->mat_free(be, &s->R);
    be->ops->mat_free(be, &s->D);
    mem_free(s->norms);
    mem_free(s->ones);
    mem_free(s);
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    s->norms = mem_zarray((size_t)p->t, 2 * sizeof(double));
    s->ones = mem_zarray((size_t)p->t, 2 * sizeof(double));
    if (s->norms == NULL || s->ones == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        s->ones[p->t + j] = 1.0;
    }
    struct mat *const vectors[] = {&s->A, &s->R, &s->D};
    int r = 0;
    for (int i = 0; r == 0 && i < 3; i++) {
        r = o->mat_new(p->be, p->dtype, p->n, p->t, vectors[i], err);
    }
    return r;
}

/* The factor has the precision of the vectors, or a wider one that is asked for. */
static int make_room(struct solver *s, const struct solver_options *options, struct err *err)
{
    const struct problem *p = &s->p;
    const struct param_value *factor = param_get(&options->params, "factor");
    const bool wide = !factor->is_auto && strcmp(factor->choice, "float64") == 0;
    const enum dtype dtype = wide ? DTYPE_F64 : p->dtype;
    const double eps = dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    double largest = 0;
    const int r = factor_largest_kernel(p, &largest, err);
    const double min_pivot = (double)p->n * eps * (largest + p->ridge);
    const int64_t block = param_int(&options->params, "block_size");
    return r < 0 ? r : factor_init(p, dtype, p->ridge, min_pivot, block, &s->L, err);
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
    s->residual = NAN;
    int r = allocate(s, err);
    if (r == 0) {
        r = p->be->ops->col_dots(p->be, &p->Y, &p->Y, s->norms, err);
    }
    if (r == 0) {
        r = make_room(s, options, err);
    }
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int factor_panel(struct solver *s, struct err *err)
{
    const int r = factor_step(&s->L, err);
    s->stage = r == 1 ? SOLVING : FACTORIZING;
    return r < 0 ? r : 0;
}

/* R = Y - (K + ridge I) A and max_j |R_j| / |Y_j|, NaN when a column has it; a column with Y_j = 0
 * has A_j = 0 exactly. */
static int residual(struct solver *s, const struct mat *A, double *ret, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct view all = view_all(p->X, p->n);
    double *minus_ridge = s->ones, *one = s->ones + p->t, *rr = s->norms + p->t;
    for (int64_t j = 0; j < p->t; j++) {
        minus_ridge[j] = -p->ridge;
    }
    int r = o->copy(p->be, &p->Y, &s->R, err);
    if (r == 0) {
        r = o->kmv(p->be, all, all, -1.0, A, 1.0, &s->R, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, minus_ridge, A, one, &s->R, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &s->R, &s->R, rr, err);
    }
    if (r < 0) {
        return r;
    }
    double largest = 0;
    for (int64_t j = 0; j < p->t; j++) {
        const double rel = s->norms[j] > 0 ? sqrt(rr[j] / s->norms[j]) : 0.0;
        largest = isnan(rel) || isnan(largest) ? NAN : fmax(largest, rel);
    }
    *ret = largest;
    return 0;
}

static int first_solution(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    int r = p->be->ops->copy(p->be, &p->Y, &s->A, err);
    if (r == 0) {
        r = factor_solve(&s->L, &s->A, err);
    }
    s->stage = CHECKING;
    return r;
}

/* A refinement costs two products with K; far below the tolerance it is not worth them. */
static int check(struct solver *s, struct err *err)
{
    const int r = residual(s, &s->A, &s->residual, err);
    if (r == 0 && !isfinite(s->residual)) {
        return err_set(err, ERR_DIVERGED, "The triangular solves gave infinity or NaN.");
    }
    s->stage = s->residual > 0.01 * s->tolerance ? REFINING : DONE;
    return r;
}

/* D = A + (L L')^-1 R takes the place of A if its residual is smaller. */
static int refine(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    double *one = s->ones + p->t, next = 0;
    int r = o->copy(p->be, &s->R, &s->D, err);
    if (r == 0) {
        r = factor_solve(&s->L, &s->D, err);
    }
    if (r == 0) {
        r = o->col_axpby(p->be, one, &s->A, one, &s->D, err);
    }
    if (r == 0) {
        r = residual(s, &s->D, &next, err);
    }
    if (r < 0) {
        return r;
    }
    const bool worth_another = next < 0.25 * s->residual && next > 0.01 * s->tolerance;
    if (next < s->residual) {
        r = o->copy(p->be, &s->D, &s->A, err);
        s->residual = next;
    }
    if (++s->refinements == MAX_REFINEMENTS || !worth_another) {
        s->stage = DONE;
    }
    return r;
}

static double fraction(const struct solver *s)
{
    return s->stage == DONE ? 1.0
                            : 0.95 * factor_fraction(&s->L) + (s->stage > SOLVING ? 0.03 : 0.0);
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = 0;
    switch (s->stage) {
    case FACTORIZING:
        r = factor_panel(s, err);
        break;
    case SOLVING:
        r = first_solution(s, err);
        break;
    case CHECKING:
        r = check(s, err);
        break;
    case REFINING:
        r = refine(s, err);
        break;
    case DONE:
        break;
    }
    *ret = (struct step_report){
        .phase = s->stage <= SOLVING ? "factorizing" : "iterating",
        .fraction = fraction(s),
        .iteration = s->refinements,
        .relative_residual = s->residual,
        .usable = s->stage > SOLVING,
        .savable = true,
    };
    if (r < 0 || s->stage != DONE) {
        return r;
    }
    return s->residual <= s->tolerance ? REASON_CONVERGED : REASON_STAGNATED;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, &s->A, A, err);
}

/* ---- checkpoints ---- */

/* The factor as far as it is, until it is of no more use; A as soon as there is one, and the
 * residual that a refinement begins with. */
static int save(const struct solver *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    const int64_t place[2] = {(int64_t)s->stage, s->refinements};
    int r = state_put_ints(to, "direct.place", place, 2, err);
    if (r == 0) {
        r = state_put_reals(to, "direct.residual", &s->residual, 1, err);
    }
    if (r == 0 && s->stage > SOLVING) {
        r = state_put_mat(to, "direct.A", be, &s->A, err);
    }
    if (r == 0 && s->stage == REFINING) {
        r = state_put_mat(to, "direct.R", be, &s->R, err);
    }
    return r == 0 && s->stage != DONE ? factor_save(&s->L, to, err) : r;
}

static bool possible(const int64_t place[2])
{
    return place[0] >= FACTORIZING && place[0] <= DONE && place[1] >= 0 &&
           place[1] <= MAX_REFINEMENTS;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    int64_t place[2];
    int r = state_get_ints(from, "direct.place", place, 2, err);
    if (r == 0 && !possible(place)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"direct.place\" is out of range.");
    }
    if (r == 0) {
        s->stage = (enum stage)place[0];
        s->refinements = (int)place[1];
        r = state_get_reals(from, "direct.residual", &s->residual, 1, err);
    }
    if (r == 0 && s->stage > SOLVING) {
        r = state_get_mat(from, "direct.A", be, &s->A, err);
    }
    if (r == 0 && s->stage == REFINING) {
        r = state_get_mat(from, "direct.R", be, &s->R, err);
    }
    if (r == 0 && s->stage != DONE) {
        r = factor_load(&s->L, from, err);
    }
    const bool complete = s->L.next == s->p.n;
    if (r == 0 && s->stage != DONE && complete == (s->stage == FACTORIZING)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's factor does not fit its place.");
    }
    return r;
}

const struct solver_ops cholesky_direct_ops = {
    .name = "cholesky",
    .direct = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
