/*
 * The sending half of a worker's socket, shared by the thread that computes and a thread of its own
 * that tells the daemon, every so often, that the worker lives: a BEAT frame.
 *
 * A stopped process sends nothing. Nor is there a beat while the computing thread, the one that
 * called pulse_start, is gone, or stopped, or waits in the kernel without being interruptible, and
 * has used no processor time since the last look. A long call of a library, on the other hand,
 * beats on. While the computing thread is itself sending, the frame it sends is the sign of life.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "wire/frame.h"

struct pulse;

/* interval_s 0: no beats, so that only the sending is done here. The socket stays the caller's. */
int pulse_start(int fd, double interval_s, struct pulse **ret, struct err *err);
struct pulse *pulse_stop(struct pulse *p); /* waits for the thread; takes NULL, returns NULL */

/* frame_send, never in the middle of another thread's frame. */
int pulse_send(struct pulse *p, enum frame_type type, uint64_t request, const struct json *json,
               const void *payload, size_t payload_size, struct err *err);
