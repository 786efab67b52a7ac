/*
 * An event stream's bytes between those who tell and the client who reads. What is pending stands
 * in `bytes` from `taken` on.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "server/app.h"
#include "server/http/http_internal.h"

struct stream {
    struct exchange *exchange;
    struct buf bytes;
    size_t taken;
    void (*closed)(void *context);
    void *context;
    bool ended;
};

struct stream *stream_new(struct exchange *ex, void (*closed)(void *context), void *context)
{
    struct stream *s = mem_zalloc(sizeof(*s));
    if (s != NULL) {
        *s = (struct stream){.exchange = ex, .closed = closed, .context = context};
        buf_str(&s->bytes, "retry: 2000\n\n"); /* milliseconds until a client comes back */
    }
    return s;
}

struct stream *stream_free(struct stream *s)
{
    if (s != NULL) {
        if (s->closed != NULL) {
            s->closed(s->context);
        }
        buf_deinit(&s->bytes);
        mem_free(s);
    }
    return NULL;
}

size_t stream_pending(const struct stream *s)
{
    return s->bytes.len - s->taken;
}

bool stream_ended(const struct stream *s)
{
    return s->ended;
}

bool stream_over(const struct stream *s)
{
    return s->ended && stream_pending(s) == 0;
}

size_t stream_take(struct stream *s, char *ret, size_t max)
{
    const size_t pending = stream_pending(s);
    const size_t n = pending < max ? pending : max;
    if (n > 0) {
        memcpy(ret, s->bytes.data + s->taken, n);
        s->taken += n;
    }
    if (s->taken == s->bytes.len) {
        buf_clear(&s->bytes);
        s->taken = 0;
    } else if (s->taken > s->bytes.len / 2) {
        buf_consume(&s->bytes, s->taken);
        s->taken = 0;
    }
    return n;
}

/* A listener that does not read, or for whom there is no memory: it may come back with its last id.
 */
static void drop(struct stream *s)
{
    s->ended = true;
    s->taken = s->bytes.len;
    metrics_count(s->exchange->http->app->metrics, METRIC_SHED, SHED_SLOW_LISTENER, 0, 1);
    connection_cut(s->exchange->connection);
}

/* What was appended goes out as soon as the client reads. */
static void appended(struct stream *s)
{
    if (s->bytes.failed || stream_pending(s) > HTTP_STREAM_PENDING_MAX) {
        drop(s);
    }
    exchange_resume(s->exchange);
}

/* "name: text", one line for each line of the text. */
static void add_lines(struct buf *b, const char *name, const char *text)
{
    for (const char *line = text;; line++) {
        const size_t len = strcspn(line, "\r\n");
        buf_str(b, name);
        buf_add(b, line, len);
        buf_char(b, '\n');
        line += len;
        if (*line == '\r' && line[1] == '\n') {
            line++;
        }
        if (*line == '\0') {
            return;
        }
    }
}

void stream_event(struct stream *s, int64_t id, const char *event, const char *data)
{
    if (s->ended) {
        return;
    }
    if (id >= 0) {
        buf_printf(&s->bytes, "id: %" PRId64 "\n", id);
    }
    if (event != NULL) {
        add_lines(&s->bytes, "event: ", event);
    }
    add_lines(&s->bytes, "data: ", data);
    buf_char(&s->bytes, '\n');
    appended(s);
}

void stream_comment(struct stream *s, const char *text)
{
    if (!s->ended) {
        add_lines(&s->bytes, ": ", text);
        buf_char(&s->bytes, '\n');
        appended(s);
    }
}

void stream_end(struct stream *s)
{
    if (!s->ended) {
        s->ended = true;
        connection_enter(s->exchange->connection, CONNECTION_SENDING); /* the rest */
    }
    exchange_resume(s->exchange);
}
