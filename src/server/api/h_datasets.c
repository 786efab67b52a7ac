#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/api/dataset_upload.h"
#include "server/api/dataset_view.h"
#include "server/api/handlers.h"
#include "server/api/once.h"
#include "server/app.h"
#include "server/described.h"
#include "server/offload.h"
#include "server/storage.h"

enum {
    PAGE_DEFAULT = 20,
    PREVIEW_DEFAULT = 10,
    PREVIEW_MAX = 100,
};

/* ---- Upload. ---- */

/* A body whose announced size does not fit is not begun. */
static int check_room(struct request *rq, struct err *err)
{
    const int64_t need = request_content_length(rq);
    return storage_room(rq->app, need > 0 ? need : 0, err);
}

static int check_load(struct request *rq, struct err *err)
{
    struct app *app = rq->app;
    if (app->uploads >= app->config.max_uploads) {
        request_shed(rq, SHED_UPLOADS,
                     rate_retry_after_s(&app->upload_rate, clock_monotonic_s(), 1.0));
        return err_set(err, ERR_BUSY, "%d uploads (--max-uploads) are under way; try again later.",
                       app->uploads);
    }
    if (rq->app->draining) {
        request_shed(rq, SHED_STOPPING, 1);
        return err_set(err, ERR_BUSY, "The server is stopping.");
    }
    return 0;
}

static void release_upload(void *user)
{
    upload_release(user);
}

/* Takes once. */
static int begin(struct request *rq, const struct upload_wish *wish, struct once *once,
                 struct err *err)
{
    struct upload *u = NULL;
    const int rc = upload_new(rq->app, wish, once, &u, err);
    if (rc == 0) {
        rq->user = u;
        rq->user_free = release_upload;
    }
    return rc;
}

static int welcome(struct request *rq, struct err *err)
{
    const int rc = check_load(rq, err);
    return rc == 0 ? check_room(rq, err) : rc;
}

int datasets_upload_begin(struct request *rq)
{
    struct upload_wish wish = {.name = NULL};
    struct once *once = NULL;
    struct err err;
    int rc = upload_wish_read(rq, &wish, &err);
    rc = rc == 0 ? welcome(rq, &err) : rc;
    rc = rc == 0 ? once_begin(rq, "datasets", &once, &err) : rc;
    rc = rc == 0 ? begin(rq, &wish, once, &err) : rc;
    if (rc != 0) {
        reply_error(rq, &err);
    }
    return rc;
}

static int read_digest(struct request *rq, struct upload_wish *wish, struct err *err)
{
    wish->sha256 = upload_digest_of(rq->param[0]);
    return wish->sha256 != NULL
               ? 0
               : err_at(err, ERR_INVALID, "#/path/id",
                        "A data set is put under sha256: and the 64 hexadecimal digits (lower "
                        "case) of its body's SHA-256.");
}

/* 200 with the data set, if it is there. */
static int reply_there(struct request *rq, const struct upload_wish *wish, struct err *err)
{
    struct dataset_row row;
    const int rc = upload_find(rq, wish->sha256, wish, &row, err);
    if (rc != 0) {
        return rc;
    }
    char *text = dataset_known_text(rq->app, &row, err);
    char location[64];
    snprintf(location, sizeof(location), "/v1/datasets/%s", row.id);
    dataset_row_deinit(&row);
    if (text == NULL) {
        return -(int)err->code;
    }
    request_set_header(rq, "Location", location);
    reply_take(rq, 200, "application/json", text, strlen(text));
    return 0;
}

/* Its body is read only where nothing is there that was made of it. */
int datasets_put_begin(struct request *rq)
{
    struct upload_wish wish = {.name = NULL};
    struct err err;
    int rc = upload_wish_read(rq, &wish, &err);
    rc = rc == 0 ? read_digest(rq, &wish, &err) : rc;
    rc = rc == 0 ? reply_there(rq, &wish, &err) : rc;
    if (rc == 0) {
        return -ERR_CONFLICT; /* answered */
    }
    rc = rc == -ERR_NOT_FOUND ? welcome(rq, &err) : rc;
    rc = rc == 0 ? begin(rq, &wish, NULL, &err) : rc;
    if (rc != 0) {
        reply_error(rq, &err);
    }
    return rc;
}

