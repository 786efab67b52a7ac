/* The backends this build of the tests is linked with; NULL-terminated. */
#pragma once

#include "engine/backend.h"

extern const struct backend_provider *const test_providers[];
