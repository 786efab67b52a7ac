#include "store/idempotency.h"

#include "base/mem.h"
#include "store/internal.h"

void idempotency_row_deinit(struct idempotency_row *r)
{
    mem_free(r->body);
    *r = (struct idempotency_row){.status = 0};
}

static int read_row(struct sql_stmt *st, struct idempotency_row *r, struct err *err)
{
    sql_col_fixed(st, 0, r->operation, sizeof(r->operation));
    sql_col_fixed(st, 1, r->owner, sizeof(r->owner));
    sql_col_fixed(st, 2, r->key, sizeof(r->key));
    sql_col_fixed(st, 3, r->request, sizeof(r->request));
    r->status = (int)sql_col_int(st, 4);
    sql_col_fixed(st, 5, r->location, sizeof(r->location));
    r->body = sql_col_text(st, 6);
    r->created_ms = sql_col_int(st, 7);
    return sql_row_check(st, err);
}

int idempotency_get(struct store *s, const char *operation, const char *owner, const char *key,
                    int64_t oldest_ms, struct idempotency_row *ret, struct err *err)
{
    static const char select[] =
        "SELECT operation, owner, key, request, status, location, body, created_ms "
        "FROM idempotency_keys WHERE operation = ?1 AND key = ?2 AND owner IN (?3, '*') "
        "AND created_ms >= ?4";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc =
        sql_first(s->db, select,
                  SQL_ARGS(sql_text(operation), sql_text(key), sql_text(owner), sql_int(oldest_ms)),
                  &st, err);
    if (rc <= 0) {
        return rc;
    }
    struct idempotency_row row = {.status = 0};
    rc = read_row(st, &row, err);
    if (rc < 0) {
        idempotency_row_deinit(&row);
        return rc;
    }
    *ret = row;
    return 1;
}

int idempotency__insert(struct sql *db, const struct idempotency_row *row, struct err *err)
{
    /* What may be replaced has expired. */
    static const char insert[] = "INSERT OR REPLACE INTO idempotency_keys "
                                 "(operation, owner, key, request, status, location, body, "
                                 "created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    if (row == NULL) {
        return 0;
    }
    return sql_run(db, insert,
                   SQL_ARGS(sql_text(row->operation), sql_text(row->owner), sql_text(row->key),
                            sql_text(row->request), sql_int(row->status), sql_text(row->location),
                            sql_text(row->body), sql_int(row->created_ms)),
                   err);
}

static int expire_inside(struct sql *db, int64_t oldest_ms, int64_t limit, int64_t *ret_count,
                         struct err *err)
{
    static const char delete[] =
        "DELETE FROM idempotency_keys WHERE rowid IN (SELECT rowid FROM idempotency_keys "
        "WHERE created_ms < ?1 ORDER BY created_ms LIMIT ?2)";
    const int rc = sql_run(db, delete, SQL_ARGS(sql_int(oldest_ms), sql_int(limit)), err);
    *ret_count = rc == 0 ? sql_changes(db) : 0;
    return rc;
}

int idempotency_expire(struct store *s, int64_t oldest_ms, int64_t limit, int64_t *ret_count,
                       struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t count = 0;
    rc = sql_end(s->db, expire_inside(s->db, oldest_ms, limit, &count, err), err);
    if (rc == 0) {
        *ret_count = count;
    }
    return rc;
}
