#include "conformance/providers.h"

const struct backend_provider *const test_providers[] = {&backend_cpu_provider, NULL};
