#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "server/app.h"
#include "server/http/http_internal.h"
#include "server/http/http_text.h"
#include "server/http/problem.h"

void answer_deinit(struct answer *a)
{
    buf_deinit(&a->headers);
    a->body = mem_free(a->body);
    a->stream = stream_free(a->stream);
    if (a->file) {
        close(a->fd);
        a->file = false;
    }
}

void answer_each_header(const struct answer *a,
                        void (*visit)(void *context, const char *name, const char *value),
                        void *context)
{
    for (size_t at = 0; at < a->headers.len;) {
        const char *name = a->headers.data + at;
        const char *value = name + strlen(name) + 1;
        visit(context, name, value);
        at += (size_t)(value - name) + strlen(value) + 1;
    }
}

struct wanted_header {
    const char *name;
    bool found;
};

static void compare_header(void *context, const char *name, const char *value)
{
    struct wanted_header *wanted = context;
    (void)value;
    wanted->found = wanted->found || strcasecmp(wanted->name, name) == 0;
}

bool answer_has_header(const struct answer *a, const char *name)
{
    struct wanted_header wanted = {.name = name};
    answer_each_header(a, compare_header, &wanted);
    return wanted.found;
}

void request_set_header(struct request *rq, const char *name, const char *value)
{
    struct answer *a = &exchange_of(rq)->answer;
    if (http_value_valid(value)) {
        const size_t before = a->headers.len;
        buf_add(&a->headers, name, strlen(name) + 1);
        buf_add(&a->headers, value, strlen(value) + 1);
        if (a->headers.failed) { /* all or nothing: a name without its value would mislead */
            a->headers.failed = false;
            a->headers.len = before;
        }
    }
}

/* Whether an answer may be given now; a second one is our own mistake. */
static bool may_answer(struct exchange *ex)
{
    if (ex->answer.status == 0) {
        return true;
    }
    log_msg(&ex->http->app->log, LOG_ERROR, "http.second_answer", "path", ex->path, "request",
            ex->request_id, NULL);
    return false;
}

