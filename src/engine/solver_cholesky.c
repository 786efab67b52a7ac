/*
 * Direct solution of (K + ridge I) A = Y by a blocked, left-looking Cholesky factorisation
 * K + ridge I = L L' (Golub and Van Loan, Matrix Computations, 4.2), all targets at once.
 *
 * One step makes one panel of b = block_size columns J, with I the rows from J's first on:
 *     G    = K(I,J) + ridge I - L(I,1:j) L(J,1:j)'      the kernel oracle and one gemm
 *     L_JJ = chol(G_JJ),   L_IJ = G_IJ L_JJ^-T          potrf and trsm
 * then one step solves L L' A = Y, and each of at most MAX_REFINEMENTS more takes the residual
 * R = Y - (K + ridge I) A by the oracle and keeps A + (L L')^-1 R if its residual is smaller.
 *
 * Cost: n^3/3 multiplications in all; a step has at most n^2 b / 4. Memory: n^2 numbers, of which
 * the strict upper triangle outside the diagonal blocks is never touched, and 3 n t.
 *
 * A pivot not above n eps max_i (K_ii + ridge), the size of the factorisation's own rounding error,
 * ends the solve with -ERR_NOT_POSITIVE_DEFINITE. Points in float32 with vectors in float64
 * ("mixed") factorise float32 kernel values in float64. The answer is CONVERGED when the residual
 * of the working precision reached the tolerance, else STAGNATED: a direct method has nothing left
 * to try.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods.h"

enum { MAX_REFINEMENTS = 3 };

enum stage { FACTORIZING, SOLVING, CHECKING, REFINING, DONE };

struct solver {
    struct problem p;
    double tolerance;
    int64_t block;
    int64_t next; /* columns of L made so far */
    double min_pivot;
    enum stage stage;
    int refinements;
    double residual; /* of A, largest over columns; NaN before CHECKING */
    struct mat L, A, R, D;
    double *norms; /* [2 t]: |Y_j|^2, then workspace */
    double *ones;  /* [2 t]: coefficients for column operations */
};

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct backend *be = s->p.be;
    be->ops->mat_free(be, &s->L);
    be->ops->mat_free(be, &s->A);
    be->ops->mat_free(be, &s->R);
    be->ops->mat_free(be, &s->D);
    mem_free(s->norms);
    mem_free(s->ones);
    mem_free(s);
}

/* min_pivot = n eps max_i (k(x_i, x_i) + ridge). */
static int set_min_pivot(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    cleanup_mem double *diag = mem_array((size_t)p->n, sizeof(double));
    if (diag == NULL) {
        return err_no_memory(err);
    }
    const struct mat d = mat_cols(s->R, 0, 1);
    int r = o->kdiag(p->be, view_all(p->X, p->n), &d, err);
    if (r == 0) {
        r = o->mat_get(p->be, &d, diag, p->n, err);
    }
    if (r < 0) {
        return r;
    }
    double largest = 0;
    for (int64_t i = 0; i < p->n; i++) {
        largest = fmax(largest, diag[i]);
        if (!isfinite(diag[i])) {
            return err_at(err, ERR_DIVERGED, "#/kernel",
                          "The kernel's values overflow the precision: scale the features, or take "
                          "smaller kernel parameters.");
        }
    }
    const double eps = p->dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    s->min_pivot = (double)p->n * eps * (largest + p->ridge);
    return 0;
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
    int r = memory_check_matrix(p->be, p->n, p->n, p->dtype, "solver `cholesky`", err);
    struct mat *const vectors[] = {&s->A, &s->R, &s->D};
    for (int i = 0; r == 0 && i < 3; i++) {
        r = o->mat_new(p->be, p->dtype, p->n, p->t, vectors[i], err);
    }
    return r == 0 ? o->mat_new(p->be, p->dtype, p->n, p->n, &s->L, err) : r;
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
    s->block = param_int(&options->params, "block_size");
    s->residual = NAN;
    int r = allocate(s, err);
    if (r == 0) {
        r = p->be->ops->col_dots(p->be, &p->Y, &p->Y, s->norms, err);
    }
    if (r == 0) {
        r = set_min_pivot(s, err);
    }
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int not_positive_definite(const struct solver *s, int64_t row, struct err *err)
{
    return err_at(
        err, ERR_NOT_POSITIVE_DEFINITE, "#/regularization",
        "The regularized kernel matrix is not positive definite in this precision: the "
        "factorisation broke down at training row %" PRId64 " of %" PRId64
        ". Raise `regularization`, remove duplicate rows, %sor choose a positive definite "
        "kernel.",
        row + 1, s->p.n, s->p.dtype == DTYPE_F32 ? "use precision float64, " : "");
}

/* G = K(I,J) + ridge I - L(I,1:j) L(J,1:j)' into L(I,J). */
static int fill_panel(struct solver *s, int64_t j, int64_t b, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t below = p->n - j;
    const struct mat G = mat_rows(mat_cols(s->L, j, b), j, below);
    const struct mat G_JJ = mat_rows(G, 0, b);
    int r = o->kblock(p->be, view_range(p->X, j, below), view_range(p->X, j, b), &G, err);
    if (r == 0) {
        r = o->add_diag(p->be, p->ridge, &G_JJ, err);
    }
    if (r == 0 && j > 0) {
        const struct mat L_I = mat_rows(mat_cols(s->L, 0, j), j, below);
        const struct mat L_J = mat_rows(L_I, 0, b);
        r = o->gemm(p->be, false, true, -1.0, &L_I, &L_J, 1.0, &G, err);
    }
    return r;
}

static int factor_panel(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t j = s->next;
    const int64_t b = p->n - j < s->block ? p->n - j : s->block;
    int r = fill_panel(s, j, b, err);
    if (r < 0) {
        return r;
    }
    const struct mat panel = mat_rows(mat_cols(s->L, j, b), j, p->n - j);
    const struct mat L_JJ = mat_rows(panel, 0, b);
    int64_t column = 0;
    r = o->potrf(p->be, &L_JJ, s->min_pivot, &column, err);
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        return not_positive_definite(s, j + column, err);
    }
    if (r == 0 && p->n > j + b) {
        const struct mat L_IJ = mat_rows(panel, b, p->n - j - b);
        r = o->trsm(p->be, true, true, &L_JJ, &L_IJ, err);
    }
    s->next += b;
    if (s->next == p->n) {
        s->stage = SOLVING;
    }
    return r;
}

/* B <- (L L')^-1 B. */
static int solve(struct solver *s, const struct mat *B, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const int r = o->trsm(s->p.be, false, false, &s->L, B, err);
    return r == 0 ? o->trsm(s->p.be, false, true, &s->L, B, err) : r;
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
        one[j] = 1.0;
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
        r = solve(s, &s->A, err);
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
        r = solve(s, &s->D, err);
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

/* Multiplications done, of n^3/3: the panels up to column x n have x^2 (3 - 2x) of them. */
static double fraction(const struct solver *s)
{
    const double x = (double)s->next / (double)s->p.n;
    const double factored = x * x * (3.0 - 2.0 * x);
    return s->stage == DONE ? 1.0 : 0.95 * factored + (s->stage > SOLVING ? 0.03 : 0.0);
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

const struct solver_ops solver_cholesky_ops = {
    .name = "cholesky",
    .setup = setup,
    .step = step,
    .coef = coef,
    .teardown = teardown,
};
