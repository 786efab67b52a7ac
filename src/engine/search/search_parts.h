/* Inside a search: what search.c, which has the story and full models, and search_centers.c share.
 */
#pragma once

#include "engine/search/search.h"

/* What the search works on: all training rows, or a sample of them. */
struct search {
    const struct search_task *task;
    struct search_result *result;
    double *coef;    /* of the best pair so far; NULL: nobody wants them */
    int64_t n, t;    /* rows here, targets */
    struct rows X;   /* [n, d]; not of a model on centers */
    const double *Y; /* [n, t] column-major */
    void *sampled_X; /* what X and Y point at when sampled or not loaded, else NULL */
    double *sampled_Y;
    int64_t *order;        /* [n] a permutation: position k belongs to fold k % folds */
    struct fit_data judge; /* the task's data with the rows here as its test rows; owns nothing */
    double *truth;         /* [n, t] regression, own units */
    int64_t *truth_class;  /* [n] classification */
    double *A, *R;         /* [n, t] coefficients; left-out residuals, then predictions */
    double *diagonals;     /* [n, regularizations]: leave one out */
    int64_t leader;        /* the point with the best metric so far; -1: none has any */
    int64_t *index;        /* on centers: [n] the rows, ascending */
    struct rows Z;         /* on centers: they; owned */
    void *centers;         /* what Z points at */
    double *missed;        /* on centers: [n, t, regularizations] left-out residuals */
    double *evidence;      /* likewise: [regularizations] */
    int64_t bandwidths;    /* that are done */
    double told;           /* when a share was last */
};

double search__regularization(const struct search *s, int64_t l);

/* The ridge of the rows here. Errors are at regularization l of them; the evidence, which takes it
 * for the variance of noise, which does not depend on how many rows are looked at, is at the ridge
 * of all rows. */
double search__ridge(const struct search *s, int64_t l);

/* Adds the pair of regularization l, whose left-out residuals are in R; without metrics where it is
 * not `defined`. `evidence`: NaN where there is none. */
int search__judge(struct search *s, int64_t l, double bandwidth, bool defined, double evidence,
                  struct err *err);

/* Says how far the search is, the bandwidth under way being done by so much; `context` is the
 * search. Not often. */
void search__show_share(void *context, double share);

/* search_centers.c: rows and centers, drawn from the seed; all regularizations with one bandwidth.
 */
int search__draw_centers(struct search *s, struct err *err);
int search__try_centers(struct search *s, const struct kernel *kernel, double bandwidth,
                        struct err *err);
