/* What slot_send puts into a worker's socket, which takes some of it at once, the rest later, and
 * the middle of a message in between. The worker is a shell that reads nothing until it may, and
 * then keeps what it gets. */
#include "server/pool/pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "support/assert.h"

enum { FRAMES = 42, PAYLOAD = 100000 };

struct bench {
    uv_loop_t loop;
    struct log log;
    struct pool *pool;
    char folder[64], program[128], go[128], got[128];
    int sent, stopped;
};

static void on_ready(void *context, struct slot *s)
{
    (void)context;
    (void)s;
}

static void on_frame(void *context, struct slot *s, struct frame *f)
{
    (void)context;
    (void)s;
    (void)f;
}

static void on_lost(void *context, struct slot *s, const struct slot_end *end)
{
    (void)context;
    (void)s;
    (void)end;
}

static void on_stopped(void *context)
{
    struct bench *b = context;
    b->stopped = 1;
}

static void on_sent(void *context)
{
    struct bench *b = context;
    b->sent++;
}

static void write_program(struct bench *b)
{
    FILE *f = fopen(b->program, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nuntil [ -e %s ]; do sleep 0.01; done\nexec cat <&3 >%s\n", b->go,
            b->got);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(b->program, 0755), 0);
}

static int start(void **state)
{
    struct bench *b = mem_zalloc(sizeof *b);
    struct err err;
    snprintf(b->folder, sizeof b->folder, "/tmp/krrd-pool-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    snprintf(b->program, sizeof b->program, "%s/worker", b->folder);
    snprintf(b->go, sizeof b->go, "%s/go", b->folder);
    snprintf(b->got, sizeof b->got, "%s/got", b->folder);
    write_program(b);
    b->log = (struct log){.fd = -1, .level = LOG_OFF, .program = "test"};
    uv_loop_init(&b->loop);
    const struct slot_listener listener = {
        .context = b, .ready = on_ready, .frame = on_frame, .lost = on_lost};
    const struct pool_place place = {.kind = SLOT_SERVE, .device = "cpu", .program = b->program};
    const struct pool_options o = {.places = &place,
                                   .count = 1,
                                   .lease_s = 1000.0,
                                   .quarantine_after = 3,
                                   .quarantine_s = 30.0,
                                   .train = listener,
                                   .serve = listener};
    *state = b;
    return pool_new(&b->loop, &b->log, &o, &b->pool, &err);
}

static int stop(void **state)
{
    struct bench *b = *state;
    pool_stop(b->pool, 0.1, on_stopped, b);
    while (!b->stopped) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    pool_free(b->pool);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    const int rc = uv_loop_close(&b->loop);
    unlink(b->program);
    unlink(b->go);
    unlink(b->got);
    rmdir(b->folder);
    mem_free(b);
    return rc;
}

static void fill(unsigned char *payload, int number)
{
    for (int i = 0; i < PAYLOAD; i++) {
        payload[i] = (unsigned char)(i * 7 + number * 13);
    }
}

/* Every third is lent, all others are copied where they have to wait. */
static void send_all(struct bench *b, unsigned char (*payloads)[PAYLOAD])
{
    struct err err;
    for (int i = 0; i < FRAMES; i++) {
        const bool lent = i % 3 == 0;
        fill(payloads[i], i);
        assert_int_equal(slot_send(pool_slot(b->pool, 0), FRAME_PREDICT, (uint64_t)i, NULL,
                                   payloads[i], PAYLOAD, lent ? on_sent : NULL, b, &err),
                         0);
        if (!lent) {
            memset(payloads[i], 0, PAYLOAD);
        }
    }
}

static void until_size(struct bench *b, int64_t size)
{
    const double end = clock_monotonic_s() + 30.0;
    struct stat s = {.st_size = 0};
    while ((stat(b->got, &s) != 0 || s.st_size < size) && clock_monotonic_s() < end) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
    assert_int_equal(s.st_size, size);
}

static void check_frames(const struct bench *b)
{
    unsigned char *wanted = mem_alloc(PAYLOAD);
    struct frame_reader *reader = frame_reader_new();
    struct err err;
    const int fd = open(b->got, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int i = 0; i < FRAMES; i++) {
        struct frame f;
        assert_int_equal(frame_recv(fd, reader, &f, &err), 1);
        fill(wanted, i);
        assert_int_equal(f.request, i);
        assert_int_equal(f.payload_size, PAYLOAD);
        assert_memory_equal(f.payload, wanted, PAYLOAD);
        frame_deinit(&f);
    }
    close(fd);
    frame_reader_free(reader);
    mem_free(wanted);
}

static void test_messages_arrive_whole(void **state)
{
    struct bench *b = *state;
    unsigned char(*payloads)[PAYLOAD] = mem_alloc(sizeof *payloads * FRAMES);
    send_all(b, payloads);
    assert_true(b->sent < FRAMES / 3); /* the socket was full before */
    close(open(b->go, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    until_size(b, (int64_t)FRAMES * (FRAME_HEADER_SIZE + PAYLOAD));
    assert_int_equal(b->sent, FRAMES / 3);
    check_frames(b);
    mem_free(payloads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages_arrive_whole, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
