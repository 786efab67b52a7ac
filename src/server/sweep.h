/* Leftovers of an earlier run, removed at start. */
#pragma once

#include "base/err.h"

struct app;

/* Temporary files, and data set files that the store does not know. */
int sweep_data_dir(struct app *app, struct err *err);
