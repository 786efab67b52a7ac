/*
 * krr-load: asks a server for predictions from one thread, over connections that stay open, one
 * request at a time on each, and measures how long answers take.
 *
 * There are a few different questions. Each is asked once before the measurement, alone; whatever
 * is answered later must be the same bytes. A refusal by 429 or 503 with Retry-After counts as
 * shed, anything else as wrong. One JSON line.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "serve/load_options.h"

enum { READ_BYTES = 256 << 10, EVENTS = 1024, PATIENCE_MS = 20000 };

/* A request as it goes over the wire, and the body of its answer. */
struct question {
    struct buf request, answer;
};

struct connection {
    int fd;
    const struct question *question;
    size_t sent;
    struct buf in;
    double began;
};

struct load {
    struct load_options o;
    struct question *questions;
    struct connection *connections;
    int epoll;
    float *seconds; /* of every answer */
    int64_t answers, room, wrong, shed, next;
    char first_wrong[256];
};

static void die(const char *what)
{
    fprintf(stderr, "krr-load: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- questions ---- */

static void write_json(struct buf *b, const double *x, int64_t rows, int64_t d)
{
    buf_str(b, "{\"instances\":[");
    for (int64_t i = 0; i < rows; i++) {
        buf_str(b, i > 0 ? ",[" : "[");
        for (int64_t j = 0; j < d; j++) {
            buf_printf(b, j > 0 ? ",%.17g" : "%.17g", x[i * d + j]);
        }
        buf_char(b, ']');
    }
    buf_str(b, "]}");
}

/* Version 1.0 of the format: magic, length of the header, the header padded to 64 bytes. */
static void write_npy(struct buf *b, const double *x, int64_t rows, int64_t d, bool f32)
{
    char header[118];
    memset(header, ' ', sizeof header);
    const int n = snprintf(header, sizeof header,
                           "{'descr': '<f%d', 'fortran_order': False, 'shape': (%lld, %lld), }",
                           f32 ? 4 : 8, (long long)rows, (long long)d);
    header[n] = ' ';
    header[sizeof header - 1] = '\n';
    buf_add(b, "\x93NUMPY\x01\x00\x76\x00", 10);
    buf_add(b, header, sizeof header);
    for (int64_t i = 0; i < rows * d; i++) {
        const float value = (float)x[i];
        buf_add(b, f32 ? (const void *)&value : (const void *)&x[i], f32 ? 4 : 8);
    }
}

static void make_question(const struct load_options *o, int64_t number, struct question *ret)
{
    const int64_t count = o->rows * o->d;
    cleanup_mem double *x = mem_array((size_t)count, sizeof *x);
    struct buf body cleanup_buf = BUF_INIT;
    struct rng rng = rng_new((uint64_t)o->seed, (uint64_t)number);
    for (int64_t i = 0; x && i < count; i++) {
        x[i] = rng_normal(&rng);
    }
    if (x && strcmp(o->format, "json") == 0) {
        write_json(&body, x, o->rows, o->d);
    } else if (x) {
        write_npy(&body, x, o->rows, o->d, strcmp(o->format, "npy32") == 0);
    }
    const char *type = strcmp(o->format, "json") == 0 ? "application/json" : "application/x-npy";
    buf_printf(&ret->request,
               "POST %s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: %s\r\nAccept: %s\r\n"
               "Content-Length: %zu\r\n\r\n",
               o->path, o->host, o->port, type, type, body.len);
    buf_add(&ret->request, body.data, body.len);
    if (!x || body.failed || ret->request.failed) {
        die("questions");
    }
}

/* ---- connections ---- */

static int open_socket(const struct load_options *o)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd < 0 || inet_pton(AF_INET, o->host, &to.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        die("connect");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void push(struct load *l, struct connection *c)
{
    const struct buf *request = &c->question->request;
    while (c->sent < request->len) {
        const ssize_t n =
            send(c->fd, request->data + c->sent, request->len - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            die("send");
        }
        c->sent += (size_t)n;
    }
    struct epoll_event e = {.events = EPOLLIN | (c->sent < request->len ? EPOLLOUT : 0U),
                            .data.ptr = c};
    if (c->sent < request->len || request->len > READ_BYTES) {
        epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &e);
    }
}

static void ask(struct load *l, struct connection *c)
{
    c->question = &l->questions[l->next++ % l->o.distinct];
    c->sent = 0;
    c->began = clock_monotonic_s();
    push(l, c);
}

/* ---- answers ---- */

struct reply {
    int status;
    bool retry;
    const char *body;
    size_t size, total;
};

/* Whether an answer is there whole. */
static bool parse(const struct buf *in, struct reply *ret)
{
    const char *end = in->len > 0 ? memmem(in->data, in->len, "\r\n\r\n", 4) : NULL;
    if (!end) {
        return false;
    }
    *ret = (struct reply){.status = (int)strtol(in->data + 9, NULL, 10), .body = end + 4};
    for (const char *line = in->data; line < end;) {
        const char *next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        if (strncasecmp(line, "content-length:", 15) == 0) {
            ret->size = strtoul(line + 15, NULL, 10);
        }
        ret->retry |= strncasecmp(line, "retry-after:", 12) == 0;
        line = next + 2;
    }
    ret->total = (size_t)(ret->body - in->data) + ret->size;
    return in->len >= ret->total;
}

static void judge(struct load *l, const struct connection *c, const struct reply *r)
{
    const struct buf *wanted = &c->question->answer;
    if (r->status == 200 && r->size == wanted->len && memcmp(r->body, wanted->data, r->size) == 0) {
        if (l->answers < l->room) {
            l->seconds[l->answers] = (float)(clock_monotonic_s() - c->began);
        }
        l->answers++;
    } else if ((r->status == 429 || r->status == 503) && r->retry) {
        l->shed++;
    } else {
        if (l->wrong++ == 0) {
            snprintf(l->first_wrong, sizeof l->first_wrong, "%d %.*s", r->status,
                     (int)(r->size < 200 ? r->size : 200), r->body);
        }
    }
}

/* Reads what is there; true when an answer was complete, which *ret then is. */
static bool pull(struct connection *c, struct reply *ret)
{
    static char bytes[READ_BYTES];
    for (;;) {
        const ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EAGAIN) {
            return false;
        }
        if (n <= 0) {
            errno = n == 0 ? ECONNRESET : errno;
            die("receive");
        }
        buf_add(&c->in, bytes, (size_t)n);
        if (c->in.failed) {
            die("memory");
        }
        if (parse(&c->in, ret)) {
            return true;
        }
    }
}

/* ---- the run ---- */

/* Every question alone, one after another: what is right from then on. */
static void learn(struct load *l)
{
    struct connection *c = &l->connections[0];
    for (int64_t i = 0; i < l->o.distinct; i++) {
        struct reply r;
        struct epoll_event e;
        c->question = &l->questions[i];
        c->sent = 0;
        push(l, c);
        while (!pull(c, &r)) {
            epoll_wait(l->epoll, &e, 1, -1);
            push(l, c);
        }
        if (r.status != 200) {
            fprintf(stderr, "krr-load: %d %.*s\n", r.status, (int)r.size, r.body);
            exit(1);
        }
        buf_add(&l->questions[i].answer, r.body, r.size);
        buf_clear(&c->in);
    }
}

static void on_event(struct load *l, const struct epoll_event *e, bool more)
{
    struct connection *c = e->data.ptr;
    struct reply r;
    if (e->events & EPOLLOUT) {
        push(l, c);
    }
    if ((e->events & ~(unsigned)EPOLLOUT) && pull(c, &r)) {
        judge(l, c, &r);
        buf_clear(&c->in);
        if (more) {
            ask(l, c);
        } else {
            c->question = NULL;
        }
    }
}

static int64_t waiting(const struct load *l)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->o.connections; i++) {
        n += l->connections[i].question != NULL;
    }
    return n;
}

