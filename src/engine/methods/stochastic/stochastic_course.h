/*
 * How far a run of a stochastic method has come (stochastic.h), and what sketchysaga and
 * sketchykatyusha do with it alike: residuals, and checkpoints.
 */
#pragma once

#include "engine/methods/stochastic/stochastic.h"

/* Saved as it is. */
struct stochastic_course {
    struct stochastic_counts {
        int64_t purpose; /* of the pass under way; 0: there is none, but batches */
        int64_t tile;    /* of that pass */
        int64_t batch;   /* of the epoch under way */
        int64_t epoch;
        int64_t backs; /* how often the step was halved */
        int64_t stale; /* true residuals in a row that brought nothing */
        int64_t ended; /* a positive reason, or 0 */
        int64_t given; /* there are coefficients */
        int64_t own;   /* what a method counts besides */
    } at;
    struct stochastic_numbers {
        double relative; /* the last true residual, the largest over columns; 1: at 0 */
        double least;    /* the smallest so far */
        double own;      /* what a method knows besides */
        double damping, L;
        double zero;  /* |Y|^2, summed over columns, of a method that computes f by it */
        double value; /* f - f at 0, summed over columns, where the last true residual was */
    } is;
};

/* What the counts may be. */
struct stochastic_bounds {
    int64_t purposes, backs, stale, own;
};

struct stochastic_matrix {
    const char *name;
    const struct mat *M;
};

/* s->norm <- |G_j|, all of them 0: *ret_zero. -ERR_DIVERGED where one is not finite. */
int stochastic_take_norms(struct stochastic *s, const struct mat *G, bool *ret_zero,
                          struct err *err);
/* The largest sqrt(s->dots[j]) / s->norm[j] over columns; NaN where one is. */
double stochastic_relative(const struct stochastic *s);
/* -ERR_DIVERGED. */
int stochastic_diverged(struct err *err);

/* The matrices end with a NULL name. Damping and L are those of *s. */
int stochastic_save(const struct stochastic *s, const struct stochastic_course *c,
                    const struct stochastic_matrix *matrices, struct state *to, struct err *err);
/* -ERR_CORRUPT where the counts are not within the bounds: *c is as it was then. */
int stochastic_load(struct stochastic *s, const struct state *from,
                    const struct stochastic_bounds *bounds,
                    const struct stochastic_matrix *matrices, struct stochastic_course *c,
                    struct err *err);
