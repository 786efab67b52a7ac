/* Models out of the server and into it: export and import. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/api/model_export.h"
#include "server/api/model_import.h"
#include "server/api/models.h"
#include "server/api/once.h"
#include "server/app.h"
#include "server/http/http_text.h"
#include "server/http/problem.h"
#include "server/storage.h"
#include "wire/spec.h"

/* ---- export ---- */

static int read_onnx_form(const char *form, enum export_form *ret, struct err *err)
{
    *ret = EXPORT_ONNX;
    if (form == NULL || strcmp(form, "float64") == 0) {
        return 0;
    }
    *ret = EXPORT_ONNX_SVM;
    return strcmp(form, "svm_regressor") == 0
               ? 0
               : err_at(err, ERR_INVALID, "#/query/form",
                        "The form must be float64 or svm_regressor.");
}

static int read_form(struct request *rq, enum export_form *ret, struct err *err)
{
    const char *format = request_query(rq, "format");
    const char *form = request_query(rq, "form");
    if (format != NULL && strcmp(format, "onnx") == 0) {
        return read_onnx_form(form, ret, err);
    }
    if (format != NULL && strcmp(format, "safetensors") != 0) {
        return err_at(err, ERR_INVALID, "#/query/format",
                      "The format must be safetensors or onnx.");
    }
    *ret = EXPORT_SAFETENSORS;
    return form == NULL ? 0 : err_at(err, ERR_INVALID, "#/query/form", "Only ONNX has forms.");
}

/* GET /v1/models/{name}/versions/{version}/export */
void transfers_export(struct request *rq)
{
    enum export_form form = EXPORT_SAFETENSORS;
    struct model_row row;
    struct err err;
    int r = read_form(rq, &form, &err);
    r = r == 0 ? models_find(rq, &row, &err) : r;
    if (r == 0) {
        r = model_export(rq, &row, form, &err);
        model_row_deinit(&row);
    }
    if (r < 0) {
        reply_error(rq, &err);
    }
}

/* ---- import ---- */

static int check_type(struct request *rq, struct err *err)
{
    static const char *const types[] = {"application/vnd.safetensors", "application/x-safetensors",
                                        "application/octet-stream"};
    const char *type = request_header(rq, "Content-Type");
    const char *encoding = request_header(rq, "Content-Encoding");
    bool known = type == NULL;
    for (size_t i = 0; !known && i < sizeof types / sizeof types[0]; i++) {
        known = http_type_is(type, types[i]);
    }
    if (!known) {
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE,
                      "The Content-Type must be application/vnd.safetensors.");
    }
    return encoding == NULL || strcasecmp(encoding, "identity") == 0
               ? 0
               : err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_ENCODING,
                        "The Content-Encoding must be identity.");
}

static int check_name(struct request *rq, struct err *err)
{
    return spec_name_valid(rq->param[0])
               ? 0
               : err_at(err, ERR_INVALID, "#/path/name",
                        "A model's name has 1 to %d letters, digits, '.', '_' and '-', and begins "
                        "with a letter or digit.",
                        SPEC_NAME_MAX);
}

/* The file is written twice; the first one has gone when the second is put into the store, piece by
 * piece, each into the log as well. A size that is not announced is looked at block by block alone.
 */
static int check_room(struct request *rq, struct err *err)
{
    const int64_t size = request_content_length(rq), whole = size > 0 ? size : 0;
    const int64_t piece = whole < MODELS_CHUNK_MAX ? whole : MODELS_CHUNK_MAX;
    const int64_t need = whole < INT64_MAX / 4 ? 2 * (whole + piece) : whole;
    const int r = storage_make_room(rq->app, need, err);
    if (r < 0) {
        return r;
    }
    if (rq->app->draining) {
        request_shed(rq, SHED_STOPPING, 1);
        return err_set(err, ERR_BUSY, "The server is stopping.");
    }
    return 0;
}

static void release(void *user)
{
    if (user != NULL) {
        import_release(user);
    }
}

/* POST /v1/models/{name}/import */
int transfers_import_begin(struct request *rq)
{
    struct import *m = NULL;
    struct once *once = NULL;
    struct err err;
    int r = check_type(rq, &err);
    r = r == 0 ? check_name(rq, &err) : r;
    r = r == 0 ? check_room(rq, &err) : r;
    r = r == 0 ? once_begin(rq, "imports", &once, &err) : r;
    r = r == 0 ? import_new(rq, once, &m, &err) : r;
    if (r < 0) {
        reply_error(rq, &err);
        return r;
    }
    rq->user = m;
    rq->user_free = release;
    return 0;
}

int transfers_import_data(struct request *rq, const void *data, size_t size)
{
    struct err err;
    const int r = import_add(rq->user, rq, data, size, &err);
    if (r < 0) {
        import_release(rq->user);
        rq->user = NULL;
        reply_error(rq, &err);
    }
    return r;
}

void transfers_import(struct request *rq)
{
    struct import *m = rq->user;
    rq->user = NULL;
    import_finish(m, rq);
}
