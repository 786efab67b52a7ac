#include "server/api/model_export.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "export/onnx.h"
#include "export/sample.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/offload.h"
#include "server/serving/served.h"
#include "server/serving/serving.h"
#include "server/storage.h"
#include "store/jobs.h"

/* The server's own predictions are waited for so long, behind everybody else's. */
#define PREDICT_S 30.0
#define PREDICT_PRIORITY (-1000)

struct export
{
    struct app *app;
    struct request *rq; /* NULL once the client has left */
    const struct served_model *model;
    enum export_form form;
    char job[ID_SIZE], dataset[ID_SIZE];
    int64_t created_ms;

    char copy_path[APP_PATH_MAX], path[APP_PATH_MAX];
    int fd; /* of the file that is being written; -1: none */
    struct sha256 *hash;
    int64_t next_chunk, size;
    void *chunk;
    size_t chunk_size;

    char paths[2][APP_PATH_MAX]; /* of the data sets to take rows from */
    int64_t *test_rows;
    int64_t test_count;
    struct sample_source sources[2];
    struct file_map map;
    struct model_file file;
    struct sample sample;
    double *served;  /* [rows, t] */
    uint64_t handle; /* of the prediction on its way */
    bool taken;      /* the file is the answer's, and so is the place among the exports */
    struct sample_error error;
    bool measured;
    char unmeasured[160]; /* why not */

    char digest[SHA256_HEX_SIZE];
    enum metric_transfer outcome;
    int rc;
    struct err err;
};

/* ---- the end ---- */

static struct export *export_free(struct export *e)
{
    if (e->handle != 0) {
        serving_forget(e->app->serving, e->handle);
    }
    if (e->map.data != NULL) {
        file_map_close(&e->map);
    }
    model_file_deinit(&e->file);
    sample_deinit(&e->sample);
    offload_discard(e->app, -1, e->copy_path);
    offload_discard(e->app, e->fd, e->path);
    sha256_free(e->hash);
    served_release(e->model);
    mem_free(e->served);
    mem_free(e->chunk);
    mem_free(e->test_rows);
    e->app->exports -= e->taken ? 0 : 1;
    metrics_count(e->app->metrics, METRIC_MODEL_EXPORTS, (int)e->outcome, 0, 1);
    return mem_free(e);
}

static void on_gone(struct request *rq)
{
    struct export *e = rq->deferral;
    e->rq = NULL;
}

static void fail(struct export *e)
{
    if (e->rq != NULL) {
        e->outcome = TRANSFER_FAILED;
        reply_error(e->rq, &e->err);
    }
    export_free(e);
}

/* The next step on another thread; `done` goes on where that went well and somebody waits. */
static void go(struct export *e, const struct offload_ops *ops)
{
    e->rc = 0;
    if (e->rq == NULL) {
        export_free(e);
    } else if (offload(e->app, NULL, ops, e, &e->err) < 0) {
        fail(e);
    }
}

static bool may_go_on(struct export *e)
{
    if (e->rc < 0 || e->rq == NULL) {
        fail(e);
        return false;
    }
    return true;
}

/* ---- 5. the answer ---- */

static const char *const suffixes[] = {
    [EXPORT_SAFETENSORS] = "safetensors",
    [EXPORT_ONNX] = "onnx",
    [EXPORT_ONNX_SVM] = "svm_regressor.onnx",
};

static const char *const types[] = {
    [EXPORT_SAFETENSORS] = "application/vnd.safetensors",
    [EXPORT_ONNX] = "application/onnx",
    [EXPORT_ONNX_SVM] = "application/onnx",
};

static unsigned from_hex(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* "sha-256=:<base64 of the digest>:" as RFC 9530 has it. */
static void print_digest(const char hex[SHA256_HEX_SIZE], char *ret)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    memcpy(ret, "sha-256=:", 9);
    ret += 9;
    unsigned bits = 0, have = 0;
    for (int i = 0; i < SHA256_HEX_SIZE - 1; i++) {
        bits = bits << 4 | from_hex(hex[i]);
        have += 4;
        if (have >= 6) {
            have -= 6;
            *ret++ = letters[bits >> have & 63];
        }
    }
    *ret++ = letters[bits << (6 - have) & 63]; /* 256 bits are 42 letters and four bits */
    memcpy(ret, "=:", 3);
}

