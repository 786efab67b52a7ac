/*
 * What the conformance tests share: the backend named by KRR_DEVICE (default "cpu"; "group":
 * several CPU backends as one) or the CPU with the instruction set KRR_ISA, and matrices held
 * twice, on the host in float64 and on the device. Failures end the test.
 */
#pragma once

#include "base/rng.h"
#include "engine/backend.h"
#include "support/assert.h"

/* threads = 0: all. */
struct backend *device_open(int threads);
/* The i-th device of the kind these tests are linked for; the CPU is as many as one likes. */
struct backend *device_member(int i);
/* Closes and checks that nothing is left alive. */
void device_close(struct backend *be);

/* For cmocka: *state is the device, on so many threads. */
int device_setup_one(void **state);
int device_setup_two(void **state);
int device_teardown(void **state);

/* The call must succeed; its error's sentence is printed otherwise. */
#define must(call)                                                                                 \
    do {                                                                                           \
        struct err err = {0};                                                                      \
        const int rc_ = (call);                                                                    \
        if (rc_ != 0) {                                                                            \
            print_error("%s: %d %s\n", #call, rc_, err.detail);                                    \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

/* A kernel whose values on normal points are neither all 0 nor all 1. */
struct kernel usual_kernel(enum kernel_id id, int64_t d);

/* n standard normal numbers, or NULL for 0 of them; the caller frees. */
double *host_normal(struct rng *rng, int64_t n);
double *host_zeros(int64_t n);
/* Numbers rounded to float32 where the type asks for it, so that both sides start alike. */
void host_round(double *x, int64_t n, enum dtype dtype);

/* A new matrix on the device, zero or holding column-major `values` (ld = rows). */
struct mat device_mat(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                      const double *values);
/* Its numbers, ld = rows; the caller frees. */
double *device_get(struct backend *be, const struct mat *m);

/* n rows x [n, k->d], row-major; the caller frees them. */
struct points *device_points(struct backend *be, const struct kernel *k, enum dtype dtype,
                             int64_t n, const double *x);
/* K(P,Q) V of t columns v [Q.count, t], column-major; ld = P.count; the caller frees. */
double *device_product(struct backend *be, struct view P, struct view Q, enum dtype dtype,
                       int64_t t, const double *v);
/* 1.5 K(P,Q) V - 0.5 Y likewise, Y the first P.count rows of y [Q.count, t]. */
double *device_update(struct backend *be, struct view P, struct view Q, enum dtype dtype, int64_t t,
                      const double *v, const double *y);
