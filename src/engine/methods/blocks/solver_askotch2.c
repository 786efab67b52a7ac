/*
 * ASkotch, version 2: accelerated sketch-and-project with a fresh block of rows each step, for
 * (K + ridge I) A = Y.
 *
 * Paper: Rathore, Frangella, Yang, Dereziński, Udell, "Have ASkotch: A neat solution for
 * large-scale kernel ridge regression", arXiv:2407.10070. Notation, and block_descent.h's:
 *     w -> W    v -> V    y -> E    g_b -> G    d_b = P_b^-1 g_b -> D    eta = 1 / L_b
 *     mu, nu:   beta = 1 - sqrt(mu / nu)   gamma = 1 / sqrt(mu nu)   alpha = 1 / (1 + gamma nu)
 *     w = y - eta I_b d_b      v = beta v + (1 - beta) y - gamma eta I_b d_b
 *     y = alpha v + (1 - alpha) w
 *
 * Cost of a step: b n kernel values, b n t multiplications, and one block preconditioner
 * (block_precond.h). Memory: 5 n t numbers, 8 n bytes for the order of the rows (17 n for
 * leverage scores), and what a block takes, in which n does not occur.
 *
 * Deviations from the paper and its code:
 *   - The ridge acts on y, where the gradient is taken (the code has w).
 *   - mu is lambda only where the job says so. Left open, no strong convexity is assumed and
 * momentum rises until a restart (block_descent.h): beta = 1, alpha = 2 / (k + 2 nu) after k steps
 * since then, gamma = 1 / (alpha nu). No guess of mu did as well (docs/adr/0066).
 *   - nu left open is n / b; where momentum rises and P_b has less rank than rows, half of that.
 *     nu relates what a step costs V to what it gains in f, eta g'P^-1 g (1 - h / 2), h the mean of
 *     P^-1 (K_bb + ridge I) / L in the gradient's norm: 1 where P is exact, mostly far below 1
 * where it is a sketch.
 *   - Where restarts are off and mu is left open, it is measured. With E_b the mean over blocks, it
 * is to be the smallest eigenvalue of M^1/2 E_b[eta I_b P_b^-1 I_b'] M^1/2, M = K + ridge I. On M's
 *     smallest eigenvector, whose entries have the size n^-1/2, that is about ridge eta
 * trace(P_b^-1) / n, measured on TRIAL_BLOCKS blocks before the first step. A quarter of it is
 * taken. (Blocks that are cut anew every pass bear this; the fixed ones of solver_skotch.c need a
 * smaller share.) A sketched block of all rows takes all of it: there it is no guess, for M >=
 * (ridge / rho) P.
 *   - mu <= nu and mu nu <= 1, which the theory asks for, are enforced by lowering mu; a measured
 *     mu is at least MU_FLOOR / nu, so that ridge = 0 has a momentum at all.
 *   - Blocks are cut from a random order of the rows, a new one each pass, so that a pass meets
 *     no row twice: a quarter fewer passes than independent blocks (sampling: uniform). The last
 *     n mod b rows of an order, too few for a block, are left out of that pass.
 *   - Momentum restarts (block_descent.h).
 *   - Small blocks are solved exactly instead of by a sketch (block_precond.h).
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
#include "engine/methods/blocks/leverage.h"
#include "engine/methods/methods.h"
#include "plan/rules.h"

enum { TRIAL_BLOCKS = 4 };

static const double mu_floor = 1e-8;
static const double mu_share = 0.25;
static const double mu_share_single = 1.0;   /* of one block that holds all rows */
static const double nu_share_sketched = 0.5; /* of n / b, of a rising momentum */
/* Where the draws of the steps begin in the random stream; those of the trial blocks lie before. */
static const uint64_t first_position = (uint64_t)1 << 40;

enum sampling { SAMPLING_SHUFFLED, SAMPLING_UNIFORM, SAMPLING_LEVERAGE };

struct solver {
    struct problem p;
    struct block_descent d;
    struct block_precond *P;
    struct leverage scores; /* only for leverage sampling */
    enum sampling sampling;
    int64_t *order;         /* [n]: the rows as this pass meets them; only for shuffled sampling */
    int64_t at;             /* rows of `order` already met; n: a new pass begins */
    uint64_t pass_position; /* of the random stream, before this pass was shuffled */
    bool built;
    int64_t b;
    int64_t *index;   /* [b] */
    double *chances;  /* [b] */
    double mu, nu;    /* NaN: to be found; mu: none where momentum rises */
    int trials;       /* blocks that mu was measured on */
    double trial_sum; /* of their trace(P^-1) / L */
    struct rng trial_rng;
    double beta, gamma;
    double L;  /* of the present block */
    int ended; /* a positive reason, or 0 */
    struct rng rng;
};

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    block_descent_deinit(&s->d);
    block_precond_free(s->P);
    leverage_deinit(&s->scores);
    mem_free(s->index);
    mem_free(s->order);
    mem_free(s->chances);
    mem_free(s);
}

