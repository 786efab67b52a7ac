/* The model that a fit hands out: names, kernel, standardised points and coefficients. */
#pragma once

#include "engine/fit_data.h"
#include "engine/model.h"

/* A: a row for each of the points [A->rows, d] at *points, of data's dtype, on the backend. On
 * success the points and the means and scales of `data` belong to the model. */
int fit_model_make(struct backend *be, const struct kernel *kernel, struct fit_data *data,
                   void **points, const struct mat *A, struct model **ret, struct err *err);
