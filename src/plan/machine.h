/*
 * What a plan has to know of the machine that a job would run on: what the worker said of itself
 * when it started (its HELLO frame, wire/frame.h), and the memory that it may have.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* What the worker measured in its first moments, in a second, with all its threads; 0: not. */
struct plan_rates {
    /* Kernel values of a whole product, each used twice, gaussian of PLAN_RATE_FEATURES features
     * and one target, in both precisions. */
    double values_f32, values_f64;
    double multiply_adds_f32, multiply_adds_f64; /* of a dense product */
    double bytes;                                /* read from memory, by such a product with one
                                                  * column */
    /* Such values where rows are so near each other that a processor has a faster way to the
     * distances of smooth kernels (cpu/tile/tile.h); 0: not known. */
    double near_f32, near_f64;
};
#define PLAN_RATE_FEATURES 18
#define PLAN_NEAR_FEATURES 6 /* of a gaussian that has that way, at least */

struct plan_machine {
    bool own_memory; /* the device has memory of its own: "cuda" */
    int threads;
    int64_t limit_bytes;  /* that a worker may have on the host, in all */
    int64_t free_bytes;   /* of those, that are free now */
    int64_t device_bytes; /* of a device with memory of its own */
    int64_t base_bytes;   /* of the worker's process before its first job */
    int64_t left_bytes;   /* that jobs have left in it since: the library's buffers */
    bool huge_pages;      /* a page that is touched brings 2 MiB with it */
    struct plan_rates rates;
};

/* Before any worker has said anything: one thread, no rates, the usual size of its process. */
struct plan_machine plan_machine_unknown(void);

/* Sets "rates": an object, or null where nothing was measured. */
void plan_rates_write(const struct plan_rates *r, struct json *to);

/* After each job, in DONE: "process_bytes", what the worker's process has once the job is gone, and
 * "rates" again, which may be better than those of HELLO. */
void plan_machine_write_left(const struct plan_machine *m, int64_t process_bytes,
                             struct json *done);
void plan_machine_read_left(const struct json *done, struct plan_machine *ret);

/* The members of HELLO that this is about: "threads", "base_bytes", "device_bytes" (null: it has
 * none of its own) and "rates" (null: not measured). Limits and pages are the host's and not read.
 * What is missing or of another type stays as it was in *ret. */
void plan_machine_write(const struct plan_machine *m, struct json *hello);
void plan_machine_read(const struct json *hello, struct plan_machine *ret);
