/*
 * Kernel, bandwidth and regularization, where a job leaves them open; what follows from sizes alone
 * is in plan/rules.h.
 *
 * Training rows are drawn from the seed: to fit on, two thirds of them, at most 1,000, and four
 * times as many that are held out, or all others (fewer of both where the job's time is short,
 * rule_choice_first, or there are many features, rule_choice_held). Each candidate is fitted by
 * Cholesky, and the smallest sum of squared errors on the held-out rows wins; of equal ones the
 * first, and that is also taken where no matrix can be factorised, and for a single row. To hold
 * out more is cheap, and noise is what misleads the choice. Of fewer than 300 rows each fifth is
 * held out in its turn, and errors are those of all five (rule_choice_folds). Of fewer than 100
 * rows each row is, exactly (ridge_path.h). Candidates are, in this order,
 *
 *   kernel          gaussian, laplacian, laplacian_l1, matern52
 *   bandwidth       the median distance of those rows, and four times that; then of the kernel that
 *                   is best so far the next in steps of four, 1/4 to 64 medians, on the side where
 *                   the best is the last, as long as that has 10 % less
 *                   and where there are at least 100 rows, and features were standardised whose
 *                   scales differ, the best pair of each kernel with features as they are (whose
 *                   bandwidth is one for all, in their own units), and bandwidths beyond the best
 *                   of those likewise, where the best of all has 10 % more
 *                   and where there are at least 100 rows and 512 features at most, one a feature,
 *                   which are learned from 500 of the fitted rows, or in each of the five folds,
 *                   beginning with the best pair of each kernel, and smooth ones also with 1/4 of
 *                   the median, of which the likelier is taken (relevance.h), where the best of all
 *                   has 10 % more; what wins in folds is learned once more, from all rows
 *   regularization  from lambda0 on (the job's) upwards, 30, 1e3, 1e4 and 1e5 times that, as long
 *                   as the error falls, or else downwards, 3e-2, 1e-3 and 1e-4, as long as it falls
 *                   by 3 %: what is nearly free of noise wants next to none
 *
 * of which the job may settle each. Of 100 rows and more finer steps follow from the best pair on,
 * of what is open: half as far in logarithms, first of the regularization, upwards or else
 * downwards, as long as each is better by 1 %, then one of the bandwidth, or of all that were
 * learned, and then of the regularization once more. Where fewer rows are held out than are
 * fitted, these judge as well, each left out (choose_refine.c, docs/adr/0081).
 *
 * Of 10,000 training rows and more, where there is time, the three best pairs of kernel and
 * bandwidth, each judged by its best regularization, and the best pair of each kernel, are tried
 * again in the same way, from that regularization on, fitted on an eighth of the rows, at most
 * 3,000 (rule_choice_rows), with eight times as many held out, and finer steps follow again. What
 * is best for a thousand rows of a noisy table need not be for three thousand: of most tables the
 * rougher kernels learn more from more rows. What wins there is taken, unless no matrix of it could
 * be factorised.
 *
 * The ridge is what stands for noise, and noise does not depend on how many rows there are: so the
 * ridge that won, fitted rows times lambda, is that of all rows, and their lambda the less the more
 * they are, but not below lambda0, or 1e-9 where the sample's is below (docs/adr/0047).
 *
 * `late` ends the choice where the job's time budget wants it: the best so far is taken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/backend.h"
#include "engine/choice.h"
#include "plan/rules.h"
#include "wire/spec.h"

enum { CHOOSE_HELD_OUT = RULE_HELD_OUT_LEAST };

/* What is chosen from. */
struct choose_data {
    struct backend *be;
    const struct rows *X; /* training points, standardised or not, or some of them */
    const double *scales; /* [d], what features were divided by; NULL: they are as they are */
    int64_t n;            /* training rows in all */
    const double *Y;      /* [n, t] column-major, centered */
    int64_t t;
    enum dtype points_dtype;
    uint64_t seed;
    bool any_kernel;
    enum kernel_id kernel;    /* unless any; of a distance */
    bool learns;              /* with any_bandwidth: bandwidths one a feature, too */
    bool any_bandwidth;       /* else the first of these that is there: */
    const double *bandwidths; /* one a feature, or NULL */
    double bandwidth;         /* 0: the median rule */
    bool any_regularization;
    double regularization; /* a row, lambda0; taken to be at least 1e-8 */
    double time_budget_s;  /* of the job */
    /* Asked before each fit: a negative code ends the choice, and is returned. NULL: never. */
    int (*stop)(void *context, struct err *err);
    bool (*late)(void *context); /* likewise: whether there is no time for it; NULL: there is */
    void *stop_context;
};

int choose_kernel(const struct choose_data *data, struct choice *ret, struct err *err);
