/* In the place of src/gpu/warpgroup.cuh, for kernels that run in the simulator: the same functions.
 */
#pragma once

#include "cudasim/kernel.h"

constexpr bool HAS_GROUPS = true;

inline void read_matrices(const void *row, uint32_t (&ret)[4])
{
    sim_rows mine = {row, {}};
    sim_together(0xffffffffu, "ldmatrix", &mine,
                 [](void **lanes, unsigned) { sim_read_matrices((sim_rows *const *)lanes); });
    sim_group_touch();
    memcpy(ret, mine.ret, sizeof ret);
}

inline uint64_t describe_matrix(const void *at, unsigned columns, unsigned half)
{
    return sim_group_address(at) | (uint64_t)(half >> 4) << 16 | (uint64_t)(columns >> 4) << 32;
}

inline void shared_fence()
{
    sim_shared_fence();
}

inline void group_fence()
{
    sim_group_fence();
}

inline void group_commit()
{
    sim_group_commit();
}

template <int PENDING> void group_wait(float (&)[32])
{
    sim_group_wait(PENDING);
}

template <bool ADDS> void group_product(float (&c)[32], const uint32_t (&a)[4], uint64_t b)
{
    const sim_group_product mine = {a, c, b, ADDS};
    sim_group_multiply(&mine);
}
