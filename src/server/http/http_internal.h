/*
 * What the files of the HTTP room share: http.c (libmicrohttpd), http_connection.c, http_exchange.c
 * (what is asked), http_answer.c (what is said), http_stream.c (event streams), http_watch.c
 * (deadlines).
 *
 * An exchange is one request with its answer; it ends when libmicrohttpd says so. A connection
 * carries one exchange after another.
 */
#pragma once

#include "base/sha256.h"
#include "server/http/http.h"
#include "server/rate.h"

struct MHD_Connection;
struct MHD_Daemon;
struct http_loop;
struct exchange;

/* A connection that announces more than this and is refused is answered at once and then closed;
 * up to this much is read and dropped, so that the connection lives on. */
#define HTTP_DROP_MAX (64u << 10)
/* How long a refused sender may go on before the connection is cut, in seconds. */
#define HTTP_LINGER_S 10.0
/* Once nobody is accepted any more: a body of which less than HTTP_SLOWEST_RATE has come for so
 * long, in seconds, is waited for no longer, nor an answer of which the client has taken less. */
#define HTTP_STALL_S 3.0
/* Bytes of an API key's name (keys.h). */
#define HTTP_KEY_NAME_MAX 64
/* The slowest transfer that is waited for, in bytes per second, after the request's deadline. */
#define HTTP_SLOWEST_RATE (64.0 * 1024)
/* Looks, one a second, after which a body that is not taken is given up. */
#define HTTP_STUCK_MAX 2
/* A deferred exchange is suspended, which costs more than to wait, once it was asked about so
 * often, or after so long, in seconds, when nothing else goes on. */
#define HELD_ASKS 64
#define HELD_S 0.002
/* Connections beyond the limit that are still accepted, to be told so. */
#define HTTP_SPARE_CONNECTIONS 32
/* How long one of these may take until it asks, in seconds: nobody else is accepted, and told, once
 * they are all taken. */
#define HTTP_SPARE_WAIT_S 2.0

enum connection_phase {
    CONNECTION_WAITING,   /* for a request line and headers */
    CONNECTION_RECEIVING, /* a body */
    CONNECTION_DROPPING,  /* refused; the short rest of the body is dropped, then answered */
    CONNECTION_LINGERING, /* refused and answered; the rest is dropped until the client stops */
    CONNECTION_HANDLING,  /* deferred: suspended until somebody answers */
    CONNECTION_SENDING
};

struct connection {
    struct http *http;
    struct exchange *exchange; /* NULL while waiting */
    struct connection *prev, *next;
    int fd;
    enum connection_phase phase;
    double since;    /* monotonic seconds at which the phase began */
    int64_t noticed; /* bytes of the body that had arrived at the last look */
    int stuck;       /* looks since then at which more was there and none was taken */
    double pace_s;   /* monotonic seconds since when the pace is measured; 0: it is not */
    int64_t pace;    /* bytes of the body that had arrived then, or that the client had taken */
    bool surplus;    /* accepted beyond the limit */
    bool cut;        /* the socket was shut down on purpose */
};

struct answer {
    int status;         /* 0: none yet */
    struct buf headers; /* "Name\0value\0" one after another */
    char *body;
    size_t size;
    struct stream *stream; /* instead of a body */
    bool file;             /* the body are the first `size` bytes of fd, which is owned */
    int fd;
};

struct query_arg {
    char *name, *value;
};

struct exchange {
    struct request request; /* first, so that the one can be had from the other */
    struct http *http;
    struct connection *connection;
    struct MHD_Connection *mhd;
    struct answer answer;
    struct query_arg *query;
    int query_count;
    char *method, *path;
    char *host; /* of a target in absolute form, which the Host header does not count beside */
    char *params[HTTP_MAX_PARAMS];
    char request_id[HTTP_REQUEST_ID_MAX + 1];
    char key_name[HTTP_KEY_NAME_MAX + 1]; /* of the API key, or "" */
    char key_digest[SHA256_HEX_SIZE];     /* by which it is found again */
    unsigned scopes;                      /* its scopes */
    int64_t length;                       /* announced; -1: chunked */
    int64_t limit;                        /* of the body */
    int64_t received;
    double started;
    double deadline;       /* monotonic seconds; 0: none */
    int shed;              /* enum metric_shed; -1: nothing was said of it */
    enum err_code problem; /* that is its answer; ERR_OK: none is */
    bool expects_continue;
    bool handled;   /* handle() was called */
    bool suspended; /* in libmicrohttpd's eyes */
    bool held;      /* deferred, and not suspended: see hold in http.c */
    int asked;      /* how often since it was deferred */
    bool gone;      /* the client left while the exchange was suspended */
    bool close;     /* the connection ends with this answer */
};

