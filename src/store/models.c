#include "store/models.h"

#include "base/mem.h"
#include "store/internal.h"

void model_row_deinit(struct model_row *r)
{
    mem_free(r->name);
    mem_free(r->description);
    *r = (struct model_row){.key = 0};
}

static void deinit_row(void *row)
{
    model_row_deinit(row);
}

static int read_row(struct sql_stmt *st, void *row, struct err *err)
{
    struct model_row *r = row;
    r->key = sql_col_int(st, 0);
    r->name = sql_col_text(st, 1);
    r->version = sql_col_int(st, 2);
    sql_col_fixed(st, 3, r->job, sizeof(r->job));
    sql_col_fixed(st, 4, r->dataset, sizeof(r->dataset));
    r->description = sql_col_text(st, 5);
    r->bytes = sql_col_int(st, 6);
    sql_col_fixed(st, 7, r->sha256, sizeof(r->sha256));
    r->created_ms = sql_col_int(st, 8);
    return sql_row_check(st, err);
}

static const struct list_kind model_kind = {
    .size = sizeof(struct model_row),
    .read = read_row,
    .deinit = deinit_row,
};

static int not_found(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "There is no such model.");
}

/* 0 where the name has a version. */
static int check_name(struct sql *db, const char *name, struct err *err)
{
    static const char select[] =
        "SELECT 1 FROM models WHERE name = ?1 AND version IS NOT NULL LIMIT 1";
    int64_t one;
    const int rc = sql_number(db, select, SQL_ARGS(sql_text(name)), &one, err);
    return rc == 0 ? not_found(err) : rc < 0 ? rc : 0;
}

/* Says which is missing: the model, or that version of it. */
static int version_not_found(struct sql *db, const char *name, int64_t version, struct err *err)
{
    const int rc = check_name(db, name, err);
    return rc < 0 ? rc
                  : err_set(err, ERR_NOT_FOUND, "The model \"%.64s\" has no version %lld.", name,
                            (long long)version);
}

/* Staging. */

