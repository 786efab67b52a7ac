#include "store/aliases.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/internal.h"

#define ALIAS_COLUMNS                                                                              \
    "a.name, a.alias, m.version, a.moves, h.moved_ms FROM model_aliases a "                        \
    "JOIN models m ON m.key = a.model "                                                            \
    "JOIN alias_moves h ON h.name = a.name AND h.alias = a.alias AND h.number = a.moves "

static const char *const kind_names[] = {
    [ALIAS_SET] = "set",
    [ALIAS_ROLLBACK] = "rollback",
    [ALIAS_PROMOTION] = "promotion",
    [ALIAS_DELETE] = "delete",
};

const char *alias_kind_name(enum alias_kind k)
{
    return kind_names[k];
}

void alias_row_deinit(struct alias_row *r)
{
    mem_free(r->name);
    mem_free(r->alias);
    *r = (struct alias_row){.version = 0};
}

static void deinit_row(void *row)
{
    alias_row_deinit(row);
}

static int read_row(struct sql_stmt *st, void *row, struct err *err)
{
    struct alias_row *r = row;
    r->name = sql_col_text(st, 0);
    r->alias = sql_col_text(st, 1);
    r->version = sql_col_int(st, 2);
    r->moves = sql_col_int(st, 3);
    r->moved_ms = sql_col_int(st, 4);
    return sql_row_check(st, err);
}

static const struct list_kind alias_kind = {
    .size = sizeof(struct alias_row),
    .read = read_row,
    .deinit = deinit_row,
};

static int not_found(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "There is no such alias.");
}

/* ---- looking ---- */

