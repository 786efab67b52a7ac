/*
 * EigenPro 2.0: preconditioned stochastic gradient descent for M A = Y, M = K + ridge I.
 *
 * Papers: Ma, Belkin, "Kernel machines that adapt to GPUs for effective large batch training",
 * arXiv:1806.06144; Abedsoltan, Belkin, Pandit, "Toward large kernel models", arXiv:2302.02605,
 * appendix C. The preconditioner, and how batch and step follow from it, are in eigenpro.h; its
 * notation W, lambda1', beta, eta is used here. S are the s rows of the subsample, B those of a
 * batch, b of them.
 *
 * The step, for a batch of rows that a random permutation of all rows gives in turn:
 *     G     = M(B,:) A - Y_B                    the residual on the batch, turned around
 *     A_B  -= (eta / b) G
 *     A_S  += (eta / b) W W' M(S,B) G
 * With ridge = 0 this is the published algorithm: descent on the mean of (f(x_i) - y_i)^2 / 2 in
 * the space of the kernel, f = sum_i a_i k(x_i, .), towards the interpolant.
 *
 * With a ridge. The obvious way, weight decay on f, makes the noise of the batches stay: at the
 * ridge solution the single residuals f(x_i) - y_i = -ridge a_i do not vanish, so a fixed step ends
 * in a ball around it. Here the ridge is part of the kernel instead: M is the matrix of k~(i,j) =
 * k(x_i,x_j) + ridge [i = j] on the n rows, and the ridge solution is the interpolant in the space
 * of k~, f~ = f + sqrt(ridge) (a_1, .., a_n). The iteration is the published one for k~, in
 * everything: G has the term ridge A_B, M(S,B) has the ridge where S and B share rows, eigenvalues
 * and diagonal are those of M. At the solution G = 0 for every batch: no noise is left, the
 * convergence is linear. With E = A - A*, N = W W' placed at rows and columns S, H = M^-1 - N
 * (positive definite, see eigenpro.h) and U_B the columns B of the identity, a step is
 *     E <- (I - (eta / b) H M U_B U_B' M) E,
 * self-adjoint in the norm E' H^-1 E and non-expansive in it as long as
 *     (eta / b) lambda_max(M'_BB) <= 2,     M' = M - M N M,
 * where M'_BB has the size beta + (b - 1) lambda1' of the published formulas. Along an eigenvector
 * of M' with value n mu, an epoch multiplies the error by about exp(-n mu / beta) whatever the
 * batch up to m*; the slowest has n mu = ridge, so that epochs for a factor e ~ beta / ridge =
 * beta / (n lambda). Directions of the large eigenvalues, which decide the test error, are there
 * after a few epochs; a small residual at a small lambda takes thousands, and is work for pcg.
 *
 * An iteration is one batch, or as many in turn as make GROUP_ENTRIES kernel values where batches
 * are small, but never more than an epoch: for n <= 2,048 rows an iteration is an epoch. The last
 * batch of an epoch takes the rows that are left. stop.max_iterations counts iterations.
 *
 * Cost of an epoch: n^2 kernel values, n (n t + 2 s q t / b) multiplications; K(B,S) is made once
 * and used for the residual and the correction. Memory: 5 n t + b s + s q + 2 b t numbers and 4 n
 * indices; while building, that of eigenpro_top.h and eigenpro.h.
 *
 * The residual it reports is an estimate that costs nothing: |G| over |Y_B|, summed over the
 * batches of the epoch so far, each before its own step. Every `residual_every` epochs, and at the
 * end of an epoch whose estimate reached the tolerance (again only after a tenth more epochs), the
 * true one is computed, at the cost of at most one epoch; CONVERGED and STAGNATED are said of that
 * alone.
 *
 * Beyond the paper:
 *   - If the squares of an epoch's residuals exceed four times those of the best epoch, or infinity
 *     or NaN turns up, the step is halved and the iteration goes back to the start of the last
 *     complete epoch: lambda1' and beta are estimates. After HALVINGS_MAX halvings -ERR_DIVERGED.
 *   - Batches of an epoch are of equal size as far as possible.
 *   - STAGNATED: in STALE_CHECKS checks in a row no column fell below 0.9 of its best so far while
 *     all were below the rounding error eps |M| |A_j|. A plateau above it is no reason to stop.
 *     -ERR_DIVERGED instead where a column was never below |Y_j|: the rounding error of
 *     coefficients that grow grows with them.
 *   - The coefficients with the least true residual of each column are kept, and handed out in
 *     place of the present ones where those are known to be worse: after a check, or where their
 *     estimate, which errs, is twice as large.
 */
