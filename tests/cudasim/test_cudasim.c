/*
 * The simulator of a GPU: right kernels give what CUDA promises, and each kind of fault that it is
 * there for is found. A fault ends the process, so each runs in one of its own.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- products of matrices ---- */

/* C + A B by the kernel; C is overwritten. */
static void multiply(cudaStream_t stream, const float *A, const float *B, float *C, int tf32)
{
    float *a = device_bytes(stream, A, 256 * sizeof *A),
          *b = device_bytes(stream, B, 128 * sizeof *B);
    float *c = device_bytes(stream, C, 128 * sizeof *C);
    ok(start_matrix_product(stream, a, b, c, tf32, 32));
    get(stream, C, c, 128 * sizeof *C);
    ok(cudaFree(a));
    ok(cudaFree(b));
    ok(cudaFree(c));
}

static void test_products_of_matrices(void **state)
{
    float A[256], B[128], C[128];
    for (int tf32 = 0; tf32 < 2; tf32++) {
        for (int i = 0; i < 256; i++) {
            A[i] = (float)(i * 7 % 31 - 15);
            B[i / 2] = (float)(i * 11 % 29 - 14) / 8.0F;
            C[i / 2] = (float)i;
        }
        multiply(*state, A, B, C, tf32);
        for (int i = 0; i < 128; i++) {
            float sum = (float)(2 * i + 1);
            for (int k = 0; k < (tf32 ? 8 : 16); k++) {
                sum += A[i / 8 * 16 + k] * B[k * 8 + i % 8];
            }
            assert_true(C[i] == sum);
        }
    }
}

/* x * 1 + c in each of them. */
static float one_product(cudaStream_t stream, float x, float c, int tf32)
{
    float A[256] = {0}, B[128] = {0}, C[128] = {0};
    A[5 * 16 + 3] = x;
    B[3 * 8 + 6] = 1.0F;
    C[5 * 8 + 6] = c;
    multiply(stream, A, B, C, tf32);
    return C[5 * 8 + 6];
}

/* What operands keep, and that sums are cut off where float32 would round up. */
static void test_precision_of_matrices(void **state)
{
    const float x = 1.0F + 0x1.cp-11F;
    assert_true(one_product(*state, x, 0.0F, true) == 1.0F);
    assert_true(one_product(*state, 1.0F + 0x1p-10F, 0.0F, true) == 1.0F + 0x1p-10F);
    assert_true(one_product(*state, x, 0.0F, false) == 1.0F + 0x1p-10F);
    assert_true(one_product(*state, 1.0F + 0x1p-11F, 0.0F, false) == 1.0F);
    assert_true(one_product(*state, 0x1.4p-24F, 0.0F, false) == 0x1p-24F);
    assert_true(one_product(*state, -65519.0F, 0.0F, false) == -65504.0F);
    assert_true(isinf(one_product(*state, 65520.0F, 0.0F, false)));
    for (int tf32 = 0; tf32 < 2; tf32++) {
        assert_true(one_product(*state, 0x1.8p-14F, 1024.0F, tf32) == 1024.0F);
        assert_true(one_product(*state, -0x1.8p-14F, -1024.0F, tf32) == -1024.0F);
    }
}

/* ---- products by groups of warps ---- */

/* Small whole numbers, which float16 has. */
static float of_a(int row, int k)
{
    return (float)((row * 7 + k * 5) % 23 - 11);
}

static float of_b(int k, int column)
{
    return (float)((k * 3 + column * 11) % 19 - 9);
}

/* float16 of a whole number below 2048 in size. */
static unsigned half_of(float x)
{
    int exponent = 0;
    const unsigned sign = x < 0 ? 0x8000u : 0u;
    if (x == 0.0F) {
        return 0;
    }
    const float fraction = frexpf(fabsf(x), &exponent);
    return sign + ((unsigned)(exponent + 13) << 10) + (unsigned)(fraction * 2048.0F);
}

static void start_group(cudaStream_t stream, int fault, float **ret)
{
    unsigned A[512], B[512];
    for (int i = 0; i < 512; i++) {
        const int line = i % 256 / 4, k = i / 256 * 8 + i % 4 * 2;
        A[i] = half_of(of_a(line, k)) | half_of(of_a(line, k + 1)) << 16;
        B[i] = half_of(of_b(k, line)) | half_of(of_b(k + 1, line)) << 16;
    }
    unsigned *a = device_bytes(stream, A, sizeof A), *b = device_bytes(stream, B, sizeof B);
    *ret = device_bytes(stream, NULL, 64 * 64 * sizeof **ret);
    ok(start_group_product(stream, a, b, *ret, fault));
    ok(cudaStreamSynchronize(stream));
    ok(cudaFree(a));
    ok(cudaFree(b));
}

static void test_products_by_groups(void **state)
{
    static float C[64 * 64];
    for (int again = 0; again < 8; again++) { /* products run at once or late */
        float *c = NULL;
        start_group(*state, GROUP_RIGHT, &c);
        get(*state, C, c, sizeof C);
        for (int i = 0; i < 64 * 64; i++) {
            float sum = 0.0F;
            for (int k = 0; k < 16; k++) {
                sum += of_a(i / 64, k) * of_b(k, i % 64);
            }
            assert_true(C[i] == 2.0F * sum);
        }
        ok(cudaFree(c));
    }
}

