/*
 * What products with a kernel matrix take beside their matrices on the CPU: memory that each thread
 * works in, and sums. The shapes are those of cpu/sweep.c, cpu/symmetric.c and cpu/normal.c
 * with the widest vectors; tests/unit/test_plan_scratch.c holds them to what these ask for. All in
 * bytes.
 */
#pragma once

struct scratch_shape {
    double rows;          /* of a symmetric product; of another one, those of Q: the centers */
    double ld;            /* numbers of a point in a panel */
    double columns;       /* right-hand sides */
    double point, weight; /* of a number of the points, and of the weights */
    double threads;
};

/* Of all threads together. */
double scratch_symmetric(const struct scratch_shape *s);
/* K' diag(w) K V, with the sums of the whole. */
double scratch_normal(const struct scratch_shape *s);
/* Sums beside a float32 result of a symmetric product. */
double scratch_totals(const struct scratch_shape *s);
