/* |x - z|_1 by powers (tile_kernel.by_powers), of each instruction set and type. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/tile/tile.h"
#include "support/assert.h"

#define ROWS TILE_LANES
#define D_MAX 2048
#define LD_MAX (D_MAX + 1)

/* Rows, and what the loops take of them, numbers of the type. A panel has the first `lanes` rows.
 */
struct sample {
    const struct tile_loops *loops;
    bool f64;
    int64_t d, ld;
    double rows[ROWS * LD_MAX];
    double packed[ROWS * LD_MAX], turned[ROWS * LD_MAX];
    double panel[ROWS * LD_MAX] __attribute__((aligned(TILE_ALIGN)));
    double K[TILE_RUN * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
};

static const struct tile_kernel kernel = {.id = KERNEL_LAPLACIAN_L1, .by_powers = true};
static const struct tile_kernel doubled = {
    .id = KERNEL_LAPLACIAN_L1, .by_powers = true, .doubled = true};

/* Calls check for the loops of either type. */
static void for_each(struct sample *s, void (*check)(struct sample *))
{
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        for (int f64 = 0; f64 < 2; f64++) {
            s->f64 = f64 > 0;
            s->loops = s->f64 ? &tile_isa_list(i)->f64 : &tile_isa_list(i)->f32;
            print_message("%s %s\n", tile_isa_list(i)->name, s->f64 ? "float64" : "float32");
            check(s);
        }
    }
}

static size_t number_size(const struct sample *s)
{
    return s->f64 ? sizeof(double) : sizeof(float);
}

static double number_at(const struct sample *s, const double *numbers, int64_t i)
{
    return s->f64 ? numbers[i] : (double)((const float *)numbers)[i];
}

/* What the type makes of x. */
static double rounded(const struct sample *s, double x)
{
    return s->f64 ? x : (double)(float)x;
}

