#include <string.h>

#include "base/mem.h"
#include "store/internal.h"

void list__free(const struct list_kind *kind, void *rows, int64_t count)
{
    for (int64_t i = 0; rows != NULL && i < count; i++) {
        kind->deinit((char *)rows + (size_t)i * kind->size);
    }
    mem_free(rows);
}

struct list {
    char *rows;
    int64_t count, capacity;
    size_t bytes, most_bytes; /* read so far; no further row is read beyond */
};

/* A zeroed row at the end, counted already so that it is freed with the others. */
static void *list_grow(struct list *list, size_t size)
{
    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        char *grown = mem_regrow(list->rows, (size_t)capacity, size);
        if (grown == NULL) {
            return NULL;
        }
        list->rows = grown;
        list->capacity = capacity;
    }
    char *row = list->rows + (size_t)list->count++ * size;
    memset(row, 0, size);
    return row;
}

static int read_rows(struct sql_stmt *st, const struct list_kind *kind, int64_t limit,
                     struct list *list, bool *ret_more, struct err *err)
{
    *ret_more = false;
    for (;;) {
        int rc = sql_next(st, err);
        if (rc <= 0) {
            return rc;
        }
        if (list->count == limit || list->bytes > list->most_bytes) {
            *ret_more = true;
            return 0;
        }
        void *row = list_grow(list, kind->size);
        if (row == NULL) {
            return err_no_memory(err);
        }
        rc = kind->read(st, row, err);
        if (rc < 0) {
            return rc;
        }
        list->bytes += sql_row_bytes(st);
    }
}

int list__read(struct sql_stmt *st, const struct list_kind *kind, int64_t limit, void **ret,
               int64_t *ret_count, bool *ret_more, struct err *err)
{
    struct list list = {.rows = NULL, .most_bytes = ret_more ? STORE_PAGE_BYTES : SIZE_MAX};
    bool more;
    const int rc = read_rows(st, kind, limit, &list, &more, err);
    if (rc < 0) {
        list__free(kind, list.rows, list.count);
        return rc;
    }
    *ret = list.rows;
    *ret_count = list.count;
    if (ret_more != NULL) {
        *ret_more = more;
    }
    return 0;
}

int list__check_limit(int64_t limit, int64_t most, struct err *err)
{
    if (limit >= 1 && limit <= most) {
        return 0;
    }
    return err_at(err, ERR_INVALID, "#/query/limit", "The limit must be 1 to %lld, not %lld.",
                  (long long)most, (long long)limit);
}

const char *list__before(struct store_page page)
{
    /* Ids are letters, digits and '_', all of them before '~'. */
    return page.after == NULL || page.after[0] == '\0' ? "~" : page.after;
}

int list__each_text(struct sql *db, const char *select,
                    void (*visit)(void *context, const char *text), void *context, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_start(db, select, SQL_NO_ARGS, &st, err);
    while (rc == 0) {
        rc = sql_next(st, err);
        if (rc <= 0) {
            return rc;
        }
        cleanup_mem char *text = sql_col_text(st, 0);
        rc = sql_row_check(st, err);
        if (rc == 0) {
            visit(context, text);
        }
    }
    return rc;
}
