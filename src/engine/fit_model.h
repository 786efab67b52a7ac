/* The model that a fit hands out: names, kernel, standardised points and coefficients. */
#pragma once

#include "engine/fit_data.h"
#include "engine/model.h"

/* A: n x t on the backend. On success the points, means and scales of `data` belong to the model.
 */
int fit_model_make(struct backend *be, const struct kernel *kernel, struct fit_data *data,
                   const struct mat *A, struct model **ret, struct err *err);
