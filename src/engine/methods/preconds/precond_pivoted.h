/*
 * Partial Cholesky factorisations K ~ F F' by pivots: F F' = K(:,S) K(S,S)^-1 K(S,:), the Nystrom
 * approximation from the columns S, whose rule a method brings. With d = diag(K - F F') and i
 * columns so far, one round is
 *
 *     C  = candidates, from d
 *     H  = K(C,C) - F(C,:) F(C,:)'                       on the host, in float64
 *     T  = those of C that the rule takes, by eliminating them from H one after the other;
 *          L = the Cholesky factor of their rows, at most k - i of them
 *     G  = (K(:,T) - F F(T,:)') L^-T,   F = [F G],   d = max(d - rowsums(G o G), 0)
 *
 * The last line is done in pieces of rows. F is complete at k columns, when the rule proposes
 * nothing, when the residual is rounding error on average, or when EMPTY_ROUNDS rounds in a row
 * took nothing. A residual not above `rounding` k(x, x) is rounding error of kernel values of that
 * precision, is taken for 0, and never a pivot: the row repeats, to working precision, a
 * combination of earlier ones. Each row is held to its own k(x, x), which may differ by many orders
 * of magnitude (polynomial kernels).
 *
 * Cost: n k kernel values and n k^2 / 2 multiplications, then those of precond_lowrank.h, and
 * b^2 i multiplications a round of b candidates. Memory: 8 (2 n + b^2) bytes on the host.
 */
#pragma once

#include "base/rng.h"
#include "engine/methods/preconds/precond_lowrank.h"

struct pivoted;

struct pivot_rule {
    const char *name; /* of the method */
    /* Fills candidates from residual; returns their number, 0 when none is left. */
    int64_t (*propose)(struct pivoted *m);
    /* Fills accepted with pivoted_take, at most `wanted` times. */
    void (*choose)(struct pivoted *m, int64_t wanted);
};

struct pivoted {
    struct precond base;
    const struct pivot_rule *rule;
    struct rng rng;
    double rounding;     /* relative */
    double *size;        /* [n]: |k(x, x)| */
    int64_t block;       /* most candidates of a round */
    int64_t *pivots;     /* [k], base.i of them taken; the others are free to the rule, as far as
                            it proposed them */
    double *residual;    /* [n]: d, 0 for pivots; the rule may use it up */
    double relative;     /* the sum of residual / size */
    double *start;       /* [block]: free to the rule */
    double bar;          /* see pivoted_choose_largest */
    int64_t proposed;    /* free to the rule */
    int64_t *candidates; /* [block] */
    int64_t count;       /* candidates of this round */
    double *H;           /* [count count], column-major */
    int64_t *accepted;   /* [block]: positions in candidates, in the order of their elimination */
    int64_t taken;       /* how many */
    bool *is_taken;      /* [block] */
    int empty_rounds;
    bool grown;        /* F is complete */
    struct mat F_T, L; /* of the round whose columns are being made; data NULL: none */
};

extern const struct pivot_rule
    pivot_rule_greedy; /* precond_cholesky_greedy.c: the largest residual */

/* For at most k columns, in rounds of `block` candidates. */
int pivoted_new(const struct pivot_rule *rule, const struct problem *p, int64_t k, int64_t block,
                struct pivoted **ret, struct err *err);
/* A tenth of k, within limits: few rounds, and little work on candidates that are not taken. */
int64_t pivoted_block(int64_t k);

/* Candidate j becomes a pivot: its column of H that of L, the rest of H from row and column `first`
 * on is reduced by it. H(j,j) > 0. */
void pivoted_take(struct pivoted *m, int64_t j, int64_t first);
/* Whether so much of a row is left that it is no rounding error. */
static inline bool pivoted_stands(const struct pivoted *m, int64_t row, double residual)
{
    return residual > m->rounding * m->size[row];
}
/* A rule's choose: the largest H(j,j) that stands and, but for the first, is at least `bar`. */
void pivoted_choose_largest(struct pivoted *m, int64_t wanted);

/* One piece of F alone, for its pivots' sake. 1: F is complete. 0: call again. */
int pivoted_grow(struct pivoted *m, double *ret_fraction, struct err *err);

/* As in struct precond_ops. */
int pivoted_build(struct precond *m, double *ret_fraction, struct err *err);
void pivoted_teardown(struct precond *m);

/* The pivots so far, in the order they were taken; they live as long as the preconditioner, which
 * is one of these methods'. */
const int64_t *pivoted_pivots(const struct precond *m, int64_t *ret_count);
