/*
 * The loops behind device_ceiling.h. Threads have CHAINS results each that wait for nothing but
 * their own last value, and there are as many blocks as the device holds at once, so that all of
 * them begin and end together. Rounds are long enough for the loop's own three instructions to be
 * less than a hundredth of it. Numbers are neither zeros nor all the same, which would draw less
 * power than a product's do and let the clock rise.
 *
 * Each thread stores what it computed: that keeps the loops, and shows which did nothing, as those
 * do whose instruction this device's code is compiled without.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "bench/device_ceiling.h"
}

#include "gpu/matrix.cuh"
#include "gpu/start.cuh"
#include "gpu/warpgroup.cuh"

namespace {

/* Whether this code is compiled for devices with tensor cores that do what the engine asks of them:
 * where it is not, the loops of those do nothing. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool HAS_TENSOR = false;
#else
constexpr bool HAS_TENSOR = true;
#endif

constexpr int RUNS = 6;
constexpr double RUN_S = 0.01;       /* of one run at least, and less than twice as much */
constexpr int MOST_ROUNDS = 1 << 22; /* of loops that do nothing, too */
constexpr int CHAINS = 8, LANE_THREADS = 256, GROUP_THREADS = 128;
constexpr int GROUP_COLUMNS = 128; /* of a product by four warps */
constexpr int GROUP_PRODUCTS = 32; /* of a round, likewise */

/* Of products in float64, which take registers for four others. */
constexpr int WIDE_CHAINS = 4;

/* How often a round goes through all chains. */
constexpr int FMA_TURNS = 64, EX2_TURNS = 16, PRODUCT_TURNS = 8;

/* ---- the loops ---- */

/* Between 1/2 and 1, another one for each thread and `i`. */
__device__ float draw(int i)
{
    const uint32_t bits = (uint32_t)(blockIdx.x * blockDim.x + threadIdx.x) * 64U + (uint32_t)i;
    return 0.5F + (float)((bits * 2654435761U) >> 9) * 0x1p-24F;
}

/* Two of them, of either sign, in float16. */
__device__ uint32_t draw_pair(int i)
{
    return float16_pair(draw(2 * i), -draw(2 * i + 1));
}

__device__ void store(float result, float *results)
{
    results[blockIdx.x * blockDim.x + threadIdx.x] = result;
}

template <int COUNT, class T> __device__ float sum_of(const T (&values)[COUNT])
{
    T sum = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        sum += values[i];
    }
    return (float)sum;
}

/* Chains that began alike would stay alike, and a compiler might keep one for all of them. */
template <int COUNT, class T> __device__ void begin_sums(T (&chains)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < 4 * COUNT; i++) {
        chains[i / 4][i % 4] = draw(i);
    }
}

/* The sum of all of them. */
template <int COUNT, class T> __device__ float sum_of(const T (&chains)[COUNT][4])
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        sum += sum_of(chains[i]);
    }
    return sum;
}

/* The factor is little more than -1: numbers go from one side of term / 2 to the other every time,
 * and hardly come nearer to it. */
template <class T> __global__ void __launch_bounds__(LANE_THREADS) fma_loop(int rounds, float *ret)
{
    T chains[CHAINS];
    const T factor = (T)-1 + (T)0x1p-20 * (T)draw(CHAINS), term = (T)draw(CHAINS + 1);
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = (T)draw(i);
    }
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
#pragma unroll
        for (int k = 0; k < FMA_TURNS * CHAINS; k++) {
            chains[k % CHAINS] = fma(chains[k % CHAINS], factor, term);
        }
    }
    store(sum_of(chains), ret);
}

/* Powers of powers soon stand still, at 0.64. */
__global__ void __launch_bounds__(LANE_THREADS) ex2_loop(int rounds, float *ret)
{
    float chains[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = draw(i);
    }
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
#pragma unroll
        for (int k = 0; k < EX2_TURNS * CHAINS; k++) {
            float &x = chains[k % CHAINS];
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(-x));
        }
    }
    store(sum_of(chains), ret);
}

