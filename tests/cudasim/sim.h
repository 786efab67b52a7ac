/*
 * A GPU simulated on the host, for tests of src/gpu where there is none: the CUDA runtime as far as
 * src/gpu uses it, and kernels compiled as C++ (include/gpu/start.cuh). It is made to find faults,
 * not to be fast:
 *
 *   device.c   devices, errors
 *   memory.c   device memory: every allocation between two pages that nobody may touch, filled with
 *              NaN; no page of it can be read or written but by the device at work
 *   stream.c   work is put off until the host waits for it, and host memory that a copy will write
 *              is NaN until then
 *   block.c    a block's threads as fibers, in an order that changes with the seed; barriers, warps
 *   shared.c   memory of a block, filled with NaN, and copies to it that arrive when waited for
 *   arrival.c  copies to it by the copy engine
 *   matrix.c   products of small matrices by a warp
 *   group.c    products of matrices by four warps, which run beside them
 *   fiber.c    switching stacks
 *   watch.c    accesses of kernels compiled to be watched: where they reach, and races
 *
 * A fault that a GPU would not report, or would report as one of its own (a barrier that not all
 * threads reach, an access outside an allocation), is told on stderr with the kernel, block and
 * thread, and ends the process.
 *
 * The environment sets it up: CUDASIM_DEVICES, compute capabilities of the devices, separated by
 * commas (default "9.0"; empty: none); CUDASIM_MEMORY, bytes of each (default 4 GiB); CUDASIM_SEED,
 * of the order of threads and blocks (default 1); CUDASIM_FAULT, what is broken (default: nothing):
 * with "wgmma" or "mma" these take columns for each other, with "wgmma-trap" or "mma-trap" they are
 * illegal instructions, with "launch:FILE" no kernel of a source file of that name can be started,
 * with "cublas" there is no handle of it, with "eigh" eigendecompositions are refused, with
 * "eigh-size" the workspace of one is.
 *
 * One thread of the host uses it at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sim_size {
    unsigned x, y, z;
};

/* ---- limits of every device of compute capability 7.5 and later ---- */

#define SIM_WARP 32
#define SIM_BLOCK_MAX 1024
#define SIM_GRID_X_MAX 2147483647u
#define SIM_GRID_YZ_MAX 65535u
#define SIM_BLOCK_Z_MAX 64
#define SIM_STATIC_MAX ((size_t)48 << 10)
#define SIM_SHARED_MAX ((size_t)227 << 10) /* the most there is: sim_shared_max */
#define SIM_PARAMETERS_MAX 4096

/* ---- device.c ---- */

