/* The CPU's loops, every instruction set this machine can run, against kernel_eval. */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/cpu_tile.h"
#include "support/assert.h"

#define D_MAX 20

/* A panel of `lanes` rows against `count` rows; numbers in both types. */
struct tile {
    int lanes, count;
    int64_t d;
    double x[TILE_LANES * D_MAX], z[TILE_RUN * D_MAX]; /* row-major, scaled */
    float panel_f32[TILE_LANES * D_MAX] __attribute__((aligned(64)));
    double panel_f64[TILE_LANES * D_MAX] __attribute__((aligned(64)));
    float z_f32[TILE_RUN * D_MAX];
    const void *rows_f32[TILE_RUN], *rows_f64[TILE_RUN];
    float K_f32[TILE_RUN * TILE_LANES] __attribute__((aligned(64)));
    double K_f64[TILE_RUN * TILE_LANES] __attribute__((aligned(64)));
};

/* Normal numbers times `scale`, representable in float32. */
static void tile_fill(struct tile *t, int lanes, int count, int64_t d, double scale)
{
    struct rng rng = rng_new((uint64_t)(lanes + count), RNG_TEST);
    t->lanes = lanes;
    t->count = count;
    t->d = d;
    for (int64_t i = 0; i < lanes * d; i++) {
        t->x[i] = (double)(float)(scale * rng_normal(&rng));
        t->panel_f64[i % d * lanes + i / d] = t->x[i];
        t->panel_f32[i % d * lanes + i / d] = (float)t->x[i];
    }
    for (int64_t i = 0; i < TILE_RUN * d; i++) {
        t->z[i] = (double)(float)(scale * rng_normal(&rng));
        t->z_f32[i] = (float)t->z[i];
    }
    for (int j = 0; j < TILE_RUN; j++) {
        t->rows_f32[j] = t->z_f32 + j * d;
        t->rows_f64[j] = t->z + j * d;
    }
}

/* The loops of one type; K is then in the buffer of that type. */
static const struct tile_loops *loops_of(const struct tile_isa *isa, bool f64)
{
    return f64 ? &isa->f64 : &isa->f32;
}

static void compute(struct tile *t, const struct tile_isa *isa, bool f64, enum kernel_id id)
{
    const struct tile_kernel k = {.id = id, .gamma = 0.25, .coef0 = 0.5, .degree = 5};
    if (f64) {
        isa->f64.values(&k, t->lanes, t->panel_f64, t->rows_f64, t->d, t->count, t->K_f64);
    } else {
        isa->f32.values(&k, t->lanes, t->panel_f32, t->rows_f32, t->d, t->count, t->K_f32);
    }
}

/* Rounding of the distance r makes an error of about r units in exp(-r), hence rtol. */
static void check_values(const struct tile *t, bool f64, enum kernel_id id, double rtol)
{
    const struct kernel k = {.id = id,
                             .d = t->d,
                             .bandwidth = tile_scale(id), /* undoes the scaling */
                             .gamma = 0.25,
                             .coef0 = 0.5,
                             .degree = 5};
    for (int i = 0; i < t->lanes * t->count; i++) {
        const double *x = t->x + i % t->lanes * t->d, *z = t->z + i / t->lanes * t->d;
        const double expected = kernel_eval(&k, x, z);
        const double size = fabs(expected) + (kernel_uses_distance(id) ? 0.0 : 1.0);
        const double got = f64 ? t->K_f64[i] : (double)t->K_f32[i];
        /* Powers below the smallest normal number are 0, and the Matern factor is in the thousands.
         */
        const double smallest = f64 ? 1e-302 : 1e-34;
        assert_near(got, expected, (f64 ? 1e-15 : 5e-7) * rtol * size + smallest);
    }
}

/* Calls check for every instruction set, type and panel width. */
static void for_each_panel(struct tile *t, void (*check)(struct tile *, const struct tile_isa *,
                                                         bool f64, int lanes))
{
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        const struct tile_isa *isa = tile_isa_list(i);
        for (int f64 = 0; f64 < 2; f64++) {
            const struct tile_loops *loops = loops_of(isa, f64);
            print_message("%s %s: %d and %d lanes\n", isa->name, f64 ? "float64" : "float32",
                          loops->wide, loops->narrow);
            assert_int_equal(TILE_RUN % loops->wide, 0);
            assert_int_equal(loops->wide % loops->narrow, 0);
            check(t, isa, f64, loops->wide);
            check(t, isa, f64, loops->narrow);
        }
    }
}

static void check_kernels(struct tile *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const int counts[] = {1, 4, 7, TILE_RUN};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (int i = 0; i < 4; i++) {
            tile_fill(t, lanes, counts[i], 1 + 6 * i, 0.3);
            compute(t, isa, f64, (enum kernel_id)id);
            check_values(t, f64, (enum kernel_id)id, 10.0);
        }
    }
}

static void test_values(void **state)
{
    for_each_panel(*state, check_kernels);
}

