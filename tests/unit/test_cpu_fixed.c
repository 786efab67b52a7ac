/* |x - z|_1 in fixed point (tile_kernel.by_fixed), of each instruction set that has it here. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/tile/tile.h"
#include "support/assert.h"

#define ROWS TILE_LANES
#define D_MAX 2048
#define LD_MAX (D_MAX + 1)

/* Rows in floating point, and what the loops take of them. A panel has the first `lanes` rows. */
struct sample {
    int64_t d, ld;
    float rows[ROWS * LD_MAX];
    int32_t fixed[ROWS * LD_MAX];
    int32_t panel[ROWS * LD_MAX] __attribute__((aligned(TILE_ALIGN)));
    float K[TILE_RUN * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
};

/* Calls check for every loops that have the form. */
static void for_each(struct sample *s,
                     void (*check)(struct sample *, const struct tile_loops *loops))
{
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        const struct tile_loops *loops = &tile_isa_list(i)->f32;
        assert_false(tile_isa_list(i)->f64.fixes);
        if (loops->fixes) {
            print_message("%s\n", tile_isa_list(i)->name);
            check(s, loops);
        }
    }
}

/* Rows of |x|_1 near `size`. */
static void fill(struct sample *s, int64_t d, double size)
{
    struct rng rng = rng_new((uint64_t)d, RNG_TEST);
    s->d = d;
    s->ld = d + 1;
    for (int64_t i = 0; i < ROWS * s->ld; i++) {
        s->rows[i] = (float)(1.2 * size / (double)(d + 1) * rng_normal(&rng));
    }
}

static const struct tile_kernel kernel = {.id = KERNEL_LAPLACIAN_L1, .by_fixed = true};

static void pack(struct sample *s, const struct tile_loops *loops, int lanes)
{
    const void *rows[ROWS];
    for (int i = 0; i < lanes; i++) {
        rows[i] = s->rows + (i % ROWS) * s->ld;
    }
    loops->pack(rows, s->ld, lanes, s->panel);
    loops->turn_panel(&kernel, s->panel, s->d, lanes);
}

static void fix_rows(struct sample *s, const struct tile_loops *loops)
{
    for (int i = 0; i < ROWS; i++) {
        loops->turn_row(&kernel, s->rows + i * s->ld, s->d, s->fixed + i * s->ld);
    }
}

/* K(j, i): rows i of the panel against `count` rows j. */
static void compute(struct sample *s, const struct tile_loops *loops, int lanes, int count)
{
    static const int32_t origin[LD_MAX];
    const void *z[ROWS + TILE_BLOCK];
    for (int j = 0; j < count + TILE_BLOCK; j++) {
        z[j] = j < count ? s->fixed + j * s->ld : origin;
    }
    loops->run(
        TILE_VALUES, lanes,
        &(struct tile){
            .kernel = &kernel, .panel = s->panel, .z = z, .d = s->d, .count = count, .K = s->K});
}

static double expected(const struct sample *s, int i, int j)
{
    double distance = 0.0;
    for (int64_t k = 0; k < s->d; k++) {
        distance += fabs((double)s->rows[i * s->ld + k] - (double)s->rows[j * s->ld + k]);
    }
    return exp2(-distance);
}

/* The largest error of a value, relative to it. */
static double worst(const struct sample *s, int lanes, int count)
{
    double most = 0.0;
    for (int i = 0; i < lanes; i++) {
        for (int j = 0; j < count; j++) {
            const double value = expected(s, i, j);
            most = fmax(most, fabs((double)s->K[j * lanes + i] - value) / value);
        }
    }
    return most;
}

static void check_numbers(struct sample *s, const struct tile_loops *loops)
{
    for (int64_t d = 0; d < 40; d++) {
        fill(s, d, 10.0);
        fix_rows(s, loops);
        for (int lanes = loops->narrow; lanes <= loops->wide;
             lanes += loops->wide - loops->narrow) {
            pack(s, loops, lanes);
            for (int i = 0; i < lanes; i++) {
                int64_t sum = 0;
                for (int64_t k = 0; k < s->ld; k++) {
                    const int32_t number = s->fixed[i * s->ld + k];
                    assert_int_equal(s->panel[k * lanes + i], number);
                    sum += k < d ? number : 0;
                }
                assert_int_equal(sum, 2 * (int64_t)s->fixed[i * s->ld + d]);
            }
        }
    }
}

/* A row is the same numbers alone and in a panel, and they end with half of their sum. */
static void test_numbers(void **state)
{
    for_each(*state, check_numbers);
}

