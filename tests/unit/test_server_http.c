/* The HTTP room with handlers of its own, on a real socket: deferred answers, event streams, and
 * stopping in the middle of both. One thread: the client's side is polled between turns of the
 * loop.
 */
#include "server/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http_internal.h"
#include "server/http/http_listen.h"
#include "unit/store_fixture.h"

struct bench {
    struct app app; /* first: handlers find the bench by it */
    uv_loop_t loop;
    struct request *deferred;
    struct stream *stream;
    int gone, closed, freed;
    int file; /* that was answered with */
};

static struct bench *bench_of(struct request *rq)
{
    return (struct bench *)(void *)rq->app;
}

/* ---- Handlers. ---- */

static void note_gone(struct request *rq)
{
    bench_of(rq)->gone++;
    bench_of(rq)->deferred = NULL;
}

static void defer(struct request *rq)
{
    bench_of(rq)->deferred = rq;
    rq->on_gone = note_gone;
}

static void forget(struct request *rq)
{
    (void)rq;
}

static void answer_twice(struct request *rq)
{
    reply_bytes(rq, 200, "text/plain", "first", 5);
    reply_bytes(rq, 200, "text/plain", "second", 6);
}

static void echo(struct request *rq)
{
    reply_bytes(rq, 200, "text/plain", rq->body.data, rq->body.len);
}

/* A file, told of as exports are, while the database loses what is batched. */
static void answer_file(struct request *rq)
{
    struct sql *db = rq->app->store->db;
    struct err err;
    char path[] = "/tmp/krrd-test-file-XXXXXX";
    const int fd = mkstemp(path);
    bench_of(rq)->file = fd;
    unlink(path);
    assert_int_equal(write(fd, "of the file", 11), 11);
    assert_int_equal(sql_begin_batched(db, &err), 0);
    assert_int_equal(sql_end_batched(db, 0, &err), 0);
    assert_int_equal(sql_script(db, "ROLLBACK", &err), 0);
    request_set_header(rq, "ETag", "\"1\"");
    request_set_header(rq, "X-Number", "1");
    request_set_header(rq, "Content-Disposition", "attachment");
    request_set_header(rq, "Cache-Control", "private, no-cache");
    reply_fd(rq, 200, "application/octet-stream", fd, 11);
}

static void note_closed(void *context)
{
    struct bench *b = context;
    b->closed++;
    b->stream = NULL;
}

static void open_stream(struct request *rq)
{
    struct bench *b = bench_of(rq);
    b->stream = reply_stream(rq, note_closed, b);
}

static void note_freed(void *user)
{
    ++*(int *)user;
}

static int sink_begin(struct request *rq)
{
    rq->user = &bench_of(rq)->freed;
    rq->user_free = note_freed;
    return 0;
}

/* Pauses at every piece. */
static int sink_data(struct request *rq, const void *data, size_t size)
{
    (void)size;
    if (memchr(data, '!', size) != NULL) {
        struct err err;
        err_set(&err, ERR_INVALID, "No exclamations.");
        reply_error(rq, &err);
        return -1;
    }
    bench_of(rq)->deferred = rq;
    return ROUTE_PAUSE;
}

static void sink_done(struct request *rq)
{
    reply_empty(rq, 204);
}

static const struct route table[] = {
    {.method = "GET", .pattern = "/defer", .handle = defer},
    {.method = "GET", .pattern = "/forget", .handle = forget},
    {.method = "GET", .pattern = "/twice", .handle = answer_twice},
    {.method = "GET", .pattern = "/file", .handle = answer_file},
    {.method = "GET", .pattern = "/stream", .handle = open_stream},
    {.method = "POST", .pattern = "/echo", .flags = ROUTE_BODY, .body_max = 1000, .handle = echo},
    {.method = "POST",
     .pattern = "/sink",
     .flags = ROUTE_STREAM,
     .handle = sink_done,
     .begin = sink_begin,
     .data = sink_data},
    {.pattern = NULL},
};

/* ---- Both sides. ---- */

static int start(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    struct http_options o = {.address = "127.0.0.1",
                             .max_header_bytes = 16384,
                             .max_body_bytes = 64 << 20,
                             .max_bodies_bytes = 256u << 20,
                             .max_upload_bytes = 1 << 20,
                             .max_connections = 4,
                             .idle_timeout_s = 30,
                             .receive_timeout_s = 30,
                             .cors_origins = "",
                             .allowed_hosts = "x"};
    struct err err;
    b->app.log = (struct log){.fd = -1, .level = LOG_OFF, .program = "test"};
    uv_loop_init(&b->loop);
    b->app.loop = &b->loop;
    *state = b;
    const int r = http_bind(o.address, 0, &o.listen_fd, &err);
    return r < 0 ? r : http_start(&b->app, &b->loop, &o, table, &b->app.http, &err);
}

