/*
 * Temporary files beside the output. A struct owns its descriptor and its name: the file is gone
 * when the struct is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ingest_options;

struct ingest_temp {
    char *path; /* NULL: none */
    int fd;
    const struct ingest_options *options; /* borrowed */
};

#define INGEST_TEMP_INIT                                                                           \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* The file name prefix of temporaries when the options name none. */
#define INGEST_DEFAULT_PREFIX "ingest-"

/* Creates DIRECTORY OF beside/PREFIX + six random characters, open for reading and writing, with
 * the options' prefix or the default. */
int ingest_temp_open(struct ingest_temp *t, const char *beside,
                     const struct ingest_options *options, struct err *err);
/* Writes where the file stands. Whatever ingestion writes goes through here: the options are asked
 * first whether anybody waits for it, and whether there is room. */
int ingest_temp_write(const struct ingest_temp *t, const void *data, size_t size, struct err *err);
void ingest_temp_close(struct ingest_temp *t); /* closes and removes; harmless when not open */

/* fsync and rename to path; afterwards t is closed. On failure nothing is left at path. */
int ingest_temp_publish(struct ingest_temp *t, const char *path, struct err *err);

/* 0, or -ERR_CANCELLED where nobody waits any more. Takes a nanosecond. */
int ingest_wanted(const struct ingest_options *options, struct err *err);
/* The same, or what t's options answer where there is no room for so many bytes. */
int ingest_room(const struct ingest_temp *t, int64_t bytes, struct err *err);

#define cleanup_temp __attribute__((cleanup(ingest_temp_close)))
