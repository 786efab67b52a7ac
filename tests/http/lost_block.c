/*
 * Loses a block of an upload: linked into the daemon that loses commits, with --wrap of both
 * functions. Where KRRD_TEST_LOSE_BLOCK is set, the first block is slow, so that the second is
 * begun at its end; the second finds no room; and who hands a thread its work gets the processor
 * again after the thread. Where KRRD_TEST_GATE is set, blocks wait as long as there is a file of
 * that name.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_MIN = 400 << 10 }; /* nothing else is so large */
static atomic_int blocks;

int __real_uv_queue_work(void *loop, void *work, void *run, void *done);
int __wrap_uv_queue_work(void *loop, void *work, void *run, void *done);
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);

int __wrap_uv_queue_work(void *loop, void *work, void *run, void *done)
{
    const int rc = __real_uv_queue_work(loop, work, run, done);
    if (getenv("KRRD_TEST_LOSE_BLOCK") != NULL) {
        usleep(100000);
    }
    return rc;
}

static void wait_at_gate(void)
{
    const char *gate = getenv("KRRD_TEST_GATE");
    if (gate != NULL && access(gate, F_OK) == 0) {
        fputs("a block waits\n", stderr);
        while (access(gate, F_OK) == 0) {
            usleep(10000);
        }
    }
}

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (size >= BLOCK_MIN) {
        wait_at_gate();
    }
    const bool block = size >= BLOCK_MIN && getenv("KRRD_TEST_LOSE_BLOCK") != NULL;
    const int nth = block ? atomic_fetch_add(&blocks, 1) + 1 : 0;
    if (nth == 1) {
        usleep(500000);
    } else if (nth == 2) {
        fputs("a block was lost\n", stderr);
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, data, size);
}
