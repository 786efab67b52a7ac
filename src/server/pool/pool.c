#include "server/pool/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "server/metrics.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000
#define YOUNG_S 10.0 /* a worker that dies earlier doubles the back-off */
/* The lease is counted in beats that did not come, looked for once an interval: a daemon that was
 * held up itself reads what has arrived meanwhile before it counts the next one. */
#define LEASE_BEATS 5
#define START_LEASES 10
#define QUARANTINE_DOUBLINGS 5
#define READ_BYTES (256u << 10)
#define CHILD_SOCKET 3

struct slot {
    struct pool *pool;
    enum slot_kind kind;
    enum slot_state state;
    char name[24];
    char *device;
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
    struct pool_options options;
    char *program;
    int size;
    struct slot **slots;
    int alive; /* children whose memory is not yet freed */
    int open_timers;
    bool stopping;
    uv_timer_t beats, grace;
    uint64_t grace_ms;
    int grace_signal;
    void (*stopped)(void *context);
    void *stopped_context;
};

const char *slot_kind_name(enum slot_kind k)
{
    return k == SLOT_TRAIN ? "train" : "serve";
}

const char *slot_state_name(enum slot_state s)
{
    static const char *const names[] = {"starting", "idle", "busy",
                                        "stopping", "down", "quarantined"};
    return names[s];
}

static const struct slot_listener *listener(const struct slot *s)
{
    return s->kind == SLOT_TRAIN ? &s->pool->options.train : &s->pool->options.serve;
}

static void count(const struct slot *s, enum metric what)
{
    metrics_count(s->pool->options.metrics, what, (int)s->kind, 0, 1);
}

static void start_later(struct slot *s);
static void quarantine(struct slot *s, const char *why);
static void maybe_stopped(struct pool *p);

/* Never a pid that has been reaped: it may be somebody else's by now. */
static void child_kill(struct child *c, int signal)
{
    if (!c->exited) {
        uv_process_kill(&c->process, signal);
    }
}

/* ---- a child's end ---- */

