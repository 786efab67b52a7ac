#include "base/mem.h"
#include "ingest/ingest_array.h"
#include "ingest/ingest_formats.h"
#include "wire/names.h"

/* Doubles converted at once. */
#define BLOCK_DOUBLES ((int64_t)1 << 17)

static int begin(const struct ingest_array *a, struct ingest_table *t, struct err *err)
{
    int64_t limit = ingest_max_columns(t->options);
    if (a->columns > limit) {
        return err_at(err, ERR_TOO_LARGE, "#/header/shape",
                      "The array has %lld columns, more than the limit of %lld (--max-columns).",
                      (long long)a->columns, (long long)limit);
    }
    char **names = mem_zarray((size_t)a->columns, sizeof(*names));
    if (names == NULL) {
        return err_no_memory(err);
    }
    int r = ingest_names_number(names, "column", 0, a->columns, err);
    if (r < 0) {
        names_free(names, a->columns);
        return r;
    }
    r = ingest_table_begin(t, names, a->columns, 1, ingest_array_dtype(a), err);
    return r < 0 ? r : ingest_table_expect(t, a->rows, err);
}

static int copy_rows(const struct ingest_array *a, struct ingest_table *t, struct err *err)
{
    int64_t block = BLOCK_DOUBLES / a->columns > 0 ? BLOCK_DOUBLES / a->columns : 1;
    block = block < a->rows ? block : a->rows;
    cleanup_mem double *rows = mem_array((size_t)(block * a->columns), sizeof(*rows));
    if (rows == NULL) {
        return err_no_memory(err);
    }
    for (int64_t first = 0; first < a->rows; first += block) {
        int64_t left = a->rows - first;
        int64_t count = left < block ? left : block;
        int r = ingest_array_read(a, first, count, rows, a->columns, err);
        r = r < 0 ? r : ingest_table_rows(t, rows, count, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int ingest_read_npy(const struct ingest_input *in, struct ingest_table *t, struct err *err)
{
    cleanup_array struct ingest_array a = INGEST_ARRAY_INIT;
    int r = ingest_array_open(&a, in->path, "the file", err);
    if (r < 0) {
        return r;
    }
    if (a.dims != 2 || a.columns == 0) {
        return err_at(err, ERR_INVALID, "#/header/shape",
                      "The array is no table: it needs two dimensions, rows and columns.");
    }
    a.missing = t->options->missing != INGEST_MISSING_REFUSE;
    a.advice = INGEST_NAN_ADVICE;
    if (a.rows == 0) {
        return 0;
    }
    r = begin(&a, t, err);
    return r < 0 ? r : copy_rows(&a, t, err);
}
