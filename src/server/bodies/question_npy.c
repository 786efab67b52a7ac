#include "ingest/ingest_array.h"
#include "server/bodies/rows.h"

static int check_shape(const struct ingest_array *a, int64_t d, struct err *err)
{
    if (a->columns != d || (a->dims == 1 && d != 1)) {
        return err_at(err, ERR_INVALID, "#/header/shape",
                      "The array has %d dimension%s and %lld column%s; the model takes two "
                      "dimensions with %lld features.",
                      a->dims, a->dims == 1 ? "" : "s", (long long)a->columns,
                      a->columns == 1 ? "" : "s", (long long)d);
    }
    return 0;
}

int question_read_npy(const void *data, size_t len, const struct served_model *model,
                      struct question *ret, struct err *err)
{
    struct ingest_array a;
    cleanup_rows struct rows rows = {.model = model};
    int r = ingest_array_view(&a, data, len, "the body", err);
    r = r == 0 ? check_shape(&a, model->d, err) : r;
    a.missing = rows_may_lack(&rows);
    a.advice = rows_lack_hint(&rows);
    r = r == 0 && a.rows > 0 ? rows_reserve(&rows, a.rows, err) : r;
    if (r == 0 && a.rows > 0) {
        r = ingest_array_read(&a, 0, a.rows, rows.X, model->d, err);
        rows.count = a.rows;
    }
    struct question q = {.scores = model->classes > 0};
    r = r == 0 ? rows_take(&rows, "#", &q, err) : r;
    if (r == 0) {
        *ret = q;
    }
    return r;
}
