/* Inside a fit: what its files share. fit.c is the story, fit_choose.c chooses what the job leaves
 * to us, fit_prepare.c brings it all to the backend. */
#pragma once

#include "base/sha256.h"
#include "engine/checkpoint.h"
#include "engine/choose/choose.h"
#include "engine/data/fit_data.h"
#include "engine/fit/fit.h"
#include "engine/fit/fit_centers.h"
#include "engine/posterior.h"

struct fit {
    struct backend *be;
    const struct job_spec *spec;
    const struct solve_control *control;
    struct fit_data data;
    void *sample; /* [sampled, d]: some rows of data that is not loaded */
    double *sample_Y;
    int64_t sampled;
    struct kernel kernel;
    struct choice chosen; /* of what the job leaves open */
    bool choice_made;     /* by fits or by the clock: kept for later attempts */
    const struct solver_ops *solver;
    struct solver_options options;
    enum dtype vectors;
    bool restricted;              /* a model on few centers */
    struct fit_centers centers;   /* of such a one, in place of X, X_test and Y */
    const int64_t *planned_cache; /* fit_input's kernel_cache_bytes */
    bool open_centers;            /* fit_input's */
    struct points *X, *X_test;
    struct points *exact;             /* mixed precision: X in float64, else NULL */
    struct mat Y, A, P;               /* P: predictions of the test rows */
    double *predicted;                /* [m, t] */
    double *found;                    /* [n, t] the coefficients a search found, or NULL */
    struct posterior posterior;       /* of solvers that know it */
    struct mat start;                 /* those, or an earlier model's; no rows: none */
    bool resumes;                     /* the checkpoint fits, as far as is known by now */
    struct checkpoint_record earlier; /* where it does, what an attempt before had come to */
    bool paused;                      /* asked to, before the solve */
    bool spent;                       /* the time budget was, before the solve */
    double choice_s;                  /* that the choice of the kernel took */
    double told;                      /* when a phase before the solve last was */
    double solved;                    /* when the solve had ended; NaN: it did not begin */
    char problem[SHA256_HEX_SIZE];
    struct fit_result result;
};

/* fit.c */
void fit__say(const struct fit *f, const char *level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void fit__show_phase(struct fit *f, const char *phase);
/* `share` is that of the phase which is done; said where nothing was for a while. */
void fit__show_share(struct fit *f, const char *phase, double share);
/* The digest of spec and data, as far as the caller knows them. */
const char *fit__given(const struct fit *f);
/* The solver that will be set up, unless the clock decides: one whose checkpoint it is not has
 * nothing to go on from. */
void fit__expect_solver(struct fit *f, const char *name);
/* Whether to stop before the solve, where there is nothing to keep; `context` is the fit. */
int fit__stop_here(void *context, struct err *err);

/* fit_warn.c: tells what is odd about the values that were loaded. */
void fit__warn(const struct fit *f);
/* And when a default of the selection left out rows that its leverage scores ask for. */
void fit__warn_of_centers(const struct fit *f);
/* And when the test rows say that the model is of no use. */
void fit__warn_of_metrics(const struct fit *f);

/* fit_words.c: which features give a target away, and of the data sets that are matched by name (of
 * the test rows; `centers` or NULL) what is taken as 0. A centers' data set that does not fit is
 * refused later, where it is read. */
int fit__tell_words(const struct fit *f, const struct dataset *centers, struct err *err);

/* fit_result.c: "kernel" with name and bandwidth; null before it is chosen. */
void fit__set_kernel(const struct fit_result *r, struct json *to);

/* fit_chosen.c: kernel, bandwidth and regularization are settled: into the result, and told where
 * the job left one of them open. */
void fit__settle(struct fit *f);

/* fit_choose.c: kernel and bandwidth; then regularization and bandwidth where they are searched
 * for (`file`: the data set of the centers, or NULL); then, once centers are there, solver,
 * preconditioner and precision. */
int fit__choose_kernel(struct fit *f, struct err *err);
int fit__search(struct fit *f, const struct dataset *file, struct err *err);
int fit__choose_method(struct fit *f, struct err *err);

/* fit_timely.c: what is left of the time budget decides. Whether it is spent on the choice as far
 * as that may go; `context` is the fit. How many centers there is time for, `planned` at most, and
 * how a full model hurries. */
bool fit__late(void *context);
int fit__timely_centers(struct fit *f, const struct dataset *file, int64_t planned,
                        struct err *err);
int fit__timely_solver(struct fit *f, const char *planned, struct err *err);
double fit__elapsed(const struct fit *f); /* of the job, earlier attempts included */

/* fit_prepare.c: points, right-hand sides and room for the answer of a full model; its rows' grid
 * or, without one, kept kernel values; centers and rows of a restricted one; coefficients to begin
 * with. */
int fit__upload(struct fit *f, struct err *err);
int fit__find_grid(struct fit *f, struct err *err);
int fit__keep_kernel(struct fit *f, struct points *X, enum dtype points, struct err *err);
int fit__widened(void *context, struct err *err); /* struct problem's, of a fit */
int fit__select_centers(struct fit *f, const struct dataset *file, struct err *err);
/* Of rows and centers as the solver of a restricted problem has them: its vectors are float64. */
enum dtype fit__centers_dtype(const struct fit *f);
int fit__upload_restricted(struct fit *f, struct err *err);
int fit__take_start(struct fit *f, struct model **earlier, struct err *err);