/* Asks for so long, then waits for the last answers. Returns the seconds. */
static double run(struct load *l, double seconds)
{
    struct epoll_event events[EVENTS];
    const double began = clock_monotonic_s();
    l->answers = l->wrong = l->shed = 0;
    for (int64_t i = 0; i < l->o.connections; i++) {
        ask(l, &l->connections[i]);
    }
    bool more = true;
    while (more || waiting(l) > 0) {
        const int n = epoll_wait(l->epoll, events, EVENTS, PATIENCE_MS);
        if (n == 0) {
            fprintf(stderr, "krr-load: no answer for %d s; %lld are missing\n", PATIENCE_MS / 1000,
                    (long long)waiting(l));
            exit(1);
        }
        more = more && clock_monotonic_s() - began < seconds;
        for (int i = 0; i < n; i++) {
            on_event(l, &events[i], more);
        }
    }
    return clock_monotonic_s() - began;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct load *l, double q)
{
    const int64_t n = l->answers < l->room ? l->answers : l->room;
    return n > 0 ? (double)l->seconds[(int64_t)(q * (double)(n - 1))] : 0.0;
}

static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void report(struct load *l, double seconds, double processor)
{
    const int64_t n = l->answers < l->room ? l->answers : l->room;
    qsort(l->seconds, (size_t)n, sizeof *l->seconds, compare);
    const double rate = (double)l->answers / seconds;
    printf(
        "{\"path\": \"%s\", \"format\": \"%s\", \"rows\": %lld, \"d\": %lld, \"connections\": "
        "%lld, \"seconds\": %.3f, \"answers\": %lld, \"shed\": %lld, \"wrong\": %lld, "
        "\"requests_per_s\": %.0f, \"predictions_per_s\": %.0f, \"p50_ms\": %.3f, \"p90_ms\": "
        "%.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f, \"load_cpu_share\": %.3f}\n",
        l->o.path, l->o.format, (long long)l->o.rows, (long long)l->o.d,
        (long long)l->o.connections, seconds, (long long)l->answers, (long long)l->shed,
        (long long)l->wrong, rate, rate * (double)l->o.rows, 1e3 * quantile(l, 0.5),
        1e3 * quantile(l, 0.9), 1e3 * quantile(l, 0.99), 1e3 * quantile(l, 0.999),
        1e3 * quantile(l, 1.0), processor / seconds);
    if (l->wrong > 0) {
        fprintf(stderr, "krr-load: the first wrong answer: %s\n", l->first_wrong);
    }
}

