/* The faster forms of the CPU's loops, by maxima, inner products, factors and the like, every
 * instruction set this machine can run. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tile_fixture.h"

/* The faster form of a kernel: accurate for small numbers, symmetric, and near 1 for equal rows. */
static void check_faster(struct sample *t, const struct tile_isa *isa, bool f64, int lanes,
                         enum kernel_id id)
{
    for (int64_t d = 1; d <= D_MAX; d += 4) {
        sample_fill(t, lanes, lanes, d, 0.3);
        compute_form(t, isa, f64, id, true);
        check_values(t, f64, id, 10.0);
        for (int i = 0; i < lanes; i++) {
            put_row(t, t->x + i * d, 1, t->z_f32 + i * (d + 1), t->z_f64 + i * (d + 1));
        }
        compute_form(t, isa, f64, id, true);
        for (int i = 0; i < lanes; i++) {
            for (int j = 0; j < lanes; j++) {
                const int at = i * lanes + j, mirror = j * lanes + i;
                assert_true(f64 ? t->K_f64[at] == t->K_f64[mirror]
                                : t->K_f32[at] == t->K_f32[mirror]);
            }
            const double one = f64 ? t->K_f64[i * (lanes + 1)] : (double)t->K_f32[i * (lanes + 1)];
            assert_near(one, 1.0, f64 ? 3e-15 : 1.5e-6);
        }
    }
}

static void check_by_max(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    if (!loops_of(isa, f64)->fixes) {
        check_faster(t, isa, f64, lanes, KERNEL_LAPLACIAN_L1);
    }
}

static void check_by_inner(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    t->norms = true;
    for (int i = 0; i <= (loops_of(isa, f64)->pairs_from > 0); i++) {
        t->paired = i > 0;
        check_faster(t, isa, f64, lanes, KERNEL_GAUSSIAN);
        check_faster(t, isa, f64, lanes, KERNEL_MATERN32);
        check_faster(t, isa, f64, lanes, KERNEL_MATERN52);
    }
    t->norms = t->paired = false;
}

/* Kernels with a slope at 0: rows that are the same, next to it, near, and others. Pairs nearer
 * than 0.25 count as near, whose sums are made anew; the others are as they would be without. */
static void check_mended(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    const struct tile_loops *loops = loops_of(isa, f64);
    const double apart[] = {0.0, 1e-6, 1e-3, 0.1};
    const double least = 0.25 * loops->scale_root;
    const struct tile_kernel k = {
        .id = KERNEL_MATERN12, .by_inner = true, .nearest = -0.5 * least * least};
    t->norms = true;
    for (int64_t d = 1; loops->mends && d <= D_MAX; d += 6) {
        sample_fill(t, lanes, TILE_RUN, d, 0.6);
        for (int j = 0; j < TILE_RUN; j += 3) {
            for (int64_t f = 0; f < d; f++) {
                t->z[j * d + f] = (double)(float)(t->x[j % lanes * d + f] + apart[j % 4]);
            }
        }
        sample_pack(t);
        const struct tile tile = tile_of(t, &k, f64);
        t->loops = loops;
        loops->run(TILE_VALUES, lanes, &tile);
        check_values(t, f64, KERNEL_MATERN12, 20.0);
        for (int j = 0; j < TILE_RUN; j += 12) {
            const int at = j * lanes + j % lanes;
            assert_same_bits(f64 ? t->K_f64[at] : (double)t->K_f32[at], 1.0);
        }
    }
    t->norms = false;
}

