/* When looking pays instead of sleeping, and that it finds what comes. */
#include "base/spin.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/processors.h"
#include "support/assert.h"

static const double most = 100e-6;

static struct spin sure(double most_s)
{
    struct spin s;
    spin_init(&s, most_s);
    s.most_s = most_s; /* where the test has one processor, too */
    for (int i = 0; i < SPIN_SURE; i++) {
        assert_false(spin_worth(&s, 1.0));
        spin_waited(&s, 0.5 * most_s);
    }
    assert_true(spin_worth(&s, 1.0));
    return s;
}

static void test_short_waits_pay(void **state)
{
    (void)state;
    struct spin s = sure(most);
    spin_waited(&s, 1.5 * most); /* who slept is late by being woken */
    assert_true(spin_worth(&s, 1.0));
    spin_waited(&s, 2.5 * most);
    assert_false(spin_worth(&s, 1.0));
    for (int i = 0; i < SPIN_SURE - 1; i++) {
        spin_waited(&s, 0.5 * most);
    }
    spin_waited(&s, 1.0); /* a single long one is enough */
    spin_waited(&s, 0.5 * most);
    assert_false(spin_worth(&s, 1.0));
}

static void test_never(void **state)
{
    (void)state;
    struct spin s;
    spin_init(&s, 0.0);
    for (int i = 0; i < 2 * SPIN_SURE; i++) {
        spin_waited(&s, 0.0);
    }
    assert_false(spin_worth(&s, 1.0));
}

static void wait_shortly(struct spin *s, int times)
{
    for (int i = 0; i < times; i++) {
        spin_waited(s, 0.5 * s->most_s);
    }
}

/* Each time that others want the processor nobody looks for twice as long, up to a limit. */
static void test_others_want_the_processor(void **state)
{
    (void)state;
    struct spin s = sure(most);
    double now = 100.0, before = 0.0;
    for (int i = 0; i < 16; i++) {
        spin_crowded(&s, now);
        const double pause = s.resume_s - now;
        assert_true(pause > 1.9 * before || pause > 9.999);
        wait_shortly(&s, SPIN_SURE);
        assert_false(spin_worth(&s, s.resume_s - 1e-3));
        assert_true(spin_worth(&s, s.resume_s));
        now = s.resume_s;
        before = pause;
    }
    assert_true(before > 9.999 && before < 10.001);
    wait_shortly(&s, 10000); /* asleep */
    assert_true(s.pause_s == 10.0);
    for (int i = 0; i < 10000; i++) { /* nobody wants it any more */
        spin_found(&s);
    }
    spin_crowded(&s, now);
    assert_true(s.resume_s - now < 0.011);
}

static void test_one_processor(void **state)
{
    (void)state;
    cpu_set_t before, one;
    struct spin s;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    spin_init(&s, most);
    assert_true(processors_allowed() < 2.0 ? s.most_s == 0.0 : s.most_s == most);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    spin_init(&s, most);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_true(s.most_s == 0.0);
}

static void *write_one(void *context)
{
    const int *fd = context;
    assert_int_equal(write(*fd, "x", 1), 1);
    return NULL;
}

/* Others wanted the processor, so that the look ended before its time. */
static bool was_crowded(const struct spin *s)
{
    return s->resume_s > s->began_s;
}

/* It looks until the byte is there, long before its time is over. */
static void test_finds_what_comes(void **state)
{
    (void)state;
    struct spin s = sure(60.0);
    int ends[2];
    pthread_t writer;
    char byte = 0;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_one, &ends[1]), 0);
    spin_begin(&s, ends[0]);
    if (!was_crowded(&s)) {
        assert_int_equal(read(ends[0], &byte, 1), 1);
        spin_end(&s);
        assert_true(clock_monotonic_s() - s.began_s < 60.0);
        assert_int_equal(s.paid, SPIN_SURE);
    }
    pthread_join(writer, NULL);
    close(ends[0]);
    close(ends[1]);
}

/* Nothing comes: it stops by itself, has looked for its time, and knows better from then on. */
static void test_nothing_comes(void **state)
{
    (void)state;
    struct spin s = sure(1e-3);
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    spin_begin(&s, ends[0]);
    assert_true(was_crowded(&s) || clock_monotonic_s() - s.began_s >= 1e-3);
    spin_waited(&s, 1.0);
    assert_false(spin_worth(&s, clock_monotonic_s()));
    const double processor = clock_processor_s();
    spin_begin(&s, ends[0]);
    assert_true(clock_processor_s() - processor < 1e-3);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_waits_pay),           cmocka_unit_test(test_never),
        cmocka_unit_test(test_others_want_the_processor), cmocka_unit_test(test_one_processor),
        cmocka_unit_test(test_finds_what_comes),          cmocka_unit_test(test_nothing_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
