/*
 * How many processors this process may use: those it may run on, or less where a control group
 * (version 1 or 2) or one of its ancestors gives it less time of them (cpu.max).
 */
#pragma once

double processors_allowed(void);
/* The quota alone, in processors, INFINITY where there is none: of the groups that the file
 * `groups` (as /proc/PID/cgroup) names, below the folder `root` (as /sys/fs/cgroup). */
double processors_quota(const char *groups, const char *root);