static int stop(void **state)
{
    struct bench *b = *state;
    b->app.http = http_stop(b->app.http);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    const int rc = uv_loop_close(&b->loop);
    mem_free(b);
    return rc;
}

static int connect_to(struct bench *b)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)http_port(b->app.http)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void turn(struct bench *b)
{
    uv_run(&b->loop, UV_RUN_NOWAIT);
    uv_sleep(1);
}

/* Turns the loop until what was received holds the text; the peer's end is the text "<end>". */
static void expect(struct bench *b, int fd, struct buf *got, const char *text)
{
    const double end = clock_monotonic_s() + 10.0;
    while (got->data == NULL || strstr(got->data, text) == NULL) {
        char piece[4096];
        turn(b);
        const ssize_t n = recv(fd, piece, sizeof(piece), 0);
        if (n > 0) {
            buf_add(got, piece, (size_t)n);
        } else if (n == 0 || errno != EAGAIN) {
            buf_str(got, "<end>");
        }
        if (clock_monotonic_s() > end || (n == 0 && strstr(got->data, text) == NULL)) {
            fail_msg("wanted %s, got %s", text, got->data != NULL ? got->data : "nothing");
        }
    }
}

static void until(struct bench *b, const int *count, int wanted)
{
    const double end = clock_monotonic_s() + 10.0;
    while (*count < wanted && clock_monotonic_s() < end) {
        turn(b);
    }
    assert_int_equal(*count, wanted);
}

static void until_deferred(struct bench *b)
{
    const double end = clock_monotonic_s() + 10.0;
    while (b->deferred == NULL && clock_monotonic_s() < end) {
        turn(b);
    }
    assert_non_null(b->deferred);
}

static void get(int fd, const char *path)
{
    char text[128];
    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    say(fd, text);
}

/* ---- Deferred answers. ---- */

static void test_deferred(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    for (int i = 0; i < 3; i++) {
        get(fd, "/defer");
        until_deferred(b);
        assert_int_equal(http_in_flight(b->app.http), 1);
        struct request *rq = b->deferred;
        b->deferred = NULL;
        request_set_header(rq, "X-Number", "1");
        reply_bytes(rq, 200, "text/plain", "later", 5);
        expect(b, fd, &got, "later");
        assert_non_null(strstr(got.data, "X-Number: 1\r\n"));
        buf_clear(&got);
    }
    assert_int_equal(b->gone, 0);
    close(fd);
}

/* Asks on one connection, without a rest, while another's answer is not there: that one is asked
 * about with every run, but not for ever. */
static void test_deferred_beside_others(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    char piece[4096];
    const int fd = connect_to(b), other = connect_to(b);
    get(fd, "/defer");
    until_deferred(b);
    const struct exchange *ex = exchange_of(b->deferred);
    assert_true(ex->held);
    for (int i = 0; i < 4 * HELD_ASKS && !ex->suspended; i++) {
        get(other, "/twice");
        while (recv(other, piece, sizeof(piece), 0) < 0) {
            uv_run(&b->loop, UV_RUN_NOWAIT);
        }
    }
    assert_true(ex->suspended);
    assert_false(ex->held);
    reply_bytes(b->deferred, 200, "text/plain", "later", 5);
    expect(b, fd, &got, "later");
    close(fd);
    close(other);
}

/* Nothing else goes on. */
static void test_deferred_for_long(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const double end = clock_monotonic_s() + 10.0;
    const int fd = connect_to(b);
    get(fd, "/defer");
    until_deferred(b);
    const struct exchange *ex = exchange_of(b->deferred);
    while (!ex->suspended && clock_monotonic_s() < end) {
        turn(b);
    }
    assert_true(ex->suspended);
    assert_true(ex->asked < HELD_ASKS);
    reply_bytes(b->deferred, 200, "text/plain", "later", 5);
    expect(b, fd, &got, "later");
    close(fd);
}

