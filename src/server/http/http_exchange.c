/* One request from its first header to its handler: what may come in, and what is refused why. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http_host.h"
#include "server/http/http_internal.h"
#include "server/http/http_route.h"
#include "server/http/http_text.h"
#include "server/metrics.h"

struct exchange *exchange_new(struct http *h, struct connection *c, struct MHD_Connection *mhd)
{
    struct exchange *ex = mem_zalloc(sizeof(*ex));
    if (ex == NULL) {
        return NULL;
    }
    ex->http = h;
    ex->connection = c;
    ex->mhd = mhd;
    ex->length = -1;
    ex->started = clock_monotonic_s();
    ex->shed = -1;
    ex->request.app = h->app;
    ex->request.id = ex->request_id;
    c->exchange = ex;
    h->in_flight++;
    return ex;
}

static void free_query(struct exchange *ex)
{
    for (int i = 0; i < ex->query_count; i++) {
        mem_free(ex->query[i].name);
        mem_free(ex->query[i].value);
    }
    ex->query = mem_free(ex->query);
    ex->query_count = 0;
}

struct exchange *exchange_free(struct exchange *ex)
{
    if (ex == NULL) {
        return NULL;
    }
    exchange_let_go(ex);
    ex->http->in_flight -= ex->answer.stream == NULL;
    if (ex->request.user_free != NULL && ex->request.user != NULL) {
        ex->request.user_free(ex->request.user);
    }
    if (ex->request.body.len > 0) {
        http_body_done(ex->http, ex->request.body.len);
    }
    buf_deinit(&ex->request.body);
    answer_deinit(&ex->answer);
    free_query(ex);
    for (int i = 0; i < HTTP_MAX_PARAMS; i++) {
        mem_free(ex->params[i]);
    }
    mem_free(ex->method);
    mem_free(ex->path);
    mem_free(ex->host);
    ex->connection->exchange = NULL;
    return mem_free(ex);
}

/* ---- The head of the request. ---- */

struct head_facts {
    int lengths, encodings, hosts;
    bool bad_name;
    bool bad_value;
    bool bad_host;
    unsigned singles;     /* seen of once_only, a bit each */
    const char *repeated; /* the last of them that came again, or NULL */
    bool length_readable;
    bool chunked;
    bool expects_continue;
    bool other_expectation;
    long long length;
};

/* Of two of them two readers could follow different ones. */
static const char *const once_only[] = {"Authorization",
                                        "Content-Encoding",
                                        "Content-Type",
                                        "Inference-Header-Content-Length",
                                        "Last-Event-ID",
                                        "Origin",
                                        "Sec-Fetch-Site",
                                        "X-Request-Timeout",
                                        NULL};

static void note_single(struct head_facts *f, const char *name)
{
    for (unsigned i = 0; once_only[i] != NULL; i++) {
        if (strcasecmp(name, once_only[i]) == 0) {
            f->repeated = (f->singles & 1u << i) != 0 ? once_only[i] : f->repeated;
            f->singles |= 1u << i;
        }
    }
}

static bool note_header(void *context, const char *name, const char *value)
{
    struct head_facts *f = context;
    note_single(f, name);
    f->bad_name = f->bad_name || !http_token_valid(name);
    f->bad_value = f->bad_value || !http_value_valid(value);
    if (strcasecmp(name, "Content-Length") == 0) {
        f->lengths++;
        f->length_readable = http_length_read(value, &f->length);
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->encodings++;
        f->chunked = strcasecmp(value, "chunked") == 0;
    } else if (strcasecmp(name, "Host") == 0) {
        f->hosts++;
        f->bad_host = value[0] != '\0' && !http_host_valid(value, strlen(value));
    } else if (strcasecmp(name, "Expect") == 0) {
        f->expects_continue = strcasecmp(value, "100-continue") == 0;
        f->other_expectation = !f->expects_continue;
    }
    return true;
}

/* A request whose framing two readers could understand differently is refused, and the connection
 * ends with it. */
