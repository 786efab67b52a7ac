/*
 * A data set file while its rows arrive: room for the header, then rows, then the header, which
 * knows the number of rows. The file is a temporary one until it is published.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "ingest/ingest_temp.h"
#include "wire/dataset.h"

struct ingest_writer {
    struct ingest_temp temp;
    enum dtype dtype;
    int64_t columns;
    int64_t rows;
    size_t room; /* bytes before the first row */
    unsigned char *buffer;
    size_t used;
    struct sha256 *hash; /* of what was flushed */
};

#define INGEST_WRITER_INIT                                                                         \
    {                                                                                              \
        .temp = INGEST_TEMP_INIT                                                                   \
    }

/* Bytes kept in front of the rows beyond the header as known at the beginning: the number of rows,
 * a few warnings. */
#define INGEST_HEADER_RESERVE ((size_t)4096)

/* The number of bytes that the header of info takes; refused where no reader would accept it with
 * the reserve on top. */
int ingest_header_size(const struct dataset_info *info, size_t *ret, struct err *err);

/* room: from ingest_header_size, with or without the reserve; a multiple of 64. */
int ingest_writer_open(struct ingest_writer *w, const char *output_path,
                       const struct ingest_options *options, enum dtype dtype, int64_t columns,
                       size_t room, struct err *err);
/* What a file of so many rows takes. */
int64_t ingest_writer_bytes(const struct ingest_writer *w, int64_t rows);
void ingest_writer_close(struct ingest_writer *w); /* removes an unpublished file */

/* rows[count, columns], row-major; float32 files take values that float32 holds exactly. */
int ingest_writer_rows(struct ingest_writer *w, const double *rows, int64_t count, struct err *err);

/* Reads rows back: ret[count, columns]. Everything was flushed before. */
int ingest_writer_flush(struct ingest_writer *w, struct err *err);
int ingest_writer_read(const struct ingest_writer *w, int64_t first, int64_t count, double *ret,
                       struct err *err);

/* Puts the header of info in front and publishes the file. The header must fit the room. */
int ingest_writer_publish(struct ingest_writer *w, const struct dataset_info *info,
                          const char *output_path, struct err *err);

#define cleanup_writer __attribute__((cleanup(ingest_writer_close)))
