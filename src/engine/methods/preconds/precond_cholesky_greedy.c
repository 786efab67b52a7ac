/*
 * Greedy pivoted Cholesky: the next pivot is the row with the largest residual.
 *
 * Papers: Harbrecht, Peters, Schneider, "On the low-rank approximation by the pivoted Cholesky
 * decomposition", Applied Numerical Mathematics 62, 2012; Gardner and others, "GPyTorch", NeurIPS
 * 2018 (as a preconditioner); Diaz and others, arXiv:2304.12465, section 3.1 (what it misses:
 * everything but outliers).
 *
 * A round of precond_pivoted.h:
 *     candidates: the b rows of largest d;   bar = the largest d among the others
 *     eliminate the largest H_jj from H while it is at least `bar`
 * Residuals only fall, so `bar` bounds those of all other rows to the end of the round, and each
 * pivot has the largest residual of all rows: the law is that of one pivot at a time, while kernel
 * values and updates of F come in blocks.
 */
#include <math.h>

#include "engine/methods/methods.h"
#include "engine/methods/preconds/precond_pivoted.h"
#include "engine/methods/preconds/precond_rank.h"

/* Whether row a comes after row b in the order of pivots. */
static bool later(const struct pivoted *m, int64_t a, int64_t b)
{
    const double d_a = m->residual[a], d_b = m->residual[b];
    return d_a < d_b || (d_a == d_b && a > b);
}

/* Restores the heap of `count` candidates, whose last in the order of pivots is at 0, when only
 * its entry `at` may be out of place, towards its children. */
static void sift(struct pivoted *m, int64_t at, int64_t count)
{
    int64_t *heap = m->candidates;
    for (;;) {
        int64_t last = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
            if (child < count && later(m, heap[child], heap[last])) {
                last = child;
            }
        }
        if (last == at) {
            return;
        }
        const int64_t moved = heap[at];
        heap[at] = heap[last];
        heap[last] = moved;
        at = last;
    }
}

/* The first rows, then every row that comes before the last of those kept. */
static int64_t propose(struct pivoted *m)
{
    const int64_t n = m->base.p.n, count = m->block < n ? m->block : n;
    for (int64_t i = 0; i < count; i++) {
        m->candidates[i] = i;
    }
    for (int64_t i = count / 2; i-- > 0;) {
        sift(m, i, count);
    }
    m->bar = 0;
    for (int64_t i = count; i < n; i++) {
        int64_t left = i;
        if (later(m, m->candidates[0], i)) {
            left = m->candidates[0];
            m->candidates[0] = i;
            sift(m, 0, count);
        }
        m->bar = fmax(m->bar, m->residual[left]);
    }
    return count;
}

const struct pivot_rule pivot_rule_greedy = {
    .name = "greedy pivoted Cholesky factorisation",
    .propose = propose,
    .choose = pivoted_choose_largest,
};

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    const int64_t k = precond_rank_choose(p, RANK_COLUMNS, param_get(params, "rank"));
    struct pivoted *m = NULL;
    const int r = pivoted_new(&pivot_rule_greedy, p, k, pivoted_block(k), &m, err);
    *ret = r == 0 ? &m->base : NULL;
    return r;
}

const struct precond_ops precond_cholesky_greedy_ops = {
    .name = "cholesky_greedy",
    .setup = setup,
    .build = pivoted_build,
    .apply = lowrank_apply,
    .rank = lowrank_rank,
    .most = lowrank_most,
    .teardown = pivoted_teardown,
};
