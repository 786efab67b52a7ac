/* In the place of src/gpu/warpgroup.cuh, for kernels that run in the simulator: the same functions.
 */
#pragma once

#include "cudasim/kernel.h"

constexpr bool HAS_GROUPS = true;

inline uint64_t describe_matrix(const void *at, unsigned next, unsigned half)
{
    return sim_group_address(at) | (uint64_t)(half >> 4) << 16 | (uint64_t)(next >> 4) << 32;
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

template <bool ADDS> void subtract_group_product(float (&c)[32], uint64_t a, uint64_t b)
{
    const sim_group_product mine = {c, a, b, ADDS};
    sim_group_multiply(&mine);
}
