/*
 * libmicrohttpd's time-out knows inactivity alone, and it does not look at suspended connections at
 * all. Here every phase of a connection has an end, clients that left are noticed, and a server
 * that stops waits for nobody who does not send.
 */
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/http/http_internal.h"
#include "server/http/http_loop.h"

static size_t left_to_send(const struct exchange *ex)
{
    return ex->answer.stream != NULL ? HTTP_STREAM_PENDING_MAX : ex->answer.size;
}

/* How long a phase may last; negative: for ever. */
static double allowance(const struct connection *c)
{
    const struct http_options *o = &c->http->options;
    const struct exchange *ex = c->exchange;
    if (c->phase == CONNECTION_SENDING && ex->answer.stream != NULL &&
        !stream_ended(ex->answer.stream)) {
        return -1.0;
    }
    switch (c->phase) {
    case CONNECTION_WAITING:
        return c->surplus ? fmin(o->idle_timeout_s, HTTP_SPARE_WAIT_S) : o->idle_timeout_s;
    case CONNECTION_RECEIVING:
    case CONNECTION_DROPPING:
        return o->receive_timeout_s + (double)ex->received / HTTP_SLOWEST_RATE;
    case CONNECTION_LINGERING:
        return HTTP_LINGER_S;
    case CONNECTION_SENDING:
        return o->receive_timeout_s + (double)left_to_send(ex) / HTTP_SLOWEST_RATE;
    case CONNECTION_HANDLING:
        break;
    }
    return -1.0;
}

static void expire(struct connection *c)
{
    if (c->phase == CONNECTION_RECEIVING) {
        exchange_refuse(c->exchange, 408, ERR_BUSY,
                        "The request did not arrive in time (X-Request-Timeout, or else "
                        "--request-timeout-s).");
        connection_answer_now(c);
    } else if (c->phase == CONNECTION_DROPPING) {
        connection_answer_now(c); /* the rest of the body never came */
    } else {
        connection_cut(c);
    }
}

/* Of what is received or handled. Where the socket is to be answered past libmicrohttpd, `expire`
 * does it. */
static bool is_overdue(const struct connection *c, double now)
{
    const struct exchange *ex = c->exchange;
    return ex != NULL && ex->deadline > 0.0 && now >= ex->deadline && ex->answer.status == 0 &&
           (c->phase == CONNECTION_HANDLING || c->phase == CONNECTION_RECEIVING);
}

/* libmicrohttpd 0.9.75 neither reads on nor gives up when a chunk's head does not fit its buffer,
 * and asks to be run again at once. */
static bool is_stuck(struct connection *c)
{
    const bool receiving = c->phase == CONNECTION_RECEIVING || c->phase == CONNECTION_DROPPING ||
                           c->phase == CONNECTION_LINGERING;
    int unread = 0;
    if (!receiving || c->exchange->suspended || c->exchange->received != c->noticed ||
        ioctl(c->fd, FIONREAD, &unread) != 0 || unread == 0) {
        c->noticed = receiving ? c->exchange->received : 0;
        c->stuck = 0;
        return false;
    }
    return ++c->stuck >= HTTP_STUCK_MAX;
}

/* Bytes that the peer has acknowledged, of all that was ever sent to it; 0 before the first. Where
 * the system does not say, those of a fast one. */
static int64_t acknowledged(const struct connection *c, double now)
{
    struct tcp_info info = {.tcpi_bytes_acked = 0};
    socklen_t size = sizeof(info);
    const bool told =
        getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
        size >= offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked);
    return told ? (int64_t)info.tcpi_bytes_acked : (int64_t)(2 * HTTP_SLOWEST_RATE * now);
}

/* While the server stops: whether the rest of a body, or of an answer, is not waited for. One that
 * the daemon itself holds back is; event streams are ended elsewhere. */
