/*
 * One instruction set's loops. The build compiles this file once for each, with its own machine
 * flags and with
 *
 *   TILE_ISA        its name
 *   TILE_LEAF       the file of its own operations
 *   TILE_VEC_BYTES  bytes of a vector register
 *   TILE_WIDE       vectors in a wide panel
 *   TILE_STEP       z rows in a block; TILE_WIDE * TILE_STEP sums must fit the registers
 *   TILE_HELD       vectors of a panel that fit there beside them
 *   TILE_TOGETHER_F32, TILE_TOGETHER_F64  cpu/tile/tile.inc
 *   TILE_PAIRS_F32, TILE_PAIRS_F64  tile_loops.pairs_from
 *   TILE_FIXED      has those of tile_kernel.by_fixed, in float32
 *   TILE_DOUBLED    has those of tile_kernel.doubled
 *   TILE_MENDS      has those of tile_kernel.by_inner of kernels that are not smooth at 0
 *   TILE_FACTORS    has those of tile_kernel.by_factor
 *   TILE_INNER_F32, TILE_INNER_F64, TILE_INNER_ROOT_F32, TILE_INNER_ROOT_F64
 *                   tile_loops.inner_from, inner_root_from
 *   TILE_TURNS      tile_loops.root_turns_from; 0: not tile_loops.turns
 *   TILE_SCALE_GAUSSIAN, TILE_SCALE_ROOT
 *                   tile_loops.scale_gaussian, scale_root; 1 unless defined
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cpu/tile/isa.h"
#include "cpu/tile/tile.h"
#include "engine/exp2.h"

#define LN2 0.69314718055994530942
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")
#define QUOTE_(x) #x
#define QUOTE(x) QUOTE_(x)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#ifndef TILE_SCALE_GAUSSIAN
#define TILE_SCALE_GAUSSIAN 1.0
#define TILE_SCALE_ROOT 1.0
#endif

#define TILE_PAIRED (TILE_PAIRS_F32 > 0)

/* What a vector register is called in the constraints of GCC's asm statements. */
#if defined(__AVX512F__)
#define VECTOR_REGISTER "v"
#elif defined(__x86_64__)
#define VECTOR_REGISTER "x"
#elif defined(__aarch64__)
#define VECTOR_REGISTER "w"
#else
#define VECTOR_REGISTER "m"
#endif

/* tile_loops.powers_to: of more features in float32 the power of the sum that others take is less
 * than a tenth of a value's time, and not worth rounding twice as much; in float64 panels are met
 * by too few at a time for turning each row. */
#define TILE_POWERS_TO_F32 64
#define TILE_POWERS_TO_F64 128

/* Features that a panel is fetched ahead (tile_kernel.panel_ahead): longer than a line takes from
 * the second-level cache. */
#define PANEL_AHEAD 8

_Static_assert(TILE_RUN % TILE_DEEP == 0, "whole panels");
_Static_assert(TILE_BLOCK % TILE_STEP == 0 && TILE_RUN % TILE_BLOCK == 0, "whole blocks");

/* may_alias: panels and buffers are plain arrays elsewhere. */
#define VECTOR(bytes) __attribute__((vector_size(bytes), may_alias))
typedef float vec_f32 VECTOR(TILE_VEC_BYTES);
typedef double vec_f64 VECTOR(TILE_VEC_BYTES);
typedef uint32_t bits_f32 VECTOR(TILE_VEC_BYTES);
typedef uint64_t bits_f64 VECTOR(TILE_VEC_BYTES);
typedef float half_f32 VECTOR(TILE_VEC_BYTES / 2);
/* As many 16-bit numbers as a vector has lanes. */
typedef uint16_t short_f32 VECTOR(TILE_VEC_BYTES / 2);
typedef uint16_t short_f64 VECTOR(TILE_VEC_BYTES / 4);
typedef float loose_f32 __attribute__((vector_size(TILE_VEC_BYTES), may_alias, aligned(4)));
typedef double loose_f64 __attribute__((vector_size(TILE_VEC_BYTES), may_alias, aligned(8)));

