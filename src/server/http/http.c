/*
 * The one file that knows libmicrohttpd (0.9.75 and later): it turns MHD's callbacks into the steps
 * of an exchange, and answers into responses.
 *
 * MHD calls on_access first with the headers alone, then for every piece of the body, then once
 * more with nothing: there the handler runs. A response can be queued in the first and in the last
 * of these calls only. A handler that defers leaves the connection suspended, and MHD repeats the
 * last call after exchange_resume.
 */
#include "server/http/http.h"

#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http_internal.h"
#include "server/http/http_listen.h"
#include "server/http/http_loop.h"
#include "server/http/http_tls.h"

enum {
    /* MHD's pool for headers and buffers, a connection; it is cleared after every request, so that
     * its size is time. */
    CONNECTION_MEMORY = 32 * 1024,
    STREAM_BLOCK = 16 * 1024,
    HELD_TICK_MS = 1, /* between two looks at them */
    QUIET_RUNS = 2,   /* after which libmicrohttpd has nothing to do but to ask for them again */
    STOP_MS = 500     /* how long http_stop waits for last answers to leave */
};

/* Nothing older than TLS 1.2. */
static char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

/* ---- The loop. ---- */

/* MHD asks to be run again at once as long as an exchange is held. It may also have something to do
 * then, and shows it by doing it. */
static long next_run_ms(const struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(h->mhd, &ms) != MHD_YES) {
        return -1;
    }
    if (ms == 0 && h->held > 0 && h->quiet > QUIET_RUNS) {
        return HELD_TICK_MS;
    }
    return ms < INT_MAX ? (long)ms : INT_MAX;
}

/* Runs MHD and arranges for the next run, which MHD does not always ask for: not for connections
 * that a handler resumed during this run, and not to listen again after the connection limit. */
static void run(void *context)
{
    struct http *h = context;
    const int before = h->connection_count;
    h->resumed = h->moved = false;
    h->run_s = clock_monotonic_s();
    MHD_run(h->mhd);
    h->quiet = h->moved ? 0 : h->quiet + 1;
    if (h->loop != NULL) {
        const bool again = h->resumed || h->connection_count < before;
        http_loop_wake(h->loop, again ? 0 : next_run_ms(h));
    }
}

static void sweep(void *context)
{
    http_watch(context);
    run(context);
}

static void release(void *context)
{
    struct http *h = context;
    mem_free(h->polled);
    mem_free(h);
}

void exchange_resume(struct exchange *ex)
{
    if (ex->suspended) {
        ex->suspended = false;
        MHD_resume_connection(ex->mhd);
    } else if (!ex->held) {
        return;
    }
    if (ex->http->loop != NULL) {
        ex->http->resumed = true;
        http_loop_wake(ex->http->loop, 0);
    }
}

void exchange_let_go(struct exchange *ex)
{
    ex->http->held -= ex->held;
    ex->held = false;
}

/* Not while the server stops: nobody would resume it any more, and its connection ends instead. */
static enum MHD_Result suspend(struct exchange *ex)
{
    if (ex->http->stopping) {
        return MHD_NO;
    }
    if (!ex->suspended) { /* MHD may deliver one more piece after the one that suspended */
        ex->suspended = true;
        MHD_suspend_connection(ex->mhd);
    }
    return MHD_YES;
}

/* A deferred exchange whose answer is likely to be there soon: MHD is told nothing and asks again
 * with its next run. Suspending and resuming would take calls of the kernel that cost as much as
 * HELD_ASKS questions; under load many come between a question and its answer, however long that
 * takes. */
static enum MHD_Result hold(struct exchange *ex)
{
    struct http *h = ex->http;
    const bool late = h->quiet > QUIET_RUNS && h->run_s - ex->connection->since > HELD_S;
    if (h->stopping || late || ++ex->asked > HELD_ASKS) {
        exchange_let_go(ex);
        return suspend(ex);
    }
    h->held += !ex->held;
    ex->held = true;
    return MHD_YES;
}

void request_continue(struct request *rq)
{
    exchange_resume(exchange_of(rq));
}

/* ---- Reading the head. ---- */

const char *request_header(struct request *rq, const char *name)
{
    return MHD_lookup_connection_value(exchange_of(rq)->mhd, MHD_HEADER_KIND, name);
}

struct visitor {
    bool (*visit)(void *context, const char *name, const char *value);
    void *context;
};

