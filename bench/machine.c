#include "bench/machine.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#define PROC_MAX_BYTES (16u << 20)

/* What stands behind "key" and a colon on the first such line of a /proc file; NULL without one. */
static char *proc_value(const char *path, const char *key)
{
    cleanup_mem char *text = NULL;
    size_t len = 0;
    if (file_read_all(path, PROC_MAX_BYTES, &text, &len, NULL) < 0) {
        return NULL;
    }
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) != 0) {
            continue;
        }
        const char *colon = line + strcspn(line, ":\n");
        if (*colon == ':') {
            const char *value = colon + 1 + strspn(colon + 1, " \t");
            return mem_strndup(value, strcspn(value, "\n"));
        }
    }
    return NULL;
}

static int64_t status_bytes(const char *key)
{
    cleanup_mem char *text = proc_value("/proc/self/status", key);
    return text != NULL ? strtoll(text, NULL, 10) * 1024 : -1;
}

int64_t machine_resident_bytes(void)
{
    return status_bytes("VmRSS");
}

int64_t machine_peak_bytes(void)
{
    return status_bytes("VmHWM");
}

int machine_reset_peak(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(NULL, "reset the peak of memory");
    }
    const int r = file_write_all(fd, "5", 1, NULL);
    close(fd);
    return r;
}

double machine_cpu_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t count_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void machine_to_json(struct json *obj)
{
    cleanup_mem char *cpu = proc_value("/proc/cpuinfo", "model name");
    double load = NAN;
    char stamp[CLOCK_STAMP_SIZE];
    clock_stamp(clock_wall_ms(), stamp);
    json_set_string(obj, "cpu", cpu);
    json_set_int(obj, "cores", count_cores());
    json_set_number(obj, "load_average", getloadavg(&load, 1) == 1 ? load : NAN);
    json_set_string(obj, "date", stamp);
}
