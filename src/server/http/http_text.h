/* Small texts of HTTP: percent-decoding and the checks of names and values. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Resolves %XX in text[0..len) into a new string (mem_free). A text that is malformed (a bad
 * escape, an encoded NUL or control character, no UTF-8) gives true and *ret = NULL; false means
 * lack of memory.
 */
bool http_percent_decode(const char *text, size_t len, char **ret);

/* A header name: one or more token characters of RFC 9110. */
bool http_token_valid(const char *s);
/* A header value without control characters other than tab. */
bool http_value_valid(const char *s);
/* 1 to HTTP_REQUEST_ID_MAX characters of A-Z a-z 0-9 . _ : / + = @ - */
bool http_request_id_valid(const char *s);
/* W3C Trace Context, version 00: "00-" 32 hex "-" 16 hex "-" 2 hex, ids not all zero. */
bool http_traceparent_valid(const char *s);
/* "text/csv" for "Text/CSV; charset=utf-8": whether the media type, without its parameters, is this
 * one. */
bool http_type_is(const char *content_type, const char *type);
/* A parameter of a media type: "utf-8" for "charset" of the above, also where it stands in quotes;
 * cut to fit. */
bool http_type_parameter(const char *content_type, const char *name, char *ret, size_t size);
/* The same of the first element of a list, which ends at a comma: "0.5" for "q" of
 * "gzip;q=0.5, br;q=1". */
bool http_element_parameter(const char *element, const char *name, char *ret, size_t size);
/* application/json or any type that ends in +json. */
bool http_type_is_json(const char *content_type);
/* The path of a request target: of the absolute form ("http://host/path") what follows the host.
 * NULL when there is no path. */
const char *http_target_path(const char *target);
/* The host and port of the absolute form, *ret_len bytes, which stand for the Host header (RFC
 * 9112, section 3.2.2) and may be none (http_host_valid). NULL: the target has another form. */
const char *http_target_host(const char *target, size_t *ret_len);
/* Reads a Content-Length of digits alone. Values beyond 2^63-1 read as 2^63-1; anything else is
 * false. */
bool http_length_read(const char *text, long long *ret);

#define HTTP_TIMEOUT_MAX_S 86400
/* Seconds as a decimal number without an exponent, more than 0 and at most HTTP_TIMEOUT_MAX_S. */
bool http_timeout_read(const char *text, double *ret);

/* The end of a piece of a list that ends at one of `marks`, which count for nothing in quotes. */
const char *http_piece_end(const char *s, const char *marks);

/*
 * One Prefer header (RFC 7240): the whole seconds of its first preference "wait"; -1 where it has
 * none that can be understood. Numbers beyond a day read as a day.
 */
long http_prefer_wait(const char *prefer);
/* Whether an If-None-Match header names the entity tag (with its quotes), or any: as a weak one,
 * too. */
bool http_tag_listed(const char *if_none_match, const char *tag);
/* The same of If-Match, which compares strongly (RFC 9110, section 13.1.1): a weak tag is none. */
bool http_tag_matches(const char *if_match, const char *tag);

/*
 * Whether a request that changes something may come from where the browser says it comes from: not
 * from another site's page. Programs that are no browsers send none of the first two headers.
 * Arguments are header values or NULL.
 */
bool http_origin_allowed(const char *sec_fetch_site, const char *origin, const char *host);