/* Values less the factor of z, which is 2 to the power of what its row ends with. */
static void check_by_factor(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static double values[TILE_RUN * TILE_LANES];
    const struct tile_loops *loops = loops_of(isa, f64);
    struct tile_kernel k = {.id = KERNEL_GAUSSIAN, .by_inner = true};
    const struct tile tile = tile_of(t, &k, f64);
    t->norms = true;
    for (int64_t d = 1; loops->factors && d <= D_MAX; d += 6) {
        struct tile whole = tile;
        sample_fill(t, lanes, TILE_RUN, d, 0.6);
        whole.d = d;
        whole.count = TILE_RUN;
        for (int pass = 0; pass < 2; pass++) {
            k.by_factor = pass > 0;
            loops->run(TILE_VALUES, lanes, &whole);
            for (int at = 0; at < TILE_RUN * lanes; at++) {
                const double value = f64 ? t->K_f64[at] : (double)t->K_f32[at];
                const double factor = exp2(t->z_f64[at / lanes * (d + 1) + d]);
                values[at] = pass == 0 ? value : values[at] - value * factor;
            }
        }
        for (int at = 0; at < TILE_RUN * lanes; at++) {
            assert_near(values[at], 0.0, f64 ? 1e-14 : 2e-6);
        }
    }
    t->norms = false;
}

static void test_by_factor(void **state)
{
    for_each_panel(*state, check_by_factor);
}

static void test_mended(void **state)
{
    for_each_panel(*state, check_mended);
}

static void test_by_max(void **state)
{
    for_each_panel(*state, check_by_max);
}

static void test_by_inner(void **state)
{
    for_each_panel(*state, check_by_inner);
}

/* Each row's norm is `norm` or a little less; features of one row are normal, positive, or equal.
 */
static void place_at(struct sample *t, double *rows, int count, int kind, double norm)
{
    for (int i = 0; i < count; i++) {
        double *row = rows + i * t->d, squares = 0.0;
        for (int64_t k = 0; k < t->d; k++) {
            row[k] = kind == 2 ? 1.0 : kind == 1 ? fabs(row[k]) : row[k];
            squares += row[k] * row[k];
        }
        for (int64_t k = 0; k < t->d; k++) {
            row[k] = (double)(float)(row[k] * norm * (1.0 - 0.013 * (i % 16)) / sqrt(squares));
        }
    }
}

/* The largest error of a value, of rows of a kind as far from the origin as they may be. */
static double worst_at_limit(struct sample *t, const struct tile_isa *isa, bool f64, int lanes,
                             enum kernel_id id, int64_t d, int kind)
{
    const struct tile_loops *loops = loops_of(isa, f64);
    const double scale = id == KERNEL_GAUSSIAN ? loops->scale_gaussian : loops->scale_root;
    const double squares = (t->paired ? 0.6 : 1.0) * kernel_inner_limit(id, d);
    sample_fill(t, lanes, TILE_RUN, d, 1.0);
    place_at(t, t->x, lanes, kind, scale * sqrt(squares / 2));
    for (int64_t k = 0; k < TILE_RUN * d; k++) { /* the same rows, nothing hides them */
        t->z[k] = t->x[k % (lanes * d)];
    }
    sample_pack(t);
    compute_form(t, isa, f64, id, true);
    const struct kernel k = {.id = id, .d = d, .bandwidth = tile_scale(loops, id)};
    double worst = 0.0;
    for (int at = 0; at < lanes * TILE_RUN; at++) {
        const double value = kernel_eval(&k, t->x + at % lanes * d, t->z + at / lanes * d);
        worst = fmax(worst, fabs((f64 ? t->K_f64[at] : (double)t->K_f32[at]) - value));
    }
    print_message("%s d = %d, %d%s: %.1e\n", kernel_name(id), (int)d, kind,
                  t->paired ? " pairs" : "", worst);
    return worst;
}

/* As far from the origin as rows may be that take inner products, or products of pairs
 * (cpu/points.c): where features are equal their roundings are, too, and add up. */
static void check_at_limit(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const enum kernel_id ids[] = {KERNEL_GAUSSIAN, KERNEL_MATERN32, KERNEL_MATERN52};
    static const double most[] = {4e-6, 5e-6, 6e-6};
    t->norms = true;
    for (int i = 0; i < (loops_of(isa, f64)->pairs_from > 0 ? 18 : 9); i++) {
        t->paired = i >= 9;
        const double worst = worst_at_limit(t, isa, f64, lanes, ids[i % 3], 18, i / 3 % 3);
        assert_true(worst <= most[i / 3 % 3] * (f64 ? 0x1p-28 : 1.0));
    }
    t->paired = loops_of(isa, f64)->pairs_from > 0;
    for (int i = 0; i < 9; i++) { /* three to five features */
        const double worst = worst_at_limit(t, isa, f64, lanes, KERNEL_GAUSSIAN, 3 + i / 3, i % 3);
        assert_true(worst <= most[i % 3] * (f64 ? 0x1p-28 : 1.0));
    }
    t->norms = t->paired = false;
}

