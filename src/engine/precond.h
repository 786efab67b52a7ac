/*
 * Preconditioners P ~ K + ridge I for full kernel systems. Built in steps, so that a long build can
 * be cancelled; then applied as Z <- P^-1 R to all targets at once.
 */
#pragma once

#include "engine/solver.h"

struct precond; /* each method's own state */

struct precond_ops {
    const char *name; /* as in the catalog */
    int (*setup)(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err);
    /* 1: complete. 0: call again. Negative: -ERR_*. *ret_fraction is 0..1. */
    int (*build)(struct precond *m, double *ret_fraction, struct err *err);
    int (*apply)(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err);
    int64_t (*rank)(const struct precond *m);
    /* (optional) What the rank may come to, as it was given or chosen at setup. */
    int64_t (*most)(const struct precond *m);
    /* (optional) What was built so far, where it is dear enough to be kept in checkpoints, and back
     * into one that was set up afresh; see solver.h. The others are built again. */
    int (*save)(const struct precond *m, struct state *to, struct err *err);
    int (*load)(struct precond *m, const struct state *from, struct err *err);
    void (*teardown)(struct precond *m); /* accepts NULL and half-built states */
};

const struct precond_ops *precond_find(const char *name); /* NULL when unknown */
const struct precond_ops *const *precond_list(void);      /* NULL-terminated */
