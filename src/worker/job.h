/*
 * `krrd-worker --job FILE`: one order without a daemon, for debuggers and profilers. Every event is
 * one JSON line on stdout, the DONE object the last one.
 */
#pragma once

#include "base/err.h"
#include "engine/backend.h"

/* model_path: where the model's file goes, or NULL. Returns 0 when the order ended with a model. */
int job_run(struct backend *be, const char *order_path, const char *model_path, struct err *err);
