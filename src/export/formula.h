/*
 * What an exported model answers, computed by the arithmetic of its graph: how far that is from the
 * server's own predictions is the error of an export. The order of sums may differ from one runtime
 * to another, and with it the last digits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/model_file.h"

/* X: [rows, d] in the features' units. ret: [rows, t] targets in theirs, or scores. `svm`: in
 * float32 as SVMRegressor does, else as the float64 graph. Costs rows * m * (d + t) multiply-adds
 * on one processor. -ERR_NO_MEMORY. */
int formula_evaluate(const struct model_file *f, bool svm, const double *X, int64_t rows,
                     double *ret, struct err *err);

/* The mean of the centers, near which distances lose no digits; [d], mem_free; NULL on lack of
 * memory. */
double *formula_shift(const struct model_file *f);
/* Whether the kernel is smooth in the squared distance at 0, so that a distance by inner products
 * will do. False for kernels of inner products. */
bool formula_smooth(const struct model_file *f);
