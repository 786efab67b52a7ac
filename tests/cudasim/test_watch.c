/*
 * Watched kernels: accesses to what is no memory of theirs, and races, are found at the access;
 * what is ordered by barriers is not taken for one.
 */
#include <math.h>

#include "cudasim/faults.h"
#include "cudasim/fixture.h"

/* ---- no faults ---- */

static void test_barriers_order(void **state)
{
    double x[256], sum = 0.0;
    for (int i = 0; i < 256; i++) {
        x[i] = i;
    }
    double *on_device = device_bytes(*state, x, sizeof x);
    double *ret = device_bytes(*state, NULL, sizeof sum);
    for (int i = 0; i < 3; i++) { /* again in the same shared memory */
        ok(start_block_sums(*state, on_device, 1, ret, true));
        get(*state, &sum, ret, sizeof sum);
        assert_true(sum == 255.0 * 128.0);
    }
    ok(cudaFree(on_device));
    ok(cudaFree(ret));
}

static void test_warps_order(void **state)
{
    float y[64];
    float *x = counted(*state, 64), *ret = device_bytes(*state, NULL, sizeof y);
    ok(start_reverse(*state, x, true, ret));
    get(*state, y, ret, sizeof y);
    for (int i = 0; i < 32; i++) {
        assert_true(y[i] == (float)(33 - i));
    }
    ok(start_async_neighbour(*state, x, ret, true));
    get(*state, y, ret, sizeof y);
    for (int i = 0; i < 64; i++) {
        assert_true(y[i] == (float)((i + 1) % 64 + 1));
    }
    ok(cudaFree(x));
    ok(cudaFree(ret));
}

/* Many may read, blocks may have places beside each other, and the next launch may use them all. */
static void test_launches_order(void **state)
{
    float y[8];
    float *x = counted(*state, 8), *ret = device_bytes(*state, NULL, sizeof y);
    ok(start_share(*state, x, 8, 1, ret));
    ok(start_share(*state, ret, 8, 1, x));
    get(*state, y, x, sizeof y);
    for (int i = 0; i < 8; i++) {
        assert_true(y[i] == (float)(i + 1));
    }
    ok(cudaFree(x));
    ok(cudaFree(ret));
}

/* ---- faults ---- */

static void tree_without_barriers(cudaStream_t stream)
{
    float *x = counted(stream, 512);
    (void)start_block_sums(stream, (const double *)x, 1, (double *)counted(stream, 2), false);
    (void)cudaStreamSynchronize(stream);
}

static void warp_without_barrier(cudaStream_t stream)
{
    (void)start_reverse(stream, counted(stream, 32), false, counted(stream, 32));
    (void)cudaStreamSynchronize(stream);
}

static void copies_without_barrier(cudaStream_t stream)
{
    (void)start_async_neighbour(stream, counted(stream, 64), counted(stream, 64), false);
    (void)cudaStreamSynchronize(stream);
}

/* A product reads what another thread's copy brought. */
static void group_without_barrier(cudaStream_t stream)
{
    float *const c = device_bytes(stream, NULL, 64 * 64 * sizeof(float));
    (void)start_group_product(stream, (const unsigned *)counted(stream, 512),
                              (const unsigned *)counted(stream, 512), c, GROUP_WITHOUT_BARRIER);
    (void)cudaStreamSynchronize(stream);
}

static void change_of_all(cudaStream_t stream)
{
    (void)start_change_of_all(stream, counted(stream, 65));
    (void)cudaStreamSynchronize(stream);
}

static void blocks_in_one_place(cudaStream_t stream)
{
    (void)start_share(stream, counted(stream, 8), 8, 2, counted(stream, 8));
    (void)cudaStreamSynchronize(stream);
}

/* Of what another block may have written by then. */
static void blocks_in_place(cudaStream_t stream)
{
    float *x = counted(stream, 192);
    (void)start_shift(stream, x, 128, 64, x);
    (void)cudaStreamSynchronize(stream);
}

static void read_a_little_behind(cudaStream_t stream)
{
    (void)start_shift(stream, counted(stream, 60), 60, 1, counted(stream, 60));
    (void)cudaStreamSynchronize(stream);
}

static void read_of_the_host(cudaStream_t stream)
{
    const float x[64] = {0};
    (void)start_shift(stream, x, 64, 0, counted(stream, 64));
    (void)cudaStreamSynchronize(stream);
}

static void fours_between(cudaStream_t stream)
{
    (void)start_fours(stream, counted(stream, 64), 1, counted(stream, 16));
    (void)cudaStreamSynchronize(stream);
}

static void shared_behind(cudaStream_t stream)
{
    (void)start_write_behind(stream);
    (void)cudaStreamSynchronize(stream);
}

static void shared_unwritten(cudaStream_t stream)
{
    (void)start_read_unwritten(stream, counted(stream, 1));
    (void)cudaStreamSynchronize(stream);
}

static void test_faults(void **state)
{
    (void)state;
    assert_fault(tree_without_barriers, "with no barrier between");
    assert_fault(warp_without_barrier, "with no barrier between");
    assert_fault(copies_without_barrier, "with no barrier between");
    assert_fault(group_without_barrier, "with no barrier between");
    assert_fault(change_of_all, "with no barrier between");
    assert_fault(blocks_in_one_place, "writes what thread 0 of block ");
    assert_fault(blocks_in_place, "with no barrier between");
    assert_fault(read_a_little_behind,
                 "an access 240 bytes behind the begin of an allocation of 240 bytes");
    assert_fault(read_of_the_host, "reads 4 bytes at ");
    assert_fault(fours_between, "reads 16 bytes at ");
    assert_fault(shared_behind, "4 bytes of shared memory are used outside");
    assert_fault(shared_unwritten, "shared memory that no thread of the block wrote");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_barriers_order),
        STREAM_TEST(test_warps_order),
        STREAM_TEST(test_launches_order),
        STREAM_TEST(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