static void describe_end(const struct child *c, char *ret, size_t size)
{
    if (c->overdue_s > 0.0) {
        snprintf(ret, size, "no sign of life for %.3g s, so that it was killed%s", c->overdue_s,
                 c->exited ? "" : ", which it does not answer");
    } else if (c->fault[0] != '\0') {
        snprintf(ret, size, "%s", c->fault);
    } else if (c->exit_signal != 0) {
        snprintf(ret, size, "signal %d (%s)", c->exit_signal, strsignal(c->exit_signal));
    } else {
        snprintf(ret, size, "exit code %lld", (long long)c->exit_status);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct child *c = handle->data;
    if (--c->open_handles > 0) {
        return;
    }
    struct pool *p = c->slot->pool;
    frame_reader_free(c->reader);
    mem_free(c);
    p->alive--;
    maybe_stopped(p);
}

static void close_child(struct child *c)
{
    uv_close((uv_handle_t *)&c->pipe, on_handle_closed);
    uv_close((uv_handle_t *)&c->complaints, on_handle_closed);
    uv_close((uv_handle_t *)&c->process, on_handle_closed);
}

/* What becomes of the slot. */
static void judge(struct slot *s, const struct child *c)
{
    char why[160];
    if (c->fault[0] != '\0') {
        quarantine(s, c->fault);
    } else if (s->losses >= s->pool->options.quarantine_after) {
        snprintf(why, sizeof why, "Its worker was lost with %d jobs in a row.", s->losses);
        quarantine(s, why);
    } else {
        start_later(s);
    }
}

/* The process is gone and everything it wrote has been read. */
static void finish_child(struct child *c)
{
    struct slot *s = c->slot;
    char cause[128], name[16];
    describe_end(c, cause, sizeof cause);
    const char *abbreviation = sigabbrev_np(c->exit_signal);
    snprintf(name, sizeof name, "SIG%s", abbreviation ? abbreviation : "RT");
    const struct slot_end end = {
        .cause = cause,
        .signal = c->exit_signal != 0 ? name : NULL,
        .exit_code = c->exited && c->exit_signal == 0 ? (int)c->exit_status : -1,
        .tail = &c->tail,
    };
    tail_end(&c->tail, s->pool->log->fd);
    const bool expected = s->pool->stopping;
    log_msg(s->pool->log, expected ? LOG_INFO : LOG_WARNING, "worker.ended", "worker", s->name,
            "cause", cause, NULL);
    if (!expected) {
        count(s, METRIC_WORKER_LOST);
    }
    s->child = NULL;
    s->state = SLOT_DOWN;
    listener(s)->lost(listener(s)->context, s, &end);
    if (!s->pool->stopping) {
        judge(s, c);
    }
    close_child(c);
}

static void maybe_finish(struct child *c)
{
    if (c->exited && c->stream_ended && c->complaints_ended) {
        finish_child(c);
    }
}

static void on_exit_cb(uv_process_t *process, int64_t status, int term_signal)
{
    struct child *c = process->data;
    c->exited = true;
    c->exit_status = status;
    c->exit_signal = term_signal;
    maybe_finish(c);
}

/* ---- reading ---- */

static void on_hello(struct slot *s, const struct frame *f)
{
    mem_free(s->device);
    s->device = mem_strdup(json_string(json_get(f->json, "device")));
    s->machine = plan_machine_unknown();
    plan_machine_read(f->json, &s->machine);
    s->known = true;
    s->state = SLOT_IDLE;
    log_msg(s->pool->log, LOG_INFO, "worker.ready", "worker", s->name, "device", s->device, NULL);
    listener(s)->ready(listener(s)->context, s);
}

/* Its end follows. */
static void on_fault(struct child *c, const struct frame *f)
{
    const char *detail = f->json ? json_string(json_get(f->json, "detail")) : NULL;
    snprintf(c->fault, sizeof c->fault, "%s", detail ? detail : "The device broke.");
    c->slot->state = SLOT_STOPPING;
}

static void on_frame(struct slot *s, struct frame *f)
{
    if (f->type == FRAME_HELLO) {
        if (s->state == SLOT_STARTING && f->json) {
            on_hello(s, f);
        }
    } else if (f->type == FRAME_FAULT) {
        on_fault(s->child, f);
    } else if (f->type != FRAME_PONG && f->type != FRAME_BEAT && s->state != SLOT_STARTING) {
        listener(s)->frame(listener(s)->context, s, f);
    }
}

/* A worker that talks nonsense is ended; its end is handled as any other. */
static void take_frames(struct child *c)
{
    for (;;) {
        struct frame f;
        int r = frame_reader_next(c->reader, &f, NULL);
        if (r < 0) {
            child_kill(c, SIGKILL);
        }
        if (r <= 0) {
            return;
        }
        on_frame(c->slot, &f);
        frame_deinit(&f);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct child *c = handle->data;
    *ret = uv_buf_init(c->buffer, sizeof c->buffer);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct child *c = stream->data;
    if (n > 0) {
        c->silent = 0;
        c->slot->heard_ms = clock_wall_ms();
        if (frame_reader_feed(c->reader, buf->base, (size_t)n, NULL) < 0) {
            child_kill(c, SIGKILL);
        } else {
            take_frames(c);
        }
    } else if (n < 0) {
        uv_read_stop(stream);
        c->stream_ended = true;
        c->slot->state = SLOT_STOPPING; /* Nobody may give it work until its end has been seen. */
        child_kill(c, SIGTERM);         /* Deaf: of no use any more. */
        maybe_finish(c);
    }
}

static void on_complaint(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct child *c = stream->data;
    if (n > 0) {
        tail_add(&c->tail, buf->base, (size_t)n, c->slot->pool->log->fd);
    } else if (n < 0) {
        uv_read_stop(stream);
        c->complaints_ended = true;
        maybe_finish(c);
    }
}

/* ---- leases ---- */

static void check_lease(struct slot *s)
{
    struct child *c = s->child;
    const int leases = s->state == SLOT_STARTING ? START_LEASES : 1;
    const int lease = LEASE_BEATS * leases;
    c->silent++;
    if (c->silent <= lease || c->exited) {
        return;
    }
    if (c->overdue_s > 0.0) {
        if (c->silent > lease + LEASE_BEATS) {
            finish_child(c); /* Its end, if there is to be one, is nobody's business any more. */
        }
    } else {
        c->overdue_s = leases * s->pool->options.lease_s;
        log_msg(s->pool->log, LOG_WARNING, "worker.overdue", "worker", s->name, NULL);
        child_kill(c, SIGKILL);
    }
}

static void on_beat_timer(uv_timer_t *timer)
{
    struct pool *p = timer->data;
    for (int i = 0; i < p->size; i++) {
        if (p->slots[i]->child) {
            check_lease(p->slots[i]);
        }
    }
}

static void watch_leases(struct pool *p)
{
    const double interval_ms = 1e3 * p->options.lease_s / LEASE_BEATS;
    const uint64_t ms = interval_ms > 1.0 ? (uint64_t)interval_ms : 1;
    uv_timer_start(&p->beats, on_beat_timer, ms, ms);
}

/* ---- starting ---- */

/* The environment of a worker's process; the array is the caller's (mem_free), the texts are not. A
 * serving worker's threads sleep while there is nothing to do: between two batches they would
 * otherwise spin on processors that the daemon needs. */
static char **environment(enum slot_kind kind)
{
    static char quiet[] = "OMP_WAIT_POLICY=passive";
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **ret = mem_zarray(count + 2, sizeof *ret);
    if (ret != NULL) {
        memcpy(ret, environ, count * sizeof *ret);
        ret[count] = kind == SLOT_SERVE && getenv("OMP_WAIT_POLICY") == NULL ? quiet : NULL;
    }
    return ret;
}

static int spawn(struct child *c, const struct pool *p)
{
    cleanup_mem char **env = environment(c->slot->kind);
    char threads[16], socket[16], beat[32], memory[24];
    snprintf(threads, sizeof threads, "%d", p->options.threads);
    snprintf(socket, sizeof socket, "%d", CHILD_SOCKET);
    snprintf(beat, sizeof beat, "%.3f", p->options.lease_s / LEASE_BEATS);
    snprintf(memory, sizeof memory, "%lld", (long long)p->options.memory_bytes);
    char *args[] = {
        p->program, "--socket",       socket,  "--device",
        "cpu",      "--threads",      threads, "--beat-interval-s",
        beat,       "--memory-bytes", memory,  c->slot->kind == SLOT_TRAIN ? "--measure" : NULL,
        NULL};
    uv_stdio_container_t stdio[CHILD_SOCKET + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->complaints},
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&c->pipe},
    };
    const uv_process_options_t options = {
        .file = p->program,
        .args = args,
        .env = env,
        .exit_cb = on_exit_cb,
        .stdio = stdio,
        .stdio_count = CHILD_SOCKET + 1,
    };
    return uv_spawn(p->loop, &c->process, &options);
}

