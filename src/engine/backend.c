#include "engine/backend.h"

#include <stdlib.h>
#include <string.h>

#include "engine/group/backend_group.h"

#define ORDINAL_MAX 1023

struct device_name {
    size_t length; /* of what stands before the colon */
    int ordinals[BACKEND_GROUP_MAX];
    int count;
};

/* One number of a list; *at moves behind it. */
static bool read_ordinal(const char **at, struct device_name *to)
{
    const size_t count = strspn(*at, "0123456789");
    if (count == 0 || count > 4 || to->count == BACKEND_GROUP_MAX) {
        return false;
    }
    const long ordinal = strtol(*at, NULL, 10);
    *at += count;
    if (ordinal > ORDINAL_MAX || (to->count > 0 && (int)ordinal <= to->ordinals[to->count - 1])) {
        return false;
    }
    to->ordinals[to->count++] = (int)ordinal;
    return true;
}

/* "cuda:1,2" -> a name of 4 characters with 1 and 2; "cuda" is "cuda:0". */
static int parse_device(const char *device, struct device_name *ret, struct err *err)
{
    *ret = (struct device_name){.length = strcspn(device, ":")};
    const char *at = device + ret->length;
    bool valid = ret->length > 0;
    if (*at == '\0') {
        ret->count = 1;
        return valid ? 0
                     : err_at(err, ERR_INVALID, "#/device", "There is no device without a name.");
    }
    do {
        at++;
        valid = valid && read_ordinal(&at, ret);
    } while (valid && *at == ',');
    return valid && *at == '\0'
               ? 0
               : err_at(err, ERR_INVALID, "#/device",
                        "\"%.60s\" is no device: that is a name, or a name with one number as in "
                        "cuda:1, or with up to %d of them, ascending, as in cuda:0,1.",
                        device, BACKEND_GROUP_MAX);
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

static int open_group(const struct backend_provider *provider, const struct device_name *name,
                      int threads, struct backend **ret, struct err *err)
{
    struct backend *members[BACKEND_GROUP_MAX] = {NULL};
    int rc = 0;
    for (int i = 0; rc == 0 && i < name->count; i++) {
        rc = provider->open(name->ordinals[i], threads, &members[i], err);
    }
    if (rc == 0) {
        rc = backend_group_new(members, name->count, BACKEND_GROUP_VALUES, ret, err);
    }
    for (int i = 0; rc < 0 && i < name->count; i++) {
        backend_close(members[i]);
    }
    return rc;
}

int backend_open(const struct backend_provider *const *providers, const char *device, int threads,
                 struct backend **ret, struct err *err)
{
    if (strcmp(device, "auto") == 0) {
        return open_first(providers, threads, ret, err);
    }
    struct device_name name;
    const int rc = parse_device(device, &name, err);
    if (rc < 0) {
        return rc;
    }
    const struct backend_provider *provider = find_provider(providers, device, name.length);
    if (provider == NULL) {
        return err_at(err, ERR_UNSUPPORTED, "#/device",
                      "This program was built without a backend for the device \"%.60s\".", device);
    }
    return name.count == 1 ? provider->open(name.ordinals[0], threads, ret, err)
                           : open_group(provider, &name, threads, ret, err);
}

struct backend *backend_close(struct backend *be)
{
    if (be != NULL) {
        be->ops->close(be);
    }
    return NULL;
}

bool sign_sketch_valid(const struct sign_sketch *phi, int64_t columns)
{
    const int z = phi->block, c = phi->copies;
    bool valid = phi->rows >= 0 && z >= 1 && (z & (z - 1)) == 0 && c >= 1 &&
                 z <= SIGN_NUMBERS_MAX && c <= SIGN_NUMBERS_MAX / z && phi->lead >= 0 &&
                 phi->lead < z;
    const int64_t blocks = valid && columns > 0 ? (phi->lead + columns + z - 1) / z : 0;
    for (int64_t i = 0; valid && i < blocks * z * c; i++) {
        valid = phi->index[i] >= -1 && phi->index[i] < phi->rows;
    }
    return valid;
}

struct sign_sketch sign_sketch_part(const struct sign_sketch *phi, int64_t first)
{
    const int64_t z = phi->block, block = (phi->lead + first) / z;
    struct sign_sketch part = *phi;
    part.lead = (int)((phi->lead + first) % z);
    part.index += block * sign_sketch_numbers(phi);
    part.sign += block * sign_sketch_numbers(phi);
    part.flip += block * z;
    return part;
}

struct sign_entry sign_sketch_entry(const struct sign_sketch *phi, int64_t column, int k)
{
    const int64_t i = phi->lead + column, at = i / phi->block * sign_sketch_numbers(phi) + k;
    const unsigned both = (unsigned)(i % phi->block) & (unsigned)(k / phi->copies);
    const int sign = phi->sign[at] * phi->flip[i];
    return (struct sign_entry){.row = phi->index[at],
                               .negative = (sign < 0) != (__builtin_popcount(both) % 2 != 0)};
}
