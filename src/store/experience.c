#include "store/experience.h"

#include "base/mem.h"
#include "store/internal.h"

int experience__append(struct sql *db, const char *record, struct err *err)
{
    static const char insert[] = "INSERT INTO plan_experience (record) VALUES (?1)";
    static const char prune[] = "DELETE FROM plan_experience WHERE key <= "
                                "(SELECT max(key) FROM plan_experience) - ?1";
    const int rc = sql_run(db, insert, SQL_ARGS(sql_text(record)), err);
    return rc < 0 ? rc : sql_run(db, prune, SQL_ARGS(sql_int(EXPERIENCE_KEPT)), err);
}

int experience_each(struct store *s, void (*visit)(void *context, const char *record),
                    void *context, struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    int rc =
        sql_start(s->db, "SELECT record FROM plan_experience ORDER BY key", SQL_NO_ARGS, &st, err);
    while (rc == 0) {
        rc = sql_next(st, err);
        if (rc <= 0) {
            return rc;
        }
        cleanup_mem char *record = sql_col_text(st, 0);
        rc = sql_row_check(st, err);
        if (rc == 0) {
            visit(context, record);
        }
    }
    return rc;
}