static enum MHD_Result visit_value(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    const struct visitor *v = cls;
    (void)kind;
    return v->visit(v->context, name, value != NULL ? value : "") ? MHD_YES : MHD_NO;
}

void exchange_each_header(struct exchange *ex,
                          bool (*visit)(void *context, const char *name, const char *value),
                          void *context)
{
    struct visitor v = {.visit = visit, .context = context};
    MHD_get_connection_values(ex->mhd, MHD_HEADER_KIND, visit_value, &v);
}

void exchange_each_query(struct exchange *ex,
                         bool (*visit)(void *context, const char *name, const char *value),
                         void *context)
{
    struct visitor v = {.visit = visit, .context = context};
    MHD_get_connection_values(ex->mhd, MHD_GET_ARGUMENT_KIND, visit_value, &v);
}

size_t exchange_header_size(struct exchange *ex)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(ex->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info != NULL ? info->header_size : 0;
}

/* Names and values stay as they came; http_text.c resolves escapes, strictly. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

/* ---- Answering. ---- */

static ssize_t read_stream(void *cls, uint64_t position, char *ret, size_t max)
{
    struct exchange *ex = cls;
    (void)position;
    if (ex->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    const size_t n = stream_take(ex->answer.stream, ret, max);
    if (n > 0) {
        return (ssize_t)n;
    }
    if (ex->http->stopping || stream_over(ex->answer.stream)) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    suspend(ex); /* MHD would ask again and again otherwise */
    return 0;
}

static void add_header(void *context, const char *name, const char *value)
{
    MHD_add_response_header(context, name, value);
}

/* Of an answer that has no body. */
static ssize_t read_nothing(void *context, uint64_t position, char *ret, size_t max)
{
    (void)context;
    (void)position;
    (void)ret;
    (void)max;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static struct MHD_Response *make_response(struct exchange *ex)
{
    struct answer *a = &ex->answer;
    if (a->status == 304) { /* MHD sends no body, but the size is that of the copy which is right */
        return MHD_create_response_from_callback(a->size, STREAM_BLOCK, read_nothing, NULL, NULL);
    }
    /* MHD ends the chunks of a body that HEAD has not, and the client takes that for an answer. */
    if (a->stream != NULL && strcmp(ex->method, "HEAD") != 0) {
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, ex,
                                                 NULL);
    }
    if (a->file) {
        struct MHD_Response *response = MHD_create_response_from_fd64(a->size, a->fd);
        a->file = response == NULL; /* It closes the file. */
        return response;
    }
    return MHD_create_response_from_buffer(a->size, a->size > 0 ? a->body : "",
                                           MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result queue(struct exchange *ex)
{
    struct answer *a = &ex->answer;
    struct MHD_Response *response = make_response(ex);
    if (response == NULL) {
        return MHD_NO;
    }
    answer_each_header(a, add_header, response);
    if (ex->close || ex->http->listen_fd < 0) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    connection_enter(ex->connection, CONNECTION_SENDING);
    const enum MHD_Result rc = MHD_queue_response(ex->mhd, (unsigned int)a->status, response);
    MHD_destroy_response(response);
    return rc;
}

bool exchange_send_tls(struct exchange *ex, const void *data, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(ex->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL && http_tls_send(info->tls_session, data, size);
}

/* ---- Receiving. ---- */

/* Blanks around a value are none of it (RFC 9112, section 5.1); libmicrohttpd leaves those behind
 * it. Of Transfer-Encoding they stay, since it has understood that value as it stands. */
static bool trim(void *context, const char *name, const char *value)
{
    (void)context;
    size_t n = strlen(value);
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        return true;
    }
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t')) {
        ((char *)(uintptr_t)value)[--n] = '\0'; /* the connection's own buffer */
    }
    return true;
}

static enum MHD_Result first_call(struct exchange *ex, const char *method, const char *target,
                                  const char *version)
{
    exchange_each_header(ex, trim, NULL);
    connection_enter(ex->connection, CONNECTION_RECEIVING);
    exchange_begin(ex, method, target, version);
    if (ex->answer.status == 0 || ex->length == 0) {
        return ex->close && ex->answer.status != 0 ? queue(ex) : MHD_YES;
    }
    if (ex->close || ex->expects_continue || ex->length == INT64_MAX) {
        return queue(ex); /* nothing of the body is read */
    }
    exchange_settle(ex, ex->length);
    return MHD_YES;
}

static enum MHD_Result piece_call(struct exchange *ex, const char *data, size_t size)
{
    const bool refused = ex->answer.status != 0;
    const bool pause = !refused && exchange_receive(ex, data, size);
    if (ex->answer.status != 0 && ex->connection->phase == CONNECTION_RECEIVING) {
        ex->received += refused ? (int64_t)size : 0;
        exchange_settle(ex, ex->length >= 0 ? ex->length - ex->received : -1);
    } else if (refused) {
        exchange_drop(ex, size);
    }
    return pause ? suspend(ex) : MHD_YES;
}

/* A deadline before the next sweep. */
static void set_alarm(const struct exchange *ex)
{
    const double left = ex->deadline - clock_monotonic_s();
    if (ex->answer.status == 0 && ex->deadline > 0.0 && left < 1.0 && ex->http->loop != NULL) {
        http_loop_alarm(ex->http->loop, left > 0.0 ? (long)(1e3 * left) + 1 : 0);
    }
}

static enum MHD_Result last_call(struct exchange *ex)
{
    if (ex->gone || ex->connection->phase == CONNECTION_LINGERING) {
        return MHD_NO;
    }
    if (ex->answer.status == 0 && ex->http->stopping) {
        request_shed(&ex->request, SHED_STOPPING, 1);
        exchange_refuse(ex, 503, ERR_BUSY, "The server is stopping.");
    }
    if (ex->answer.status == 0 && !ex->handled) {
        connection_enter(ex->connection, CONNECTION_HANDLING);
        exchange_handle(ex);
        set_alarm(ex);
        ex->http->moved = true;
    }
    if (ex->answer.status == 0) {
        return hold(ex);
    }
    ex->http->moved = true;
    exchange_let_go(ex);
    return queue(ex);
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **con_cls)
{
    struct http *h = cls;
    struct exchange *ex = *con_cls;
    h->moved = h->moved || ex == NULL || *size > 0;
    if (ex == NULL) {
        struct connection *c = connection_of(mhd);
        ex = c != NULL ? exchange_new(h, c, mhd) : NULL;
        *con_cls = ex;
        return ex != NULL ? first_call(ex, method, url, version) : MHD_NO;
    }
    if (*size > 0) {
        const size_t n = *size;
        *size = 0;
        return piece_call(ex, data, n);
    }
    return last_call(ex);
}

/* ---- Ends. ---- */

static void complete(struct exchange *ex)
{
    struct connection *c = ex->connection;
    if (ex->held) { /* MHD closed it before it was asked again */
        exchange_let_go(ex);
        exchange_abandon(ex);
    }
    c->http->moved = true;
    exchange_end(ex);
    connection_enter(c, CONNECTION_WAITING);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                         enum MHD_RequestTerminationCode why)
{
    (void)cls;
    (void)mhd;
    (void)why;
    if (*con_cls != NULL) {
        complete(*con_cls);
        *con_cls = NULL;
    }
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = connection_open(cls, info->connect_fd); /* NULL: on_access refuses it */
    } else {
        struct connection *c = *context;
        if (c != NULL && c->exchange != NULL) { /* libmicrohttpd 1.0 does not tell of every end: not
                                                 * where a chunk's head is too long for it */
            complete(c->exchange);
        }
        *context = connection_close(c);
    }
}

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format,
                                                         va_list args)
{
    const struct http *h = cls;
    char text[256];
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    log_msg(&h->app->log, LOG_DEBUG, "http.library", "text", text, NULL);
}

