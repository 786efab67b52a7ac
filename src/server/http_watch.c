/*
 * libmicrohttpd's time-out knows inactivity alone, and it does not look at suspended connections at
 * all. Here every phase of a connection has an end, and clients that left are noticed.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/app.h"
#include "server/http_internal.h"

void connection_enter(struct connection *c, enum connection_phase phase)
{
    c->phase = phase;
    c->since = clock_monotonic_s();
}

void connection_cut(struct connection *c)
{
    c->cut = true;
    shutdown(c->fd, SHUT_RDWR);
}

void connection_answer_now(struct connection *c)
{
    struct buf text cleanup_buf = BUF_INIT;
    answer_print(c->exchange, &text);
    const bool sent = !text.failed && send(c->fd, text.data, text.len,
                                           MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)text.len;
    if (sent) {
        shutdown(c->fd, SHUT_WR);
        connection_enter(c, CONNECTION_LINGERING);
    } else {
        connection_cut(c);
    }
}

/* How long a phase may last; negative: for ever. */
static double allowance(const struct connection *c)
{
    const struct http_options *o = &c->http->options;
    const struct exchange *ex = c->exchange;
    switch (c->phase) {
    case CONNECTION_WAITING:
        return o->idle_timeout_s;
    case CONNECTION_RECEIVING:
    case CONNECTION_DROPPING:
        return o->request_deadline_s + (double)ex->received / HTTP_SLOWEST_RATE;
    case CONNECTION_LINGERING:
        return HTTP_LINGER_S;
    case CONNECTION_SENDING:
        return ex->answer.stream != NULL
                   ? -1.0
                   : o->request_deadline_s + (double)ex->answer.size / HTTP_SLOWEST_RATE;
    case CONNECTION_HANDLING:
        break;
    }
    return -1.0;
}

static void expire(struct connection *c)
{
    if (c->phase == CONNECTION_RECEIVING) {
        exchange_refuse(c->exchange, 408, ERR_BUSY, "The request did not arrive in time.");
        connection_answer_now(c);
    } else {
        connection_cut(c);
    }
}

/* Suspended ones whose peer closed its end. */
static void find_gone(struct http *h)
{
    nfds_t count = 0;
    for (struct connection *c = h->connections; c != NULL; c = c->next) {
        if (c->exchange != NULL && c->exchange->suspended) {
            h->polled[count++] = (struct pollfd){.fd = c->fd, .events = POLLRDHUP};
        }
    }
    if (count == 0 || poll(h->polled, count, 0) <= 0) {
        return;
    }
    /* The list is as it was: abandoning resumes, and resuming only asks for a later run. */
    nfds_t i = 0;
    for (struct connection *c = h->connections; c != NULL && i < count; c = c->next) {
        if (h->polled[i].fd == c->fd && h->polled[i++].revents != 0) {
            exchange_abandon(c->exchange);
        }
    }
}

void http_watch(struct http *h)
{
    const double now = clock_monotonic_s();
    for (struct connection *c = h->connections; c != NULL; c = c->next) {
        const double allowed = allowance(c);
        if (!c->cut && allowed >= 0.0 && now - c->since > allowed) {
            expire(c);
        }
    }
    find_gone(h);
}