/* What is summed over the features, and what is made of it. */
enum form {
    FORM_GAUSSIAN,
    FORM_INNER,  /* gaussian of |x|^2/2 + |z|^2/2 - x.z */
    FORM_FACTOR, /* the same less the factor of z; where TILE_FACTORS says so */
    FORM_L1,
    FORM_L1_FIXED,   /* where FIXED of cpu/tile/tile.inc says so */
    FORM_L1_DOUBLED, /* where DOUBLED does */
    FORM_L1_POWERS,
    FORM_L1_MAX,
    FORM_EXPONENTIAL,
    FORM_MATERN32,
    FORM_MATERN52,
    FORM_EXPONENTIAL_INNER, /* of inner products, as FORM_INNER; where TILE_MENDS says so */
    FORM_MATERN32_INNER,
    FORM_MATERN52_INNER,
    FORM_LINEAR, /* inner products from here on */
    FORM_POLYNOMIAL,
    FORM_SIGMOID,
    FORM_KEPT, /* values from memory from here on */
    FORM_KEPT_HALF,
    FORMS_
};

INLINE bool has_root(enum form form)
{
    return form >= FORM_EXPONENTIAL && form <= FORM_MATERN52_INNER;
}

/* Whether -|x - z|^2/2 comes from inner products. */
INLINE bool by_inner(enum form form)
{
    return form == FORM_INNER || form == FORM_FACTOR ||
           (form >= FORM_EXPONENTIAL_INNER && form <= FORM_MATERN52_INNER);
}

INLINE bool is_exponential(enum form form)
{
    return form == FORM_EXPONENTIAL || form == FORM_EXPONENTIAL_INNER;
}

INLINE bool is_matern32(enum form form)
{
    return form == FORM_MATERN32 || form == FORM_MATERN32_INNER;
}

/* Whether points carry a number that sums begin with, in the place of feature d. */
INLINE bool has_sum(enum form form)
{
    return by_inner(form) || (form >= FORM_L1_FIXED && form <= FORM_L1_MAX);
}

typedef void loop_function(const struct tile *t);
typedef void lane_function(const struct lane_tile *t);

#define EACH_USE(M, form) M(form, VALUES) M(form, ROWS) M(form, BOTH) M(form, COLUMNS)
#define EACH_LOOP(M)                                                                               \
    EACH_USE(M, GAUSSIAN)                                                                          \
    EACH_INNER(M)                                                                                  \
    EACH_USE(M, L1)                                                                                \
    EACH_USE(M, L1_POWERS)                                                                         \
    EACH_USE(M, EXPONENTIAL)                                                                       \
    EACH_USE(M, MATERN32)                                                                          \
    EACH_USE(M, MATERN52)                                                                          \
    EACH_USE(M, LINEAR)                                                                            \
    EACH_USE(M, POLYNOMIAL)                                                                        \
    EACH_USE(M, SIGMOID)                                                                           \
    EACH_USE(M, KEPT)                                                                              \
    EACH_USE(M, KEPT_HALF)

/* tile_kernel.by_inner. */
#define EACH_INNER(M)                                                                              \
    EACH_USE(M, INNER)                                                                             \
    EACH_USE(M, MATERN32_INNER)                                                                    \
    EACH_USE(M, MATERN52_INNER)
#define EACH_INNER_COMPUTED(M) M(INNER) M(MATERN32_INNER) M(MATERN52_INNER)

/* Forms whose values are computed. */
#define EACH_COMPUTED(M)                                                                           \
    M(GAUSSIAN)                                                                                    \
    EACH_INNER_COMPUTED(M)                                                                         \
    M(L1)                                                                                          \
    M(L1_POWERS)                                                                                   \
    M(EXPONENTIAL)                                                                                 \
    M(MATERN32)                                                                                    \
    M(MATERN52)                                                                                    \
    M(LINEAR)                                                                                      \
    M(POLYNOMIAL)                                                                                  \
    M(SIGMOID)

