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
#ifdef KRRD_PLANT_FORGOTTEN_EVENTS /* Only in the daemon that tests/chaos must catch. */
    if (id % 7 == 0) {
        return 0;
    }
#endif
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
    int rc = sql_begin_batched(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t id = 0;
    rc = sql_end_batched(s->db, append_inside(s->db, job, event, now_ms, &id, err), err);
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

int events_last(struct store *s, const char *job, int64_t *ret, struct err *err)
{
    static const char select[] = "SELECT last_event FROM jobs WHERE id = ?1";
    const int rc = sql_number(s->db, select, SQL_ARGS(sql_text(job)), ret, err);
    return rc > 0 ? 0 : rc < 0 ? rc : jobs__not_found(err);
}

void events_list_free(struct event_row *rows, int64_t count)
{
    list__free(&event_kind, rows, count);
}

/* ---- removing ---- */

struct surplus {
    int64_t job, from, to; /* events from..to-1 of jobs.key; none where from >= to */
};

static int read_surplus(struct sql *db, const char *text, int64_t arg, struct surplus *ret,
                        struct err *err)
{
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, text, SQL_ARGS(sql_int(arg)), &st, err);
    if (rc == 1) {
        ret->job = sql_col_int(st, 0);
        ret->from = sql_col_int(st, 1);
        ret->to = sql_col_int(st, 2);
    }
    return rc < 0 ? rc : 0;
}

/* Of one job: the one that finished first, else the one with the most events. */
static int find_surplus(struct sql *db, const struct events_kept *kept, struct surplus *ret,
                        struct err *err)
{
    static const char by_age[] =
        "SELECT key, first_event, last_event FROM jobs WHERE finished_ms IS NOT NULL "
        "AND first_event < last_event AND finished_ms < ?1 ORDER BY finished_ms LIMIT 1";
    static const char by_number[] =
        "SELECT key, first_event, last_event - ?1 + 1 FROM jobs WHERE finished_ms IS NOT NULL "
        "AND first_event < last_event AND last_event - first_event >= ?1 "
        "ORDER BY last_event - first_event DESC LIMIT 1";
    *ret = (struct surplus){.job = 0};
    int rc = 0;
    if (kept->finished_since_ms != INT64_MIN) {
        rc = read_surplus(db, by_age, kept->finished_since_ms, ret, err);
    }
    if (rc == 0 && ret->from >= ret->to && kept->newest > 0) {
        rc = read_surplus(db, by_number, kept->newest, ret, err);
    }
    return rc;
}

static int remove_surplus(struct sql *db, const struct surplus *s, struct err *err)
{
    static const char delete[] = "DELETE FROM events WHERE job = ?1 AND id >= ?2 AND id < ?3";
    static const char change[] = "UPDATE jobs SET first_event = ?2 WHERE key = ?1";
    const int rc =
        sql_run(db, delete, SQL_ARGS(sql_int(s->job), sql_int(s->from), sql_int(s->to)), err);
    return rc < 0 ? rc : sql_run(db, change, SQL_ARGS(sql_int(s->job), sql_int(s->to)), err);
}

static int sweep_inside(struct sql *db, const struct events_kept *kept, int64_t limit,
                        int64_t *ret_count, struct err *err)
{
    *ret_count = 0;
    while (*ret_count < limit) {
        struct surplus s;
        int rc = find_surplus(db, kept, &s, err);
        if (rc < 0 || s.from >= s.to) {
            return rc;
        }
        if (s.to > s.from + limit - *ret_count) {
            s.to = s.from + limit - *ret_count;
        }
        rc = remove_surplus(db, &s, err);
        if (rc < 0) {
            return rc;
        }
        *ret_count += s.to - s.from;
    }
    return 0;
}

int events_sweep(struct store *s, const struct events_kept *kept, int64_t limit, int64_t *ret_count,
                 struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t count = 0;
    rc = sql_end(s->db, sweep_inside(s->db, kept, limit, &count, err), err);
    if (rc == 0) {
        *ret_count = count;
    }
    return rc;
}