/* ---- Start and stop. ---- */

/* Options only for TLS; none ends the list where it stands. */
static void tls_options(const struct http *h, struct MHD_OptionItem ret[4])
{
    int n = 0;
    if (h->tls) {
        /* libmicrohttpd reads these and keeps none of them. */
        char *certificate = (char *)(uintptr_t)h->options.tls_certificate;
        char *key = (char *)(uintptr_t)h->options.tls_key;
        ret[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, certificate};
        ret[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key};
        ret[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, tls_priorities};
    }
    ret[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

static int start_daemon(struct http *h, struct err *err)
{
    const unsigned int limit = (unsigned int)connections_most(h);
    struct MHD_OptionItem tls[4];
    tls_options(h, tls);
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (h->tls ? MHD_USE_TLS : 0u),
        0, NULL, NULL, on_access, h, MHD_OPTION_EXTERNAL_LOGGER, on_log,
        h,                                      /* first, or early messages go elsewhere */
        MHD_OPTION_LISTEN_SOCKET, h->listen_fd, //
        MHD_OPTION_CONNECTION_LIMIT, limit,     //
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)h->options.idle_timeout_s, //
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,          //
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,                           //
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,                         //
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, h,                          //
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,                                   //
        MHD_OPTION_ARRAY, tls,                                                  //
        MHD_OPTION_END);
    return h->mhd != NULL ? 0 : err_set(err, ERR_INTERNAL, "The HTTP server did not start.");
}

