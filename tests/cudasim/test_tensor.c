/*
 * What the simulator has of tensor cores, and of the copy engine that feeds them: products of
 * matrices by a warp and by groups of warps, copies that are waited for, and the faults that are
 * found in their use.
 */
#include <math.h>
#include <stdlib.h>

#include "cudasim/faults.h"
#include "cudasim/fixture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_products_of_matrices),
        STREAM_TEST(test_precision_of_matrices),
        STREAM_TEST(test_products_by_groups),
        STREAM_TEST(test_faults_of_groups),
        STREAM_TEST(test_arrivals),
        STREAM_TEST(test_faults_of_arrivals),
    };
    setenv("CUDASIM_DEVICES", "9.0,7.5", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
