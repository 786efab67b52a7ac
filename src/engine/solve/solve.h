/*
 * The one driver loop: runs any solver on any problem, and owns progress, cancel, time budget,
 * test metrics on a schedule, stop reasons, and the certified residual at the end.
 */
#pragma once

#include "engine/solve/eta.h"
#include "engine/solver.h"
#include "wire/progress.h"

struct solve_limits {
    double tolerance;
    int64_t max_iterations;
    double time_budget_s; /* from `started`, and what earlier attempts took; INFINITY: none */
};

struct search_result; /* search.h */
struct choice;        /* choose.h */

/* The world outside, injected. Every member may be NULL except now. */
struct solve_control {
    void *context;
    double (*now)(void *context);     /* monotonic seconds */
    bool (*cancelled)(void *context); /* asked before every step and piece of the certificate */
    void (*report)(void *context, const struct progress *p); /* at most every report_every_s */
    void (*message)(void *context, const char *level, const char *text); /* "info", "warning" */
    /* A message of level "info" with an object of data. */
    void (*tell)(void *context, const char *text, const struct json *data);
    double report_every_s;       /* 0: every step */
    double started;              /* now() when the job, or this attempt at it, began */
    const struct eta_plan *plan; /* NULL: nothing is known of how long the job will take */

    /*
     * Checkpoints. `paused` is asked before every step: yes ends the solve with PAUSED after a last
     * checkpoint. It is not asked any more once the solver has ended and the certificate begins:
     * that is finished, or cancelled. `checkpoint` keeps the state, borrowed for the call; a
     * failure is told as a warning and the solve goes on. The first one is due after
     * checkpoint_every_s, later ones as long ago and only while all of them together cost less than
     * a fiftieth of the time. `resume` is the last one of an earlier attempt, or NULL; one that
     * does not fit this problem is told as a warning, and the solve begins at its beginning.
     * `problem` is a digest of what the problem was made from: a checkpoint with another one does
     * not fit. `taken` tells that `resume` is not looked at any more, so that its memory can be
     * given back.
     */
    bool (*paused)(void *context);
    int (*checkpoint)(void *context, const struct state *s, struct err *err);
    double checkpoint_every_s;
    const struct state *resume;
    void (*taken)(void *context);
    const char *problem;
    /* Where what the solver knows beside the mean goes, with a model; NULL: nobody wants it. */
    struct posterior *posterior;
    /* What found the kernel, kept with every checkpoint, each or NULL, and what it was made on. */
    const struct search_result *search;
    const struct choice *choice;
    const char *searched;
};

/* Test metrics of given coefficients; costs one oracle call. The driver evaluates as often as it
 * can without spending more than a twentieth of the time on it, and at the end. */
struct solve_evaluator {
    void *context;
    double cost; /* of one call, in products with the training matrix: test rows / training rows */
    int (*evaluate)(void *context, const struct mat *A, struct metrics *ret, struct err *err);
};

struct solve_outcome {
    enum reason reason;
    int64_t iterations;
    /* Certified (certify.h): max over columns of |y - (K + ridge I) a| / |y| in float64. */
    double relative_residual;
    double relative_residual_bound; /* the same, or of sampled rows above it with 99 % confidence */
    bool sampled;
    double whitened_residual; /* of restricted models (certify.h); NaN: not measured */
    struct metrics metrics;
    double seconds;   /* of the solve, with those of earlier attempts that it resumed */
    double earlier_s; /* of the job in earlier attempts, from the checkpoint; 0: not resumed */
    /* Of this attempt: from the start of the first iteration to the end of the last, with metrics
     * and checkpoints on the way (0: none, or a direct method), and of coefficients, certificate
     * and metrics at the end. */
    double iterations_s, finish_s;
    int64_t rank; /* of the preconditioner, 0: none */
    bool model;   /* A holds coefficients */
};

/* A restricted model whose certificate holds misses the solution all the same where its whitened
 * residual is so many tolerances, and its distance from the solution may be such a share of it
 * (certify.h). Solvers that iterate in whitened variables end with one or two tolerances, and
 * distances below 1e-3; in the worst of tests/conformance, noise on a K_mm that is singular to
 * working precision, 0.013. */
#define SOLVE_WHITENED_SLACK 10.0
#define SOLVE_DISTANCE 0.02

/*
 * Solves into A (problem_size x t of p->dtype, allocated by the caller). `host` are the training
 * points the problem's were made from, `kernel` their kernel: the certificate is computed from them
 * in float64. Both may be NULL for a restricted problem, which has its own. `evaluator` may be
 * NULL.
 *
 * A solve that was cancelled, paused, diverged, ran out of memory or met a matrix that is not
 * positive definite is a result with its reason, not an error; *err then still carries the sentence
 * (with what to do) for all but the first two. So is a solve that had no coefficients yet when it
 * had to stop: reason TIME_BUDGET when the time budget ran out during the building phase,
 * NOT_POSITIVE_DEFINITE when the very first direction broke down. In all these `model` is false, A
 * is 0, the certified residual 1 and the metrics are NaN.
 *
 * CONVERGED means that the certified residual (of sampled rows: its estimate) is at most the
 * tolerance (but for rounding, 1 %); a solver that believed it had converged in a lower precision
 * is STAGNATED. Where a restricted model misses the solution nevertheless (above), a solver that
 * can goes on (solver.h, deepen), and one that was ended by its limits has not CONVERGED; a model
 * that is handed out so has a warning.
 */
int solve_run(const struct solver_ops *ops, const struct problem *p,
              const struct solver_options *options, const struct solve_limits *limits,
              const struct solve_control *control, const struct solve_evaluator *evaluator,
              const struct kernel *kernel, const struct rows *host, const struct mat *A,
              struct solve_outcome *ret, struct err *err);
