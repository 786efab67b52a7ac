#include "store/datasets.h"

#include "base/mem.h"
#include "store/internal.h"

#define DATASET_COLUMNS "id, name, info, rows, columns, bytes, sha256, created_ms, recipe, summary"
/* What a list shows: names of columns may be long. */
#define DATASET_BRIEF                                                                              \
    "id, name, iif(summary IS NULL, info, NULL), rows, columns, bytes, sha256, created_ms, "       \
    "recipe, summary"

void dataset_row_deinit(struct dataset_row *r)
{
    mem_free(r->name);
    mem_free(r->info);
    mem_free(r->summary);
    *r = (struct dataset_row){.name = NULL};
}

static void deinit_row(void *row)
{
    dataset_row_deinit(row);
}

static int read_row(struct sql_stmt *st, void *row, struct err *err)
{
    struct dataset_row *r = row;
    sql_col_fixed(st, 0, r->id, sizeof(r->id));
    r->name = sql_col_text(st, 1);
    r->info = sql_col_text(st, 2);
    r->rows = sql_col_int(st, 3);
    r->columns = sql_col_int(st, 4);
    r->bytes = sql_col_int(st, 5);
    sql_col_fixed(st, 6, r->sha256, sizeof(r->sha256));
    r->created_ms = sql_col_int(st, 7);
    sql_col_fixed(st, 8, r->recipe, sizeof(r->recipe));
    r->summary = sql_col_text(st, 9);
    return sql_row_check(st, err);
}

static const struct list_kind dataset_kind = {
    .size = sizeof(struct dataset_row),
    .read = read_row,
    .deinit = deinit_row,
};

static int not_found(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "There is no such data set.");
}

static int insert_inside(struct sql *db, const struct dataset_row *row,
                         const struct idempotency_row *answer, struct err *err)
{
    static const char insert[] = "INSERT INTO datasets (" DATASET_COLUMNS
                                 ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    const int rc = sql_run(db, insert,
                           SQL_ARGS(sql_text(row->id), sql_text(row->name), sql_text(row->info),
                                    sql_int(row->rows), sql_int(row->columns), sql_int(row->bytes),
                                    sql_text(row->sha256), sql_int(row->created_ms),
                                    sql_text(row->recipe), sql_text(row->summary)),
                           err);
    return rc < 0 ? rc : idempotency__insert(db, answer, err);
}

/* The newest that is there already of this body, read in this way: 1, *ret_id is its; 0: none. */
static int find_twin(struct sql *db, const struct dataset_row *row, char ret_id[ID_SIZE],
                     struct err *err)
{
    static const char select[] = "SELECT id FROM datasets WHERE sha256 = ?1 AND recipe = ?2 "
                                 "ORDER BY id DESC LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc =
        sql_first(db, select, SQL_ARGS(sql_text(row->sha256), sql_text(row->recipe)), &st, err);
    if (rc <= 0) {
        return rc;
    }
    sql_col_fixed(st, 0, ret_id, ID_SIZE);
    rc = sql_row_check(st, err);
    return rc < 0 ? rc : 1;
}

static int put_inside(struct sql *db, const struct dataset_row *row, char ret_id[ID_SIZE],
                      struct err *err)
{
    const int rc = find_twin(db, row, ret_id, err);
    return rc != 0 ? rc : insert_inside(db, row, NULL, err);
}

int datasets_put(struct store *s, const struct dataset_row *row, char ret_id[ID_SIZE],
                 struct err *err)
{
    const int rc = sql_begin(s->db, err);
    return rc < 0 ? rc : sql_end(s->db, put_inside(s->db, row, ret_id, err), err);
}

int datasets_insert(struct store *s, const struct dataset_row *row,
                    const struct idempotency_row *answer, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, insert_inside(s->db, row, answer, err), err);
}

