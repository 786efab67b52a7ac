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

template <int PENDING, int REGISTERS> void group_wait(float (&)[REGISTERS])
{
    sim_group_wait(PENDING);
}

template <bool ADDS, int REGISTERS>
void subtract_group_product(float (&c)[REGISTERS], uint64_t a, uint64_t b)
{
    static_assert(REGISTERS == 32 || REGISTERS == 64, "64 or 128 columns");
    const sim_group_product mine = {c, a, b, ADDS, REGISTERS};
    sim_group_multiply(&mine);
}

struct arrival {
    uint64_t state;
};

inline void arrival_begin(arrival &a)
{
    sim_arrival_begin(&a);
}

inline void arrivals_fence()
{
    sim_arrivals_fence();
}

inline void arrival_expect(arrival &a, unsigned bytes)
{
    sim_arrival_expect(&a, bytes);
}

inline void copy_to_shared(void *to, const void *from, unsigned bytes, arrival &a)
{
    sim_arrival_copy(to, from, bytes, &a);
}

inline void arrival_wait(arrival &a, int parity)
{
    sim_arrival_wait(&a, parity);
}
