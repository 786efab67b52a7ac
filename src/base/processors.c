#include "base/processors.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 4096, PATH_SIZE = LINE_SIZE + 256 };

/* The numbers of a file's first line; how many there are. */
static int read_numbers(const char *folder, const char *name, double ret[2])
{
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return 0;
    }
    const int count = fscanf(f, "%lf %lf", &ret[0], &ret[1]);
    fclose(f);
    return count < 0 ? 0 : count;
}

/* "max 100000" in version 2, and a quota of -1 in version 1, set no limit. */
static double group_quota(const char *folder, bool v2)
{
    double n[2];
    if (v2) {
        return read_numbers(folder, "cpu.max", n) == 2 && n[1] > 0.0 ? n[0] / n[1] : INFINITY;
    }
    double period[2];
    const bool there = read_numbers(folder, "cpu.cfs_quota_us", n) > 0 && n[0] > 0.0 &&
                       read_numbers(folder, "cpu.cfs_period_us", period) > 0 && period[0] > 0.0;
    return there ? n[0] / period[0] : INFINITY;
}

/* The least among the group at root/path and its ancestors. Inside a container the path may name
 * folders that are not there: they set no limit. */
static double groups_quota(const char *root, const char *path, bool v2)
{
    char folder[PATH_SIZE];
    snprintf(folder, sizeof(folder), "%s%s", root, path);
    double least = INFINITY;
    for (;;) {
        least = fmin(least, group_quota(folder, v2));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || strlen(folder) <= strlen(root)) {
            return least;
        }
        *slash = '\0';
    }
}

/* "7:cpu,cpuacct:/a/b" -> "/a/b" where the controller is among those named, else NULL. */
static const char *path_of(char *line, const char *controller)
{
    char *names = strchr(line, ':'), *path = names != NULL ? strchr(names + 1, ':') : NULL;
    if (path == NULL) {
        return NULL;
    }
    *names++ = *path++ = '\0';
    for (char *save = NULL, *name = strtok_r(names, ",", &save); name != NULL;
         name = strtok_r(NULL, ",", &save)) {
        if (strcmp(name, controller) == 0) {
            return path;
        }
    }
    return NULL;
}

double processors_quota(const char *groups, const char *root)
{
    FILE *f = fopen(groups, "re");
    if (f == NULL) {
        return INFINITY;
    }
    char line[LINE_SIZE], v1[PATH_SIZE];
    double least = INFINITY;
    snprintf(v1, sizeof(v1), "%s/cpu", root);
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) {
            least = fmin(least, groups_quota(root, line + 3, true));
            continue;
        }
        const char *path = path_of(line, "cpu");
        if (path != NULL) {
            least = fmin(least, groups_quota(v1, path, false));
        }
    }
    fclose(f);
    return least;
}

double processors_allowed(void)
{
    cpu_set_t mine;
    const bool known = sched_getaffinity(0, sizeof(mine), &mine) == 0;
    return fmin(known ? (double)CPU_COUNT(&mine) : INFINITY,
                processors_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
}
