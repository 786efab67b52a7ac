/*
 * Kernel machine conjugate gradients: the posterior of a gaussian process from search directions.
 *
 * Paper: Bartels, Hennig, "Conjugate gradients for kernel machines", JMLR 21 (2020), algorithm 2
 * with M = N. Conjugate gradients run on the noise-free K X = Y, and not their solution is taken
 * but their directions S, as observations of the kernel, which is put in place by
 *
 *     q(x, x') = k(x, X) S (S'K S)^-1 S'k(X, x').
 *
 * Notation of the paper: S, Z = K S (there also R, which is a residual here); sigma^2 = ridge. With
 * S'K S = I (conjugate_span.h)
 *
 *     A_j = S a_j,    a_j = (Z'Z + ridge I)^-1 Z'Y_j,
 *
 * which minimises |Y_j - K A_j|^2 + ridge A_j'K A_j over the span of S: of the same space plain
 * conjugate gradients on K + ridge I take another point. Variance and evidence follow from S and
 * Z'Z (posterior.h).
 *
 * Cost of a step: n^2 kernel values, and 10 n p w multiplications beside them for p directions so
 * far, w = t + `probes`. Memory: 2 n p + 4 n w numbers and 2 p^2 float64 ones, p = `directions`;
 * 6 n t more where the mean goes on.
 *
 * Beyond the paper:
 *   - several targets share the space that all their directions span, one more a step for each;
 *   - so do `probes`, targets of random numbers that nobody asks for. Directions from the targets
 *     alone find their mean long before they know the kernel: 15 probes leave a hundredth of the
 *     variance's error after as many products (docs/claims/paper-004.md). A product with 16 vectors
 *     takes two to five times as long as with one;
 *   - the iteration ends by the residual of (K + ridge I) A = Y, which Z gives without a product;
 *     the paper's rule, |Y - K X| < |Y| / 100, is never met where targets are noisy;
 *   - the factor of Z'Z + ridge I grows by rows, so that coefficients, residual and test error are
 *     there after every step;
 *   - the evidence is Titsias's bound (posterior.h) unless `approximation` is "dtc": q is made from
 *     Y itself, so that the likelihood under q alone is largest for kernels that fit nothing, of
 *     which one direction explains Y;
 *   - the directions come from residuals of K + ridge I (conjugate_span.h);
 *   - when K shows no further direction (it has no more rank in this precision), or `directions` of
 *     them are in use, the mean goes on to the tolerance by conjugate gradients that
 *     (Q + ridge I)^-1, Q = Z Z' what the directions know of K, preconditions (kmcg_known.c);
 *     variance and evidence stay those of the directions. With a limit of iterations before that
 *     and without probes the mean is the paper's;
 *   - in mixed precision the products are with the exact points: nothing refines what float32
 *     values would leave in Z.
 * M < N is solver_kmcg_restricted.c.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/memory.h"
#include "engine/methods/gaussian_process/kmcg.h"
#include "engine/methods/methods.h"
#include "engine/posterior.h"
#include "plan/rules.h"

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const matrices[] = {&s->Y, &s->G,   &s->L, &s->c, &s->b,
                                    &s->a, &s->row, &s->v, &s->R};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        s->p.be->ops->mat_free(s->p.be, matrices[i]);
    }
    kmcg_end_rest(s);
    span_deinit(&s->span);
    mem_free(s->least);
    mem_free(s->numbers);
    mem_free(s);
}

static int allocate(struct solver *s, int64_t room, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t w = s->width;
    const struct {
        struct mat *mat;
        enum dtype dtype;
        int64_t rows, cols;
    } parts[] = {
        {&s->G, DTYPE_F64, room, room}, {&s->L, DTYPE_F64, room, room},
        {&s->c, DTYPE_F64, room, w},    {&s->b, DTYPE_F64, room, w},
        {&s->a, DTYPE_F64, room, w},    {&s->row, p->dtype, w, room},
        {&s->v, p->dtype, room, w},     {&s->R, p->dtype, p->n, w},
        {&s->Y, p->dtype, p->n, w},
    };
    s->numbers = mem_zarray((size_t)w, 5 * sizeof(double));
    s->least = mem_zarray((size_t)w, sizeof(double));
    int r = s->numbers != NULL && s->least != NULL ? 0 : err_no_memory(err);
    for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        r = p->be->ops->mat_new(p->be, parts[i].dtype, parts[i].rows, parts[i].cols, parts[i].mat,
                                err);
    }
    return r;
}

/* Y: the targets, and normal numbers. */
static int make_targets(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const struct mat targets = mat_cols(s->Y, 0, s->p.t);
    struct rng rng = rng_new(s->p.seed, RNG_SOLVER);
    cleanup_mem double *numbers = mem_array((size_t)s->p.n, sizeof(*numbers));
    int r = numbers != NULL ? o->copy(s->p.be, &s->p.Y, &targets, err) : err_no_memory(err);
    for (int64_t j = s->p.t; r == 0 && j < s->width; j++) {
        for (int64_t i = 0; i < s->p.n; i++) {
            numbers[i] = rng_normal(&rng);
        }
        const struct mat probe = mat_cols(s->Y, j, 1);
        r = o->mat_put(s->p.be, numbers, s->p.n, &probe, err);
    }
    return r;
}

