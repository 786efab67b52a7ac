#include "engine/methods/preconds/precond_rank.h"

#include "engine/memory.h"

int64_t precond_rank_choose(const struct problem *p, enum rank_source source,
                            const struct param_value *rank)
{
    /* What is gone on with has the rank it had, by whatever rule, unless memory is short. */
    const double share = p->rank_kept > 0 ? 0.0 : p->product_share;
    const struct rank_shape shape = {.n = p->n,
                                     .d = p->d,
                                     .t = p->t,
                                     .dtype = p->dtype,
                                     .room = memory_available_on(p->be),
                                     .share = share};
    const int64_t k = rule_rank(&shape, source, rank);
    return rank->is_auto && p->rank_kept > 0 && k > p->rank_kept ? p->rank_kept : k;
}
