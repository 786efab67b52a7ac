/*
 * What the readers of this layer say about one bad field of a JSON document: a pointer to it, what
 * was expected and what was found.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define FIELD_WHOLE (-1) /* the field itself, not one element of its array */

/* -ERR_INVALID at "#/key", or "#/key/index", with the sentence. */
int field_error(struct err *err, const char *key, int64_t index, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same, saying "Expected <fmt>; found <found>." found may be NULL: the field is missing. */
int field_wrong(struct err *err, const char *key, int64_t index, const struct json *found,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The node is a whole number of 0 .. JSON_WHOLE_MAX. */
bool field_count(const struct json *j, int64_t *ret);

/* obj[key] is an object (returned), absent (NULL), or something else (an error). */
int field_object(const struct json *obj, const char *key, const struct json **ret, struct err *err);

/* obj[key] is a string that is not empty. */
int field_text(const struct json *obj, const char *key, const char **ret, struct err *err);
