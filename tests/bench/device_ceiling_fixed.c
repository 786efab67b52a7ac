/* In the place of bench/device_ceiling.cu: figures that are known, where the environment asks for
 * any. */
#include <stdlib.h>

#include "bench/device_ceiling.h"

static int measure(const char *without, struct device_ceiling *ret, struct err *err)
{
    (void)err;
    *ret = (struct device_ceiling){.fma32 = 128e9, .fma64 = 64e9, .ex2 = 16e9, .copy_bytes = 15e9};
    if (without == NULL) {
        ret->tensor16 = 2048e9;
        ret->tensor64 = 128e9;
    }
    return 0;
}

device_ceiling_fn *device_ceiling_measurer(void)
{
    return getenv("KRRD_TEST_DEVICE_CEILING") != NULL ? measure : NULL;
}