struct http {
    struct app *app;
    const struct route *routes;
    struct http_options options;
    const struct keys *keys; /* NULL: everybody is served */
    bool tls;
    bool loopback; /* it listens there */
    struct http_loop *loop;
    struct MHD_Daemon *mhd;
    int port;
    int listen_fd; /* -1 once quiesced */
    bool stopping;
    bool resumed; /* something was, and MHD_run has not begun since */
    bool moved;   /* a request came on during this MHD_run */
    int quiet;    /* runs since the last in which one did */
    int held;     /* exchanges */
    double run_s; /* when the present MHD_run began, monotonic */
    struct connection *connections;
    int connection_count;
    int spare_connections; /* HTTP_SPARE_CONNECTIONS, or fewer where files are few */
    int in_flight;
    size_t bodies;                          /* bytes of bodies in memory */
    struct rate body_rate, connection_rate; /* how fast they make room */
    struct pollfd *polled;                  /* room for every connection */
};

static inline struct exchange *exchange_of(struct request *rq)
{
    return (struct exchange *)(void *)rq;
}

/* http.c */
/* Lets libmicrohttpd go on with a suspended exchange; does nothing with another. */
void exchange_resume(struct exchange *ex);
/* It is held no more. */
void exchange_let_go(struct exchange *ex);
/* All query parameters and headers, each value once; visit returns false to stop. */
void exchange_each_header(struct exchange *ex,
                          bool (*visit)(void *context, const char *name, const char *value),
                          void *context);
void exchange_each_query(struct exchange *ex,
                         bool (*visit)(void *context, const char *name, const char *value),
                         void *context);
size_t exchange_header_size(struct exchange *ex);

/* http_exchange.c */
struct exchange *exchange_new(struct http *h, struct connection *c, struct MHD_Connection *mhd);
struct exchange *exchange_free(struct exchange *ex);
/* Checks the head of the request and finds its route. Afterwards the exchange is either answered
 * (a refusal) or ready for its body. */
void exchange_begin(struct exchange *ex, const char *method, const char *target,
                    const char *version);
/* One piece of the body. May answer. True: the sink wants no more until request_continue. */
bool exchange_receive(struct exchange *ex, const void *data, size_t size);
/* Calls the handler, once. */
void exchange_handle(struct exchange *ex);
/* It is over: logged, counted, freed. Returns NULL. */
struct exchange *exchange_end(struct exchange *ex);
/* Into the registry: the route, the answer's status, the time since the beginning. */
void exchange_count(const struct exchange *ex);
/* Its deadline has passed before an answer was given. */
void exchange_expire(struct exchange *ex);
/* The client left or the server stops before an answer was given. */
void exchange_abandon(struct exchange *ex);

/* Sends through the connection's TLS session, past libmicrohttpd; false: not all of it. */
bool exchange_send_tls(struct exchange *ex, const void *data, size_t size);

/* http_access.c: each answers where it says no. */
bool exchange_host_ok(struct exchange *ex);
bool exchange_origin_ok(struct exchange *ex);
bool exchange_key_ok(struct exchange *ex);
/* Whether the key that it was let in with is still one, with a scope that will do. */
bool exchange_key_holds(const struct exchange *ex);
/* Whether this was a browser's question what a page of an allowed origin may do; it is answered. */
bool exchange_preflight(struct exchange *ex, const char *path);

/* http_answer.c */
void answer_deinit(struct answer *a);
bool answer_has_header(const struct answer *a, const char *name);
/* Calls visit for every header of the answer. */
void answer_each_header(const struct answer *a,
                        void (*visit)(void *context, const char *name, const char *value),
                        void *context);
/* The whole answer as it goes over the wire with "Connection: close". */
void answer_print(const struct exchange *ex, struct buf *ret);
/* Gives an answer that stands before any handler or instead of it. */
void exchange_refuse(struct exchange *ex, int status, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* http_stream.c */
struct stream *stream_new(struct exchange *ex, void (*closed)(void *context), void *context);
/* Calls closed. */
struct stream *stream_free(struct stream *s);
/* Up to max bytes of what is pending; 0: nothing is. */
size_t stream_take(struct stream *s, char *ret, size_t max);
bool stream_ended(const struct stream *s);
bool stream_over(const struct stream *s); /* ended, and nothing is pending */

/* http_connection.c */
/* Lowers max_connections to what options.files allow, and says so in the log. */
void connections_fit(struct http *h);
int connections_most(const struct http *h); /* that are accepted, with the spare ones */
struct connection *connection_open(struct http *h, int fd); /* NULL: no memory */
struct connection *connection_close(struct connection *c);  /* takes and returns NULL */
void connection_enter(struct connection *c, enum connection_phase phase);
/* Ends the connection from outside libmicrohttpd, which learns of it from the socket. */
void connection_cut(struct connection *c);
/* Writes the answer past libmicrohttpd, which takes none while a body arrives. */
void connection_answer_now(struct connection *c);
/* The exchange was refused while `rest` bytes of its body (negative: unknown) are still to come. */
void exchange_settle(struct exchange *ex, int64_t rest);
/* So many of these came, and are dropped. */
void exchange_drop(struct exchange *ex, size_t size);

/* http_watch.c */
/* Once a second: deadlines, and suspended connections whose client left. */
void http_watch(struct http *h);
