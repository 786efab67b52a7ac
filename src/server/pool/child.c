#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/pool/pool_internal.h"

#define START_LEASES 10
#define CHILD_SOCKET 3

/* Never a pid that has been reaped: it may be somebody else's by now. */
void child__kill(struct child *c, int signal)
{
    if (!c->exited) {
        uv_process_kill(&c->process, signal);
    }
}

/* ---- its end ---- */

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
    pool__maybe_stopped(p);
}

static void close_child(struct child *c)
{
    uv_close((uv_handle_t *)&c->pipe, on_handle_closed);
    uv_close((uv_handle_t *)&c->complaints, on_handle_closed);
    uv_close((uv_handle_t *)&c->process, on_handle_closed);
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
        slot__count(s, METRIC_WORKER_LOST);
    }
    s->child = NULL;
    s->state = SLOT_DOWN;
    slot__listener(s)->lost(slot__listener(s)->context, s, &end);
    if (!s->pool->stopping) {
        slot__judge(s, c);
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
    s->machine = plan_machine_unknown();
    plan_machine_read(f->json, &s->machine);
    s->known = true;
    s->state = SLOT_IDLE;
    log_msg(s->pool->log, LOG_INFO, "worker.ready", "worker", s->name, "device", s->device, NULL);
    slot__listener(s)->ready(slot__listener(s)->context, s);
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
        if (f->type == FRAME_DONE && f->json) {
            plan_machine_read_left(f->json, &s->machine);
        }
        slot__listener(s)->frame(slot__listener(s)->context, s, f);
    }
}

/* A worker that talks nonsense is ended; its end is handled as any other. */
static void take_frames(struct child *c)
{
    for (;;) {
        struct frame f;
        int r = frame_reader_next(c->reader, &f, NULL);
        if (r < 0) {
            child__kill(c, SIGKILL);
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
            child__kill(c, SIGKILL);
        } else {
            take_frames(c);
        }
    } else if (n < 0) {
        uv_read_stop(stream);
        c->stream_ended = true;
        c->slot->state = SLOT_STOPPING; /* Nobody may give it work until its end has been seen. */
        child__kill(c, SIGKILL);        /* Deaf: of no use any more. */
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

void child__check_lease(struct slot *s)
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
        child__kill(c, SIGKILL);
    }
}

/* ---- starting ---- */

/* How the threads of a worker wait for work, where the daemon's own environment says nothing. A
 * serving worker's sleep: between two batches they would otherwise spin on processors that the
 * daemon needs. Those of a training worker look for some 20 us, which is longer than most pauses
 * between its products: by themselves they look for milliseconds, and where other processes want
 * the processors, a thread that looks keeps the one from running that it waits for. */
static const char *waiting_of(enum slot_kind kind)
{
    const bool said = getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL;
    return said ? NULL : kind == SLOT_SERVE ? "OMP_WAIT_POLICY=passive" : "GOMP_SPINCOUNT=1000";
}

/* The environment of a worker's process; the array is the caller's (mem_free), the texts are not.
 */
static char **environment(enum slot_kind kind)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **ret = mem_zarray(count + 2, sizeof *ret);
    if (ret != NULL) {
        memcpy(ret, environ, count * sizeof *ret);
        ret[count] = (char *)(uintptr_t)waiting_of(kind);
    }
    return ret;
}

