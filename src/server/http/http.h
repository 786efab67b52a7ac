/*
 * HTTP on one loop: libmicrohttpd in external epoll mode driven by libuv. This is the only room
 * that knows microhttpd.h; handlers see struct request.
 *
 * Life of a request: headers arrive -> route found, key and size checked -> body collected in
 * memory (ROUTE_BODY) or streamed to the route's sink (ROUTE_STREAM) -> handle() is called once ->
 * exactly one answer, now or later. A handler that returns without answering has deferred: the
 * connection is suspended until somebody answers. It must have set on_gone: when the client leaves
 * first, or the server stops, on_gone is called once and the request must not be touched any more.
 * After an answer the request belongs to http.c; a second answer is ignored.
 *
 * Everything runs on the loop's thread. Handlers never block for more than a few milliseconds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "server/metrics.h"

struct app;
struct http;
struct keys;
struct request;
struct sha256;
struct stream;

#define HTTP_MAX_PARAMS 4
#define HTTP_STREAM_PENDING_MAX (4u << 20) /* a listener that lets more pile up is dropped */
#define HTTP_TARGET_MAX 8192               /* bytes of path and query together */
#define HTTP_QUERY_MAX 128                 /* query parameters of a request */
#define HTTP_REQUEST_ID_MAX 128

enum route_flags {
    ROUTE_NO_BODY = 0,  /* a body is refused (400) */
    ROUTE_BODY = 1,     /* collected in request.body, up to body_max */
    ROUTE_STREAM = 2,   /* handed to data() as it arrives, up to the configured upload limit */
    ROUTE_OPEN = 4,     /* needs no key */
    ROUTE_HEALTH = 8,   /* answered even when the connection limit is reached */
    ROUTE_PREDICT = 16, /* needs a key that may predict; to GET, one that may read will do */
    ROUTE_ADMIN = 32    /* needs a key that may do all; else GET needs one that may read, and */
                        /* everything else one that may train */
};

#define ROUTE_PAUSE 1

struct route {
    const char *method; /* "GET"; HEAD is answered by GET's route without the body */
    /* "/v1/jobs/{id}/cancel"; {x} matches one non-empty segment, or, in "{x}:predict", what stands
     * before the suffix. The first row that fits wins; where one with a suffix fits the path, later
     * ones without do not, whatever the method. */
    const char *pattern;
    unsigned flags;
    size_t body_max; /* ROUTE_BODY, where it is less than max_body_bytes; 0: it is not */
    void (*handle)(struct request *rq);
    /* ROUTE_STREAM: begin may refuse by answering at once (then returns < 0); data may refuse by
     * returning < 0 with the answer given: what follows is read and dropped. data may return
     * ROUTE_PAUSE: the client is held back until request_continue (one more piece may still come,
     * and the sink may answer instead). handle() is called after the last piece. request.user and
     * user_free keep the sink's state. */
    int (*begin)(struct request *rq);
    int (*data)(struct request *rq, const void *data, size_t size);
    /* The query parameters that it takes, parted by blanks; others are refused (422) before
     * anything else is done. "name+" may be given several times, "name.*" stands for every name
     * that begins with "name."; else each may be given once. NULL: none. */
    const char *query;
};

struct request {
    struct app *app;
    const struct route *route;
    const char *method, *path;
    const char *param[HTTP_MAX_PARAMS]; /* decoded values of {x}, in order */
    const char *id;                     /* X-Request-Id, the client's or ours */
    struct buf body;
    void *user;
    void (*user_free)(void *user); /* called when the request ends, however it ends */
    void (*on_gone)(struct request *rq);
    void *deferral; /* whatever on_gone needs; the deferring code's own */
};

/* Ends the pause that a sink asked for. */
void request_continue(struct request *rq);

/* Reading. NULL when absent. */
const char *request_query(struct request *rq, const char *name);
/* The value of the n-th (from 0) parameter of that name; NULL when there are not so many. */
const char *request_query_nth(struct request *rq, const char *name, int n);
const char *request_header(struct request *rq, const char *name);
/* All headers of that name as one list with commas between (RFC 9110, section 5.3), for mem_free;
 * NULL: there is none (or no memory). */
char *request_header_list(struct request *rq, const char *name);
int request_header_count(struct request *rq, const char *name);
/* The seconds that a Prefer header asks to wait; -1: none does. */
int64_t request_prefer_wait(struct request *rq);
/* Whether some If-None-Match header names the entity tag, or any. */
bool request_has_tag(struct request *rq, const char *tag);
/* The same of If-Match, which compares strongly. */
bool request_matches_tag(struct request *rq, const char *tag);
/* Digests what tells a request from others, but for its body: query, Content-Type and
 * Content-Encoding. */
void request_digest_head(struct request *rq, struct sha256 *to);
/* When the request's answer will be of no use any more (X-Request-Timeout, or the server's own
 * limit), in monotonic seconds; 0: never. What is deferred beyond it hears of it by on_gone, and is
 * answered with 504. */
double request_deadline(const struct request *rq);
int64_t request_content_length(struct request *rq); /* -1: unknown (chunked) */
/* Integer query parameter within min..max; absent: *ret unchanged. -ERR_INVALID at "#/query/name".
 */
int request_query_int(struct request *rq, const char *name, int64_t min, int64_t max, int64_t *ret,
                      struct err *err);
