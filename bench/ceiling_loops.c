/*
 * Compiled once for each instruction set, with
 *   CEILING_ISA        its name
 *   CEILING_VEC_BYTES  bytes of a vector register
 */
#include "bench/ceiling_loops.h"

#include <math.h>

#ifdef __x86_64__
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#include "bench/ceiling_isa.h"
#include "engine/exp2.h"

#define CHAINS 12  /* latency 4 times two pipes, and some; with constants within 16 registers */
#define VECTORS 16 /* of independent values */

/* What a vector register is called in the constraints of GCC's asm statements. */
#if defined(__aarch64__)
#define VECTOR_REGISTER "w"
#elif CEILING_VEC_BYTES == 64
#define VECTOR_REGISTER "v"
#else
#define VECTOR_REGISTER "x"
#endif

/* Square roots of a whole vector. */
#if CEILING_VEC_BYTES == 64
#define VECTOR_ROOT_F32(v) (vec_f32) _mm512_sqrt_ps((__m512)(v))
#define VECTOR_ROOT_F64(v) (vec_f64) _mm512_sqrt_pd((__m512d)(v))
#elif CEILING_VEC_BYTES == 32
#define VECTOR_ROOT_F32(v) (vec_f32) _mm256_sqrt_ps((__m256)(v))
#define VECTOR_ROOT_F64(v) (vec_f64) _mm256_sqrt_pd((__m256d)(v))
#elif defined(__SSE2__)
#define VECTOR_ROOT_F32(v) (vec_f32) _mm_sqrt_ps((__m128)(v))
#define VECTOR_ROOT_F64(v) (vec_f64) _mm_sqrt_pd((__m128d)(v))
#else
#define VECTOR_ROOT_F32(v) (vec_f32) vsqrtq_f32((float32x4_t)(v))
#define VECTOR_ROOT_F64(v) (vec_f64) vsqrtq_f64((float64x2_t)(v))
#endif

#if CEILING_VEC_BYTES == 64
#define VECTOR_INVERSE_F32(v) (vec_f32) _mm512_rsqrt14_ps((__m512)(v))
#define VECTOR_INVERSE_F64(v) (vec_f64) _mm512_rsqrt14_pd((__m512d)(v))
#elif CEILING_VEC_BYTES == 32
#define VECTOR_INVERSE_F32(v) (vec_f32) _mm256_rsqrt_ps((__m256)(v))
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

/* Powers of parts of 1, chosen by the low bits of numbers. */
#if CEILING_VEC_BYTES == 64
static inline __m512d lookup_f64(__m512d bits)
{
    static const double power[16] __attribute__((aligned(64))) = {EXP2_SIXTEENTHS_F64};
    return _mm512_permutex2var_pd(*(const __m512d *)power, (__m512i)bits,
                                  *(const __m512d *)(power + 8));
}
#define LOOKUP_F64(v) (vec_f64) lookup_f64((__m512d)(v))
#define PARTS_F64 4
#define PART_F64 EXP2_SMALL_F64
#elif CEILING_VEC_BYTES == 32
static inline __m256 lookup_f32(__m256 bits)
{
    static const float eighths[8] __attribute__((aligned(32))) = {EXP2_EIGHTHS_F32};
    return _mm256_permutevar8x32_ps(*(const __m256 *)eighths, (__m256i)bits);
}
#define LOOKUP_F32(v) (vec_f32) lookup_f32((__m256)(v))

static inline __m256 lookup_f64(__m256 bits)
{
    static const uint32_t low[8] __attribute__((aligned(32))) = {EXP2_EIGHTHS_F64_LOW};
    static const uint32_t high[8] __attribute__((aligned(32))) = {EXP2_EIGHTHS_F64_HIGH};
    const __m256i twice = (__m256i)_mm256_moveldup_ps(bits);
    return _mm256_blend_ps(_mm256_permutevar8x32_ps(*(const __m256 *)high, twice),
                           _mm256_permutevar8x32_ps(*(const __m256 *)low, (__m256i)bits), 0x55);
}
#define LOOKUP_F64(v) (vec_f64) lookup_f64((__m256)(v))
#define PARTS_F64 3
#define PART_F64 EXP2_PART_F64
#endif

