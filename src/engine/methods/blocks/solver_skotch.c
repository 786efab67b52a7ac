/*
 * Skotch and ASkotch, version 1: preconditioned block coordinate descent on a fixed partition of
 * the rows, plain and accelerated, for (K + ridge I) A = Y.
 *
 * Paper: Rathore, Frangella, Udell, "Have ASkotch: Fast methods for large-scale,
 * memory-constrained kernel ridge regression", arXiv:2407.10070, version 1, Algorithms 4 (skotch,
 * after Nesterov's RCDM) and 1 (askotch, after the NU-ACDM of Allen-Zhu, Qu, Richtarik, Yuan).
 * Notation, and block_descent.h's:
 *     x -> W   z -> V   w -> E   g_b -> G   v_b = P_b^-1 g_b -> D   B blocks   mu
 *     p_b = L_b^a / S,  S = sum L_b^a
 *     skotch:   a = alpha, 1/2 unless given
 *               w = w - I_b v_b / L_b
 *     askotch:  a = (1 - beta) / 2, beta = 0 unless given
 *               tau = 2 / (1 + sqrt(4 S^2 / mu + 1)),   gamma = 1 / (tau S^2)
 *               x = w - I_b v_b / L_b
 *               z = (z + gamma mu w - gamma / (p_b L_b^beta) I_b v_b) / (1 + gamma mu)
 *               w = tau z + (1 - tau) x
 *     which is a step of block_descent.h with its alpha = tau, its beta = 1 / (1 + gamma mu),
 *     kick = gamma / ((1 + gamma mu) p_b L_b^beta), eta = 1 / L_b.
 *
 * Cost: once, the preconditioner and the smoothness of every block: n b kernel values. A step: b n
 * kernel values, b n t multiplications, and one block preconditioner (block_precond.h) without
 * powering. Memory: 5 n t numbers (skotch 4), 8 n bytes of order, and what a block takes.
 *
 * Deviations from the paper and its code:
 *   - x_b moves from w_b, where its gradient is taken, as in NU-ACDM and the paper's analysis; the
 *     paper's Algorithm 1 prints x_b^(i+1) = x_b^i - v_b / L_b.
 *   - mu is lambda only where the job says so. Left open, no strong convexity is assumed and
 * momentum rises until a restart (block_descent.h): mu = 0, tau = 2 / (k + 2 S) after k steps since
 * then. No guess of mu did as well (docs/adr/0066).
 *   - Where restarts are off and mu is left open, it is measured. The strong convexity that counts
 * is that of f in the norm sum_b L_b^beta |x_b|^2_P_b: on the smallest eigenvector of K + ridge I
 *     about ridge sum_b trace(P_b^-1) L_b^-beta / n, which the first sweep measures. That is a
 * guess from above, of which a hundredth is taken. Without a preconditioner the guess is the ridge,
 *     below all eigenvalues; a quarter of it is taken. A sketched block of all rows takes all of
 * it: there it is no guess, for H >= (ridge / rho) P. A measured mu is kept above MU_FLOOR, and any
 *     below S^2 / 2, for which tau is at most 1/2.
 *   - Small blocks are solved exactly, with L_b = 1 (block_precond.h).
 *   - A single block that holds all rows and is solved exactly is corrected until the residual is
 *     small enough: iterative refinement, without momentum. A sketched one has momentum like any.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"
#include "engine/methods/blocks/block_descent.h"
#include "engine/methods/blocks/block_precond.h"
#include "engine/methods/methods.h"
#include "plan/rules.h"

static const double mu_floor = 1e-12;
/* Of the guess from above: with blocks preconditioned, and without. */
static const double mu_share_preconditioned = 0.01;
static const double mu_share_plain = 0.25;
static const double mu_share_single = 1.0; /* and of one block that holds all rows */

struct solver {
    struct problem problem;
    struct block_descent d;
    struct block_precond *P;
    int64_t blocks;   /* B */
    int64_t swept;    /* blocks whose L and trace are known */
    int64_t current;  /* the block P is for; -1: none */
    int64_t previous; /* the block of the last step; -1: none */
    int64_t *order;   /* [n]: block k has order[first(k)] .. order[first(k + 1) - 1], ascending */
    double *L;        /* [B] */
    double *chances;  /* [B]: running sums of L_b^exponent */
    double exponent;  /* a */
    double beta;      /* the paper's acceleration parameter */
    double given_mu;  /* NaN: none, or measured where restarts are off */
    double S, mu, gamma;
    double traces; /* sum of trace(P_b^-1) L_b^-beta */
    int ended;     /* a positive reason, or 0 */
    struct rng rng;
};

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    block_descent_deinit(&s->d);
    block_precond_free(s->P);
    mem_free(s->order);
    mem_free(s->L);
    mem_free(s->chances);
    mem_free(s);
}