static void test_at_limit(void **state)
{
    for_each_panel(*state, check_at_limit);
}

static size_t values_size(const struct sample *t, bool f64)
{
    return (size_t)(t->count * t->lanes) * (f64 ? sizeof(double) : sizeof(float));
}

/* K's values, which are zeros then. */
static char *take_values(struct sample *t, bool f64)
{
    void *K = f64 ? (void *)t->K_f64 : (void *)t->K_f32;
    const size_t size = values_size(t, f64);
    char *copy = mem_aligned(size, 1);
    assert_non_null(copy);
    memcpy(copy, K, size);
    memset(K, 0, size);
    return copy;
}

static void assert_same_values(const struct sample *t, bool f64, const char *expected)
{
    const void *K = f64 ? (const void *)t->K_f64 : (const void *)t->K_f32;
    assert_memory_equal(K, expected, values_size(t, f64));
}

/* laplacian_l1's points doubled: the same bits, by maxima and by differences. */
static void check_doubled(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    for (int i = 0; loops_of(isa, f64)->doubles && i < 8; i++) {
        sample_fill(t, lanes, TILE_RUN, 1 + 6 * (i / 2), 0.3);
        compute_form(t, isa, f64, KERNEL_LAPLACIAN_L1, i % 2 > 0);
        cleanup_mem char *expected = take_values(t, f64);
        t->doubled = true;
        sample_pack(t);
        compute_form(t, isa, f64, KERNEL_LAPLACIAN_L1, i % 2 > 0);
        t->doubled = false;
        assert_same_values(t, f64, expected);
        check_values(t, f64, KERNEL_LAPLACIAN_L1, 10.0);
    }
}

static void test_doubled(void **state)
{
    for_each_panel(*state, check_doubled);
}

/* Where all exponents are those of normal numbers the loops that rely on it give the same bits. */
static void check_near_form(struct sample *t, const struct tile_isa *isa, bool f64, int lanes,
                            enum kernel_id id, bool faster)
{
    t->norms = faster && !kernel_uses_l1(id);
    sample_fill(t, lanes, TILE_RUN, 9, 0.9);
    t->norms = false;
    struct tile_kernel k = {.id = id, .by_max = faster, .by_inner = faster};
    const struct tile tile = tile_of(t, &k, f64);
    t->loops = loops_of(isa, f64);
    t->loops->run(TILE_VALUES, lanes, &tile);
    cleanup_mem char *expected = take_values(t, f64);
    k.near = true;
    t->loops->run(TILE_VALUES, lanes, &tile);
    assert_same_values(t, f64, expected);
    check_values(t, f64, k.id, 100.0);
}

static void check_near(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    check_near_form(t, isa, f64, lanes, KERNEL_GAUSSIAN, false);
    if (!loops_of(isa, f64)->fixes) {
        check_near_form(t, isa, f64, lanes, KERNEL_LAPLACIAN_L1, true);
    }
    check_near_form(t, isa, f64, lanes, KERNEL_MATERN12, false);
    check_near_form(t, isa, f64, lanes, KERNEL_MATERN32, false);
    check_near_form(t, isa, f64, lanes, KERNEL_MATERN52, false);
    check_near_form(t, isa, f64, lanes, KERNEL_GAUSSIAN, true);
    check_near_form(t, isa, f64, lanes, KERNEL_MATERN32, true);
    check_near_form(t, isa, f64, lanes, KERNEL_MATERN52, true);
}

static void test_near(void **state)
{
    for_each_panel(*state, check_near);
}

TEST_MAIN(TEST(test_by_max), TEST(test_doubled), TEST(test_by_inner), TEST(test_by_factor),
          TEST(test_mended), TEST(test_at_limit), TEST(test_near))