#include <math.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/memory.h"
#include "engine/methods/eigenpro/eigenpro2.h"
#include "engine/methods/methods.h"

enum { STALE_CHECKS = 3, HALVINGS_MAX = 40 };

#define GROUP_ENTRIES (INT64_C(1) << 22)
#define CHECK_ENTRIES (INT64_C(1) << 31) /* kernel values of a step that checks the residual */

static const double improvement = 0.9;
static const double estimate_slack = 2.0;

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const matrices[] = {&s->A, &s->kept, &s->safe, &s->fit, &s->KBS,
                                    &s->G, &s->AB,   &s->H,    &s->T,   &s->R};
    for (int i = 0; i < 10; i++) {
        s->p.be->ops->mat_free(s->p.be, matrices[i]);
    }
    eigenpro_free(s->pre);
    mem_free(s->order);
    mem_free(s->place);
    mem_free(s->epoch);
    mem_free(s->rows);
    mem_free(s->arrays);
    mem_free(s);
}

/* ---- setting up ---- */

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const size_t n = (size_t)p->n;
    int64_t **const indices[] = {&s->order, &s->place, &s->epoch, &s->rows};
    for (int i = 0; i < 4; i++) {
        *indices[i] = mem_array(n, sizeof(int64_t));
        if (*indices[i] == NULL) {
            return err_no_memory(err);
        }
    }
    s->arrays = mem_zarray((size_t)p->t, EIGENPRO2_ARRAYS * sizeof(double));
    if (s->arrays == NULL) {
        return err_no_memory(err);
    }
    double **const members[EIGENPRO2_ARRAYS] = {&s->sum,   &s->seen,   &s->best,     &s->last,
                                                &s->truth, &s->lowest, &s->rounding, &s->norm,
                                                &s->dots,  &s->work};
    for (int i = 0; i < EIGENPRO2_ARRAYS; i++) {
        *members[i] = s->arrays + i * p->t;
    }
    const int64_t checked = eigenpro2__min(p->n, max_i64(CHECK_ENTRIES / p->n, 1));
    int r = memory_check_matrix(p->be, p->n, 5 * p->t, p->dtype, "solver `eigenpro2`", err);
    struct mat *const all[] = {&s->A, &s->kept, &s->safe, &s->fit};
    for (int i = 0; r == 0 && i < 4; i++) {
        r = p->be->ops->mat_new(p->be, p->dtype, p->n, p->t, all[i], err);
    }
    return r == 0 ? p->be->ops->mat_new(p->be, p->dtype, checked, p->t, &s->R, err) : r;
}

/* order: a random permutation, of which the first s rows are the subsample. */
static struct rng draw_order(struct solver *s)
{
    struct rng rng = rng_new(s->p.seed, RNG_PRECOND);
    for (int64_t i = 0; i < s->p.n; i++) {
        s->order[i] = i;
    }
    rng_shuffle(&rng, s->order, s->p.n);
    for (int64_t i = 0; i < s->p.n; i++) {
        s->place[s->order[i]] = i;
    }
    return rng;
}

static void begin_check(struct solver *s)
{
    s->at.checking = 0;
    eigenpro2__fill(s->truth, 0.0, s->p.t);
}

