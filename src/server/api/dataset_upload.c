#include "server/api/dataset_upload.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "server/api/dataset_view.h"
#include "server/api/once.h"
#include "server/described.h"
#include "server/offload.h"
#include "server/storage.h"

/* Temporaries beside the data sets' files: swept at start like any file that no row names. */
static const char temporary_prefix[] = "ingest-";

struct upload {
    struct app *app;
    struct once *once;
    struct request *request; /* who waits: paused, or for the answer; NULL: nobody */
    struct buf arriving;
    int64_t received;      /* bytes of the body */
    bool finished;         /* the body is complete */
    bool released;         /* the request ended before that */
    bool busy;             /* a thread is at work: what follows is its own */
    atomic_bool abandoned; /* nobody waits for what is read in */

    struct buf block;
    int fd; /* of tmp_path; -1 once closed, and then the file is gone or about to go */
    char tmp_path[APP_PATH_MAX];
    char path[APP_PATH_MAX];
    struct sha256 *digest;
    char expected[SHA256_HEX_SIZE]; /* what it is to be; "": anything */
    struct ingest_options options;
    char *targets[UPLOAD_TARGETS_MAX], *ignored[UPLOAD_IGNORED_MAX];
    struct dataset_row row; /* filled in as things become known */
    bool ingested;          /* there is a file at `path` */
    bool twin;              /* `row` was there before, of the same body */
    struct dataset_info info;
    char *answer; /* what tells of `row` */
    int rc;
    struct err err;
};

/* What a slow machine reads of a CSV in a second. */
#define INGEST_BYTES_PER_S (8e6)

/* ---- Making and freeing. ---- */

/* Copies of texts; *ret_count is how many there are, also where memory lacks. */
static bool copy_texts(const char *const *from, int count, char **to, int64_t *ret_count)
{
    for (*ret_count = 0; *ret_count < count; ++*ret_count) {
        to[*ret_count] = mem_strdup(from[*ret_count]);
        if (to[*ret_count] == NULL) {
            return false;
        }
    }
    return true;
}

/* The reserve is kept from what an upload becomes, too: on the other thread. */
static int ask_room(void *context, int fd, int64_t bytes, struct err *err)
{
    return storage_room_at(context, fd, bytes, err);
}

static int copy_wish(struct upload *u, const struct upload_wish *wish, struct err *err)
{
    u->options = (struct ingest_options){
        .format = wish->format,
        .header = wish->header,
        .gzip = wish->gzip,
        .task = wish->task,
        .one_hot = wish->one_hot,
        .decimal_comma = wish->decimal_comma,
        .missing = wish->missing,
        .max_unpacked_bytes = u->app->config.max_unpacked_bytes,
        .max_rows = u->app->config.max_rows,
        .max_columns = u->app->config.max_columns,
        .temporary_prefix = temporary_prefix,
        .room = ask_room,
        .room_context = u->app,
        .abandoned = &u->abandoned,
    };
    snprintf(u->expected, sizeof(u->expected), "%s", wish->sha256 != NULL ? wish->sha256 : "");
    const int rc = upload_wish_recipe(wish, u->row.recipe, err);
    if (rc != 0) {
        return rc;
    }
    u->row.name = mem_strdup(wish->name != NULL ? wish->name : u->row.id);
    struct ingest_options *o = &u->options;
    const bool ok = u->row.name != NULL &&
                    copy_texts(wish->targets, wish->target_count, u->targets, &o->target_count) &&
                    copy_texts(wish->ignored, wish->ignored_count, u->ignored, &o->ignored_count);
    return ok ? 0 : err_no_memory(err);
}

static struct upload *upload_free(struct upload *u)
{
    if (u->fd >= 0) {
        offload_discard(u->app, u->fd, u->tmp_path);
    }
    once_free(u->once);
    sha256_free(u->digest);
    for (int64_t i = 0; i < u->options.target_count; i++) {
        mem_free(u->targets[i]);
    }
    for (int64_t i = 0; i < u->options.ignored_count; i++) {
        mem_free(u->ignored[i]);
    }
    dataset_row_deinit(&u->row);
    dataset_info_deinit(&u->info);
    mem_free(u->answer);
    buf_deinit(&u->arriving);
    buf_deinit(&u->block);
    u->app->uploads--;
    rate_add(&u->app->upload_rate, clock_monotonic_s(), 1.0);
    return mem_free(u);
}