static bool framing_ok(struct exchange *ex, const struct head_facts *f, const char *version)
{
    ex->close = true;
    if (f->bad_name || f->bad_value) {
        exchange_refuse(ex, 400, ERR_PARSE, "A header has a malformed name or value.");
    } else if (f->encodings > 0 && !f->chunked) {
        exchange_refuse(ex, 501, ERR_UNSUPPORTED, "The only Transfer-Encoding known is chunked.");
    } else if (f->encodings > 1 || f->lengths > 1 || (f->encodings > 0 && f->lengths > 0)) {
        exchange_refuse(ex, 400, ERR_PARSE,
                        "The length of the body is stated more than once; send one "
                        "Content-Length or one Transfer-Encoding.");
    } else if (f->lengths > 0 && !f->length_readable) {
        exchange_refuse(ex, 400, ERR_PARSE, "The Content-Length is not a number.");
    } else if (f->hosts > 1 || (f->hosts == 0 && strcmp(version, "HTTP/1.1") == 0)) {
        exchange_refuse(ex, 400, ERR_PARSE, "There must be one Host header.");
    } else if (f->bad_host) {
        exchange_refuse(ex, 400, ERR_PARSE, "The Host header names no host.");
    } else if (f->repeated != NULL) {
        exchange_refuse(ex, 400, ERR_PARSE, "There may be one %s header.", f->repeated);
    } else if (f->other_expectation) {
        exchange_refuse(ex, 417, ERR_UNSUPPORTED, "The only Expect known is 100-continue.");
    } else {
        ex->close = false;
    }
    return ex->answer.status == 0;
}

static bool head_fits(struct exchange *ex, const char *target)
{
    const size_t target_size = strlen(target);
    if (target_size > HTTP_TARGET_MAX) {
        ex->path[0] = '\0'; /* not repeated in the answer */
        exchange_refuse(ex, 414, ERR_TOO_LARGE, "The path may have at most %d bytes.",
                        HTTP_TARGET_MAX);
    } else if (exchange_header_size(ex) > ex->http->options.max_header_bytes) {
        exchange_refuse(ex, 431, ERR_TOO_LARGE,
                        "The headers may have at most %zu bytes (--max-header-bytes).",
                        ex->http->options.max_header_bytes);
    }
    return ex->answer.status == 0;
}

static void take_ids(struct exchange *ex)
{
    const char *given = request_header(&ex->request, "X-Request-Id");
    if (given != NULL && http_request_id_valid(given)) {
        memcpy(ex->request_id, given, strlen(given) + 1);
    } else {
        char id[ID_SIZE];
        id_new(&ex->http->app->ids, "req", clock_wall_ms(), id);
        memcpy(ex->request_id, id, strlen(id) + 1);
    }
    request_set_header(&ex->request, "X-Request-Id", ex->request_id);
    const char *trace = request_header(&ex->request, "traceparent");
    if (trace != NULL && http_traceparent_valid(trace)) {
        request_set_header(&ex->request, "traceparent", trace);
    }
}

