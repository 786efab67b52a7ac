#include "engine/backend.h"

#include <stdlib.h>
#include <string.h>

#define ORDINAL_MAX 1023

/* "cuda:1" -> name of 4 characters and ordinal 1; "cuda" is "cuda:0". */
static int parse_device(const char *device, size_t *ret_name_length, int *ret_ordinal,
                        struct err *err)
{
    const size_t length = strcspn(device, ":");
    long ordinal = 0;
    if (device[length] == ':') {
        const char *digits = device + length + 1;
        const size_t count = strspn(digits, "0123456789");
        if (count == 0 || count > 4 || digits[count] != '\0') {
            return err_at(err, ERR_INVALID, "#/device",
                          "A device is a name, or a name with a number as in cuda:1.");
        }
        ordinal = strtol(digits, NULL, 10);
    }
    if (length == 0 || ordinal > ORDINAL_MAX) {
        return err_at(err, ERR_INVALID, "#/device", "There is no device named \"%.60s\".", device);
    }
    *ret_name_length = length;
    *ret_ordinal = (int)ordinal;
    return 0;
}

static int open_first(const struct backend_provider *const *providers, int threads,
                      struct backend **ret, struct err *err)
{
    int rc = err_at(err, ERR_UNSUPPORTED, "#/device", "This program has no device at all.");
    for (; *providers != NULL; providers++) {
        rc = (*providers)->open(0, threads, ret, err);
        if (rc == 0) {
            return 0;
        }
    }
    return rc;
}

static const struct backend_provider *find_provider(const struct backend_provider *const *providers,
                                                    const char *name, size_t length)
{
    for (; *providers != NULL; providers++) {
        if (strlen((*providers)->name) == length &&
            strncmp((*providers)->name, name, length) == 0) {
            return *providers;
        }
    }
    return NULL;
}

int backend_open(const struct backend_provider *const *providers, const char *device, int threads,
                 struct backend **ret, struct err *err)
{
    if (strcmp(device, "auto") == 0) {
        return open_first(providers, threads, ret, err);
    }
    size_t length = 0;
    int ordinal = 0;
    const int rc = parse_device(device, &length, &ordinal, err);
    if (rc < 0) {
        return rc;
    }
    const struct backend_provider *provider = find_provider(providers, device, length);
    if (provider == NULL) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "This program was built without a backend for the device \"%.60s\".", device);
    }
    return provider->open(ordinal, threads, ret, err);
}

struct backend *backend_close(struct backend *be)
{
    if (be != NULL) {
        be->ops->close(be);
    }
    return NULL;
}
