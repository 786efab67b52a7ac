/*
 * `krrd-worker --job FILE`: one order without a daemon, for debuggers and profilers. Every event is
 * one JSON line on stdout, the DONE object the last one.
 */
#pragma once

#include "base/err.h"
#include "engine/backend.h"

struct job_files {
    const char *order;
    const char *model; /* where the model's file goes, or NULL */
    const char *start; /* the file of the model that the spec's warm_start names, or NULL */
};

/* Returns 0 when the order ended with a model. */
int job_run(struct backend *be, const struct job_files *files, struct err *err);