static int watch(struct http *h, void *loop, struct err *err)
{
    static const struct http_loop_ops ops = {.run = run, .sweep = sweep, .closed = release};
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    int rc = http_loop_open(loop, info->epoll_fd, &ops, h, &h->loop, err);
    if (rc == 0) {
        http_loop_wake(h->loop, 0);
    }
    return rc;
}

int http_start(struct app *app, void *loop, const struct http_options *o,
               const struct route *routes, struct http **ret, struct err *err)
{
    struct http *h = mem_zalloc(sizeof(*h));
    if (h == NULL) {
        close(o->listen_fd);
        return err_no_memory(err);
    }
    *h = (struct http){.app = app,
                       .routes = routes,
                       .options = *o,
                       .listen_fd = o->listen_fd,
                       .loopback = http_address_is_loopback(o->address),
                       .tls = o->tls_certificate != NULL};
    h->options.address = NULL; /* the caller's */
    connections_fit(h);
    h->polled = mem_array((size_t)connections_most(h), sizeof(*h->polled));
    int rc = h->polled != NULL ? 0 : err_no_memory(err);
    rc = rc == 0 ? http_listen(h->listen_fd, &h->port, err) : rc;
    rc = rc == 0 ? start_daemon(h, err) : rc;
    rc = rc == 0 ? watch(h, loop, err) : rc;
    if (rc != 0) {
        MHD_stop_daemon(h->mhd);
        if (h->mhd == NULL && h->listen_fd >= 0) {
            close(h->listen_fd);
        }
        release(h);
        return rc;
    }
    h->options.tls_certificate = h->options.tls_key = NULL; /* likewise; MHD has read them */
    *ret = h;
    return 0;
}

int http_port(const struct http *h)
{
    return h->port;
}

int http_connections(const struct http *h)
{
    return h->connection_count;
}

int http_in_flight(const struct http *h)
{
    return h->in_flight;
}

void http_quiesce(struct http *h)
{
    if (h->listen_fd >= 0) {
        MHD_quiesce_daemon(h->mhd);
        close(h->listen_fd);
        h->listen_fd = -1;
        http_watch(h); /* measures from now on who sends */
    }
}

static bool answers_leaving(const struct http *h)
{
    for (const struct connection *c = h->connections; c != NULL; c = c->next) {
        if (c->phase == CONNECTION_HANDLING || c->phase == CONNECTION_SENDING) {
            return true;
        }
    }
    return false;
}

/* Nothing may be suspended when MHD stops, or it aborts. */
static void finish(struct http *h)
{
    for (struct connection *c = h->connections; c != NULL; c = c->next) {
        struct exchange *ex = c->exchange;
        if (ex != NULL && c->phase == CONNECTION_HANDLING && ex->answer.status == 0) {
            exchange_abandon(ex);
            ex->gone = false;
            request_shed(&ex->request, SHED_STOPPING, 1);
            exchange_refuse(ex, 503, ERR_BUSY, "The server is stopping.");
        } else if (ex != NULL) {
            exchange_resume(ex);
        }
    }
    const double end = clock_monotonic_s() + STOP_MS / 1e3;
    do {
        MHD_run(h->mhd);
        poll(NULL, 0, 1);
    } while (answers_leaving(h) && clock_monotonic_s() < end);
}

struct http *http_stop(struct http *h)
{
    if (h != NULL) {
        h->stopping = true;
        http_quiesce(h);
        finish(h);
        struct http_loop *loop = h->loop;
        h->loop = NULL;
        http_loop_close(loop); /* before the descriptor that it watches is closed */
        MHD_stop_daemon(h->mhd);
        h->mhd = NULL;
    }
    return NULL;
}