/* |Y_j|; A = 0 or the start, which is then looked at first. Where Y = 0 there is nothing to look
 * for: 0 is the answer. */
static int start(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    int r = o->col_dots(p->be, &p->Y, &p->Y, s->dots, err);
    s->zero = true;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        s->norm[j] = sqrt(s->dots[j]);
        s->best[j] = s->last[j] = s->dots[j];
        s->lowest[j] = INFINITY;
        s->zero = s->zero && s->norm[j] == 0;
    }
    if (r < 0 || p->start == NULL || s->zero) {
        return r;
    }
    begin_check(s);
    return o->gather_rows(p->be, p->start, s->order, &s->A, err);
}

static int64_t int_or(const struct param_set *set, const char *key, int64_t automatic)
{
    return param_get(set, key)->is_auto ? automatic : param_int(set, key);
}

static int make_preconditioner(struct solver *s, const struct param_set *params, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t bytes = param_int(params, "batch_memory_mib") << 20;
    const struct eigenpro_spec spec = {
        .be = p->be,
        .X = p->X,
        .n = p->n,
        .order = s->order,
        .s = s->s,
        .q = int_or(params, "eigenvectors", -1),
        .max_batch = max_i64(bytes / (s->s * (int64_t)dtype_size(p->dtype)), 1),
        .alpha = param_real(params, "alpha"),
        .ridge = p->ridge,
        .rounding = problem_rounding(p),
        .dtype = p->dtype,
        .rng = draw_order(s),
    };
    return eigenpro_new(&spec, &s->pre, err);
}

