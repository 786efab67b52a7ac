/*
 * What every low-rank preconditioner shares: P = F F' + rho I with F F' ~ K, F n x k, and
 *
 *     P^-1 v = (v - F (rho I + F'F)^-1 F' v) / rho        (Woodbury)
 *
 * with a Cholesky factor of the k x k matrix, which is summed up and factorised in float64 in every
 * precision, since its smallest eigenvalue is rho. No eigenvalue of F F' is divided by, so F may be
 * of any rank: columns that are zero or repeat others do no harm.
 *
 * rho = max(ridge, eps size), size = max(sum_i |k(x_i, x_i)|, |F|^2): below that level F F' cannot
 * be told from K, and a zero ridge still gives a definite P. The k x k matrix has errors of its
 * own, sums of n terms in float64, which are to be small beside rho: so rho >= eps64 s size as
 * well, s = max(16, sqrt(n)).
 *
 * With w = (rho I + F'F)^-1 F' v, in the directions of the largest eigenvalues little is left of
 * v - F w: a share rho / |F|^2, beside rounding errors of up to s eps. Where rho <= s eps size
 * these could outweigh it, and v' P^-1 v come out negative. An application is then refined:
 * z = (v - F w) / rho has F' z = w, so that
 *
 *     z <- z - F (rho I + F'F)^-1 (F' z - w)
 *
 * takes away what errors have put there. Its own are those of sums with z, which is as small as the
 * difference was.
 *
 * Cost: n k^2 multiplications once, 4 n k t an application, 8 n k t where it is refined. Memory:
 * n k numbers of the vectors' type, 8 k^2 bytes, and (8 + size of a number) k t bytes.
 *
 * Methods embed struct precond as their first member and use lowrank_apply, lowrank_rank and
 * lowrank_most as they are.
 */
#pragma once

#include "engine/precond.h"

struct precond {
    struct problem p;
    double eps;   /* of the vectors' precision */
    double trace; /* sum_i |k(x_i, x_i)| */
    double rho;
    bool refined;    /* applications are */
    int64_t k;       /* columns F has room for */
    int64_t i;       /* columns made */
    double fraction; /* of the building, 0..1, never falling */
    bool complete;
    struct mat F;      /* n x k */
    struct mat d;      /* n x 1: diag K */
    struct mat gram;   /* i x i float64: shift I + F'F, then its Cholesky factor */
    struct mat T, T64; /* k x t: F'R, in the vectors' precision and in float64 */
    double *scale;     /* [2 t] */
    double shift;      /* rho, or more where rounding made the factorisation fail */
    int attempts;      /* that failed */
    bool summed;       /* gram holds all of shift I + F'F */
    int64_t next;      /* row or column of the piece at hand */
};

/* Memory for n x k, diag K, trace and rho, into a zeroed struct. `name` is the method's, for
 * messages; `columns` >= k is what the method needs in all, and `squares` >= 1 how many float64
 * matrices k x k at a time, the gram matrix with them: -ERR_NO_MEMORY where these cannot fit. After
 * a failure: lowrank_deinit. */
int lowrank_init(struct precond *m, const struct problem *p, const char *name, int64_t k,
                 int64_t columns, int64_t squares, struct err *err);
void lowrank_deinit(struct precond *m);

/* One piece of the work that follows when the first i columns of F are there: 1 complete, 0 again,
 * or negative. *ret_fraction is of this part. */
int lowrank_finish(struct precond *m, double *ret_fraction, struct err *err);

/* As in struct precond_ops. */
int lowrank_apply(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err);
int64_t lowrank_rank(const struct precond *m);
int64_t lowrank_most(const struct precond *m);
