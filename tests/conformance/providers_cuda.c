#include "conformance/providers.h"
#include "gpu/backend_cuda.h"

const struct backend_provider *const test_providers[] = {&backend_cuda_provider,
                                                         &backend_cpu_provider, NULL};
