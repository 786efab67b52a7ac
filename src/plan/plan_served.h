/* What a loaded model takes, from its sizes alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct plan_served {
    int64_t centers, d, outputs; /* outputs: targets, or classes */
    int64_t directions;          /* columns of the variance's factor; 0: there is none */
    int64_t point_bytes;         /* of a number of a center: 4 or 8 */
    bool l1;                     /* laplacian_l1, whose centers may be there twice (ADR 46, 78) */
};

/*
 * Bytes of a serving worker's memory, on a processor, when the model has answered its first row:
 * its coefficients, the factor of its variance, its centers as the tiles take them and, where few
 * rows are spread over lanes (ADR 31), once more, and room for a panel of rows and for one row's
 * variance. An upper estimate: how many lanes there are is the worker's business. Larger batches
 * take more (up to 4,096 rows of features and outputs, and 32 MiB for variances), as the worker
 * tells.
 */
int64_t plan_served_bytes(const struct plan_served *p);
