/* The CPU's loops, every instruction set this machine can run, against kernel_eval. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/cpu_tile.h"
#include "support/assert.h"

#define D_MAX 20

/* A panel of `lanes` rows against `count` rows; numbers in both types. Each row ends with the sum
 * of its features, or with what `norms` says. */
struct sample {
    const struct tile_loops *loops; /* that computed K */
    bool norms, paired;             /* rows end with -|x|^2/2, less products of pairs */
    bool doubled;                   /* tile_kernel.doubled */
    int lanes, count;
    int64_t d;
    double x[TILE_LANES * D_MAX], z[TILE_RUN * D_MAX]; /* row-major, scaled */
    float panel_f32[TILE_LANES * (D_MAX + 1)] __attribute__((aligned(TILE_ALIGN)));
    double panel_f64[TILE_LANES * (D_MAX + 1)] __attribute__((aligned(TILE_ALIGN)));
    float z_f32[TILE_RUN * (D_MAX + 1)];
    double z_f64[TILE_RUN * (D_MAX + 1)];
    const void *rows_f32[TILE_RUN + TILE_BLOCK], *rows_f64[TILE_RUN + TILE_BLOCK];
    float K_f32[TILE_RUN * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    double K_f64[TILE_RUN * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
};

/* One row of t->d features, `step` numbers apart, and what it ends with. */
static void put_row(const struct sample *t, const double *row, int64_t step, float *to_f32,
                    double *to_f64)
{
    const int64_t d = t->d;
    double sum = 0.0, squares = 0.0;
    for (int64_t k = 0; t->paired && k + 2 < d; k += 3) {
        squares += 2.0 * row[k] * row[k + 1];
    }
    for (int64_t k = 0; k < d; k++) {
        to_f64[k * step] = row[k] * (t->doubled ? 2.0 : 1.0);
        to_f32[k * step] = (float)to_f64[k * step];
        sum += row[k];
        squares += row[k] * row[k];
    }
    to_f64[d * step] = t->norms ? -0.5 * squares : sum;
    to_f32[d * step] = (float)to_f64[d * step];
}

/* x and z where tiles read them. */
static void sample_pack(struct sample *t)
{
    const int64_t d = t->d;
    for (int i = 0; i < t->lanes; i++) {
        put_row(t, t->x + i * d, t->lanes, t->panel_f32 + i, t->panel_f64 + i);
    }
    for (int j = 0; j < TILE_RUN + TILE_BLOCK; j++) {
        const int64_t row = j % TILE_RUN;
        put_row(t, t->z + row * d, 1, t->z_f32 + row * (d + 1), t->z_f64 + row * (d + 1));
        t->rows_f32[j] = t->z_f32 + row * (d + 1);
        t->rows_f64[j] = t->z_f64 + row * (d + 1);
    }
}

/* Normal numbers times `scale`, representable in float32. */
static void sample_fill(struct sample *t, int lanes, int count, int64_t d, double scale)
{
    struct rng rng = rng_new((uint64_t)(lanes + count), RNG_TEST);
    t->lanes = lanes;
    t->count = count;
    t->d = d;
    for (int64_t i = 0; i < lanes * d; i++) {
        t->x[i] = (double)(float)(scale * rng_normal(&rng));
    }
    for (int64_t i = 0; i < TILE_RUN * d; i++) {
        t->z[i] = (double)(float)(scale * rng_normal(&rng));
    }
    sample_pack(t);
}

/* The loops of one type; K is then in the buffer of that type. */
static const struct tile_loops *loops_of(const struct tile_isa *isa, bool f64)
{
    return f64 ? &isa->f64 : &isa->f32;
}

static struct tile tile_of(const struct sample *t, const struct tile_kernel *k, bool f64)
{
    return (struct tile){.kernel = k,
                         .panel = f64 ? (const void *)t->panel_f64 : t->panel_f32,
                         .z = f64 ? t->rows_f64 : t->rows_f32,
                         .d = t->d,
                         .count = t->count,
                         .K = f64 ? (void *)t->K_f64 : (void *)t->K_f32};
}

static void compute_form(struct sample *t, const struct tile_isa *isa, bool f64, enum kernel_id id,
                         bool faster)
{
    const struct tile_kernel k = {.id = id,
                                  .gamma = 0.25,
                                  .coef0 = 0.5,
                                  .degree = 5,
                                  .by_max = faster,
                                  .doubled = t->doubled,
                                  .by_inner = faster,
                                  .pairs = t->paired ? t->d / 3 : 0};
    const struct tile tile = tile_of(t, &k, f64);
    t->loops = loops_of(isa, f64);
    t->loops->run(TILE_VALUES, t->lanes, &tile);
}

static void compute(struct sample *t, const struct tile_isa *isa, bool f64, enum kernel_id id)
{
    compute_form(t, isa, f64, id, false);
}

/* What numbers that sample_pack() takes are to be divided by. */
static double scale_of(const struct tile_loops *loops, enum kernel_id id)
{
    return tile_scale(loops, id) / (tile_doubles(loops, id) ? 2.0 : 1.0);
}

/* Rounding of the distance r makes an error of about r units in exp(-r), hence rtol. */
static void check_values(const struct sample *t, bool f64, enum kernel_id id, double rtol)
{
    const struct kernel k = {.id = id,
                             .d = t->d,
                             .bandwidth = scale_of(t->loops, id), /* undoes the scaling */
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
static void for_each_panel(struct sample *t, void (*check)(struct sample *, const struct tile_isa *,
                                                           bool f64, int lanes))
{
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        const struct tile_isa *isa = tile_isa_list(i);
        for (int f64 = 0; f64 < 2; f64++) {
            const struct tile_loops *loops = loops_of(isa, f64);
            print_message("%s %s: %d and %d lanes\n", isa->name, f64 ? "float64" : "float32",
                          loops->wide, loops->narrow);
            assert_true(loops->wide <= TILE_LANES);
            assert_int_equal(loops->wide % loops->narrow, 0);
            check(t, isa, f64, loops->wide);
            check(t, isa, f64, loops->narrow);
        }
    }
}

static void check_kernels(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const int counts[] = {1, 4, 7, TILE_RUN};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        for (int i = 0; i < 4; i++) {
            sample_fill(t, lanes, counts[i], 1 + 6 * i, 0.3);
            compute(t, isa, f64, (enum kernel_id)id);
            check_values(t, f64, (enum kernel_id)id, 10.0);
        }
    }
}

static void test_values(void **state)
{
    for_each_panel(*state, check_kernels);
}

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
 * (cpu/cpu_points.c): where features are equal their roundings are, too, and add up. */
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

/* From 1 down to nothing: exponents cross the smallest normal number, and go far beyond. */
static void check_underflow(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const double scales[] = {1e-3, 5.0, 20.0, 300.0, 1e10};
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        if (!kernel_uses_distance((enum kernel_id)id)) {
            continue;
        }
        for (int i = 0; i < 5; i++) {
            sample_fill(t, lanes, 8, 3, scales[i]);
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
static void check_sigmoid(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    const struct tile_kernel k = {.id = KERNEL_SIGMOID, .gamma = 1.0};
    for (double u = 1e-12; u < 1e12; u *= 1.7) {
        for (int i = 0; i < lanes; i++) {
            t->panel_f32[i] = (float)(i % 2 ? u : -u);
            t->panel_f64[i] = (double)t->panel_f32[i];
        }
        for (int j = 0; j < TILE_BLOCK; j++) {
            t->z_f64[j] = 1.0;
            t->z_f32[j] = 1.0F;
            t->rows_f32[j] = t->z_f32 + j;
            t->rows_f64[j] = t->z_f64 + j;
        }
        t->lanes = lanes;
        t->d = 1;
        t->count = 1;
        const struct tile tile = tile_of(t, &k, f64);
        loops_of(isa, f64)->run(TILE_VALUES, lanes, &tile);
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
static void check_nan(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    for (int id = 0; id < KERNEL_COUNT_; id++) {
        sample_fill(t, lanes, 4, 2, 1.0);
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

/* Numbers of either type in one buffer. */
union numbers {
    float f32[TILE_COLS * TILE_RUN];
    double f64[TILE_COLS * TILE_RUN];
} __attribute__((aligned(TILE_ALIGN)));

static void normal_numbers(union numbers *w, bool f64, double *copy, int n, struct rng *rng)
{
    for (int i = 0; i < n; i++) {
        copy[i] = (double)(float)rng_normal(rng);
        if (f64) {
            w->f64[i] = copy[i];
        } else {
            w->f32[i] = (float)copy[i];
        }
    }
}

/* Both sides' sums of one tile against K from the same loops. */
struct sums_case {
    const struct tile_isa *isa;
    enum kernel_id id;
    bool f64, weights_f64;
    int cols;
    enum tile_use use;
};

static void check_sums_case(struct sample *t, const struct sums_case *m)
{
    static union numbers w, x, x_sums;
    static char z_sums[(TILE_RUN + TILE_BLOCK) * TILE_COLS * TILE_ALIGN]
        __attribute__((aligned(TILE_ALIGN)));
    static double w_copy[TILE_COLS * TILE_RUN], x_copy[TILE_COLS * TILE_LANES];
    double x_totals[TILE_COLS * TILE_LANES] = {0}, z_totals[TILE_COLS * TILE_RUN] = {0};
    struct rng rng = rng_new(3, RNG_TEST);
    normal_numbers(&w, m->weights_f64, w_copy, m->cols * TILE_RUN, &rng);
    normal_numbers(&x, m->weights_f64, x_copy, m->cols * t->lanes, &rng);
    for (int c = 0; c < m->cols; c++) { /* spare rows have no weight */
        for (int j = t->count; j < TILE_RUN; j++) {
            w_copy[c * TILE_RUN + j] = 0.0;
            if (m->weights_f64) {
                w.f64[c * TILE_RUN + j] = 0.0;
            } else {
                w.f32[c * TILE_RUN + j] = 0.0F;
            }
        }
    }
    const struct tile_kernel k = {.id = m->id};
    struct tile tile = tile_of(t, &k, m->f64);
    tile.cols = m->cols;
    tile.z_weights = &w;
    tile.x_weights = &x;
    tile.x_sums = &x_sums;
    tile.z_sums = z_sums;
    const struct tile_loops *loops = loops_of(m->isa, m->f64);
    const struct tile_loops *sums = loops_of(m->isa, m->weights_f64);
    loops->run(TILE_VALUES, t->lanes, &tile);
    static float factors_f32[TILE_RUN + TILE_ALIGN];
    static double factors_f64[TILE_RUN + TILE_ALIGN];
    for (int j = 0; j < TILE_RUN; j++) {
        factors_f64[j] = 1.0 + j / 8.0;
        factors_f32[j] = (float)factors_f64[j];
    }
    const void *factors = m->weights_f64 ? (const void *)factors_f64 : factors_f32;
    /* Twice, to see that drain and fold leave nothing behind; the second time with factors. */
    for (int pass = 0; pass < 2; pass++) {
        (m->weights_f64 ? loops->run_f64 : loops->run)(m->use, t->lanes, &tile);
        sums->drain(&x_sums, t->lanes, m->cols, x_totals, t->lanes);
        sums->fold(z_sums, pass > 0 ? factors : NULL, t->count, m->cols, z_totals, TILE_RUN);
    }
    const double rtol = m->weights_f64 ? 1e-13 : 4e-6;
    for (int c = 0; c < m->cols; c++) {
        double z_sum[TILE_RUN] = {0}, z_size[TILE_RUN] = {0};
        for (int i = 0; i < t->lanes; i++) {
            double sum = 0.0, size = 0.0;
            for (int j = 0; j < t->count; j++) {
                const int at = j * t->lanes + i;
                const double value = m->f64 ? t->K_f64[at] : (double)t->K_f32[at];
                const double a = value * w_copy[c * TILE_RUN + j];
                const double b = value * x_copy[c * t->lanes + i];
                sum += a;
                size += fabs(a);
                z_sum[j] += b;
                z_size[j] += fabs(b);
            }
            const double expected = m->use != TILE_COLUMNS ? 2.0 * sum : 0.0;
            assert_near(x_totals[c * t->lanes + i], expected, rtol * size);
        }
        for (int j = 0; j < t->count; j++) {
            const double times = m->use != TILE_ROWS ? 1.0 + factors_f64[j] : 0.0;
            assert_near(z_totals[c * TILE_RUN + j], times * z_sum[j], rtol * times * z_size[j]);
        }
    }
}

static void check_sums(struct sample *t, const struct tile_isa *isa, bool f64, int lanes)
{
    static const int cols[] = {1, 3, 4, 9, TILE_COLS};
    sample_fill(t, lanes, 61, 3, 0.3);
    for (int i = 0; i < 10; i++) { /* roots are taken beside sums, too */
        struct sums_case m = {.isa = isa,
                              .id = i < 5 ? KERNEL_GAUSSIAN : KERNEL_MATERN32,
                              .f64 = f64,
                              .weights_f64 = f64,
                              .cols = cols[i % 5],
                              .use = TILE_ROWS};
        check_sums_case(t, &m);
        m.weights_f64 = true;
        check_sums_case(t, &m);
        /* Wide panels alone serve the other side. */
        const bool wide = lanes == loops_of(isa, f64)->wide;
        for (m.use = TILE_BOTH; wide && m.use <= TILE_COLUMNS; m.use++) {
            m.weights_f64 = true;
            check_sums_case(t, &m);
            m.weights_f64 = f64;
            check_sums_case(t, &m);
        }
    }
}

static void test_sums(void **state)
{
    for_each_panel(*state, check_sums);
}

static int new_tile(void **state)
{
    struct sample *t = mem_aligned(1, sizeof *t);
    *state = t;
    if (t != NULL) {
        t->norms = t->paired = t->doubled = false;
    }
    return t == NULL;
}

static int free_tile(void **state)
{
    mem_free(*state);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_tile, free_tile)
TEST_MAIN(TEST(test_values), TEST(test_by_max), TEST(test_doubled), TEST(test_by_inner),
          TEST(test_by_factor), TEST(test_mended), TEST(test_at_limit), TEST(test_near),
          TEST(test_underflow), TEST(test_sigmoid), TEST(test_nan), TEST(test_sums))
