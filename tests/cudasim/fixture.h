/* What the tests of the simulator share. */
#pragma once

#include <cuda_runtime.h>

#include "support/assert.h"

#define ok(call) assert_int_equal(call, cudaSuccess)

/* Of device 0. */
cudaStream_t stream_new(void);

/* For cmocka: *state is such a stream. */
int stream_setup(void **state);
int stream_teardown(void **state);
#define STREAM_TEST(f) cmocka_unit_test_setup_teardown(f, stream_setup, stream_teardown)

/* Device memory with a copy of the bytes, or as it comes. */
void *device_bytes(cudaStream_t stream, const void *bytes, size_t count);
/* Waits. */
void get(cudaStream_t stream, void *to, const void *from, size_t bytes);
/* On the device: x[i] = i + 1, n <= 1024. */
float *counted(cudaStream_t stream, int64_t n);
/* Runs the program in a process of its own; it must end by abort() and say `sentence` on stderr. */
void assert_fault(void (*program)(cudaStream_t), const char *sentence);
