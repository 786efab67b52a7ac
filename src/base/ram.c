#include "base/ram.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What a control group's folder allows: its limit, or with `left` what that leaves free, where file
 * cache that can be dropped does not count as use. INT64_MAX without a limit ("max" in version 2, a
 * huge number in version 1). */
static int64_t group_room(const char *folder, bool v2, bool left)
{
    char path[LINE_SIZE + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    const int64_t limit = read_number(path, "");
    if (limit < 0 || !left) {
        return limit < 0 ? INT64_MAX : limit;
    }
    snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    const int64_t use = read_number(path, "");
    if (use < 0) {
        return INT64_MAX;
    }
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    /* What the kernel gives back as soon as somebody wants it. */
    const int64_t idle = read_number(path, v2 ? "inactive_file " : "total_inactive_file ");
    const int64_t warm = read_number(path, v2 ? "active_file " : "total_active_file ");
    const int64_t cache = (idle > 0 ? idle : 0) + (warm > 0 ? warm : 0);
    const int64_t used = cache < use ? use - cache : 0;
    return limit > used ? limit - used : 0;
}

int64_t ram_groups_room(const char *root, const char *path, bool v2, bool left)
{
    char folder[LINE_SIZE + 32];
    snprintf(folder, sizeof(folder), "%s%s", root, path);
    int64_t room = INT64_MAX;
    for (;;) {
        room = least(room, group_room(folder, v2, left));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || strlen(folder) <= strlen(root)) {
            return room;
        }
        *slash = '\0';
    }
}

static int64_t cgroup_room(bool left)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (f == NULL) {
        return INT64_MAX;
    }
    char line[LINE_SIZE];
    int64_t room = INT64_MAX;
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *v1 = strstr(line, ":memory:");
        if (strncmp(line, "0::", 3) == 0) {
            room = least(room, ram_groups_room("/sys/fs/cgroup", line + 3, true, left));
        } else if (v1 != NULL) {
            const char *path = v1 + strlen(":memory:");
            room = least(room, ram_groups_room("/sys/fs/cgroup/memory", path, false, left));
        }
    }
    fclose(f);
    return room;
}

/* INT64_MAX: none. */
static int64_t process_limit(int resource)
{
    struct rlimit limit;
    const bool none = getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
                      limit.rlim_cur > (rlim_t)INT64_MAX;
    return none ? INT64_MAX : (int64_t)limit.rlim_cur;
}

/* What a limit of the process leaves of `used` KiB; mapped files count for the address space only.
 */
static int64_t limit_available(int resource, const char *used)
{
    const int64_t limit = process_limit(resource);
    const int64_t kib = read_number("/proc/self/status", used);
    if (limit == INT64_MAX || kib < 0) {
        return INT64_MAX;
    }
    return limit > 1024 * kib ? limit - 1024 * kib : 0;
}

int64_t ram_available(void)
{
    const int64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    const int64_t host = kib < 0 ? INT64_MAX : kib * 1024;
    const int64_t own =
        least(limit_available(RLIMIT_AS, "VmSize:"), limit_available(RLIMIT_DATA, "VmData:"));
    return least(own, least(host, cgroup_room(true)));
}

int64_t ram_limit(void)
{
    const int64_t kib = read_number("/proc/meminfo", "MemTotal:");
    const int64_t host = kib < 0 ? INT64_MAX : kib * 1024;
    return least(least(process_limit(RLIMIT_AS), process_limit(RLIMIT_DATA)),
                 least(host, cgroup_room(false)));
}

bool ram_huge_pages(void)
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char line[LINE_SIZE] = "";
    if (f != NULL) {
        if (fgets(line, sizeof(line), f) == NULL) {
            line[0] = '\0';
        }
        fclose(f);
    }
    return strstr(line, "[always]") != NULL;
}

int64_t ram_resident(void)
{
    const int64_t kib = read_number("/proc/self/status", "VmRSS:");
    return kib < 0 ? 0 : kib * 1024;
}

int64_t ram_resident_of(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    const int64_t kib = read_number(path, "VmRSS:");
    return kib < 0 ? 0 : kib * 1024;
}

int64_t ram_available_within(int64_t limit)
{
    const int64_t room = ram_available();
    if (limit <= 0) {
        return room;
    }
    const int64_t left = limit - ram_resident();
    return left < 0 ? 0 : least(room, left);
}

void ram_peak_reset(void)
{
    mem_trim(); /* what earlier jobs have freed is not this one's */
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (f != NULL) {
        fputs("5", f); /* proc(5): sets VmHWM to the present resident size */
        fclose(f);
    }
}

int64_t ram_peak(void)
{
    const int64_t kib = read_number("/proc/self/status", "VmHWM:");
    if (kib >= 0) {
        return kib * 1024;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}