/* From 1 down to nothing: exponents cross the smallest normal number, and go far beyond. */
static void check_underflow(struct tile *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const double scales[] = {1e-3, 5.0, 20.0, 300.0, 1e10};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        if (!kernel_uses_distance((enum kernel_id)id)) {
            continue;
        }
        for (int i = 0; i < 5; i++) {
            tile_fill(t, lanes, 8, 3, scales[i]);
            compute(t, isa, f64, (enum kernel_id)id);
            check_values(t, f64, (enum kernel_id)id, 3000.0);
        }
    }
}

static void test_underflow(void **state)
{
    for_each_panel(*state, check_underflow);
}

/* tanh keeps its relative accuracy where it is small, and ends at +-1. */
static void check_sigmoid(struct tile *t, const struct tile_isa *isa, bool f64, int lanes)
{
    const struct tile_kernel k = {.id = KERNEL_SIGMOID, .gamma = 1.0};
    for (double u = 1e-12; u < 1e12; u *= 1.7) {
        for (int i = 0; i < lanes; i++) {
            t->panel_f32[i] = (float)(i % 2 ? u : -u);
            t->panel_f64[i] = (double)t->panel_f32[i];
        }
        t->z[0] = 1.0;
        t->z_f32[0] = 1.0F;
        for (int j = 0; j < TILE_STEP; j++) {
            t->rows_f32[j] = t->z_f32;
            t->rows_f64[j] = t->z;
        }
        const struct tile_loops *loops = loops_of(isa, f64);
        loops->values(&k, lanes, f64 ? (void *)t->panel_f64 : (void *)t->panel_f32,
                      f64 ? t->rows_f64 : t->rows_f32, 1, 1, f64 ? (void *)t->K_f64 : t->K_f32);
        for (int i = 0; i < lanes; i++) {
            const double got = f64 ? t->K_f64[i] : (double)t->K_f32[i];
            assert_close(got, tanh((double)t->panel_f32[i]), f64 ? 2e-15 : 1e-6);
        }
    }
}

static void test_sigmoid(void **state)
{
    for_each_panel(*state, check_sigmoid);
}

/* NaN is passed on, not turned into a number. */
static void check_nan(struct tile *t, const struct tile_isa *isa, bool f64, int lanes)
{
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        tile_fill(t, lanes, 4, 2, 1.0);
        t->panel_f32[0] = NAN;
        t->panel_f64[0] = NAN;
        compute(t, isa, f64, (enum kernel_id)id);
        assert_true(isnan(f64 ? t->K_f64[0] : (double)t->K_f32[0]));
        assert_true(!isnan(f64 ? t->K_f64[1] : (double)t->K_f32[1]));
    }
}

static void test_nan(void **state)
{
    for_each_panel(*state, check_nan);
}

static void check_sums(struct tile *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const int cols[] = {1, 3, 4, 9, TILE_COLS};
    static float w_f32[TILE_COLS * TILE_RUN];
    static double w[TILE_COLS * TILE_RUN], sums[TILE_COLS * TILE_LANES];
    struct rng rng = rng_new(3, RNG_TEST);
    for (int i = 0; i < TILE_COLS * TILE_RUN; i++) {
        w_f32[i] = (float)rng_normal(&rng);
        w[i] = (double)w_f32[i];
    }
    const struct tile_loops *loops = loops_of(isa, f64);
    for (int variant = 0; variant < 10; variant++) {
        const int n = cols[variant / 2], count = 61;
        const bool by_f64 = variant % 2 || f64;
        tile_fill(t, lanes, count, 3, 0.3);
        compute(t, isa, f64, KERNEL_GAUSSIAN);
        for (int i = 0; i < n * lanes; i++) {
            sums[i] = 100.0;
        }
        const void *K = f64 ? (const void *)t->K_f64 : t->K_f32;
        if (variant % 2) {
            loops->apply_f64(lanes, K, count, w, n, sums);
        } else {
            loops->apply(lanes, K, count, f64 ? (const void *)w : w_f32, n, sums);
        }
        for (int i = 0; i < n * lanes; i++) {
            double expected = 100.0, size = 0.0;
            for (int j = 0; j < count; j++) {
                const int at = j * lanes + i % lanes;
                const double k = f64 ? t->K_f64[at] : (double)t->K_f32[at];
                expected += k * w[i / lanes * TILE_RUN + j];
                size += fabs(k * w[i / lanes * TILE_RUN + j]);
            }
            assert_near(sums[i], expected, by_f64 ? 1e-13 * 100.0 : 4e-6 * size);
        }
    }
}

static void test_sums(void **state)
{
    for_each_panel(*state, check_sums);
}

static int new_tile(void **state)
{
    *state = mem_aligned(1, sizeof(struct tile));
    return *state == NULL;
}

static int free_tile(void **state)
{
    mem_free(*state);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_tile, free_tile)
TEST_MAIN(TEST(test_values), TEST(test_underflow), TEST(test_sigmoid), TEST(test_nan),
          TEST(test_sums))
