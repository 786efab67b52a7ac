#include "gpu/backend_cuda.h"
#include "gpu/providers.h"

static const struct backend_provider *const providers[] = {&backend_cuda_provider,
                                                           &backend_cpu_provider, NULL};

const struct backend_provider *const *gpu_providers(void)
{
    return providers;
}
