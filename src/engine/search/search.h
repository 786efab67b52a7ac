/*
 * The search for regularization and bandwidth (wire/search.h): every pair is judged by predictions
 * of training rows that their own fit has not seen, in closed form from one eigendecomposition a
 * bandwidth (ridge_path.h). Leave one out, or folds drawn from the seed.
 *
 * A full model of at most `max_rows` rows is judged by full ones. For a model of more rows, or one
 * on centers, the pairs are judged by models on centers (center_path.h), drawn uniformly from the
 * seed, of all training rows or a sample of them, in as many multiplications
 * (rule_search_size): how much regularization is best depends on how many rows there are.
 * Folds are of full models: they take a sample of max_rows rows instead, as do targets and
 * regularizations too many to keep the left-out predictions of more rows
 * (rule_search_takes_centers). A regularization is used a row on all rows. A decomposition cannot
 * be interrupted, so everything is smaller where one of them would take longer than the job's time
 * budget by a careful guess (RULE_SEARCH_RATE); samples of full models down to
 * RULE_SEARCH_ROWS_MIN rows.
 * Means and scales are those of all training rows, and a left-out row is predicted with the
 * absolute ridge of the whole (sample).
 *
 * The pair with the best metric wins, the larger regularization of equal ones; where models on
 * centers are judged, the largest of those of its bandwidth that are within SEARCH_ALIKE of it. A
 * pair whose matrix is not positive definite beyond rounding, one of whose folds cannot be
 * factorised for rounding, or that leaves nothing but rounding of a left-out row, has no metrics
 * and cannot win. Nor has one that a full model in float32 could not be solved with, where models
 * on centers are judged: with a regularization below 2^-23 of the largest k(x,x), unless that is
 * the job's own. One whose metric is infinite cannot win, either.
 *
 * By the metric "evidence" no row is left out: the pair with the largest ln p(y) of the gaussian
 * process wins (evidence.h), in closed form as well,
 *
 *     ln |K + ridge I| = sum_i ln (d_i + ridge),    y'(K + ridge I)^-1 y = y'A,
 *
 * exactly for full models; of models on centers that of their process, with Titsias's bound where
 * the solver's approximation has it ("vfe"). What is alike by it is not taken for the same: the
 * evidence itself weighs fit against freedom.
 */
#pragma once

#include "engine/data/fit_data.h"
#include "engine/search_result.h"
#include "engine/solve/solve.h"
#include "wire/search.h"

#define SEARCH_ALIKE 1e-3 /* of what the metric is from perfect */

struct search_task {
    struct backend *be;
    const struct search_spec *spec;
    const struct fit_data *data;
    struct kernel kernel;  /* its bandwidth is used where none is searched for */
    double regularization; /* the same */
    int64_t centers;       /* that the model is to have; 0: a full one */
    double amplitude;      /* of the prior, for the evidence; NaN: the most likely */
    bool bound;            /* models on centers: the evidence is Titsias's bound */
    uint64_t seed;
    double time_budget_s;
    const struct solve_control *control;
    int (*stop)(void *context,
                struct err *err); /* before each decomposition; < 0 ends the search */
    void *stop_context;
};

/*
 * ret_coef [n, t] column-major, the caller's, gets the coefficients of the best pair where all rows
 * were searched and the models judged are full ones; NULL: a model on centers has others. No
 * further bandwidth is tried that would leave less than half of the time budget to the model; where
 * the budget is over before the first, count is 0.
 * -ERR_INVALID at
 * "#/search…" when no pair can be judged or there are more folds than rows.
 */
int search_run(const struct search_task *task, struct search_result *ret, double *ret_coef,
               struct err *err);

/* Method "eigendecomposition": hands out p->start, the coefficients that a search found. Not in the
 * registry. */
extern const struct solver_ops search_solution_ops;