/* Of an answer that is not given after all: what handlers say of a success. */
static bool tells_success(const char *name)
{
    static const char *const names[] = {"Cache-Control",
                                        "Content-Disposition",
                                        "Content-Encoding",
                                        "ETag",
                                        "Location",
                                        "Idempotency-Replayed",
                                        "Preference-Applied",
                                        "Repr-Digest",
                                        "Inference-Header-Content-Length",
                                        "X-Export-Error"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void drop_success_headers(struct buf *headers)
{
    size_t kept = 0;
    for (size_t at = 0; at < headers->len;) {
        const char *name = headers->data + at;
        const char *value = name + strlen(name) + 1;
        const size_t size = (size_t)(value - name) + strlen(value) + 1;
        at += size;
        if (!tells_success(name)) {
            memmove(headers->data + kept, name, size);
            kept += size;
        }
    }
    headers->len = kept;
}

static void take_back(struct answer *a)
{
    if (a->file) {
        close(a->fd);
        a->file = false;
    }
    drop_success_headers(&a->headers);
}

/* Every answer passes here. Takes body. What an answer tells is durable first, or it is not told.
 */
static void give(struct exchange *ex, int status, const char *type, char *body, size_t size)
{
    struct err err;
    if (status < 500 && app_settle(ex->http->app, &err) < 0) {
        mem_free(body);
        take_back(&ex->answer);
        reply_error(&ex->request, &err);
        return;
    }
    if (type != NULL) {
        request_set_header(&ex->request, "Content-Type", type);
    }
    if (!answer_has_header(&ex->answer, "Cache-Control")) {
        request_set_header(&ex->request, "Cache-Control", "no-store");
    }
    request_set_header(&ex->request, "Server", "krrd/" KRRD_VERSION);
    request_set_header(&ex->request, "X-Content-Type-Options", "nosniff");
    ex->answer.status = status;
    ex->answer.body = body;
    ex->answer.size = size;
    exchange_resume(ex);
}

/* Lack of memory: an answer that needs none. */
static void give_no_memory(struct exchange *ex)
{
    give(ex, 500, NULL, NULL, 0);
}

void reply_take(struct request *rq, int status, const char *type, char *data, size_t size)
{
    struct exchange *ex = exchange_of(rq);
    if (!may_answer(ex)) {
        mem_free(data);
    } else if (data == NULL) {
        give_no_memory(ex);
    } else {
        give(ex, status, type, data, size);
    }
}

void reply_json(struct request *rq, int status, struct json *body)
{
    char *text = body != NULL ? json_print(body) : NULL;
    json_free(body);
    reply_take(rq, status, "application/json", text, text != NULL ? strlen(text) : 0);
}

void reply_tagged(struct request *rq, struct json *body)
{
    char *text = body != NULL ? json_print(body) : NULL;
    json_free(body);
    reply_tagged_text(rq, text);
}

void reply_tagged_text(struct request *rq, char *text)
{
    char digest[SHA256_HEX_SIZE], tag[40];
    if (text == NULL || !sha256_text(text, strlen(text), digest)) {
        mem_free(text);
        reply_take(rq, 500, NULL, NULL, 0);
        return;
    }
    snprintf(tag, sizeof(tag), "\"%.32s\"", digest);
    request_set_header(rq, "ETag", tag);
    request_set_header(rq, "Cache-Control", "private, no-cache");
    if (request_has_tag(rq, tag)) {
        const size_t size = strlen(text);
        mem_free(text);
        reply_unchanged(rq, size);
    } else {
        reply_take(rq, 200, "application/json", text, strlen(text));
    }
}

void reply_bytes(struct request *rq, int status, const char *type, const void *data, size_t size)
{
    reply_take(rq, status, type, size > 0 ? mem_dup(data, size) : mem_alloc(0), size);
}

void reply_empty(struct request *rq, int status)
{
    struct exchange *ex = exchange_of(rq);
    if (may_answer(ex)) {
        give(ex, status, NULL, NULL, 0);
    }
}

void reply_unchanged(struct request *rq, size_t size)
{
    struct exchange *ex = exchange_of(rq);
    if (may_answer(ex)) {
        give(ex, 304, NULL, NULL, size);
    }
}

void reply_fd(struct request *rq, int status, const char *type, int fd, uint64_t size)
{
    struct exchange *ex = exchange_of(rq);
    if (!may_answer(ex)) {
        close(fd);
        return;
    }
    ex->answer.file = true;
    ex->answer.fd = fd;
    give(ex, status, type, NULL, (size_t)size);
}

/* An error is what somebody should look at: not what a client may ask for at will, nor that the
 * storage is full, which is told once (storage.h). */
static enum log_level failure_level(enum err_code code)
{
    switch (code) {
    case ERR_BUSY:
    case ERR_PARSE:
    case ERR_INVALID:
    case ERR_UNSUPPORTED:
        return LOG_DEBUG;
    case ERR_DEADLINE:
        return LOG_INFO;
    case ERR_DISK_FULL:
    case ERR_READ_ONLY:
        return LOG_WARNING;
    default:
        return LOG_ERROR;
    }
}

static void log_failure(struct exchange *ex, int status, const struct err *err)
{
    if (status >= 500) {
        log_msg(&ex->http->app->log, failure_level(err->code), "http.failed", "path", ex->path,
                "request", ex->request_id, "code", err_name(err->code), "detail", err->detail,
                NULL);
    }
}

void request_shed(struct request *rq, enum metric_shed cause, int retry_after_s)
{
    char seconds[16];
    exchange_of(rq)->shed = (int)cause;
    snprintf(seconds, sizeof(seconds), "%d", retry_after_s);
    request_set_header(rq, "Retry-After", seconds);
}

static void count_shed(const struct exchange *ex, int status)
{
    struct metrics_registry *m = ex->http->app->metrics;
    if (status == 408 || status == 504) {
        metrics_count(m, METRIC_SHED, SHED_DEADLINE, 0, 1);
    } else if (status == 429 || status == 503) {
        metrics_count(m, METRIC_SHED, ex->shed >= 0 ? ex->shed : SHED_OTHER, 0, 1);
    }
}

/* When to come again to a storage that is full or read-only: it waits for somebody to make room. */
#define STORAGE_RETRY_S "60"

/* Where nothing was measured. */
static void set_retry_after(struct request *rq, int status, enum err_code code)
{
    const bool storage = code == ERR_DISK_FULL || code == ERR_READ_ONLY;
    if ((status == 429 || status == 503 || status == 507) &&
        !answer_has_header(&exchange_of(rq)->answer, "Retry-After")) {
        request_set_header(rq, "Retry-After", storage ? STORAGE_RETRY_S : "1");
    }
}

void reply_problem(struct request *rq, int status, const struct err *err)
{
    struct exchange *ex = exchange_of(rq);
    ex->problem = err->code;
    log_failure(ex, status, err);
    count_shed(ex, status);
    set_retry_after(rq, status, err->code);
    struct json *problem = problem_json(status, err, ex->path);
    char *text = problem != NULL ? json_print(problem) : NULL;
    json_free(problem);
    reply_take(rq, status, "application/problem+json", text, text != NULL ? strlen(text) : 0);
}

void reply_error(struct request *rq, const struct err *err)
{
    reply_problem(rq, problem_status(err), err);
}

void exchange_refuse(struct exchange *ex, int status, enum err_code code, const char *fmt, ...)
{
    struct err err;
    char detail[sizeof(err.detail)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof(detail), fmt, args);
    va_end(args);
    err_set(&err, code, "%s", detail);
    reply_problem(&ex->request, status, &err);
}

struct stream *reply_stream(struct request *rq, void (*closed)(void *context), void *context)
{
    struct exchange *ex = exchange_of(rq);
    struct err err;
    if (!may_answer(ex)) {
        return NULL;
    }
    if (app_settle(rq->app, &err) < 0) {
        reply_error(rq, &err);
        return NULL;
    }
    struct stream *s = stream_new(ex, closed, context);
    if (s == NULL) {
        give_no_memory(ex);
        return NULL;
    }
    ex->answer.stream = s;
    ex->http->in_flight--; /* draining does not wait for a stream, which may last for ever */
    request_set_header(rq, "X-Accel-Buffering", "no");
    give(ex, 200, "text/event-stream; charset=utf-8", NULL, 0);
    exchange_count(ex);
    return s;
}

static void print_header(void *context, const char *name, const char *value)
{
    buf_printf(context, "%s: %s\r\n", name, value);
}

void answer_print(const struct exchange *ex, struct buf *ret)
{
    const struct answer *a = &ex->answer;
    buf_printf(ret, "HTTP/1.1 %d %s\r\n", a->status, a->status >= 500 ? "Error" : "Refused");
    answer_each_header(a, print_header, ret);
    buf_printf(ret, "Content-Length: %zu\r\nConnection: close\r\n\r\n", a->size);
    if (a->body != NULL && strcmp(ex->request.method, "HEAD") != 0) {
        buf_add(ret, a->body, a->size);
    }
}
