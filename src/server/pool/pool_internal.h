/* What the files of the pool share: pool.c (all workers: start, leases, stop), slot.c (one place
 * for a worker: its state, restarts and quarantine), child.c (one process: what it is given, what
 * it says, how it ends). */
#pragma once

#include <uv.h>

#include "base/id.h"
#include "server/metrics.h"
#include "server/pool/pool.h"

/* The lease is counted in beats that did not come, looked for once an interval: a daemon that was
 * held up itself reads what has arrived meanwhile before it counts the next one. */
#define LEASE_BEATS 5
#define READ_BYTES (256u << 10)

struct slot {
    struct pool *pool;
    enum slot_kind kind;
    enum slot_state state;
    char name[24];
    char *device, *program;
    bool known; /* what its worker, or one before it, said of its machine */
    struct plan_machine machine;
    void *user;
    int64_t restarts;
    int64_t heard_ms;             /* wall clock */
    char lost_job[ID_SIZE];       /* the last one */
    int losses;                   /* of different jobs, none done in between */
    int quarantines;              /* likewise */
    char quarantine[160];         /* why */
    int64_t quarantined_until_ms; /* wall clock; 0: it is not */
    uint64_t backoff_ms;
    double started;
    struct child *child; /* NULL when down */
    uv_timer_t timer;    /* next start */
};

/* One process with its socket and its standard error: three uv handles, freed when all are closed.
 */
struct child {
    struct slot *slot;
    uv_process_t process;
    uv_pipe_t pipe, complaints;
    struct tail tail; /* of what it complained about */
    struct frame_reader *reader;
    int open_handles;
    bool exited, stream_ended, complaints_ended;
    int silent;       /* beats that are missing */
    char fault[128];  /* what it said of its device, or "" */
    double overdue_s; /* > 0: killed for having been silent for so long */
    int64_t exit_status;
    int exit_signal;
    char buffer[READ_BYTES]; /* of whichever pipe is being read */
};

struct pool {
    uv_loop_t *loop;
    const struct log *log;
    struct pool_options options; /* without its places */
    int size;
    struct slot **slots;
    int alive; /* children whose memory is not yet freed */
    int open_timers;
    bool stopping;
    uv_timer_t beats, grace;
    void (*stopped)(void *context);
    void *stopped_context;
};

/* slot.c */
/* The next one of the pool. */
struct slot *slot__new(struct pool *p, const struct pool_place *place);
struct slot *slot__free(struct slot *s);
const struct slot_listener *slot__listener(const struct slot *s);
void slot__count(const struct slot *s, enum metric what);
/* What becomes of the slot whose process has ended: its next start, later, or quarantine. */
void slot__judge(struct slot *s, const struct child *c);

/* child.c */
int child__start(struct slot *s, struct err *err);
void child__kill(struct child *c, int signal);
/* Once a beat. */
void child__check_lease(struct slot *s);

/* pool.c: tells whoever waits for the end when nothing is left. */
void pool__maybe_stopped(struct pool *p);
