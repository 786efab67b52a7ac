/*
 * A worker's life under the daemon: frames (wire/frame.h) on one socket, one thread beside
 * which another gives signs of life (pulse.h). A training worker runs one order at a time and looks
 * at the socket between two steps of the solver; a serving worker holds models and answers
 * predictions. The end of the stream means that the daemon is gone: the worker ends too.
 */
#pragma once

#include "base/err.h"
#include "engine/backend.h"
#include "plan/machine.h"

struct session_options {
    int fd; /* connected socket, owned by the caller */
    struct backend *be;
    double beat_interval_s;      /* 0: none */
    double busy_poll_s;          /* base/spin.h */
    struct plan_machine machine; /* what HELLO says of it */
};

/* Returns 0 after QUIT or the end of the stream; -ERR_DEVICE when the device broke, of which the
 * daemon has been told. */
int session_run(const struct session_options *options, struct err *err);