/* A name of the request's own: model names have no character that needs quoting. */
static void set_headers(const struct export *e)
{
    char text[256];
    snprintf(text, sizeof text, "attachment; filename=\"%s-v%lld.%s\"", e->model->name,
             (long long)e->model->version, suffixes[e->form]);
    request_set_header(e->rq, "Content-Disposition", text);
    print_digest(e->digest, text);
    request_set_header(e->rq, "Repr-Digest", text);
    snprintf(text, sizeof text, "\"%.32s\"", e->digest);
    request_set_header(e->rq, "ETag", text);
    request_set_header(e->rq, "Cache-Control", "private, no-cache");
    if (e->measured) {
        snprintf(text, sizeof text, "%.17g", e->error.largest);
        request_set_header(e->rq, "X-Export-Error", text);
    }
}

/* The request has ended, and its file is closed. */
static void leave_place(void *user)
{
    struct app *app = user;
    app->exports--;
}

static void answer(struct export *e)
{
    char tag[40];
    set_headers(e);
    e->outcome = TRANSFER_OK;
    snprintf(tag, sizeof tag, "\"%.32s\"", e->digest);
    if (request_has_tag(e->rq, tag)) {
        reply_unchanged(e->rq, (size_t)e->size);
    } else {
        e->rq->user = e->app;
        e->rq->user_free = leave_place;
        e->taken = true;
        reply_fd(e->rq, 200, types[e->form], e->fd, (uint64_t)e->size);
        e->fd = -1; /* The path goes with the export, the file with the answer. */
    }
    export_free(e);
}

/* ---- 4. writing ---- */

static void add_json(struct json *to, const char *key, struct json *value)
{
    cleanup_mem char *text = json_print(value);
    json_set_string(to, key, text != NULL ? text : "");
    json_free(value);
}

static const char formula[] =
    "f(x) = target_mean + target_scale * sum_i k((x - feature_mean) / feature_scale, centers[i]) "
    "* coef[i]; with the tensor bandwidths, centers and features are divided by it and the "
    "bandwidth s is 1; classification: the label of the largest f(x)";

static const char fill_formula[] =
    "a feature of x that is missing is that of feature_fill; 0/1 columns of a text that is missing "
    "are all 0";

static const char indicator_formula[] =
    "feature j of x is 1 where feature feature_indicates[j] of it is missing, and else 0, if it is "
    "not given; -1: it is none of those that tell so";

static const char variance_formula[] =
    "var f(x) = prior_variance * (k(z, z) - |variance_factor' k(centers, z)|^2) with z = (x - "
    "feature_mean) / feature_scale, at least 0; an observation's variance is noise_variance more";

static struct json *describe(const struct export *e)
{
    struct json *j = json_new_object();
    char number[24], stamp[CLOCK_STAMP_SIZE];
    snprintf(number, sizeof number, "%lld", (long long)e->model->version);
    clock_stamp(e->created_ms, stamp);
    json_set_string(j, "format", "krrd");
    json_set_string(j, "name", e->model->name);
    json_set_string(j, "version", number);
    json_set_string(j, "sha256", e->model->sha256);
    json_set_string(j, "job", e->job);
    json_set_string(j, "dataset", e->dataset);
    json_set_string(j, "created_at", stamp);
    if (e->model->mask != NULL) {
        json_set_string(j, "mask", e->model->mask);
    }
    json_set_string(j, "kernel", e->file.kernel->title);
    json_set_string(j, "formula", formula);
    if (e->file.feature_fill != NULL) {
        json_set_string(j, "fill_formula", fill_formula);
    }
    if (e->file.feature_indicates != NULL) {
        json_set_string(j, "indicator_formula", indicator_formula);
    }
    if (e->form == EXPORT_SAFETENSORS && e->file.p > 0) { /* the others have the mean alone */
        json_set_string(j, "variance_formula", variance_formula);
    }
    if (e->form != EXPORT_SAFETENSORS) { /* there the member "model" says so */
        add_json(j, "description", model_file_describe(&e->file));
    }
    if (e->measured) {
        add_json(j, "export_error", sample_error_to_json(&e->error));
    } else {
        json_set_string(j, "export_error", "null");
        json_set_string(j, "export_error_unknown", e->unmeasured);
    }
    return j;
}

static int add_to_file(void *context, const void *data, size_t size, struct err *err)
{
    struct export *e = context;
    sha256_update(e->hash, data, size);
    e->size += (int64_t)size;
    const int r = storage_room_at(e->app, e->fd, (int64_t)size, err);
    return r == 0 ? file_write_all(e->fd, data, size, err) : r;
}

static int write_file(struct export *e, struct err *err)
{
    cleanup_json struct json *about = describe(e);
    if (!json_ok(about)) {
        return err_no_memory(err);
    }
    return e->form == EXPORT_SAFETENSORS
               ? model_file_write(&e->file, about, add_to_file, e, err)
               : onnx_write(&e->file, e->form == EXPORT_ONNX_SVM, about, add_to_file, e, err);
}

