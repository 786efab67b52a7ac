#include "conformance/row_table.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "wire/catalog.h"

static int read_table(const struct row_source *s, int64_t first, const int64_t *index,
                      int64_t count, void *ret_X, double *ret_Y, struct err *err)
{
    struct table *t = s->context;
    assert_null(ret_Y);
    if (t->reads++ == t->fail_at) {
        return err_set(err, ERR_IO, "The disk is gone.");
    }
    const size_t size = (size_t)s->d * dtype_size(s->dtype);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = index != NULL ? index[i] : first + i;
        assert_true(row >= 0 && row < s->n);
        memcpy((char *)ret_X + (size_t)i * size, t->X + (size_t)row * size, size);
    }
    t->rows_read += count;
    return 0;
}

struct table *table_new(double *x, int64_t n, int64_t d, enum dtype dtype)
{
    struct table *t = mem_zalloc(sizeof(*t));
    assert_non_null(t);
    t->fail_at = -1;
    t->source = (struct row_source){
        .context = t, .n = n, .d = d, .t = 1, .dtype = dtype, .read = read_table};
    t->X = (char *)x;
    if (dtype == DTYPE_F32) {
        t->X = mem_array((size_t)(n * d), sizeof(float));
        for (int64_t i = 0; i < n * d; i++) {
            ((float *)(void *)t->X)[i] = (float)x[i];
        }
        mem_free(x);
    }
    return t;
}

void table_free(struct table *t)
{
    mem_free(t->X);
    mem_free(t);
}

double table_at(const struct table *t, int64_t i, int64_t j)
{
    const struct rows rows = {
        .dtype = t->source.dtype, .n = t->source.n, .d = t->source.d, .data = t->X};
    return rows_at(&rows, i, j);
}

int table_compare_rows(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static struct param_set params_of(const char *name, const char *json)
{
    struct param_set set;
    struct json *j cleanup_json = NULL;
    if (json != NULL) {
        must(json_parse(json, strlen(json), &j, &err));
    }
    const struct method_def *def = catalog_find(CATALOG_CENTERS, name);
    assert_non_null(def);
    must(param_read(def->params, j, NULL, &set, &err));
    return set;
}

int table_select(const struct center_task *task, const char *name, const char *json,
                 int64_t fail_nth, struct centers *ret, struct err *err)
{
    const struct center_ops *ops = center_find(name);
    const struct param_set params = params_of(name, json);
    struct center_selection *selection = NULL;
    mem_fail_nth(fail_nth);
    int rc = ops->setup(task, &params, &selection, err);
    double fraction = 0, last = 0;
    for (int i = 0; rc == 0 && i < 100000; i++) {
        rc = ops->step(selection, &fraction, err);
        if (rc >= 0) {
            assert_true(fraction >= last && fraction <= 1.0);
            last = fraction;
        }
    }
    if (rc > 0) {
        rc = ops->take(selection, ret, err);
    }
    mem_fail_nth(0);
    ops->teardown(selection);
    ops->teardown(NULL);
    return rc;
}
