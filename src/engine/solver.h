/*
 * The stepping solver: one interface for every method that finds A (n x t) with
 *
 *     (K + ridge I) A = Y,    K = k(X, X) of n training points, t targets at once,
 *
 * or, restricted to m centers Z, A (m x t) with
 *
 *     (K_nm' K_nm + ridge K_mm) A = K_nm' Y,    K_nm = k(X, Z), K_mm = k(Z, Z).
 *
 * A solver does one iteration per step() and nothing else: it reads no clock, logs nothing, draws
 * only from the counter-based streams of the problem's seed, and allocates only in setup (or in the
 * steps of its building phase). The driver (solve.h) owns everything around it: progress, cancel,
 * time budget, metrics, stop reasons and the certified residual. A solver file therefore reads as
 * its paper's pseudocode; its header names paper, problem, notation, cost and memory per step, and
 * deviations.
 */
#pragma once

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backend.h"
#include "engine/state.h"
#include "wire/param.h"
#include "wire/reason.h"

struct posterior; /* posterior.h */
struct rowset;    /* rowset.h */
struct row_source;

/* What a restricted problem has in place of points and targets. */
struct restricted {
    struct rowset *rows;             /* the n training rows, in tiles */
    const struct row_source *source; /* the same on the host, for the certificate */
    const struct kernel *kernel;
    const struct points *Z;     /* m centers, in the precision of the operator */
    const struct points *core;  /* the same in float64, for K_mm; may be Z */
    const struct rows *centers; /* the same on the host */
    int64_t m;
    const double *weights;    /* [m]: of the selection (centers.h); NULL: ones */
    const int64_t *positions; /* [m]: the row that each center is; NULL: no rows, or not known */
    /* [n]: W of the system (K_nm' W K_nm + ridge K_mm) A = K_nm' W Y, for those who certify it;
     * NULL: ones, as solvers have them. */
    const double *row_weights;
};

struct problem {
    struct backend *be;
    const struct restricted *restricted; /* NULL: the full problem */
    const struct points *X; /* n points, in the precision of the operator; NULL: restricted */
    /* In mixed precision the same points in float64: what the residual is measured with, and, from
     * the moment on when `widened` is called (where it is not NULL), what a solver multiplies with
     * because X does not get it further. NULL: there is nothing better than X. */
    const struct points *exact;
    int (*widened)(void *context, struct err *err);
    void *widened_context;
    /* The rows of X on the host and their kernel; NULL: nobody has them, as of a restricted one. */
    const struct rows *host;
    const struct kernel *kernel;
    int64_t n, t;
    int64_t d;               /* features, for estimates of the cost */
    double product_share;    /* grid.share; 0: products go by no grid */
    double ridge;            /* absolute: n * lambda */
    enum dtype dtype;        /* of vectors and dense matrices */
    enum dtype points_dtype; /* of X, and so of kernel values */
    struct mat Y;            /* n x t of dtype; empty: restricted */
    uint64_t seed;
    int64_t rank_kept; /* of the preconditioner that the attempt to go on from had: one that is left
                          open is no larger, whatever memory there is by now; 0: none is known */
    const struct mat *start; /* coefficients of dtype to begin with; NULL: zero. Direct methods
                                have no use for it. */
};

/* eps of the vectors or of the kernel values, the larger one: of the errors in a residual. */
static inline double problem_rounding(const struct problem *p)
{
    const bool single = p->dtype == DTYPE_F32 || p->points_dtype == DTYPE_F32;
    return single ? FLT_EPSILON : DBL_EPSILON;
}

/* Coefficients of a target: n, or m of a restricted problem. */
static inline int64_t problem_size(const struct problem *p)
{
    return p->restricted != NULL ? p->restricted->m : p->n;
}

struct precond_ops; /* precond.h */
struct precond;

struct solver_options {
    struct param_set params;           /* the solver's own table in the catalog */
    const struct precond_ops *precond; /* NULL when the solver has none */
    struct param_set precond_params;
    struct precond *made; /* one that is set up already, and stays its owner's; NULL: none is */
    double tolerance;     /* relative residual, every column */
};

/* What a step tells the driver. */
struct step_report {
    const char *phase;        /* "preconditioner", "factorizing", "iterating" */
    double fraction;          /* 0..1 of the whole solve where the method knows it, else NaN */
    int64_t iteration;        /* iterations of the method itself; building steps do not count */
    double relative_residual; /* largest over columns, the iteration's own; NaN when unknown */
    double share;     /* of the iteration under way where steps are pieces of one; 0: unknown */
    bool built;       /* the next step iterates; only set by methods whose steps may be long */
    bool usable;      /* coef() would give a meaningful answer now */
    bool savable;     /* not usable yet, but save() has something worth keeping */
    int64_t rank;     /* of the preconditioner in use; 0: none, or not built yet */
    const char *note; /* static, what a user should know from now on; told once, that of the last
                         step unless it has converged. NULL: nothing */
};

struct solver; /* each method's own state */

struct solver_ops {
    const char *name; /* as in the catalog */
    /* A step multiplies with the whole kernel matrix of the training points: with many steps ahead
     * it may pay to keep it (backend.h, points_cache). */
    bool whole_products;
    bool direct;     /* has no use for the problem's start */
    bool cold;       /* nor has this one, although it iterates */
    bool restricted; /* solves restricted problems, and no full ones */
    int (*setup)(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err);
    /* 0: go on. Positive: an enum reason (CONVERGED, STAGNATED, BREAKDOWN). Negative: -ERR_*. A
     * step after a positive answer is harmless and gives the same answer. */
    int (*step)(struct solver *s, struct step_report *ret, struct err *err);
    /* The present coefficients into A (problem_size x t, of the problem's dtype). Any time after
     * setup. */
    int (*coef)(struct solver *s, const struct mat *A, struct err *err);
    /* (optional) After CONVERGED: the certificate finds the tolerance missed. 0: the solver makes
     * up for it in steps to come. Positive: it cannot, and this is the reason to end with. */
    int (*refuse)(struct solver *s, struct err *err);
    /* (optional, restricted) After CONVERGED: the certificate finds the tolerance met, but not by
     * the whitened residual (certify.h). 0: the solver goes on to a smaller tolerance of its own.
     */
    int (*deepen)(struct solver *s, struct err *err);
    /* (optional, restricted) The row_weights of the system that it has solved; NULL: ones. */
    const double *(*row_weights)(const struct solver *s);
    /* (optional) What is known beside the mean, whenever the last report was usable. */
    int (*posterior)(struct solver *s, struct posterior *ret, struct err *err);
    /* What a solver set up for the same problem needs to go on from here to the same bits. save may
     * be called whenever the last report was usable or savable; load once, straight after setup,
     * and the steps that follow build what follows from the problem alone before they go on. A
     * solver without these has nothing worth keeping: it starts again. */
    int (*save)(const struct solver *s, struct state *to, struct err *err);
    int (*load)(struct solver *s, const struct state *from, struct err *err);
    void (*teardown)(struct solver *s); /* accepts NULL and half-built states */
};

/* registry.c: the one list. */
const struct solver_ops *solver_find(const char *name); /* NULL when unknown; "auto" is not here */
const struct solver_ops *const *solver_list(void);      /* NULL-terminated */
