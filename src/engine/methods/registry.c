#include <stddef.h>
#include <string.h>

#include "engine/methods/methods.h"

static const struct solver_ops *const solvers[] = {
    &solver_cholesky_ops,
    &solver_pcg_ops,
    &solver_askotch2_ops,
    &solver_askotch_ops,
    &solver_skotch_ops,
    &solver_eigenpro2_ops,
    &solver_kmcg_ops,
    &solver_krill_ops,
    &solver_falkon_ops,
    &solver_falkon_bless_ops,
    &solver_direct_ops,
    &solver_inducing_ops,
    &solver_kmcg_restricted_ops,
    &solver_cg_ops,
    &solver_eigenpro3_ops,
    &solver_eigenpro4_ops,
    &solver_sketchysaga_ops,
    &solver_sketchykatyusha_ops,
    NULL,
};

static const struct precond_ops *const preconditioners[] = {
    &precond_rpcholesky_ops,
    &precond_nystrom_uniform_ops,
    &precond_nystrom_gaussian_ops,
    &precond_cholesky_greedy_ops,
    &precond_kronecker_ops,
    &precond_none_ops,
    NULL,
};

const struct solver_ops *const *solver_list(void)
{
    return solvers;
}

const struct solver_ops *solver_find(const char *name)
{
    for (const struct solver_ops *const *s = solvers; *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    return NULL;
}

const struct precond_ops *const *precond_list(void)
{
    return preconditioners;
}

const struct precond_ops *precond_find(const char *name)
{
    for (const struct precond_ops *const *m = preconditioners; *m != NULL; m++) {
        if (strcmp((*m)->name, name) == 0) {
            return *m;
        }
    }
    return NULL;
}