static bool no_memory(struct exchange *ex)
{
    exchange_refuse(ex, 500, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
    return false;
}

static bool take_host(struct exchange *ex, const char *target)
{
    size_t len;
    const char *host = http_target_host(target, &len);
    if (host != NULL && !http_host_valid(host, len)) {
        ex->close = true;
        exchange_refuse(ex, 400, ERR_PARSE, "The request's target names no host.");
    } else if (host != NULL && (ex->host = mem_strndup(host, len)) == NULL) {
        no_memory(ex);
    }
    return ex->answer.status == 0;
}

/* ---- Route and parameters. ---- */

static bool take_params(struct exchange *ex, const struct route_found *found)
{
    for (int i = 0; i < found->params; i++) {
        const struct route_span *span = &found->spans[i];
        if (!http_percent_decode(span->start, span->len, &ex->params[i])) {
            return no_memory(ex);
        }
        if (ex->params[i] == NULL) {
            exchange_refuse(ex, 400, ERR_PARSE,
                            "The path has a malformed escape, a control character or no UTF-8.");
            return false;
        }
        ex->request.param[i] = ex->params[i];
    }
    return true;
}

static bool take_route(struct exchange *ex, const char *path)
{
    const struct route_found found = route_find(ex->http->routes, ex->method, path);
    if (found.route != NULL) {
        ex->request.route = found.route;
        return take_params(ex, &found);
    }
    if (found.known) {
        request_set_header(&ex->request, "Allow", found.allow);
        exchange_refuse(ex, 405, ERR_UNSUPPORTED, "Here the method may be: %s.", found.allow);
    } else {
        exchange_refuse(ex, 404, ERR_NOT_FOUND, "There is nothing at this path.");
    }
    return false;
}

struct query_reading {
    struct exchange *exchange;
    bool bad, no_memory;
    int seen;
};

static bool take_query_arg(void *context, const char *name, const char *value)
{
    struct query_reading *r = context;
    if (++r->seen > HTTP_QUERY_MAX) {
        return false;
    }
    struct exchange *ex = r->exchange;
    struct query_arg arg = {.name = NULL};
    r->no_memory = !http_percent_decode(name, strlen(name), &arg.name) ||
                   !http_percent_decode(value, strlen(value), &arg.value);
    r->bad = !r->no_memory && (arg.name == NULL || arg.value == NULL);
    ex->query[ex->query_count++] = arg;
    return !r->no_memory && !r->bad;
}

static bool count_query_arg(void *context, const char *name, const char *value)
{
    (void)name;
    (void)value;
    return ++*(int *)context <= HTTP_QUERY_MAX;
}

static bool take_query(struct exchange *ex)
{
    int count = 0;
    exchange_each_query(ex, count_query_arg, &count);
    if (count == 0) {
        return true;
    }
    if (count > HTTP_QUERY_MAX) {
        exchange_refuse(ex, 400, ERR_TOO_LARGE, "There may be at most %d query parameters.",
                        HTTP_QUERY_MAX);
        return false;
    }
    ex->query = mem_zarray((size_t)count, sizeof(*ex->query));
    if (ex->query == NULL) {
        return no_memory(ex);
    }
    struct query_reading r = {.exchange = ex};
    exchange_each_query(ex, take_query_arg, &r);
    if (r.no_memory) {
        return no_memory(ex);
    }
    if (r.bad) {
        exchange_refuse(ex, 400, ERR_PARSE,
                        "Query parameter %d has a malformed escape, a control character or no "
                        "UTF-8.",
                        r.seen);
    }
    return !r.bad;
}

static bool is_repeated(const struct exchange *ex, int at)
{
    for (int i = 0; i < at; i++) {
        if (strcmp(ex->query[i].name, ex->query[at].name) == 0) {
            return true;
        }
    }
    return false;
}

static void refuse_query(struct exchange *ex, const char *name, bool repeated)
{
    struct err err;
    char pointer[sizeof(err.pointer)];
    snprintf(pointer, sizeof(pointer), "#/query/%s", name);
    if (repeated) {
        err_at(&err, ERR_INVALID, pointer, "The query parameter \"%s\" may be given once.", name);
    } else {
        err_at(&err, ERR_INVALID, pointer, "There is no query parameter \"%s\" here.", name);
    }
    reply_error(&ex->request, &err);
}

/* Only what the route takes, and only once where once is enough: what is not understood is never
 * passed over in silence. */
static bool query_welcome(struct exchange *ex)
{
    for (int i = 0; i < ex->query_count; i++) {
        const char *name = ex->query[i].name;
        const enum route_takes takes = route_takes(ex->request.route->query, name);
        const bool repeated = takes == ROUTE_TAKES_ONE && is_repeated(ex, i);
        if (takes == ROUTE_TAKES_NONE || repeated) {
            refuse_query(ex, name, repeated);
            return false;
        }
    }
    return true;
}

/* ---- The body. ---- */

static int64_t body_limit(const struct exchange *ex)
{
    const struct route *r = ex->request.route;
    if ((r->flags & ROUTE_STREAM) != 0) {
        return ex->http->options.max_upload_bytes;
    }
    if ((r->flags & ROUTE_BODY) != 0) {
        const int64_t most = ex->http->options.max_body_bytes;
        return r->body_max > 0 && (int64_t)r->body_max < most ? (int64_t)r->body_max : most;
    }
    return 0;
}

static void refuse_size(struct exchange *ex)
{
    const struct http_options *o = &ex->http->options;
    const char *setting = (ex->request.route->flags & ROUTE_STREAM) != 0 ? " (--max-upload-bytes)"
                          : ex->limit == o->max_body_bytes               ? " (--max-body-bytes)"
                                                                         : "";
    exchange_refuse(ex, 413, ERR_TOO_LARGE, "The body may have at most %" PRId64 " bytes%s.",
                    ex->limit, setting);
}

static bool body_welcome(struct exchange *ex)
{
    ex->limit = body_limit(ex);
    if ((ex->request.route->flags & (ROUTE_BODY | ROUTE_STREAM)) == 0) {
        if (ex->length != 0) {
            exchange_refuse(ex, 400, ERR_INVALID, "This request takes no body.");
        }
    } else if (ex->length > ex->limit) {
        refuse_size(ex);
    }
    return ex->answer.status == 0;
}

static bool capacity_left(struct exchange *ex)
{
    const bool health = ex->request.route != NULL && (ex->request.route->flags & ROUTE_HEALTH) != 0;
    if (ex->connection->surplus && !health) {
        ex->close = true;
        request_shed(&ex->request, SHED_CONNECTIONS,
                     rate_retry_after_s(&ex->http->connection_rate, ex->started, 1.0));
        exchange_refuse(ex, 503, ERR_BUSY,
                        "All %d connections (--max-connections) are in use; try again later.",
                        ex->http->options.max_connections);
    }
    return ex->answer.status == 0;
}

/* Who names a deadline means it for everything; the server's own is not for uploads, which take as
 * long as their size does. */
static bool take_deadline(struct exchange *ex)
{
    const char *given = request_header(&ex->request, "X-Request-Timeout");
    double seconds = ex->http->options.request_deadline_s;
    if (given != NULL && !http_timeout_read(given, &seconds)) {
        struct err err;
        err_at(&err, ERR_INVALID, "#/header/x-request-timeout",
               "X-Request-Timeout is a number of seconds in decimal digits, without an exponent, "
               "such as 0.5: more than 0 and at most %d.",
               HTTP_TIMEOUT_MAX_S);
        reply_error(&ex->request, &err);
        return false;
    }
    if (given != NULL || (seconds > 0.0 && (ex->request.route->flags & ROUTE_STREAM) == 0)) {
        ex->deadline = ex->started + seconds;
    }
    return true;
}

static bool welcome(struct exchange *ex, const char *path)
{
    return take_route(ex, path) && capacity_left(ex) && exchange_key_ok(ex) && body_welcome(ex) &&
           take_query(ex) && query_welcome(ex) && take_deadline(ex);
}

/* Its sink may refuse a body before any of it is read. */
static void begin_stream(struct exchange *ex, bool ready)
{
    struct metrics_registry *m = ex->http->app->metrics;
    const struct route *r = ex->request.route;
    if (ready && r->begin != NULL) {
        r->begin(&ex->request);
    }
    if (ex->problem != ERR_OK) {
        metrics_count(m, METRIC_TRANSFERS_REFUSED, metrics_route(m, r), (int)ex->problem, 1);
    }
}

void exchange_begin(struct exchange *ex, const char *method, const char *target,
                    const char *version)
{
    const char *path = http_target_path(target);
    struct head_facts facts = {.lengths = 0};
    exchange_each_header(ex, note_header, &facts);
    ex->length = facts.encodings > 0 ? -1 : facts.lengths > 0 ? facts.length : 0;
    ex->expects_continue = facts.expects_continue;
    ex->method = mem_strdup(method);
    ex->path = mem_strdup(path != NULL ? path : target);
    ex->request.method = ex->method != NULL ? ex->method : "";
    ex->request.path = ex->path != NULL ? ex->path : "";
    take_ids(ex);
    if (ex->method == NULL || ex->path == NULL) {
        no_memory(ex);
        return;
    }
    if (!framing_ok(ex, &facts, version) || !head_fits(ex, target) || !take_host(ex, target) ||
        !exchange_host_ok(ex) || !exchange_origin_ok(ex) ||
        exchange_preflight(ex, path != NULL ? path : "")) {
        return;
    }
    const bool ready = welcome(ex, path != NULL ? path : "");
    if (ex->request.route != NULL && (ex->request.route->flags & ROUTE_STREAM) != 0) {
        begin_stream(ex, ready);
    }
}

static void collect(struct exchange *ex, const void *data, size_t size)
{
    struct buf *body = &ex->request.body;
    if (ex->http->bodies + size > ex->http->options.max_bodies_bytes) {
        request_shed(&ex->request, SHED_BODIES,
                     rate_retry_after_s(&ex->http->body_rate, clock_monotonic_s(), 1.0));
        exchange_refuse(ex, 503, ERR_BUSY,
                        "Requests that arrive at once may hold %zu bytes (--max-bodies-bytes); try "
                        "again later.",
                        ex->http->options.max_bodies_bytes);
        return;
    }
    buf_add(body, data, size);
    if (body->failed) {
        no_memory(ex);
    } else {
        ex->http->bodies += size;
    }
}

bool exchange_receive(struct exchange *ex, const void *data, size_t size)
{
    const struct route *r = ex->request.route;
    ex->received += (int64_t)size;
    if (ex->received > ex->limit) {
        refuse_size(ex);
        return false;
    }
    if ((r->flags & ROUTE_STREAM) == 0) {
        collect(ex, data, size);
        return false;
    }
    const int rc = r->data(&ex->request, data, size);
    if (rc < 0 && ex->answer.status == 0) {
        exchange_refuse(ex, 500, ERR_INTERNAL, "A sink refused without an answer.");
    }
    return rc == ROUTE_PAUSE;
}

void exchange_handle(struct exchange *ex)
{
    ex->handled = true;
    app_settle(ex->http->app, NULL); /* what is read is durable, or has not been kept */
    ex->request.route->handle(&ex->request);
    if (ex->answer.status == 0 && ex->request.on_gone == NULL) {
        exchange_refuse(ex, 500, ERR_INTERNAL, "A handler neither answered nor deferred.");
    }
}

void exchange_count(const struct exchange *ex)
{
    struct metrics_registry *m = ex->http->app->metrics;
    metrics_observe(m, METRIC_REQUEST_SECONDS, metrics_route(m, ex->request.route),
                    ex->answer.status / 100, clock_monotonic_s() - ex->started);
}

static void log_request(const struct exchange *ex)
{
    char status[16], seconds[32];
    if (ex->http->app->log.level > LOG_DEBUG) {
        return;
    }
    snprintf(status, sizeof(status), "%d", ex->answer.status);
    snprintf(seconds, sizeof(seconds), "%.6f", clock_monotonic_s() - ex->started);
    log_msg(&ex->http->app->log, LOG_DEBUG, "http.request", "method", ex->request.method, "path",
            ex->request.path, "status", status, "seconds", seconds, "request", ex->request_id,
            ex->key_name[0] != '\0' ? "key" : NULL, ex->key_name, NULL);
}

/* How long event streams lasted says nothing: they were counted before. */
struct exchange *exchange_end(struct exchange *ex)
{
    log_request(ex);
    if (ex->answer.stream == NULL) {
        exchange_count(ex);
    }
    return exchange_free(ex);
}

void exchange_expire(struct exchange *ex)
{
    void (*on_gone)(struct request *) = ex->request.on_gone;
    if (on_gone != NULL) {
        ex->request.on_gone = NULL;
        on_gone(&ex->request);
    }
    exchange_refuse(ex, 504, ERR_DEADLINE,
                    "The deadline passed before there was an answer (X-Request-Timeout, or else "
                    "--request-deadline-s).");
}

void exchange_abandon(struct exchange *ex)
{
    void (*on_gone)(struct request *) = ex->request.on_gone;
    if (ex->handled && ex->answer.status == 0 && on_gone != NULL) {
        ex->request.on_gone = NULL;
        on_gone(&ex->request);
    }
    ex->gone = true;
    exchange_resume(ex);
}
