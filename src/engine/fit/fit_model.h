/* The model that a fit hands out: names, kernel, standardised points and coefficients. */
#pragma once

#include "engine/data/fit_data.h"
#include "engine/model/model.h"
#include "engine/posterior.h"

/* A: a row for each of the points [A->rows, d] at *points, of data's dtype, on the backend. On
 * success the points, the means and scales of `data`, and the factor of `posterior` (which may have
 * none) belong to the model. */
int fit_model_make(struct backend *be, const struct kernel *kernel, struct fit_data *data,
                   void **points, const struct mat *A, struct posterior *posterior,
                   struct model **ret, struct err *err);
