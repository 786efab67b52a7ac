/*
 * What the driver adds to a solver's state to make it a checkpoint: texts that bind it to its
 * problem, and its own clock and counts, so that budgets and schedules span attempts.
 *
 * A checkpoint is only as good as its binding: one that was taken of another problem would give a
 * wrong model without a word. So the solver's name, the sizes, the type and a digest of everything
 * that the problem was made from are compared as texts, and any difference refuses it.
 */
#pragma once

#include "engine/solver.h"

struct checkpoint_key {
    const char *solver;
    int64_t n, t;
    enum dtype dtype;
    const char *problem; /* digest of spec, data and kernel; NULL counts as "" */
};

/* The driver's own memory. */
struct checkpoint_record {
    double elapsed_s;             /* of the job, all attempts together */
    double eval_spent, eval_last; /* seconds */
    int64_t iterations, evaluations, usable_steps;
    bool usable; /* there were coefficients */
};

/* A new state with texts, record and what the solver saves. *ret: state_free. */
int checkpoint_make(const struct checkpoint_key *key, const struct checkpoint_record *record,
                    const struct solver_ops *ops, const struct solver *solver, struct state **ret,
                    struct err *err);
/* Whether the state is of this problem, as far as its digest tells: before there is a solver to
 * load it. *ret is set only then. */
bool checkpoint_glance(const struct state *from, const char *problem,
                       struct checkpoint_record *ret);
bool checkpoint_solver_is(const struct state *from, const char *name);
/* The rank of the preconditioner that an iteration goes on with; 0: it has none, or the state is of
 * a version that did not say. */
int checkpoint_put_rank(struct state *to, int64_t rank, struct err *err);
int64_t checkpoint_rank(const struct state *from);
/* -ERR_CONFLICT with a sentence when the state belongs to another problem, -ERR_CORRUPT when it
 * contradicts itself. */
int checkpoint_read(const struct state *from, const struct checkpoint_key *key,
                    struct checkpoint_record *ret, struct err *err);
