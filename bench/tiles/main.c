/*
 * krr-tiles: shares of the limit that the innermost loops reach by themselves (cpu/tile/tile.h),
 * panels and rows in the caches and nothing around them. A product cannot be faster; what it lacks
 * is packing, adding up and the memory. Each figure is the best of runs of a fraction of a
 * millisecond, as the ceilings are, so that it says something on a busy machine, too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/limit.h"
#include "cpu/sweep.h"

#define PANELS 4
#define ROWS 100000 /* of the product that the limit is of: memory does not decide */

struct loop {
    enum kernel_id kernel;
    enum dtype dtype;
    enum tile_use use;
    int cols, d;
};

/* Everything a tile reads and writes, in the type's layout. */
struct stage {
    struct tile_kernel kernel;
    int run, lanes;
    size_t panel_size;
    char *panels, *rows, *weights, *sums, *z_sums;
    const void *z[TILE_RUN + TILE_BLOCK];
};

/* Numbers so small that exponents are of order 1. */
static char *numbers(size_t count, const struct loop *l)
{
    struct rng rng = rng_new(1, RNG_TEST);
    const double scale = kernel_uses_l1(l->kernel) ? 1.0 / l->d : 1.0 / sqrt(l->d);
    char *out = mem_aligned(count, sizeof(double));
    for (size_t i = 0; out != NULL && i < count; i++) {
        const double value = scale * (rng_uniform(&rng) - 0.5);
        if (l->dtype == DTYPE_F32) {
            ((float *)(void *)out)[i] = (float)value;
        } else {
            ((double *)(void *)out)[i] = value;
        }
    }
    return out;
}

static void stage_deinit(struct stage *s)
{
    mem_free(s->panels);
    mem_free(s->rows);
    mem_free(s->weights);
    mem_free(s->sums);
    mem_free(s->z_sums);
}

/* Panels and rows become what the kernel takes. */
static bool turn_numbers(struct stage *s, const struct loop *l, const struct tile_loops *loops)
{
    const size_t size = ((size_t)l->d + 1) * dtype_size(l->dtype);
    char *rows = mem_aligned(TILE_RUN + TILE_BLOCK, size);
    for (size_t i = 0; i < PANELS; i++) {
        loops->turn_panel(&s->kernel, s->panels + i * s->panel_size, l->d, s->lanes);
    }
    for (int j = 0; rows != NULL && j < TILE_RUN + TILE_BLOCK; j++) {
        loops->turn_row(&s->kernel, s->z[j], l->d, rows + (size_t)j * size);
        s->z[j] = rows + (size_t)j * size;
    }
    mem_free(s->rows);
    s->rows = rows;
    return rows != NULL;
}

static bool stage_init(struct stage *s, const struct loop *l, const struct tile_loops *loops)
{
    const size_t ld = (size_t)l->d + 1, cols = (size_t)l->cols;
    const bool l1 = kernel_uses_l1(l->kernel);
    const bool powers = l1 && tile_has_powers(loops, l->d, true), others = l1 && !powers;
    const size_t lane_numbers = (TILE_RUN + TILE_LANES) * cols * PANELS;
    const size_t z_numbers = (TILE_RUN + TILE_BLOCK) * (size_t)tile_z_ld(l->cols);
    *s = (struct stage){
        .kernel = {.id = l->kernel,
                   .gamma = 1.0,
                   .degree = 2,
                   .by_max = others && !loops->fixes,
                   .by_fixed = others && loops->fixes,
                   .by_powers = powers,
                   .doubled = tile_doubles(loops, l->kernel),
                   .by_inner = tile_has_inner(loops, l->kernel, l->d),
                   .by_factor = loops->factors,
                   .nearest = 1.0, /* no sum is above 0 */
                   .pairs = tile_pairs(loops, l->kernel, l->d),
                   .panel_ahead = tile_panel_ahead(loops, l->d, dtype_size(l->dtype)),
                   .near = true},
        .run = sweep_run_length(l->use, (int64_t)ld * (int64_t)dtype_size(l->dtype), l->cols,
                                loops->step),
        .lanes = loops->wide,
        .panel_size = ld * (size_t)loops->wide * dtype_size(l->dtype),
        .panels = numbers(ld * TILE_LANES * PANELS, l),
        .rows = numbers(ld * (TILE_RUN + TILE_BLOCK), l),
        .weights = numbers(lane_numbers, l),
        .sums = mem_aligned(lane_numbers, sizeof(double)),
        .z_sums = mem_aligned(z_numbers, TILE_ALIGN),
    };
    if (s->panels == NULL || s->rows == NULL || s->weights == NULL || s->sums == NULL ||
        s->z_sums == NULL) {
        return false;
    }
    memset(s->sums, 0, lane_numbers * sizeof(double));
    memset(s->z_sums, 0, z_numbers * TILE_ALIGN);
    for (int j = 0; j < TILE_RUN + TILE_BLOCK; j++) {
        s->z[j] = s->rows + (size_t)j * ld * dtype_size(l->dtype);
    }
    return !tile_turns(&s->kernel) || turn_numbers(s, l, loops);
}

