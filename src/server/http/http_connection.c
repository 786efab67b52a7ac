/* A connection from its beginning to its end, and what is done with its socket past libmicrohttpd.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http_internal.h"

int connections_most(const struct http *h)
{
    return h->options.max_connections + h->spare_connections;
}

/* One that is accepted beyond the files would not be told anything: it would wait. */
void connections_fit(struct http *h)
{
    const int64_t files = h->options.files;
    h->spare_connections = HTTP_SPARE_CONNECTIONS;
    if (files == 0 || files >= connections_most(h)) {
        return;
    }
    if (h->spare_connections > files / 2) {
        h->spare_connections = (int)(files / 2);
    }
    h->options.max_connections = (int)(files - h->spare_connections);
    char text[16];
    snprintf(text, sizeof(text), "%d", h->options.max_connections);
    log_msg(&h->app->log, LOG_WARNING, "http.few_files", "max_connections", text, "detail",
            "The limit of open files (ulimit -n) allows fewer connections than --max-connections.",
            NULL);
}

struct connection *connection_open(struct http *h, int fd)
{
    struct connection *c = mem_zalloc(sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->http = h;
    c->fd = fd;
    c->next = h->connections;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    h->connections = c;
    h->connection_count++;
    c->surplus = h->connection_count > h->options.max_connections;
    connection_enter(c, CONNECTION_WAITING);
    return c;
}

struct connection *connection_close(struct connection *c)
{
    if (c == NULL) {
        return NULL;
    }
    struct http *h = c->http;
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        h->connections = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    h->connection_count--;
    rate_add(&h->connection_rate, clock_monotonic_s(), 1.0);
    return mem_free(c);
}

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

static bool send_now(struct connection *c, const void *data, size_t size)
{
    if (c->http->tls) {
        return exchange_send_tls(c->exchange, data, size);
    }
    return send(c->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

void connection_answer_now(struct connection *c)
{
    struct buf text cleanup_buf = BUF_INIT;
    answer_print(c->exchange, &text);
    if (!text.failed && send_now(c, text.data, text.len)) {
        shutdown(c->fd, SHUT_WR);
        connection_enter(c, CONNECTION_LINGERING);
    } else {
        connection_cut(c);
    }
}

/* ---- bodies of refused requests ---- */

void exchange_settle(struct exchange *ex, int64_t rest)
{
    ex->limit = ex->received + (int64_t)HTTP_DROP_MAX;
    connection_enter(ex->connection, CONNECTION_DROPPING);
    if (rest > (int64_t)HTTP_DROP_MAX) {
        connection_answer_now(ex->connection);
    }
}

void exchange_drop(struct exchange *ex, size_t size)
{
    ex->received += (int64_t)size;
    if (ex->connection->phase == CONNECTION_DROPPING && ex->received > ex->limit) {
        connection_answer_now(ex->connection);
    }
}
