/*
 * An array in NumPy's NPY format (versions 1.0, 2.0, 3.0), mapped. The header is parsed, never
 * evaluated, and must agree with the size of the file to the byte before anything else happens.
 *
 * Element types: bool, int8 … int64, uint8 … uint64, float16, float32, float64, either byte order;
 * where the caller takes them, texts of fixed width: NumPy's U (UTF-32) and S (bytes, here UTF-8).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "wire/dtype.h"

struct ingest_element; /* an element type */

struct ingest_array {
    struct file_map map;
    const unsigned char *data;            /* [rows, columns] in the file's order */
    const struct ingest_element *element; /* NULL: texts */
    size_t size;                          /* bytes of an element */
    bool wide;                            /* texts are UTF-32 */
    bool swap;                            /* the other byte order */
    bool fortran;                         /* column-major */
    bool missing;       /* the caller takes NaN, of floats, for a value that is missing */
    const char *advice; /* else of NaN, " A sentence."; NULL: none; borrowed */
    int dims;           /* 1 or 2 */
    int64_t rows;
    int64_t columns; /* 1 when dims == 1 */
    const char *who; /* "the file", "member X": for error texts; borrowed */
};

#define INGEST_ARRAY_INIT                                                                          \
    {                                                                                              \
        .data = NULL                                                                               \
    }

/* Errors point at "#/header/shape" and the like. */
int ingest_array_open(struct ingest_array *a, const char *path, const char *who, struct err *err);
/* The same, and texts are taken, too. */
int ingest_array_open_any(struct ingest_array *a, const char *path, const char *who,
                          struct err *err);
/* The same as ingest_array_open for an array in memory, which is borrowed and which closing leaves
 * alone. */
int ingest_array_view(struct ingest_array *a, const void *data, size_t size, const char *who,
                      struct err *err);
void ingest_array_close(struct ingest_array *a);

/* DTYPE_F32 when float32 holds every value of the element type, and for texts. */
enum dtype ingest_array_dtype(const struct ingest_array *a);

/*
 * Rows first … first + count - 1 into ret[i * stride + j]. Infinity, NaN (unless a->missing) and
 * integers that float64 cannot hold are refused with their row and column, counted from 0.
 */
int ingest_array_read(const struct ingest_array *a, int64_t first, int64_t count, double *ret,
                      int64_t stride, struct err *err);

/* -ERR_INVALID at "#/row/3/column/0": "Row 3, column 0 of member y (counted from 0): what." */
int ingest_array_error(const struct ingest_array *a, int64_t row, int64_t column, struct err *err,
                       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* ---- texts ---- */

/* Bytes that a text may be wide; what is kept of it is far shorter. */
#define INGEST_TEXT_WIDTH_MAX ((size_t)64 << 10)

/* Whether descr (text[0..len)) is one of texts, which a then has. */
bool ingest_array_text_type(struct ingest_array *a, const char *text, size_t len);

/* The text of a row of the first column into *ret as UTF-8, without the zeros that fill it up. What
 * is no Unicode is refused; bytes that are no UTF-8 are not. */
int ingest_array_text(const struct ingest_array *a, int64_t row, struct buf *ret, struct err *err);

#define cleanup_array __attribute__((cleanup(ingest_array_close)))