int datasets_upload_data(struct request *rq, const void *data, size_t size)
{
    struct err err;
    metrics_count(rq->app->metrics, METRIC_UPLOAD_BYTES, 0, 0, (double)size);
    const int rc = upload_add(rq->user, rq, data, size, &err);
    if (rc < 0) {
        upload_release(rq->user); /* its room on the disk is free at once */
        rq->user = NULL;
        reply_error(rq, &err);
    }
    return rc;
}

void datasets_upload(struct request *rq)
{
    struct upload *u = rq->user;
    rq->user = NULL;
    upload_finish(u, rq);
}

/* ---- Looking. ---- */

static int check_id(struct request *rq, struct err *err)
{
    return id_valid(rq->param[0], "ds") ? 0
                                        : err_set(err, ERR_NOT_FOUND, "There is no such data set.");
}

/* The row that the path names. */
static int get_row(struct request *rq, struct dataset_row *ret, struct err *err)
{
    return check_id(rq, err) == 0 ? datasets_get(rq->app->store, rq->param[0], ret, err)
                                  : -ERR_NOT_FOUND;
}

/* What says how a body is read has no meaning for a data set that is named by its id. */
static int refuse_query(struct request *rq, struct err *err)
{
    const char *name, *value;
    char pointer[64];
    if (!request_query_at(rq, 0, &name, &value)) {
        return 0;
    }
    snprintf(pointer, sizeof(pointer), "#/query/%s", name);
    return err_at(err, ERR_INVALID, pointer, "%s is for data sets that are named by sha256: alone.",
                  name);
}

/* The row that the path names by its id, or by its body. */
static int find_row(struct request *rq, struct dataset_row *ret, struct err *err)
{
    const char *digest = upload_digest_of(rq->param[0]);
    if (digest != NULL) {
        return upload_find_asked(rq, digest, ret, err);
    }
    const int rc = refuse_query(rq, err);
    return rc == 0 ? get_row(rq, ret, err) : rc;
}

/* One data set; of one with many columns the answer is made on another thread. */
struct shown {
    struct dataset_row row;
    char *text; /* the answer */
    struct err err;
};

static void show_work(void *context)
{
    struct shown *s = context;
    struct dataset_info info;
    if (described_read(s->row.info, &info, &s->err) == 0) {
        s->text = dataset_text(&s->row, &info);
        dataset_info_deinit(&info);
        if (s->text == NULL) {
            err_no_memory(&s->err);
        }
    }
}

static void show_done(struct app *app, struct request *rq, void *context)
{
    struct shown *s = context;
    (void)app;
    if (rq != NULL && s->text != NULL) {
        reply_tagged_text(rq, s->text);
        s->text = NULL;
    } else if (rq != NULL) {
        reply_error(rq, &s->err);
    }
    mem_free(s->text);
    dataset_row_deinit(&s->row);
    mem_free(s);
}

/* Takes row. */
static int show(struct request *rq, struct dataset_row *row, struct err *err)
{
    static const struct offload_ops ops = {.work = show_work, .done = show_done};
    struct shown *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        dataset_row_deinit(row);
        return err_no_memory(err);
    }
    s->row = *row;
    if (strlen(s->row.info) < DESCRIBED_LONG || offload(rq->app, rq, &ops, s, NULL) != 0) {
        show_work(s);
        show_done(rq->app, rq, s);
    }
    return 0;
}

void datasets_show(struct request *rq)
{
    struct dataset_row row;
    struct err err;
    int rc = find_row(rq, &row, &err);
    rc = rc == 0 ? show(rq, &row, &err) : rc;
    if (rc != 0) {
        reply_error(rq, &err);
    }
}

static int list_views(struct json *to, const struct dataset_row *rows, int64_t count,
                      struct err *err)
{
    for (int64_t i = 0; i < count; i++) {
        struct json *view = dataset_brief_view(&rows[i], err);
        if (view == NULL) {
            return -(int)err->code;
        }
        json_push(to, view);
    }
    return 0;
}

static int read_page(struct request *rq, struct store_page *ret, struct err *err)
{
    const char *after = request_query(rq, "after");
    *ret = (struct store_page){.after = after != NULL ? after : "", .limit = PAGE_DEFAULT};
    int rc = request_query_int(rq, "limit", 1, STORE_PAGE_MAX, &ret->limit, err);
    if (rc == 0 && after != NULL && !id_valid(after, "ds")) {
        rc = err_at(err, ERR_INVALID, "#/query/after", "after must be the id of a data set.");
    }
    return rc;
}

