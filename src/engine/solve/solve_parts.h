/* Inside a solve: what its files share. solve.c is the story, solve_progress.c the clock, what is
 * told and the metrics on the way, solve_checkpoint.c what an attempt leaves to the next. */
#pragma once

#include "engine/checkpoint.h"
#include "engine/solve/solve.h"

struct drive {
    const struct solver_ops *ops;
    struct solver *solver;
    const struct problem *p;
    const struct solve_limits *limits;
    const struct solve_control *control;
    const struct solve_evaluator *evaluator;
    const struct mat *A;
    struct step_report at;
    struct progress progress;
    struct eta eta;
    double certifying;            /* when the certificate began; NaN: not yet */
    double iterating;             /* when iterations did, of this attempt; NaN: not yet */
    double iterated, concluded;   /* seconds of iterations, and of certificates, of this attempt */
    double began;                 /* of this solve; control->started is of the job */
    double earlier;               /* seconds of the job before this attempt */
    double last_report;           /* -INFINITY: none yet */
    double known;                 /* the last fraction a solver gave itself */
    double eval_spent, eval_last; /* seconds */
    double save_spent, save_last; /* seconds, of this attempt */
    double saved;                 /* when the last checkpoint was taken, or this solve began */
    int64_t saves;
    int64_t evaluations;
    int64_t usable_steps;
    const char *told; /* the last note passed on */
    int64_t entries_before;
    bool stepping;            /* a step is under way */
    int64_t iteration_from;   /* the backend's count as the iteration under way began */
    double iteration_entries; /* that one takes, by the last; NaN: not known */
    bool model;               /* A holds the coefficients of the outcome */
    double asked;             /* when a long product last did */
    bool spent; /* the time budget was, in the midst of a step and before any coefficients */
};

/* solve_progress.c: the clock, and the seconds of the job and of the solve at time t, earlier
 * attempts included; messages of two parts; progress, where it is time or `always`; test metrics.
 */
double solve__now(const struct drive *d);
bool solve__iterates(const struct drive *d); /* the step of the last report did */
bool solve__cancelled(const struct drive *d);
bool solve__paused(const struct drive *d);
double solve__elapsed(const struct drive *d, double t);
double solve__solving(const struct drive *d, double t);
void solve__say(const struct drive *d, const char *level, const char *first, const char *second);
void solve__report(struct drive *d, const char *phase, bool always);
/* Within a step: said again now and then, with the share of it that is done. */
void solve__report_step(struct drive *d, double t);
/* The first evaluation waits until it is a twentieth of the iterations so far, later ones until the
 * seconds of all of them are. */
bool solve__evaluation_due(const struct drive *d);
int solve__evaluate(struct drive *d, struct err *err);

/* solve_checkpoint.c. A solver set up, with the state of an earlier attempt where there is one that
 * fits; checkpoints, when they are due; the last one before a pause, whose reason it returns. */
int solve__set_up(struct drive *d, const struct solver_options *options, struct err *err);
bool solve__save_due(const struct drive *d);
void solve__save(struct drive *d);
int solve__pause_here(struct drive *d);