/* [16 x 16] by [16 x 8] by a warp. */
__global__ void __launch_bounds__(LANE_THREADS) product16_loop(int rounds, float *ret)
{
    if constexpr (HAS_TENSOR) {
        float chains[CHAINS][4];
        const uint32_t a[4] = {draw_pair(0), draw_pair(1), draw_pair(2), draw_pair(3)};
        const uint32_t b[2] = {draw_pair(4), draw_pair(5)};
        begin_sums(chains);
#pragma unroll 1
        for (int round = 0; round < rounds; round++) {
#pragma unroll
            for (int k = 0; k < PRODUCT_TURNS * CHAINS; k++) {
                add_product_float16(chains[k % CHAINS], a, b);
            }
        }
        store(sum_of(chains), ret);
    }
}

/* C += A B with A [16 x 16] and B [16 x 8] in float64. The engine's own product takes 4 of k at a
 * time; before 9.0 there is no larger one. */
__device__ void add_product16_float64(double (&c)[4], const double (&a)[8], const double (&b)[4])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const double two[2] = {a[2 * k], a[2 * k + 1]};
        add_product_float64(c, two, b[k]);
    }
#endif
}

__global__ void __launch_bounds__(LANE_THREADS) product64_loop(int rounds, float *ret)
{
    if constexpr (HAS_TENSOR) {
        double chains[WIDE_CHAINS][4], a[8], b[4];
        begin_sums(chains);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            a[i] = draw(i);
            b[i % 4] = -draw(8 + i % 4);
        }
#pragma unroll 1
        for (int round = 0; round < rounds; round++) {
#pragma unroll
            for (int k = 0; k < PRODUCT_TURNS * WIDE_CHAINS; k++) {
                add_product16_float64(chains[k % WIDE_CHAINS], a, b);
            }
        }
        store(sum_of(chains), ret);
    }
}

#define C4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define C16(i) C4(i), C4(i + 4), C4(i + 8), C4(i + 12)
#define ALL_C C16(0), C16(16), C16(32), C16(48)

/* C += A B as in warpgroup.cuh, but of GROUP_COLUMNS columns, with which one group's products
 * follow each other without a gap. */
__device__ void add_group_product(float (&c)[64], const uint32_t (&a)[4], uint64_t b)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
                 : ALL_C
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
                 : "memory");
#endif
}

__device__ void wait_for_group(float (&c)[64])
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ALL_C : : "memory");
#endif
}

#undef ALL_C
#undef C16
#undef C4

/* [64 x 16] by [16 x GROUP_COLUMNS] by four warps. The blocks of a multiprocessor fill each
 * other's waits. */
__global__ void __launch_bounds__(GROUP_THREADS) group_loop(int rounds, float *ret)
{
    if constexpr (HAS_GROUPS) {
        __shared__ __align__(128) uint32_t matrix[GROUP_COLUMNS * 8]; /* pairs */
        for (int i = (int)threadIdx.x; i < GROUP_COLUMNS * 8; i += GROUP_THREADS) {
            matrix[i] = draw_pair(i);
        }
        shared_fence();
        __syncthreads();
        const uint64_t b = describe_matrix(matrix, 128, GROUP_COLUMNS * 16);
        const uint32_t a[4] = {draw_pair(0), draw_pair(1), draw_pair(2), draw_pair(3)};
        float c[64] = {};
#pragma unroll 1
        for (int round = 0; round < rounds; round++) {
            group_fence();
#pragma unroll
            for (int k = 0; k < GROUP_PRODUCTS; k++) {
                add_group_product(c, a, b);
            }
            group_commit();
            wait_for_group(c);
        }
        store(sum_of(c), ret);
    }
}

/* ---- their time ---- */

struct loop {
    void (*kernel)(int rounds, float *ret);
    int threads;
    double work; /* of a thread in one round */
};

const struct loop fma32_of_lanes = {fma_loop<float>, LANE_THREADS, FMA_TURNS *CHAINS};
const struct loop fma64_of_lanes = {fma_loop<double>, LANE_THREADS, FMA_TURNS *CHAINS};
const struct loop ex2_of_lanes = {ex2_loop, LANE_THREADS, EX2_TURNS *CHAINS};
const struct loop product16_of_warps = {product16_loop, LANE_THREADS,
                                        PRODUCT_TURNS *CHAINS *(16 * 8 * 16 / 32.0)};