static int setup(const struct problem *p, const struct solver_options *options, struct solver **ret,
                 struct err *err)
{
    const struct param_set *params = &options->params;
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    const struct param_value *rate = param_get(params, "learning_rate");
    s->p = *p;
    s->tolerance = options->tolerance;
    s->residual_every = param_int(params, "residual_every");
    s->batch_wanted = int_or(params, "batch_size", 0);
    s->rate_wanted = rate->is_auto ? 0.0 : rate->real;
    s->s = eigenpro2__min(int_or(params, "subsample", p->n < 100000 ? 2000 : 12000), p->n);
    s->at.checking = -1;
    s->at.epoch_position = s->at.next = -1;
    int r = allocate(s, err);
    if (r == 0) {
        r = make_preconditioner(s, params, err);
    }
    if (r == 0) {
        r = start(s, err);
    }
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- epochs ---- */

static void order_epoch(struct solver *s)
{
    struct rng rng = {s->p.seed, RNG_SOLVER, (uint64_t)s->at.epoch_position};
    for (int64_t i = 0; i < s->p.n; i++) {
        s->epoch[i] = i;
    }
    rng_shuffle(&rng, s->epoch, s->p.n);
    s->next_position = (int64_t)rng.position;
}

/* rounding = eps |M| |A_j|, the sums from 0, kept = A. */
static int begin_sums(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const double eps = problem_rounding(p);
    const int r = o->col_dots(p->be, &s->A, &s->A, s->dots, err);
    for (int64_t j = 0; j < p->t; j++) {
        s->rounding[j] = eps * (double)p->n * eigenpro_top_value(s->pre) * sqrt(s->dots[j]);
        s->sum[j] = s->seen[j] = 0;
    }
    s->at.next = 0;
    order_epoch(s);
    return r == 0 ? o->copy(p->be, &s->A, &s->kept, err) : r;
}

static int begin_epoch(struct solver *s, struct err *err)
{
    const bool first = s->at.epoch_position < 0;
    const struct mat *before = first ? &s->A : &s->kept;
    s->at.epoch_position = first ? 0 : s->next_position;
    const int r = s->p.be->ops->copy(s->p.be, before, &s->safe, err);
    return r == 0 ? begin_sums(s, err) : r;
}

static int make_buffers(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t q = eigenpro_rank(s->pre);
    const struct {
        struct mat *m;
        int64_t rows, cols;
    } buffers[] = {
        {&s->KBS, s->batch, s->s}, {&s->G, s->batch, p->t}, {&s->AB, s->batch, p->t},
        {&s->H, s->s, p->t},       {&s->T, q, p->t},
    };
    int r = memory_check_matrix(p->be, s->batch, s->s, p->dtype, "a batch of `eigenpro2`", err);
    for (int i = 0; r == 0 && i < 5; i++) {
        r = p->be->ops->mat_new(p->be, p->dtype, buffers[i].rows, buffers[i].cols, buffers[i].m,
                                err);
    }
    return r;
}

/* b, eta / b and what needs them. */
static int finish_building(struct solver *s, struct err *err)
{
    const int64_t n = s->p.n;
    s->batch = eigenpro2__min(s->batch_wanted, n);
    if (s->batch == 0) {
        const int64_t most = eigenpro_batch(s->pre);
        const int64_t batches = (n + most - 1) / most;
        s->batch = (n + batches - 1) / batches;
    }
    const double rate = s->rate_wanted > 0 ? s->rate_wanted : eigenpro_rate(s->pre, s->batch);
    s->step = rate / (double)s->batch;
    s->group = max_i64((GROUP_ENTRIES + n - 1) / n, 1);
    s->built = true;
    return make_buffers(s, err);
}

/* ---- the true residual ---- */

/* A start that leaves more than |Y_j| is no better than 0. What is not taken may be infinite: it is
 * overwritten, never scaled. */
static int judge_start(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    for (int64_t j = 0; j < p->t; j++) {
        const double all = s->norm[j] * s->norm[j];
        const bool taken = s->truth[j] < all;
        s->truth[j] = taken ? s->truth[j] : all;
        s->best[j] = s->last[j] = s->truth[j];
        s->given = s->given || taken;
        s->work[j] = 0.0;
        s->dots[j] = taken ? 1.0 : 0.0;
    }
    return p->be->ops->col_axpby(p->be, s->work, &p->Y, s->dots, &s->A, err);
}

/* fit <- A where the true residual is the least so far, and `lowest` with it. */
static int keep_best(struct solver *s, struct err *err)
{
    for (int64_t j = 0; j < s->p.t; j++) {
        const double norm = s->norm[j], relative = norm > 0 ? sqrt(s->truth[j]) / norm : 0.0;
        s->work[j] = relative < s->lowest[j] ? 1.0 : 0.0;
        s->dots[j] = 1.0 - s->work[j];
        s->lowest[j] = fmin(s->lowest[j], relative);
    }
    return s->p.be->ops->col_axpby(s->p.be, s->work, &s->A, s->dots, &s->fit, err);
}

/* At the end of a stagnation: whether it left anything better than zeros. */
static int stagnated(const struct solver *s, struct err *err)
{
    for (int64_t j = 0; j < s->p.t; j++) {
        if (!(s->lowest[j] < 1.0)) {
            return err_at(err, ERR_DIVERGED, "#/regularization",
                          "The iteration stagnated with a residual that is no smaller than that "
                          "of zeros: rounding errors outweigh what is left to solve. Raise "
                          "`regularization`, use precision float64, or choose another kernel or "
                          "bandwidth.");
        }
    }
    return REASON_STAGNATED;
}

/* CONVERGED, STAGNATED or 0. */
static int judge(struct solver *s, struct err *err)
{
    bool reached = true, stale = true;
    for (int64_t j = 0; j < s->p.t; j++) {
        const double size = sqrt(s->truth[j]), norm = s->norm[j];
        const double relative = norm > 0 ? size / norm : 0.0;
        if (!isfinite(size)) {
            return err_set(err, ERR_DIVERGED, "The coefficients hold infinity or NaN.");
        }
        reached = reached && relative <= s->tolerance;
        stale = stale && relative >= improvement * s->lowest[j] && size <= s->rounding[j];
    }
    const int r = keep_best(s, err);
    s->at.stale_checks = stale ? s->at.stale_checks + 1 : 0;
    s->at.exact = 1;
    s->at.since_check = 0;
    if (r == 0 && reached) {
        return REASON_CONVERGED;
    }
    return r == 0 && s->at.stale_checks >= STALE_CHECKS ? stagnated(s, err) : r;
}

static int check(struct solver *s, struct err *err)
{
    const int64_t count = eigenpro2__min(s->R.rows, s->p.n - s->at.checking);
    int r = eigenpro2__check_rows(s, s->at.checking, count, err);
    s->at.checking += count;
    if (r < 0 || s->at.checking < s->p.n) {
        return r;
    }
    s->at.checking = -1;
    r = s->at.epoch_position < 0 ? judge_start(s, err) : 0;
    return r == 0 ? judge(s, err) : r;
}

static bool check_is_due(const struct solver *s)
{
    if (s->at.since_check >= s->residual_every) {
        return true;
    }
    for (int64_t j = 0; j < s->p.t; j++) {
        if (sqrt(s->sum[j]) > s->tolerance * s->norm[j]) {
            return false;
        }
    }
    return 10 * s->at.since_check >= s->at.epoch;
}

static void end_epoch(struct solver *s)
{
    s->at.epoch++;
    s->at.since_check++;
    s->at.next = -1;
    for (int64_t j = 0; j < s->p.t; j++) {
        s->last[j] = s->sum[j];
        s->best[j] = fmin(s->best[j], s->sum[j]);
    }
    if (check_is_due(s)) {
        begin_check(s);
    }
}

/* ---- the interface ---- */

/* Half the step, from the start of the last complete epoch: the coefficients that this one began
 * with may have been spoilt by the last batches of that one, after their residuals were seen. */
static int undo(struct solver *s, struct err *err)
{
    if (++s->at.halvings > HALVINGS_MAX) {
        return err_at(err, ERR_DIVERGED, "#/regularization",
                      "The residual grew however small the step was made. Scale the features and "
                      "the target, raise `regularization`, or use precision float64.");
    }
    for (int64_t j = 0; j < s->p.t; j++) {
        s->best[j] = fmax(s->best[j], s->last[j]);
    }
    const int r = s->p.be->ops->copy(s->p.be, &s->safe, &s->A, err);
    return r == 0 ? begin_sums(s, err) : r;
}

static int iterate(struct solver *s, struct err *err)
{
    int r = s->at.next < 0 ? begin_epoch(s, err) : 0;
    s->at.exact = 0;
    for (int64_t done = 0; r == 0 && done < s->group && s->at.next < s->p.n; done += s->batch) {
        bool grown = false;
        r = eigenpro2__batch(s, &grown, err);
        r = r == 0 && grown ? undo(s, err) : r;
    }
    s->at.iteration++;
    if (r == 0 && s->at.next == s->p.n) {
        end_epoch(s);
    }
    return r;
}

static int build(struct solver *s, struct err *err)
{
    const int r = eigenpro_step(s->pre, &s->build_fraction, err);
    return r > 0 ? finish_building(s, err) : r;
}

/* The largest over columns; the estimate where nothing better is known. */
static double present_residual(const struct solver *s)
{
    double largest = s->zero ? 0.0 : -1.0;
    for (int64_t j = 0; j < s->p.t; j++) {
        if (s->at.exact && s->norm[j] > 0) {
            largest = fmax(largest, sqrt(s->truth[j]) / s->norm[j]);
        } else if (s->seen[j] > 0) {
            largest = fmax(largest, sqrt(s->sum[j] / s->seen[j]));
        }
    }
    return largest >= 0 ? largest : (double)NAN;
}

static void describe(const struct solver *s, bool building, struct step_report *ret)
{
    *ret = (struct step_report){
        .phase = building ? "preconditioner" : "iterating",
        .fraction = building ? 0.2 * s->build_fraction : NAN,
        .iteration = s->at.iteration,
        .relative_residual = present_residual(s),
        .built = s->built,
        .usable = s->at.iteration > 0 || s->given || s->zero,
        .rank = s->built ? eigenpro_rank(s->pre) : 0,
    };
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = (int)s->at.ended;
    const bool building = !s->built;
    if (r == 0 && s->zero) {
        r = REASON_CONVERGED;
    } else if (r == 0 && s->at.checking >= 0) {
        r = check(s, err);
    } else if (r == 0) {
        r = building ? build(s, err) : iterate(s, err);
    }
    if (r > 0) {
        s->at.ended = r;
    }
    describe(s, building && r == 0, ret);
    return r;
}

/* Whether the present coefficients of a column are known to be worse than those of `fit`. */
static bool is_worse(const struct solver *s, int64_t j)
{
    if (s->at.exact) {
        return sqrt(s->truth[j]) > s->lowest[j] * s->norm[j];
    }
    return s->seen[j] > 0 && sqrt(s->sum[j] / s->seen[j]) > estimate_slack * s->lowest[j];
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->gather_rows(s->p.be, &s->A, s->place, A, err);
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        const struct mat best = mat_cols(s->fit, j, 1), column = mat_cols(*A, j, 1);
        r = is_worse(s, j) ? o->gather_rows(s->p.be, &best, s->place, &column, err) : 0;
    }
    return r;
}

