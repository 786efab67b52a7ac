/* The step of the block methods with its momentum, and restarts of that (block_descent.h). */
#include <math.h>

#include "base/mem.h"
#include "engine/methods/blocks/block_descent.h"

/* How many times alpha is below what momentum begins with, and V moves further than then. */
static double growth(const struct block_descent *d, int64_t j)
{
    const double steps = d->ages[j] > 0 ? (double)(d->ages[j] - 1) : 0.0;
    return d->rising ? 1.0 + 0.5 * d->alpha * steps : 1.0;
}

/* The alpha of the last step. */
static double alpha_of(const struct block_descent *d, int64_t j)
{
    return d->accelerated ? d->alpha / growth(d, j) : 0.0;
}

static void set_column(struct block_descent *d, int64_t j, double a, double b)
{
    d->a[j] = a;
    d->b[j] = b;
}

/* Coefficients for the columns still moving; the others keep what they have. */
void block_descent__set_coefficients(struct block_descent *d, const bool *still, double a, double b)
{
    for (int64_t j = 0; j < d->p.t; j++) {
        set_column(d, j, still[j] ? 0.0 : a, still[j] ? 1.0 : b);
    }
}

/* V <- beta V + (1 - beta) E - kick I_b D, D of the vectors' type. */
static int move_momentum(struct block_descent *d, const int64_t *index, const struct mat *D,
                         struct block_step step, struct err *err)
{
    const struct backend_ops *o = d->p.be->ops;
    int rc = 0;
    if (step.beta < 1.0) {
        block_descent__set_coefficients(d, d->frozen, 1.0 - step.beta, step.beta);
        rc = o->col_axpby(d->p.be, d->a, &d->E, d->b, &d->V, err);
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        d->ages[j] += !d->frozen[j];
        set_column(d, j, d->frozen[j] ? 0.0 : -step.kick * growth(d, j), 0.0);
    }
    return rc == 0 ? o->add_rows(d->p.be, d->a, D, index, &d->V, err) : rc;
}

int block_descent__move(struct block_descent *d, const int64_t *index, const struct mat *D,
                        struct block_step step, struct err *err)
{
    const double shorter = ldexp(1.0, -(int)d->halvings);
    struct backend *be = d->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat G = mat_rows(d->G, 0, D->rows);
    int rc = o->copy(be, D, &G, err);
    step.kick *= shorter;
    if (rc == 0 && d->accelerated) {
        rc = move_momentum(d, index, &G, step, err);
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        const double alpha = d->frozen[j] ? 0.0 : alpha_of(d, j);
        set_column(d, j, alpha, 1.0 - alpha);
    }
    if (rc == 0 && d->accelerated) {
        rc = o->col_axpby(be, d->a, &d->V, d->b, &d->E, err);
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        const double part = d->frozen[j] ? 0.0 : 1.0 - alpha_of(d, j);
        set_column(d, j, -part * shorter * step.eta, 0.0);
    }
    return rc == 0 ? o->add_rows(be, d->a, &G, index, &d->E, err) : rc;
}

/* M <- (M - alpha V) / (1 - alpha) for the columns not `still`, where M holds E: the iterate. */
static int to_iterate(struct block_descent *d, const bool *still, const struct mat *M,
                      struct err *err)
{
    if (!d->accelerated) {
        return 0;
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        const double alpha = still[j] ? 0.0 : alpha_of(d, j);
        set_column(d, j, -alpha / (1.0 - alpha), 1.0 / (1.0 - alpha));
    }
    return d->p.be->ops->col_axpby(d->p.be, d->a, &d->V, d->b, M, err);
}

int block_descent__restart(struct block_descent *d, const bool *still, struct err *err)
{
    const int rc = to_iterate(d, still, &d->E, err);
    if (rc < 0) {
        return rc;
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        d->ages[j] = still[j] ? d->ages[j] : d->ages[j] / 2;
    }
    block_descent__set_coefficients(d, still, 1.0, 0.0);
    return d->p.be->ops->col_axpby(d->p.be, d->a, &d->E, d->b, &d->V, err);
}

int block_descent__restart_where(struct block_descent *d, const bool *risen, struct err *err)
{
    cleanup_mem bool *still = mem_array((size_t)d->p.t, sizeof(bool));
    if (still == NULL) {
        return err_no_memory(err);
    }
    bool any = false;
    for (int64_t j = 0; j < d->p.t; j++) {
        still[j] = d->frozen[j] || !d->restarts || !(risen != NULL ? risen[j] : d->slope[j] > 0);
        any = any || !still[j];
        if (risen == NULL || !still[j]) {
            d->slope[j] = 0;
        }
    }
    if (risen == NULL) {
        d->since_restart = 0;
    }
    return any ? block_descent__restart(d, still, err) : 0;
}

int block_descent__get_iterate(struct block_descent *d, const struct mat *M, struct err *err)
{
    cleanup_mem bool *none = mem_zarray((size_t)d->p.t, sizeof(bool));
    if (none == NULL) {
        return err_no_memory(err);
    }
    const int rc = d->p.be->ops->copy(d->p.be, &d->E, M, err);
    return rc == 0 ? to_iterate(d, none, M, err) : rc;
}
