/*
 * The numbers a product is timed on: standard normal points P [n, d] and Q [m, d] and weights V
 * [m, rhs], each value a pure function of the seed. Values are exact in the precision they are used
 * in, so that errors are those of the product alone.
 */
#pragma once

#include "bench/options.h"
#include "engine/backend.h"

struct workload {
    struct kernel kernel;
    struct rows P, Q;          /* Q.data == P.data when symmetric */
    void *P_memory, *Q_memory; /* owned; Q_memory NULL when symmetric */
    enum dtype vectors;        /* of V and the product on the backend */
    int64_t rhs;
    double *V; /* [m, rhs] column-major */
};

int workload_init(struct workload *w, const struct operator_options *o, struct err *err);
void workload_deinit(struct workload *w); /* accepts a zeroed one */

/* The largest error of Y ([n, rhs] column-major) on `rows` rows spread over P, relative to the
 * row's sum |k| |v|, by kernel_eval. */
int workload_error(const struct workload *w, const double *Y, int64_t rows, double *ret,
                   struct err *err);

/* A safetensors file: "weights" [rhs, m] and "product" [rhs, n] of the vectors' type, "points"
 * [n, d] and, unless symmetric, "centers" [m, d]. */
int workload_save(const struct workload *w, const double *Y, const char *path, struct err *err);
