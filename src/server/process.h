/* What the kernel says of this process and of its workers; 0 for what cannot be read. */
#pragma once

#include <stdint.h>

struct process_usage {
    int64_t resident_bytes, virtual_bytes;
    double cpu_s;
    int64_t open_fds, max_fds;
};
void process_usage_read(struct process_usage *ret);

int64_t process_resident_bytes(int pid);
