/*
 * Plain conjugate gradients for a restricted problem: normal_cg.h without a preconditioner, in the
 * variables of B. There the residual falls along the large eigenvalues first and may be below the
 * tolerance while the solution is far: it goes on until the whitened one is (solver.h, deepen).
 */
#include "engine/methods/methods.h"
#include "engine/methods/restricted/normal_cg.h"

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    const struct normal_method method = {
        .precond = &precond_none_ops,
        .residual_every = param_int(&o->params, "residual_every"),
    };
    return normal_cg_setup(p, o, &method, ret, err);
}

const struct solver_ops solver_cg_ops = {
    .name = "cg",
    .restricted = true,
    .setup = setup,
    .step = normal_cg_step,
    .coef = normal_cg_coef,
    .deepen = normal_cg_deepen,
    .save = normal_cg_save,
    .load = normal_cg_load,
    .teardown = normal_cg_teardown,
};
