/*
 * The seconds that a job has left, where there is an honest guess at them, else NaN. One rule:
 *
 *   - Nothing is said in phases whose length is not known, which are all before the solver's, and
 *     its building where an unknown number of iterations follows.
 *   - A direct method knows what share of its work is done: it is projected from that, and before
 *     there is enough of it, from the seconds that the job's plan expects.
 *   - An iterative method ends when the residual, which falls by so much an iteration over the last
 *     half of them, has reached the tolerance, or at the limit of the iterations if that is sooner.
 *     A residual that is not known, or does not fall, says nothing.
 *   - The certificate takes what the plan expects of it.
 *   - It is never more than what is left of the time budget, and nothing once that is spent.
 *
 * Seconds are those of the job, with those of earlier attempts.
 */
#pragma once

#include <stdint.h>

/* What the job's plan expects (plan/plan.h); NaN: not known. */
struct eta_plan {
    double setup_s;  /* all before the first iteration; of a direct method, all of its work */
    double finish_s; /* certificate and metrics at the end */
};
struct eta_plan eta_plan_none(void);

struct eta_limits {
    double tolerance;
    int64_t max_iterations;
    double budget_s; /* INFINITY: none */
};

struct eta_mark {
    int64_t iteration;
    double seconds, residual;
};

struct eta {
    struct eta_limits limits;
    struct eta_plan plan;
    struct eta_mark first, from, next, last; /* the residual falls between `from` and `last` */
    int64_t marks;
};
void eta_init(struct eta *e, const struct eta_limits *limits, const struct eta_plan *plan);

/* A direct method did `fraction` of its work in `spent_s`. */
double eta_direct(const struct eta *e, double seconds, double spent_s, double fraction);
/* After every iteration, or less often. */
void eta_iterated(struct eta *e, int64_t iteration, double residual, double seconds);
double eta_iterating(const struct eta *e, double seconds);
/* The certificate began `since_s` ago. */
double eta_finishing(const struct eta *e, double seconds, double since_s);
