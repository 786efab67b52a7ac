/* Lists of jobs: however many there are, a page costs a bounded number of rows looked at, so that
 * the daemon, which reads them on its loop, stalls for some milliseconds at most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/internal.h"

static void deinit_row(void *row)
{
    job_row_deinit(row);
}

static const struct list_kind job_kind = {
    .size = sizeof(struct job_row),
    .read = jobs__read,
    .deinit = deinit_row,
};

/*
 * By model and by status: the newest ids of each status wanted, at most a page of each, along an
 * index that has them in this order; the newest of all these are the page. ?1 is the id that all
 * are smaller than, ?2 the number wanted, ?3 the statuses as ",queued,running,", NULL for any, and
 * ?4 the model.
 */
/* clang-format off */
#define NEWEST(condition, name)                                                                    \
    "SELECT id FROM (SELECT id FROM jobs WHERE " condition                                         \
    "status = iif(?3 IS NULL OR instr(?3, '," name ",'), '" name "', NULL) AND id < ?1 "           \
    "ORDER BY id DESC LIMIT ?2) "
#define OF_EACH_STATUS(condition)                                                                  \
    "SELECT " JOB_COLUMNS " FROM jobs WHERE id IN ("                                               \
    NEWEST(condition, "queued") "UNION ALL " NEWEST(condition, "running") "UNION ALL "             \
    NEWEST(condition, "paused") "UNION ALL " NEWEST(condition, "cancelling") "UNION ALL "          \
    NEWEST(condition, "succeeded") "UNION ALL " NEWEST(condition, "failed") "UNION ALL "           \
    NEWEST(condition, "cancelled") ") ORDER BY id DESC LIMIT ?2"
/* clang-format on */
static const char list_all[] =
    "SELECT " JOB_COLUMNS " FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
static const char list_status[] = OF_EACH_STATUS("");
static const char list_model[] = OF_EACH_STATUS("model = ?4 AND ");

static void print_statuses(unsigned statuses, struct buf *to)
{
    for (int i = 0; statuses != 0 && i < JOB_STATUS_COUNT_; i++) {
        if ((statuses >> i & 1) != 0) {
            buf_printf(to, "%s%s,", to->len == 0 ? "," : "", job_status_name((enum job_status)i));
        }
    }
}

static int list_by_columns(struct sql *db, const struct jobs_filter *filter, struct store_page page,
                           const char *statuses, struct jobs_page *ret, struct err *err)
{
    const struct sql_value args[] = {sql_text(list__before(page)), sql_int(page.limit + 1),
                                     sql_text(statuses), sql_text(filter->model)};
    const bool by_model = filter->model != NULL;
    const char *query = by_model ? list_model : statuses != NULL ? list_status : list_all;
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = sql_start(db, query, args, by_model ? 4 : statuses != NULL ? 3 : 2, &st, err);
    void *rows = NULL;
    if (rc == 0) {
        rc = list__read(st, &job_kind, page.limit, &rows, &ret->count, &ret->more, err);
    }
    if (rc == 0) {
        ret->rows = rows;
    }
    return rc;
}

/* ---- as the queue has them ---- */

/* The place that a page begins behind: of page.after, wherever that job is by now. */
static int find_start(struct sql *db, const char *after, int64_t *ret_priority, int64_t *ret_key,
                      struct err *err)
{
    static const char select[] = "SELECT priority, key FROM jobs WHERE id = ?1";
    *ret_priority = INT64_MAX;
    *ret_key = 0;
    if (after == NULL || after[0] == '\0') {
        return 0;
    }
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(db, select, SQL_ARGS(sql_text(after)), &st, err);
    if (rc <= 0) {
        return rc < 0 ? rc : jobs__not_found(err);
    }
    *ret_priority = sql_col_int(st, 0);
    *ret_key = sql_col_int(st, 1);
    return sql_row_check(st, err);
}

