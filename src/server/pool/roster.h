/*
 * The workers that a pool is to have: one entry for each process, from the settings and from what
 * the CUDA worker program finds on this machine. GPUs come before the CPU, so that work that may
 * run anywhere goes to a GPU that is idle.
 */
#pragma once

#include "base/err.h"
#include "server/pool/placement.h"
#include "server/pool/pool.h"

struct roster_options {
    struct placement train, serve;
    const char *program;      /* krrd-worker */
    const char *cuda_program; /* krrd-worker-cuda */
};

struct roster {
    struct pool_place places[2 * (PLACEMENT_CPU_MAX + PLACEMENT_CUDA_MAX)];
    char devices[2 * PLACEMENT_CUDA_MAX][PLACEMENT_DEVICE_SIZE]; /* that places borrow */
    int count, gpu_count;
};

/* *ret borrows the programs' names. Where a GPU is asked for, the CUDA program is run once; a GPU
 * that is not there, or none where all are asked for, is -ERR_UNSUPPORTED and says what the program
 * said. */
int roster_make(const struct roster_options *o, struct roster *ret, struct err *err);
