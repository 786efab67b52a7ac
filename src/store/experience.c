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
    static const char select[] = "SELECT record FROM plan_experience ORDER BY key";
    return list__each_text(s->db, select, visit, context, err);
}