/* "true" or "false"; absent: *ret unchanged. Likewise. */
int request_query_flag(struct request *rq, const char *name, bool *ret, struct err *err);
/* The n-th (from 0) of all query parameters; false when there are not so many. */
bool request_query_at(struct request *rq, int n, const char **ret_name, const char **ret_value);
/* 0 when the body is declared as JSON, without a Content-Encoding. Another Content-Type than
 * application/json, …+json, none, or application/x-www-form-urlencoded (as `curl -d` says of any
 * text) is -ERR_UNSUPPORTED at "#/header/content-type". */
int request_is_json(struct request *rq, struct err *err);
/* The body as strict JSON, after request_is_json (whose refusal reply_error makes a 415). */
int request_json_body(struct request *rq, struct json **ret, struct err *err);

/*
 * Moves the body out of the request, for work that goes on when the client has left. It counts
 * against max_bodies_bytes until http_body_done is told its length.
 */
void request_take_body(struct request *rq, struct buf *ret);
void http_body_done(struct http *h, size_t len); /* takes NULL */

/* Answering. Response headers first, then exactly one of the reply functions. */
void request_set_header(struct request *rq, const char *name, const char *value);
void reply_json(struct request *rq, int status, struct json *body); /* takes body; NULL: 500 */
/* 200 with an ETag, by which If-None-Match may ask again (304); takes body. */
void reply_tagged(struct request *rq, struct json *body);
void reply_tagged_text(struct request *rq, char *body); /* the same of JSON as text; NULL: 500 */
void reply_bytes(struct request *rq, int status, const char *type, const void *data,
                 size_t size); /* copies */
void reply_empty(struct request *rq, int status);
/* 304: what the client has is right, and has `size` bytes, which is all that it is told. */
void reply_unchanged(struct request *rq, size_t size);
/* As reply_bytes, but takes data, which mem_free will free; NULL: 500. */
void reply_take(struct request *rq, int status, const char *type, char *data, size_t size);
/* Before a reply that refuses for lack of room: why, for the registry (metrics.h), and when there
 * may be some (rate.h). Without it 429 and 503 count as SHED_OTHER, with "Retry-After: 1";
 * 507, and 503 for a read-only storage, come with a minute. */
void request_shed(struct request *rq, enum metric_shed cause, int retry_after_s);
/* The first `size` bytes of a file, which is read as the client takes them; takes fd. */
void reply_fd(struct request *rq, int status, const char *type, int fd, uint64_t size);
/* problem+json by the error's code: see problem.h. */
void reply_error(struct request *rq, const struct err *err);
void reply_problem(struct request *rq, int status, const struct err *err);

/* An SSE answer (text/event-stream, Cache-Control: no-store, X-Accel-Buffering: no). The stream is
 * freed after `closed` was called, which happens once, never from within a stream_ function: the
 * client left, it let more than HTTP_STREAM_PENDING_MAX bytes pile up, or after stream_end. NULL on
 * lack of memory: then the request was answered with a problem and `closed` is never called. */
struct stream *reply_stream(struct request *rq, void (*closed)(void *context), void *context);
/* id < 0: none. event NULL: none. Line breaks in data become several data lines. */
void stream_event(struct stream *s, int64_t id, const char *event, const char *data);
void stream_comment(struct stream *s, const char *text);
size_t stream_pending(const struct stream *s); /* bytes the client has not taken yet */
void stream_end(struct stream *s);             /* after what is pending */

/* Whether a key that may do all was given, or none is needed here: for a handler whose request asks
 * for more than its route does. */
bool request_is_admin(const struct request *rq);
/* Of the API key that was given; "" where none is needed. */
const char *request_key_name(const struct request *rq);

/* The server itself. */
struct http_options {
    const char *address;     /* "127.0.0.1" or "::1" or "0.0.0.0" */
    int listen_fd;           /* bound to it: http_bind */
    size_t max_header_bytes; /* request line and headers */
    int64_t max_body_bytes;  /* of a body collected in memory */
    size_t max_bodies_bytes; /* of all of them together */
    int64_t max_upload_bytes;
    int max_connections;
    int64_t files;            /* that connections may open, which lowers max_connections; 0: any */
    double idle_timeout_s;    /* without a request; MHD rounds it down */
    const char *cors_origins; /* "https://a.example,https://b.example", "*", or "": none */
    /* Names by which it may be asked (http_host.h). "": any, but for a server on loopback without
     * keys, which is asked by addresses and as localhost alone. */
    const char *allowed_hosts;
    const char *tls_certificate, *tls_key; /* PEM texts; NULL: no TLS */
    double receive_timeout_s;              /* for receiving a request completely */
    double request_deadline_s; /* until its answer, where it does not name one; 0: none */
};
/* Takes o->listen_fd, also on failure. `loop` is a uv_loop_t. routes is terminated by a NULL
 * pattern. */
int http_start(struct app *app, void *loop, const struct http_options *o,
               const struct route *routes, struct http **ret, struct err *err);
/* From now on only who has one of these keys is served (keys.h); NULL: everybody is. Event streams
 * of keys that are no more, or may no more, end. The keys stay the caller's, who keeps them until
 * he has given others. */
void http_set_keys(struct http *h, const struct keys *keys);
int http_port(const struct http *h);
/* Stops accepting; requests in flight go on, but for those whose body does not come and whose
 * answer is not taken. */
void http_quiesce(struct http *h);
int http_connections(const struct http *h);
int http_in_flight(const struct http *h); /* requests not answered completely; no streams */
/* Calls on_gone of what is still deferred, answers it with 503, ends streams, closes everything.
 * The loop must run once more (uv_run) for its handles to be closed and the memory freed. */
struct http *http_stop(struct http *h);
