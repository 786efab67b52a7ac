/*
 * gzip (RFC 1952; several members in a row are one stream) and zlib (RFC 1950) streams, which is
 * what HTTP means by "gzip" and "deflate".
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum deflate_kind { DEFLATE_GZIP, DEFLATE_ZLIB };

/* Takes a piece of what was unpacked; a negative result ends the unpacking and is passed on. */
typedef int deflate_sink(void *context, const void *data, size_t size, struct err *err);

struct inflater; /* opaque, one a stream */

/* How many bytes may come out, and what says so, in words for who sent too much: the setting. */
struct deflate_limit {
    int64_t bytes;
    const char *name; /* "--max-body-bytes"; static */
};

int inflater_new(enum deflate_kind kind, struct deflate_limit limit, struct inflater **ret,
                 struct err *err);
struct inflater *inflater_free(struct inflater *f);

/* Unpacks the next piece of the stream. -ERR_TOO_LARGE before a byte beyond the limit reaches the
 * sink; -ERR_PARSE for a damaged stream and for bytes after its end. */
int inflater_feed(struct inflater *f, const void *data, size_t size, deflate_sink *sink,
                  void *context, struct err *err);
/* -ERR_PARSE where the stream is truncated. A stream without a byte is. */
int inflater_end(const struct inflater *f, struct err *err);

/* A whole stream; appends to *ret, which on failure may hold a part. */
int deflate_unpack(enum deflate_kind kind, const void *data, size_t size,
                   struct deflate_limit limit, struct buf *ret, struct err *err);
/* Packs all of it, quickly rather than tightly; appends to *ret. */
int deflate_pack(enum deflate_kind kind, const void *data, size_t size, struct buf *ret,
                 struct err *err);
