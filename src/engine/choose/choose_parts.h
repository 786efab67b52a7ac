/* Inside the choice of a kernel (choose.h): choose.c walks through kernels and bandwidths,
 * choose_learn.c learns bandwidths one a feature, choose_refine.c takes finer steps in the end,
 * choose_trial.c fits on a sample. */
#pragma once

#include "engine/choose/choose.h"
#include "plan/rules.h"

/* The sample, in so many folds: of number k the rows k held .. k held + fit-1 are fitted, and the
 * `held` behind them are held out; behind the last row the first ones come again. `held` is 0: each
 * row is left out in its turn. */
struct sample {
    const struct choose_data *data;
    int64_t count, fit, held;
    int folds;      /* 1 .. RULE_CHOICE_FOLDS */
    int64_t stored; /* rows with those that come again: count + (folds - 1) held */
    void *points;   /* [stored, d] of the points' dtype */
    double *Y;      /* [stored, t] column-major */
    /* Of Euclidean and of l1 distances, and of features as they are, once wanted; else 0. */
    double medians[2], plain_medians[2];
    double *plain; /* [d] with a pair of those: its bandwidths; else NULL */
    int fits;      /* so far */
    bool late;     /* the time for them ended */
};

/* Regularizations are numbered: the job's, lambda0, is the usual one. */
enum { CHOOSE_RIDGES = 8, CHOOSE_USUAL_RIDGE = 3 };

/* A kernel with a bandwidth, with the best of its regularizations: number `at`, or near it. */
struct pair {
    struct choice choice;
    int at;
    double scale; /* of what was learned, since it was */
    double error;
};

#define CHOOSE_WIDEST 64.0 /* medians */
/* Bandwidths beyond the two that every kernel is tried with, in steps of four times: of features
 * that are standardised two at most, and as they are four. */
enum { CHOOSE_BEYOND = 2 + 4 };
/* One place more: of a pair that is not kept. */
enum { CHOOSE_PAIRS = RULE_KERNELS * (RULE_BANDWIDTHS + RULE_PLAIN + 1) + CHOOSE_BEYOND + 1 };

/* In the order of choose.h. What was learned for kernels is the list's own, and the bandwidths of
 * the best pair where that has features as they are. */
struct pairs {
    struct pair all[CHOOSE_PAIRS];
    int count;
    double *learned[RULE_KERNELS], *plain;
};

/* choose_trial.c: rows are drawn for a sample whose sizes are there. */
int choose__draw(struct sample *s, struct err *err);
void choose__sample_deinit(struct sample *s);
/* 1: the time is up, also before the first fit, or a negative code. */
int choose__go_on(struct sample *s, struct err *err);
double choose__ridge(const struct sample *s, int number);
int choose__first_ridge(const struct sample *s); /* the least that is tried */
/* `each`: with a kernel for each fold, k [folds]; else with k[0] for all. */
int choose__try_kernel(struct sample *s, const struct kernel *k, bool each, struct pair *pair,
                       struct err *err);

/* Likewise with one ridge, in one fit a fold: 1 where the time is up. *ret_fitted is the error of
 * the fitted rows, each left out, where these judge too, else 0. */
int choose__try_ridge(struct sample *s, const struct kernel *k, bool each, double ridge,
                      double *ret_error, double *ret_fitted, struct err *err);
bool choose__all_judge(const struct sample *s);

/* choose_pairs.c. */
struct pairs choose__list(const struct choose_data *data);
int choose__best_index(const struct pairs *pairs);
struct pair choose__best(const struct pairs *pairs);
/* The `most` best of them, and the best one of each kernel, in their order; only the best are the
 * list's own. */
struct pairs choose__keep(const struct pairs *pairs, int most);
/* The kernel with the pair's bandwidth: of features as they are the sample's own, until the next.
 * 1: those have none that can be written. */
int choose__take_bandwidth(struct sample *s, const struct choice *c, struct kernel *k,
                           struct err *err);
/* What one sample says of all of them. */
int choose__try(struct sample *s, struct pairs *pairs, struct err *err);
/* Further bandwidths of the best kernel, on either side, as long as each is better by `worth` than
 * all before. */
int choose__try_beyond(struct sample *s, struct pairs *pairs, double worth, struct err *err);
/* The best pair of each kernel with features as they are, and bandwidths beyond the best of those;
 * the ones that are better by `worth` than all that are standardised are added. */
int choose__try_plain(struct sample *s, struct pairs *pairs, double worth, struct err *err);

/* choose_learn.c: for the best pair of each kernel, bandwidths one a feature; those are added to
 * the pairs which have at most `worth` of the best one's error. Of several folds they are learned
 * in each to be judged. */
int choose__learn(struct sample *s, struct pairs *pairs, double worth, struct err *err);
/* And for the best pair once more, where it was learned, of all rows. */
int choose__learn_whole(struct sample *s, const struct pairs *pairs, struct err *err);

/* choose_refine.c: ridge and bandwidth of the best pair in finer steps, what is open of them. */
int choose__refine(struct sample *s, struct pairs *pairs, struct err *err);
