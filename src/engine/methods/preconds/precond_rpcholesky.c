/*
 * Randomly pivoted Cholesky: pivots drawn in proportion to the diagonal of the residual.
 *
 * Papers: Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv:2207.06503 (the law of
 * the pivots); Epperly, Tropp, Webber, "Embrace rejection: Kernel matrix approximation by
 * accelerated randomly pivoted Cholesky", arXiv:2410.03969 (the blocks used here, with exactly the
 * same law); Diaz and others, arXiv:2304.12465, Algorithm 1 (its use as a preconditioner, rank
 * 10 sqrt(n)); that paper's own blocked variant, Algorithm 4, has another law and is not used.
 *
 * A round of precond_pivoted.h:
 *     candidates: b draws with replacement, in proportion to d;   u = diag H
 *     for j = 1..b:  accept s_j with probability H_jj / u_j, and eliminate it from H if accepted
 * H_jj / u_j is the residual diagonal of s_j after the pivots accepted in this round, relative to
 * that at the round's start: rejection turns draws from the old law into draws from the present
 * one. With b = 1 nothing is rejected: the simple method.
 *
 * Beyond the papers: the block size stays the same instead of following the clock, so that runs
 * repeat bit by bit.
 */
#include <math.h>

#include "base/sort.h"
#include "engine/methods/methods.h"
#include "engine/methods/preconds/precond_rank.h"
#include "engine/methods/preconds/rpcholesky.h"

/* Never fewer draws than BLOCK_LEAST, nor more than the rank: those would be of no use. */
enum { BLOCK_LEAST = 10 };

int64_t rpcholesky_block(int64_t k, const struct param_value *v)
{
    const int64_t wish = v->is_auto ? pivoted_block(k) : (int64_t)v->real;
    const int64_t most = k > BLOCK_LEAST ? k : BLOCK_LEAST;
    return wish < most ? wish : most;
}

/* The residual becomes its running sums. */
int64_t rpcholesky_propose(struct pivoted *m)
{
    const int64_t n = m->base.p.n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += fmax(m->residual[i], 0.0);
        m->residual[i] = sum;
    }
    for (int64_t j = 0; j < m->block; j++) {
        m->candidates[j] = sort_first_above(m->residual, n, rng_uniform(&m->rng) * sum);
    }
    return m->block;
}

/* The second draw of a row already taken has a residual at rounding level. */
void rpcholesky_choose(struct pivoted *m, int64_t wanted)
{
    const int64_t b = m->count;
    double *start = m->start;
    for (int64_t j = 0; j < b; j++) {
        start[j] = m->H[j + j * b];
    }
    for (int64_t j = 0; j < b && m->taken < wanted; j++) {
        const double now = m->H[j + j * b];
        const double u = rng_uniform(&m->rng);
        if (pivoted_stands(m, m->candidates[j], now) && u * start[j] < now) {
            pivoted_take(m, j, j + 1);
        }
    }
}

static const struct pivot_rule rule = {
    .name = "preconditioner `rpcholesky`",
    .propose = rpcholesky_propose,
    .choose = rpcholesky_choose,
};

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    const int64_t k = precond_rank_choose(p, RANK_COLUMNS, param_get(params, "rank"));
    const int64_t block = rpcholesky_block(k, param_get(params, "block_size"));
    struct pivoted *m = NULL;
    const int r = pivoted_new(&rule, p, k, block, &m, err);
    *ret = r == 0 ? &m->base : NULL;
    return r;
}

const struct precond_ops precond_rpcholesky_ops = {
    .name = "rpcholesky",
    .setup = setup,
    .build = pivoted_build,
    .apply = lowrank_apply,
    .rank = lowrank_rank,
    .most = lowrank_most,
    .teardown = pivoted_teardown,
};
