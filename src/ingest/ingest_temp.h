/*
 * Temporary files beside the output. A struct owns its descriptor and its name: the file is gone
 * when the struct is.
 */
#pragma once

#include "base/err.h"

struct ingest_temp {
    char *path; /* NULL: none */
    int fd;
};

#define INGEST_TEMP_INIT                                                                           \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* The file name prefix of temporaries when the options name none. */
#define INGEST_DEFAULT_PREFIX "ingest-"

/* Creates DIRECTORY OF beside/PREFIX + six random characters, open for reading and writing. prefix
 * NULL: the default. */
int ingest_temp_open(struct ingest_temp *t, const char *beside, const char *prefix,
                     struct err *err);
void ingest_temp_close(struct ingest_temp *t); /* closes and removes; harmless when not open */

/* fsync and rename to path; afterwards t is closed. On failure nothing is left at path. */
int ingest_temp_publish(struct ingest_temp *t, const char *path, struct err *err);

#define cleanup_temp __attribute__((cleanup(ingest_temp_close)))