static void prepare(struct load *l)
{
    l->room = 20000000;
    l->seconds = mem_array((size_t)l->room, sizeof *l->seconds);
    l->questions = mem_zarray((size_t)l->o.distinct, sizeof *l->questions);
    l->connections = mem_zarray((size_t)l->o.connections, sizeof *l->connections);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!l->seconds || !l->questions || !l->connections || l->epoll < 0) {
        die("prepare");
    }
    for (int64_t i = 0; i < l->o.distinct; i++) {
        make_question(&l->o, i, &l->questions[i]);
    }
    for (int64_t i = 0; i < l->o.connections; i++) {
        struct connection *c = &l->connections[i];
        c->fd = open_socket(&l->o);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) != 0) {
            die("epoll");
        }
    }
}

static void clear(struct load *l)
{
    for (int64_t i = 0; i < l->o.distinct; i++) {
        buf_deinit(&l->questions[i].request);
        buf_deinit(&l->questions[i].answer);
    }
    for (int64_t i = 0; i < l->o.connections; i++) {
        close(l->connections[i].fd);
        buf_deinit(&l->connections[i].in);
    }
    close(l->epoll);
    mem_free(l->seconds);
    mem_free(l->questions);
    mem_free(l->connections);
}

int main(int argc, char **argv)
{
    struct load l = {.o = load_options_read(argc, argv)};
    prepare(&l);
    learn(&l);
    run(&l, l.o.warm_up_s);
    const double processor = processor_seconds();
    const double seconds = run(&l, l.o.seconds);
    report(&l, seconds, processor_seconds() - processor);
    const bool good = l.wrong == 0;
    clear(&l);
    return good ? 0 : 1;
}