static struct child *child_new(struct slot *s)
{
    struct child *c = mem_zalloc(sizeof *c);
    struct frame_reader *reader = c ? frame_reader_new() : NULL;
    if (!reader) {
        mem_free(c);
        return NULL;
    }
    c->slot = s;
    c->reader = reader;
    c->process.data = c;
    return c;
}

static int start(struct slot *s, struct err *err)
{
    struct pool *p = s->pool;
    struct child *c = child_new(s);
    if (!c) {
        return err_no_memory(err);
    }
    p->alive++;
    c->open_handles = 3;
    uv_pipe_init(p->loop, &c->pipe, 0);
    uv_pipe_init(p->loop, &c->complaints, 0);
    c->pipe.data = c->complaints.data = c;
    int r = spawn(c, p);
    if (r != 0) { /* uv_spawn has initialised the process handle in every case. */
        close_child(c);
        return err_set(err, ERR_IO, "The worker program cannot be started: %s.", uv_strerror(r));
    }
    s->child = c;
    s->state = SLOT_STARTING;
    s->started = clock_monotonic_s();
    uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&c->complaints, on_alloc, on_complaint);
    return 0;
}

static void on_start_timer(uv_timer_t *timer)
{
    struct slot *s = timer->data;
    struct err err;
    s->restarts++;
    count(s, METRIC_WORKER_RESTARTS);
    s->quarantined_until_ms = 0;
    if (start(s, &err) < 0) {
        log_msg(s->pool->log, LOG_ERROR, "worker.start_failed", "worker", s->name, "detail",
                err.detail, NULL);
        start_later(s);
    }
}

static void start_later(struct slot *s)
{
    const bool young = clock_monotonic_s() - s->started < YOUNG_S;
    const uint64_t delay = young ? s->backoff_ms : BACKOFF_FIRST_MS;
    s->backoff_ms = delay * 2 < BACKOFF_MAX_MS ? delay * 2 : BACKOFF_MAX_MS;
    uv_timer_start(&s->timer, on_start_timer, delay, 0);
}

static void quarantine(struct slot *s, const char *why)
{
    const double factor =
        1u << (s->quarantines < QUARANTINE_DOUBLINGS ? s->quarantines : QUARANTINE_DOUBLINGS);
    const double delay_ms = 1e3 * s->pool->options.quarantine_s * factor;
    s->quarantines++;
    count(s, METRIC_WORKER_QUARANTINES);
    s->losses = 0;
    s->state = SLOT_QUARANTINED;
    s->quarantined_until_ms = clock_wall_ms() + (int64_t)delay_ms;
    snprintf(s->quarantine, sizeof s->quarantine, "%s", why);
    log_msg(s->pool->log, LOG_ERROR, "worker.quarantined", "worker", s->name, "detail", why, NULL);
    uv_timer_start(&s->timer, on_start_timer, (uint64_t)delay_ms, 0);
}