static int get_inside(struct sql *db, const char *name, const char *alias, struct alias_row *ret,
                      struct err *err)
{
    static const char select[] = "SELECT " ALIAS_COLUMNS "WHERE a.name = ?1 AND a.alias = ?2";
    cleanup_sql struct sql_stmt *st = NULL;
    struct alias_row row = {.version = 0};
    int rc = sql_first(db, select, SQL_ARGS(sql_text(name), sql_text(alias)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : not_found(err);
    }
    rc = read_row(st, &row, err);
    if (rc < 0) {
        alias_row_deinit(&row);
        return rc;
    }
    *ret = row;
    return 0;
}

int aliases_get(struct store *s, const char *name, const char *alias, struct alias_row *ret,
                struct err *err)
{
    return get_inside(s->db, name, alias, ret, err);
}

static int read_list(struct sql_stmt *st, struct alias_row **ret, int64_t *ret_count,
                     struct err *err)
{
    void *rows;
    const int rc = list__read(st, &alias_kind, INT64_MAX, &rows, ret_count, NULL, err);
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

int aliases_list(struct store *s, const char *name, struct alias_row **ret, int64_t *ret_count,
                 struct err *err)
{
    static const char select[] = "SELECT " ALIAS_COLUMNS "WHERE a.name = ?1 ORDER BY a.alias";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_start(s->db, select, SQL_ARGS(sql_text(name)), &st, err);
    return rc < 0 ? rc : read_list(st, ret, ret_count, err);
}

int aliases_of_version(struct store *s, int64_t key, struct alias_row **ret, int64_t *ret_count,
                       struct err *err)
{
    static const char select[] = "SELECT " ALIAS_COLUMNS "WHERE a.model = ?1 ORDER BY a.alias";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_start(s->db, select, SQL_ARGS(sql_int(key)), &st, err);
    return rc < 0 ? rc : read_list(st, ret, ret_count, err);
}

void aliases_list_free(struct alias_row *rows, int64_t count)
{
    list__free(&alias_kind, rows, count);
}

int aliases_model(struct store *s, const char *name, const char *alias, struct model_row *ret,
                  struct err *err)
{
    static const char select[] = "SELECT m.version FROM model_aliases a JOIN models m "
                                 "ON m.key = a.model WHERE a.name = ?1 AND a.alias = ?2";
    int64_t version = 0;
    const int rc =
        sql_number(s->db, select, SQL_ARGS(sql_text(name), sql_text(alias)), &version, err);
    if (rc <= 0) {
        return rc < 0 ? rc : not_found(err);
    }
    return models_get(s, name, version, ret, err);
}

int aliases_models(struct store *s, struct model_row **ret, int64_t *ret_count, struct err *err)
{
    static const char select[] = "SELECT " MODEL_COLUMNS " FROM models WHERE key IN "
                                 "(SELECT model FROM model_aliases) ORDER BY key";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_start(s->db, select, SQL_NO_ARGS, &st, err);
    return rc < 0 ? rc : models__read_list(st, ret, ret_count, err);
}

/* ---- history ---- */

static int read_move(struct sql_stmt *st, void *row, struct err *err)
{
    struct alias_move *m = row;
    m->number = sql_col_int(st, 0);
    sql_col_fixed(st, 1, m->kind, sizeof(m->kind));
    m->from = sql_col_int(st, 2);
    m->to = sql_col_int(st, 3);
    m->moved_ms = sql_col_int(st, 4);
    sql_col_fixed(st, 5, m->request, sizeof(m->request));
    sql_col_fixed(st, 6, m->job, sizeof(m->job));
    return sql_row_check(st, err);
}

static void deinit_move(void *row)
{
    (void)row;
}

static const struct list_kind move_kind = {
    .size = sizeof(struct alias_move),
    .read = read_move,
    .deinit = deinit_move,
};

int aliases_history(struct store *s, const char *name, const char *alias, int64_t limit,
                    struct alias_move **ret, int64_t *ret_count, struct err *err)
{
    static const char select[] =
        "SELECT number, kind, from_version, to_version, moved_ms, request, job FROM alias_moves "
        "WHERE name = ?1 AND alias = ?2 ORDER BY number DESC LIMIT ?3";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = list__check_limit(limit, ALIASES_HISTORY_PAGE_MAX, err);
    if (rc == 0) {
        rc = sql_start(s->db, select, SQL_ARGS(sql_text(name), sql_text(alias), sql_int(limit)),
                       &st, err);
    }
    void *rows = NULL;
    rc = rc == 0 ? list__read(st, &move_kind, INT64_MAX, &rows, ret_count, NULL, err) : rc;
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

void aliases_history_free(struct alias_move *moves, int64_t count)
{
    list__free(&move_kind, moves, count);
}

/* ---- changing: what follows runs inside the transaction of its caller ---- */

/* An alias as its row has it; version 0: there is none. */
struct standing {
    int64_t version, moves;
    int64_t stands; /* the move that put it where it is, and that a rollback takes back */
};

static int find_standing(struct sql *db, const struct alias_change *c, struct standing *ret,
                         struct err *err)
{
    static const char select[] =
        "SELECT m.version, a.moves, a.stands FROM model_aliases a JOIN models m "
        "ON m.key = a.model WHERE a.name = ?1 AND a.alias = ?2";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, select, SQL_ARGS(sql_text(c->name), sql_text(c->alias)), &st, err);
    if (rc < 0) {
        return rc;
    }
    *ret = (struct standing){.version = rc == 0 ? 0 : sql_col_int(st, 0),
                             .moves = rc == 0 ? 0 : sql_col_int(st, 1),
                             .stands = rc == 0 ? 0 : sql_col_int(st, 2)};
    return 0;
}

static bool is_expected(const struct alias_change *c, const struct standing *now)
{
    return c->expected == ALIAS_ANY || (c->expected == ALIAS_SOME && now->version > 0) ||
           c->expected == now->moves;
}

/* One more than any move of the alias, also before it was deleted. */
static int next_number(struct sql *db, const struct alias_change *c, int64_t *ret, struct err *err)
{
    static const char select[] =
        "SELECT ifnull(max(number), 0) + 1 FROM alias_moves WHERE name = ?1 AND alias = ?2";
    const int rc =
        sql_number(db, select, SQL_ARGS(sql_text(c->name), sql_text(c->alias)), ret, err);
    return rc < 0 ? rc : 0;
}

struct new_move {
    enum alias_kind kind;
    int64_t number, from, to; /* versions, 0: none */
    int64_t before;           /* the move that a rollback goes back to; 0: none */
    const char *job;          /* or NULL */
    int64_t now_ms;
};

static struct sql_value number_or_null(int64_t v)
{
    return v > 0 ? sql_int(v) : sql_text(NULL);
}

static int append_move(struct sql *db, const struct alias_change *c, const struct new_move *m,
                       struct err *err)
{
    static const char insert[] =
        "INSERT INTO alias_moves (name, alias, number, kind, from_version, to_version, before, "
        "moved_ms, request, job) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    static const char forget[] =
        "DELETE FROM alias_moves WHERE name = ?1 AND alias = ?2 AND number <= ?3";
    char request[ALIASES_REQUEST_MAX + 1];
    snprintf(request, sizeof(request), "%s", c->request != NULL ? c->request : "");
    int rc = sql_run(db, insert,
                     SQL_ARGS(sql_text(c->name), sql_text(c->alias), sql_int(m->number),
                              sql_text(kind_names[m->kind]), number_or_null(m->from),
                              number_or_null(m->to), number_or_null(m->before), sql_int(m->now_ms),
                              sql_text(request), sql_text(m->job)),
                     err);
    if (rc == 0) {
        rc = sql_run(db, forget,
                     SQL_ARGS(sql_text(c->name), sql_text(c->alias),
                              sql_int(m->number - ALIASES_HISTORY_MAX)),
                     err);
    }
    return rc;
}

static int check_room(struct sql *db, const char *name, struct err *err)
{
    static const char count[] = "SELECT count(*) FROM model_aliases WHERE name = ?1";
    int64_t n = 0;
    const int rc = sql_number(db, count, SQL_ARGS(sql_text(name)), &n, err);
    if (rc > 0 && n >= ALIASES_MAX) {
        return err_set(err, ERR_CONFLICT, "A model has at most %d aliases.", ALIASES_MAX);
    }
    return rc < 0 ? rc : 0;
}

/* Puts the alias to m->to. `stands` is the move that is in effect from now on. */
static int put(struct sql *db, const struct alias_change *c, const struct new_move *m,
               int64_t stands, struct err *err)
{
    static const char set[] =
        "INSERT INTO model_aliases (name, alias, model, moves, stands) "
        "SELECT name, ?2, key, ?4, ?5 FROM models WHERE name = ?1 AND version = ?3 "
        "ON CONFLICT (name, alias) DO UPDATE SET model = excluded.model, moves = excluded.moves, "
        "stands = excluded.stands";
    int rc = m->from == 0 ? check_room(db, c->name, err) : 0;
    if (rc == 0) {
        rc = sql_run(db, set,
                     SQL_ARGS(sql_text(c->name), sql_text(c->alias), sql_int(m->to),
                              sql_int(m->number), sql_int(stands)),
                     err);
    }
    if (rc == 0 && sql_changes(db) == 0) {
        rc = err_set(err, ERR_NOT_FOUND, "The model has no version %lld.", (long long)m->to);
    }
    return rc < 0 ? rc : append_move(db, c, m, err);
}

int aliases__set(struct sql *db, const struct alias_change *c, int64_t version,
                 enum alias_kind kind, const char *job, int64_t now_ms, struct err *err)
{
    struct standing now;
    struct new_move m = {.kind = kind, .to = version, .job = job, .now_ms = now_ms};
    int rc = find_standing(db, c, &now, err);
    if (rc < 0) {
        return rc;
    }
    if (!is_expected(c, &now)) {
        return ALIAS_OTHER;
    }
    if (now.version == version) {
        return ALIAS_STANDS;
    }
    rc = next_number(db, c, &m.number, err);
    m.from = now.version;
    m.before = now.stands;
    return rc < 0 ? rc : put(db, c, &m, m.number, err);
}

/* The move to go back to from the one that stands: the first before it whose version exists. */
static int find_back(struct sql *db, const struct alias_change *c, int64_t stands,
                     int64_t *ret_move, int64_t *ret_version, struct err *err)
{
    static const char select[] =
        "SELECT h.before, b.to_version, m.key IS NOT NULL FROM alias_moves h "
        "JOIN alias_moves b ON b.name = h.name AND b.alias = h.alias AND b.number = h.before "
        "LEFT JOIN models m ON m.name = b.name AND m.version = b.to_version "
        "WHERE h.name = ?1 AND h.alias = ?2 AND h.number = ?3";
    for (int64_t at = stands;;) {
        cleanup_sql struct sql_stmt *st = NULL;
        const int rc = sql_first(
            db, select, SQL_ARGS(sql_text(c->name), sql_text(c->alias), sql_int(at)), &st, err);
        if (rc < 0) {
            return rc;
        }
        if (rc == 0) {
            return err_set(err, ERR_CONFLICT,
                           "There is no earlier version of the alias to go back to.");
        }
        at = sql_col_int(st, 0);
        if (sql_col_int(st, 2) != 0) {
            *ret_move = at;
            *ret_version = sql_col_int(st, 1);
            return 0;
        }
    }
}

static int rollback_inside(struct sql *db, const struct alias_change *c, int64_t now_ms,
                           struct alias_row *ret, struct err *err)
{
    struct standing now;
    struct new_move m = {.kind = ALIAS_ROLLBACK, .now_ms = now_ms};
    int64_t back = 0;
    int rc = find_standing(db, c, &now, err);
    if (rc == 0 && now.version == 0) {
        rc = not_found(err);
    }
    if (rc == 0 && !is_expected(c, &now)) {
        return ALIAS_OTHER;
    }
    rc = rc < 0 ? rc : find_back(db, c, now.stands, &back, &m.to, err);
    rc = rc < 0 ? rc : next_number(db, c, &m.number, err);
    m.from = now.version;
    rc = rc < 0 ? rc : put(db, c, &m, back, err);
    return rc < 0 ? rc : get_inside(db, c->name, c->alias, ret, err);
}

static int delete_inside(struct sql *db, const struct alias_change *c, int64_t now_ms,
                         struct err *err)
{
    static const char delete[] = "DELETE FROM model_aliases WHERE name = ?1 AND alias = ?2";
    struct standing now;
    struct new_move m = {.kind = ALIAS_DELETE, .now_ms = now_ms};
    int rc = find_standing(db, c, &now, err);
    if (rc == 0 && now.version == 0) {
        rc = not_found(err);
    }
    if (rc == 0 && !is_expected(c, &now)) {
        return ALIAS_OTHER;
    }
    rc = rc < 0 ? rc : next_number(db, c, &m.number, err);
    m.from = now.version;
    rc = rc < 0 ? rc : append_move(db, c, &m, err);
    return rc < 0 ? rc : sql_run(db, delete, SQL_ARGS(sql_text(c->name), sql_text(c->alias)), err);
}

static int set_inside(struct sql *db, const struct alias_change *c, int64_t version, int64_t now_ms,
                      struct alias_row *ret, struct err *err)
{
    const int rc = aliases__set(db, c, version, ALIAS_SET, NULL, now_ms, err);
    if (rc < 0 || rc == ALIAS_OTHER) {
        return rc;
    }
    const int got = get_inside(db, c->name, c->alias, ret, err);
    return got < 0 ? got : rc;
}

/* ---- changing: the transactions ---- */

/* A row that was read inside a transaction that did not come to be is no answer. */
static int hand_out(int rc, struct alias_row *row, struct alias_row *ret)
{
    if (rc == 0 || rc == ALIAS_STANDS) {
        *ret = *row;
    } else {
        alias_row_deinit(row);
    }
    return rc;
}

int aliases_set(struct store *s, const struct alias_change *c, int64_t version, int64_t now_ms,
                struct alias_row *ret, struct err *err)
{
    struct alias_row row = {.version = 0};
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return hand_out(sql_end(s->db, set_inside(s->db, c, version, now_ms, &row, err), err), &row,
                    ret);
}

int aliases_previous(struct store *s, const char *name, const char *alias, int64_t *ret_version,
                     struct err *err)
{
    const struct alias_change c = {.name = name, .alias = alias};
    struct standing now;
    int64_t move;
    int rc = find_standing(s->db, &c, &now, err);
    if (rc == 0 && now.version == 0) {
        rc = not_found(err);
    }
    return rc < 0 ? rc : find_back(s->db, &c, now.stands, &move, ret_version, err);
}

int aliases_rollback(struct store *s, const struct alias_change *c, int64_t now_ms,
                     struct alias_row *ret, struct err *err)
{
    struct alias_row row = {.version = 0};
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return hand_out(sql_end(s->db, rollback_inside(s->db, c, now_ms, &row, err), err), &row, ret);
}

int aliases_delete(struct store *s, const struct alias_change *c, int64_t now_ms, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, delete_inside(s->db, c, now_ms, err), err);
}

int aliases__check_free(struct sql *db, const char *name, int64_t version, struct err *err)
{
    static const char select[] = "SELECT a.alias FROM model_aliases a JOIN models m "
                                 "ON m.key = a.model WHERE m.name = ?1 AND m.version = ?2 "
                                 "ORDER BY a.alias LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, select, SQL_ARGS(sql_text(name), sql_int(version)), &st, err);
    if (rc <= 0) {
        return rc;
    }
    cleanup_mem char *alias = sql_col_text(st, 0);
    rc = sql_row_check(st, err);
    return rc < 0 ? rc
                  : err_set(err, ERR_CONFLICT,
                            "The alias \"%.64s\" stands for this version; move it or delete it "
                            "first.",
                            alias);
}

/* ---- forgetting ---- */

/* 1: *place is the next history; 0: there is none behind it. */
static int next_place(struct sql *db, struct alias_place *place, struct err *err)
{
    static const char select[] = "SELECT name, alias FROM alias_moves WHERE (name, alias) > "
                                 "(?1, ?2) ORDER BY name, alias LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc =
        sql_first(db, select, SQL_ARGS(sql_text(place->name), sql_text(place->alias)), &st, err);
    if (rc == 1) {
        sql_col_fixed(st, 0, place->name, sizeof(place->name));
        sql_col_fixed(st, 1, place->alias, sizeof(place->alias));
    }
    return rc;
}

/* The last move of an alias that is no more is its end. *ret: how many moves were forgotten, which
 * ALIASES_HISTORY_MAX bounds. */
static int forget_ended(struct sql *db, const struct alias_place *place, int64_t before_ms,
                        int64_t *ret, struct err *err)
{
    static const char forget[] =
        "DELETE FROM alias_moves WHERE name = ?1 AND alias = ?2 "
        "AND NOT EXISTS (SELECT 1 FROM model_aliases WHERE name = ?1 AND alias = ?2) "
        "AND (SELECT moved_ms FROM alias_moves WHERE name = ?1 AND alias = ?2 "
        "ORDER BY number DESC LIMIT 1) < ?3";
    const int rc =
        sql_run(db, forget,
                SQL_ARGS(sql_text(place->name), sql_text(place->alias), sql_int(before_ms)), err);
    *ret = rc == 0 ? sql_changes(db) : 0;
    return rc;
}

static int sweep_inside(struct sql *db, struct alias_place *place, int steps, int64_t before_ms,
                        int64_t *ret_count, struct err *err)
{
    int64_t moves = 0;
    for (int i = 0; i < steps && moves < ALIASES_HISTORY_MAX; i++) {
        int64_t forgotten = 0;
        int rc = next_place(db, place, err);
        if (rc == 0) {
            *place = (struct alias_place){.name = ""};
        }
        rc = rc == 1 ? forget_ended(db, place, before_ms, &forgotten, err) : rc;
        if (rc < 0 || place->name[0] == '\0') {
            return rc;
        }
        *ret_count += forgotten > 0;
        moves += forgotten;
    }
    return 0;
}

int aliases_sweep(struct store *s, struct alias_place *place, int steps, int64_t before_ms,
                  int64_t *ret_count, struct err *err)
{
    struct alias_place at = *place;
    int64_t count = 0;
    int rc = sql_begin(s->db, err);
    if (rc == 0) {
        rc = sql_end(s->db, sweep_inside(s->db, &at, steps, before_ms, &count, err), err);
    }
    if (rc == 0) {
        *place = at;
        *ret_count = count;
    }
    return rc;
}
