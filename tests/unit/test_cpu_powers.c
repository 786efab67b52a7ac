/* Powers of two in the CPU's loops: 2^-x is the value of laplacian_l1 between a scaled x and 0. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/tile/tile.h"
#include "support/assert.h"

/* A panel of one feature and the sum of all against the row 0, in either type. */
struct powers {
    float x_f32[TILE_LANES], panel_f32[2 * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    double x_f64[TILE_LANES], panel_f64[2 * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    float K_f32[TILE_BLOCK * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    double K_f64[TILE_BLOCK * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
};

/* K <- 2^-x; `near`: x is at most 126. */
static void compute_form(struct powers *p, const struct tile_loops *loops, bool f64, int lanes,
                         bool near, bool doubled)
{
    static const double zeros[2]; /* of both types */
    const struct tile_kernel k = {.id = KERNEL_LAPLACIAN_L1,
                                  .by_max = !loops->fixes, /* or by differences */
                                  .doubled = doubled,
                                  .near = near};
    const void *rows[1 + TILE_BLOCK];
    for (int i = 0; i <= TILE_BLOCK; i++) {
        rows[i] = zeros;
    }
    for (int i = 0; i < lanes; i++) {
        p->panel_f32[i] = p->x_f32[i] * (doubled ? 2.0F : 1.0F);
        p->panel_f64[i] = p->x_f64[i] * (doubled ? 2.0 : 1.0);
    }
    memcpy(p->panel_f32 + lanes, p->x_f32, (size_t)lanes * sizeof(float));
    memcpy(p->panel_f64 + lanes, p->x_f64, (size_t)lanes * sizeof(double));
    const struct tile tile = {.kernel = &k,
                              .panel = f64 ? (void *)p->panel_f64 : (void *)p->panel_f32,
                              .z = rows,
                              .d = 1,
                              .count = 1,
                              .K = f64 ? (void *)p->K_f64 : (void *)p->K_f32};
    loops->run(TILE_VALUES, lanes, &tile);
}

/* Both ways where there are two, with the same bits. */
static void compute(struct powers *p, const struct tile_isa *isa, bool f64, int lanes, bool near)
{
    const struct tile_loops *loops = f64 ? &isa->f64 : &isa->f32;
    compute_form(p, loops, f64, lanes, near, false);
    if (loops->doubles) {
        const struct powers once = *p;
        compute_form(p, loops, f64, lanes, near, true);
        const size_t size = (size_t)lanes * (f64 ? sizeof(double) : sizeof(float));
        assert_memory_equal(f64 ? (void *)p->K_f64 : (void *)p->K_f32,
                            f64 ? (const void *)once.K_f64 : (const void *)once.K_f32, size);
    }
}

/* Of a power's relative error: what engine/exp2.h says, and the C library's own. */
static double tolerance(const struct tile_isa *isa, bool f64)
{
    if (!f64) {
        return 3.5e-7;
    }
    return strncmp(isa->name, "avx512", 6) == 0 ? 3.2e-16 : 2e-15;
}

static void check_range(const struct tile_isa *isa, bool f64, int lanes, double most, bool near)
{
    struct powers p;
    struct rng rng = rng_new(1, RNG_TEST);
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < lanes; i++) {
            p.x_f64[i] = most * rng_uniform(&rng);
            p.x_f32[i] = (float)p.x_f64[i];
        }
        compute(&p, isa, f64, lanes, near);
        for (int i = 0; i < lanes; i++) {
            const double expected = exp2(f64 ? -p.x_f64[i] : -(double)p.x_f32[i]);
            const double got = f64 ? p.K_f64[i] : (double)p.K_f32[i];
            assert_near(got, expected, tolerance(isa, f64) * expected);
        }
    }
}

/* Powers that a number of the type holds exactly. */
static void check_whole(const struct tile_isa *isa, bool f64, int lanes)
{
    struct powers p;
    for (int x = 0; x <= (f64 ? 1022 : 126); x++) {
        for (int i = 0; i < lanes; i++) {
            p.x_f32[i] = (float)x;
            p.x_f64[i] = x;
        }
        compute(&p, isa, f64, lanes, false);
        for (int i = 0; i < lanes; i++) {
            assert_same_bits(f64 ? p.K_f64[i] : (double)p.K_f32[i], exp2(-x));
        }
    }
}

static void for_each_loop(void (*check)(const struct tile_isa *, bool f64, int lanes))
{
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        const struct tile_isa *isa = tile_isa_list(i);
        for (int f64 = 0; f64 < 2; f64++) {
            print_message("%s %s\n", isa->name, f64 ? "float64" : "float32");
            check(isa, f64, f64 ? isa->f64.wide : isa->f32.wide);
            check(isa, f64, f64 ? isa->f64.narrow : isa->f32.narrow);
        }
    }
}

static void check_powers(const struct tile_isa *isa, bool f64, int lanes)
{
    check_range(isa, f64, lanes, 1.0, true);
    check_range(isa, f64, lanes, 120.0, true);
    check_range(isa, f64, lanes, f64 ? 1020.0 : 125.0, false);
}

static void test_powers(void **state)
{
    (void)state;
    for_each_loop(check_powers);
}

static void test_whole_powers(void **state)
{
    (void)state;
    for_each_loop(check_whole);
}

/* What is left below the next whole number is then all of it. */
static void check_tiny(const struct tile_isa *isa, bool f64, int lanes)
{
    struct powers p;
    for (int i = 0; i < lanes; i++) {
        p.x_f32[i] = 0x1p-50F / (float)(1 + i);
        p.x_f64[i] = 0x1p-80 / (1 + i);
    }
    compute(&p, isa, f64, lanes, true);
    for (int i = 0; i < lanes; i++) {
        assert_same_bits(f64 ? p.K_f64[i] : (double)p.K_f32[i], 1.0);
    }
}

static void test_tiny(void **state)
{
    (void)state;
    for_each_loop(check_tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_whole_powers),
        cmocka_unit_test(test_tiny),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