/* A tolerance of 1 is reached by coefficients of 0, but a posterior has a direction of each target.
 */
static const double least_share = 0.5;

/* R = Y. Nothing is left of targets that are 0, but where their variance is asked for, which does
 * not depend on them: without an amplitude it is 0. */
static int look_at_targets(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    int r = p->be->ops->copy(p->be, &s->Y, &s->R, err);
    r = r == 0 ? p->be->ops->col_dots(p->be, &s->Y, &s->Y, s->numbers, err) : r;
    for (int64_t j = 0; r == 0 && j < s->width; j++) {
        s->residual = j < p->t && s->numbers[j] > 0 ? 1.0 : s->residual;
        s->least[j] = fmin(s->tolerance, least_share) * sqrt(s->numbers[j]);
    }
    s->probed = s->width > p->t ? 1.0 : 0.0;
    const bool wanted = s->probed > 0 && !isnan(s->amplitude);
    s->ended = s->residual == 0 && !wanted ? REASON_CONVERGED : 0;
    return r;
}

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    const struct param_value *amplitude = param_get(&o->params, "amplitude");
    const int64_t room = rule_directions(p->n, param_int(&o->params, "directions"));
    if (!(p->ridge > 0)) {
        return err_at(err, ERR_INVALID, "#/regularization",
                      "The solver \"kmcg\" takes it for the variance of the noise, which must be "
                      "positive.");
    }
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->tolerance = o->tolerance;
    s->amplitude = amplitude->is_auto ? NAN : amplitude->real;
    s->bound = strcmp(param_choice(&o->params, "approximation"), "vfe") == 0;
    s->width = p->t + rule_probes(p->t, param_get(&o->params, "probes"));
    int r = memory_check_pair(p->be, p->n, 2 * room + 4 * s->width + 6 * p->t, p->dtype, room,
                              2 * room, DTYPE_F64, "solver `kmcg`", err);
    r = r == 0 ? allocate(s, room, err) : r;
    r = r == 0 ? make_targets(s, err) : r;
    r = r == 0 ? span_init(&s->span, p, s->width, room, err) : r;
    r = r == 0 ? look_at_targets(s, err) : r;
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- an iteration ---- */

/* Rows `from` to the last of Z'Z and Z'Y. */
static int add_products(struct solver *s, int64_t from, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const int64_t count = s->span.count, q = count - from;
    const struct mat Z = span_Z(&s->span), next = mat_cols(Z, from, q);
    const struct mat row = mat_cols(mat_rows(s->row, 0, q), 0, count);
    const struct mat y = mat_rows(s->span.C, 0, q); /* scratch */
    const struct mat G = mat_cols(mat_rows(s->G, from, q), 0, count), c = mat_rows(s->c, from, q);
    int r = o->gemm(s->p.be, true, false, 1.0, &next, &Z, 0.0, &row, err);
    r = r == 0 ? o->copy(s->p.be, &row, &G, err) : r;
    r = r == 0 ? o->gemm(s->p.be, true, false, 1.0, &next, &s->Y, 0.0, &y, err) : r;
    return r == 0 ? o->copy(s->p.be, &y, &c, err) : r;
}

/* The same rows of L with L L' = Z'Z + ridge I. A pivot's square is at least ridge; where rounding
 * makes it less than half of that: -ERR_NOT_POSITIVE_DEFINITE. */
static int add_to_factor(struct solver *s, int64_t from, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    struct backend *be = s->p.be;
    const int64_t count = s->span.count, q = count - from;
    const struct mat G = mat_cols(mat_rows(s->G, from, q), 0, count);
    const struct mat rows = mat_cols(mat_rows(s->L, from, q), 0, count);
    const struct mat before = mat_cols(mat_rows(s->L, 0, from), 0, from);
    const struct mat left = mat_cols(rows, 0, from), corner = mat_cols(rows, from, q);
    int r = o->copy(be, &G, &rows, err);
    r = r == 0 && from > 0 ? o->trsm(be, true, true, &before, &left, err) : r;
    r = r == 0 ? o->add_diag(be, s->p.ridge, &corner, err) : r;
    r = r == 0 && from > 0 ? o->syrk(be, false, -1.0, &left, 1.0, &corner, err) : r;
    return r == 0 ? o->potrf(be, &corner, 0.5 * s->p.ridge, NULL, err) : r;
}

