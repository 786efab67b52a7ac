/* How a data set looks to a client. */
#pragma once

#include "base/json.h"
#include "store/datasets.h"
#include "wire/dataset.h"

/* The object of the contract; `full` adds features and warnings, which may be long. NULL: *err says
 * why. */
struct json *dataset_view(const struct dataset_row *row, bool full, struct err *err);

/* Column names and the first rows (at most DATASET_PREVIEW_COLUMNS columns). NULL on lack of
 * memory. */
#define DATASET_PREVIEW_COLUMNS 256
struct json *dataset_preview_view(const char *id, const struct dataset *d, int64_t rows);
