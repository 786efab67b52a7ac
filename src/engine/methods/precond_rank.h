/*
 * The rank of a low-rank preconditioner where the job leaves it to krrd ("auto"): a function of the
 * problem's shape alone, the same on every machine, but for the last line.
 *
 *     k = ceil(10 sqrt(n)), the recommendation of arXiv:2304.12465; then the largest rank up to it
 *     with     build(k) <= 100 product     and     apply(k) <= product,
 *     and at least 1; halved until its n x k numbers take at most a third of the free memory.
 *
 * Costs in multiplications in float32, of which one in float64 counts two:
 *
 *     product  = n^2 (d + 10 + 4 t) / 2      one product with K, each kernel value used twice
 *     apply(k) = 4 n k t
 *     build(k) = 2 n k^2 + n k (d + 10)             from k columns of K
 *              = 2 n^2 k + 6 n k^2 + n^2 (d + 10)   from the product of K with k vectors
 *
 * A rank that the job gives is taken, up to n.
 */
#pragma once

#include "engine/solver.h"

enum rank_source {
    RANK_COLUMNS,
    RANK_SKETCH
}; /* a sketch holds n x 2k numbers while it is built */

int64_t precond_rank_choose(const struct problem *p, enum rank_source source,
                            const struct param_value *rank);
