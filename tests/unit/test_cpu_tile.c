/* The CPU's loops, every instruction set this machine can run: values by kernel_eval, and sums. */
#include <math.h>
#include <string.h>

#include "tile_fixture.h"

static void compute(struct sample *t, const struct tile_isa *isa, bool f64, enum kernel_id id)
{
    compute_form(t, isa, f64, id, false);
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

struct sums {
    union numbers w, x, x_sums;
    char z_sums[(TILE_RUN + TILE_BLOCK) * (TILE_COLS + 1) * TILE_ALIGN]
        __attribute__((aligned(TILE_ALIGN)));
    float factors_f32[TILE_RUN + TILE_ALIGN];
    double factors_f64[TILE_RUN + TILE_ALIGN];
    double w_copy[TILE_COLS * TILE_RUN], x_copy[TILE_COLS * TILE_LANES];
    double x_totals[TILE_COLS * TILE_LANES], z_totals[TILE_COLS * TILE_RUN];
};

/* Spare rows have no weight. */
static void fill_weights(struct sums *s, const struct sample *t, const struct sums_case *m)
{
    struct rng rng = rng_new(3, RNG_TEST);
    normal_numbers(&s->w, m->weights_f64, s->w_copy, m->cols * TILE_RUN, &rng);
    normal_numbers(&s->x, m->weights_f64, s->x_copy, m->cols * t->lanes, &rng);
    for (int c = 0; c < m->cols; c++) {
        for (int j = t->count; j < TILE_RUN; j++) {
            s->w_copy[c * TILE_RUN + j] = 0.0;
            if (m->weights_f64) {
                s->w.f64[c * TILE_RUN + j] = 0.0;
            } else {
                s->w.f32[c * TILE_RUN + j] = 0.0F;
            }
        }
    }
}

static void fill_factors(struct sums *s)
{
    for (int j = 0; j < TILE_RUN; j++) {
        s->factors_f64[j] = 1.0 + j / 8.0;
        s->factors_f32[j] = (float)s->factors_f64[j];
    }
}

/* Twice, to see that drain and fold leave nothing behind; the second time with factors. */
static void sum_twice(struct sums *s, struct sample *t, const struct sums_case *m)
{
    const struct tile_kernel k = {.id = m->id};
    struct tile tile = tile_of(t, &k, m->f64);
    tile.cols = m->cols;
    tile.z_ld = tile_z_ld(m->cols);
    tile.z_weights = &s->w;
    tile.x_weights = &s->x;
    tile.x_sums = &s->x_sums;
    tile.z_sums = s->z_sums;
    const struct tile_loops *loops = loops_of(m->isa, m->f64);
    const struct tile_loops *sums = loops_of(m->isa, m->weights_f64);
    const void *factors = m->weights_f64 ? (const void *)s->factors_f64 : s->factors_f32;
    memset(s->x_totals, 0, sizeof s->x_totals);
    memset(s->z_totals, 0, sizeof s->z_totals);
    loops->run(TILE_VALUES, t->lanes, &tile);
    for (int pass = 0; pass < 2; pass++) {
        (m->weights_f64 ? loops->run_f64 : loops->run)(m->use, t->lanes, &tile);
        sums->drain(&s->x_sums, t->lanes, m->cols, s->x_totals, t->lanes);
        sums->fold(s->z_sums, pass > 0 ? factors : NULL, t->count, m->cols, s->z_totals, TILE_RUN);
    }
}

static void check_column(const struct sums *s, const struct sample *t, const struct sums_case *m,
                         int c)
{
    const double rtol = m->weights_f64 ? 1e-13 : 4e-6;
    double z_sum[TILE_RUN] = {0}, z_size[TILE_RUN] = {0};
    for (int i = 0; i < t->lanes; i++) {
        double sum = 0.0, size = 0.0;
        for (int j = 0; j < t->count; j++) {
            const int at = j * t->lanes + i;
            const double value = m->f64 ? t->K_f64[at] : (double)t->K_f32[at];
            const double a = value * s->w_copy[c * TILE_RUN + j];
            const double b = value * s->x_copy[c * t->lanes + i];
            sum += a;
            size += fabs(a);
            z_sum[j] += b;
            z_size[j] += fabs(b);
        }
        const double expected = m->use != TILE_COLUMNS ? 2.0 * sum : 0.0;
        assert_near(s->x_totals[c * t->lanes + i], expected, rtol * size);
    }
    for (int j = 0; j < t->count; j++) {
        const double times = m->use != TILE_ROWS ? 1.0 + s->factors_f64[j] : 0.0;
        assert_near(s->z_totals[c * TILE_RUN + j], times * z_sum[j], rtol * times * z_size[j]);
    }
}

static void check_sums_case(struct sample *t, const struct sums_case *m)
{
    static struct sums s;
    fill_weights(&s, t, m);
    fill_factors(&s);
    sum_twice(&s, t, m);
    for (int c = 0; c < m->cols; c++) {
        check_column(&s, t, m, c);
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

TEST_MAIN(TEST(test_values), TEST(test_underflow), TEST(test_sigmoid), TEST(test_nan),
          TEST(test_sums))
