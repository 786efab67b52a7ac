/*
 * Turning an uploaded file into a data set file (wire/dataset.h). Runs in a worker thread of the
 * daemon's pool or in a tool; reads and writes files, never logs, keeps memory bounded: rows are
 * converted one after another, never the whole matrix at once (NPY and NPZ in blocks). How each
 * format is read is said in ingest_formats.h, how the task is chosen in ingest_task.h.
 *
 * Nothing half-written survives: the output is written beside its final name under a temporary
 * one and published at the end.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/deflate.h"
#include "base/err.h"
#include "wire/dataset.h"

enum ingest_format { INGEST_CSV, INGEST_LIBSVM, INGEST_NPY, INGEST_NPZ };

/* "csv", "libsvm", "npy", "npz". */
int ingest_format_parse(const char *name, enum ingest_format *ret, struct err *err);
const char *ingest_format_name(enum ingest_format f);
/* By Content-Type (parameters ignored): text/csv, text/x-libsvm, application/x-npy,
 * application/x-npz. */
int ingest_format_from_type(const char *content_type, enum ingest_format *ret, struct err *err);

/* Whether the first row of a CSV holds names; by default that is read off the first two rows. */
enum ingest_header { INGEST_HEADER_AUTO, INGEST_HEADER_PRESENT, INGEST_HEADER_ABSENT };
/* "auto", "present", "absent" (RFC 4180). */
int ingest_header_parse(const char *name, enum ingest_header *ret, struct err *err);
const char *ingest_header_name(enum ingest_header h);

/* What becomes of values that are missing (ingest_missing.h): the table is refused; rows that lack
 * one in a column that is not ignored are left out; or it is filled in, a number by the mean of its
 * column, a word by none of its column's words, and only rows that lack a target are left out. That
 * they were missing is told besides, by indicators: columns that are 1 there and else 0, one for
 * each column that lacks a value. */
enum ingest_missing {
    INGEST_MISSING_REFUSE,
    INGEST_MISSING_DROP,
    INGEST_MISSING_FILL,
    INGEST_MISSING_INDICATE
};
/* "refuse", "drop", "fill", "indicate". */
#define INGEST_MISSING_RULES "Missing values are refuse, drop, fill or indicate."
int ingest_missing_parse(const char *name, enum ingest_missing *ret, struct err *err);
const char *ingest_missing_name(enum ingest_missing m);

struct ingest_options {
    enum ingest_format format;
    enum ingest_header header;  /* CSV */
    bool gzip;                  /* the input is a gzip stream */
    const char *const *targets; /* names or 0-based indices in text; NULL: the format's default */
    int64_t target_count;
    const char *const *ignored; /* columns that are left out, likewise */
    int64_t ignored_count;
    enum task task; /* TASK_AUTO: decided by the target (see ingest_decide_task) */
    enum ingest_missing missing;
    bool decimal_comma; /* CSV: numbers have one, and commas part no cells (ingest_numeral.h) */
    bool one_hot;       /* CSV: turn text feature columns into 0/1 columns */
    /* What gzip and the members of an NPZ may unpack to, and the dense matrix of a LIBSVM file or
     * of one-hot columns. A data set file holds DATASET_COLUMNS_MAX columns at most anyway. */
    int64_t max_unpacked_bytes;
    int64_t max_rows, max_columns;
    const char *temporary_prefix; /* file name prefix of temporaries in the output's directory */
    /* (optional) Asked whether the output's directory, in which fd is a file, takes so many bytes
     * more: before each piece that is written, and for a whole table where its size is known. A
     * negative answer ends the reading, and is what ingest_file returns. */
    int (*room)(void *context, int fd, int64_t bytes, struct err *err);
    void *room_context;
    /* (optional) Becomes true, on another thread, when nobody waits for the data set any more: what
     * is read soon ends with -ERR_CANCELLED. */
    const atomic_bool *abandoned;
};

/*
 * What a compressed upload of packed_bytes may unpack to: max_unpacked_bytes, and beyond
 * INGEST_EXPANSION_FREE bytes at most INGEST_EXPANSION_MAX times its own size. Tables shrink 2 to
 * 50 fold; what grows a thousandfold is a bomb, or zeros that are better left out.
 */
#define INGEST_EXPANSION_FREE ((int64_t)256 << 20)
#define INGEST_EXPANSION_MAX 200
struct deflate_limit ingest_unpack_limit(int64_t packed_bytes,
                                         const struct ingest_options *options);

/*
 * Reads input_path, writes a data set file to output_path (durably: fsync + rename), and tells what
 * it holds. On failure nothing is left at output_path or beside it.
 *
 * Errors carry a sentence that names line and column (CSV, LIBSVM: "Line 17, column 3 (\"age\"):
 * …"; NPY: the header field; NPZ: the member), and a pointer such as "#/line/17/column/3".
 */
int ingest_file(const char *input_path, const char *output_path,
                const struct ingest_options *options, struct dataset_info *ret, struct err *err);