int kmcg_solve_back(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const int64_t count = s->span.count;
    const struct mat L = mat_cols(mat_rows(s->L, 0, count), 0, count);
    const struct mat b = mat_rows(s->b, 0, count), a = mat_rows(s->a, 0, count);
    const struct mat v = mat_rows(s->v, 0, count);
    int r = o->copy(s->p.be, &b, &a, err);
    r = r == 0 ? o->trsm(s->p.be, false, true, &L, &a, err) : r;
    return r == 0 ? o->copy(s->p.be, &a, &v, err) : r;
}

/* b, by the new rows, and a. */
static int solve_core(struct solver *s, int64_t from, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    struct backend *be = s->p.be;
    const int64_t count = s->span.count, q = count - from;
    const struct mat rows = mat_cols(mat_rows(s->L, from, q), 0, count);
    const struct mat left = mat_cols(rows, 0, from), corner = mat_cols(rows, from, q);
    const struct mat c = mat_rows(s->c, from, q), b = mat_rows(s->b, from, q);
    const struct mat before = mat_rows(s->b, 0, from);
    int r = o->copy(be, &c, &b, err);
    r = r == 0 && from > 0 ? o->gemm(be, false, false, -1.0, &left, &before, 1.0, &b, err) : r;
    r = r == 0 ? o->trsm(be, false, false, &corner, &b, err) : r;
    return r == 0 ? kmcg_solve_back(s, err) : r;
}

/* The largest relative residual of columns first .. last - 1 of R, whose squares are `rr`. */
static double largest_residual(const struct solver *s, const double *rr, int64_t first,
                               int64_t last)
{
    double largest = 0;
    for (int64_t j = first; j < last; j++) {
        const double relative = s->numbers[j] > 0 ? sqrt(rr[j] / s->numbers[j]) : 0.0;
        largest = isnan(relative) || isnan(largest) ? NAN : fmax(largest, relative);
    }
    return largest;
}

static int measure(struct solver *s, struct err *err)
{
    double *rr = s->numbers + 2 * s->width;
    const int r = s->p.be->ops->col_dots(s->p.be, &s->R, &s->R, rr, err);
    if (r == 0) {
        s->residual = largest_residual(s, rr, 0, s->p.t);
        s->probed = largest_residual(s, rr, s->p.t, s->width);
    }
    return r == 0 && !(isfinite(s->residual) && isfinite(s->probed))
               ? err_set(err, ERR_DIVERGED, "The directions hold infinity or NaN.")
               : r;
}

int kmcg_take_residual(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    struct backend *be = s->p.be;
    const struct mat S = span_S(&s->span), Z = span_Z(&s->span);
    const struct mat v = mat_rows(s->v, 0, s->span.count);
    int r = o->copy(be, &s->Y, &s->R, err);
    r = r == 0 ? o->gemm(be, false, false, -1.0, &Z, &v, 1.0, &s->R, err) : r;
    r = r == 0 ? o->col_dots(be, &s->R, &s->R, s->numbers + s->width, err) : r;
    r = r == 0 ? o->gemm(be, false, false, -s->p.ridge, &S, &v, 1.0, &s->R, err) : r;
    return r == 0 ? measure(s, err) : r;
}

/* What the new directions change; where their Gram matrix cannot be factored they are not taken. */
static int absorb(struct solver *s, int64_t from, struct err *err)
{
    int r = add_products(s, from, err);
    r = r == 0 ? add_to_factor(s, from, err) : r;
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        s->span.count = from;
        return REASON_STAGNATED;
    }
    r = r == 0 ? solve_core(s, from, err) : r;
    return r == 0 ? kmcg_take_residual(s, err) : r;
}

/* With no direction left that rounding has not eaten, or no room for one. Negative ones are no part
 * of the posterior, and of the mean only as far as the ridge outweighs them. */
static int out_of_directions(struct solver *s, struct err *err)
{
    return s->span.count > 0 && !s->alone ? kmcg_go_on(s, err) : REASON_BREAKDOWN;
}

static int iterate(struct solver *s, struct err *err)
{
    const int64_t from = s->span.count;
    int64_t added = 0;
    int r = span_extend(&s->span, &s->R, s->least, &added, err);
    if (r < 0 || added == 0) {
        return r < 0 ? r : out_of_directions(s, err);
    }
    r = absorb(s, from, err);
    if (r == REASON_STAGNATED) {
        return out_of_directions(s, err);
    }
    s->iteration++;
    if (r == 0 && fmax(s->residual, s->probed) <= s->tolerance) {
        return REASON_CONVERGED;
    }
    return r == 0 && s->span.count == s->span.room ? out_of_directions(s, err) : r;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    if (s->rest != NULL) {
        return kmcg_step_on(s, ret, err);
    }
    const int r = s->ended == 0 ? iterate(s, err) : s->ended;
    s->ended = r > 0 ? r : s->ended;
    *ret = (struct step_report){
        .phase = "iterating",
        .fraction = NAN,
        .iteration = s->iteration,
        .relative_residual = s->residual,
        .built = true,
        .usable = s->span.count > 0 || s->ended == REASON_CONVERGED,
        .rank = s->span.count,
    };
    return r;
}