static double given(const struct param_set *params, const char *key)
{
    const struct param_value *v = param_get(params, key);
    return v->is_auto ? (double)NAN : v->real;
}

static enum sampling sampling_of(const char *name)
{
    if (strcmp(name, "uniform") == 0) {
        return SAMPLING_UNIFORM;
    }
    return strcmp(name, "leverage") == 0 ? SAMPLING_LEVERAGE : SAMPLING_SHUFFLED;
}

/* One block holds all rows: drawn and preconditioned once, it stays as it is. */
static bool single(const struct solver *s)
{
    return s->b == s->p.n;
}

static int prepare(struct solver *s, const struct solver_options *options, struct err *err)
{
    const struct param_set *params = &options->params;
    const int64_t n = s->p.n;
    s->b = rule_block_rows(n, param_get(params, "block_size"));
    s->mu = given(params, "mu");
    s->nu = given(params, "nu");
    s->sampling = sampling_of(param_choice(params, "sampling"));
    s->sampling = single(s) ? SAMPLING_UNIFORM : s->sampling;
    s->at = n;
    s->rng = rng_new(s->p.seed, RNG_SOLVER);
    s->trial_rng = s->rng;
    s->rng.position = s->pass_position = first_position;
    s->index = mem_array((size_t)s->b, sizeof(*s->index));
    s->chances = mem_array((size_t)s->b, sizeof(*s->chances));
    s->order = s->sampling == SAMPLING_SHUFFLED ? mem_array((size_t)n, sizeof(*s->order)) : NULL;
    if (s->index == NULL || s->chances == NULL ||
        (s->order == NULL && s->sampling == SAMPLING_SHUFFLED)) {
        return err_no_memory(err);
    }
    const bool refines = single(s) && block_precond_choose(&s->p, params, s->b) == BLOCK_CHOLESKY;
    int r = block_descent_init(&s->d, &s->p, options->tolerance, s->b, (n + s->b - 1) / s->b,
                               refines ? 1 : param_int(params, "residual_every"),
                               param_bool(params, "accelerated") && !refines, err);
    s->d.restarts = param_bool(params, "restarts");
    s->d.rising = s->d.accelerated && s->d.restarts && isnan(s->mu);
    if (r == 0 && s->sampling == SAMPLING_LEVERAGE) {
        r = leverage_init(&s->scores, &s->p, s->b, err);
    }
    return r == 0 ? block_precond_new(&s->p, params, s->b, &s->P, err) : r;
}

