/* In the place of src/gpu/start.cuh, for kernels that run in the simulator: the same functions. */
#pragma once

#include <tuple>
#include <type_traits>

#include "cudasim/kernel.h"

#define APART inline

template <class... P> void sim_run(const struct sim_launch *launch)
{
    const auto kernel = (void (*)(P...))launch->kernel;
    std::apply(
        [kernel](P... arguments) {
            sim_begin_watch();
            kernel(arguments...);
        },
        *(const std::tuple<P...> *)launch->arguments);
}

template <class... P, class... A>
int sim_start_kernel(const char *file, int line, const char *what, void (*kernel)(P...), dim3 grid,
                     dim3 block, size_t dynamic_bytes, void *stream, const A &...given)
{
    static_assert((std::is_trivially_copyable_v<P> && ...), "CUDA copies the bytes of arguments");
    static_assert((sizeof(P) + ... + 0) <= SIM_PARAMETERS_MAX, "too many bytes of arguments");
    const std::tuple<P...> arguments(given...);
    struct sim_launch launch = {};
    launch.what = what;
    launch.file = file;
    launch.line = line;
    launch.run = sim_run<P...>;
    launch.kernel = (const void *)kernel;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_bytes = dynamic_bytes;
    launch.arguments = &arguments;
    launch.arguments_bytes = sizeof arguments;
    return sim_start(&launch, stream);
}

/* A macro, because only it knows what the kernel is called. */
#define start(...) sim_start_kernel(__FILE__, __LINE__, #__VA_ARGS__, __VA_ARGS__)

template <class T> T &shared()
{
    static const char key = 0;
    return *(T *)sim_shared(&key, sizeof(T), alignof(T));
}

template <class T> T *dynamic_shared()
{
    return (T *)sim_dynamic_shared();
}