static int list_in_queue(struct sql *db, struct store_page page, struct jobs_page *ret,
                         struct err *err)
{
    static const char select[] =
        "SELECT " JOB_COLUMNS " FROM jobs WHERE key IN ("
        "SELECT key FROM (SELECT key FROM jobs INDEXED BY jobs_queue WHERE status = 'queued' "
        "AND priority = ?1 AND key > ?2 ORDER BY key LIMIT ?3) UNION ALL "
        "SELECT key FROM (SELECT key FROM jobs INDEXED BY jobs_queue WHERE status = 'queued' "
        "AND priority < ?1 ORDER BY priority DESC, key LIMIT ?3)) "
        "ORDER BY priority DESC, key LIMIT ?3";
    int64_t priority, key;
    int rc = find_start(db, page.after, &priority, &key, err);
    cleanup_sql struct sql_stmt *st = NULL;
    rc = rc < 0 ? rc
                : sql_start(db, select,
                            SQL_ARGS(sql_int(priority), sql_int(key), sql_int(page.limit + 1)), &st,
                            err);
    void *rows = NULL;
    rc = rc < 0 ? rc : list__read(st, &job_kind, page.limit, &rows, &ret->count, &ret->more, err);
    ret->rows = rc == 0 ? rows : NULL;
    return rc;
}

/* ---- by metadata ---- */

static void print_pairs(const struct jobs_filter *filter, struct buf *to)
{
    for (int i = 0; i < filter->metadata; i++) {
        buf_char(to, i == 0 ? '{' : ',');
        buf_json_string(to, filter->names[i]);
        buf_char(to, ':');
        buf_json_string(to, filter->values[i]);
    }
    buf_char(to, '}');
}

/* Appends the job where it fits the whole filter, and adds its bytes. */
static int match(struct sql *db, const char *id, const struct jobs_filter *filter,
                 const char *statuses, const char *pairs, struct jobs_page *page, size_t *bytes,
                 struct err *err)
{
    static const char select[] =
        "SELECT " JOB_COLUMNS " FROM jobs WHERE id = ?1 AND (?2 IS NULL OR model = ?2) "
        "AND (?3 IS NULL OR instr(?3, ',' || status || ',')) "
        "AND NOT EXISTS (SELECT 1 FROM json_each(?4) AS wanted WHERE NOT EXISTS "
        "(SELECT 1 FROM job_metadata AS m WHERE m.job = ?1 AND m.name = wanted.key "
        "AND m.value = wanted.value))";
    cleanup_sql struct sql_stmt *st = NULL;
    const int rc = sql_first(
        db, select,
        SQL_ARGS(sql_text(id), sql_text(filter->model), sql_text(statuses), sql_text(pairs)), &st,
        err);
    if (rc <= 0) {
        return rc;
    }
    struct job_row *row = &page->rows[page->count];
    *row = (struct job_row){.reason = NULL};
    page->count++;
    *bytes += sql_row_bytes(st);
    return jobs__read(st, row, err);
}

/* The pair that the fewest jobs have, as far as a page would look. */
static int rarest_pair(struct sql *db, const struct jobs_filter *filter, int *ret, struct err *err)
{
    static const char count[] = "SELECT count(*) FROM (SELECT 1 FROM job_metadata WHERE name = ?1 "
                                "AND value = ?2 LIMIT ?3)";
    int64_t least = INT64_MAX;
    *ret = 0;
    for (int i = 0; i < filter->metadata && filter->metadata > 1; i++) {
        int64_t jobs = 0;
        const int rc = sql_number(db, count,
                                  SQL_ARGS(sql_text(filter->names[i]), sql_text(filter->values[i]),
                                           sql_int(JOBS_VISITED_MAX)),
                                  &jobs, err);
        if (rc < 0) {
            return rc;
        }
        *ret = jobs < least ? i : *ret;
        least = jobs < least ? jobs : least;
    }
    return 0;
}

/* Goes along the jobs that have one of the pairs until the page is full, or enough were looked at.
 */
