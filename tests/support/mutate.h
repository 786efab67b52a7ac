/* Random damage to a text or a file image, for tests that no damage may crash a reader. */
#pragma once

#include <stddef.h>

#include "base/rng.h"

/* Changes data[0..len) in one to four places: bytes flipped, ranges removed or repeated, and pieces
 * of JSON that readers trip over put in. Returns a new buffer of exactly *ret_len bytes (at least
 * one is allocated), which the caller frees with mem_free. */
char *mutate(struct rng *r, const char *data, size_t len, size_t *ret_len);
