/*
 * One instruction set's loops. The build compiles this file once for each, with its own machine
 * flags and with
 *
 *   TILE_ISA        its name
 *   TILE_VEC_BYTES  bytes of a vector register
 *   TILE_WIDE       vectors in a wide panel; TILE_WIDE * TILE_STEP sums must fit the registers
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engine/cpu_isa.h"
#include "engine/cpu_tile.h"

#define TILE_VECS_MAX TILE_WIDE
#define TILE_APPLY_COLS 4
#define LN2 0.69314718055994530942

enum form { FORM_L2, FORM_L1, FORM_DOT };

static inline float root_f32(float x)
{
    return sqrtf(x);
}

static inline double root_f64(double x)
{
    return sqrt(x);
}

/* 5e-9 relative, below float32's own rounding. */
#define T float
#define BITS uint32_t
#define NAME(x) x##_f32
#define MANTISSA 23
#define EXP_MIN -126
#define ROUND 0x1.8p23
#define EXP2_TERMS                                                                                 \
    0.693147188026228781, 0.240226507605681269, 0.0555035711421907782, 0.00961808255727785149,     \
        0.00133908633646712344, 0.000154531629451206902
#include "engine/cpu_tile.inc"

/* 6e-16 relative. */
#define T double
#define BITS uint64_t
#define NAME(x) x##_f64
#define MANTISSA 52
#define EXP_MIN -1022
#define ROUND 0x1.8p52
#define EXP2_TERMS                                                                                 \
    0.69314718055994615897, 0.24022650695910076139, 0.055504108664651672007,                       \
        0.0096181291076186655706, 0.0013333558200794592645, 0.00015403530424776527587,             \
        0.000015252672924850736404, 1.3215451633221434374e-6, 1.0205905413765595794e-7,            \
        7.0709778665081385558e-9
#include "engine/cpu_tile.inc"

/* Mixed precision: float32 values, float64 weights and sums. One vector of lanes at a time. */
typedef float half_f32 __attribute__((vector_size(TILE_VEC_BYTES / 2), may_alias));
#define LANES_F32 ((int)(TILE_VEC_BYTES / sizeof(float)))

static inline __attribute__((always_inline)) void
mixed_cols(int cols, int lanes, const float *K, int count, const double *w, double *sums)
{
    vec_f64 acc[TILE_APPLY_COLS][2] = {0};
    for (int j = 0; j < count; j++) {
        const half_f32 *value = (const half_f32 *)(K + j * lanes);
        const vec_f64 low = __builtin_convertvector(value[0], vec_f64);
        const vec_f64 high = __builtin_convertvector(value[1], vec_f64);
        for (int c = 0; c < cols; c++) {
            acc[c][0] += low * w[c * TILE_RUN + j];
            acc[c][1] += high * w[c * TILE_RUN + j];
        }
    }
    for (int c = 0; c < cols; c++) {
        double lane[LANES_F32] __attribute__((aligned(64)));
        ((vec_f64 *)lane)[0] = acc[c][0];
        ((vec_f64 *)lane)[1] = acc[c][1];
        for (int i = 0; i < LANES_F32; i++) {
            sums[c * lanes + i] += lane[i];
        }
    }
}

static void apply_mixed(int lanes, const void *K, int count, const double *w, int cols,
                        double *sums)
{
    for (int i = 0; i < lanes; i += LANES_F32) {
        const float *values = (const float *)K + i;
        int c = 0;
        for (; c + TILE_APPLY_COLS <= cols; c += TILE_APPLY_COLS) {
            mixed_cols(TILE_APPLY_COLS, lanes, values, count, w + c * TILE_RUN,
                       sums + c * lanes + i);
        }
        for (; c < cols; c++) {
            mixed_cols(1, lanes, values, count, w + c * TILE_RUN, sums + c * lanes + i);
        }
    }
}

static void apply_double(int lanes, const void *K, int count, const double *w, int cols,
                         double *sums)
{
    apply_f64(lanes, K, count, w, cols, sums);
}

#define QUOTE_(x) #x
#define QUOTE(x) QUOTE_(x)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const struct tile_isa JOIN(tile_isa_, TILE_ISA) = {
    .name = QUOTE(TILE_ISA),
    .f32 =
        {
            .wide = TILE_WIDE * LANES_F32,
            .narrow = LANES_F32,
            .values = values_f32,
            .apply = apply_f32,
            .apply_f64 = apply_mixed,
        },
    .f64 =
        {
            .wide = TILE_WIDE * LANES_F32 / 2,
            .narrow = LANES_F32 / 2,
            .values = values_f64,
            .apply = apply_f64,
            .apply_f64 = apply_double,
        },
};
