/*
 * Worker processes: spawned, watched, replaced. The pool knows frames and processes; what they mean
 * is the listener's business (trainer.c for training workers, serving.c for serving ones).
 *
 * A slot is one place for a worker; its process may change. starting -> (HELLO) -> idle <-> busy;
 * when the process ends, `lost` is called once with the cause, the slot is `down` until its next
 * start, delayed by a back-off that doubles while workers die young. Busy is what the listener
 * says.
 *
 * A slot whose worker told of a broken device, or that has lost `quarantine_after` different jobs
 * in a row, gets no other process for quarantine_s, doubled for each further quarantine without a
 * job done in between: whatever is wrong with its device shall not eat the queue.
 *
 * Workers give signs of life, five of them in every lease; anything else that they send is one,
 * too. One that is silent for a whole lease, or ten of them before its HELLO, is killed and its end
 * is handled as any other. One that does not even end by that, for it hangs in the kernel, is left
 * to itself after a further lease, and its slot gets another process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "plan/machine.h"
#include "server/pool/tail.h"
#include "wire/frame.h"

enum slot_kind { SLOT_TRAIN, SLOT_SERVE };
enum slot_state { SLOT_STARTING, SLOT_IDLE, SLOT_BUSY, SLOT_STOPPING, SLOT_DOWN, SLOT_QUARANTINED };
const char *slot_kind_name(enum slot_kind k);
const char *slot_state_name(enum slot_state s);

struct metrics_registry;
struct slot; /* opaque */

/* How a worker's process ended. Borrowed. */
struct slot_end {
    const char *cause;       /* "signal 9 (Killed)" */
    const char *signal;      /* "SIGKILL"; NULL: it ended by itself, or has not ended */
    int exit_code;           /* -1: it ended by a signal, or has not ended */
    const struct tail *tail; /* of its standard error */
};

struct slot_listener {
    void *context;
    void (*ready)(void *context, struct slot *s);                  /* after HELLO */
    void (*frame)(void *context, struct slot *s, struct frame *f); /* borrowed; may take members */
    void (*lost)(void *context, struct slot *s, const struct slot_end *end);
};

/* Where one worker runs. */
struct pool_place {
    enum slot_kind kind;
    const char *device;  /* "cpu", "cuda:0" */
    const char *program; /* path of the worker program that has a backend for it */
};

struct pool_options {
    const struct pool_place *places; /* read by pool_new alone */
    int count;
    int threads;          /* per worker; 0: what the machine grants */
    int64_t memory_bytes; /* that a worker is to stay below; 0: no limit of ours */
    int64_t busy_poll_us; /* of serving workers: base/spin.h */
    double lease_s;       /* > 0 */
    int quarantine_after;
    double quarantine_s;
    struct metrics_registry *metrics; /* may be NULL */
    struct slot_listener train, serve;
};

struct pool;

/* Starts every worker. A program that cannot be executed is an error here, at once. */
int pool_new(void *loop, const struct log *log, const struct pool_options *o, struct pool **ret,
             struct err *err);
/* Asks all to end (QUIT, then SIGKILL after grace_s) and starts none any more; `stopped` is called
 * when the last one is gone. */
void pool_stop(struct pool *p, double grace_s, void (*stopped)(void *context), void *context);
struct pool *pool_free(struct pool *p); /* after stopped */

int pool_size(const struct pool *p);
struct slot *pool_slot(const struct pool *p, int index);

const char *slot_name(const struct slot *s); /* "train:0" */
enum slot_kind slot_kind(const struct slot *s);
enum slot_state slot_state(const struct slot *s);
const char *slot_device(const struct slot *s); /* "cpu", "cuda:0" */
/* Whether a job that asks for a device so may run there: "auto", "cpu", "cuda", "cuda:1". */
bool slot_takes(const struct slot *s, const char *wanted);
int slot_pid(const struct slot *s); /* 0 when down */
/* From its last HELLO, which may be that of a process before; NULL: there was none. */
const struct plan_machine *slot_machine(const struct slot *s);
int64_t slot_restarts(const struct slot *s);
int64_t slot_heard_ms(const struct slot *s); /* when its process was last heard of; 0: never */
/* Why it is in quarantine, and until when; NULL and 0: it is not. */
const char *slot_quarantine(const struct slot *s, int64_t *ret_until_ms);
/* What the listener tells of its jobs: one was done; one was lost with the worker, said from within
 * `lost`. The same one counts once, for the fault may be its own. */
void slot_did_job(struct slot *s);
void slot_lost_job(struct slot *s, const char *job);

void *slot_user(const struct slot *s); /* the listener's own mark, NULL at first */
void slot_set_user(struct slot *s, void *user);
void slot_set_busy(struct slot *s, bool busy);

/* Sends a frame. What of it the socket does not take at once is copied, unless `sent` is given:
 * then the payload is borrowed until `sent` is called (once, later, on success or failure), which
 * also paces a long transfer. */
int slot_send(struct slot *s, enum frame_type type, uint64_t request, const struct json *json,
              const void *payload, size_t size, void (*sent)(void *context), void *context,
              struct err *err);
void slot_kill(struct slot *s, int signal);
