/*
 * An array in NumPy's NPY format (versions 1.0, 2.0, 3.0), mapped. The header is parsed, never
 * evaluated, and must agree with the size of the file to the byte before anything else happens.
 *
 * Element types: bool, int8 … int64, uint8 … uint64, float16, float32, float64, either byte order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "wire/dtype.h"

struct ingest_element; /* an element type */

struct ingest_array {
    struct file_map map;
    const unsigned char *data; /* [rows, columns] in the file's order */
    const struct ingest_element *element;
    bool swap;    /* the other byte order */
    bool fortran; /* column-major */
    int dims;     /* 1 or 2 */
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
/* The same for an array in memory, which is borrowed and which closing leaves alone. */
int ingest_array_view(struct ingest_array *a, const void *data, size_t size, const char *who,
                      struct err *err);
void ingest_array_close(struct ingest_array *a);

/* DTYPE_F32 when float32 holds every value of the element type. */
enum dtype ingest_array_dtype(const struct ingest_array *a);

/*
 * Rows first … first + count - 1 into ret[i * stride + j]. Infinity, NaN and integers that float64
 * cannot hold are refused with their row and column, counted from 0.
 */
int ingest_array_read(const struct ingest_array *a, int64_t first, int64_t count, double *ret,
                      int64_t stride, struct err *err);

#define cleanup_array __attribute__((cleanup(ingest_array_close)))