/* Blocks differ by one row at most. */
static int64_t first(const struct solver *s, int64_t k)
{
    const int64_t rest = s->problem.n % s->blocks;
    return k * (s->problem.n / s->blocks) + (k < rest ? k : rest);
}

static int64_t rows(const struct solver *s, int64_t k)
{
    return first(s, k + 1) - first(s, k);
}

static void divide(struct solver *s)
{
    for (int64_t i = 0; i < s->problem.n; i++) {
        s->order[i] = i;
    }
    rng_shuffle(&s->rng, s->order, s->problem.n);
    for (int64_t k = 0; k < s->blocks; k++) {
        sort_i64(s->order + first(s, k), rows(s, k));
    }
}

/* Each of the two methods has parameters of its own. */
static void read_params(struct solver *s, const struct param_set *params, bool accelerated)
{
    const struct param_value *mu = accelerated ? param_get(params, "mu") : NULL;
    s->beta = accelerated ? param_real(params, "beta") : 0.0;
    s->exponent = accelerated ? (1.0 - s->beta) / 2.0 : param_real(params, "alpha");
    s->given_mu = mu == NULL || mu->is_auto ? (double)NAN : mu->real;
}

static int prepare(struct solver *s, const struct solver_options *options, bool accelerated,
                   struct err *err)
{
    const struct param_set *params = &options->params;
    const int64_t n = s->problem.n, b = rule_block_rows(n, param_get(params, "block_size"));
    read_params(s, params, accelerated);
    s->blocks = (n + b - 1) / b;
    s->current = s->previous = -1;
    s->rng = rng_new(s->problem.seed, RNG_SOLVER);
    s->order = mem_array((size_t)n, sizeof(*s->order));
    s->L = mem_array((size_t)s->blocks, sizeof(double));
    s->chances = mem_array((size_t)s->blocks, sizeof(double));
    if (s->order == NULL || s->L == NULL || s->chances == NULL) {
        return err_no_memory(err);
    }
    divide(s);
    const int64_t most = rows(s, 0);
    const enum block_kind kind = block_precond_choose(&s->problem, params, most);
    const bool refines = s->blocks == 1 && kind == BLOCK_CHOLESKY;
    const int r = block_descent_init(&s->d, &s->problem, options->tolerance, most, s->blocks,
                                     refines ? 1 : param_int(params, "residual_every"),
                                     accelerated && !refines, err);
    s->d.restarts = accelerated && param_bool(params, "restarts");
    s->d.rising = s->d.accelerated && s->d.restarts && isnan(s->given_mu);
    s->d.splits = s->d.splits && kind != BLOCK_NONE; /* there K_bb is for the sweep alone */
    return r == 0 ? block_precond_new(&s->problem, params, most, &s->P, err) : r;
}

