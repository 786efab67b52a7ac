/* Files: whole writes, durable renames, read-only maps. Paths never appear in error details. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int file_write_all(int fd, const void *data, size_t len, struct err *err);
/* At most `limit` bytes, else -ERR_TOO_LARGE; -ERR_NOT_FOUND where there is no file. *ret has a NUL
 * behind its last byte (not counted) and belongs to the caller. */
int file_read_all(const char *path, size_t limit, char **ret, size_t *ret_len, struct err *err);
/* Makes path and the directories above it; one that exists is fine. */
int file_make_dirs(const char *path, struct err *err);
/* fsync(fd), where fd is open on tmp_path and stays open, rename(tmp -> path), fsync of the
 * directory that holds path. */
int file_publish(int fd, const char *tmp_path, const char *path, struct err *err);
int file_sync_dir(const char *dir, struct err *err);
/* Removes every regular file in dir whose name starts with prefix; returns the number or < 0. */
int file_sweep(const char *dir, const char *prefix, struct err *err);

/* A read-only map of a whole regular file; data is not NULL even where size is 0. A file that
 * another process cuts short while it is mapped ends this one with SIGBUS, so map only files that
 * were published and are never written again. */
struct file_map {
    const void *data;
    size_t size;
};
int file_map_open(const char *path, struct file_map *ret, struct err *err);
void file_map_close(struct file_map *m);
