/*
 * The simulator of a GPU: right kernels give what CUDA promises, and each kind of fault that it is
 * there for is found. A fault ends the process, so each runs in one of its own.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "cudasim/faults.h"
#include "cudasim/fixture.h"

/* ---- kernels ---- */

#define BLOCKS 3

static void sum_blocks(cudaStream_t stream, int barriers, double *ret)
{
    double x[256 * BLOCKS];
    for (int i = 0; i < 256 * BLOCKS; i++) {
        x[i] = i;
    }
    double *on_device = device_bytes(stream, x, sizeof x);
    double *sums = device_bytes(stream, NULL, BLOCKS * sizeof *sums);
    ok(start_block_sums(stream, on_device, BLOCKS, sums, barriers));
    get(stream, ret, sums, BLOCKS * sizeof *sums);
    ok(cudaFree(on_device));
    ok(cudaFree(sums));
}

static bool sums_are_right(const double *sums)
{
    bool right = true;
    for (int b = 0; b < BLOCKS; b++) {
        right = right && sums[b] == 256.0 * 256.0 * b + 255.0 * 128.0;
    }
    return right;
}

static void test_barriers(void **state)
{
    double sums[BLOCKS];
    sum_blocks(*state, true, sums);
    assert_true(sums_are_right(sums));
    sum_blocks(*state, false, sums);
    assert_false(sums_are_right(sums));
}

static void test_shuffles(void **state)
{
    float sum = 0.0F;
    float *x = counted(*state, 32), *ret = device_bytes(*state, NULL, sizeof sum);
    ok(start_warp_sum(*state, x, 0xffffffffu, ret));
    get(*state, &sum, ret, sizeof sum);
    assert_true(sum == 528.0F);
    ok(cudaFree(x));
    ok(cudaFree(ret));
}

/* A copy that nobody waits for has not arrived. */
static void test_asynchronous_copies(void **state)
{
    float y[64];
    float *x = counted(*state, 64), *ret = device_bytes(*state, NULL, sizeof y);
    for (int wait = 0; wait < 2; wait++) {
        ok(start_async_copy(*state, x, ret, wait));
        get(*state, y, ret, sizeof y);
        for (int i = 0; i < 64; i++) {
            assert_true(wait ? y[i] == (float)(i + 1) : isnan(y[i]));
        }
    }
    ok(cudaFree(x));
    ok(cudaFree(ret));
}

static void test_dynamic_memory(void **state)
{
    const int64_t bytes = 60000;
    unsigned char *host = malloc((size_t)bytes);
    unsigned char *ret = device_bytes(*state, NULL, (size_t)bytes);
    assert_non_null(host);
    assert_int_equal(start_dynamic(*state, bytes, false, ret), cudaErrorInvalidValue);
    ok(start_dynamic(*state, bytes, true, ret));
    get(*state, host, ret, (size_t)bytes);
    for (int64_t i = 0; i < bytes; i++) {
        assert_int_equal(host[i], (bytes - 1 - i) % 251);
    }
    assert_int_equal(start_dynamic(*state, 240000, true, ret), cudaErrorInvalidValue);
    free(host);
    ok(cudaFree(ret));
}

/* A device of 7.5 has less. */
static void test_dynamic_memory_of_a_device(void **state)
{
    (void)state;
    cudaStream_t stream = NULL;
    ok(cudaSetDevice(1));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned char *ret = device_bytes(stream, NULL, 65536);
    ok(start_dynamic(stream, 65536, true, ret));
    assert_int_equal(start_dynamic(stream, 65537, true, ret), cudaErrorInvalidValue);
    ok(cudaFree(ret));
    ok(cudaStreamDestroy(stream));
    ok(cudaSetDevice(0));
}

