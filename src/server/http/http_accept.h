/* Choosing what an answer is by Accept and Accept-Encoding (RFC 9110, section 12). Pure functions;
 * header values may be NULL, which means that the client takes anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The media type of types[0..count) that `accept` likes best; of equals the first. -1: none is
 * acceptable. A type that is named counts more than one under "text/" and a "*".
 */
int http_accept_type(const char *accept, const char *const *types, int count);

/* The weight, 0 to 1, that an Accept header gives one media type: of the closest of its elements.
 * Of their parameters beside q, "version" alone counts, where the type has one, too:
 * "text/plain;version=0.0.4". */
double http_accept_quality(const char *accept, const char *type);

/* Whether the media type itself is named, not a range that it lies in, and is not refused (q=0). */
bool http_accept_names(const char *accept, const char *type);

/* A parameter of the element by which the media type itself is named: "absent" for "header" of
 * "application/json;header=present, text/csv;header=absent". false: there is none. */
bool http_accept_parameter(const char *accept, const char *type, const char *name, char *ret,
                           size_t size);

/* "gzip" or "deflate" where the client prefers it to the plain body, else NULL. */
const char *http_accept_encoding(const char *accept_encoding);
