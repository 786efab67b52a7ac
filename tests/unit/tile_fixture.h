/* Tiles of samples, and what kernel_eval says of their values. For test_cpu_tile*.c. */
#pragma once

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/tile/tile.h"
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
static inline void put_row(const struct sample *t, const double *row, int64_t step, float *to_f32,
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
static inline void sample_pack(struct sample *t)
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
static inline void sample_fill(struct sample *t, int lanes, int count, int64_t d, double scale)
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

static inline struct tile tile_of(const struct sample *t, const struct tile_kernel *k, bool f64)
{
    return (struct tile){.kernel = k,
                         .panel = f64 ? (const void *)t->panel_f64 : t->panel_f32,
                         .z = f64 ? t->rows_f64 : t->rows_f32,
                         .d = t->d,
                         .count = t->count,
                         .K = f64 ? (void *)t->K_f64 : (void *)t->K_f32};
}

static inline void compute_form(struct sample *t, const struct tile_isa *isa, bool f64,
                                enum kernel_id id, bool faster)
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

/* What numbers that sample_pack() takes are to be divided by. */
static inline double scale_of(const struct tile_loops *loops, enum kernel_id id)
{
    return tile_scale(loops, id) / (tile_doubles(loops, id) ? 2.0 : 1.0);
}

/* Rounding of the distance r makes an error of about r units in exp(-r), hence rtol. */
static inline void check_values(const struct sample *t, bool f64, enum kernel_id id, double rtol)
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
static inline void for_each_panel(struct sample *t,
                                  void (*check)(struct sample *, const struct tile_isa *, bool f64,
                                                int lanes))
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

static inline int new_tile(void **state)
{
    struct sample *t = mem_aligned(1, sizeof *t);
    *state = t;
    if (t != NULL) {
        t->norms = t->paired = t->doubled = false;
    }
    return t == NULL;
}

static inline int free_tile(void **state)
{
    mem_free(*state);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_tile, free_tile)