static void write_work(void *context)
{
    struct export *e = context;
    struct err why;
    if (e->served != NULL) {
        const int r = sample_measure(&e->file, e->form == EXPORT_ONNX_SVM, &e->sample, e->served,
                                     &e->error, &why);
        e->measured = r == 0 && isfinite(e->error.largest) && isfinite(e->error.largest_value);
        snprintf(e->unmeasured, sizeof e->unmeasured, "%.150s",
                 r < 0 ? why.detail : "The predictions are not finite.");
        utf8_mend(e->unmeasured);
    }
    e->size = 0;
    e->hash = sha256_new();
    e->fd = open(e->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (e->hash == NULL) {
        e->rc = err_no_memory(&e->err);
    } else if (e->fd < 0) {
        e->rc = err_errno(&e->err, "write the export");
    } else {
        e->rc = write_file(e, &e->err);
        sha256_hex(e->hash, e->digest);
    }
}

static void write_done(struct app *app, struct request *none, void *context)
{
    struct export *e = context;
    (void)app;
    (void)none;
    if (may_go_on(e)) {
        answer(e);
    }
}

static void begin_writing(struct export *e)
{
    static const struct offload_ops ops = {.work = write_work, .done = write_done};
    go(e, &ops);
}

/* ---- 3. what the server predicts ---- */

static void on_prediction(void *context, const struct serving_answer *a, const struct err *err)
{
    struct export *e = context;
    const bool classes = e->file.task == TASK_CLASSIFICATION;
    const double *values = err != NULL ? NULL : classes ? a->scores : a->values;
    e->handle = 0;
    if (values != NULL) {
        e->served = mem_dup(values, (size_t)(e->sample.rows * e->file.t) * sizeof *values);
    } else {
        snprintf(e->unmeasured, sizeof e->unmeasured, "The server could not predict: %.120s",
                 err != NULL ? err->detail : "no scores");
        utf8_mend(e->unmeasured);
    }
    begin_writing(e);
}

static void begin_prediction(struct export *e)
{
    const size_t size = (size_t)(e->sample.rows * e->file.d) * sizeof(double);
    struct serving_ask ask = {
        .model = e->model,
        .X = mem_dup(e->sample.X, size),
        .rows = e->sample.rows,
        .deadline_s = clock_monotonic_s() + PREDICT_S,
        .priority = PREDICT_PRIORITY,
        .scores = e->file.task == TASK_CLASSIFICATION,
        .done = on_prediction,
        .context = e,
    };
    const int r = ask.X != NULL ? serving_predict(e->app->serving, &ask, &e->handle, &e->err)
                                : err_no_memory(&e->err);
    if (r < 0) {
        e->handle = 0;
        on_prediction(e, NULL, &e->err);
    }
}

/* ---- 2. the copy is read ---- */

static void open_work(void *context)
{
    struct export *e = context;
    e->rc = file_map_open(e->copy_path, &e->map, &e->err);
    if (e->rc == 0) {
        e->rc = model_file_open(e->map.data, e->map.size, &e->file, NULL, &e->err);
    }
    if (e->rc == 0 && e->form == EXPORT_ONNX_SVM && !onnx_svm_fits(&e->file)) {
        e->rc = err_at(&e->err, ERR_UNSUPPORTED, "#/query/form",
                       "SVMRegressor has room for regressions of one target with the gaussian "
                       "kernel alone.");
    }
    if (e->rc == 0) {
        e->rc = sample_take(&e->file, e->sources, 2, &e->sample, &e->err);
    }
}

static void open_done(struct app *app, struct request *none, void *context)
{
    struct export *e = context;
    (void)app;
    (void)none;
    if (may_go_on(e)) {
        begin_prediction(e);
    }
}

static void begin_opening(struct export *e)
{
    static const struct offload_ops ops = {.work = open_work, .done = open_done};
    sha256_hex(e->hash, e->digest);
    e->hash = sha256_free(e->hash);
    close(e->fd);
    e->fd = -1;
    if (strcmp(e->digest, e->model->sha256) != 0) {
        err_set(&e->err, ERR_CORRUPT, "The stored model does not have its digest.");
        fail(e);
        return;
    }
    go(e, &ops);
}

/* ---- 1. the copy ---- */

static void copy_work(void *context)
{
    struct export *e = context;
    sha256_update(e->hash, e->chunk, e->chunk_size);
    e->rc = storage_room_at(e->app, e->fd, (int64_t)e->chunk_size, &e->err);
    e->rc = e->rc == 0 ? file_write_all(e->fd, e->chunk, e->chunk_size, &e->err) : e->rc;
}

static void copy_next(struct export *e);

static void copy_done(struct app *app, struct request *none, void *context)
{
    struct export *e = context;
    (void)app;
    (void)none;
    e->chunk = mem_free(e->chunk);
    if (may_go_on(e)) {
        copy_next(e);
    }
}

static void copy_next(struct export *e)
{
    static const struct offload_ops ops = {.work = copy_work, .done = copy_done};
    const int r = models_chunk(e->app->store, e->model->key, e->next_chunk++, &e->chunk,
                               &e->chunk_size, &e->err);
    if (r < 0) {
        fail(e);
    } else if (r == 0) {
        begin_opening(e);
    } else {
        go(e, &ops);
    }
}

/* ---- beginning ---- */

/* The numbers of test rows that were kept with the job's result, in random order. */
static void take_test_rows(struct export *e, const struct json *kept)
{
    const struct json *rows = json_get(kept, "rows");
    const int64_t count = rows != NULL ? json_size(rows) : 0;
    e->test_rows = mem_array((size_t)count, sizeof *e->test_rows);
    const struct json *at = count > 0 ? json_first(rows) : NULL;
    for (int64_t i = 0; e->test_rows != NULL && i < count; i++, at = json_next(at)) {
        e->test_rows[i] = json_int(at);
    }
    e->test_count = e->test_rows != NULL ? count : 0;
}

/* Where rows may be had: test rows first, where the job is still there and had some. */
static void find_sources(struct export *e)
{
    struct store *store = e->app->store;
    struct job_row row = {.reason = NULL};
    cleanup_mem char *text = NULL;
    cleanup_json struct json *kept = NULL;
    const bool there = e->job[0] != '\0' && jobs_get(store, e->job, &row, NULL) == 0;
    if (there && jobs_test_predictions(store, e->job, &text, NULL) == 0 &&
        json_parse(text, strlen(text), &kept, NULL) == 0) {
        take_test_rows(e, kept);
        app_dataset_path(e->app, row.test_dataset[0] != '\0' ? row.test_dataset : row.dataset,
                         e->paths[0]);
        e->sources[0] = (struct sample_source){.path = e->paths[0],
                                               .rows = e->test_rows,
                                               .count = e->test_count,
                                               .label = "test_rows"};
    }
    job_row_deinit(&row);
    if (e->dataset[0] != '\0') {
        app_dataset_path(e->app, e->dataset, e->paths[1]);
        e->sources[1] = (struct sample_source){.path = e->paths[1], .label = "dataset"};
    }
}

static int begin(struct export *e, const struct model_row *model, struct err *err)
{
    char id[ID_SIZE], version[24];
    id_new(&e->app->ids, "exp", clock_wall_ms(), id);
    snprintf(version, sizeof version, "%lld", (long long)model->version);
    app_temporary_path(e->app, id, e->path);
    id_new(&e->app->ids, "exp", clock_wall_ms(), id);
    app_temporary_path(e->app, id, e->copy_path);
    memcpy(e->job, model->job, sizeof e->job);
    memcpy(e->dataset, model->dataset, sizeof e->dataset);
    e->created_ms = model->created_ms;
    e->hash = sha256_new();
    if (e->hash == NULL) {
        return err_no_memory(err);
    }
    int r = served_find(e->app->served, model->name, version, &e->model, err);
    e->fd = r == 0 ? open(e->copy_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (r == 0 && e->fd < 0) {
        r = err_errno(err, "write the export");
    }
    if (r == 0) {
        find_sources(e);
    }
    return r;
}

int model_export(struct request *rq, const struct model_row *model, enum export_form form,
                 struct err *err)
{
    struct app *app = rq->app;
    if (app->exports >= EXPORTS_MAX) {
        request_shed(rq, SHED_TRANSFERS, 1);
        return err_set(err, ERR_BUSY, "%d exports are under way; try again later.", EXPORTS_MAX);
    }
    const int room = storage_make_room(app, 2 * model->bytes, err);
    if (room < 0) {
        return room;
    }
    struct export *e = mem_zalloc(sizeof *e);
    if (e == NULL) {
        return err_no_memory(err);
    }
    e->app = app;
    e->form = form;
    e->fd = -1;
    e->outcome = TRANSFER_GONE;
    app->exports++;
    const int r = begin(e, model, err);
    if (r < 0) {
        e->outcome = TRANSFER_FAILED;
        export_free(e);
        return r;
    }
    e->rq = rq;
    rq->deferral = e;
    rq->on_gone = on_gone;
    copy_next(e);
    return 0;
}
