/*
 * Kernel, bandwidth and regularization as they were chosen for a job that leaves them open
 * (choose/choose.h), and what its time budget made of the rest. Kept with checkpoints.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/kernel.h"
#include "engine/state.h"

/* Steps towards coefficients sooner: a method that iterates; one without a preconditioner. */
enum { HURRY_NONE, HURRY_ITERATE, HURRY_MOST };

struct choice {
    enum kernel_id kernel;
    double medians;     /* the bandwidth in medians of the distances; 1 unless any_bandwidth */
    double *bandwidths; /* [d], the choice's own: one a feature; NULL: so many medians */
    bool plain;         /* those make the features what they were before they were standardised */
    double ridge;       /* absolute */
    double regularization; /* and of a row of the sample */
    int fits;              /* that were made */
    bool late;             /* more were wanted */
    /* How the kernels did on the rows that decided: each one's least sum of squared errors, as a
     * share of that of the targets' mean; 0: it was not tried. Of this attempt, not kept. */
    double errors[KERNEL_COUNT_];
    int64_t fitted, held; /* those rows; held 0: each of `fitted` in its turn */
    /* What the time budget made of the rest (fit_timely.c): centers, 0: as the job says, and what
     * is done for a full model's sake. */
    int64_t centers;
    int hurry;
};
void choice_deinit(struct choice *c);

/* Kept for later attempts at a job of d features, beside the digest `of` what it was made on; load:
 * 1, or 0 where the state has none, or of something else, or < 0. */
int choice_save(const struct choice *c, int64_t d, const char *of, struct state *to,
                struct err *err);
int choice_load(const struct state *from, int64_t d, const char *of, struct choice *ret,
                struct err *err);