void datasets_index(struct request *rq)
{
    struct store_page page;
    struct dataset_row *rows = NULL;
    int64_t count = 0;
    bool more = false;
    struct err err;
    int rc = read_page(rq, &page, &err);
    rc = rc == 0 ? datasets_list(rq->app->store, page, &rows, &count, &more, &err) : rc;
    struct json *list = json_new_object();
    json_set_string(list, "object", "list");
    rc = rc == 0 ? list_views(json_set_array(list, "data"), rows, count, &err) : rc;
    if (rc != 0) {
        json_free(list);
        reply_error(rq, &err);
    } else {
        json_set_string(list, "first_id", count > 0 ? rows[0].id : NULL);
        json_set_string(list, "last_id", count > 0 ? rows[count - 1].id : NULL);
        json_set_bool(list, "has_more", more);
        reply_json(rq, 200, list);
    }
    datasets_list_free(rows, count);
}

/* ---- Preview: opening a file may wait for the disk, so it is done on another thread. ---- */

struct preview {
    char id[ID_SIZE];
    char path[APP_PATH_MAX];
    int64_t rows;
    char *text; /* the answer */
    struct err err;
    int rc;
};

static void preview_work(void *context)
{
    struct preview *p = context;
    struct dataset *d = NULL;
    p->rc = dataset_open(p->path, &d, &p->err);
    if (p->rc == 0) {
        struct json *view = dataset_preview_view(p->id, d, p->rows);
        p->text = view != NULL ? json_print(view) : NULL;
        json_free(view);
        p->rc = p->text != NULL ? 0 : err_no_memory(&p->err);
    }
    dataset_free(d);
}

static void preview_done(struct app *app, struct request *rq, void *context)
{
    struct preview *p = context;
    (void)app;
    if (rq != NULL && p->rc == 0) {
        reply_take(rq, 200, "application/json", p->text, strlen(p->text));
        p->text = NULL;
    } else if (rq != NULL) {
        reply_error(rq, &p->err);
    }
    mem_free(p->text);
    mem_free(p);
}

static int preview_new(struct request *rq, struct preview **ret, struct err *err)
{
    int64_t rows = PREVIEW_DEFAULT;
    struct dataset_row row;
    int rc = request_query_int(rq, "rows", 1, PREVIEW_MAX, &rows, err);
    rc = rc == 0 ? get_row(rq, &row, err) : rc;
    if (rc != 0) {
        return rc;
    }
    struct preview *p = mem_zalloc(sizeof(*p));
    if (p != NULL) {
        p->rows = rows;
        memcpy(p->id, row.id, sizeof(p->id));
        app_dataset_path(rq->app, row.id, p->path);
    }
    dataset_row_deinit(&row);
    *ret = p;
    return p != NULL ? 0 : err_no_memory(err);
}

void datasets_preview(struct request *rq)
{
    static const struct offload_ops ops = {.work = preview_work, .done = preview_done};
    struct preview *p = NULL;
    struct err err;
    int rc = preview_new(rq, &p, &err);
    rc = rc == 0 ? offload(rq->app, rq, &ops, p, &err) : rc;
    if (rc != 0) {
        mem_free(p);
        reply_error(rq, &err);
    }
}

/* ---- Removing: giving the blocks of a large file back takes long. ---- */

static void unlink_work(void *context)
{
    unlink(context);
}

static void unlink_done(struct app *app, struct request *rq, void *context)
{
    (void)app;
    mem_free(context);
    if (rq != NULL) {
        reply_empty(rq, 204);
    }
}

/* The row goes first: a crash in between leaves a file that the next start sweeps. */
static int remove_dataset(struct request *rq, const char *id, struct err *err)
{
    static const struct offload_ops ops = {.work = unlink_work, .done = unlink_done};
    char *path = mem_alloc(APP_PATH_MAX);
    if (path == NULL) {
        return err_no_memory(err);
    }
    app_dataset_path(rq->app, id, path);
    int rc = datasets_delete(rq->app->store, id, err);
    if (rc == 0) {
        described_forget(rq->app->described, id);
    }
    if (rc == 0 && offload(rq->app, rq, &ops, path, NULL) == 0) {
        return 0;
    }
    if (rc == 0) {
        unlink(path);
        reply_empty(rq, 204);
    }
    mem_free(path);
    return rc;
}

void datasets_remove(struct request *rq)
{
    struct err err;
    int rc = check_id(rq, &err);
    rc = rc == 0 ? remove_dataset(rq, rq->param[0], &err) : rc;
    if (rc != 0) {
        reply_error(rq, &err);
    }
}