static enum form form_of_kernel(const struct tile_kernel *k)
{
    switch (k->id) {
    case KERNEL_GAUSSIAN:
        return !k->by_inner ? FORM_GAUSSIAN : k->by_factor ? FORM_FACTOR : FORM_INNER;
    case KERNEL_LAPLACIAN_L1:
        return k->by_powers  ? FORM_L1_POWERS
               : k->by_fixed ? FORM_L1_FIXED
               : !k->by_max  ? FORM_L1
               : k->doubled  ? FORM_L1_DOUBLED
                             : FORM_L1_MAX;
    case KERNEL_MATERN32:
        return k->by_inner ? FORM_MATERN32_INNER : FORM_MATERN32;
    case KERNEL_MATERN52:
        return k->by_inner ? FORM_MATERN52_INNER : FORM_MATERN52;
    case KERNEL_LINEAR:
        return FORM_LINEAR;
    case KERNEL_POLYNOMIAL:
        return FORM_POLYNOMIAL;
    case KERNEL_SIGMOID:
        return FORM_SIGMOID;
    default: /* laplacian, matern12 */
        return k->by_inner ? FORM_EXPONENTIAL_INNER : FORM_EXPONENTIAL;
    }
}

static enum form form_of(const struct tile *t)
{
    if (t->kept != NULL) {
        return t->storage == KERNEL_STORE_HALF ? FORM_KEPT_HALF : FORM_KEPT;
    }
    return form_of_kernel(t->kernel);
}

/* totals[i] += v[i]. */
INLINE void add_lanes_f64(double *totals, vec_f64 v)
{
    *(loose_f64 *)totals += v;
}

INLINE void add_lanes_f32(double *totals, vec_f32 v)
{
    half_f32 half[2];
    memcpy(half, &v, sizeof v);
    add_lanes_f64(totals, __builtin_convertvector(half[0], vec_f64));
    add_lanes_f64(totals + sizeof(vec_f64) / sizeof(double),
                  __builtin_convertvector(half[1], vec_f64));
}

/* The next vector of float64 in a row of values. */
INLINE vec_f64 part_of_row_f64(const double *row)
{
    return *(const vec_f64 *)row;
}

INLINE vec_f64 part_of_row_f32(const float *row)
{
    return __builtin_convertvector(*(const half_f32 *)row, vec_f64);
}

#define T float
#define BITS uint32_t
#define NAME(x) x##_f32
#define PS ps
#define MANTISSA 23
#define EXP_MIN -126
#define ROUND 0x1.8p23
#define TOGETHER TILE_TOGETHER_F32
#define EXP2_TERMS EXP2_TERMS_F32
#define EXP2_SQUARE EXP2_SQUARE_F32
#define EXP2_REST EXP2_REST_F32
#include "cpu/tile/tile.inc"

#define T double
#define BITS uint64_t
#define NAME(x) x##_f64
#define PS pd
#define MANTISSA 52
#define EXP_MIN -1022
#define ROUND 0x1.8p52
#define TOGETHER TILE_TOGETHER_F64
#define EXP2_TERMS EXP2_TERMS_F64
#define EXP2_SQUARE EXP2_SQUARE_F64
#define EXP2_REST EXP2_REST_F64
#include "cpu/tile/tile.inc"

#include "cpu/tile/window.inc"

#include "cpu/tile/turn.inc"

static void turn_panel_f32(const struct tile_kernel *k, void *panel, int64_t d, int lanes)
{
#if TILE_FIXED
    if (k->by_fixed) {
        fix_panel(panel, d, lanes);
        return;
    }
#endif
    turn_panel(false, k, panel, d, lanes);
}

static void turn_row_f32(const struct tile_kernel *k, const void *row, int64_t d, void *ret)
{
#if TILE_FIXED
    if (k->by_fixed) {
        fix_row(row, d, ret);
        return;
    }
#endif
    turn_row(false, k, row, d, ret);
}