static struct slot *slot_new(struct pool *p, enum slot_kind kind, int index)
{
    struct slot *s = mem_zalloc(sizeof *s);
    if (s) {
        s->pool = p;
        s->kind = kind;
        s->state = SLOT_DOWN;
        s->backoff_ms = BACKOFF_FIRST_MS;
        snprintf(s->name, sizeof s->name, "%s:%d", slot_kind_name(kind), index);
        uv_timer_init(p->loop, &s->timer);
        s->timer.data = s;
        p->open_timers++;
    }
    return s;
}

static int add_slots(struct pool *p, enum slot_kind kind, int count, struct err *err)
{
    for (int i = 0; i < count; i++) {
        struct slot *s = slot_new(p, kind, i);
        if (!s) {
            return err_no_memory(err);
        }
        p->slots[p->size++] = s;
    }
    return 0;
}

static struct pool *pool_alloc(void *loop, const struct log *log, const struct pool_options *o)
{
    struct pool *p = mem_zalloc(sizeof *p);
    if (!p) {
        return NULL;
    }
    p->loop = loop;
    p->log = log;
    p->options = *o;
    p->program = mem_strdup(o->program);
    p->slots = mem_zarray((size_t)(o->train_workers + o->serve_workers), sizeof *p->slots);
    uv_timer_init(p->loop, &p->grace);
    p->grace.data = p;
    uv_timer_init(p->loop, &p->beats);
    p->beats.data = p;
    p->open_timers = 2;
    return p;
}

int pool_new(void *loop, const struct log *log, const struct pool_options *o, struct pool **ret,
             struct err *err)
{
    struct pool *p = pool_alloc(loop, log, o);
    if (!p) {
        return err_no_memory(err);
    }
    int r = p->program && p->slots ? 0 : err_no_memory(err);
    if (r == 0) {
        r = add_slots(p, SLOT_TRAIN, o->train_workers, err);
    }
    if (r == 0) {
        r = add_slots(p, SLOT_SERVE, o->serve_workers, err);
    }
    for (int i = 0; r == 0 && i < p->size; i++) {
        r = start(p->slots[i], err);
    }
    watch_leases(p);
    *ret = p; /* also when half-built: the caller stops and frees it */
    return r;
}

/* ---- stopping ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct pool *p = handle->data;
    p->open_timers--;
    maybe_stopped(p);
}

static void on_slot_timer_closed(uv_handle_t *handle)
{
    struct slot *s = handle->data;
    s->pool->open_timers--;
    maybe_stopped(s->pool);
}

static void on_grace(uv_timer_t *timer)
{
    struct pool *p = timer->data;
    for (int i = 0; i < p->size; i++) {
        slot_kill(p->slots[i], p->grace_signal);
    }
    p->grace_signal = SIGKILL;
    uv_timer_start(timer, on_grace, p->grace_ms, 0);
}

/* The timers close when the last child is gone; `stopped` is told after them. */
static void maybe_stopped(struct pool *p)
{
    if (!p->stopping || p->alive > 0) {
        return;
    }
    if (!uv_is_closing((uv_handle_t *)&p->grace)) {
        uv_close((uv_handle_t *)&p->grace, on_timer_closed);
        uv_close((uv_handle_t *)&p->beats, on_timer_closed);
        for (int i = 0; i < p->size; i++) {
            uv_close((uv_handle_t *)&p->slots[i]->timer, on_slot_timer_closed);
        }
    } else if (p->open_timers == 0 && p->stopped) {
        p->stopped(p->stopped_context);
    }
}

void pool_stop(struct pool *p, double grace_s, void (*stopped)(void *context), void *context)
{
    p->stopping = true;
    p->stopped = stopped;
    p->stopped_context = context;
    p->grace_ms = (uint64_t)(grace_s * 1000.0);
    p->grace_signal = SIGTERM;
    uv_timer_start(&p->grace, on_grace, p->grace_ms, 0);
    for (int i = 0; i < p->size; i++) {
        struct slot *s = p->slots[i];
        uv_timer_stop(&s->timer);
        if (s->child) {
            s->state = SLOT_STOPPING;
            slot_send(s, FRAME_QUIT, 0, NULL, NULL, 0, NULL, NULL, NULL);
        }
    }
    maybe_stopped(p);
}

