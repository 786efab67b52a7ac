/* Opaque ids, prefixed and sortable by creation: "job_" + 26 Crockford base-32 characters
 * (48 bits of milliseconds, 80 random bits), as in a ULID. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ID_SIZE 32

/* prefix: "ds", "job", "req", at most four characters. Two calls in the same process give
 * different, ascending ids even within one millisecond when *last (state kept by the caller, zeroed
 * at first) is passed along. */
struct id_source {
    int64_t last_ms;
    uint8_t last_random[10];
};
void id_new(struct id_source *source, const char *prefix, int64_t wall_ms, char ret[ID_SIZE]);
bool id_valid(const char *id, const char *prefix);
/* Makes the ids to come greater than this one, which another process has made: with any prefix.
 * What is no id changes nothing. */
void id_continue(struct id_source *source, const char *id);