static void turn_panel_f64(const struct tile_kernel *k, void *panel, int64_t d, int lanes)
{
    turn_panel(true, k, panel, d, lanes);
}

static void turn_row_f64(const struct tile_kernel *k, const void *row, int64_t d, void *ret)
{
    turn_row(true, k, row, d, ret);
}

/* ---- mixed precision: float32 values, float64 weights and sums ---- */

#define LANES_F32 ((int)(TILE_VEC_BYTES / sizeof(float)))
#define MIXED_COLS (TILE_TOGETHER_F32 == 1 ? 4 : 2)    /* columns that share a conversion */
#define MIXED_RUN (TILE_SHORT / TILE_STEP * TILE_STEP) /* rows at a time; whole blocks */

/* `cols` columns from c on. A vector of K is two of float64; z_sums take both halves. */
INLINE void apply_mixed(enum tile_use use, int vecs, int cols, const struct tile *t, int j, int c,
                        const half_f32 *K)
{
    const double *w = (const double *)t->z_weights + c * TILE_RUN + j;
    vec_f64 *sums = (vec_f64 *)t->x_sums + c * vecs * 2;
    const vec_f64 *x = (const vec_f64 *)t->x_weights + c * vecs * 2;
    vec_f64 *rows = (vec_f64 *)t->z_sums + j * t->z_ld + c;
    vec_f64 row_sum[TILE_STEP][MIXED_COLS];
    if (use != TILE_ROWS) {
        UNROLL for (int i = 0; i < TILE_STEP * cols; i++)
        {
            row_sum[i / cols][i % cols] = rows[i / cols * t->z_ld + i % cols];
        }
    }
    for (int v = 0; v < vecs * 2; v++) {
        vec_f64 sum[MIXED_COLS];
        UNROLL for (int i = 0; i < cols && use != TILE_COLUMNS; i++)
        {
            sum[i] = sums[i * vecs * 2 + v];
        }
        UNROLL for (int r = 0; r < TILE_STEP; r++)
        {
            const vec_f64 value = __builtin_convertvector(K[r * vecs * 2 + v], vec_f64);
            UNROLL for (int i = 0; i < cols; i++)
            {
                if (use != TILE_COLUMNS) {
                    sum[i] = fma_each_f64(sum[i], value, spread_f64(w + i * TILE_RUN + r));
                }
                if (use != TILE_ROWS) {
                    row_sum[r][i] += value * x[i * vecs * 2 + v];
                }
            }
        }
        UNROLL for (int i = 0; i < cols && use != TILE_COLUMNS; i++)
        {
            sums[i * vecs * 2 + v] = sum[i];
        }
    }
    if (use != TILE_ROWS) {
        UNROLL for (int i = 0; i < TILE_STEP * cols; i++)
        {
            rows[i / cols * t->z_ld + i % cols] = row_sum[i / cols][i % cols];
        }
    }
}

INLINE void mixed_columns(enum tile_use use, int vecs, const struct tile *t, int j, const float *K)
{
    int c = 0;
    for (; c + MIXED_COLS <= t->cols; c += MIXED_COLS) {
        apply_mixed(use, vecs, MIXED_COLS, t, j, c, (const half_f32 *)K);
    }
    for (; c < t->cols; c++) {
        apply_mixed(use, vecs, 1, t, j, c, (const half_f32 *)K);
    }
}

/* The values of run j .. on, in the tile's own type: kept ones in place, others by way of K. */
static const float *load_mixed(int lanes, const struct tile *t, int j, float *K)
{
    struct tile block = *t;
    if (t->kept != NULL && t->storage != KERNEL_STORE_HALF) {
        return (const float *)t->kept + j * lanes;
    }
    block.kept = t->kept != NULL ? (const uint16_t *)t->kept + j * lanes : NULL;
    block.K = K;
    block.z = t->z + j;
    block.count = t->count - j < MIXED_RUN ? t->count - j : MIXED_RUN;
    run_f32(TILE_VALUES, lanes, &block);
    return K;
}