static int spawn(struct child *c, const struct pool *p)
{
    const struct slot *s = c->slot;
    cleanup_mem char **env = environment(s->kind);
    char threads[16], socket[16], beat[32], memory[24], busy_poll[24];
    const int64_t busy = s->kind == SLOT_SERVE ? p->options.busy_poll_us : 0;
    snprintf(threads, sizeof threads, "%d", p->options.threads);
    snprintf(socket, sizeof socket, "%d", CHILD_SOCKET);
    snprintf(beat, sizeof beat, "%.3f", p->options.lease_s / LEASE_BEATS);
    snprintf(memory, sizeof memory, "%lld", (long long)p->options.memory_bytes);
    snprintf(busy_poll, sizeof busy_poll, "%lld", (long long)busy);
    char *args[] = {s->program, "--socket",
                    socket,     "--device",
                    s->device,  "--threads",
                    threads,    "--beat-interval-s",
                    beat,       "--memory-bytes",
                    memory,     "--busy-poll-us",
                    busy_poll,  s->kind == SLOT_TRAIN ? "--measure" : NULL,
                    NULL};
    uv_stdio_container_t stdio[CHILD_SOCKET + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->complaints},
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&c->pipe},
    };
    const uv_process_options_t options = {
        .file = s->program,
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

int child__start(struct slot *s, struct err *err)
{
    struct pool *p = s->pool;
    s->started = clock_monotonic_s(); /* also of one that fails: the next wait is longer then */
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
    uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&c->complaints, on_alloc, on_complaint);
    return 0;
}

/* ---- sending ---- */

/* What did not go out at once. */
struct sending {
    uv_write_t write;
    struct buf head; /* without `sent` the payload follows in it */
    void (*sent)(void *context);
    void *context;
};

static void sending_free(struct sending *w)
{
    buf_deinit(&w->head);
    mem_free(w);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* A broken socket is seen by the reader. */
    struct sending *w = write->data;
    if (w->sent) {
        w->sent(w->context);
    }
    sending_free(w);
}

/* What the socket takes now, in bytes. A write that is done needs no callback, for which the loop
 * would turn once more and tell the kernel what it knows already. */
static size_t write_at_once(struct child *c, const uv_buf_t *parts, unsigned count)
{
    const int n = uv_try_write((uv_stream_t *)&c->pipe, parts, count);
    return n > 0 ? (size_t)n : 0; /* What is wrong is seen by the write that follows. */
}

/* Takes head, of which `gone` bytes are written. */
static int write_later(struct child *c, struct buf *head, size_t gone, const uv_buf_t *payload,
                       void (*sent)(void *context), void *context, struct err *err)
{
    struct sending *w = mem_zalloc(sizeof *w);
    if (!sent) {
        buf_add(head, payload->base, payload->len);
    }
    if (!w || head->failed) {
        buf_deinit(head);
        mem_free(w);
        return err_no_memory(err);
    }
    w->head = *head;
    w->write.data = w;
    const uv_buf_t parts[2] = {{.base = w->head.data + gone, .len = w->head.len - gone}, *payload};
    const unsigned count = sent && payload->len > 0 ? 2 : 1;
    if (uv_write(&w->write, (uv_stream_t *)&c->pipe, parts, count, on_written) != 0) {
        sending_free(w);
        return err_set(err, ERR_WORKER_LOST, "The worker does not take messages.");
    }
    w->sent = sent;
    w->context = context;
    return 0;
}

int slot_send(struct slot *s, enum frame_type type, uint64_t request, const struct json *json,
              const void *payload, size_t size, void (*sent)(void *context), void *context,
              struct err *err)
{
    struct child *c = s->child;
    if (!c || c->stream_ended) {
        return err_set(err, ERR_WORKER_LOST, "The worker is not running.");
    }
    struct buf head = BUF_INIT;
    int r = frame_head(type, request, json, size, &head, err);
    if (r < 0) {
        buf_deinit(&head);
        return r;
    }
    const uv_buf_t parts[2] = {{.base = head.data, .len = head.len},
                               {.base = (char *)(uintptr_t)payload, .len = size}};
    const size_t gone = sent ? 0 : write_at_once(c, parts, size > 0 ? 2 : 1);
    if (gone == head.len + size) {
        buf_deinit(&head);
        return 0;
    }
    r = write_later(c, &head, gone, &parts[1], sent, context, err);
    if (r < 0 && gone > 0) {
        child__kill(c, SIGKILL); /* Half a message makes no sense of what follows. */
    }
    return r;
}