/* The row that the statement has found, if `rc` says so. */
static int take_row(struct sql_stmt *st, int rc, struct dataset_row *ret, struct err *err)
{
    if (rc <= 0) {
        return rc < 0 ? rc : not_found(err);
    }
    struct dataset_row row = {.name = NULL};
    rc = read_row(st, &row, err);
    if (rc < 0) {
        dataset_row_deinit(&row);
        return rc;
    }
    *ret = row;
    return 0;
}

int datasets_get(struct store *s, const char *id, struct dataset_row *ret, struct err *err)
{
    static const char select[] = "SELECT " DATASET_COLUMNS " FROM datasets WHERE id = ?1";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(s->db, select, SQL_ARGS(sql_text(id)), &st, err);
    return take_row(st, rc, ret, err);
}

int datasets_find(struct store *s, const char *sha256, const char *recipe, struct dataset_row *ret,
                  struct err *err)
{
    static const char select[] = "SELECT " DATASET_COLUMNS " FROM datasets "
                                 "WHERE sha256 = ?1 AND recipe = ?2 ORDER BY id DESC LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(s->db, select, SQL_ARGS(sql_text(sha256), sql_text(recipe)), &st, err);
    return take_row(st, rc, ret, err);
}

int datasets_list(struct store *s, struct store_page page, struct dataset_row **ret,
                  int64_t *ret_count, bool *ret_more, struct err *err)
{
    static const char select[] = "SELECT " DATASET_BRIEF " FROM datasets WHERE id < ?1 "
                                 "ORDER BY id DESC LIMIT ?2";
    int rc = list__check_limit(page.limit, STORE_PAGE_MAX, err);
    if (rc < 0) {
        return rc;
    }
    cleanup_sql struct sql_stmt *st = NULL;
    rc = sql_start(s->db, select, SQL_ARGS(sql_text(list__before(page)), sql_int(page.limit + 1)),
                   &st, err);
    if (rc < 0) {
        return rc;
    }
    void *rows;
    rc = list__read(st, &dataset_kind, page.limit, &rows, ret_count, ret_more, err);
    if (rc == 0) {
        *ret = rows;
    }
    return rc;
}

void datasets_list_free(struct dataset_row *rows, int64_t count)
{
    list__free(&dataset_kind, rows, count);
}

/* 0 when no unfinished job needs it. */
static int check_unheld(struct sql *db, const char *id, struct err *err)
{
    static const char holder[] = "SELECT jobs.id FROM dataset_holds JOIN jobs "
                                 "ON jobs.key = dataset_holds.job "
                                 "WHERE dataset_holds.dataset = ?1 ORDER BY jobs.key LIMIT 1";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, holder, SQL_ARGS(sql_text(id)), &st, err);
    if (rc <= 0) {
        return rc;
    }
    char job[ID_SIZE];
    sql_col_fixed(st, 0, job, sizeof(job));
    return err_set(err, ERR_CONFLICT,
                   "The data set is needed by the job %s, which has not finished.", job);
}

static int delete_inside(struct sql *db, const char *id, struct err *err)
{
    static const char delete[] = "DELETE FROM datasets WHERE id = ?1";
    int rc = check_unheld(db, id, err);
    if (rc < 0) {
        return rc;
    }
    rc = sql_run(db, delete, SQL_ARGS(sql_text(id)), err);
    if (rc < 0) {
        return rc;
    }
    return sql_changes(db) == 0 ? not_found(err) : 0;
}

int datasets_delete(struct store *s, const char *id, struct err *err)
{
    const int rc = sql_begin(s->db, err);
    if (rc < 0) {
        return rc;
    }
    return sql_end(s->db, delete_inside(s->db, id, err), err);
}

int datasets_each(struct store *s, void (*visit)(void *context, const char *id), void *context,
                  struct err *err)
{
    static const char select[] = "SELECT id FROM datasets ORDER BY id";
    return list__each_text(s->db, select, visit, context, err);
}
