/* The promotion of a job's model, decided in the transaction that ends the job. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "store/internal.h"

/* What the alias stands for, and the metrics that its job found. */
struct present_version {
    int64_t version;      /* 0: nothing */
    struct json *metrics; /* NULL where the alias stands for nothing; JSON null: not known */
};

static int read_metrics(const char *description, struct json **ret, struct err *err)
{
    cleanup_json struct json *j = NULL;
    const int rc = description != NULL ? json_parse(description, strlen(description), &j, err) : 0;
    if (rc == -ERR_NO_MEMORY) {
        return rc;
    }
    const struct json *metrics = rc == 0 ? json_get(json_get(j, "result"), "metrics") : NULL;
    *ret = metrics != NULL ? json_copy(metrics) : json_new_null();
    return *ret != NULL ? 0 : err_no_memory(err);
}

static int find_present(struct sql *db, const char *name, const char *alias,
                        struct present_version *ret, struct err *err)
{
    static const char select[] = "SELECT m.version, m.description FROM model_aliases a "
                                 "JOIN models m ON m.key = a.model "
                                 "WHERE a.name = ?1 AND a.alias = ?2";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(db, select, SQL_ARGS(sql_text(name), sql_text(alias)), &st, err);
    if (rc <= 0) {
        return rc;
    }
    ret->version = sql_col_int(st, 0);
    cleanup_mem char *description = sql_col_text(st, 1);
    rc = sql_row_check(st, err);
    return rc < 0 ? rc : read_metrics(description, &ret->metrics, err);
}

/* What became of it, as the job shows it. */
struct outcome {
    bool promoted;
    const char *reason;
    char detail[256]; /* "": none */
    int64_t from, to; /* versions */
    struct json *conditions;
};

static struct json *outcome_to_json(struct outcome *o, const char *alias)
{
    struct json *j = json_new_object();
    json_set_string(j, "alias", alias);
    json_set_bool(j, "promoted", o->promoted);
    json_set_string(j, "reason", o->reason);
    json_set_string(j, "detail", o->detail[0] != '\0' ? o->detail : NULL);
    json_set(j, "from", o->from > 0 ? json_new_number((double)o->from) : json_new_null());
    json_set_int(j, "to", o->to);
    json_set(j, "conditions", o->conditions);
    o->conditions = NULL;
    return j;
}

static int tell(struct sql *db, int64_t job, const struct outcome *o, const char *alias,
                const char *data, int64_t now_ms, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (o->promoted) {
        buf_printf(&text, "The alias \"%s\" stands for version %lld.", alias, (long long)o->to);
    } else {
        buf_printf(&text, "Version %lld was not promoted to the alias \"%s\": %s", (long long)o->to,
                   alias, o->detail[0] != '\0' ? o->detail : "a condition does not hold.");
    }
    const struct event_new event = {.level = o->promoted ? "info" : "warning",
                                    .type = "message",
                                    .message = text.data,
                                    .data = data};
    return text.failed ? err_no_memory(err) : events__append(db, job, &event, now_ms, NULL, err);
}

static int record(struct sql *db, int64_t job, struct outcome *o, const char *alias, int64_t now_ms,
                  struct err *err)
{
    static const char change[] = "UPDATE jobs SET promotion = ?2 WHERE key = ?1";
    cleanup_json struct json *j = outcome_to_json(o, alias);
    cleanup_mem char *text = json_print(j);
    if (text == NULL) {
        return err_no_memory(err);
    }
    const int rc = sql_run(db, change, SQL_ARGS(sql_int(job), sql_text(text)), err);
    return rc < 0 ? rc : tell(db, job, o, alias, text, now_ms, err);
}

/* Moves the alias where that is decided. A refusal of the alias is an outcome, no failure. */
static int apply(struct sql *db, const struct promotion_target *to, const struct job_promotion *p,
                 bool met, int64_t now_ms, struct outcome *o, struct err *err)
{
    const struct alias_change c = {
        .name = to->model, .alias = p->spec->alias, .expected = ALIAS_ANY};
    struct err why = {.code = ERR_OK};
    o->reason = "conditions_not_met";
    if (!met) {
        return 0;
    }
    if (!p->loaded) {
        o->reason = "not_loaded";
        snprintf(o->detail, sizeof(o->detail), "The version cannot be loaded: %.200s",
                 p->failure != NULL ? p->failure : "");
        utf8_mend(o->detail);
        return 0;
    }
    int rc = aliases__set(db, &c, to->version, ALIAS_PROMOTION, to->job, now_ms, &why);
#ifdef KRRD_PLANT_MOVED_TWICE
    rc = rc == 0 && o->from > 0
             ? aliases__set(db, &c, o->from, ALIAS_PROMOTION, to->job, now_ms, &why)
             : rc;
    rc = rc == 0 ? aliases__set(db, &c, to->version, ALIAS_PROMOTION, to->job, now_ms, &why) : rc;
#endif
    if (rc == -ERR_CONFLICT) {
        o->reason = "refused";
        snprintf(o->detail, sizeof(o->detail), "%.250s", why.detail);
        utf8_mend(o->detail);
        return 0;
    }
    if (rc < 0) {
        *err = why;
        return rc;
    }
    o->promoted = true;
    o->reason = "promoted";
    return 0;
}

int promotions__decide(struct sql *db, const struct promotion_target *to,
                       const struct job_promotion *p, int64_t now_ms, struct err *err)
{
    struct present_version present = {.version = 0};
    struct outcome o = {.to = to->version};
    struct err unwanted;
    err = err != NULL ? err : &unwanted;
    int rc = find_present(db, to->model, p->spec->alias, &present, err);
    if (rc == 0) {
        o.from = present.version;
        bool met = promote_decide(p->spec, p->metrics, present.metrics, &o.conditions);
#ifdef KRRD_PLANT_OPEN_GATE /* Only in the daemon that tests/chaos must catch; so the next one. */
        met = true;
#endif
        rc = apply(db, to, p, met, now_ms, &o, err);
    }
    if (rc == 0) {
        rc = record(db, to->key, &o, p->spec->alias, now_ms, err);
    }
    json_free(o.conditions);
    json_free(present.metrics);
    return rc;
}
