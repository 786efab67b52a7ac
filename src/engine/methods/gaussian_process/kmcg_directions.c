#include "engine/methods/gaussian_process/kmcg_directions.h"

#include "engine/methods/gaussian_process/kmcg.h"
#include "engine/methods/methods.h"

int kmcg_directions_begin(const struct problem *p, const struct solver_options *o,
                          struct solver **ret, struct err *err)
{
    const int r = solver_kmcg_ops.setup(p, o, ret, err);
    if (r == 0) {
        (*ret)->alone = true;
    }
    return r;
}

bool kmcg_directions_full(const struct solver *s)
{
    return s->span.count == s->span.room && s->span.room < s->p.n;
}

struct mat kmcg_directions_take(struct solver *s, int64_t *ret_count)
{
    const struct mat S = s->span.S;
    *ret_count = s->span.count > 0 ? s->span.count : 1;
    s->span.S = (struct mat){.data = NULL};
    return S;
}