static void test_limits_of_starts(void **state)
{
    ok(start_nothing(*state, 70000, 1, 1));
    ok(start_nothing(*state, 1, 1, 1024));
    assert_int_equal(start_nothing(*state, 1, 1, 1025), cudaErrorInvalidConfiguration);
    assert_int_equal(start_nothing(*state, 1, 65536, 1), cudaErrorInvalidConfiguration);
    assert_int_equal(start_nothing(*state, 0, 1, 1), cudaErrorInvalidConfiguration);
    assert_int_equal(start_nothing(NULL, 1, 1, 1), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    ok(cudaStreamSynchronize(*state));
}

/* Threads run in one order, then in another. */
static void test_orders(void **state)
{
    int orders[2][64];
    int *order = device_bytes(*state, NULL, sizeof orders[0]);
    const int none = 0;
    for (int i = 0; i < 2; i++) {
        int *next = device_bytes(*state, &none, sizeof none);
        ok(start_order(*state, next, order));
        get(*state, orders[i], order, sizeof orders[i]);
        ok(cudaFree(next));
        unsigned long long seen = 0;
        for (int k = 0; k < 64; k++) {
            seen |= 1ull << orders[i][k];
        }
        assert_true(seen == ~0ull);
    }
    assert_memory_not_equal(orders[0], orders[1], sizeof orders[0]);
    ok(cudaFree(order));
}

/* ---- memory and streams ---- */

/* A copy from the host has read its numbers; one to the host gives them when it is waited for. */
static void test_copies(void **state)
{
    float number = 3.0F, back = 1.0F;
    float *data = device_bytes(*state, &number, sizeof number);
    number = 4.0F;
    ok(cudaMemcpyAsync(&back, data, sizeof back, cudaMemcpyDeviceToHost, *state));
    assert_true(isnan(back));
    ok(cudaStreamSynchronize(*state));
    assert_true(back == 3.0F);
    ok(cudaMemsetAsync(data, 0, sizeof number, *state));
    get(*state, &back, data, sizeof back);
    assert_true(back == 0.0F);
    assert_int_equal(cudaMemsetAsync(data, 0, sizeof number + 1, *state), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(&back, &number, 4, cudaMemcpyHostToDevice, *state),
                     cudaErrorInvalidValue);
    (void)cudaGetLastError();
    ok(cudaFree(data));
}

/* Memory of the host, ordinary memory too, may be read as late as when the copy runs. */
static void test_host_memory(void **state)
{
    float from = 3.0F, back = 1.0F;
    float *data = device_bytes(*state, NULL, sizeof from);
    ok(cudaMemcpyAsync(data, &from, sizeof from, cudaMemcpyHostToDevice, *state));
    from = 4.0F;
    get(*state, &back, data, sizeof back);
    assert_true(back == 4.0F);
    ok(cudaFree(data));
}

/* Pinned memory likewise, and an event waits for what was asked before it. */
static void test_pinned_memory(void **state)
{
    float *from = NULL, back = 1.0F, later = 1.0F;
    float *data = device_bytes(*state, NULL, sizeof *from);
    cudaEvent_t event = NULL;
    ok(cudaMallocHost((void **)&from, sizeof *from));
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ok(cudaEventSynchronize(event));
    *from = 3.0F;
    ok(cudaMemcpyAsync(data, from, sizeof *from, cudaMemcpyHostToDevice, *state));
    *from = 4.0F;
    ok(cudaMemcpyAsync(&back, data, sizeof back, cudaMemcpyDeviceToHost, *state));
    ok(cudaEventRecord(event, *state));
    ok(cudaMemcpyAsync(&later, data, sizeof later, cudaMemcpyDeviceToHost, *state));
    ok(cudaEventSynchronize(event));
    assert_true(back == 4.0F && isnan(later));
    ok(cudaStreamSynchronize(*state));
    assert_true(later == 4.0F);
    ok(cudaEventDestroy(event));
    ok(cudaFreeHost(from));
    assert_int_equal(cudaFreeHost(from), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    ok(cudaFree(data));
}

static void test_new_memory_is_no_number(void **state)
{
    double x = 0.0;
    double *data = device_bytes(*state, NULL, sizeof x);
    get(*state, &x, data, sizeof x);
    assert_true(isnan(x));
    ok(cudaFree(data));
}

static void test_memory_ends(void **state)
{
    size_t before = 0, after = 0, total = 0;
    void *data = NULL, *more = NULL;
    (void)state;
    ok(cudaMemGetInfo(&before, &total));
    assert_int_equal(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    ok(cudaMalloc(&more, 1000));
    ok(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 1000);
    ok(cudaFree(more));
}

/* ---- faults ---- */

static void one_too_far(cudaStream_t stream)
{
    float *x = counted(stream, 64), *y = counted(stream, 64);
    (void)start_shift(stream, x, 64, 1, y);
    float last = 0.0F;
    get(stream, &last, y + 63, sizeof last);
    /* 64 floats fill CUDA's 256 bytes: the next page is nobody's. */
}

static void behind_by_little(cudaStream_t stream)
{
    float *x = counted(stream, 60);
    (void)start_shift(stream, x, 60, 0, x + 1);
    (void)cudaStreamSynchronize(stream);
}

static void before_the_begin(cudaStream_t stream)
{
    float *x = counted(stream, 60);
    (void)start_shift(stream, x, 60, 0, x - 1);
    (void)cudaStreamSynchronize(stream);
}

static void read_on_the_host(cudaStream_t stream)
{
    const volatile float *x = counted(stream, 64);
    ok(cudaStreamSynchronize(stream));
    if (x[0] > 0.0F) {
        _exit(1);
    }
}

static void used_after_free(cudaStream_t stream)
{
    float *x = counted(stream, 64), *y = counted(stream, 64);
    ok(cudaFree(x));
    (void)start_shift(stream, x, 64, 0, y);
    (void)cudaStreamSynchronize(stream);
}

static void freed_twice(cudaStream_t stream)
{
    float *x = counted(stream, 64);
    ok(cudaFree(x));
    (void)cudaFree(x);
}

static void of_another_device(cudaStream_t stream)
{
    float *x = counted(stream, 64);
    cudaStream_t other = NULL;
    ok(cudaStreamSynchronize(stream));
    ok(cudaSetDevice(1));
    ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    (void)start_shift(other, x, 64, 0, counted(other, 64));
    (void)cudaStreamSynchronize(other);
}

static void divergent_barrier(cudaStream_t stream)
{
    (void)start_divergent(stream, 63);
    (void)cudaStreamSynchronize(stream);
}

static void lanes_apart(cudaStream_t stream)
{
    (void)start_split_warp(stream);
    (void)cudaStreamSynchronize(stream);
}

static void lane_outside(cudaStream_t stream)
{
    (void)start_warp_sum(stream, counted(stream, 32), 0xffffu, counted(stream, 1));
    (void)cudaStreamSynchronize(stream);
}

static void matrices_without_a_lane(cudaStream_t stream)
{
    (void)start_matrix_product(stream, counted(stream, 256), counted(stream, 128),
                               counted(stream, 128), true, 31);
    (void)cudaStreamSynchronize(stream);
}

static void matrices_before_there_were_any(cudaStream_t stream)
{
    cudaStream_t other = NULL;
    (void)stream;
    ok(cudaSetDevice(1));
    ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    (void)start_matrix_product(other, counted(other, 256), counted(other, 128), counted(other, 128),
                               false, 32);
    (void)cudaStreamSynchronize(other);
}

static void shared_written_behind(cudaStream_t stream)
{
    (void)start_write_behind(stream);
    (void)cudaStreamSynchronize(stream);
}

static void shared_too_large(cudaStream_t stream)
{
    (void)start_too_much_shared(stream);
    (void)cudaStreamSynchronize(stream);
}

static void test_faults(void **state)
{
    (void)state;
    assert_fault(one_too_far, "an access 256 bytes behind the begin of an allocation of 256 bytes");
    assert_fault(behind_by_little, "memory behind an allocation of 240 bytes was written");
    assert_fault(before_the_begin, "memory before an allocation of 240 bytes was written");
    assert_fault(read_on_the_host, "the host used device memory");
    assert_fault(used_after_free, "an access to freed memory");
    assert_fault(freed_twice, "an allocation of 256 bytes is freed twice");
    assert_fault(of_another_device, "an access to memory of device 0 from device 1");
    assert_fault(divergent_barrier, "63 threads wait at __syncthreads(), and 1 have ended");
    assert_fault(lanes_apart, "waits in __syncwarp for lanes that do not come");
    assert_fault(lane_outside, "the mask 0xffff is without the lane that calls");
    assert_fault(matrices_without_a_lane, "mma of tf32: lane 31 of the mask 0xffffffff has ended");
    assert_fault(matrices_before_there_were_any, "compute capability below 8.0");
    assert_fault(shared_written_behind, "shared memory outside of what the kernel has");
    assert_fault(shared_too_large, "50176 bytes of shared memory in one kernel");
}

/* Where a fault is: the start's line and text, block and thread. */
static void test_faults_are_placed(void **state)
{
    (void)state;
    assert_fault(one_too_far, "start(shift_by, ");
    assert_fault(one_too_far, "block (0, 0, 0), thread (63, 0, 0): ");
}

static void test_unwritten_shared_memory(void **state)
{
    float x = 0.0F;
    float *ret = device_bytes(*state, NULL, sizeof x);
    ok(start_read_unwritten(*state, ret));
    get(*state, &x, ret, sizeof x);
    assert_true(isnan(x));
    ok(cudaFree(ret));
}

static void test_devices(void **state)
{
    int count = 0;
    struct cudaDeviceProp properties;
    (void)state;
    ok(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    ok(cudaGetDeviceProperties(&properties, 1));
    assert_int_equal(properties.major * 10 + properties.minor, 75);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_barriers),
        STREAM_TEST(test_shuffles),
        STREAM_TEST(test_asynchronous_copies),
        STREAM_TEST(test_dynamic_memory),
        STREAM_TEST(test_dynamic_memory_of_a_device),
        STREAM_TEST(test_limits_of_starts),
        STREAM_TEST(test_orders),
        STREAM_TEST(test_copies),
        STREAM_TEST(test_host_memory),
        STREAM_TEST(test_pinned_memory),
        STREAM_TEST(test_new_memory_is_no_number),
        STREAM_TEST(test_memory_ends),
        STREAM_TEST(test_faults),
        STREAM_TEST(test_faults_are_placed),
        STREAM_TEST(test_unwritten_shared_memory),
        STREAM_TEST(test_devices),
    };
    setenv("CUDASIM_DEVICES", "9.0,7.5", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