static int save(const struct solver *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    int r = state_put_mat(to, "coefficients", be, &s->A, err);
    if (r == 0) {
        r = state_put_mat(to, "epoch_start", be, &s->kept, err);
    }
    if (r == 0) {
        r = state_put_mat(to, "epoch_before", be, &s->safe, err);
    }
    if (r == 0) {
        r = state_put_mat(to, "best", be, &s->fit, err);
    }
    if (r == 0) {
        r = state_put_ints(to, "counters", (const int64_t *)&s->at, EIGENPRO2_COUNTERS, err);
    }
    return r == 0 ? state_put_reals(to, "sums", s->arrays, EIGENPRO2_SUMS * s->p.t, err) : r;
}

static bool plausible(const struct eigenpro2_counters *c, int64_t n)
{
    const bool counts = c->iteration >= 0 && c->epoch >= 0 && c->since_check >= 0 &&
                        c->stale_checks >= 0 && c->exact >= 0 && c->halvings >= 0 &&
                        c->halvings <= HALVINGS_MAX;
    const bool places = c->next >= -1 && c->next <= n && c->epoch_position >= -1 &&
                        c->checking >= -1 && c->checking < n;
    const bool begun = c->next < 0 || c->epoch_position >= 0;
    const bool reason =
        c->ended == 0 || c->ended == REASON_CONVERGED || c->ended == REASON_STAGNATED;
    return counts && places && begun && reason;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    struct eigenpro2_counters at;
    int r = state_get_ints(from, "counters", (int64_t *)&at, EIGENPRO2_COUNTERS, err);
    if (r == 0 && !plausible(&at, s->p.n)) {
        r = err_set(err, ERR_CORRUPT, "The saved state of the solver holds impossible counters.");
    }
    if (r == 0) {
        r = state_get_mat(from, "coefficients", be, &s->A, err);
    }
    if (r == 0) {
        r = state_get_mat(from, "epoch_start", be, &s->kept, err);
    }
    if (r == 0) {
        r = state_get_mat(from, "epoch_before", be, &s->safe, err);
    }
    if (r == 0) {
        r = state_get_mat(from, "best", be, &s->fit, err);
    }
    if (r == 0) {
        r = state_get_reals(from, "sums", s->arrays, EIGENPRO2_SUMS * s->p.t, err);
    }
    if (r < 0) {
        return r;
    }
    s->at = at;
    s->given = true;
    if (at.epoch_position >= 0) {
        order_epoch(s);
    }
    return 0;
}

const struct solver_ops solver_eigenpro2_ops = {
    .name = "eigenpro2",
    .setup = setup,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
