#include "store/events.h"

#include "base/mem.h"
#include "store/internal.h"

void event_row_deinit(struct event_row *r)
{
    mem_free(r->message);
    mem_free(r->data);
    *r = (struct event_row){.id = 0};
}

static void deinit_row(void *row)
{
    event_row_deinit(row);
}

static int read_row(struct sql_stmt *st, void *row, struct err *err)
{
    struct event_row *r = row;
    r->id = sql_col_int(st, 0);
    sql_col_fixed(st, 1, r->job, sizeof(r->job));
    r->created_ms = sql_col_int(st, 2);
    sql_col_fixed(st, 3, r->level, sizeof(r->level));
    sql_col_fixed(st, 4, r->type, sizeof(r->type));
    r->message = sql_col_text(st, 5);
    r->data = sql_col_text(st, 6);
    return sql_row_check(st, err);
}

static const struct list_kind event_kind = {
    .size = sizeof(struct event_row),
    .read = read_row,
    .deinit = deinit_row,
};

int events__append(struct sql *db, int64_t job, const struct event_new *event, int64_t now_ms,
                   int64_t *ret_id, struct err *err)
{
    static const char count[] =
        "UPDATE jobs SET last_event = last_event + 1 WHERE key = ?1 RETURNING last_event";
    static const char insert[] =
        "INSERT INTO events (job, id, created_ms, level, type, message, data) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    int64_t id;
    int rc = sql_number(db, count, SQL_ARGS(sql_int(job)), &id, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    rc = sql_run(db, insert,
                 SQL_ARGS(sql_int(job), sql_int(id), sql_int(now_ms), sql_text(event->level),
                          sql_text(event->type), sql_text(event->message), sql_text(event->data)),
                 err);
    if (rc == 0 && ret_id != NULL) {
        *ret_id = id;
    }
    return rc;
}

/* jobs.key of an id. */
static int find_job(struct sql *db, const char *id, int64_t *ret, struct err *err)
{
    static const char select[] = "SELECT key FROM jobs WHERE id = ?1";
    const int rc = sql_number(db, select, SQL_ARGS(sql_text(id)), ret, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    return 0;
}

static int append_inside(struct sql *db, const char *job, const struct event_new *event,
                         int64_t now_ms, int64_t *ret_id, struct err *err)
{
    int64_t key;
    const int rc = find_job(db, job, &key, err);
    return rc < 0 ? rc : events__append(db, key, event, now_ms, ret_id, err);
}

int events_append(struct store *s, const char *job, const struct event_new *event, int64_t now_ms,
                  int64_t *ret_id, struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t id = 0;
    rc = sql_end(s->db, append_inside(s->db, job, event, now_ms, &id, err), err);
    if (rc == 0 && ret_id != NULL) {
        *ret_id = id;
    }
    return rc;
}

int events_list(struct store *s, const char *job, int64_t after, int64_t limit,
                struct event_row **ret, int64_t *ret_count, struct err *err)
{
    static const char select[] =
        "SELECT events.id, jobs.id, events.created_ms, level, type, message, data "
        "FROM events JOIN jobs ON jobs.key = events.job "
        "WHERE events.job = ?1 AND events.id > ?2 ORDER BY events.id LIMIT ?3";
    int64_t key;
    int rc = list__check_limit(limit, EVENTS_LIMIT_MAX, err);
    if (rc == 0) {
        rc = find_job(s->db, job, &key, err);
    }
    if (rc < 0) {
        return rc;
    }
    cleanup_sql struct sql_stmt *st = NULL;
    rc = sql_start(s->db, select, SQL_ARGS(sql_int(key), sql_int(after), sql_int(limit)), &st, err);
    if (rc < 0) {
        return rc;
    }
    void *rows;
    rc = list__read(st, &event_kind, limit, &rows, ret_count, NULL, err);
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

void events_list_free(struct event_row *rows, int64_t count)
{
    list__free(&event_kind, rows, count);
}