struct pool *pool_free(struct pool *p)
{
    if (p) {
        for (int i = 0; i < p->size; i++) {
            mem_free(p->slots[i]->device);
            mem_free(p->slots[i]);
        }
        mem_free(p->slots);
        mem_free(p->program);
        mem_free(p);
    }
    return NULL;
}

/* ---- sending ---- */

struct sending {
    uv_write_t write;
    struct buf head;
    void *copy; /* of the payload, or NULL */
    void (*sent)(void *context);
    void *context;
};

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* A broken socket is seen by the reader. */
    struct sending *w = write->data;
    if (w->sent) {
        w->sent(w->context);
    }
    buf_deinit(&w->head);
    mem_free(w->copy);
    mem_free(w);
}

static int sending_new(enum frame_type type, uint64_t request, const struct json *json,
                       const void *payload, size_t size, bool copy, struct sending **ret,
                       struct err *err)
{
    struct sending *w = mem_zalloc(sizeof *w);
    if (!w) {
        return err_no_memory(err);
    }
    w->write.data = w;
    int r = frame_head(type, request, json, size, &w->head, err);
    if (r == 0 && copy && size > 0) {
        w->copy = mem_dup(payload, size);
        r = w->copy ? 0 : err_no_memory(err);
    }
    if (r < 0) {
        buf_deinit(&w->head);
        mem_free(w);
        return r;
    }
    *ret = w;
    return 0;
}

int slot_send(struct slot *s, enum frame_type type, uint64_t request, const struct json *json,
              const void *payload, size_t size, void (*sent)(void *context), void *context,
              struct err *err)
{
    if (!s->child || s->child->stream_ended) {
        return err_set(err, ERR_WORKER_LOST, "The worker is not running.");
    }
    struct sending *w = NULL;
    int r = sending_new(type, request, json, payload, size, !sent, &w, err);
    if (r < 0) {
        return r;
    }
    uv_buf_t parts[2] = {
        {.base = w->head.data, .len = w->head.len},
        {.base = w->copy ? w->copy : (char *)(uintptr_t)payload, .len = size},
    };
    r = uv_write(&w->write, (uv_stream_t *)&s->child->pipe, parts, size > 0 ? 2 : 1, on_written);
    if (r != 0) {
        buf_deinit(&w->head);
        mem_free(w->copy);
        mem_free(w);
        return err_set(err, ERR_WORKER_LOST, "The worker does not take messages.");
    }
    w->sent = sent;
    w->context = context;
    return 0;
}

void slot_kill(struct slot *s, int signal)
{
    if (s->child) {
        child_kill(s->child, signal);
    }
}

/* ---- what others may know ---- */

int pool_size(const struct pool *p)
{
    return p->size;
}

struct slot *pool_slot(const struct pool *p, int index)
{
    return p->slots[index];
}

const char *slot_name(const struct slot *s)
{
    return s->name;
}

enum slot_kind slot_kind(const struct slot *s)
{
    return s->kind;
}

enum slot_state slot_state(const struct slot *s)
{
    return s->state;
}

const char *slot_device(const struct slot *s)
{
    return s->device;
}

const struct plan_machine *slot_machine(const struct slot *s)
{
    return s->known ? &s->machine : NULL;
}

int slot_pid(const struct slot *s)
{
    return s->child ? uv_process_get_pid(&s->child->process) : 0;
}

int64_t slot_restarts(const struct slot *s)
{
    return s->restarts;
}

void *slot_user(const struct slot *s)
{
    return s->user;
}

void slot_set_user(struct slot *s, void *user)
{
    s->user = user;
}

void slot_set_busy(struct slot *s, bool busy)
{
    if (s->state == SLOT_IDLE || s->state == SLOT_BUSY) {
        s->state = busy ? SLOT_BUSY : SLOT_IDLE;
    }
}

int64_t slot_heard_ms(const struct slot *s)
{
    return s->heard_ms;
}

const char *slot_quarantine(const struct slot *s, int64_t *ret_until_ms)
{
    *ret_until_ms = s->quarantined_until_ms;
    return s->quarantined_until_ms != 0 ? s->quarantine : NULL;
}

void slot_did_job(struct slot *s)
{
    s->losses = s->quarantines = 0;
    s->lost_job[0] = '\0';
}

void slot_lost_job(struct slot *s, const char *job)
{
    if (strcmp(s->lost_job, job) != 0) {
        snprintf(s->lost_job, sizeof s->lost_job, "%s", job);
        s->losses++;
    }
}
