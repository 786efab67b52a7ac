/* In the place of src/gpu/matrix.cuh, for kernels that run in the simulator: the same functions. */
#pragma once

#include "cudasim/kernel.h"

inline uint32_t float16_pair(float low, float high)
{
    return sim_float16_bits(low) | (uint32_t)sim_float16_bits(high) << 16;
}

inline void float16_values(uint32_t pair, float &low, float &high)
{
    low = sim_float16_value((uint16_t)pair);
    high = sim_float16_value((uint16_t)(pair >> 16));
}

template <int K>
void sim_add_product(const char *name, float (&c)[4], const uint32_t (&a)[4],
                     const uint32_t (&b)[2])
{
    sim_matrix mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    memcpy(mine.c, c, sizeof mine.c);
    sim_together(0xffffffffu, name, &mine,
                 [](void **lanes, unsigned) { sim_add_product(K, (sim_matrix *const *)lanes); });
    memcpy(c, mine.c, sizeof mine.c);
}

inline void add_product_float16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    sim_add_product<16>("mma of float16", c, a, b);
}

inline void add_product_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    sim_add_product<8>("mma of tf32", c, a, b);
}

inline void add_product_float64(double (&c)[4], const double (&a)[2], double b)
{
    sim_matrix_f64 mine = {{a[0], a[1]}, b, {}};
    memcpy(mine.c, c, sizeof mine.c);
    sim_together(0xffffffffu, "mma of float64", &mine, [](void **lanes, unsigned) {
        sim_add_product_f64((sim_matrix_f64 *const *)lanes);
    });
    memcpy(c, mine.c, sizeof mine.c);
}
