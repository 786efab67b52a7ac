#include "base/spin.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/processors.h"

/* How long nobody looks when others want the processor, at first and at most, in seconds; and what
 * becomes of it with every look that found something. */
#define PAUSE_FIRST_S 0.01
#define PAUSE_MOST_S 10.0
#define PAUSE_SHRINKS 0.999

/* A client beside us that takes its answer and asks again is no crowd: others may have the
 * processor once in a wait, for so long, in times of most_s. */
#define SHORT_STAY 0.5
#define STAYS 1

/* Between two looks, in seconds: after less nobody else was there. */
#define LOOK_S 2e-6

/* Waits that count as short, in times of most_s: who slept was late by being woken. */
#define SHORT_WAITS 2.0

bool spin_worth(const struct spin *s, double now_s)
{
    return s->paid >= SPIN_SURE && now_s >= s->resume_s && s->most_s > 0.0;
}

void spin_waited(struct spin *s, double seconds)
{
    if (seconds > SHORT_WAITS * s->most_s) {
        s->paid = 0;
    } else if (s->paid < SPIN_SURE) {
        s->paid++;
    }
}

void spin_found(struct spin *s)
{
    if (s->pause_s * PAUSE_SHRINKS >= PAUSE_FIRST_S) {
        s->pause_s *= PAUSE_SHRINKS;
    }
}

void spin_crowded(struct spin *s, double now_s)
{
    s->paid = 0;
    s->resume_s = now_s + s->pause_s;
    s->pause_s = 2.0 * s->pause_s < PAUSE_MOST_S ? 2.0 * s->pause_s : PAUSE_MOST_S;
}

void spin_init(struct spin *s, double most_s)
{
    const bool alone = processors_allowed() < 2.0;
    *s = (struct spin){.most_s = alone ? 0.0 : most_s, .pause_s = PAUSE_FIRST_S};
}

/* How often this thread has lost its processor to another. */
static long switches(void)
{
    struct rusage u;
    return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nivcsw : 0;
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

static void look(struct spin *s, int fd)
{
    const double end = s->began_s + s->most_s;
    const long before = switches();
    double last = s->began_s;
    while (last < end) {
        if (is_readable(fd)) {
            spin_found(s);
            return;
        }
        sched_yield();
        const double now = clock_monotonic_s(), passed = now - last;
        const long others = passed > LOOK_S ? switches() - before : 0;
        if (others > STAYS || (others > 0 && passed > SHORT_STAY * s->most_s)) {
            spin_crowded(s, now);
            return;
        }
        last = now;
    }
}

void spin_begin(struct spin *s, int fd)
{
    s->began_s = clock_monotonic_s();
    if (spin_worth(s, s->began_s)) {
        look(s, fd);
    }
}

void spin_end(struct spin *s)
{
    spin_waited(s, clock_monotonic_s() - s->began_s);
}