const struct loop product64_of_warps = {product64_loop, LANE_THREADS,
                                        PRODUCT_TURNS *WIDE_CHAINS *(16 * 8 * 16 / 32.0)};
const struct loop product16_of_groups = {group_loop, GROUP_THREADS,
                                         GROUP_PRODUCTS *(64 * GROUP_COLUMNS * 16 / 128.0)};

struct meter {
    cudaEvent_t began, ended;
    int capability, processors;
};

int check(int status, const char *doing, struct err *err)
{
    if (status == cudaSuccess) {
        return 0;
    }
    (void)cudaGetLastError(); /* it would be told once more by the next start */
    return err_set(err, status == cudaErrorMemoryAllocation ? ERR_NO_MEMORY : ERR_DEVICE,
                   "The GPU could not %s, to measure what it can do at most: %s.", doing,
                   cudaGetErrorString((cudaError_t)status));
}

/* Seconds of so many rounds, which `begin` puts on the default stream. */
template <class BEGIN>
int time_run(const struct meter &m, const BEGIN &begin, int rounds, double *ret, struct err *err)
{
    float ms = 0;
    int r = check(cudaEventRecord(m.began), "record an event", err);
    if (r == 0) {
        r = check(begin(rounds), "start a loop", err);
    }
    if (r == 0) {
        r = check(cudaEventRecord(m.ended), "record an event", err);
    }
    if (r == 0) {
        r = check(cudaEventSynchronize(m.ended), "finish a loop", err);
    }
    if (r == 0) {
        r = check(cudaEventElapsedTime(&ms, m.began, m.ended), "tell the time", err);
    }
    *ret = 1e-3 * ms;
    return r;
}

/* Rounds a second. Until a run is long enough the next has twice as many rounds, which lets the
 * clock rise, too. A first run that only took long to start is one of RUNS, and decides nothing. */
template <class BEGIN>
int best_rate(const struct meter &m, const BEGIN &begin, double *ret, struct err *err)
{
    int r = 0, rounds = 1, runs = 0;
    double best = 0;
    while (r == 0 && runs < RUNS) {
        double seconds = 0;
        r = time_run(m, begin, rounds, &seconds, err);
        if (seconds < RUN_S && rounds < MOST_ROUNDS) {
            rounds *= 2;
        } else {
            best = fmax(best, rounds / seconds);
            runs++;
        }
    }
    *ret = best;
    return r;
}

/* The rate of a loop whose `blocks` blocks fill the device; 0 where it stores nothing. */
int rate_of_blocks(const struct meter &m, const struct loop &l, int blocks, float *results,
                   double *ret, struct err *err)
{
    float first = 0;
    double rate = 0;
    const auto begin = [&](int rounds) {
        return start(l.kernel, dim3(blocks), dim3(l.threads), 0, nullptr, rounds, results);
    };
    int r = check(cudaMemset(results, 0, sizeof *results), "clear memory", err);
    if (r == 0) {
        r = best_rate(m, begin, &rate, err);
    }
    if (r == 0) {
        r = check(cudaMemcpy(&first, results, sizeof first, cudaMemcpyDeviceToHost), "copy", err);
    }
    *ret = first != 0 ? rate * l.work * l.threads * blocks : 0;
    return r;
}

int measure_loop(const struct meter &m, const struct loop &l, double *ret, struct err *err)
{
    int resident = 0;
    int r = check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, l.kernel, l.threads, 0),
                  "tell how many blocks it holds", err);
    const int blocks = resident * m.processors;
    void *results = nullptr;
    if (r == 0) {
        r = check(cudaMalloc(&results, (size_t)blocks * l.threads * sizeof(float)), "give memory",
                  err);
    }
    if (r == 0) {
        r = rate_of_blocks(m, l, blocks, (float *)results, ret, err);
        const int freed = check(cudaFree(results), "take memory back", r == 0 ? err : NULL);
        r = r == 0 ? freed : r;
    }
    return r;
}

/* ---- memory ---- */

int copy_between(const struct meter &m, void *from, void *to, size_t bytes, double *ret,
                 struct err *err)
{
    double rate = 0;
    const auto begin = [&](int rounds) {
        cudaError_t status = cudaSuccess;
        for (int i = 0; status == cudaSuccess && i < rounds; i++) {
            status = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr);
        }
        return (int)status;
    };
    int r = check(cudaMemset(from, 0x5a, bytes), "fill memory", err);
    if (r == 0) {
        r = best_rate(m, begin, &rate, err);
    }
    *ret = 2.0 * (double)bytes * rate;
    return r;
}