static int setup(const struct problem *p, const struct solver_options *options, bool accelerated,
                 struct solver **ret, struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->problem = *p;
    const int r = prepare(s, options, accelerated, err);
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int setup_skotch(const struct problem *p, const struct solver_options *options,
                        struct solver **ret, struct err *err)
{
    return setup(p, options, false, ret, err);
}

static int setup_askotch(const struct problem *p, const struct solver_options *options,
                         struct solver **ret, struct err *err)
{
    return setup(p, options, true, ret, err);
}

/* Of the guess for mu. */
static double mu_share(const struct solver *s)
{
    if (s->blocks == 1) {
        return mu_share_single;
    }
    return block_precond_kind(s->P) == BLOCK_NONE ? mu_share_plain : mu_share_preconditioned;
}

/* What block k adds to S. */
static double weight(const struct solver *s, int64_t k)
{
    return pow(s->L[k], s->exponent);
}

/* The strong convexity that a constant momentum assumes. */
static double strong_convexity(const struct solver *s)
{
    const double measured = mu_share(s) * s->problem.ridge * s->traces / (double)s->problem.n;
    const double mu = isnan(s->given_mu) ? fmax(measured, mu_floor) : s->given_mu;
    return fmin(mu, s->S * s->S / 2.0);
}

/* Chances, and the constants of the momentum. */
static void set_constants(struct solver *s)
{
    s->S = 0;
    for (int64_t k = 0; k < s->blocks; k++) {
        s->S += weight(s, k);
        s->chances[k] = s->S;
    }
    const double squared = s->S * s->S;
    s->mu = s->d.rising ? 0.0 : strong_convexity(s);
    const double tau =
        s->d.rising ? fmin(0.5, 1.0 / s->S) : 2.0 / (1.0 + sqrt(4.0 * squared / s->mu + 1.0));
    s->gamma = 1.0 / (tau * squared);
    s->d.alpha = s->d.accelerated ? tau : 0.0;
}

/* L and, where mu is measured, the trace of the next block; constants when all are known. */
static int sweep(struct solver *s, struct err *err)
{
    const int64_t k = s->swept;
    double trace = 0;
    int r = block_precond_build(s->P, s->order + first(s, k), rows(s, k), &s->L[k], err);
    if (r == 0 && !s->d.rising && isnan(s->given_mu)) {
        r = block_precond_trace(s->P, &trace, err);
    }
    if (r != 0) {
        return r;
    }
    s->current = k;
    s->traces += trace * pow(s->L[k], -s->beta);
    s->swept++;
    if (s->swept == s->blocks) {
        set_constants(s);
    }
    return 0;
}

/* The first block whose running sum exceeds u S. */
static int64_t draw(struct solver *s)
{
    const double u = rng_uniform(&s->rng) * s->S;
    int64_t k = 0;
    while (k < s->blocks - 1 && s->chances[k] <= u) {
        k++;
    }
    return k;
}

/* The gradient of block k and P for it. The same block twice in a row needs no new P, and so no
 * K_bb; what comes before decides, not whether P is there, which it is not after a checkpoint. */
static int meet_block(struct solver *s, int64_t k, double chance, struct mat *ret, struct err *err)
{
    const int64_t *index = s->order + first(s, k), b = rows(s, k);
    const bool splits = s->d.splits && k != s->previous;
    struct mat K_bb = {0};
    int r = splits ? block_precond_fill(s->P, index, b, &K_bb, err) : 0;
    if (r == 0) {
        r = block_descent_gradient(&s->d, index, b, chance, NULL, splits ? &K_bb : NULL, ret, err);
    }
    if (r == 0 && (splits || k != s->current)) {
        r = block_precond_build(s->P, index, b, NULL, err);
    }
    s->current = s->previous = k;
    return r;
}

static int iterate(struct solver *s, struct err *err)
{
    const int64_t k = draw(s);
    const double p = weight(s, k) / s->S, keep = 1.0 / (1.0 + s->gamma * s->mu);
    struct mat D = {0};
    int r = meet_block(s, k, p, &D, err);
    if (r == 0) {
        r = block_precond_apply(s->P, &D, err);
    }
    const struct block_step step = {
        .eta = 1.0 / s->L[k], .kick = keep * s->gamma / (p * pow(s->L[k], s->beta)), .beta = keep};
    return r == 0 ? block_descent_step(&s->d, s->order + first(s, k), &D, step, err) : r;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = s->ended;
    const bool building = s->swept < s->blocks;
    if (r == 0 && block_descent_done(&s->d)) {
        r = REASON_CONVERGED;
    } else if (r == 0) {
        r = building ? sweep(s, err) : iterate(s, err);
    }
    if (r > 0) {
        s->ended = r;
    }
    *ret = (struct step_report){
        .phase = building && r == 0 ? "preconditioner" : "iterating",
        .fraction = building && r == 0 ? 0.1 * (double)s->swept / (double)s->blocks : (double)NAN,
        .iteration = s->d.iteration,
        .relative_residual = block_descent_residual(&s->d),
        .usable = s->d.iteration > 0 || block_descent_done(&s->d),
        .rank = s->swept > 0 ? block_precond_rank(s->P) : 0,
        .note = block_descent_note(&s->d),
    };
    return r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return block_descent_coef(&s->d, A, err);
}

enum { DRAWS = 3 };

static int save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t draws[DRAWS] = {(int64_t)s->rng.position, s->ended, s->previous};
    const int r = state_put_ints(to, "draws", draws, DRAWS, err);
    return r == 0 ? block_descent_save(&s->d, to, err) : r;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    int64_t draws[DRAWS];
    const int r = state_get_ints(from, "draws", draws, DRAWS, err);
    if (r < 0) {
        return r;
    }
    if (draws[0] < 0 || draws[1] < 0 || draws[1] >= REASON_COUNT_ || draws[2] < -1 ||
        draws[2] >= s->blocks) {
        return err_set(err, ERR_CORRUPT, "The state's array \"draws\" has numbers out of range.");
    }
    s->rng.position = (uint64_t)draws[0];
    s->ended = (int)draws[1];
    s->previous = draws[2];
    return block_descent_load(&s->d, from, err);
}

const struct solver_ops solver_skotch_ops = {
    .name = "skotch",
    .setup = setup_skotch,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};

const struct solver_ops solver_askotch_ops = {
    .name = "askotch",
    .setup = setup_askotch,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
