/* What the block methods keep in a checkpoint (block_descent.h). */
#include <string.h>

#include "base/mem.h"
#include "engine/methods/blocks/block_descent.h"

enum { COUNTERS = 7, KEPT = 6 };

/* What save keeps of each column, beside the flags. */
static void kept_arrays(const struct block_descent *d, double *ret[KEPT])
{
    double *const kept[KEPT] = {d->relative, d->mean, d->bias, d->best, d->value, d->slope};
    memcpy(ret, kept, sizeof(kept));
}

static const char *const kept_names[KEPT] = {"relative", "mean", "bias", "best", "value", "slope"};

static int put_flags(const struct block_descent *d, struct state *to, struct err *err)
{
    const int64_t counters[COUNTERS] = {d->iteration, d->since_check,  d->since_restart,
                                        d->averaged,  d->stale_checks, d->checked,
                                        d->halvings};
    cleanup_mem int64_t *frozen = mem_array((size_t)d->p.t, sizeof(*frozen));
    if (frozen == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        frozen[j] = d->frozen[j];
    }
    int rc = state_put_ints(to, "frozen", frozen, d->p.t, err);
    if (rc == 0 && d->rising) {
        rc = state_put_ints(to, "ages", d->ages, d->p.t, err);
    }
    return rc == 0 ? state_put_ints(to, "counters", counters, COUNTERS, err) : rc;
}

/* Whether a run with d's pass and window can have saved these. */
static bool possible(const struct block_descent *d, const int64_t counters[COUNTERS])
{
    const int64_t iteration = counters[0], since_check = counters[1], since_restart = counters[2];
    const int64_t averaged = counters[3], stale_checks = counters[4], checked = counters[5];
    const int64_t halvings = counters[6];
    return iteration >= 0 && since_check >= 0 && since_check <= iteration && since_restart >= 0 &&
           since_restart <= iteration && (!d->accelerated || since_restart < d->uphill_every) &&
           averaged >= 0 && averaged <= iteration && averaged <= d->window && stale_checks >= 0 &&
           stale_checks <= BLOCK_DESCENT_STALE_CHECKS && halvings >= 0 &&
           halvings <= BLOCK_DESCENT_HALVINGS &&
           (checked == 1 || (checked == 0 && stale_checks == 0));
}

static int get_flags(struct block_descent *d, const struct state *from, struct err *err)
{
    int64_t counters[COUNTERS];
    cleanup_mem int64_t *frozen = mem_array((size_t)d->p.t, sizeof(*frozen));
    int rc =
        frozen == NULL ? err_no_memory(err) : state_get_ints(from, "frozen", frozen, d->p.t, err);
    if (rc == 0) {
        rc = state_get_ints(from, "counters", counters, COUNTERS, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (!possible(d, counters)) {
        return err_set(err, ERR_CORRUPT,
                       "The state's array \"counters\" has numbers that no run can reach.");
    }
    for (int64_t j = 0; j < d->p.t; j++) {
        if (frozen[j] != 0 && frozen[j] != 1) {
            return err_set(err, ERR_CORRUPT,
                           "The state's array \"frozen\" has numbers other than 0 and 1.");
        }
        d->frozen[j] = frozen[j] != 0;
    }
    d->iteration = counters[0];
    d->since_check = counters[1];
    d->since_restart = counters[2];
    d->averaged = counters[3];
    d->stale_checks = (int)counters[4];
    d->checked = counters[5] != 0;
    d->halvings = counters[6];
    return 0;
}

int block_descent_save(const struct block_descent *d, struct state *to, struct err *err)
{
    double *kept[KEPT];
    kept_arrays(d, kept);
    int rc = state_put_mat(to, "E", d->p.be, &d->E, err);
    rc = rc == 0 ? state_put_mat(to, "best_W", d->p.be, &d->best_W, err) : rc;
    if (rc == 0) {
        rc = state_put_reals(to, "alpha", &d->alpha, 1, err);
    }
    if (rc == 0 && d->accelerated) {
        rc = state_put_mat(to, "V", d->p.be, &d->V, err);
    }
    for (int i = 0; rc == 0 && i < KEPT; i++) {
        rc = state_put_reals(to, kept_names[i], kept[i], d->p.t, err);
    }
    return rc == 0 ? put_flags(d, to, err) : rc;
}

/* The ages of a rising momentum. A version whose momentum was constant kept none: what it had built
 * up is dropped. */
static int get_ages(struct block_descent *d, const struct state *from, struct err *err)
{
    if (!state_has(from, "ages")) {
        cleanup_mem bool *none = mem_zarray((size_t)d->p.t, sizeof(bool));
        return none == NULL ? err_no_memory(err) : block_descent__restart(d, none, err);
    }
    const int rc = state_get_ints(from, "ages", d->ages, d->p.t, err);
    for (int64_t j = 0; rc == 0 && j < d->p.t; j++) {
        if (d->ages[j] < 0 || d->ages[j] > d->iteration) {
            return err_set(err, ERR_CORRUPT,
                           "The state's array \"ages\" has numbers that no run can reach.");
        }
    }
    return rc;
}

int block_descent_load(struct block_descent *d, const struct state *from, struct err *err)
{
    double *kept[KEPT];
    kept_arrays(d, kept);
    int rc = state_get_mat(from, "E", d->p.be, &d->E, err);
    rc = rc == 0 ? state_get_mat(from, "best_W", d->p.be, &d->best_W, err) : rc;
    if (rc == 0) {
        rc = state_get_reals(from, "alpha", &d->alpha, 1, err);
    }
    if (rc == 0 && !(d->alpha >= 0 && d->alpha <= 0.5)) {
        rc = err_set(err, ERR_CORRUPT, "The state's array \"alpha\" is out of range.");
    }
    if (rc == 0 && d->accelerated) {
        rc = state_get_mat(from, "V", d->p.be, &d->V, err);
    }
    for (int i = 0; rc == 0 && i < KEPT; i++) {
        rc = state_get_reals(from, kept_names[i], kept[i], d->p.t, err);
    }
    rc = rc == 0 ? get_flags(d, from, err) : rc;
    return rc == 0 && d->rising ? get_ages(d, from, err) : rc;
}