/* Of 1 GiB, far beyond any cache, or of a fourth of what is free, where that is less. */
int measure_copy(const struct meter &m, double *ret, struct err *err)
{
    size_t available = 0, total = 0, bytes = (size_t)1 << 30;
    void *from = nullptr, *to = nullptr;
    int r = check(cudaMemGetInfo(&available, &total), "tell its free memory", err);
    bytes = available / 4 < bytes ? available / 4 : bytes;
    if (r == 0) {
        r = check(cudaMalloc(&from, bytes), "give memory", err);
    }
    if (r == 0) {
        r = check(cudaMalloc(&to, bytes), "give memory", err);
    }
    if (r == 0) {
        r = copy_between(m, from, to, bytes, ret, err);
    }
    for (void *data : {from, to}) {
        const int freed = check(cudaFree(data), "take memory back", r == 0 ? err : NULL);
        r = r == 0 ? freed : r;
    }
    return r;
}

/* ---- all of it ---- */

int measure_lanes(const struct meter &m, struct device_ceiling *ret, struct err *err)
{
    int r = measure_loop(m, fma32_of_lanes, &ret->fma32, err);
    if (r == 0) {
        r = measure_loop(m, fma64_of_lanes, &ret->fma64, err);
    }
    return r == 0 ? measure_loop(m, ex2_of_lanes, &ret->ex2, err) : r;
}

/* Which devices have which instruction is what cuda_device.c says, too. */
int measure_tensor(const struct meter &m, const char *without, struct device_ceiling *ret,
                   struct err *err)
{
    const bool mma = m.capability >= 80 && (without == NULL || strcmp(without, "mma") != 0);
    const bool group =
        mma && m.capability == 90 && (without == NULL || strcmp(without, "wgmma") != 0);
    int r = 0;
    if (group) {
        r = measure_loop(m, product16_of_groups, &ret->tensor16, err);
    }
    if (r == 0 && mma && ret->tensor16 == 0) {
        r = measure_loop(m, product16_of_warps, &ret->tensor16, err);
    }
    if (r == 0 && mma && (m.capability == 80 || m.capability == 90 || m.capability == 100)) {
        r = measure_loop(m, product64_of_warps, &ret->tensor64, err);
    }
    return r;
}

int describe_device(struct meter *m, struct err *err)
{
    int ordinal = 0, major = 0, minor = 0;
    int r = check(cudaGetDevice(&ordinal), "be named", err);
    if (r == 0) {
        r = check(cudaDeviceGetAttribute(&m->processors, cudaDevAttrMultiProcessorCount, ordinal),
                  "count its multiprocessors", err);
    }
    if (r == 0) {
        r = check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal),
                  "name its capability", err);
    }
    if (r == 0) {
        r = check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal),
                  "name its capability", err);
    }
    m->capability = 10 * major + minor;
    return r;
}

int measure_with(struct meter *m, const char *without, struct device_ceiling *ret, struct err *err)
{
    struct device_ceiling found = {};
    int r = describe_device(m, err);
    if (r == 0) {
        r = measure_lanes(*m, &found, err);
    }
    if (r == 0) {
        r = measure_tensor(*m, without, &found, err);
    }
    if (r == 0) {
        r = measure_copy(*m, &found.copy_bytes, err);
    }
    if (r == 0) {
        *ret = found;
    }
    return r;
}

int measure(const char *without, struct device_ceiling *ret, struct err *err)
{
    struct meter m = {};
    int r = check(cudaEventCreate(&m.began), "make an event", err);
    if (r < 0) {
        return r;
    }
    r = check(cudaEventCreate(&m.ended), "make an event", err);
    if (r == 0) {
        r = measure_with(&m, without, ret, err);
        (void)cudaEventDestroy(m.ended);
    }
    (void)cudaEventDestroy(m.began);
    return r;
}

} // namespace

extern "C" device_ceiling_fn *device_ceiling_measurer(void)
{
    return measure;
}
