/*
 * How a model's predictions are batched and bounded, where that differs from the daemon's settings.
 * The limits belong to the model's name, so that a new version has those of the ones before it;
 * they go with its last version.
 */
#pragma once

#include <stdint.h>

#include "store/store.h"

#define LIMITS_UNSET (-1) /* the daemon's setting holds */

struct limits_row {
    int64_t batch_rows, batch_delay_us, queue, deadline_us;
};

/* All LIMITS_UNSET where nothing was set, also where there is no such model. */
int limits_get(struct store *s, const char *name, struct limits_row *ret, struct err *err);
/* The same by the key of one of its versions, which may be staged. */
int limits_of_version(struct store *s, int64_t key, struct limits_row *ret, struct err *err);
/* Replaces all four. -ERR_NOT_FOUND: the model has no version. */
int limits_set(struct store *s, const char *name, const struct limits_row *row, struct err *err);