static int list_by_metadata(struct sql *db, const struct jobs_filter *filter,
                            struct store_page page, const char *statuses, const char *pairs,
                            struct jobs_page *ret, struct err *err)
{
    static const char walk[] = "SELECT job FROM job_metadata WHERE name = ?1 AND value = ?2 "
                               "AND job < ?3 ORDER BY job DESC";
    cleanup_sql struct sql_stmt *st = NULL;
    int pair;
    int rc = rarest_pair(db, filter, &pair, err);
    if (rc == 0) {
        rc = sql_start(db, walk,
                       SQL_ARGS(sql_text(filter->names[pair]), sql_text(filter->values[pair]),
                                sql_text(list__before(page))),
                       &st, err);
    }
    ret->rows = rc == 0 ? mem_zarray((size_t)page.limit, sizeof(*ret->rows)) : NULL;
    if (rc == 0 && ret->rows == NULL) {
        rc = err_no_memory(err);
    }
    size_t bytes = 0;
    for (int visited = 0; rc == 0; visited++) {
        char id[ID_SIZE];
        const int row = sql_next(st, err);
        if (row <= 0) {
            return row;
        }
        ret->more =
            ret->count == page.limit || visited == JOBS_VISITED_MAX || bytes > STORE_PAGE_BYTES;
        if (ret->more) {
            return 0;
        }
        sql_col_fixed(st, 0, id, sizeof(id));
        rc = sql_row_check(st, err);
        rc = rc == 0 ? match(db, id, filter, statuses, pairs, ret, &bytes, err) : rc;
        memcpy(ret->last, id, sizeof(id));
    }
    return rc;
}

/* ---- places in the queue ---- */

struct place {
    int64_t priority, key;
    int64_t row;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    if (p->priority != q->priority) {
        return p->priority > q->priority ? -1 : 1;
    }
    return p->key < q->key ? -1 : p->key > q->key;
}

/* The page's queued jobs as the queue has them. */
static int find_places(struct sql *db, const struct jobs_page *page, struct place *places,
                       int64_t *ret_count, struct err *err)
{
    static const char select[] = "SELECT key FROM jobs WHERE id = ?1";
    int rc = 0;
    *ret_count = 0;
    for (int64_t i = 0; rc >= 0 && i < page->count; i++) {
        struct place *p = &places[*ret_count];
        if (page->rows[i].status == JOB_QUEUED) {
            *p = (struct place){.priority = page->rows[i].priority, .row = i};
            rc = sql_number(db, select, SQL_ARGS(sql_text(page->rows[i].id)), &p->key, err);
            *ret_count += rc > 0;
        }
    }
    if (*ret_count > 0) {
        qsort(places, (size_t)*ret_count, sizeof(*places), compare_places);
    }
    return rc < 0 ? rc : 0;
}

/* How many of the jobs passed so far ask for a device. Few devices are ever asked for. */
struct tally {
    char device[JOBS_DEVICE_SIZE];
    int64_t count;
};
enum { TALLIES_MAX = 64 };

static void add(struct tally *tallies, const char *device, int64_t count)
{
    for (int i = 0; i < TALLIES_MAX; i++) {
        if (tallies[i].count == 0) {
            snprintf(tallies[i].device, sizeof(tallies[i].device), "%s", device);
        }
        if (strcmp(tallies[i].device, device) == 0) {
            tallies[i].count += count;
            return;
        }
    }
}

static int64_t count_competing(const struct tally *tallies, const char *device)
{
    int64_t sum = 0;
    for (int i = 0; i < TALLIES_MAX && tallies[i].count > 0; i++) {
        sum += jobs__compete(tallies[i].device, device) ? tallies[i].count : 0;
    }
    return sum;
}

/* All in whole blocks (job_queue.c) before the place's own. */
static int count_blocks(struct sql *db, const struct place *place, struct tally *tallies,
                        struct err *err)
{
    static const char select[] =
        "SELECT wanted_device, sum(jobs) FROM queue_blocks "
        "WHERE priority > ?1 OR (priority = ?1 AND block < ?2 >> 8) GROUP BY wanted_device";
    cleanup_sql struct sql_stmt *st = NULL;
    int rc =
        sql_start(db, select, SQL_ARGS(sql_int(place->priority), sql_int(place->key)), &st, err);
    while (rc == 0) {
        char device[JOBS_DEVICE_SIZE];
        const int row = sql_next(st, err);
        if (row <= 0) {
            return row;
        }
        sql_col_fixed(st, 0, device, sizeof(device));
        add(tallies, device, sql_col_int(st, 1));
        rc = sql_row_check(st, err);
    }
    return rc;
}

