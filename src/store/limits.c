#include "store/limits.h"

#include "store/internal.h"

#define LIMITS "SELECT batch_rows, batch_delay_us, queue, deadline_us FROM model_limits "

static int get(struct store *s, const char *select, struct sql_value by, struct limits_row *ret,
               struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(s->db, select, &by, 1, &st, err);
    if (rc < 0) {
        return rc;
    }
    *ret = (struct limits_row){LIMITS_UNSET, LIMITS_UNSET, LIMITS_UNSET, LIMITS_UNSET};
    if (rc > 0) {
        *ret = (struct limits_row){sql_col_int(st, 0), sql_col_int(st, 1), sql_col_int(st, 2),
                                   sql_col_int(st, 3)};
    }
    return 0;
}

int limits_get(struct store *s, const char *name, struct limits_row *ret, struct err *err)
{
    return get(s, LIMITS "WHERE name = ?1", sql_text(name), ret, err);
}

int limits_of_version(struct store *s, int64_t key, struct limits_row *ret, struct err *err)
{
    return get(s, LIMITS "WHERE name = (SELECT name FROM models WHERE key = ?1)", sql_int(key), ret,
               err);
}

static int set_inside(struct sql *db, const char *name, const struct limits_row *row,
                      struct err *err)
{
    static const char insert[] =
        "INSERT OR REPLACE INTO model_limits (name, batch_rows, batch_delay_us, queue, "
        "deadline_us) "
        "SELECT ?1, ?2, ?3, ?4, ?5 "
        "WHERE EXISTS (SELECT 1 FROM models WHERE name = ?1 AND version IS NOT NULL)";
    const int rc =
        sql_run(db, insert,
                SQL_ARGS(sql_text(name), sql_int(row->batch_rows), sql_int(row->batch_delay_us),
                         sql_int(row->queue), sql_int(row->deadline_us)),
                err);
    if (rc < 0) {
        return rc;
    }
    return sql_changes(db) > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "There is no such model.");
}

int limits_set(struct store *s, const char *name, const struct limits_row *row, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    return rc < 0 ? rc : sql_end(s->db, set_inside(s->db, name, row, err), err);
}
