#include "server/process.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Pages of /proc/PID/statm; -1: of this process. */
static void read_pages(int pid, int64_t *ret_virtual, int64_t *ret_resident)
{
    char path[40];
    long long size = 0, resident = 0;
    snprintf(path, sizeof(path), pid < 0 ? "/proc/self/statm" : "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%lld %lld", &size, &resident) != 2) {
            size = resident = 0;
        }
        fclose(f);
    }
    const int64_t page = sysconf(_SC_PAGESIZE);
    *ret_virtual = size * page;
    *ret_resident = resident * page;
}

static int64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    int64_t count = -3; /* ".", ".." and the directory itself */
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

void process_usage_read(struct process_usage *ret)
{
    struct rusage usage;
    struct rlimit files;
    *ret = (struct process_usage){.open_fds = count_fds()};
    read_pages(-1, &ret->virtual_bytes, &ret->resident_bytes);
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        ret->cpu_s = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        ret->max_fds = (int64_t)files.rlim_cur;
    }
}

int64_t process_resident_bytes(int pid)
{
    int64_t size, resident;
    read_pages(pid, &size, &resident);
    return resident;
}
