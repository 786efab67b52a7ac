/*
 * How a kernel is started, and how its threads get memory that the block shares: the two things
 * that CUDA has a syntax for. The rest of the .cu files is C++ besides CUDA's functions, so they
 * can be built for a host too, where another file stands in the place of this one.
 */
#pragma once

/* Of a function that is called, never compiled into others. */
#define APART __noinline__

/* Puts the kernel on the stream (a cudaStream_t); returns cudaGetLastError(). The arguments are
 * copied before it returns. */
template <class... Parameters, class... Arguments>
int start(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t dynamic_bytes,
          void *stream, const Arguments &...arguments)
{
    kernel<<<grid, threads, dynamic_bytes, (cudaStream_t)stream>>>(arguments...);
    return cudaGetLastError();
}

/* Memory of the block for one T, uninitialised: the same for all threads of a block and for all
 * calls with this T. */
template <class T> __device__ T &shared()
{
    __shared__ T memory;
    return memory;
}

/* The start's `dynamic_bytes`, aligned for every type; more than 48 KiB in all must be asked for by
 * cudaFuncSetAttribute before. */
template <class T> __device__ T *dynamic_shared()
{
    extern __shared__ __align__(16) unsigned char dynamic_memory[];
    return (T *)dynamic_memory;
}
