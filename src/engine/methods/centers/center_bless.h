/*
 * Bottom-up leverage scores sampling: few points J_h with weights A_h for a falling sequence of
 * lambda_h, each from the scores that the one before gives.
 *
 * Paper: Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and optimal
 * learning", arXiv:1810.13258, Algorithm 1 (BLESS) and Algorithm 2 (BLESS-R). With lambda_0 =
 * max k / min(t, 1) and lambda_h = lambda_{h-1} / q down to lambda, level h is
 *
 *     U_h  R_h = q1 max k / lambda_h rows, drawn uniformly      | each row with chance
 *          without replacement                                  | b = q2 max k / (lambda_h n)
 *     l_u  = scores of U_h at lambda_h from J_{h-1}, A_{h-1} (center_scores.h)
 *     d_h  = (n / R_h) sum_u l_u
 *     J_h  M_h = q2 d_h draws with replacement, in proportion   | each u with chance p_u / b,
 *          to l_u                                               | p_u = min(q2 l_u, b)
 *     A_h  chances to be drawn: (R_h M_h / n) l_j / sum_u l_u   | p_j
 *
 * on the left Algorithm 1, on the right Algorithm 2. A point that is drawn twice, or is equal to
 * another, is one that stands for the rows of both (center_set.h).
 *
 * Beyond the paper: U_h is drawn without replacement in Algorithm 1 too; scores of Algorithm 2 are
 * at lambda_h, as in the authors' code, not lambda_{h-1}; q is lowered so that lambda is the last
 * level; R_h is at least CANDIDATES_LEAST and at most `candidates`. Asked for m points, the path
 * goes on until q2 d_h >= m, which PROBE candidates tell, lambda is interpolated there (log d
 * against log lambda), and of the scores at that lambda exactly m points are drawn, with chances in
 * proportion. A kernel matrix of small rank never has so many: the path ends at the smallest
 * lambda that means something (center_least_lambda). Where the selector's parameters name lambda
 * beside m, the path ends there, and m points are drawn of the scores at it.
 *
 * Cost, independent of n: R_h M_h^2 multiplications a level, of which the last counts. Memory: that
 * of center_scores.h, and 16 R_h bytes.
 */
#pragma once

#include "engine/methods/centers/center_draw.h"
#include "engine/methods/centers/center_pass.h"

struct bless_options {
    bool with_replacement; /* Algorithm 1 */
    double q, q1, q2, t;
    int64_t candidates; /* most of a level */
    bool usual;         /* which is the default */
    int64_t count;      /* m; 0: as many as lambda asks for */
    bool at_lambda;     /* lambda is known; else it is where q2 d is the count */
    double lambda;      /* of the last level, where it is known */
    bool lambda_only;   /* with a count: stop once its lambda is known */
};

struct bless {
    struct center_task task;
    struct bless_options options;
    struct rng rng;
    double largest, ratio;          /* max k; lambda_h / lambda_{h+1} */
    double lambda;                  /* of the level at hand, at last of J */
    double lambda_before, d_before; /* of the level before; 0: none */
    bool last;                      /* this is the last level */
    bool probed;                    /* the level is known to have fewer points than asked for */
    enum {
        BLESS_BEGIN,
        BLESS_FACTOR,
        BLESS_SCORE,
        BLESS_READ,
        BLESS_FILL,
        BLESS_ALL,
        BLESS_DONE
    } phase;
    struct center_set J, fresh;
    struct center_scores scores;
    struct center_pass pass;
    struct center_picks picks;
    struct center_draw draw;
    double fraction; /* done, never falling */
    struct center_level *path;
    int64_t levels, room;
    int64_t asked; /* candidates that the last lambda asks for, where the default has fewer; or 0 */
};

/* q2 from a table that has it. */
double bless_oversampling(const struct center_task *task, const struct param_set *params);
/* q, q1, q2, t and candidates from a table that has them; lambda and count from the task. */
struct bless_options bless_options_of(const struct center_task *task,
                                      const struct param_set *params, bool with_replacement);
/* For the lambda at which q2 d = the task's count, by the defaults of `bless` otherwise. */
int bless_lambda_options(const struct center_task *task, double q2, struct bless_options *ret,
                         struct err *err);

/* What *task points at stays until bless_deinit, and *b where it is. After a failure: bless_deinit.
 */
int bless_init(struct bless *b, const struct center_task *task, const struct bless_options *options,
               struct err *err);
void bless_deinit(struct bless *b); /* accepts a zeroed one */
/* One piece. 1: J, lambda and path are complete. 0: call again. */
int bless_step(struct bless *b, double *ret_fraction, struct err *err);
