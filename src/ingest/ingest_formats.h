/*
 * The readers, one a format. Each calls ingest_table_begin once and ingest_table_rows for all rows;
 * ingest.c does what comes before (gzip) and after (ingest_table_finish).
 */
#pragma once

#include "base/err.h"
#include "ingest/ingest_table.h"

struct ingest_input {
    const char *path;
    int fd; /* open on path, anywhere in the file */
};

/* ingest_unpack_limit for an open file. */
struct deflate_limit ingest_unpack_limit_of(int fd, const struct ingest_options *options);

/*
 * RFC 4180 with quotes; LF, CR LF or CR; UTF-8 byte order marks in front are skipped, blank lines
 * too. The delimiter is that of ingest_delimiter; where numbers have a decimal comma, none is a
 * comma.
 *
 * The first row is a header when a column has text in it above a number in the second row, or when
 * every cell of it is text, unless the options say whether it is. Names are trimmed; an empty one,
 * and every one without a header, is "column" and the 0-based index.
 *
 * Cells of ignored columns may hold anything. Another column is one of text where a text stands in
 * any row, and every cell of it is a label then, as it was written; else one of numbers. Text is
 * allowed in a single target (classes) and, with one_hot, in features of at most 50 distinct
 * numbers. A target that nobody called one of classes is of texts alone or of numbers alone.
 * Refused numbers (nan, inf, 0x1f, 2,5 and 1,234.5; 2.5 with decimal commas) count as numbers here:
 * they are labels beside a text, and errors without. A file with text below other cells is read
 * twice.
 */
int ingest_read_csv(const struct ingest_input *in, struct ingest_table *t, struct err *err);

/*
 * "label index:value …", indices from 1 and ascending, "#" begins a comment, blank lines skipped.
 * Columns x1 … xd, then the target y. The file is read twice: d is known at its end only.
 */
int ingest_read_libsvm(const struct ingest_input *in, struct ingest_table *t, struct err *err);

/* One 2-D array; columns column0, column1, …; the last is the target. */
int ingest_read_npy(const struct ingest_input *in, struct ingest_table *t, struct err *err);

/* Members X (2-D) and y (1-D, or 2-D with one column a target); columns x0, x1, …, then y, or y0,
 * y1, … where y has several columns. A single y may hold texts of a fixed width: classes, as in a
 * CSV. */
int ingest_read_npz(const struct ingest_input *in, struct ingest_table *t, struct err *err);
