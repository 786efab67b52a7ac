/* Asynchronous copies from device memory to shared memory, as the simulator makes them. */
#pragma once

#include "cudasim/kernel.h"

inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0)
{
    sim_copy_async(to, from, bytes, zeros);
}

inline void __pipeline_commit()
{
    sim_copy_commit();
}

inline void __pipeline_wait_prior(size_t pending)
{
    sim_copy_wait(pending);
}