static void check_values(struct sample *s, const struct tile_loops *loops)
{
    static const int64_t dims[] = {1, 2, 3, 7, 8, 9, 64, 435, D_MAX};
    static const double sizes[] = {1e-6, 0.01, 1.0, 15.0};
    for (int c = 0; c < 9 * 4; c++) {
        fill(s, dims[c / 4], sizes[c % 4]);
        fix_rows(s, loops);
        pack(s, loops, loops->wide);
        compute(s, loops, loops->wide, loops->wide);
        const double error = worst(s, loops->wide, loops->wide);
        if (c % 4 == 2) {
            print_message("d = %lld: %.1e\n", (long long)s->d, error);
        }
        /* A unit is 2^-24; roundings of different features are not of one sign. */
        assert_true(error <= 2.5e-7 + 6 * sqrt((double)s->d / 6) * 0x1p-24);
        for (int i = 0; i < loops->wide; i++) {
            assert_true(s->K[i * (loops->wide + 1)] == 1.0F);
            for (int j = 0; j < i; j++) {
                assert_true(s->K[i * loops->wide + j] == s->K[j * loops->wide + i]);
            }
        }
    }
}

/* Accurate; symmetric to the bit; 1 for equal rows. */
static void test_values(void **state)
{
    for_each(*state, check_values);
}

static void check_alike(struct sample *s, const struct tile_loops *loops)
{
    struct rng rng = rng_new(7, RNG_TEST);
    fill(s, D_MAX, 1.0);
    for (int64_t i = 0; i < ROWS * s->ld; i++) {
        s->rows[i] = (float)((rng_uniform(&rng) < 0.5 ? 1.1 : -1.1) / D_MAX);
    }
    fix_rows(s, loops);
    pack(s, loops, loops->wide);
    compute(s, loops, loops->wide, loops->wide);
    const double error = worst(s, loops->wide, loops->wide);
    print_message("%.1e\n", error);
    assert_true(error <= 4e-6);
}

/* Features of two values, the same two for all: roundings do not add up over 2,048 of them. */
static void test_features_alike(void **state)
{
    for_each(*state, check_alike);
}

static void check_reach(struct sample *s, const struct tile_loops *loops)
{
    static const double sizes[] = {20.0, 80.0, 103.9, 104.1, 200.0, 1e6, 1e30};
    for (int c = 0; c < 7; c++) {
        fill(s, 5, 10.0);
        fix_rows(s, loops);
        for (int64_t k = 0; k < 5; k++) { /* of the panel alone; rows differ in their signs */
            for (int i = 0; i < ROWS; i++) {
                s->rows[i * s->ld + k] = (float)(i >> k & 1 ? -sizes[c] / 5 : sizes[c] / 5);
            }
        }
        pack(s, loops, loops->wide);
        compute(s, loops, loops->wide, 1);
        fill(s, 5, 10.0);
        for (int i = 0; i < loops->wide; i++) {
            double distance = 0.0;
            for (int64_t k = 0; k < 5; k++) {
                const double x = i >> k & 1 ? -sizes[c] / 5 : sizes[c] / 5;
                distance += fabs((double)(float)x - (double)s->rows[k]);
            }
            if (sizes[c] < 104.0) {
                assert_close(s->K[i], exp2(-distance), 2e-6);
            } else {
                assert_true(s->K[i] > 0.0F && s->K[i] < 0x1p-87F);
            }
        }
    }
}

/* Rows of the panel may be large: what is next to nothing stays so. */
static void test_reach(void **state)
{
    for_each(*state, check_reach);
}

static void check_powers(struct sample *s, const struct tile_loops *loops)
{
    const int lanes = loops->wide;
    double most = 0.0;
    s->d = 1;
    s->ld = 2;
    memset(s->fixed, 0, 2 * sizeof *s->fixed);
    for (int64_t n = 0; n < 120LL << 24; n += 2 * 1009 * lanes) {
        for (int i = 0; i < lanes; i++) {
            s->panel[i] = (int32_t)(n + 2 * 1009 * i);
            s->panel[lanes + i] = s->panel[i] / 2;
        }
        compute(s, loops, lanes, 1);
        for (int i = 0; i < lanes; i++) {
            const double value = exp2(-(double)s->panel[i] * 0x1p-24);
            most = fmax(most, fabs((double)s->K[i] - value) / value);
        }
    }
    print_message("%.2e\n", most);
    assert_true(most <= 1.5e-7);
}

/* What exp2.h says of powers. */
static void test_powers(void **state)
{
    for_each(*state, check_powers);
}

static int new_sample(void **state)
{
    *state = mem_aligned(1, sizeof(struct sample));
    return *state == NULL;
}

static int free_sample(void **state)
{
    mem_free(*state);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_sample, free_sample)
TEST_MAIN(TEST(test_numbers), TEST(test_values), TEST(test_features_alike), TEST(test_reach),
          TEST(test_powers))
