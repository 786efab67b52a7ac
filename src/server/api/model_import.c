#include "server/api/model_import.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "server/api/models.h"
#include "server/api/once.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/offload.h"
#include "server/serving/served.h"
#include "server/storage.h"
#include "store/models.h"
#include "wire/model_file.h"

#define BLOCK (1u << 20)

struct import {
    struct app *app;
    struct request *rq;                   /* who waits: paused, or for the answer; NULL: nobody */
    bool finished;                        /* the body is complete */
    bool released;                        /* the request ended before that */
    bool busy;                            /* a thread is at work */
    char *name;                           /* of the model */
    struct once *once;                    /* NULL: the request has no Idempotency-Key */
    char request_sha256[SHA256_HEX_SIZE]; /* where it has one */

    char body_path[APP_PATH_MAX], path[APP_PATH_MAX];
    int fd;              /* of the file that is being written, then read; -1: none */
    struct buf arriving; /* gathers while `block` is written */
    struct buf block;
    struct sha256 *hash;
    char sha256[SHA256_HEX_SIZE]; /* of the model's own file */
    int64_t bytes, staged_bytes;
    struct json *description;
    int64_t staged; /* the store's key; 0: none */
    int64_t losses; /* store_losses when it was staged */
    void *chunk;
    size_t chunk_size;
    enum metric_transfer outcome; /* of a body that was complete */
    int rc;
    struct err err;
};

/* ---- life ---- */

static struct import *import_free(struct import *m)
{
    if (m->staged != 0) {
        models_drop_stage(m->app->store, m->staged, NULL); /* Else swept at the next start. */
    }
    offload_discard(m->app, -1, m->body_path);
    offload_discard(m->app, m->fd, m->path);
    buf_deinit(&m->arriving);
    buf_deinit(&m->block);
    sha256_free(m->hash);
    json_free(m->description);
    mem_free(m->chunk);
    mem_free(m->name);
    m->app->imports--;
    if (m->finished && !once_answered(m->once)) {
        metrics_count(m->app->metrics, METRIC_MODEL_IMPORTS, (int)m->outcome, 0, 1);
    }
    once_free(m->once);
    return mem_free(m);
}

void import_release(struct import *m)
{
    m->released = true;
    m->rq = NULL;
    if (!m->busy) {
        import_free(m);
    }
}