static void test_client_of_deferred_leaves(void **state)
{
    struct bench *b = *state;
    const int fd = connect_to(b);
    get(fd, "/defer");
    until_deferred(b);
    close(fd);
    until(b, &b->gone, 1);
    for (int i = 0; i < 50; i++) {
        turn(b);
    }
    assert_int_equal(b->gone, 1);
    assert_int_equal(http_in_flight(b->app.http), 0);
}

static void test_stop_answers_deferred(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    get(fd, "/defer");
    until_deferred(b);
    b->app.http = http_stop(b->app.http);
    assert_int_equal(b->gone, 1);
    expect(b, fd, &got, "<end>");
    assert_non_null(strstr(got.data, "HTTP/1.1 503"));
    assert_non_null(strstr(got.data, "Retry-After: "));
    close(fd);
}

static void test_handler_that_forgets(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    get(fd, "/forget");
    expect(b, fd, &got, "internal_error");
    assert_non_null(strstr(got.data, "HTTP/1.1 500"));
    close(fd);
}

static void test_second_answer_is_ignored(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    get(fd, "/twice");
    expect(b, fd, &got, "first");
    buf_clear(&got);
    get(fd, "/nothing");
    expect(b, fd, &got, "HTTP/1.1 404");
    assert_null(strstr(got.data, "second"));
    close(fd);
}

/* ---- Bodies. ---- */

