#include "worker/pulse.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

/* What the kernel says of a thread. */
struct look {
    char state; /* of /proc/…/stat; '\0': it is gone */
    unsigned long long ticks;
};

struct pulse {
    int fd;
    pid_t computing;
    struct timespec interval;
    struct look last;
    pthread_t thread;
    bool running, stop; /* a thread was started; it is to end */
    pthread_mutex_t sending;
    pthread_mutex_t lock; /* of stop */
    pthread_cond_t wake;
};

/* ---- the computing thread, seen from beside it ---- */

/* The name, in parentheses, may hold anything: the fields are counted from its end. */
static struct look look_at(pid_t thread)
{
    char path[64], text[512];
    struct look seen = {.state = '\0'};
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return seen;
    }
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *rest = strrchr(text, ')');
    unsigned long long user = 0, system = 0;
    char state;
    if (rest && sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state,
                       &user, &system) == 3) {
        seen = (struct look){.state = state, .ticks = user + system};
    }
    return seen;
}

/* D: waits in the kernel, T and t: stopped, Z and X: dead. */
static bool lives(struct pulse *p)
{
    const struct look now = look_at(p->computing);
    const bool still = now.ticks == p->last.ticks && p->last.state != 'R';
    p->last = now;
    return now.state != '\0' && !(still && strchr("DTtZX", now.state));
}

/* ---- beats ---- */

static void beat(struct pulse *p)
{
    if (!lives(p) || pthread_mutex_trylock(&p->sending) != 0) {
        return;
    }
    frame_send(p->fd, FRAME_BEAT, 0, NULL, NULL, 0,
               NULL); /* A daemon that left is seen elsewhere. */
    pthread_mutex_unlock(&p->sending);
}

static struct timespec after(struct timespec t, struct timespec by)
{
    t.tv_sec += by.tv_sec;
    t.tv_nsec += by.tv_nsec;
    if (t.tv_nsec >= 1000000000L) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000L;
    }
    return t;
}

/* Whether the interval passed before the end came. */
static bool wait_interval(struct pulse *p)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until = after(until, p->interval);
    pthread_mutex_lock(&p->lock);
    while (!p->stop && pthread_cond_timedwait(&p->wake, &p->lock, &until) != ETIMEDOUT) {
    }
    const bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return !stop;
}

static void *run(void *context)
{
    struct pulse *p = context;
    while (wait_interval(p)) {
        beat(p);
    }
    return NULL;
}

/* Signals are for the computing thread, as they would be without this one. */
static int start_thread(struct pulse *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int r = pthread_create(&p->thread, NULL, run, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->running = r == 0;
    return r;
}

static void init_wake(struct pulse *p)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int pulse_start(int fd, double interval_s, struct pulse **ret, struct err *err)
{
    struct pulse *p = mem_zalloc(sizeof *p);
    if (!p) {
        return err_no_memory(err);
    }
    const time_t whole = (time_t)interval_s;
    p->fd = fd;
    p->computing = gettid();
    p->interval =
        (struct timespec){.tv_sec = whole, .tv_nsec = (long)(1e9 * (interval_s - (double)whole))};
    pthread_mutex_init(&p->sending, NULL);
    pthread_mutex_init(&p->lock, NULL);
    init_wake(p);
    if (interval_s > 0.0 && start_thread(p) != 0) {
        pulse_stop(p);
        return err_set(err, ERR_NO_MEMORY, "The worker's second thread did not start.");
    }
    *ret = p;
    return 0;
}

struct pulse *pulse_stop(struct pulse *p)
{
    if (!p) {
        return NULL;
    }
    if (p->running) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_signal(&p->wake);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->sending);
    return mem_free(p);
}

int pulse_send(struct pulse *p, enum frame_type type, uint64_t request, const struct json *json,
               const void *payload, size_t payload_size, struct err *err)
{
    pthread_mutex_lock(&p->sending);
    const int r = frame_send(p->fd, type, request, json, payload, payload_size, err);
    pthread_mutex_unlock(&p->sending);
    return r;
}