static int stage_inside(struct sql *db, const char *job, int64_t *ret_key, struct err *err)
{
    static const char select[] =
        "SELECT status IN ('running', 'cancelling') FROM jobs WHERE id = ?1";
    static const char insert[] = "INSERT INTO models (name, job, dataset) "
                                 "SELECT model, id, dataset FROM jobs WHERE id = ?1 RETURNING key";
    int64_t active;
    int rc = sql_number(db, select, SQL_ARGS(sql_text(job)), &active, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    if (!active) {
        return err_set(err, ERR_CONFLICT, "The job is not running; it cannot store a model.");
    }
    rc = sql_number(db, insert, SQL_ARGS(sql_text(job)), ret_key, err);
    return rc < 0 ? rc : 0;
}

int models_stage(struct store *s, const char *job, int64_t *ret_key, struct err *err)
{
    int rc = sql_begin_batched(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t key = 0;
    rc = sql_end_batched(s->db, stage_inside(s->db, job, &key, err), err);
    if (rc == 0) {
        *ret_key = key;
    }
    return rc;
}

int models_stage_import(struct store *s, const char *name, int64_t *ret_key, struct err *err)
{
    static const char insert[] =
        "INSERT INTO models (name, job, dataset) VALUES (?1, '', '') RETURNING key";
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    int64_t key = 0;
    rc = sql_number(s->db, insert, SQL_ARGS(sql_text(name)), &key, err);
    rc = sql_end(s->db, rc < 0 ? rc : 0, err);
    if (rc == 0) {
        *ret_key = key;
    }
    return rc;
}

struct staged {
    int64_t bytes, chunks;
    bool sealed;
};

/* `job` NULL: whichever job has staged it. */
static int find_staged(struct sql *db, int64_t key, const char *job, struct staged *ret,
                       struct err *err)
{
    static const char select[] = "SELECT bytes, chunks, sha256 IS NOT NULL FROM models "
                                 "WHERE key = ?1 AND version IS NULL AND job = ifnull(?2, job)";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, select, SQL_ARGS(sql_int(key), sql_text(job)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : err_set(err, ERR_NOT_FOUND, "There is no such staged model.");
    }
    *ret = (struct staged){
        .bytes = sql_col_int(st, 0),
        .chunks = sql_col_int(st, 1),
        .sealed = sql_col_int(st, 2) != 0,
    };
    return 0;
}

static int find_unsealed(struct sql *db, int64_t key, struct staged *ret, struct err *err)
{
    const int rc = find_staged(db, key, NULL, ret, err);
    if (rc == 0 && ret->sealed) {
        return err_set(err, ERR_CONFLICT, "The staged model is complete already.");
    }
    return rc;
}

static int chunk_inside(struct sql *db, int64_t key, const void *data, size_t size, struct err *err)
{
    static const char insert[] =
        "INSERT INTO model_chunks (model, number, data) VALUES (?1, ?2, ?3)";
    static const char count[] =
        "UPDATE models SET chunks = chunks + 1, bytes = bytes + ?2 WHERE key = ?1";
    struct staged staged = {.bytes = 0};
    int rc = find_unsealed(db, key, &staged, err);
    if (rc == 0) {
        rc = sql_run(db, insert,
                     SQL_ARGS(sql_int(key), sql_int(staged.chunks), sql_blob(data, size)), err);
    }
    if (rc == 0) {
        rc = sql_run(db, count, SQL_ARGS(sql_int(key), sql_int((int64_t)size)), err);
    }
    return rc;
}

int models_stage_chunk(struct store *s, int64_t key, const void *data, size_t size, struct err *err)
{
    if (size == 0) {
        return err_set(err, ERR_INVALID, "A piece of a model must not be empty.");
    }
    if (size > MODELS_CHUNK_MAX) {
        return err_set(err, ERR_TOO_LARGE, "A piece of a model has at most %u bytes, not %zu.",
                       MODELS_CHUNK_MAX, size);
    }
    const int rc = sql_begin_batched(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end_batched(s->db, chunk_inside(s->db, key, data, size, err), err);
}

static int seal_inside(struct sql *db, int64_t key, const char *description, const char *sha256,
                       int64_t bytes, struct err *err)
{
    static const char change[] = "UPDATE models SET description = ?2, sha256 = ?3 WHERE key = ?1";
    struct staged staged = {.bytes = 0};
    const int rc = find_unsealed(db, key, &staged, err);
    if (rc < 0) {
        return rc;
    }
    if (staged.bytes != bytes) {
        return err_set(err, ERR_CORRUPT, "The model has %lld bytes, but %lld have been stored.",
                       (long long)bytes, (long long)staged.bytes);
    }
    return sql_run(db, change, SQL_ARGS(sql_int(key), sql_text(description), sql_text(sha256)),
                   err);
}

int models_stage_seal(struct store *s, int64_t key, const char *description, const char *sha256,
                      int64_t bytes, struct err *err)
{
    const int rc = sql_begin_batched(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end_batched(s->db, seal_inside(s->db, key, description, sha256, bytes, err), err);
}

int models_drop_stage(struct store *s, int64_t key, struct err *err)
{
    static const char delete[] = "DELETE FROM models WHERE key = ?1 AND version IS NULL";
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, sql_run(s->db, delete, SQL_ARGS(sql_int(key)), err), err);
}

int models__drop_staged(struct sql *db, const char *job, struct err *err)
{
    static const char of_job[] = "DELETE FROM models WHERE version IS NULL AND job = ?1";
    static const char of_all[] = "DELETE FROM models WHERE version IS NULL";
    return job == NULL ? sql_run(db, of_all, SQL_NO_ARGS, err)
                       : sql_run(db, of_job, SQL_ARGS(sql_text(job)), err);
}

int models__publish(struct sql *db, int64_t key, const char *job, int64_t now_ms,
                    int64_t *ret_version, struct err *err)
{
    static const char number[] =
        "INSERT INTO model_names (name, next_version) SELECT name, 2 FROM models WHERE key = ?1 "
        "ON CONFLICT (name) DO UPDATE SET next_version = next_version + 1 "
        "RETURNING next_version - 1";
    static const char change[] = "UPDATE models SET version = ?2, created_ms = ?3 WHERE key = ?1";
    struct staged staged = {.bytes = 0};
    int rc = find_staged(db, key, job, &staged, err);
    if (rc < 0) {
        return rc;
    }
    if (!staged.sealed) {
        return err_set(err, ERR_CONFLICT, "The staged model is not complete.");
    }
    int64_t version = 0;
    rc = sql_number(db, number, SQL_ARGS(sql_int(key)), &version, err);
    if (rc > 0) {
        rc = sql_run(db, change, SQL_ARGS(sql_int(key), sql_int(version), sql_int(now_ms)), err);
    }
    if (rc == 0) {
        *ret_version = version;
    }
    return rc;
}

int models_next_version(struct store *s, const char *name, int64_t *ret, struct err *err)
{
    static const char select[] = "SELECT next_version FROM model_names WHERE name = ?1";
    int64_t next = 1;
    const int rc = sql_number(s->db, select, SQL_ARGS(sql_text(name)), &next, err);
    if (rc >= 0) {
        *ret = next;
    }
    return rc < 0 ? rc : 0;
}

int models_publish_import(struct store *s, int64_t key, int64_t now_ms,
                          const struct idempotency_row *answer, int64_t *ret_version,
                          struct err *err)
{
    int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    rc = models__publish(s->db, key, "", now_ms, ret_version, err);
    rc = rc == 0 ? idempotency__insert(s->db, answer, err) : rc;
    return sql_end(s->db, rc, err);
}

/* Published models. */

int models_get(struct store *s, const char *name, int64_t version, struct model_row *ret,
               struct err *err)
{
    static const char exact[] =
        "SELECT " MODEL_COLUMNS " FROM models WHERE name = ?1 AND version = ?2";
    static const char newest[] = "SELECT " MODEL_COLUMNS " FROM models WHERE name = ?1 "
                                 "AND version IS NOT NULL ORDER BY version DESC LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = version == 0
                 ? sql_first(s->db, newest, SQL_ARGS(sql_text(name)), &st, err)
                 : sql_first(s->db, exact, SQL_ARGS(sql_text(name), sql_int(version)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : version_not_found(s->db, name, version, err);
    }
    struct model_row row = {.key = 0};
    rc = read_row(st, &row, err);
    if (rc < 0) {
        model_row_deinit(&row);
        return rc;
    }
    *ret = row;
    return 0;
}

int models_list(struct store *s, struct store_page page, struct model_row **ret, int64_t *ret_count,
                bool *ret_more, struct err *err)
{
    static const char select[] =
        "SELECT " MODEL_COLUMNS " FROM model_names JOIN models ON models.name = model_names.name "
        "AND models.version = (SELECT max(v.version) FROM models v WHERE v.name = model_names.name)"
        " WHERE model_names.name > ifnull(?1, '') ORDER BY model_names.name LIMIT ?2";
    int rc = list__check_limit(page.limit, STORE_PAGE_MAX, err);
    if (rc < 0) {
        return rc;
    }
    cleanup_sql struct sql_stmt *st = NULL;
    rc =
        sql_start(s->db, select, SQL_ARGS(sql_text(page.after), sql_int(page.limit + 1)), &st, err);
    if (rc < 0) {
        return rc;
    }
    void *rows;
    rc = list__read(st, &model_kind, page.limit, &rows, ret_count, ret_more, err);
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

int models__read_list(struct sql_stmt *st, struct model_row **ret, int64_t *ret_count,
                      struct err *err)
{
    void *rows;
    const int rc = list__read(st, &model_kind, INT64_MAX, &rows, ret_count, NULL, err);
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

int models_versions(struct store *s, const char *name, int64_t before, struct model_row **ret,
                    int64_t *ret_count, bool *ret_more, struct err *err)
{
    static const char select[] = "SELECT " MODEL_COLUMNS " FROM models WHERE name = ?1 "
                                 "AND version IS NOT NULL AND (?2 = 0 OR version < ?2) "
                                 "ORDER BY version DESC";
    cleanup_sql struct sql_stmt *st = NULL;
    void *rows = NULL;
    int rc = check_name(s->db, name, err);
    if (rc == 0) {
        rc = sql_start(s->db, select, SQL_ARGS(sql_text(name), sql_int(before)), &st, err);
    }
    if (rc == 0) {
        rc = list__read(st, &model_kind, INT64_MAX, &rows, ret_count, ret_more, err);
    }
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

int models_versions_brief(struct store *s, const char *name, struct model_row **ret,
                          int64_t *ret_count, struct err *err)
{
    static const char select[] = "SELECT key, name, version, job, dataset, NULL, bytes, sha256, "
                                 "created_ms FROM models WHERE name = ?1 "
                                 "AND version IS NOT NULL ORDER BY version DESC";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = check_name(s->db, name, err);
    if (rc == 0) {
        rc = sql_start(s->db, select, SQL_ARGS(sql_text(name)), &st, err);
    }
    return rc < 0 ? rc : models__read_list(st, ret, ret_count, err);
}

int models_all_brief(struct store *s, int64_t limit, struct model_row **ret, int64_t *ret_count,
                     struct err *err)
{
    /* Of an index alone: descriptions are long. */
    static const char select[] = "SELECT key, name, version, '', '', NULL, 0, '', 0 FROM models "
                                 "WHERE version IS NOT NULL ORDER BY name, version LIMIT ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_start(s->db, select, SQL_ARGS(sql_int(limit)), &st, err);
    return rc < 0 ? rc : models__read_list(st, ret, ret_count, err);
}

void models_list_free(struct model_row *rows, int64_t count)
{
    list__free(&model_kind, rows, count);
}

/* 0 when no unfinished job begins with it. */
static int check_unheld(struct sql *db, const char *name, int64_t version, struct err *err)
{
    static const char holder[] =
        "SELECT jobs.id FROM models JOIN model_holds ON model_holds.model = models.key "
        "JOIN jobs ON jobs.key = model_holds.job "
        "WHERE models.name = ?1 AND models.version = ?2 ORDER BY jobs.key LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, holder, SQL_ARGS(sql_text(name), sql_int(version)), &st, err);
    if (rc <= 0) {
        return rc;
    }
    char job[ID_SIZE];
    sql_col_fixed(st, 0, job, sizeof(job));
    return err_set(err, ERR_CONFLICT,
                   "The job %s, which has not finished, begins with this version.", job);
}

static int delete_inside(struct sql *db, const char *name, int64_t version, struct err *err)
{
    static const char delete[] = "DELETE FROM models WHERE name = ?1 AND version = ?2";
    int rc = aliases__check_free(db, name, version, err);
    if (rc == 0) {
        rc = check_unheld(db, name, version, err);
    }
    if (rc == 0) {
        rc = sql_run(db, delete, SQL_ARGS(sql_text(name), sql_int(version)), err);
    }
    if (rc < 0) {
        return rc;
    }
    return sql_changes(db) == 0 ? version_not_found(db, name, version, err) : 0;
}

int models_delete(struct store *s, const char *name, int64_t version, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, delete_inside(s->db, name, version, err), err);
}

int models_pin(struct store *s, int64_t key, bool pinned, struct err *err)
{
    static const char update[] =
        "UPDATE models SET pinned = ?2 WHERE key = ?1 AND version IS NOT NULL";
    const int rc = sql_begin(s->db, err);
    return rc < 0
               ? rc
               : sql_end(s->db,
                         sql_run(s->db, update, SQL_ARGS(sql_int(key), sql_int(pinned)), err), err);
}

int models_unpin(struct store *s, const char *name, struct err *err)
{
    static const char update[] = "UPDATE models SET pinned = 0 WHERE name = ?1 AND pinned = 1";
    const int rc = sql_begin(s->db, err);
    return rc < 0 ? rc : sql_end(s->db, sql_run(s->db, update, SQL_ARGS(sql_text(name)), err), err);
}

int models_pinned(struct store *s, struct model_row **ret, int64_t *ret_count, struct err *err)
{
    static const char select[] =
        "SELECT " MODEL_COLUMNS " FROM models WHERE pinned = 1 ORDER BY key";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_start(s->db, select, SQL_NO_ARGS, &st, err);
    return rc < 0 ? rc : models__read_list(st, ret, ret_count, err);
}

int models_chunk(struct store *s, int64_t key, int64_t index, void **ret, size_t *ret_size,
                 struct err *err)
{
    static const char select[] = "SELECT data FROM models LEFT JOIN model_chunks "
                                 "ON model_chunks.model = models.key AND model_chunks.number = ?2 "
                                 "WHERE models.key = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_first(s->db, select, SQL_ARGS(sql_int(key), sql_int(index)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : not_found(err);
    }
    size_t size = 0;
    void *data = sql_col_blob(st, 0, &size);
    rc = sql_row_check(st, err);
    if (rc < 0 || data == NULL) {
        return rc; /* NULL: the model has no chunk of this number */
    }
    *ret = data;
    *ret_size = size;
    return 1;
}