void sim_fault(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Remembers the error for cudaGetLastError and returns it. */
int sim_error(int status);
/* The device at work got an error that it does not recover from: what waits for it is not done, and
 * every later call gives that error. */
void sim_break(int status);
bool sim_is_broken(int device);
/* Whether CUDASIM_FAULT is that. */
bool sim_has_fault(const char *name);
bool sim_cannot_start(const char *file);
int sim_current_device(void);
int sim_device_count(void);
/* Ten times the device's compute capability. */
int sim_capability(int device);
/* Of a block's shared memory on a device; asked for kernel by kernel above 48 KiB. */
size_t sim_shared_max(int device);
int64_t sim_seed(void);
/* A number of the process's sequence, which the seed begins. */
uint64_t sim_random(void);

/* ---- memory.c ---- */

/* NULL when the device has not that much left. */
void *sim_memory_new(int device, size_t bytes);
void sim_memory_free(void *data);
size_t sim_memory_left(int device);
size_t sim_memory_total(void);
/* True for every address of device memory, given out or not. */
bool sim_memory_is_device(const void *data);
/* All the bytes lie in one live allocation of the device. */
bool sim_memory_holds(int device, const void *data, size_t bytes);
/* Between these two the memory of this device, and only that, can be used. leave checks what lies
 * between allocations. */
void sim_memory_enter(int device);
void sim_memory_leave(void);
/* The one between them. */
int sim_working_device(void);

struct sim_units;
/* True for bytes within a live allocation; which units they are (watch.c), from an offset on. */
bool sim_memory_units(const void *at, size_t bytes, struct sim_units **ret, size_t *ret_offset);

/* ---- stream.c ---- */

/* Puts work on a stream (a cudaStream_t): `run` is called with a copy of the argument's bytes when
 * somebody waits for it. Returns a cudaError_t. */
int sim_stream_push(void *stream, void (*run)(void *argument), const void *argument, size_t bytes);
/* Waits for all streams of a device. */
void sim_streams_finish(int device);

/* ---- block.c ---- */

/* A kernel as it is started; `run` calls it with its arguments, which lie behind the launch. */
struct sim_launch {
    const char *what; /* its text in the source */
    const char *file;
    int line;
    void (*run)(const struct sim_launch *launch);
    const void *kernel;
    struct sim_size grid, block;
    size_t dynamic_bytes;
    const void *arguments;
    size_t arguments_bytes;
};

/* From a launch to its arguments, aligned for all types. */
#define SIM_LAUNCH_BYTES ((sizeof(struct sim_launch) + 15) / 16 * 16)

/* Checks the limits and puts it on the stream. Returns cudaGetLastError(). */
int sim_start(const struct sim_launch *launch, void *stream);
/* Lets a kernel have more dynamic shared memory than 48 KiB. */
int sim_allow_dynamic(const void *kernel, size_t bytes);

/* The thread that runs: threadIdx, blockIdx, blockDim and gridDim. */
struct sim_place {
    struct sim_size thread, block, block_size, grid_size;
};
extern struct sim_place sim_place;
/* Where it is, for messages; false outside of kernels. */
bool sim_where(char *text, size_t bytes);

/* The thread that runs, as watch.c knows it: block and thread in order, and the number of barriers
 * so far, of blocks and of its warp. */
struct sim_use {
    uint32_t block, epoch;
    uint16_t thread, warp_epoch;
};
/* Returns the number of the launch, from 1 on. */
uint32_t sim_now(struct sim_use *ret);
/* The number of the block among all that have begun, from 1 on. */
uint32_t sim_block_begun(void);
/* Whether a kernel's own code runs, not what brings it its arguments. */
bool sim_watched(void);
void sim_begin_watch(void);

void sim_barrier(void);
/* Counts a barrier of the warp. */
void sim_warp_barrier(void);
/* The lanes of `mask` wait for each other; the last one calls `act`, once, with what each lane
 * brought (NULL where the lane is not in the mask). What is named otherwise in another lane does
 * not meet. */
void sim_together(unsigned mask, const char *name, void *mine,
                  void (*act)(void **lanes, unsigned mask));

/* As sim_together, of a group of four warps. `act` gets each thread's `mine`. */
#define SIM_GROUP 128
void sim_group_together(const char *name, void *mine, void (*act)(void **threads));

/* What a thread has begun with its group, and knows of it (group.c). */
struct sim_group_thread {
    struct sim_pending *pending; /* products whose registers nobody may touch */
    size_t count, room;
    int64_t group;   /* of those to come */
    uint32_t fences; /* shared_fence() so far, from 1 on */
    bool fenced;     /* no register was touched since group_fence() */
};
struct sim_group_thread *sim_group_thread(void);
/* Of any thread of the block, by its number. */
uint32_t sim_fences_of(unsigned thread);
unsigned sim_thread_number(void);

long long sim_atomic_min(long long *at, long long value);

/* ---- shared.c ---- */

void sim_shared_begin(size_t dynamic_bytes);
/* Checks what lies between its parts. */
void sim_shared_end(void);
/* The block's memory for `key`, NaN when the block first asks for it. */
void *sim_shared(const void *key, size_t bytes, size_t align);
void *sim_dynamic_shared(void);
bool sim_shared_holds(const void *data, size_t bytes);
/* From the begin of all shared memory, which the second gives back; `at` is of it. */
size_t sim_shared_offset(const void *at);
const void *sim_shared_at(size_t offset);
#define SIM_SHARED_SPACE ((size_t)320 << 10) /* no offset is as large */
/* As sim_memory_units; what lies beside the block's parts is a fault. */
bool sim_shared_units(const void *at, size_t bytes, struct sim_units **ret, size_t *ret_offset);

/* Copies to shared memory that arrive when their thread waits for them; until then what they will
 * replace is NaN. */
struct sim_copies {
    struct sim_copy *list;
    size_t count, room;
    int64_t group;
};
struct sim_copies *sim_thread_copies(void);
void sim_copy_async(void *to, const void *from, size_t bytes, size_t zeros);
void sim_copy_commit(void);
/* Until at most `pending` of the thread's last groups are on their way. */
void sim_copy_wait(size_t pending);

/* ---- arrival.c ---- */

/* Copies by the copy engine, which come in turns (src/gpu/warpgroup.cuh); until they are waited for
 * what they replace is NaN. */
void sim_arrivals_begin(void);
/* A fault where a copy was never waited for. */
void sim_arrivals_end(void);
void sim_arrival_begin(void *arrival);
void sim_arrivals_fence(void);
void sim_arrival_expect(void *arrival, size_t bytes);
void sim_arrival_copy(void *to, const void *from, size_t bytes, void *arrival);
void sim_arrival_wait(void *arrival, int parity);

/* ---- matrix.c ---- */

/* To the nearest, even ones first, and back. */
uint16_t sim_float16_bits(float x);
float sim_float16_value(uint16_t bits);

/* What a lane holds of A, B and C (src/gpu/matrix.cuh). */
struct sim_matrix {
    uint32_t a[4], b[2];
    float c[4];
};
/* C += A B for all lanes of a warp: float16 where k is 16, tf32 where it is 8. */
void sim_add_product(int k, struct sim_matrix *const lanes[SIM_WARP]);

/* The same in float64, with k = 4. */
struct sim_matrix_f64 {
    double a[2], b, c[4];
};
void sim_add_product_f64(struct sim_matrix_f64 *const lanes[SIM_WARP]);

/* One sum of products in the way drawn: sum + a . b of k numbers, k at most 16, in the order into
 * which sim_order_numbers has brought them. */
void sim_order_numbers(const float *numbers, int k, double *ret);
float sim_inner_product(float sum, const double *a, const double *b, int k);

/* ---- group.c ---- */

/* What a thread brings to C <- -A B, or C - A B, by its group (src/gpu/warpgroup.cuh). */
struct sim_group_product {
    float *c;
    uint64_t a, b; /* the descriptors */
    bool adds;
    int registers; /* of C: half the columns of B, 64 or 128 */
};
void sim_group_multiply(const struct sim_group_product *product);
void sim_group_fence(void);
void sim_group_commit(void);
void sim_group_wait(int64_t pending);
/* As a descriptor has it. */
uint64_t sim_group_address(const void *at);
void sim_shared_fence(void);
void sim_group_thread_ends(void);
/* A thread wrote shared memory. */
void sim_group_note_write(const void *at, size_t bytes);
/* The copy engine did, whole pieces of 16 bytes. */
void sim_group_note_copy(const void *at, size_t bytes);
void sim_group_block_begins(void);

/* ---- fiber.c ---- */

struct sim_fiber;
/* `body` never returns. */
struct sim_fiber *sim_fiber_new(void (*body)(void));
/* From the scheduler to a fiber, and back. */
void sim_fiber_resume(struct sim_fiber *fiber);
void sim_fiber_yield(void);
/* The address is on the stack of the one that runs. */
bool sim_fiber_holds(const void *at);

/* ---- watch.c ---- */

struct sim_units *sim_units_new(size_t bytes);
/* An access of the thread that runs. */
void sim_watch(const void *at, size_t bytes, bool write);

/* ---- device.c ---- */

/* The address is of the program's own read-only data. */
bool sim_constant(const void *at);

#ifdef __cplusplus
}
#endif