/* What nobody committed or waited for is no number, but then the thread's end is told, too. */
#define GROUP_FAULT(name, fault)                                                                   \
    static void name(cudaStream_t stream)                                                          \
    {                                                                                              \
        float *c = NULL;                                                                           \
        start_group(stream, fault, &c);                                                            \
    }
GROUP_FAULT(group_without_a_warp, GROUP_WITHOUT_A_WARP)
GROUP_FAULT(group_without_proxy_fence, GROUP_WITHOUT_PROXY_FENCE)
GROUP_FAULT(group_without_fence, GROUP_WITHOUT_FENCE)
GROUP_FAULT(group_without_commit, GROUP_WITHOUT_COMMIT)
GROUP_FAULT(group_without_wait, GROUP_WITHOUT_WAIT)
GROUP_FAULT(group_touched, GROUP_TOUCHED)
GROUP_FAULT(group_outside, GROUP_OUTSIDE)

static void group_before_there_were_any(cudaStream_t stream)
{
    cudaStream_t other = NULL;
    float *c = NULL;
    (void)stream;
    ok(cudaSetDevice(1));
    ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    start_group(other, GROUP_RIGHT, &c);
}

static void test_faults_of_groups(void **state)
{
    (void)state;
    assert_fault(group_without_a_warp, "wgmma.fence: thread 96 of the group has ended");
    assert_fault(group_without_proxy_fence, "with no fence.proxy.async behind it");
    assert_fault(group_without_fence, "without wgmma.fence since its registers were touched");
    assert_fault(group_without_commit, "a wgmma that no wgmma.commit_group has taken in");
    assert_fault(group_without_wait, "ends with a wgmma that it has not waited for");
    assert_fault(group_touched, "registers of a wgmma were touched before");
    assert_fault(group_outside, "wgmma reads shared memory outside of what the kernel has");
    assert_fault(group_before_there_were_any, "another compute capability than 9.0");
}

/* ---- copies by the copy engine ---- */

static void arrive(cudaStream_t stream, int fault, float *ret)
{
    float x[512 + 4];
    for (int i = 0; i < 516; i++) {
        x[i] = (float)i;
    }
    float *from = device_bytes(stream, x, sizeof x), *to = device_bytes(stream, NULL, 1024);
    ok(start_arrivals(stream, from, to, fault));
    get(stream, ret, to, 1024);
    ok(cudaFree(from));
    ok(cudaFree(to));
}

static void test_arrivals(void **state)
{
    float y[256];
    arrive(*state, ARRIVAL_RIGHT, y);
    for (int i = 0; i < 256; i++) {
        assert_true(y[i] == (float)(2 * i + 256));
    }
}

#define ARRIVAL_FAULT(name, fault)                                                                 \
    static void name(cudaStream_t stream)                                                          \
    {                                                                                              \
        float y[256];                                                                              \
        arrive(stream, fault, y);                                                                  \
    }
ARRIVAL_FAULT(arrival_without_fence, ARRIVAL_WITHOUT_FENCE)
ARRIVAL_FAULT(arrival_twice, ARRIVAL_TWICE)
ARRIVAL_FAULT(arrival_too_much, ARRIVAL_TOO_MUCH)
ARRIVAL_FAULT(arrival_too_little, ARRIVAL_TOO_LITTLE)
ARRIVAL_FAULT(arrival_crooked, ARRIVAL_CROOKED)
ARRIVAL_FAULT(arrival_not_waited_for, ARRIVAL_NOT_WAITED_FOR)

static void test_faults_of_arrivals(void **state)
{
    (void)state;
    assert_fault(arrival_without_fence, "with no fence behind its begin");
    assert_fault(arrival_twice, "before the last ones have come");
    assert_fault(arrival_too_much, "more bytes than are expected");
    assert_fault(arrival_too_little, "waits for copies that do not come");
    assert_fault(arrival_crooked, "no multiple of 16");
    assert_fault(arrival_not_waited_for, "that nobody has waited for");
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

static int open_stream(void **state)
{
    *state = stream_new();
    return 0;
}

static int close_stream(void **state)
{
    return cudaStreamDestroy(*state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_stream, close_stream)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_barriers),
        TEST(test_shuffles),
        TEST(test_asynchronous_copies),
        TEST(test_dynamic_memory),
        TEST(test_dynamic_memory_of_a_device),
        TEST(test_limits_of_starts),
        TEST(test_orders),
        TEST(test_products_of_matrices),
        TEST(test_precision_of_matrices),
        TEST(test_products_by_groups),
        TEST(test_faults_of_groups),
        TEST(test_arrivals),
        TEST(test_faults_of_arrivals),
        TEST(test_copies),
        TEST(test_host_memory),
        TEST(test_pinned_memory),
        TEST(test_new_memory_is_no_number),
        TEST(test_memory_ends),
        TEST(test_faults),
        TEST(test_faults_are_placed),
        TEST(test_unwritten_shared_memory),
        TEST(test_devices),
    };
    setenv("CUDASIM_DEVICES", "9.0,7.5", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