static int open_body(struct import *m, struct err *err)
{
    char id[ID_SIZE];
    id_new(&m->app->ids, "imp", clock_wall_ms(), id);
    app_temporary_path(m->app, id, m->body_path);
    id_new(&m->app->ids, "imp", clock_wall_ms(), id);
    app_temporary_path(m->app, id, m->path);
    m->fd = open(m->body_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return m->fd >= 0 ? 0 : err_errno(err, "store the model");
}

int import_new(struct request *rq, struct once *once, struct import **ret, struct err *err)
{
    struct app *app = rq->app;
    if (app->imports >= IMPORTS_MAX) {
        once_free(once);
        request_shed(rq, SHED_TRANSFERS, 1);
        return err_set(err, ERR_BUSY, "%d imports are under way; try again later.", IMPORTS_MAX);
    }
    struct import *m = mem_zalloc(sizeof *m);
    if (m == NULL) {
        once_free(once);
        return err_no_memory(err);
    }
    m->app = app;
    m->once = once;
    m->outcome = TRANSFER_GONE;
    m->fd = -1;
    app->imports++;
    m->name = mem_strdup(rq->param[0]);
    const int r = m->name != NULL ? open_body(m, err) : err_no_memory(err);
    if (r < 0) {
        import_free(m);
        return r;
    }
    *ret = m;
    return 0;
}

/* ---- from here on the request waits for its answer ---- */

static void on_gone(struct request *rq)
{
    struct import *m = rq->deferral;
    m->rq = NULL;
}

static void fail(struct import *m)
{
    if (m->rq != NULL) {
        m->outcome = TRANSFER_FAILED;
        m->rq->on_gone = NULL;
        reply_error(m->rq, &m->err);
    }
    import_free(m);
}

static void go(struct import *m, const struct offload_ops *ops)
{
    m->rc = 0;
    if (m->rq == NULL || offload(m->app, NULL, ops, m, &m->err) < 0) {
        fail(m);
    }
}

static bool may_go_on(struct import *m)
{
    if (m->rc < 0 || m->rq == NULL) {
        fail(m);
        return false;
    }
    return true;
}

/* ---- 3. into the store ---- */

/* Pieces that lay in a batch are gone with it. */
static int check_kept(struct import *m)
{
    struct store *store = m->app->store;
    const enum err_code why = store_refusal(store);
    if (m->losses == store_losses(store)) {
        return 0;
    }
    return err_set(&m->err, why == ERR_DISK_FULL || why == ERR_READ_ONLY ? why : ERR_BUSY,
                   "The database has lost a part of the model; import it again later.");
}

/* The answer is made first, since nobody would learn of a version without one; it is the store's
 * next one, as nothing comes between on the loop's thread. */
static char *make_answer(struct import *m, const char *description, int64_t now_ms, char ret[160])
{
    int64_t version = 0;
    if (models_next_version(m->app->store, m->name, &version, &m->err) < 0) {
        return NULL;
    }
    struct model_row row = {.key = m->staged,
                            .name = m->name,
                            .version = version,
                            .description = (char *)(uintptr_t)description,
                            .bytes = m->bytes,
                            .created_ms = now_ms};
    memcpy(row.sha256, m->sha256, sizeof row.sha256);
    cleanup_json struct json *view = models_view(m->app, &row);
    char *text = view != NULL ? json_print(view) : NULL;
    if (text == NULL) {
        err_no_memory(&m->err);
    }
    snprintf(ret, 160, "/v1/models/%s/versions/%lld", m->name, (long long)version);
    return text;
}

static int make_version(struct import *m, const char *description, char location[160],
                        char **ret_answer)
{
    const int64_t now = clock_wall_ms();
    int64_t version = 0;
    char *answer = make_answer(m, description, now, location);
    if (answer == NULL) {
        return -(int)m->err.code;
    }
    const struct idempotency_row *kept =
        once_answer(m->once, m->request_sha256, 201, location, answer);
    int r = (kept != NULL) == (m->once != NULL) ? check_kept(m) : err_no_memory(&m->err);
    r = r == 0 ? models_publish_import(m->app->store, m->staged, now, kept, &version, &m->err) : r;
    if (r < 0) {
        mem_free(answer);
        return r;
    }
    *ret_answer = answer;
    return 0;
}

static int seal(struct import *m, const char *description)
{
    const int r = description != NULL ? check_kept(m) : err_no_memory(&m->err);
    return r < 0 ? r
                 : models_stage_seal(m->app->store, m->staged, description, m->sha256, m->bytes,
                                     &m->err);
}

static void publish(struct import *m)
{
    cleanup_mem char *description = json_print(m->description);
    char *answer = NULL, location[160];
    int r = seal(m, description);
    r = r == 0 ? make_version(m, description, location, &answer) : r;
    if (r < 0) {
        fail(m);
        return;
    }
    m->staged = 0;
    m->outcome = TRANSFER_OK;
    served_changed(m->app->served);
    log_msg(&m->app->log, LOG_INFO, "model.imported", "model", location, NULL);
    request_set_header(m->rq, "Location", location);
    m->rq->on_gone = NULL;
    reply_take(m->rq, 201, "application/json", answer, strlen(answer));
    import_free(m);
}

static void read_work(void *context)
{
    struct import *m = context;
    m->chunk_size = 0;
    while (m->chunk_size < MODELS_CHUNK_MAX) {
        const ssize_t n =
            read(m->fd, (char *)m->chunk + m->chunk_size, MODELS_CHUNK_MAX - m->chunk_size);
        if (n < 0) {
            m->rc = err_errno(&m->err, "read the model");
        }
        if (n <= 0) {
            return;
        }
        m->chunk_size += (size_t)n;
    }
}

static void read_done(struct app *app, struct request *none, void *context)
{
    static const struct offload_ops ops = {.work = read_work, .done = read_done};
    struct import *m = context;
    (void)none;
    if (!may_go_on(m)) {
        return;
    }
    if (m->chunk_size == 0) {
        publish(m);
        return;
    }
    /* The database and its log may both hold the piece for a while. */
    if (storage_make_room(app, 2 * (int64_t)m->chunk_size, &m->err) < 0 || check_kept(m) < 0 ||
        models_stage_chunk(app->store, m->staged, m->chunk, m->chunk_size, &m->err) < 0) {
        fail(m);
        return;
    }
    go(m, &ops);
}

static void begin_staging(struct import *m)
{
    static const struct offload_ops ops = {.work = read_work, .done = read_done};
    m->chunk = mem_alloc(MODELS_CHUNK_MAX);
    int r = m->chunk != NULL ? models_stage_import(m->app->store, m->name, &m->staged, &m->err)
                             : err_no_memory(&m->err);
    m->losses = store_losses(m->app->store);
    if (r < 0) {
        fail(m);
    } else {
        go(m, &ops);
    }
}

/* ---- 2. the file is checked ---- */

/* On another thread: never into what --min-free-bytes keeps. */
static int write_out(struct import *m, const void *data, size_t size, struct err *err)
{
    const int r = storage_room_at(m->app, m->fd, (int64_t)size, err);
    return r == 0 ? file_write_all(m->fd, data, size, err) : r;
}

static int add_to_file(void *context, const void *data, size_t size, struct err *err)
{
    struct import *m = context;
    sha256_update(m->hash, data, size);
    m->bytes += (int64_t)size;
    return write_out(m, data, size, err);
}

/* Of a body, that it is damaged is the client's business: said, and no failure of ours. */
static int blame(int rc, struct err *err)
{
    struct err why = *err;
    return rc == -ERR_CORRUPT || rc == -ERR_UNSUPPORTED
               ? err_at(err, ERR_INVALID, "#/body", "%s", why.detail)
               : rc;
}

static void take_claim(struct json *to, const struct tensors *file, const char *key)
{
    json_set_string(to, key, tensors_metadata(file, key));
}

static bool is_among(char *const *names, int64_t count, const char *name)
{
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The column that marked the test's rows is no part of the model's own file. */
static int take_mask(struct json *to, const struct model_file *f, const struct tensors *file,
                     struct err *err)
{
    const char *mask = tensors_metadata(file, "mask");
    if (mask == NULL) {
        return 0;
    }
    if (mask[0] == '\0' || is_among(f->feature_names, f->d, mask) ||
        is_among(f->target_names, f->outputs, mask)) {
        return err_at(err, ERR_INVALID, "#/body", "The mask in the file's metadata is %s.",
                      mask[0] == '\0' ? "empty" : "a feature or a target of the model");
    }
    json_set_string(to, "mask", mask);
    return 0;
}

static int describe(struct import *m, const struct model_file *f, const struct tensors *file,
                    struct err *err)
{
    m->description = model_file_describe(f);
    json_set(m->description, "result", json_new_null());
    struct json *claims = json_set_object(m->description, "imported");
    take_claim(claims, file, "name");
    take_claim(claims, file, "version");
    take_claim(claims, file, "sha256");
    take_claim(claims, file, "created_at");
    const int r = take_mask(m->description, f, file, err);
    return r < 0 || json_ok(m->description) ? r : err_no_memory(err);
}

/* The model's own file, and its digest held against the one that the export names. */
static int rewrite(struct import *m, const struct model_file *f, const struct tensors *file,
                   struct err *err)
{
    const char *claimed = tensors_metadata(file, "sha256");
    m->fd = open(m->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    m->hash = sha256_new();
    if (m->fd < 0 || m->hash == NULL) {
        return m->fd < 0 ? err_errno(err, "store the model") : err_no_memory(err);
    }
    int r = model_file_write(f, NULL, add_to_file, m, err);
    sha256_hex(m->hash, m->sha256);
    if (r == 0 && claimed != NULL && strcmp(claimed, m->sha256) != 0) {
        r = err_at(err, ERR_INVALID, "#/body",
                   "The model does not have the digest that its metadata name.");
    }
    if (r == 0 && lseek(m->fd, 0, SEEK_SET) != 0) {
        r = err_errno(err, "read the model");
    }
    return r;
}

/* What files that people take for models begin with. ONNX: field 1, the version of the format, and
 * then the name of who has written it, or the version of that. */
static const char *foreign_name(const unsigned char *data, size_t size)
{
    static const struct {
        const char *start, *name;
    } kinds[] = {{"PK\x03\x04", "a zip archive"},
                 {"\x1f\x8b", "compressed by gzip"},
                 {"\x89HDF", "an HDF5 file"},
                 {"\x93NUMPY", "an NPY file"},
                 {"\x80", "a Python pickle"}};
    if (size >= 3 && data[0] == 0x08 && data[1] < 0x80 && (data[2] == 0x12 || data[2] == 0x1a)) {
        return "an ONNX file";
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i].start);
        if (size >= length && memcmp(data, kinds[i].start, length) == 0) {
            return kinds[i].name;
        }
    }
    return NULL;
}

/* A safetensors file begins with the length of its header, in eight bytes, and the header. */
static int check_kind(const struct file_map *map, struct err *err)
{
    const unsigned char *data = map->data;
    if (map->size > 8 && data[8] == '{') {
        return 0;
    }
    const char *name = foreign_name(data, map->size);
    return err_at(err, ERR_INVALID, "#/body",
                  "The body is %s%s%s; a model is imported from the safetensors file that an "
                  "export of one has written.",
                  map->size == 0 ? "empty" : "no safetensors file", name ? ", but " : "",
                  name ? name : "");
}

static int check(struct import *m, const struct file_map *map, struct err *err)
{
    struct model_file f;
    struct tensors file;
    int r = check_kind(map, err);
    if (r < 0) {
        return r;
    }
    r = model_file_open(map->data, map->size, &f, &file, err);
    if (r < 0) {
        return blame(r, err);
    }
    r = describe(m, &f, &file, err);
    r = r == 0 ? rewrite(m, &f, &file, err) : r;
    tensors_deinit(&file);
    model_file_deinit(&f);
    return r;
}

/* Of the model's name and the body, for who asks a second time. */
static int digest(struct import *m, const struct file_map *map, struct err *err)
{
    struct sha256 *h = sha256_new();
    if (h == NULL) {
        return err_no_memory(err);
    }
    sha256_update(h, m->name, strlen(m->name) + 1);
    sha256_update(h, map->data, map->size);
    sha256_hex(h, m->request_sha256);
    sha256_free(h);
    return 0;
}

static void check_work(void *context)
{
    struct import *m = context;
    struct file_map map;
    if (m->block.len > 0) {
        m->rc = write_out(m, m->block.data, m->block.len, &m->err);
    }
    close(m->fd);
    m->fd = -1;
    m->rc = m->rc == 0 ? file_map_open(m->body_path, &map, &m->err) : m->rc;
    if (m->rc == 0) {
        m->rc = m->once != NULL ? digest(m, &map, &m->err) : 0;
        m->rc = m->rc == 0 && !once_answered(m->once) ? check(m, &map, &m->err) : m->rc;
        file_map_close(&map);
    }
    unlink(m->body_path); /* its room is free for the store */
}

static void check_done(struct app *app, struct request *none, void *context)
{
    struct import *m = context;
    (void)app;
    (void)none;
    if (!may_go_on(m)) {
        return;
    }
    if (once_answered(m->once)) {
        m->rq->on_gone = NULL;
        once_replay(m->once, m->rq, m->request_sha256);
        import_free(m);
    } else {
        begin_staging(m);
    }
}

static void begin_checking(struct import *m)
{
    static const struct offload_ops ops = {.work = check_work, .done = check_done};
    const struct buf full = m->arriving; /* the last block */
    m->arriving = m->block;
    m->block = full;
    go(m, &ops);
}

/* ---- 1. the body ---- */

static void block_work(void *context)
{
    struct import *m = context;
    m->rc = write_out(m, m->block.data, m->block.len, &m->err);
}

static void block_done(struct app *app, struct request *none, void *context)
{
    struct import *m = context;
    (void)app;
    (void)none;
    m->busy = false;
    buf_clear(&m->block);
    if (m->released) {
        import_free(m);
    } else if (m->finished) {
        if (may_go_on(m)) {
            begin_checking(m);
        }
    } else if (m->rq != NULL) {
        struct request *rq = m->rq;
        m->rq = NULL;
        if (m->rc < 0) {
            reply_error(rq, &m->err); /* the request still owns the import */
        } else {
            request_continue(rq);
        }
    }
}

static int write_block(struct import *m, struct err *err)
{
    static const struct offload_ops ops = {.work = block_work, .done = block_done};
    const struct buf full = m->arriving;
    m->arriving = m->block;
    m->block = full;
    const int r = offload(m->app, NULL, &ops, m, err);
    m->busy = r == 0;
    return r;
}

int import_add(struct import *m, struct request *rq, const void *data, size_t size, struct err *err)
{
    if (!m->busy && m->rc < 0) {
        *err = m->err;
        return m->rc;
    }
    buf_add(&m->arriving, data, size);
    if (m->arriving.failed) {
        return err_no_memory(err);
    }
    if (m->arriving.len < BLOCK) {
        return 0;
    }
    if (!m->busy) {
        return write_block(m, err);
    }
    m->rq = rq;
    return ROUTE_PAUSE;
}

void import_finish(struct import *m, struct request *rq)
{
    m->finished = true;
    m->rq = rq;
    rq->deferral = m;
    rq->on_gone = on_gone;
    if (!m->busy && m->rc < 0) {
        fail(m);
    } else if (!m->busy) {
        begin_checking(m);
    }
}