#define T float
#define NAME(x) x##_f32
#define ROOT sqrtf
#define VECTOR_ROOT VECTOR_ROOT_F32
#ifdef VECTOR_INVERSE_F32
#define VECTOR_INVERSE VECTOR_INVERSE_F32
#endif
#define PS ps
#define BITS uint32_t
#define MANTISSA 23
#define EXP2_TERMS EXP2_TERMS_F32
#define EXP2_SQUARE EXP2_SQUARE_F32
#define EXP2_REST EXP2_REST_F32
#if CEILING_VEC_BYTES == 64
#define EXP2_ABOVE EXP2_ABOVE_F32
#endif
#ifdef LOOKUP_F32
#define EXP2_PARTS 3
#define EXP2_PART EXP2_PART_F32
#define EXP2_LOOKUP LOOKUP_F32
#endif
#include "bench/ceiling_loops.inc"
#undef T
#undef NAME
#undef ROOT
#undef VECTOR_ROOT
#undef PS
#undef BITS
#undef MANTISSA
#undef EXP2_TERMS
#undef EXP2_SQUARE
#undef EXP2_REST
#undef EXP2_PART
#undef EXP2_PARTS
#undef EXP2_LOOKUP
#undef EXP2_ABOVE
#undef VECTOR_INVERSE
#undef VEC
#undef LANES

#define T double
#define NAME(x) x##_f64
#define ROOT sqrt
#define VECTOR_ROOT VECTOR_ROOT_F64
#ifdef VECTOR_INVERSE_F64
#define VECTOR_INVERSE VECTOR_INVERSE_F64
#endif
#define PS pd
#define BITS uint64_t
#define MANTISSA 52
#define EXP2_TERMS EXP2_TERMS_F64
#define EXP2_SQUARE EXP2_SQUARE_F64
#define EXP2_REST EXP2_REST_F64
#if CEILING_VEC_BYTES == 64
#define EXP2_ABOVE EXP2_ABOVE_F64
#endif
#ifdef LOOKUP_F64
#define EXP2_PARTS PARTS_F64
#define EXP2_PART PART_F64
#define EXP2_LOOKUP LOOKUP_F64
#endif
#include "bench/ceiling_loops.inc"
#undef T
#undef NAME
#undef ROOT
#undef VECTOR_ROOT
#undef PS
#undef BITS
#undef MANTISSA
#undef EXP2_TERMS
#undef EXP2_SQUARE
#undef EXP2_REST
#undef EXP2_PART
#undef EXP2_PARTS
#undef EXP2_LOOKUP
#undef EXP2_ABOVE
#undef VECTOR_INVERSE
#undef VEC
#undef LANES

#define LANES_F32 ((int64_t)(CEILING_VEC_BYTES / sizeof(float)))
#define LANES_F64 ((int64_t)(CEILING_VEC_BYTES / sizeof(double)))

/* What both types have; each loop is of so many vectors a round. */
#define EXP2_LOOPS(type, lanes_)                                                                   \
    {.run = in_one_##type, .lanes = VECTORS * (lanes_)},                                           \
    {                                                                                              \
        .run = in_two_##type, .lanes = VECTORS * (lanes_)                                          \
    }
#define TYPE_LOOPS(type, lanes_)                                                                   \
    .fma = {.run = fma_##type, .lanes = CHAINS * (lanes_)},                                        \
    .add = {.run = add_##type, .lanes = CHAINS * (lanes_)},                                        \
    .pair = {.run = pair_##type, .lanes = CHAINS * (lanes_)},                                      \
    .root = {.run = root_##type, .lanes = VECTORS * (lanes_)},                                     \
    .beside = {.run = beside_##type, .lanes = lanes_}

const struct ceiling_isa JOIN(ceiling_isa_, CEILING_ISA) = {
    .name = QUOTE(CEILING_ISA),
    .f32 =
        {
            TYPE_LOOPS(f32, LANES_F32),
#ifdef VECTOR_INVERSE_F32
            .steps = {.run = steps_f32, .lanes = VECTORS * LANES_F32},
#endif
            .exp2 =
                {
                    EXP2_LOOPS(f32, LANES_F32),
#ifdef LOOKUP_F32
                    {.run = in_parts_f32, .lanes = VECTORS * LANES_F32},
#endif
#if CEILING_VEC_BYTES == 64
                    {.run = in_rests_f32, .lanes = VECTORS * LANES_F32},
#endif
                },
        },
    .f64 =
        {
            TYPE_LOOPS(f64, LANES_F64),
#ifdef VECTOR_INVERSE_F64
            .steps = {.run = steps_f64, .lanes = VECTORS * LANES_F64},
#endif
            .exp2 =
                {
                    EXP2_LOOPS(f64, LANES_F64),
#ifdef LOOKUP_F64
                    {.run = in_parts_f64, .lanes = VECTORS * LANES_F64},
#endif
#if CEILING_VEC_BYTES == 64
                    {.run = in_rests_f64, .lanes = VECTORS * LANES_F64},
#endif
                },
        },
};
