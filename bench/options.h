/* The command line of krr-bench. Every number is checked; nothing is taken silently. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/kernel.h"
#include "wire/spec.h"

enum bench_command { BENCH_HELP, BENCH_OPERATOR, BENCH_SOLVE, BENCH_CENTERS };

struct operator_options {
    enum kernel_id kernel;
    int64_t n, m, d, rhs; /* K is n x m */
    double bandwidth;     /* sqrt(d), or d for laplacian_l1, unless given */
    enum precision precision;
    double outliers;   /* share of the rows that lie ten times as far out */
    bool symmetric;    /* P is Q; then m = n */
    bool grid, cached; /* kernel values are kept in memory, as `storage` says */
    bool storage_given;
    enum kernel_storage storage;
    int64_t repeat;
    int64_t seed;
    const char *save; /* tensors file to write points, weights and product to, or NULL */
};

struct solve_bench_options {
    const char *job;   /* the order's file */
    const char *trace; /* file for what every step reported (trace.h), or NULL */
};

struct centers_bench_options {
    const char *job;    /* the order's file */
    const char *scores; /* file of the exact leverage scores, made where there is none, or NULL */
    int64_t repeat;     /* selections, each with a seed of its own */
};

struct bench_options {
    enum bench_command command;
    const char *device;
    const char *isa; /* of the CPU's kernel loops; NULL: the best */
    int threads;     /* 0: what the machine grants */
    struct operator_options product;
    struct solve_bench_options solve;
    struct centers_bench_options centers;
};

extern const char bench_usage[];

/* argv as main got it, strings borrowed. -ERR_INVALID names the flag. */
int bench_options_read(int argc, char **argv, struct bench_options *ret, struct err *err);
