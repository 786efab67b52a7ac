/*
 * A model as an ONNX graph (opset 17 and, for SVMRegressor, ai.onnx.ml 3): from features in their
 * own units to targets in theirs. A variance is left out.
 *
 *   input  X       [N, d]  float64
 *                          NaN is what the model fills in for it, if it does that; features
 *                          that tell of others whether they are missing are 1 where those are NaN
 *   output y       [N, t]  float64          regression
 *   output scores  [N, t]  float64, label [N] strings: classification
 *
 * The float64 graph has the formula of engine/kernel.h written out: squared distances by inner
 * products of points brought near the origin for kernels that are smooth in them, by differences
 * of one feature after another (Scan) for the others, whose slope at distance 0 would amplify the
 * rounding of the former. Points of float32 models are rounded to float32 as the server does.
 *
 * SVMRegressor (gaussian, one target) is what many small runtimes have; X and y are float32 there.
 */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "wire/model_file.h"

/* `about`: an object of strings for metadata_props, or NULL. Errors as protobuf_write, and of the
 * sink. The model must be one that onnx_svm_fits where `svm` is asked for. */
int onnx_write(const struct model_file *f, bool svm, const struct json *about,
               int (*sink)(void *context, const void *data, size_t size, struct err *err),
               void *context, struct err *err);
bool onnx_svm_fits(const struct model_file *f);
