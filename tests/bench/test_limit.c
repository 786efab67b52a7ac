/* The model of the limit against figures worked out by hand. */
#include "bench/limit.h"

#include <math.h>
#include <string.h>

#include "bench/ceiling_isa.h"
#include "cpu/tile/tile.h"
#include "limit_cases.h"
#include "support/assert.h"

/* A processor with one multiply-add pipe of 16 floats at 3.671 GHz, additions beside it; a root
 * takes the place of two multiply-adds, and a power that of 5 or 10. */
static const struct ceiling machine = {
    .f32 = {.fma = 58.74e9,
            .add = 58.74e9,
            .pair = 58.74e9,
            .root = 5.874e9,
            .beside = 58.74e9 / (CEILING_BESIDE + 2),
            .exp2 = 58.74e9 / 5},
    .f64 = {.fma = 29.37e9,
            .add = 29.37e9,
            .pair = 29.37e9,
            .root = 1.836e9,
            .beside = 29.37e9 / (CEILING_BESIDE + 2),
            .exp2 = 29.37e9 / 10},
    .read_bytes = 20e9,
};

/* Whether this processor runs an instruction set: the engine lists those. */
static bool cpu_has(const char *isa)
{
    const struct tile_isa *it;
    for (int i = 0; (it = tile_isa_list(i)) != NULL; i++) {
        if (strcmp(it->name, isa) == 0) {
            return true;
        }
    }
    return false;
}

/* In millions of entries a second. */
static double limit(const struct limit_case c)
{
    return limit_entries_per_s(&c, &machine) / 1e6;
}

static void test_one_right_hand_side(void **state)
{
    (void)state;
    static const struct {
        int64_t d;
        double plain, symmetric;
    } rows[] = {{3, 6527, 11748}, {9, 3916, 7342},   {18, 2447, 4699},
                {28, 1728, 3357}, {90, 611.9, 1211}, {435, 133.2, 265.8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t d = rows[i].d;
        assert_close(limit(make(KERNEL_GAUSSIAN, DTYPE_F32, d, 1, false)), rows[i].plain, 1e-3);
        assert_close(limit(make(KERNEL_GAUSSIAN, DTYPE_F32, d, 1, true)), rows[i].symmetric, 1e-3);
        assert_close(limit(make(KERNEL_LAPLACIAN_L1, DTYPE_F32, d, 1, false)), rows[i].plain, 1e-3);
    }
    assert_close(limit(make(KERNEL_GAUSSIAN, DTYPE_F64, 18, 1, false)), 1012.8, 1e-3);
    assert_close(limit(make(KERNEL_GAUSSIAN, DTYPE_F64, 18, 1, true)), 1958.0, 1e-3);
}

/* The evaluation is shared, the weights are not. */
static void test_ten_right_hand_sides(void **state)
{
    (void)state;
    assert_close(limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 10, false)), 58740.0 / 33, 1e-6);
    assert_close(limit(make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 10, true)), 58740.0 / 21.5, 1e-6);
    struct limit_case mixed = make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 10, false);
    mixed.vectors = DTYPE_F64;
    assert_close(limit(mixed), 58740.0 / (23 + 20), 1e-6);
}

/* The root costs 4 multiply-adds, or what the instruction takes beyond all others (10), 2 at least.
 */
static void test_roots(void **state)
{
    (void)state;
    assert_close(limit(make(KERNEL_MATERN12, DTYPE_F32, 3, 1, false)), 58740.0 / 11, 1e-6);
    assert_close(limit(make(KERNEL_LAPLACIAN, DTYPE_F32, 18, 1, false)), 58740.0 / 26, 1e-6);
    assert_close(limit(make(KERNEL_MATERN32, DTYPE_F32, 18, 1, false)), 58740.0 / 28, 1e-6);
    assert_close(limit(make(KERNEL_MATERN52, DTYPE_F32, 18, 1, true)), 58740.0 / 15, 1e-6);
    assert_close(limit(make(KERNEL_MATERN12, DTYPE_F32, 1, 1, false)), 58740.0 / 10, 1e-6);
}

static void test_dot_kernels(void **state)
{
    (void)state;
    assert_close(limit(make(KERNEL_LINEAR, DTYPE_F32, 18, 1, false)), 58740.0 / 19, 1e-6);
    assert_close(limit(make(KERNEL_POLYNOMIAL, DTYPE_F32, 18, 1, false)), 58740.0 / 21, 1e-6);
    assert_close(limit(make(KERNEL_SIGMOID, DTYPE_F32, 18, 1, false)), 58740.0 / 27, 1e-6);
}

