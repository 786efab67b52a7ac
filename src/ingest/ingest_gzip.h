/* Unpacking a gzip stream (RFC 1952; several members in a row are one stream). */
#pragma once

#include "base/deflate.h"
#include "base/err.h"
#include "ingest/ingest_temp.h"

/* Unpacks all of in_fd, from its first byte on, to `out`. Stops with ERR_TOO_LARGE as soon as more
 * than `limit` bytes come out; a truncated or damaged stream and bytes after its end are errors. */
int ingest_gunzip(int in_fd, const struct ingest_temp *out, struct deflate_limit limit,
                  struct err *err);
