/* Members of a ZIP archive, for NPZ. Stored and deflated members only, none encrypted. */
#pragma once

#include <stdint.h>

#include "base/deflate.h"
#include "base/err.h"
#include "ingest/ingest_temp.h"

#define INGEST_ZIP_MEMBERS_MAX 1000

struct ingest_zip; /* opaque */

/* path and fd name the same file. */
int ingest_zip_open(const char *path, int fd, struct ingest_zip **ret, struct err *err);
struct ingest_zip *ingest_zip_free(struct ingest_zip *z);

int64_t ingest_zip_count(const struct ingest_zip *z);
/* Its name as stored, UTF-8; owned by z. */
const char *ingest_zip_name(const struct ingest_zip *z, int64_t member);

/* Unpacks a member to a file. *left is what may still come out of the archive, of `limit` at first;
 * it is counted down by what does come out, whatever the archive declares. */
int ingest_zip_unpack(struct ingest_zip *z, int64_t member, const struct ingest_temp *to,
                      struct deflate_limit limit, int64_t *left, struct err *err);

static inline void ingest_zip_freep(struct ingest_zip **z)
{
    *z = ingest_zip_free(*z);
}
#define cleanup_zip __attribute__((cleanup(ingest_zip_freep)))
