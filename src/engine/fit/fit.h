/*
 * From a job spec and an open data set to a model: split, standardise, choose what was left to us
 * (kernel, bandwidth, solver), solve, certify, evaluate. What was chosen is reported.
 */
#pragma once

#include "engine/centers.h"
#include "engine/model/model.h"
#include "engine/search/search.h"
#include "engine/solve/solve.h"
#include "wire/spec.h"

/* Seconds of a fit; setup, iterations and finish add up to all of it. They are those of its plan
 * (plan.h). */
struct fit_phases {
    double setup_s;      /* all until the first iteration; of a direct method all of its work */
    double choice_s;     /* of these, the choice of kernel and bandwidth */
    bool choice_cut_off; /* by the time budget */
    double iterations_s; /* all of them, with metrics and checkpoints on the way; or 0 */
    double finish_s;     /* certificate, metrics, model */
};

/* Levels of a selection by leverage scores that a result tells of: all of them, unless `q` is near
 * to 1. */
enum { FIT_LEVELS_MOST = 128 };

struct fit_result {
    struct solve_outcome outcome;
    const char *solver;         /* static names */
    const char *preconditioner; /* "" when none */
    enum precision precision; /* of the solve: the job's own or our choice, and float64 where mixed
                                 precision did not get far enough */
    int64_t rank;
    int64_t directions;    /* of the model's variance; 0: it has none */
    double log_evidence;   /* of solvers with a posterior (posterior.h), else NaN */
    const char *kernel;    /* static name; NULL: it was not chosen yet */
    double bandwidth;      /* of every feature; NaN: the kernel has none, or one a feature */
    double regularization; /* a row: the job's own, or what its search found */
    double ridge;          /* absolute */
    int64_t train_rows, test_rows;
    int64_t centers; /* of a restricted model; 0: every training row is one */
    int64_t levels;  /* of the selection's path, the last ones; 0: it has none */
    struct center_level path[FIT_LEVELS_MOST];
    double seconds;             /* of the whole fit, earlier attempts that were resumed included */
    struct fit_phases phases;   /* NaN where it was resumed: of earlier attempts only the sum is
                                 * known */
    int64_t peak_memory_bytes;  /* resident, of the process during this fit */
    int64_t kernel_cache_bytes; /* of kernel values kept in memory */
    struct grid grid;           /* of the rows, where products went by it; dims = 0: they did not */
    struct search_result search;
};
/* The `result` object of a job. */
struct json *fit_result_to_json(const struct fit_result *r);

struct columns;

/* The test rows as the model that is handed out predicts them. */
struct tested_rows {
    const struct columns *columns; /* of the training data: task, targets, labels */
    char *const *names;            /* of all its columns */
    int64_t m, t;                  /* test rows; targets, or classes */
    const int64_t *rows;           /* [m] where they stand in their data set, ascending */
    const double *truth;           /* [m, t] column-major, own units; NULL: classes */
    const int64_t *truth_class;    /* [m] of columns->labels */
    const double *predicted;       /* [m, t] column-major: own units, or the classes' scores */
};

struct fit_input {
    const struct dataset *train;
    const struct dataset *test;    /* when the spec names one, else NULL */
    const struct dataset *centers; /* when the spec's `centers` name one (its rows), else NULL */
    /* What the job's plan decided of kept kernel values, where the spec leaves it open (plan.h);
     * NULL: there is no plan. */
    const int64_t *kernel_cache_bytes;
    bool open_centers;      /* the plan chose their number, so that a budget may ask for fewer */
    struct model **earlier; /* the spec's warm_start, else NULL; freed once it was used */
    /* Called once before a fit with a model and test rows returns, unless NULL; what it is shown is
     * borrowed. A negative return is that of the fit. */
    int (*tested)(void *context, const struct tested_rows *rows, struct err *err);
    void *context;
};

/*
 * *ret is NULL when the outcome's `model` is false; *ret_result is set whenever 0 is returned. Bad
 * combinations of spec and data (no such column, width mismatch, too few rows, an earlier model of
 * other features) are -ERR_INVALID with a pointer into the spec.
 */
int fit_run(struct backend *be, const struct job_spec *spec, const struct fit_input *in,
            const struct solve_control *control, struct model **ret, struct fit_result *ret_result,
            struct err *err);
