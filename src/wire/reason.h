/* Why a solve stopped, and why a job ended: stable codes of the HTTP interface. */
#pragma once

/* code, wire name, sentence, whether a model comes out of it */
#define REASON_LIST(X)                                                                             \
    X(NONE, "", "Not ended.", 0)                                                                   \
    X(CONVERGED, "converged", "The relative residual reached the tolerance.", 1)                   \
    X(ITERATION_LIMIT, "iteration_limit", "The iteration limit was reached first.", 1)             \
    X(TIME_BUDGET, "time_budget", "The time budget was spent first.", 1)                           \
    X(STAGNATED, "stagnated", "The residual stopped falling; rounding error dominates.", 1)        \
    X(BREAKDOWN, "breakdown",                                                                      \
      "The iteration met a direction of non-positive curvature: the matrix is not positive "       \
      "definite in this precision.",                                                               \
      1)                                                                                           \
    X(DIVERGED, "diverged", "The iteration produced infinity or NaN.", 0)                          \
    X(NOT_POSITIVE_DEFINITE, "not_positive_definite",                                              \
      "The regularized kernel matrix is not positive definite.", 0)                                \
    X(OUT_OF_MEMORY, "out_of_memory", "Not enough memory.", 0)                                     \
    X(CANCELLED, "cancelled", "Cancelled on request.", 0)                                          \
    X(PAUSED, "paused", "Paused on request.", 0)                                                   \
    X(DAEMON_STOPPED, "daemon_stopped", "The server stopped; the job goes on at its next start.",  \
      0)                                                                                           \
    X(WORKER_LOST, "worker_lost", "The worker process ended unexpectedly.", 0)                     \
    X(DISK_FULL, "disk_full", "There was no room on the disk for the model.", 0)                   \
    X(INVALID, "invalid_spec", "The job does not fit its data.", 0)                                \
    X(FAILED, "failed", "The job failed.", 0)

enum reason {
#define X(code, name, sentence, model) REASON_##code,
    REASON_LIST(X)
#undef X
        REASON_COUNT_
};

const char *reason_name(enum reason r);
const char *reason_sentence(enum reason r);
int reason_gives_model(enum reason r);
enum reason reason_from_name(const char *name); /* REASON_NONE when unknown */
