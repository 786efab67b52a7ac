/* Signs of life: they come while the computing thread works, and never within another frame. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/assert.h"
#include "worker/pulse.h"

struct pair {
    int near, far;
    struct frame_reader *reader; /* of the far end */
};

static int setup(void **state)
{
    struct pair *p = mem_zalloc(sizeof(*p));
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0) {
        return -1;
    }
    *p = (struct pair){.near = fds[0], .far = fds[1], .reader = frame_reader_new()};
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;
    close(p->near);
    close(p->far);
    frame_reader_free(p->reader);
    mem_free(p);
    return 0;
}

static enum frame_type receive(struct pair *p)
{
    struct frame f;
    struct err err;
    assert_int_equal(frame_recv(p->far, p->reader, &f, &err), 1);
    const enum frame_type type = f.type;
    frame_deinit(&f);
    return type;
}

static bool readable(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, 0) == 1;
}

/* Busy all the while, as in a long call of a library. */
static void compute(double seconds)
{
    const double end = clock_monotonic_s() + seconds;
    while (clock_monotonic_s() < end) {
    }
}

/* However slow the machine: beats come while this thread never sleeps, one an interval at most. */
static void test_beats_while_it_computes(void **state)
{
    struct pair *p = *state;
    struct pulse *pulse = NULL;
    const double start = clock_monotonic_s();
    assert_int_equal(pulse_start(p->near, 0.01, &pulse, NULL), 0);
    for (int i = 0; i < 3; i++) {
        while (!readable(p->far)) {
            assert_true(clock_monotonic_s() < start + 60.0);
        }
        assert_int_equal(receive(p), FRAME_BEAT);
    }
    compute(0.2);
    pulse = pulse_stop(pulse);
    assert_null(pulse);
    const double seconds = clock_monotonic_s() - start;
    shutdown(p->near, SHUT_WR);
    int beats = 3;
    struct frame f;
    while (frame_recv(p->far, p->reader, &f, NULL) == 1) {
        assert_int_equal(f.type, FRAME_BEAT);
        frame_deinit(&f);
        beats++;
    }
    assert_true(beats <= (int)(seconds / 0.01));
}

static void test_beats_while_it_waits_for_work(void **state)
{
    struct pair *p = *state;
    struct pulse *pulse = NULL;
    assert_int_equal(pulse_start(p->near, 0.01, &pulse, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(receive(p), FRAME_BEAT); /* This thread sleeps in between. */
    }
    pulse_stop(pulse);
}

static void test_no_interval_no_beats(void **state)
{
    struct pair *p = *state;
    struct pulse *pulse = NULL;
    assert_int_equal(pulse_start(p->near, 0.0, &pulse, NULL), 0);
    compute(0.03);
    assert_int_equal(pulse_send(pulse, FRAME_PONG, 7, NULL, NULL, 0, NULL), 0);
    assert_int_equal(receive(p), FRAME_PONG);
    pulse_stop(pulse);
}

/* Frames far larger than the socket holds, cut by no beat; the reader is slower than the sender. */
static void test_frames_stay_whole(void **state)
{
    struct pair *p = *state;
    struct pulse *pulse = NULL;
    enum { SIZE = 1 << 20, COUNT = 20 };
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(p->far);
        void *payload = mem_zalloc(SIZE);
        int r = payload ? pulse_start(p->near, 0.001, &pulse, NULL) : -1;
        for (int i = 0; r == 0 && i < COUNT; i++) {
            r = pulse_send(pulse, FRAME_MODEL, (uint64_t)i, NULL, payload, SIZE, NULL);
            compute(0.002);
        }
        mem_free(payload);
        pulse_stop(pulse);
        _exit(r < 0);
    }
    close(p->near);
    p->near = -1;
    int models = 0, r;
    struct frame f;
    while ((r = frame_recv(p->far, p->reader, &f, NULL)) == 1) {
        if (f.type == FRAME_MODEL) {
            assert_int_equal(f.request, models);
            assert_int_equal(f.payload_size, SIZE);
            models++;
        } else {
            assert_int_equal(f.type, FRAME_BEAT);
        }
        frame_deinit(&f);
    }
    assert_int_equal(r, 0);
    assert_int_equal(models, COUNT);
}

/* A daemon that has left: the sender learns of it, the beats trouble nobody. */
static void test_nobody_listens(void **state)
{
    struct pair *p = *state;
    struct pulse *pulse = NULL;
    assert_int_equal(pulse_start(p->near, 0.005, &pulse, NULL), 0);
    shutdown(p->far, SHUT_RDWR);
    compute(0.05);
    struct err err;
    assert_int_equal(pulse_send(pulse, FRAME_PONG, 0, NULL, NULL, 0, &err), -ERR_IO);
    pulse_stop(pulse);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_beats_while_it_computes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beats_while_it_waits_for_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_interval_no_beats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frames_stay_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_listens, setup, teardown),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
