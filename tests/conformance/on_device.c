/*
 * on_device PROGRAM [ARGUMENT ...] runs a test program where the device named by KRR_DEVICE opens.
 * Where this machine lacks it, the reason is printed and the exit status 77 means "skipped"; a
 * device that is there and fails to open is a failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance/providers.h"

#define SKIPPED 77

int main(int argc, char **argv)
{
    const char *device = getenv("KRR_DEVICE");
    struct backend *be = NULL;
    struct err err = {0};
    if (argc < 2 || device == NULL) {
        fputs("usage: KRR_DEVICE=name on_device PROGRAM [ARGUMENT ...]\n", stderr);
        return 2;
    }
    const int rc = backend_open(test_providers, device, 0, &be, &err);
    if (rc < 0) {
        printf("%s: %s\n", rc == -ERR_UNSUPPORTED ? "skipped" : device, err.detail);
        return rc == -ERR_UNSUPPORTED ? SKIPPED : 1;
    }
    backend_close(be);
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