static bool holds_up(struct connection *c, double now)
{
    const bool sends = c->phase == CONNECTION_RECEIVING || c->phase == CONNECTION_DROPPING ||
                       c->phase == CONNECTION_LINGERING;
    const bool reads = c->phase == CONNECTION_SENDING && c->exchange->answer.stream == NULL;
    const double since = now - c->pace_s;
    if (c->http->listen_fd >= 0 || !(sends || reads) || c->exchange->suspended) {
        c->pace_s = 0.0;
        return false;
    }
    const bool measured = c->pace_s > 0.0 && c->pace_s >= c->since; /* in this phase */
    if (measured && since < HTTP_STALL_S) {
        return false;
    }
    const int64_t moved = sends ? c->exchange->received : acknowledged(c, now);
    const bool slow = measured && (double)(moved - c->pace) < HTTP_SLOWEST_RATE * since;
    c->pace_s = now;
    c->pace = moved;
    return slow;
}

static void stop_waiting(struct connection *c)
{
    struct exchange *ex = c->exchange;
    if (c->phase == CONNECTION_LINGERING || c->phase == CONNECTION_SENDING) {
        connection_cut(c);
        return;
    }
    if (c->phase == CONNECTION_RECEIVING) {
        request_shed(&ex->request, SHED_STOPPING, 1);
        exchange_refuse(ex, 503, ERR_BUSY, "The server is stopping; the request came too slowly.");
    }
    connection_answer_now(c);
}

static void give_up(struct connection *c)
{
    if (c->exchange->answer.status == 0) {
        exchange_refuse(c->exchange, 400, ERR_PARSE, "The body's chunks are malformed.");
        connection_answer_now(c);
    }
    connection_cut(c);
}

/* The peer closed its end, and nothing of what it sent is left. While it waits for an answer the
 * first is enough. */
static void peer_left(struct connection *c)
{
    struct exchange *ex = c->exchange;
    int unread = 0;
    if (ex != NULL && ex->suspended && c->phase != CONNECTION_RECEIVING) {
        exchange_abandon(ex);
    } else if (c->phase != CONNECTION_SENDING && (ex == NULL || !ex->suspended) && !c->cut &&
               ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0) {
        connection_cut(c); /* MHD may have missed it: it takes a short read for the last one */
    }
}

static void find_gone(struct http *h)
{
    nfds_t count = 0;
    for (struct connection *c = h->connections; c != NULL; c = c->next) {
        h->polled[count++] = (struct pollfd){.fd = c->fd, .events = POLLRDHUP};
    }
    if (count == 0 || poll(h->polled, count, 0) <= 0) {
        return;
    }
    /* The list is as it was: abandoning resumes, and resuming only asks for a later run. */
    nfds_t i = 0;
    for (struct connection *c = h->connections; c != NULL; c = c->next, i++) {
        if (h->polled[i].revents != 0) {
            peer_left(c);
        }
    }
}

/* Wakes the loop for the first deadline of what is being handled. */
static void set_alarm(struct http *h, double now)
{
    double first = 0.0;
    for (const struct connection *c = h->connections; c != NULL; c = c->next) {
        const struct exchange *ex = c->exchange;
        if (ex != NULL && c->phase == CONNECTION_HANDLING && ex->deadline > now &&
            (first == 0.0 || ex->deadline < first)) {
            first = ex->deadline;
        }
    }
    if (first > 0.0 && first - now < 1.0 && h->loop != NULL) {
        http_loop_alarm(h->loop, (long)(1e3 * (first - now)) + 1);
    }
}

void http_watch(struct http *h)
{
    const double now = clock_monotonic_s();
    for (struct connection *c = h->connections; c != NULL; c = c->next) {
        const double allowed = allowance(c);
        if (!c->cut && is_overdue(c, now) && c->phase == CONNECTION_HANDLING) {
            exchange_expire(c->exchange);
        } else if (!c->cut &&
                   ((allowed >= 0.0 && now - c->since > allowed) || is_overdue(c, now))) {
            expire(c);
        } else if (!c->cut && holds_up(c, now)) {
            stop_waiting(c);
        } else if (!c->cut && is_stuck(c)) {
            give_up(c);
        }
    }
    find_gone(h);
    set_alarm(h, now);
}
