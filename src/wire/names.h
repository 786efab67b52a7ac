/*
 * Lists of names (columns, targets, class labels): arrays of owned strings, and an index for
 * finding one among many in logarithmic time.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

char **names_free(char **names, int64_t count); /* accepts NULL and half-filled lists */

/* Reads obj[key]: an array of `least` to `most` strings. Pointers "#/key" and "#/key/3". A list of
 * none gives NULL. */
int names_read(const struct json *obj, const char *key, int64_t least, int64_t most, char ***ret,
               int64_t *ret_count, struct err *err);
/* Refuses an empty name and a name that stands there twice, at "#/key/index". */
int names_check_distinct(char *const *names, int64_t count, const char *key, struct err *err);
/* Bytes that a name takes in a list of names, at most: quotes, a comma and escapes. */
int64_t name_json_size(const char *name);
void names_write(struct json *obj, const char *key, char *const *names, int64_t count);

/* Borrows the names. */
struct name_entry {
    const char *name;
    int64_t position;
};
struct name_index {
    struct name_entry *entries; /* sorted by name, then position */
    int64_t count;
};
int name_index_init(struct name_index *index, char *const *names, int64_t count, struct err *err);
void name_index_deinit(struct name_index *index);
int64_t name_index_find(const struct name_index *index, const char *name); /* first one, or -1 */

/* Names looked for among many: one by one where they are few or where they are expected, else in an
 * index that is made when it is needed first. Zero but for names (borrowed) and count. */
struct name_lookup {
    char *const *names; /* [count] */
    int64_t count, found;
    struct name_index index;
};
/* *ret: the first of that name, or -1. It is looked for at `likely` before anywhere else (-1:
 * nowhere). */
int name_lookup_find(struct name_lookup *l, const char *name, int64_t likely, int64_t *ret,
                     struct err *err);
void name_lookup_deinit(struct name_lookup *l);

#define cleanup_name_lookup __attribute__((cleanup(name_lookup_deinit)))
#define cleanup_name_index __attribute__((cleanup(name_index_deinit)))
