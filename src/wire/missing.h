/* How tables of text say that a value is missing: the one list for uploads, questions and clients.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether text[0..len), without blanks around it, is empty, or NA, N/A, n/a, #N/A, <NA>, NaN, nan,
 * null, NULL, None or ?. */
bool missing_mark(const char *text, size_t len);
