/* How a data set looks to a client. */
#pragma once

#include "base/json.h"
#include "store/datasets.h"
#include "wire/dataset.h"

struct app;

/* What the description says of a data set in lists of them, as the row keeps it: all but the names
 * of its features, of which there may be many. The text of an object; NULL on lack of memory. */
char *dataset_summary(const struct dataset_info *info);
/* The object of the contract, whole, as text. Takes milliseconds where there are many names. NULL
 * on lack of memory. */
char *dataset_text(const struct dataset_row *row, const struct dataset_info *info);
/* The same of a data set whose description app->described keeps. NULL: *err says why. */
char *dataset_known_text(struct app *app, const struct dataset_row *row, struct err *err);
/* The same without features and warnings, for lists. NULL: *err says why. */
struct json *dataset_brief_view(const struct dataset_row *row, struct err *err);

/* Column names and the first rows (at most DATASET_PREVIEW_COLUMNS columns). NULL on lack of
 * memory. */
#define DATASET_PREVIEW_COLUMNS 256
struct json *dataset_preview_view(const char *id, const struct dataset *d, int64_t rows);
