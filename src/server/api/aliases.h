/* What handlers of models show of aliases. */
#pragma once

#include <stdint.h>

#include "base/json.h"

struct app;

/* The names that stand for one version (the store's key): an array of strings. NULL: they could not
 * be read. */
struct json *aliases_names(struct app *app, int64_t key);
/* All aliases of a model as objects; NULL: they could not be read. */
struct json *aliases_views(struct app *app, const char *name);
