/*
 * The one driver loop: runs any solver on any problem, and owns progress, cancel, time budget,
 * test metrics on a schedule, stop reasons, and the certified residual at the end.
 */
#pragma once

#include "engine/solver.h"
#include "wire/progress.h"

struct solve_limits {
    double tolerance;
    int64_t max_iterations;
    double time_budget_s; /* from `started`; INFINITY: none */
};

/* The world outside, injected. Every member may be NULL except now. */
struct solve_control {
    void *context;
    double (*now)(void *context);                                     /* monotonic seconds */
    bool (*cancelled)(void *context);                                 /* asked before every step */
    void (*report)(void *context, const struct progress *p);          /* at most every report_every_s */
    void (*message)(void *context, const char *level, const char *text); /* "info", "warning" */
    double report_every_s;                                            /* 0: every step */
    double started;                                                   /* now() when the job began */
};

/* Test metrics of given coefficients; costs one oracle call. The driver evaluates as often as it
 * can without spending more than a twentieth of the time on it. */
struct solve_evaluator {
    void *context;
    int (*evaluate)(void *context, const struct mat *A, struct metrics *ret, struct err *err);
};

struct solve_outcome {
    enum reason reason;
    int64_t iterations;
    double relative_residual; /* certified: max over columns of |y - (K + ridge I) a| / |y|, float64 */
    struct metrics metrics;
    double seconds;
};

/*
 * Solves into A (n x t of p->dtype, allocated by the caller). `host` are the training points the
 * problem's were made from, `kernel` their kernel: the certificate is computed from them in
 * float64. A cancelled, diverged or not positive definite solve is a result with its reason, not
 * an error; *err then still carries the sentence (with what to do) for the last two.
 */
int solve_run(const struct solver_ops *ops, const struct problem *p,
              const struct solver_options *options, const struct solve_limits *limits,
              const struct solve_control *control, const struct solve_evaluator *evaluator,
              const struct kernel *kernel, const struct rows *host, const struct mat *A,
              struct solve_outcome *ret, struct err *err);