/* Powers cost what they cost, not their multiply-adds alone. */
static void test_slow_powers(void **state)
{
    (void)state;
    struct ceiling slow = machine;
    slow.f32.exp2 = machine.f32.fma / 6;
    slow.f64.exp2 = machine.f64.fma / 11.5;
    const struct limit_case c = make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 1, false);
    const struct limit_case wide = make(KERNEL_LAPLACIAN_L1, DTYPE_F64, 18, 1, false);
    const struct limit_case none = make(KERNEL_POLYNOMIAL, DTYPE_F32, 18, 1, false);
    assert_close(limit_entries_per_s(&c, &slow) / 1e6, 58740.0 / 25, 1e-6);
    assert_close(limit_of_fma(&c, &slow) / 1e6, 58740.0 / 24, 1e-6);
    assert_close(limit_entries_per_s(&wide, &slow) / 1e6, 29370.0 / 30.5, 1e-6);
    assert_close(limit_of_fma(&wide, &slow) / 1e6, 29370.0 / 29, 1e-6);
    assert_close(limit_entries_per_s(&none, &slow) / 1e6, 58740.0 / 21, 1e-6);
}

/* The loops that say what powers cost compute powers: the last of 16 is 2^(-15/4). */
static void test_powers_of_the_ceiling(void **state)
{
    (void)state;
    for (const struct ceiling_isa *const *isa = ceiling_isa_list(); *isa != NULL; isa++) {
        char sink[64] __attribute__((aligned(64)));
        for (int i = 0; cpu_has((*isa)->name) && i < CEILING_EXP2; i++) {
            if ((*isa)->f32.exp2[i].run != NULL) {
                (*isa)->f32.exp2[i].run(1, sink);
                assert_close(*(float *)(void *)sink, exp2(-3.75), 4e-7);
            }
            if ((*isa)->f64.exp2[i].run != NULL) {
                (*isa)->f64.exp2[i].run(1, sink);
                assert_close(*(double *)(void *)sink, exp2(-3.75), 3e-15);
            }
        }
    }
}

/* Where additions use the same pipes, the l1 norm costs twice, and the others nothing more. */
static void test_shared_pipes(void **state)
{
    (void)state;
    struct ceiling shared = machine;
    shared.f32.pair /= 2;
    const struct limit_case l1 = make(KERNEL_LAPLACIAN_L1, DTYPE_F32, 18, 1, false);
    const struct limit_case l2 = make(KERNEL_GAUSSIAN, DTYPE_F32, 18, 1, false);
    assert_close(limit_entries_per_s(&l1, &shared) / 1e6, 58740.0 / 42, 1e-6);
    assert_close(limit_entries_per_s(&l2, &shared) / 1e6, 58740.0 / 24, 1e-6);
}

/* One row against many: reading the points takes longer than computing. */
static void test_memory(void **state)
{
    (void)state;
    struct limit_case c = make(KERNEL_GAUSSIAN, DTYPE_F32, 435, 1, false);
    c.n = 1;
    const double bytes = 4.0 * (435.0 * 20001.0 + 20001.0);
    assert_close(limit_entries_per_s(&c, &machine), 20000.0 / (bytes / 20e9), 1e-6);
}

/* Kept values: bytes, unless the weights of many right-hand sides take longer. */
static void test_kept_values(void **state)
{
    (void)state;
    struct limit_case c = make(KERNEL_GAUSSIAN, DTYPE_F32, 435, 1, true);
    c.cached_bytes = 800000000;
    const double bytes = 800e6 + 4.0 * 40000.0;
    assert_close(limit_entries_per_s(&c, &machine), 4e8 / (bytes / 20e9), 1e-6);
    c.rhs = 64;
    assert_close(limit_entries_per_s(&c, &machine) / 1e6, 58740.0 / 64, 1e-6);
}

TEST_MAIN(cmocka_unit_test(test_one_right_hand_side), cmocka_unit_test(test_ten_right_hand_sides),
          cmocka_unit_test(test_roots), cmocka_unit_test(test_dot_kernels),
          cmocka_unit_test(test_slow_powers), cmocka_unit_test(test_powers_of_the_ceiling),
          cmocka_unit_test(test_shared_pipes), cmocka_unit_test(test_memory),
          cmocka_unit_test(test_kept_values))
