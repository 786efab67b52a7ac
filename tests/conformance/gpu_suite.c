/*
 * gpu-suite TEST [PATTERN] runs one of the conformance tests where the device named by KRR_DEVICE
 * opens (default cuda). Where this machine lacks it, the reason is printed and the exit status 77
 * means "skipped"; a device that is there and fails to open is a failure. gpu-suite --list names
 * the tests.
 *
 * GPU_SUITE is an ENTRY for each test; its main function has the name run_TEST here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/providers.h"

#define SKIPPED 77

#define ENTRY(name) int run_##name(int argc, char **argv);
GPU_SUITE
#undef ENTRY

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} tests[] = {
#define ENTRY(name) {#name, run_##name},
    GPU_SUITE
#undef ENTRY
};
enum { TESTS = sizeof tests / sizeof *tests };

static int list(void)
{
    for (int i = 0; i < TESTS; i++) {
        puts(tests[i].name);
    }
    return 0;
}

/* 0 where the device opens. */
static int try_device(const char *device)
{
    struct backend *be = NULL;
    struct err err = {0};
    const int rc = backend_open(test_providers, device, 0, &be, &err);
    if (rc == 0) {
        backend_close(be);
        return 0;
    }
    printf("%s: %s\n", rc == -ERR_UNSUPPORTED ? "skipped" : device, err.detail);
    return rc == -ERR_UNSUPPORTED ? SKIPPED : 1;
}

int main(int argc, char **argv)
{
    setenv("KRR_DEVICE", "cuda", 0);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list();
    }
    for (int i = 0; argc > 1 && i < TESTS; i++) {
        if (strcmp(argv[1], tests[i].name) == 0) {
            const int rc = try_device(getenv("KRR_DEVICE"));
            return rc != 0 ? rc : tests[i].run(argc - 1, argv + 1);
        }
    }
    fputs("usage: gpu-suite TEST [PATTERN], or --list\n", stderr);
    return 2;
}
