#include "engine/memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/mem.h"

enum { LINE_SIZE = 4096 };

/* The first number behind `key` at the start of a line; key "" takes the first line. -1: none. */
static int64_t read_number(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return -1;
    }
    char line[LINE_SIZE];
    int64_t value = -1;
    const size_t len = strlen(key);
    while (value < 0 && fgets(line, sizeof(line), f) != NULL) {
        char *end = NULL;
        if (strncmp(line, key, len) == 0) {
            const long long v = strtoll(line + len, &end, 10);
            value = end != line + len && v >= 0 ? (int64_t)v : -1;
        }
        if (len == 0) {
            break;
        }
    }
    fclose(f);
    return value;
}

/* What a control group's folder leaves free: limit - use, where file cache that can be dropped does
 * not count as use. INT64_MAX without a limit ("max" in version 2, a huge number in version 1). */
static int64_t group_available(const char *folder, bool v2)
{
    char path[LINE_SIZE + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    const int64_t limit = read_number(path, "");
    snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    const int64_t use = read_number(path, "");
    if (limit < 0 || use < 0) {
        return INT64_MAX;
    }
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    const int64_t cache = read_number(path, v2 ? "inactive_file " : "total_inactive_file ");
    const int64_t used = cache > 0 && cache < use ? use - cache : use;
    return limit > used ? limit - used : 0;
}

/* The smallest room among the group at root/path and its ancestors. Inside a container the path may
 * name folders that are not there: they set no limit. */
static int64_t groups_available(const char *root, const char *path, bool v2)
{
    char folder[LINE_SIZE + 32];
    snprintf(folder, sizeof(folder), "%s%s", root, path);
    int64_t room = INT64_MAX;
    for (;;) {
        const int64_t here = group_available(folder, v2);
        room = here < room ? here : room;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || strlen(folder) <= strlen(root)) {
            return room;
        }
        *slash = '\0';
    }
}

static int64_t cgroup_available(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (f == NULL) {
        return INT64_MAX;
    }
    char line[LINE_SIZE];
    int64_t room = INT64_MAX;
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        int64_t here = INT64_MAX;
        const char *v1 = strstr(line, ":memory:");
        if (strncmp(line, "0::", 3) == 0) {
            here = groups_available("/sys/fs/cgroup", line + 3, true);
        } else if (v1 != NULL) {
            here = groups_available("/sys/fs/cgroup/memory", v1 + strlen(":memory:"), false);
        }
        room = here < room ? here : room;
    }
    fclose(f);
    return room;
}

/* What a limit of the process leaves of `used` KiB; mapped files count for the address space only.
 */
static int64_t limit_available(int resource, const char *used)
{
    struct rlimit limit;
    const int64_t kib = read_number("/proc/self/status", used);
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur > (rlim_t)INT64_MAX || kib < 0) {
        return INT64_MAX;
    }
    const int64_t room = (int64_t)limit.rlim_cur - 1024 * kib;
    return room > 0 ? room : 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t memory_available(void)
{
    const int64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    const int64_t host = kib < 0 ? INT64_MAX : kib * 1024;
    const int64_t own =
        least(limit_available(RLIMIT_AS, "VmSize:"), limit_available(RLIMIT_DATA, "VmData:"));
    return least(own, least(host, cgroup_available()));
}

int64_t memory_available_on(struct backend *be)
{
    return be->ops->memory_available != NULL ? be->ops->memory_available(be) : INT64_MAX;
}

int64_t memory_cache_budget(struct backend *be, int64_t asked)
{
    const int64_t room = memory_available_on(be);
    if (asked < 0) {
        return room < INT64_MAX ? room / 4 : 0;
    }
    return asked < room / 2 ? asked : room / 2;
}

int64_t memory_matrix_bytes(int64_t rows, int64_t cols, enum dtype dtype)
{
    int64_t bytes;
    if (__builtin_mul_overflow(rows, cols, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)dtype_size(dtype), &bytes)) {
        return INT64_MAX;
    }
    return bytes;
}

int memory_check_matrix(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                        const char *what, struct err *err)
{
    const int64_t bytes = memory_matrix_bytes(rows, cols, dtype);
    const int64_t room = memory_available_on(be);
    if (bytes < INT64_MAX && bytes <= room) {
        return 0;
    }
    return err_set(err, ERR_NO_MEMORY,
                   "The %s needs a %" PRId64 " x %" PRId64
                   " matrix (%.1f GB in %s), and %.1f GB are available.",
                   what, rows, cols, (double)rows * (double)cols * (double)dtype_size(dtype) / 1e9,
                   dtype_name(dtype), (double)room / 1e9);
}

int memory_check_pair(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                      int64_t more_rows, int64_t more_cols, enum dtype more_dtype, const char *what,
                      struct err *err)
{
    const int64_t bytes = memory_matrix_bytes(rows, cols, dtype);
    const int64_t more = memory_matrix_bytes(more_rows, more_cols, more_dtype);
    const int64_t room = memory_available_on(be);
    int64_t sum;
    if (!__builtin_add_overflow(bytes, more, &sum) && sum < INT64_MAX && sum <= room) {
        return 0;
    }
    return err_set(err, ERR_NO_MEMORY,
                   "The %s needs a %" PRId64 " x %" PRId64 " matrix (%.1f GB in %s) and a %" PRId64
                   " x %" PRId64 " one (%.1f GB in %s), and %.1f GB are available.",
                   what, rows, cols, (double)rows * (double)cols * (double)dtype_size(dtype) / 1e9,
                   dtype_name(dtype), more_rows, more_cols,
                   (double)more_rows * (double)more_cols * (double)dtype_size(more_dtype) / 1e9,
                   dtype_name(more_dtype), (double)room / 1e9);
}

void memory_peak_reset(void)
{
    mem_trim(); /* what earlier jobs have freed is not this one's */
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (f != NULL) {
        fputs("5", f); /* proc(5): sets VmHWM to the present resident size */
        fclose(f);
    }
}

int64_t memory_peak_bytes(void)
{
    const int64_t kib = read_number("/proc/self/status", "VmHWM:");
    if (kib >= 0) {
        return kib * 1024;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}