/* Blocks of values are passed on in the first-level cache. */
static void run_mixed(enum tile_use use, int lanes, const struct tile *t)
{
    float K[MIXED_RUN * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    for (int j = 0; j < t->count; j += MIXED_RUN) {
        const float *run = load_mixed(lanes, t, j, K);
        for (int i = 0; i < MIXED_RUN && j + i < t->count; i += TILE_STEP) {
            const float *values = run + i * lanes;
            if (use == TILE_BOTH) {
                mixed_columns(TILE_BOTH, TILE_WIDE, t, j + i, values);
            } else if (use == TILE_COLUMNS) {
                mixed_columns(TILE_COLUMNS, TILE_WIDE, t, j + i, values);
            } else if (lanes == TILE_WIDE * LANES_F32) {
                mixed_columns(TILE_ROWS, TILE_WIDE, t, j + i, values);
            } else {
                mixed_columns(TILE_ROWS, 1, t, j + i, values);
            }
        }
    }
}

extern const struct fft_loops JOIN(fft_loops_, TILE_ISA);

const struct tile_isa JOIN(tile_isa_, TILE_ISA) = {
    .name = QUOTE(TILE_ISA),
    .fft = &JOIN(fft_loops_, TILE_ISA),
    .spread = window_spread,
    .gather = window_gather,
    .f32 =
        {
            .wide = TILE_WIDE * LANES_F32,
            .narrow = LANES_F32,
            .step = TILE_STEP,
            .fetches = TILE_TOGETHER_F32 == 1,
            .inner_from = TILE_INNER_F32,
            .inner_root_from = TILE_INNER_ROOT_F32,
            .scale_gaussian = TILE_SCALE_GAUSSIAN,
            .scale_root = TILE_SCALE_ROOT,
            .pairs_from = TILE_PAIRS_F32,
            .mends = TILE_MENDS,
            .factors = TILE_FACTORS,
            .powers_to = TILE_POWERS_TO_F32,
            .powers_kept_to = TILE_POWERS_TO_F32,
            .fixes = TILE_FIXED,
            .doubles = TILE_DOUBLED && !TILE_FIXED,
            .turns = TILE_TURNS > 0,
            .root_turns_from = TILE_TURNS,
            .pack = pack_f32,
            .turn_panel = turn_panel_f32,
            .turn_row = turn_row_f32,
            .run = run_f32,
            .run_f64 = run_mixed,
            .deep = TILE_DEEP,
            .run_lanes = run_lanes_f32,
            .run_lanes_f64 = run_lanes_mixed,
            .drain = drain_f32,
            .fold = fold_f32,
            .to_half = to_half_f32,
            .mix = mix_f32,
            .near = near_f32,
        },
    .f64 =
        {
            .wide = TILE_WIDE * LANES_F32 / 2,
            .narrow = LANES_F32 / 2,
            .step = TILE_STEP,
            .fetches = TILE_TOGETHER_F64 == 1,
            .inner_from = TILE_INNER_F64,
            .inner_root_from = TILE_INNER_ROOT_F64,
            .scale_gaussian = TILE_SCALE_GAUSSIAN,
            .scale_root = TILE_SCALE_ROOT,
            .pairs_from = TILE_PAIRS_F64,
            .mends = TILE_MENDS,
            .factors = TILE_FACTORS,
            .powers_to = TILE_POWERS_TO_F64,
            .powers_kept_to = INT64_MAX,
            .doubles = TILE_DOUBLED,
            .turns = TILE_TURNS > 0,
            .root_turns_from = TILE_TURNS,
            .pack = pack_f64,
            .turn_panel = turn_panel_f64,
            .turn_row = turn_row_f64,
            .run = run_f64,
            .run_f64 = run_f64,
            .deep = TILE_DEEP,
            .run_lanes = run_lanes_f64,
            .run_lanes_f64 = run_lanes_f64,
            .drain = drain_f64,
            .fold = fold_f64,
            .to_half = to_half_f64,
            .mix = mix_f64,
            .near = near_f64,
        },
};