static void post(struct bench *b, const char *path, size_t size, char fill, struct buf *got,
                 const char *wanted)
{
    struct buf text cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    buf_printf(&text, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", path, size);
    for (size_t i = 0; i < size; i++) {
        buf_char(&text, fill);
    }
    say(fd, text.data);
    expect(b, fd, got, wanted);
    close(fd);
}

static void test_body_limit(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    post(b, "/echo", 1000, 'a', &got, "Content-Length: 1000\r\n");
    buf_clear(&got);
    post(b, "/echo", 1001, 'a', &got, "HTTP/1.1 413");
    buf_clear(&got);
    post(b, "/echo", 0, 'a', &got, "HTTP/1.1 200");
}

static void test_paused_sink(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    say(fd, "POST /sink HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
    for (int i = 0; i < 3; i++) {
        until_deferred(b);
        struct request *rq = b->deferred;
        b->deferred = NULL;
        request_continue(rq);
        say(fd, i < 2 ? "def" : "");
    }
    expect(b, fd, &got, "HTTP/1.1 204");
    until(b, &b->freed, 1);
    close(fd);
}

static void test_sink_refuses(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    post(b, "/sink", 10, '!', &got, "No exclamations.");
    assert_non_null(strstr(got.data, "HTTP/1.1 400"));
    until(b, &b->freed, 1);
}

/* Stopped while a sink holds its client back. */
static void test_stop_while_paused(void **state)
{
    struct bench *b = *state;
    const int fd = connect_to(b);
    say(fd, "POST /sink HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
    until_deferred(b);
    b->app.http = http_stop(b->app.http);
    assert_int_equal(b->freed, 1);
    close(fd);
}

/* ---- Streams. ---- */

static int open_one(struct bench *b, struct buf *got)
{
    const int fd = connect_to(b);
    get(fd, "/stream");
    expect(b, fd, got, "retry: 2000\n\n");
    assert_non_null(strstr(got->data, "Content-Type: text/event-stream"));
    assert_non_null(strstr(got->data, "X-Accel-Buffering: no"));
    assert_non_null(b->stream);
    assert_int_equal(http_in_flight(b->app.http), 0);
    return fd;
}

static void test_stream(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = open_one(b, &got);
    stream_event(b->stream, 7, "status", "{}");
    expect(b, fd, &got, "id: 7\nevent: status\ndata: {}\n\n");
    stream_event(b->stream, -1, NULL, "a\nb\r\nc\rd");
    expect(b, fd, &got, "\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
    stream_comment(b->stream, "still here");
    expect(b, fd, &got, ": still here\n\n");
    stream_event(b->stream, 8, "status", "last");
    stream_end(b->stream);
    stream_event(b->stream, 9, "status", "too late");
    expect(b, fd, &got, "data: last\n\n");
    expect(b, fd, &got, "\r\n0\r\n\r\n"); /* the end of the chunks, not of the connection */
    until(b, &b->closed, 1);
    assert_null(strstr(got.data, "too late"));
    close(fd);
}

static void test_listener_leaves(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    close(open_one(b, &got));
    until(b, &b->closed, 1);
}

static void test_listener_that_does_not_read(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    char line[65536];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    const int fd = open_one(b, &got);
    const double end = clock_monotonic_s() + 20.0;
    size_t most = 0;
    while (b->stream != NULL && clock_monotonic_s() < end) {
        stream_event(b->stream, 1, "message", line);
        most = stream_pending(b->stream) > most ? stream_pending(b->stream) : most;
        uv_run(&b->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(b->closed, 1);
    assert_true(most > HTTP_STREAM_PENDING_MAX / 2);
    assert_true(most <= HTTP_STREAM_PENDING_MAX);
    close(fd);
}

static void test_stop_ends_streams(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = open_one(b, &got);
    stream_event(b->stream, 1, "status", "before");
    b->app.http = http_stop(b->app.http);
    assert_int_equal(b->closed, 1);
    expect(b, fd, &got, "data: before\n\n");
    expect(b, fd, &got, "<end>");
    close(fd);
}

static void test_head_of_a_stream(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    say(fd, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(b, fd, &got, "\r\n\r\n");
    until(b, &b->closed, 1);
    close(fd);
}

/* Whatever allocation fails while a stream is opened and fed, the client gets an answer or an end,
 * and the room stays usable. */
static void test_no_memory(void **state)
{
    struct bench *b = *state;
    for (int64_t n = 1; n < 60; n++) {
        const int fd = connect_to(b);
        get(fd, "/stream");
        mem_fail_nth(n);
        for (int i = 0; i < 20 && b->stream == NULL; i++) {
            turn(b);
        }
        if (b->stream != NULL) {
            stream_event(b->stream, 1, "status", "x");
            stream_end(b->stream);
        }
        for (int i = 0; i < 3; i++) {
            turn(b);
        }
        mem_fail_nth(0);
        close(fd);
    }
    struct buf got cleanup_buf = BUF_INIT;
    const int fd = connect_to(b);
    get(fd, "/twice");
    expect(b, fd, &got, "first");
    close(fd);
}

/* Only the error is answered then. */
static void test_a_file_of_a_lost_batch(void **state)
{
    struct bench *b = *state;
    struct buf got cleanup_buf = BUF_INIT;
    void *stored = NULL;
    assert_int_equal(setup(&stored), 0);
    b->app.store = ((struct fixture *)stored)->store;
    const int fd = connect_to(b);
    get(fd, "/file");
    expect(b, fd, &got, "\"internal_error\"");
    assert_non_null(strstr(got.data, "HTTP/1.1 500"));
    assert_non_null(strstr(got.data, "X-Number: 1\r\n"));
    assert_non_null(strstr(got.data, "Cache-Control: no-store\r\n"));
    assert_null(strstr(got.data, "ETag"));
    assert_null(strstr(got.data, "attachment"));
    assert_null(strstr(got.data, "private"));
    assert_int_equal(fcntl(b->file, F_GETFD), -1); /* closed */
    close(fd);
    b->app.store = NULL;
    assert_int_equal(teardown(&stored), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deferred, start, stop),
        cmocka_unit_test_setup_teardown(test_deferred_beside_others, start, stop),
        cmocka_unit_test_setup_teardown(test_deferred_for_long, start, stop),
        cmocka_unit_test_setup_teardown(test_client_of_deferred_leaves, start, stop),
        cmocka_unit_test_setup_teardown(test_stop_answers_deferred, start, stop),
        cmocka_unit_test_setup_teardown(test_handler_that_forgets, start, stop),
        cmocka_unit_test_setup_teardown(test_second_answer_is_ignored, start, stop),
        cmocka_unit_test_setup_teardown(test_body_limit, start, stop),
        cmocka_unit_test_setup_teardown(test_paused_sink, start, stop),
        cmocka_unit_test_setup_teardown(test_sink_refuses, start, stop),
        cmocka_unit_test_setup_teardown(test_stop_while_paused, start, stop),
        cmocka_unit_test_setup_teardown(test_stream, start, stop),
        cmocka_unit_test_setup_teardown(test_listener_leaves, start, stop),
        cmocka_unit_test_setup_teardown(test_listener_that_does_not_read, start, stop),
        cmocka_unit_test_setup_teardown(test_stop_ends_streams, start, stop),
        cmocka_unit_test_setup_teardown(test_head_of_a_stream, start, stop),
        cmocka_unit_test_setup_teardown(test_no_memory, start, stop),
        cmocka_unit_test_setup_teardown(test_a_file_of_a_lost_batch, start, stop),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