static int setup(const struct problem *p, const struct solver_options *options, struct solver **ret,
                 struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    const int r = prepare(s, options, err);
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* The order in which a pass meets the rows, a function of the stream's position alone. */
static void shuffle(struct solver *s, struct rng *rng)
{
    s->pass_position = rng->position;
    for (int64_t i = 0; i < s->p.n; i++) {
        s->order[i] = i;
    }
    rng_shuffle(rng, s->order, s->p.n);
    s->at = 0;
}

/* A block of b distinct rows of this pass, or of the next where fewer are left. */
static void draw_shuffled(struct solver *s)
{
    if (s->p.n - s->at < s->b) {
        shuffle(s, &s->rng);
    }
    memcpy(s->index, s->order + s->at, (size_t)s->b * sizeof(*s->index));
    s->at += s->b;
}

static int draw_uniform(struct solver *s, struct rng *rng, struct err *err)
{
    return rng_choose(rng, s->p.n, s->b, s->index, err);
}

/* The block of the next step: b distinct rows, ascending. */
static int draw(struct solver *s, struct err *err)
{
    int r = 0;
    if (s->sampling == SAMPLING_SHUFFLED) {
        draw_shuffled(s);
    } else if (s->sampling == SAMPLING_UNIFORM) {
        r = draw_uniform(s, &s->rng, err);
    } else {
        leverage_draw(&s->scores, &s->rng, s->index);
        for (int64_t i = 0; i < s->b; i++) {
            s->chances[i] = s->scores.included[s->index[i]];
        }
    }
    sort_i64(s->index, s->b);
    return r;
}

/* trace(P^-1) / L of one more trial block. */
static int try_block(struct solver *s, struct err *err)
{
    double L = 1, trace = 0;
    int r = draw_uniform(s, &s->trial_rng, err);
    if (r == 0 && single(s)) {
        sort_i64(s->index, s->b);
    }
    if (r == 0) {
        r = block_precond_build(s->P, s->index, s->b, &L, err);
    }
    if (r == 0) {
        r = block_precond_trace(s->P, &trace, err);
    }
    if (r == 0) {
        s->trial_sum += trace / L;
        s->trials++;
        s->L = single(s) ? L : 0.0;
    }
    return r;
}

static int trials_wanted(const struct solver *s)
{
    if (!isnan(s->mu) || !s->d.accelerated || s->d.rising) {
        return 0;
    }
    return single(s) ? 1 : TRIAL_BLOCKS;
}

/* Where the job leaves nu open; no less than 1. */
static double default_nu(const struct solver *s)
{
    const bool sketched = block_precond_rank(s->P) < s->b;
    const double share = s->d.rising && sketched ? nu_share_sketched : 1.0;
    return fmax(share * (double)s->p.n / (double)s->b, 1.0);
}

/* nu and, but for a rising momentum, mu, and what follows from them. */
static void set_constants(struct solver *s)
{
    s->nu = isnan(s->nu) ? default_nu(s) : s->nu; /* a given one is 1 at least */
    if (s->d.rising) {
        s->beta = 1.0;
        s->d.alpha = fmin(0.5, 1.0 / s->nu);
        s->gamma = 1.0 / (s->d.alpha * s->nu);
        return;
    }
    if (s->trials > 0) {
        const double share = single(s) ? mu_share_single : mu_share;
        const double measured = share * s->p.ridge * s->trial_sum / s->trials / (double)s->p.n;
        s->mu = fmax(measured, mu_floor / s->nu);
    }
    s->mu = fmin(s->mu, 1.0 / s->nu);
    s->beta = 1.0 - sqrt(s->mu / s->nu);
    s->gamma = 1.0 / sqrt(s->mu * s->nu);
    s->d.alpha = s->d.accelerated ? 1.0 / (1.0 + s->gamma * s->nu) : 0.0;
}

/* One piece of what comes before the first step: a piece of the scores or a trial block. */
static int build(struct solver *s, struct err *err)
{
    int r = 0;
    if (!leverage_ready(&s->scores)) {
        r = leverage_build(&s->scores, err);
    } else if (s->trials < trials_wanted(s)) {
        r = try_block(s, err);
    }
    if (r == 0 && leverage_ready(&s->scores) && s->trials >= trials_wanted(s)) {
        set_constants(s);
        s->built = true;
    }
    return r;
}

/* How much of what build makes is there. */
static double built_fraction(const struct solver *s)
{
    const int wanted = trials_wanted(s);
    const double tried = wanted > 0 ? (double)s->trials / wanted : 1.0;
    return s->sampling == SAMPLING_LEVERAGE ? 0.5 * (leverage_fraction(&s->scores) + tried) : tried;
}

static int iterate(struct solver *s, struct err *err)
{
    const bool fresh = !single(s) || !(s->L > 0);
    struct mat D = {0}, K_bb = {0};
    int r = fresh ? draw(s, err) : 0;
    if (r == 0 && s->d.splits) {
        r = block_precond_fill(s->P, s->index, s->b, &K_bb, err);
    }
    if (r == 0) {
        r = block_descent_gradient(&s->d, s->index, s->b, (double)s->b / (double)s->p.n,
                                   s->sampling == SAMPLING_LEVERAGE ? s->chances : NULL,
                                   s->d.splits ? &K_bb : NULL, &D, err);
    }
    if (r == 0 && fresh) {
        r = block_precond_build(s->P, s->index, s->b, &s->L, err);
    }
    if (r == 0) {
        r = block_precond_apply(s->P, &D, err);
    }
    const double eta = 1.0 / s->L;
    const struct block_step step = {.eta = eta, .kick = s->gamma * eta, .beta = s->beta};
    return r == 0 ? block_descent_step(&s->d, s->index, &D, step, err) : r;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = s->ended;
    const bool building = !s->built;
    if (r == 0 && block_descent_done(&s->d)) {
        r = REASON_CONVERGED;
    } else if (r == 0) {
        r = building ? build(s, err) : iterate(s, err);
    }
    if (r > 0) {
        s->ended = r;
    }
    *ret = (struct step_report){
        .phase = building && r == 0 ? "preconditioner" : "iterating",
        .fraction = building && r == 0 ? 0.1 * (s->built ? 1.0 : built_fraction(s)) : (double)NAN,
        .iteration = s->d.iteration,
        .relative_residual = block_descent_residual(&s->d),
        .usable = s->d.iteration > 0 || block_descent_done(&s->d),
        .rank = s->built ? block_precond_rank(s->P) : 0,
        .note = block_descent_note(&s->d),
    };
    return r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return block_descent_coef(&s->d, A, err);
}

enum { DRAWS = 4 };

static int save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t draws[DRAWS] = {(int64_t)(s->rng.position - first_position),
                                  (int64_t)(s->pass_position - first_position), s->at, s->ended};
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
    if (draws[0] < 0 || draws[1] < 0 || draws[2] < 0 || draws[2] > s->p.n || draws[3] < 0 ||
        draws[3] >= REASON_COUNT_) {
        return err_set(err, ERR_CORRUPT, "The state's array \"draws\" has numbers out of range.");
    }
    if (s->sampling == SAMPLING_SHUFFLED && draws[2] < s->p.n) {
        s->rng.position = first_position + (uint64_t)draws[1];
        shuffle(s, &s->rng);
    }
    s->rng.position = first_position + (uint64_t)draws[0];
    s->at = draws[2];
    s->ended = (int)draws[3];
    return block_descent_load(&s->d, from, err);
}

const struct solver_ops solver_askotch2_ops = {
    .name = "askotch2",
    .setup = setup,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
