/*
 * The host's memory as this process may use it: what the machine has, or less where a control group
 * (version 1 or 2), one of its ancestors, or the process's own limits (ulimit -v, -d) say so.
 * INT64_MAX where nothing can be read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

int64_t ram_limit(void);     /* bytes in all, whoever uses them */
int64_t ram_available(void); /* bytes that this process may still take now */
/* Both, for the price of one. */
void ram_look(int64_t *ret_limit, int64_t *ret_available);
/* The same, of a process that is to stay below `limit` bytes of its own (ram_own); 0: no limit. */
int64_t ram_available_within(int64_t limit);
/* The smallest limit among the control group at root/path and its ancestors, or with `left` the
 * least that one leaves free, where file cache that can be dropped does not count as use. Inside a
 * container the path may name folders that are not there: they set no limit. INT64_MAX: none does.
 */
int64_t ram_groups_room(const char *root, const char *path, bool v2, bool left);
/* Whether the system hands out pages of 2 MiB without being asked. */
bool ram_huge_pages(void);
int64_t ram_resident(void); /* of this process; 0 where it cannot be read */
/* Of that what the system cannot take back: pages of mapped files are not in it. Of this process,
 * and of another one. */
int64_t ram_own(void);
int64_t ram_own_of(int pid);

/* The process's high-water mark of resident memory, and a fresh start for it, so that each job of a
 * long-lived worker has its own. Where the mark cannot be set back it stays that of the process. */
void ram_peak_reset(void);
int64_t ram_peak(void);
