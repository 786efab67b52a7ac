/*
 * A worker that computes on the CPU and says that it is more: linked with
 * --wrap=plan_machine_write. KRRD_TEST_DEVICE_BYTES is the memory of its own that its device then
 * has, and KRRD_TEST_BALLAST_BYTES what its process takes of the host's from the start.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plan/machine.h"

void __real_plan_machine_write(const struct plan_machine *m, struct json *hello);
void __wrap_plan_machine_write(const struct plan_machine *m, struct json *hello);

static long long given(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

void __wrap_plan_machine_write(const struct plan_machine *m, struct json *hello)
{
    struct plan_machine said = *m;
    if (given("KRRD_TEST_DEVICE_BYTES") > 0) {
        said.own_memory = true;
        said.device_bytes = given("KRRD_TEST_DEVICE_BYTES");
    }
    __real_plan_machine_write(&said, hello);
}

__attribute__((constructor)) static void take_ballast(void)
{
    const size_t size = (size_t)given("KRRD_TEST_BALLAST_BYTES");
    if (size > 0) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            abort();
        }
        memset(p, 1, size);
    }
}