/* Walks along the queue from the block of the first of the places, which are of one priority, to
 * the last. */
static int walk_queue(struct sql *db, struct jobs_page *page, const struct place *places,
                      int64_t count, struct err *err)
{
    static const char walk[] = "SELECT key, wanted_device FROM jobs INDEXED BY jobs_queue "
                               "WHERE status = 'queued' AND priority = ?1 AND key >= ?2 & ~255 "
                               "ORDER BY key LIMIT ?3";
    struct tally tallies[TALLIES_MAX] = {{.count = 0}};
    cleanup_sql struct sql_stmt *st = NULL;
    int rc = count_blocks(db, places, tallies, err);
    rc = rc < 0 ? rc
                : sql_start(db, walk,
                            SQL_ARGS(sql_int(places->priority), sql_int(places->key),
                                     sql_int(JOBS_PLACES_MAX)),
                            &st, err);
    int64_t at = 0;
    while (rc == 0 && at < count) {
        char device[JOBS_DEVICE_SIZE];
        const int row = sql_next(st, err);
        if (row <= 0) {
            return row;
        }
        sql_col_fixed(st, 1, device, sizeof(device));
        if (sql_col_int(st, 0) == places[at].key) {
            page->positions[places[at++].row] = count_competing(tallies, device);
        }
        add(tallies, device, 1);
        rc = sql_row_check(st, err);
    }
    return rc;
}

/* One walk for each priority. */
static int walk_all(struct sql *db, struct jobs_page *page, const struct place *places,
                    int64_t count, struct err *err)
{
    int rc = 0;
    for (int64_t first = 0, end = 0; rc == 0 && first < count; first = end) {
        while (end < count && places[end].priority == places[first].priority) {
            end++;
        }
        rc = walk_queue(db, page, places + first, end - first, err);
    }
    return rc;
}

static int find_positions(struct sql *db, struct jobs_page *page, struct err *err)
{
    cleanup_mem struct place *places = mem_array((size_t)page->count, sizeof(*places));
    page->positions = mem_array((size_t)page->count, sizeof(*page->positions));
    if (places == NULL || page->positions == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < page->count; i++) {
        page->positions[i] = -1;
    }
    int64_t count;
    const int rc = find_places(db, page, places, &count, err);
    return rc < 0 ? rc : walk_all(db, page, places, count, err);
}

/* ---- a page ---- */

void jobs_page_deinit(struct jobs_page *p)
{
    list__free(&job_kind, p->rows, p->count);
    mem_free(p->positions);
    *p = (struct jobs_page){.count = 0};
}

static int read_page(struct sql *db, const struct jobs_filter *filter, struct store_page page,
                     struct jobs_page *ret, struct err *err)
{
    struct buf statuses cleanup_buf = BUF_INIT, pairs cleanup_buf = BUF_INIT;
    print_statuses(filter->statuses, &statuses);
    if (filter->metadata > 0) {
        print_pairs(filter, &pairs);
    }
    if (statuses.failed || pairs.failed) {
        return err_no_memory(err);
    }
    int rc = filter->in_queue ? list_in_queue(db, page, ret, err)
             : filter->metadata > 0
                 ? list_by_metadata(db, filter, page, statuses.data, pairs.data, ret, err)
                 : list_by_columns(db, filter, page, statuses.data, ret, err);
    if (rc == 0 && ret->count > 0 && (ret->last[0] == '\0' || !ret->more)) {
        memcpy(ret->last, ret->rows[ret->count - 1].id, ID_SIZE);
    }
    return rc < 0 || ret->count == 0 ? rc : find_positions(db, ret, err);
}

int jobs_list(struct store *s, const struct jobs_filter *filter, struct store_page page,
              struct jobs_page *ret, struct err *err)
{
    struct jobs_page found = {.count = 0};
    int rc = list__check_limit(page.limit, STORE_PAGE_MAX, err);
    rc = rc == 0 ? read_page(s->db, filter, page, &found, err) : rc;
    if (rc < 0) {
        jobs_page_deinit(&found);
        return rc;
    }
    *ret = found;
    return 0;
}