/* The file that the body goes to; none for a body that is digested alone. */
static int open_file(struct upload *u, struct err *err)
{
    app_temporary_path(u->app, u->row.id, u->tmp_path);
    app_dataset_path(u->app, u->row.id, u->path);
    if (once_answered(u->once)) {
        return 0;
    }
    u->fd = open(u->tmp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return u->fd >= 0 ? 0 : err_errno(err, "store the upload");
}

int upload_new(struct app *app, const struct upload_wish *wish, struct once *once,
               struct upload **ret, struct err *err)
{
    struct upload *u = mem_zalloc(sizeof(*u));
    if (u == NULL) {
        once_free(once);
        return err_no_memory(err);
    }
    u->app = app;
    u->once = once;
    u->fd = -1;
    app->uploads++;
    u->row.created_ms = clock_wall_ms();
    id_new(&app->ids, "ds", u->row.created_ms, u->row.id);
    int rc = open_file(u, err);
    rc = rc == 0 ? copy_wish(u, wish, err) : rc;
    u->digest = sha256_new();
    if (rc == 0 && u->digest == NULL) {
        rc = err_no_memory(err);
    }
    if (rc != 0) {
        upload_free(u);
        return rc;
    }
    *ret = u;
    return 0;
}

void upload_release(struct upload *u)
{
    u->released = true;
    u->request = NULL;
    if (!u->busy) {
        upload_free(u);
    }
}

/* ---- Reading in. ---- */

/* Digests and writes the block; on the other thread. */
static void write_block(struct upload *u)
{
    sha256_update(u->digest, u->block.data, u->block.len);
    u->rc = storage_room_at(u->app, u->fd, (int64_t)u->block.len, &u->err);
    if (u->rc == 0) {
        u->rc = file_write_all(u->fd, u->block.data, u->block.len, &u->err);
    }
    buf_clear(&u->block);
}

/* What arrived is what the client meant to send, where it has said that. */
static int check_digest(struct upload *u)
{
    sha256_hex(u->digest, u->row.sha256);
    return u->expected[0] == '\0' || strcmp(u->expected, u->row.sha256) == 0
               ? 0
               : err_at(&u->err, ERR_INVALID, "#/path/id", "What arrived has another SHA-256: %s.",
                        u->row.sha256);
}

/* The row and the answer, which both name every column: on the other thread as well. */
static int describe(struct upload *u)
{
    struct json *info cleanup_json = NULL;
    int rc = dataset_info_to_json(&u->info, &info, &u->err);
    if (rc != 0) {
        return rc;
    }
    struct stat status;
    if (stat(u->path, &status) != 0) {
        return err_errno(&u->err, "look at the data set");
    }
    u->row.info = json_print(info);
    u->row.summary = dataset_summary(&u->info);
    u->row.rows = u->info.rows;
    u->row.columns = u->info.columns;
    u->row.bytes = status.st_size;
    u->answer = dataset_text(&u->row, &u->info);
    return u->row.info != NULL && u->row.summary != NULL && u->answer != NULL
               ? 0
               : err_no_memory(&u->err);
}

static void ingest_work(void *context)
{
    struct upload *u = context;
    if (u->block.len > 0) {
        write_block(u);
    }
    close(u->fd);
    u->fd = -1;
    u->rc = u->rc == 0 ? check_digest(u) : u->rc;
    if (u->rc == 0) {
        u->options.targets = u->options.target_count > 0 ? (const char *const *)u->targets : NULL;
        u->options.ignored = (const char *const *)u->ignored;
        u->rc = ingest_file(u->tmp_path, u->path, &u->options, &u->info, &u->err);
        u->ingested = u->rc == 0;
        u->rc = u->ingested ? describe(u) : u->rc;
        mem_trim(); /* labels and names of a large table are no part of what is kept */
    }
    unlink(u->tmp_path); /* its room is free before the client hears of it */
}

static void print_location(const struct upload *u, char *ret, size_t size)
{
    snprintf(ret, size, "/v1/datasets/%s", u->row.id);
}

/* Of a body that was put under its digest another upload may have become a data set meanwhile,
 * which *u then stands for. */
static int put_row(struct upload *u)
{
    char id[ID_SIZE];
    int rc = datasets_put(u->app->store, &u->row, id, &u->err);
    if (rc <= 0) {
        return rc;
    }
    u->twin = true;
    dataset_row_deinit(&u->row);
    u->answer = mem_free(u->answer);
    rc = datasets_get(u->app->store, id, &u->row, &u->err);
    u->answer = rc == 0 ? dataset_known_text(u->app, &u->row, &u->err) : NULL;
    return u->answer != NULL ? 0 : -(int)u->err.code;
}

/* Makes the row. The answer is there before, since nobody would learn of a row without one. */
static int publish(struct upload *u)
{
    char location[64];
    print_location(u, location, sizeof(location));
    const struct idempotency_row *kept =
        once_answer(u->once, u->row.sha256, 201, location, u->answer);
    if ((kept != NULL) != (u->once != NULL)) {
        return err_no_memory(&u->err);
    }
    const int rc = u->expected[0] != '\0' ? put_row(u)
                                          : datasets_insert(u->app->store, &u->row, kept, &u->err);
    if (rc == 0 && !u->twin) {
        described_keep(u->app->described, u->row.id, &u->info);
    }
    return rc;
}

static void reply_made(struct request *rq, struct upload *u)
{
    char location[64];
    print_location(u, location, sizeof(location));
    if (!u->twin) {
        log_msg(&u->app->log, LOG_INFO, "dataset.created", "dataset", u->row.id, "name",
                u->row.name, "request", rq->id, NULL);
    }
    request_set_header(rq, "Location", location);
    reply_take(rq, u->twin ? 200 : 201, "application/json", u->answer, strlen(u->answer));
    u->answer = NULL;
}

static void ingest_done(struct app *app, struct request *rq, void *context)
{
    struct upload *u = context;
    (void)app;
    if (u->rc == 0 && rq != NULL) {
        u->rc = publish(u);
    }
    if (u->ingested && (u->rc != 0 || rq == NULL || u->twin)) {
        offload_discard(u->app, -1, u->path); /* nobody learns its id */
    }
    if (rq != NULL && u->rc == 0) {
        reply_made(rq, u);
    } else if (rq != NULL) {
        reply_error(rq, &u->err);
    }
    upload_free(u);
}

static void ingest_left(void *context)
{
    struct upload *u = context;
    atomic_store(&u->abandoned, true);
}

static void ingest_dropped(struct app *app, void *context)
{
    (void)app;
    upload_free(context);
}

/* What is packed grows a few times as a rule, but may a thousandfold, as may what leaves zeros out
 * or becomes 0/1 columns. */
static struct offload_cost ingest_cost(const struct upload *u)
{
    const struct ingest_options *o = &u->options;
    const bool grows =
        o->gzip || o->one_hot || (o->format != INGEST_CSV && o->format != INGEST_NPY);
    const double seconds = (double)u->received / INGEST_BYTES_PER_S;
    return (struct offload_cost){
        .seconds = grows ? 4.0 * seconds : seconds,
        .brief = (grows ? 1000.0 * seconds : seconds) < 1.0,
    };
}

static void ingest(struct upload *u, struct request *rq)
{
    static const struct offload_ops ops = {
        .work = ingest_work, .done = ingest_done, .left = ingest_left, .dropped = ingest_dropped};
    const struct buf full = u->arriving; /* the last block */
    u->arriving = u->block;
    u->block = full;
    if (offload_in_line(u->app, &u->app->ingests, rq, ingest_cost(u), &ops, u, &u->err) != 0) {
        reply_error(rq, &u->err);
        upload_free(u);
    }
}

/* ---- Blocks. ---- */

static int start_block(struct upload *u, struct err *err);

/* Somebody waits at the end of a block: for room, or for the answer. */
static void go_on(struct upload *u, struct request *rq)
{
    u->request = NULL;
    if (u->busy) {
        request_continue(rq); /* the next block is written: rc and err are the thread's */
    } else if (u->rc != 0 && u->finished) {
        rq->on_gone = NULL;
        reply_error(rq, &u->err);
        upload_free(u);
    } else if (u->rc != 0) {
        reply_error(rq, &u->err); /* the request still owns the upload */
    } else if (u->finished) {
        ingest(u, rq);
    } else {
        request_continue(rq);
    }
}

static void block_work(void *context)
{
    write_block(context);
}

static void block_done(struct app *app, struct request *none, void *context)
{
    struct upload *u = context;
    (void)app;
    (void)none;
    u->busy = false;
    if (u->released) {
        upload_free(u);
        return;
    }
    if (u->rc == 0 && !u->finished && u->arriving.len >= UPLOAD_BLOCK) {
        const int rc = start_block(u, &u->err);
        if (rc != 0) { /* else rc is the thread's, which may have failed by now */
            u->rc = rc;
        }
    }
    if (u->request != NULL) {
        go_on(u, u->request);
    }
}

static int start_block(struct upload *u, struct err *err)
{
    static const struct offload_ops ops = {.work = block_work, .done = block_done};
    const struct buf full = u->arriving;
    u->arriving = u->block;
    u->block = full;
    const int rc = offload(u->app, NULL, &ops, u, err);
    u->busy = rc == 0;
    return rc;
}

int upload_add(struct upload *u, struct request *rq, const void *data, size_t size, struct err *err)
{
    if (once_answered(u->once)) {
        sha256_update(u->digest, data, size);
        return 0;
    }
    if (!u->busy && u->rc != 0) {
        *err = u->err;
        return u->rc;
    }
    u->received += (int64_t)size;
    buf_add(&u->arriving, data, size);
    if (u->arriving.failed) {
        return err_no_memory(err);
    }
    if (u->arriving.len < UPLOAD_BLOCK) {
        return 0;
    }
    if (!u->busy) {
        return start_block(u, err);
    }
    u->request = rq;
    return ROUTE_PAUSE;
}

/* The client left while its last block was being written. */
static void finished_gone(struct request *rq)
{
    upload_release(rq->deferral);
}

static void replay(struct upload *u, struct request *rq)
{
    sha256_hex(u->digest, u->row.sha256);
    once_replay(u->once, rq, u->row.sha256);
    upload_free(u);
}

void upload_finish(struct upload *u, struct request *rq)
{
    u->finished = true;
    if (once_answered(u->once)) {
        replay(u, rq);
    } else if (!u->busy && u->rc != 0) {
        reply_error(rq, &u->err);
        upload_free(u);
    } else if (!u->busy) {
        ingest(u, rq);
    } else {
        u->request = rq;
        rq->deferral = u;
        rq->on_gone = finished_gone;
    }
}