static double epsilon(const struct sample *s)
{
    return s->f64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

/* Rows of |x|_1 near `size`. */
static void fill(struct sample *s, int64_t d, double size)
{
    struct rng rng = rng_new((uint64_t)d, RNG_TEST);
    s->d = d;
    s->ld = d + 1;
    for (int64_t i = 0; i < ROWS * s->ld; i++) {
        s->rows[i] = rounded(s, 1.2 * size / (double)(d + 1) * rng_normal(&rng));
    }
}

static const void *row_of(const struct sample *s, const double *rows, int64_t i)
{
    return (const char *)rows + (size_t)(i * s->ld) * number_size(s);
}

static void pack_by(struct sample *s, const struct tile_kernel *k, int lanes)
{
    const void *rows[ROWS];
    for (int64_t i = 0; i < ROWS * s->ld; i++) {
        if (s->f64) {
            s->packed[i] = s->rows[i];
        } else {
            ((float *)s->packed)[i] = (float)s->rows[i];
        }
    }
    for (int i = 0; i < lanes; i++) {
        rows[i] = row_of(s, s->packed, i);
    }
    s->loops->pack(rows, s->ld, lanes, s->panel);
    s->loops->turn_panel(k, s->panel, s->d, lanes);
}

static void pack(struct sample *s, int lanes)
{
    pack_by(s, &kernel, lanes);
}

/* All rows, as pack() left them. */
static void turn_rows(struct sample *s)
{
    for (int i = 0; i < ROWS; i++) {
        char *to = (char *)s->turned + (size_t)(i * s->ld) * number_size(s);
        s->loops->turn_row(&kernel, row_of(s, s->packed, i), s->d, to);
    }
}

/* K(j, i): rows i of the panel against `count` rows j. */
static void compute(struct sample *s, int lanes, int count)
{
    const void *z[ROWS + TILE_BLOCK];
    for (int j = 0; j < count + TILE_BLOCK; j++) {
        z[j] = row_of(s, s->turned, j < count ? j : 0);
    }
    s->loops->run(
        TILE_VALUES, lanes,
        &(struct tile){
            .kernel = &kernel, .panel = s->panel, .z = z, .d = s->d, .count = count, .K = s->K});
}

static double distance(const struct sample *s, int i, int j)
{
    long double sum = 0.0L;
    for (int64_t k = 0; k < s->d; k++) {
        sum += fabsl((long double)s->rows[i * s->ld + k] - (long double)s->rows[j * s->ld + k]);
    }
    return (double)sum;
}

/* The largest error of a value, relative to it. */
static double worst(const struct sample *s, int lanes, int count)
{
    double most = 0.0;
    for (int i = 0; i < lanes; i++) {
        for (int j = 0; j < count; j++) {
            const double value = exp2(-distance(s, i, j));
            most = fmax(most, fabs(number_at(s, s->K, j * lanes + i) - value) / value);
        }
    }
    return most;
}

static void check_numbers(struct sample *s)
{
    for (int64_t d = 0; d < 40; d++) {
        fill(s, d, 10.0);
        for (int i = 0; i < 2; i++) {
            const int lanes = i == 0 ? s->loops->narrow : s->loops->wide;
            pack(s, lanes);
            turn_rows(s);
            for (int r = 0; r < lanes; r++) {
                double product = 1.0;
                for (int64_t k = 0; k < s->ld; k++) {
                    const double number = number_at(s, s->turned, r * s->ld + k);
                    assert_same_bits(number_at(s, s->panel, k * lanes + r), number);
                    product *= k < d ? number : 1.0;
                }
                const double end = number_at(s, s->turned, r * s->ld + d);
                const double least = s->f64 ? 20.0 * DBL_EPSILON : 0.6 * (double)FLT_EPSILON;
                assert_near(end * sqrt(product), 1.0, least);
            }
        }
    }
}

/* A row is the same numbers alone and in a panel, and they end with one over the root of their
 * product, of what was rounded. */
static void test_numbers(void **state)
{
    for_each(*state, check_numbers);
}

/* Of rows that are doubled the numbers are the same. */
static void check_doubled(struct sample *s)
{
    const int lanes = s->loops->wide;
    fill(s, 19, 10.0);
    pack(s, lanes);
    turn_rows(s);
    const size_t panel_size = (size_t)(lanes * s->ld) * number_size(s);
    cleanup_mem char *expected = mem_alloc(panel_size);
    memcpy(expected, s->panel, panel_size);
    for (int64_t i = 0; i < ROWS * s->ld; i++) {
        s->rows[i] *= 2.0;
    }
    pack_by(s, &doubled, lanes);
    assert_memory_equal(s->panel, expected, panel_size);
    for (int i = 0; i < ROWS; i++) {
        double row[LD_MAX];
        s->loops->turn_row(&doubled, row_of(s, s->packed, i), s->d, row);
        assert_memory_equal(row, row_of(s, s->turned, i), (size_t)s->ld * number_size(s));
    }
}

static void test_doubled(void **state)
{
    for_each(*state, check_doubled);
}

static void check_values(struct sample *s)
{
    static const int64_t dims[] = {1, 2, 3, 7, 8, 9, 64, 435, D_MAX};
    static const double sizes[] = {1e-6, 0.01, 1.0, 6.0};
    const int lanes = s->loops->wide;
    for (int c = 0; c < 9 * 4; c++) {
        fill(s, dims[c / 4], sizes[c % 4]);
        pack(s, lanes);
        turn_rows(s);
        compute(s, lanes, lanes);
        const double error = worst(s, lanes, lanes), d = (double)s->d;
        if (c % 4 == 2) {
            print_message("d = %lld: %.1e\n", (long long)s->d, error);
        }
        /* A product and a power a feature are rounded, not all to one side; the distance of what is
         * expected, too, with its size. */
        assert_true(error <= epsilon(s) * (1.0 + 2.0 * sqrt(d) + (s->f64 ? sizes[c % 4] : 0.0)));
        for (int i = 0; i < lanes; i++) {
            assert_near(number_at(s, s->K, i * (lanes + 1)), 1.0, epsilon(s) * (1 + sqrt(d)));
            for (int j = 0; j < i; j++) {
                assert_same_bits(number_at(s, s->K, i * lanes + j),
                                 number_at(s, s->K, j * lanes + i));
            }
        }
    }
}

/* Accurate; symmetric to the bit; next to 1 for equal rows. */
static void test_values(void **state)
{
    for_each(*state, check_values);
}

static void check_alike(struct sample *s)
{
    struct rng rng = rng_new(7, RNG_TEST);
    fill(s, D_MAX, 1.0);
    for (int64_t i = 0; i < ROWS * s->ld; i++) {
        s->rows[i] = rounded(s, (rng_uniform(&rng) < 0.5 ? 1.1 : -1.1) / D_MAX);
    }
    pack(s, s->loops->wide);
    turn_rows(s);
    compute(s, s->loops->wide, s->loops->wide);
    const double error = worst(s, s->loops->wide, s->loops->wide);
    print_message("%.1e\n", error);
    assert_true(error <= epsilon(s) * 100);
}

/* Features of two values, the same two for all: roundings do not add up over 2,048 of them. */
static void test_features_alike(void **state)
{
    for_each(*state, check_alike);
}

/* Rows of the panel that differ in their signs, of |x|_1 = size: in all features or in one. */
static void enlarge(struct sample *s, double size, bool one)
{
    for (int i = 0; i < ROWS; i++) {
        for (int64_t k = 0; k < 5; k++) {
            const double part = !one ? size / 5 : k == i % 5 ? size : 0.0;
            s->rows[i * s->ld + k] = rounded(s, i >> k & 1 ? -part : part);
        }
    }
}

/* Lane i's value and what it should be: rows[..] has x, `z` the other row. */
static void check_large(const struct sample *s, const double *z, int i, double size)
{
    const bool within = size <= (s->f64 ? TILE_TURNED_REACH_F64 : (double)TILE_TURNED_REACH_F32);
    const double value = number_at(s, s->K, i);
    long double apart = 0.0L;
    for (int64_t k = 0; k < 5; k++) {
        apart += fabsl((long double)s->rows[i * s->ld + k] - (long double)z[k]);
    }
    const double expected = exp2(-(double)apart);
    if (within) {
        assert_near(value, expected, (10.0 + 0.4 * size) * epsilon(s) * expected);
    } else {
        assert_true(value == 0.0 && expected < (s->f64 ? 0x1p-240 : 0x1p-80));
    }
}

static void check_reach(struct sample *s)
{
    const double reach = s->f64 ? TILE_TURNED_REACH_F64 : (double)TILE_TURNED_REACH_F32;
    const double most = s->f64 ? 1e300 : 1e30;
    const double sizes[] = {0.2 * reach,   0.6 * reach, 0.8 * reach, 0.999 * reach,
                            1.001 * reach, 2.0 * reach, 1e6,         most};
    for (int c = 0; c < 16; c++) {
        double z[5];
        fill(s, 5, 10.0);
        pack(s, s->loops->wide);
        turn_rows(s); /* the panel alone is large */
        memcpy(z, s->rows, sizeof z);
        enlarge(s, sizes[c / 2], c % 2 > 0);
        pack(s, s->loops->wide);
        compute(s, s->loops->wide, 1);
        for (int i = 0; i < s->loops->wide; i++) {
            check_large(s, z, i, sizes[c / 2]);
        }
    }
}

/* Rows of the panel may be large: values are what they are, or next to nothing and 0. */
static void test_reach(void **state)
{
    for_each(*state, check_reach);
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
TEST_MAIN(TEST(test_numbers), TEST(test_doubled), TEST(test_values), TEST(test_features_alike),
          TEST(test_reach))