/* ---- what comes out ---- */

static int put_zeros(const struct solver *s, const struct mat *A, struct err *err)
{
    cleanup_mem double *zero = mem_zarray((size_t)(s->p.n * s->p.t), sizeof(*zero));
    return zero != NULL ? s->p.be->ops->mat_put(s->p.be, zero, s->p.n, A, err) : err_no_memory(err);
}

int kmcg_own_mean(const struct solver *s, const struct mat *A, struct err *err)
{
    const struct mat S = span_S(&s->span);
    const struct mat v = mat_cols(mat_rows(s->v, 0, s->span.count), 0, s->p.t);
    return s->span.count > 0 ? s->p.be->ops->gemm(s->p.be, false, false, 1.0, &S, &v, 0.0, A, err)
                             : put_zeros(s, A, err);
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->better ? solver_pcg_ops.coef(s->rest, A, err) : kmcg_own_mean(s, A, err);
}

static int refuse(struct solver *s, struct err *err)
{
    s->exact = false;
    return s->rest != NULL ? solver_pcg_ops.refuse(s->rest, err) : kmcg_go_on(s, err);
}

/* trace(K - Q). */
static int trace_left(struct solver *s, const struct mat *G, double *ret, struct err *err)
{
    const int64_t p = G->cols;
    cleanup_mem double *column = mem_array((size_t)p, sizeof(*column));
    double left = s->span.trace;
    int r = column != NULL ? 0 : err_no_memory(err);
    for (int64_t j = 0; r == 0 && j < p; j++) {
        const struct mat from = mat_cols(*G, j, 1);
        r = s->p.be->ops->mat_get(s->p.be, &from, column, p, err);
        left -= r == 0 ? column[j] : 0;
    }
    *ret = fmax(left, 0.0);
    return r;
}

/* ridge y'(K + ridge I)^-1 y of the mean that has converged beyond the directions. It is positive
 * and no larger than `misfit`, what q makes of it: where the tolerance is too wide for that,
 * misfit.
 */
static int exact_misfit(struct solver *s, const double *misfit, double *ret, struct err *err)
{
    const struct mat targets = mat_cols(s->Y, 0, s->p.t);
    int r = solver_pcg_ops.coef(s->rest, &s->own, err); /* of no more use to it */
    r = r == 0 ? s->p.be->ops->col_dots(s->p.be, &s->own, &targets, ret, err) : r;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        const double found = s->p.ridge * ret[j];
        ret[j] = found > 0 && found < misfit[j] ? found : misfit[j];
    }
    return r;
}

/* Targets of zeros have no directions: one of zeros stands for them. */
static int posterior(struct solver *s, struct posterior *ret, struct err *err)
{
    const int64_t t = s->p.t, count = s->span.count > 0 ? s->span.count : 1;
    const struct mat S = mat_cols(s->span.S, 0, count);
    const struct mat a = mat_cols(mat_rows(s->a, 0, count), 0, t);
    const struct mat G = mat_cols(mat_rows(s->G, 0, count), 0, count);
    double *aa = s->numbers + 2 * s->width, *misfit = s->numbers + 3 * s->width;
    double *exact = s->numbers + 4 * s->width;
    double left = 0;
    int r = s->p.be->ops->col_dots(s->p.be, &a, &a, aa, err);
    r = r == 0 && s->bound ? trace_left(s, &G, &left, err) : r;
    for (int64_t j = 0; r == 0 && j < t; j++) {
        misfit[j] = s->numbers[s->width + j] + s->p.ridge * aa[j];
    }
    r = r == 0 && s->exact ? exact_misfit(s, misfit, exact, err) : r;
    const struct posterior_sums sums = {
        .n = s->p.n,
        .t = t,
        .ridge = s->p.ridge,
        .S = &S,
        .G = &G,
        .misfit = misfit,
        .left_out = left,
        .amplitude = s->amplitude,
        .exact = s->exact ? exact : NULL,
    };
    return r == 0 ? posterior_make(s->p.be, &sums, ret, err) : r;
}

const struct solver_ops solver_kmcg_ops = {
    .name = "kmcg",
    .whole_products = true,
    .cold = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .refuse = refuse,
    .posterior = posterior,
    .save = kmcg_save,
    .load = kmcg_load,
    .teardown = teardown,
};
