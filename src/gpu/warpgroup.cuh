/*
 * Products of matrices by a group of four warps (PTX ISA, wgmma.mma_async), on devices of compute
 * capability 9.0 alone: C <- -A B or C - A B with A [64 x 16] and B [16 x N] of float16 and C
 * [64 x N] in float32, N = 64 or 128. Warp w of the group holds rows 16 w .. 16 w + 15 of C: with g
 * = lane / 4 and t = lane % 4, c[4 n + 2 h + e] is in row 16 w + g + 8 h and column 8 n + 2 t + e.
 * A and B are in shared memory, in pieces of 16 bytes: 8 numbers of k of one row of A, or column of
 * B. Pieces of 8 rows, or columns, that follow each other lie together.
 *
 * The products run beside the warps. Before the first one, and after registers of C were touched,
 * all warps call group_fence(); what they begin is a group once group_commit() is called; and until
 * group_wait() no register of C may be touched. They read shared memory by another way than threads
 * do: whoever wrote it calls shared_fence() before the barrier that others wait at.
 *
 * Copies to shared memory by the device's copy engine, which one thread begins, are known by their
 * arrival: all threads wait for the same, and need no fence for what came.
 *
 * Sums are cut off as those of matrix.cuh are.
 *
 * Nothing but what a host cannot compile is here, so that another file can stand in its place.
 */
#pragma once

#include <stdint.h>

namespace {

/* Whether this code is compiled for such devices: where it is not, kernels that use it do nothing.
 */
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool HAS_GROUPS = false;
#else
constexpr bool HAS_GROUPS = true;
#endif

/* What tells a product where A or B is: the pieces of 8 rows, or columns, of the first half of k at
 * `at`, those of the next 8 `next` bytes on, and those of the second half `half` bytes on. */
inline __device__ uint64_t describe_matrix(const void *at, unsigned next, unsigned half)
{
    const uint64_t address = (uint64_t)__cvta_generic_to_shared(at) & 0x3ffff;
    return address >> 4 | (uint64_t)(half >> 4) << 16 | (uint64_t)(next >> 4) << 32;
}

inline __device__ void shared_fence()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

inline __device__ void group_fence()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

inline __device__ void group_commit()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

#define GROUP_C4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define GROUP_C32(i)                                                                               \
    GROUP_C4(i), GROUP_C4(i + 4), GROUP_C4(i + 8), GROUP_C4(i + 12), GROUP_C4(i + 16),             \
        GROUP_C4(i + 20), GROUP_C4(i + 24), GROUP_C4(i + 28)
#define GROUP_C64 GROUP_C32(0)
#define GROUP_C128 GROUP_C32(0), GROUP_C32(32)

/* Until at most PENDING groups are on their way; `c` is of one of the others. */
template <int PENDING> __device__ void group_wait(float (&c)[32])
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.wait_group.sync.aligned %32;" : GROUP_C64 : "n"(PENDING) : "memory");
#endif
}

template <int PENDING> __device__ void group_wait(float (&c)[64])
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.wait_group.sync.aligned %64;" : GROUP_C128 : "n"(PENDING) : "memory");
#endif
}

/* ADDS: to what is in C. */
template <bool ADDS> __device__ void subtract_group_product(float (&c)[32], uint64_t a, uint64_t b)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("{.reg .pred adds;\n"
                 " setp.ne.b32 adds, %34, 0;\n"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, adds, -1, 1, 0, 0;}"
                 : GROUP_C64
                 : "l"(a), "l"(b), "n"(ADDS ? 1 : 0)
                 : "memory");
#endif
}

template <bool ADDS> __device__ void subtract_group_product(float (&c)[64], uint64_t a, uint64_t b)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("{.reg .pred adds;\n"
                 " setp.ne.b32 adds, %66, 0;\n"
                 " wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, adds, -1, 1, 0, 0;}"
                 : GROUP_C128
                 : "l"(a), "l"(b), "n"(ADDS ? 1 : 0)
                 : "memory");
#endif
}

#undef GROUP_C128
#undef GROUP_C64
#undef GROUP_C32
#undef GROUP_C4

/* ---- copies by the copy engine ---- */

/* In shared memory: tells when the bytes that are expected have come. One thread begins it, fences,
 * and expects bytes before each of its copies; they have come in turns, which are counted from 0
 * on: each thread waits for every turn, which expecting bytes once more begins. */
struct arrival {
    uint64_t state;
};

inline __device__ unsigned shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

inline __device__ void arrival_begin(arrival &a)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&a)) : "memory");
#endif
}

/* Before others use what this thread began. */
inline __device__ void arrivals_fence()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

inline __device__ void arrival_expect(arrival &a, unsigned bytes)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&a)),
                 "r"(bytes)
                 : "memory");
#endif
}

/* Bytes, a multiple of 16, from device memory; all threads have read what they replace. */
inline __device__ void copy_to_shared(void *to, const void *from, unsigned bytes, arrival &a)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&a))
                 : "memory");
#endif
}

/* Until a turn's bytes have come; `parity` of its number. */
inline __device__ void arrival_wait(arrival &a, int parity)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("{.reg .pred there;\n"
                 "again:\n"
                 " mbarrier.try_wait.parity.shared.b64 there, [%0], %1;\n"
                 " @!there bra again;}" ::"r"(shared_address(&a)),
                 "r"(parity)
                 : "memory");
#endif
}

} // namespace
