/*
 * Inside the solver eigenpro2: its state, and what works on single batches. The method itself, with
 * its notation, is described in solver_eigenpro2.c.
 */
#pragma once

#include "engine/methods/eigenpro/eigenpro.h"
#include "engine/solver.h"

/* Arrays of one number a column; the first EIGENPRO2_SUMS are saved. */
enum { EIGENPRO2_COUNTERS = 10, EIGENPRO2_SUMS = 7, EIGENPRO2_ARRAYS = EIGENPRO2_SUMS + 3 };

/* What moves, all of it in a saved state. */
struct eigenpro2_counters {
    int64_t iteration, epoch;
    int64_t next;           /* rows of the epoch done, -1: it has not begun */
    int64_t epoch_position; /* of the random numbers that order it */
    int64_t halvings;
    int64_t since_check; /* epochs since the residual was last computed */
    int64_t checking;    /* rows checked, -1: not under way */
    int64_t stale_checks;
    int64_t exact; /* `truth` is of the present coefficients */
    int64_t ended; /* a positive reason, or 0 */
};
_Static_assert(sizeof(struct eigenpro2_counters) == EIGENPRO2_COUNTERS * sizeof(int64_t),
               "saved as an array");

struct solver {
    struct problem p;
    double tolerance;
    int64_t residual_every;
    int64_t batch_wanted; /* 0: auto */
    double rate_wanted;   /* eta, 0: auto */
    int64_t s;
    int64_t batch; /* b */
    int64_t group; /* rows of an iteration, but for the end of its last batch, or of the epoch */
    double step;   /* eta / b before halvings */
    bool built, zero;
    bool given;            /* A holds somebody's coefficients although no iteration was done */
    int64_t next_position; /* of the random numbers, for the next epoch */
    double build_fraction;
    struct eigenpro *pre;
    struct eigenpro2_counters at;
    int64_t *order; /* [n] the row of each place; the first s places are S */
    int64_t *place; /* [n] the place of each row */
    int64_t *epoch; /* [n] places in the order of this epoch */
    int64_t *rows;  /* [n] rows of a batch */
    double *arrays; /* [EIGENPRO2_ARRAYS t], the owner of those below, each [t]; SUMS are saved */
    double *sum, *seen;  /* |G|^2 and |Y_B|^2 of this epoch so far */
    double *best, *last; /* |G|^2 of the best and of the latest epoch */
    double *truth;       /* |Y_j - M A_j|^2 of the rows checked */
    double *lowest;      /* least true relative residual so far */
    double *rounding;    /* eps |M| |A_j|, A at the start of the epoch */
    double *norm;        /* |Y_j| */
    double *dots, *work;
    struct mat A;    /* n x t, by places */
    struct mat kept; /* A at the start of this epoch */
    struct mat safe; /* A at the start of the last complete one, 0 or the given start at first */
    struct mat fit;  /* A of the least true residual, a column each; 0 before any */
    struct mat KBS;  /* b x s */
    struct mat G, AB;
    struct mat H, T; /* s x t, q x t */
    struct mat R;    /* while checking */
};

static inline int64_t eigenpro2__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline void eigenpro2__fill(double *a, double value, int64_t t)
{
    for (int64_t j = 0; j < t; j++) {
        a[j] = value;
    }
}

/* The next batch of the epoch: its residual is summed up, and the step taken unless the sums have
 * grown beyond what is allowed, which *ret_grown says. */
int eigenpro2__batch(struct solver *s, bool *ret_grown, struct err *err);

/* truth += |Y_j - M A_j|^2 over the rows of places first .. first+count-1. */
int eigenpro2__check_rows(struct solver *s, int64_t first, int64_t count, struct err *err);
