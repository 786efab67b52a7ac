/*
 * Nystrom approximation from columns drawn uniformly without replacement.
 *
 * Papers: Williams, Seeger, "Using the Nystrom method to speed up kernel machines", NIPS 2000;
 * Diaz and others, arXiv:2304.12465, section 3.1 (what it misses as a preconditioner: small
 * clusters and outliers).
 *
 * The k rows are drawn at once. A round of precond_pivoted.h takes the next b of them that are not
 * yet explained, and eliminates them in the order of the largest residual, as LAPACK's pstrf does.
 * What is left at rounding level is dropped: so no shift of K(S,S) is needed, F F' is the Nystrom
 * approximation from S itself, and S may have any rank.
 */
#include "engine/methods/methods.h"
#include "engine/methods/preconds/precond_pivoted.h"
#include "engine/methods/preconds/precond_rank.h"

/* The draws lie in m->pivots, where those taken never overtake those proposed. */
static int64_t propose(struct pivoted *m)
{
    int64_t count = 0;
    while (count < m->block && m->proposed < m->base.k) {
        const int64_t row = m->pivots[m->proposed++];
        if (m->residual[row] > 0) {
            m->candidates[count++] = row;
        }
    }
    return count;
}

static const struct pivot_rule rule = {
    .name = "preconditioner `nystrom_uniform`",
    .propose = propose,
    .choose = pivoted_choose_largest,
};

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    const int64_t k = precond_rank_choose(p, RANK_COLUMNS, param_get(params, "rank"));
    struct pivoted *m = NULL;
    int r = pivoted_new(&rule, p, k, pivoted_block(k), &m, err);
    if (r < 0) {
        return r;
    }
    r = rng_choose(&m->rng, p->n, k, m->pivots, err);
    if (r < 0) {
        pivoted_teardown(&m->base);
        return r;
    }
    *ret = &m->base;
    return 0;
}

const struct precond_ops precond_nystrom_uniform_ops = {
    .name = "nystrom_uniform",
    .setup = setup,
    .build = pivoted_build,
    .apply = lowrank_apply,
    .rank = lowrank_rank,
    .most = lowrank_most,
    .teardown = pivoted_teardown,
};