/* All panels against the run, once. Returns the seconds. */
static double run_once(const struct stage *s, const struct loop *l, const struct tile_loops *loops)
{
    const size_t step = (size_t)(l->cols * s->lanes) * dtype_size(l->dtype);
    const double began = clock_monotonic_s();
    for (size_t i = 0; i < PANELS; i++) {
        const struct tile t = {.kernel = &s->kernel,
                               .panel = s->panels + i * s->panel_size,
                               .z = s->z,
                               .d = l->d,
                               .count = s->run,
                               .cols = l->cols,
                               .z_ld = tile_z_ld(l->cols),
                               .z_weights = s->weights,
                               .x_sums = s->sums + i * step,
                               .x_weights = s->weights + i * step,
                               .z_sums = s->z_sums};
        loops->run(l->use, s->lanes, &t);
    }
    return clock_monotonic_s() - began;
}

/* Kernel values used a second: each counts twice when it serves both sides. */
static double best_rate(const struct stage *s, const struct loop *l, const struct tile_loops *loops,
                        double seconds)
{
    const double end = clock_monotonic_s() + seconds;
    double best = run_once(s, l, loops);
    while (clock_monotonic_s() < end) {
        best = fmin(best, run_once(s, l, loops));
    }
    return (l->use == TILE_BOTH ? 2.0 : 1.0) * PANELS * s->lanes * s->run / best;
}

static double share(const struct loop *l, const struct tile_isa *isa, const struct ceiling *ceiling,
                    double seconds)
{
    const struct tile_loops *loops = l->dtype == DTYPE_F32 ? &isa->f32 : &isa->f64;
    const struct limit_case c = {.kernel = l->kernel,
                                 .values = l->dtype,
                                 .vectors = l->dtype,
                                 .n = ROWS,
                                 .m = ROWS,
                                 .d = l->d,
                                 .rhs = l->cols,
                                 .symmetric = l->use == TILE_BOTH};
    struct stage s;
    const double rate = stage_init(&s, l, loops) ? best_rate(&s, l, loops, seconds) : NAN;
    stage_deinit(&s);
    return rate / limit_entries_per_s(&c, ceiling);
}

static void print_shares(const struct tile_isa *isa, const struct ceiling *ceiling, double seconds)
{
    static const enum kernel_id kernels[] = {KERNEL_GAUSSIAN, KERNEL_LAPLACIAN_L1, KERNEL_MATERN12,
                                             KERNEL_MATERN32, KERNEL_MATERN52};
    static const int dims[] = {3, 9, 18, 28, 90, 435};
    for (int i = 0; i < 5 * 8; i++) {
        struct loop l = {.kernel = kernels[i / 8],
                         .dtype = i & 4 ? DTYPE_F64 : DTYPE_F32,
                         .use = i & 1 ? TILE_BOTH : TILE_ROWS,
                         .cols = i & 2 ? 10 : 1};
        printf("%s %-12s %s t=%-2d %-9s", isa->name, kernel_name(l.kernel), dtype_name(l.dtype),
               l.cols, l.use == TILE_BOTH ? "symmetric" : "plain");
        for (int j = 0; j < 6; j++) {
            l.d = dims[j];
            printf("  %.3f", share(&l, isa, ceiling, seconds));
        }
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.1;
    struct err err = {0};
    if (argc > 3 || !(seconds > 0.0)) {
        fprintf(stderr, "usage: krr-tiles [ISA [SECONDS]]\n"
                        "Shares of the limit at d = 3 9 18 28 90 435, SECONDS (0.1) for each.\n");
        return 2;
    }
    const struct tile_isa *isa;
    for (int i = 0; (isa = tile_isa_list(i)) != NULL; i++) {
        if (argc > 1 && strcmp(isa->name, argv[1]) != 0) {
            continue;
        }
        struct ceiling ceiling;
        if (ceiling_measure(isa->name, 1, &ceiling, &err) < 0) {
            fprintf(stderr, "%s\n", err.detail);
            return 1;
        }
        print_shares(isa, &ceiling, seconds);
        return 0;
    }
    fprintf(stderr, "This processor has no instruction set %s.\n", argc > 1 ? argv[1] : "");
    return 1;
}
