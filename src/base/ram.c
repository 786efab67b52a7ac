#include "base/ram.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/minmax.h"

/* Of a path, and of a file of the kernel's that is read whole. */
enum { LINE_SIZE = 4096, FILE_SIZE = 16384 };

/* Its beginning as text; false: it cannot be read. One call reads the files of /proc and /sys
 * as a whole: the daemon looks at some for every job. */
static bool read_file(const char *path, char text[FILE_SIZE])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t len = 0;
    ssize_t got;
    while ((got = read(fd, text + len, FILE_SIZE - 1 - len)) > 0) {
        len += (size_t)got;
    }
    close(fd);
    text[len] = '\0';
    return got == 0 || len > 0;
}

/* The first number behind `key` at the start of a line; key "" takes the first line. -1: none. */
static int64_t number_in(const char *text, const char *key)
{
    const size_t len = strlen(key);
    while (text != NULL && *text != '\0') {
        char *end = NULL;
        const long long v = strncmp(text, key, len) == 0 ? strtoll(text + len, &end, 10) : -1;
        if ((end != NULL && end != text + len && v >= 0) || len == 0) {
            return end != text + len && v >= 0 ? (int64_t)v : -1;
        }
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return -1;
}

static int64_t read_number(const char *path, const char *key)
{
    char text[FILE_SIZE];
    return read_file(path, text) ? number_in(text, key) : -1;
}

/* What may be used, and what of that is still free. INT64_MAX: no limit. */
struct room {
    int64_t limit, left;
};

static struct room no_room(void)
{
    return (struct room){.limit = INT64_MAX, .left = INT64_MAX};
}

static struct room narrower(struct room a, struct room b)
{
    return (struct room){min_i64(a.limit, b.limit), min_i64(a.left, b.left)};
}

/* Of a control group's use what the kernel gives back as soon as somebody wants it. */
static int64_t group_cache(const char *folder, bool v2)
{
    char path[LINE_SIZE + 64], text[FILE_SIZE];
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    if (!read_file(path, text)) {
        return 0;
    }
    const int64_t idle = number_in(text, v2 ? "inactive_file " : "total_inactive_file ");
    const int64_t warm = number_in(text, v2 ? "active_file " : "total_active_file ");
    return (idle > 0 ? idle : 0) + (warm > 0 ? warm : 0);
}

/* What a control group's folder allows; file cache that can be dropped does not count as use.
 * There is no limit where it is "max" in version 2, a huge number in version 1. What cannot be less
 * than the host's is not looked at, for the kernel takes long to sum a group up: whatever a group
 * uses the host has less of. */
static struct room group_room(const char *folder, bool v2, const struct room *host)
{
    char path[LINE_SIZE + 64];
    struct room room = no_room();
    snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    const int64_t limit = read_number(path, "");
    if (limit < 0) {
        return room;
    }
    room.limit = limit;
    if (limit >= host->limit && host->limit < INT64_MAX) {
        return room;
    }
    snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    const int64_t use = read_number(path, "");
    if (use >= 0) {
        const bool scarce = limit - use < host->left;
        const int64_t cache = scarce ? group_cache(folder, v2) : 0;
        const int64_t used = cache < use ? use - cache : 0;
        room.left = limit > used ? limit - used : 0;
    }
    return room;
}

static struct room groups_room(const char *root, const char *path, bool v2, const struct room *host)
{
    char folder[LINE_SIZE + 32];
    snprintf(folder, sizeof(folder), "%s%s", root, path);
    struct room room = no_room();
    for (;;) {
        room = narrower(room, group_room(folder, v2, host));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || strlen(folder) <= strlen(root)) {
            return room;
        }
        *slash = '\0';
    }
}

int64_t ram_groups_room(const char *root, const char *path, bool v2, bool left)
{
    const struct room none = no_room(), room = groups_room(root, path, v2, &none);
    return left ? room.left : room.limit;
}

static struct room cgroup_room(const struct room *host)
{
    char text[FILE_SIZE];
    struct room room = no_room();
    if (!read_file("/proc/self/cgroup", text)) {
        return room;
    }
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *v1 = strstr(line, ":memory:");
        if (strncmp(line, "0::", 3) == 0) {
            room = narrower(room, groups_room("/sys/fs/cgroup", line + 3, true, host));
        } else if (v1 != NULL) {
            const char *path = v1 + strlen(":memory:");
            room = narrower(room, groups_room("/sys/fs/cgroup/memory", path, false, host));
        }
    }
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
static struct room limit_room(int resource, const char *used)
{
    struct room room = {.limit = process_limit(resource), .left = INT64_MAX};
    const int64_t kib = room.limit < INT64_MAX ? read_number("/proc/self/status", used) : -1;
    if (kib >= 0) {
        room.left = room.limit > 1024 * kib ? room.limit - 1024 * kib : 0;
    }
    return room;
}

static struct room host_room(void)
{
    char text[FILE_SIZE];
    struct room room = no_room();
    if (read_file("/proc/meminfo", text)) {
        const int64_t all = number_in(text, "MemTotal:"), left = number_in(text, "MemAvailable:");
        room.limit = all < 0 ? INT64_MAX : all * 1024;
        room.left = left < 0 ? INT64_MAX : left * 1024;
    }
    return room;
}

void ram_look(int64_t *ret_limit, int64_t *ret_available)
{
    const struct room own =
        narrower(limit_room(RLIMIT_AS, "VmSize:"), limit_room(RLIMIT_DATA, "VmData:"));
    const struct room host = host_room(), groups = cgroup_room(&host);
    const struct room room = narrower(own, narrower(host, groups));
    *ret_limit = room.limit;
    *ret_available = room.left;
}

int64_t ram_available(void)
{
    int64_t limit, available;
    ram_look(&limit, &available);
    return available;
}

int64_t ram_limit(void)
{
    int64_t limit, available;
    ram_look(&limit, &available);
    return limit;
}

bool ram_huge_pages(void)
{
    char text[FILE_SIZE];
    return read_file("/sys/kernel/mm/transparent_hugepage/enabled", text) &&
           strstr(text, "[always]") != NULL;
}

int64_t ram_resident(void)
{
    const int64_t kib = read_number("/proc/self/status", "VmRSS:");
    return kib < 0 ? 0 : kib * 1024;
}

static int64_t own_of(const char *status)
{
    const int64_t all = read_number(status, "VmRSS:"), file = read_number(status, "RssFile:");
    return all < 0 ? 0 : (file > 0 ? all - file : all) * 1024;
}

int64_t ram_own(void)
{
    return own_of("/proc/self/status");
}

int64_t ram_own_of(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    return own_of(path);
}

int64_t ram_available_within(int64_t limit)
{
    const int64_t room = ram_available();
    if (limit <= 0) {
        return room;
    }
    const int64_t left = limit - ram_own();
    return left < 0 ? 0 : min_i64(room, left);
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
