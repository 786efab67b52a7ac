#include <stdio.h>

#include "ingest/ingest_array.h"
#include "server/bodies/rows.h"

static int check_shape(const struct ingest_array *a, const struct rows *rows, struct err *err)
{
    char narrow[80] = "";
    const int64_t d = rows->model->d;
    if (a->columns == d || a->columns == rows_narrow(rows)) {
        return 0;
    }
    if (rows_narrow(rows) < d) {
        snprintf(narrow, sizeof narrow, ", or %lld without those that tell what is missing",
                 (long long)rows_narrow(rows));
    }
    return err_at(err, ERR_INVALID, "#/header/shape",
                  "The array has %d dimension%s and %lld column%s; the model takes two "
                  "dimensions with %lld features%s.",
                  a->dims, a->dims == 1 ? "" : "s", (long long)a->columns,
                  a->columns == 1 ? "" : "s", (long long)d, narrow);
}

/* All rows of the array, of which there is one at least. */
static int read_rows(const struct ingest_array *a, struct rows *rows, struct err *err)
{
    const int64_t d = rows->model->d;
    int r = rows_reserve(rows, a->rows, err);
    r = r == 0 ? ingest_array_read(a, 0, a->rows, rows->X, d, err) : r;
    for (int64_t i = 0; r == 0 && a->columns < d && i < a->rows; i++) {
        rows_widen(rows, rows->X + i * d);
    }
    rows->count = r == 0 ? a->rows : 0;
    return r;
}

int question_read_npy(const void *data, size_t len, const struct served_model *model,
                      struct question *ret, struct err *err)
{
    struct ingest_array a;
    cleanup_rows struct rows rows = {.model = model};
    int r = ingest_array_view(&a, data, len, "the body", err);
    r = r == 0 ? check_shape(&a, &rows, err) : r;
    a.missing = rows_may_lack(&rows);
    a.advice = rows_lack_hint(&rows);
    r = r == 0 && a.rows > 0 ? read_rows(&a, &rows, err) : r;
    struct question q = {.scores = model->classes > 0};
    r = r == 0 ? rows_take(&rows, "#", &q, err) : r;
    if (r == 0) {
        *ret = q;
    }
    return r;
}
