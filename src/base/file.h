/* Files: whole writes, durable renames, read-only maps. Paths never appear in error details. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int file_write_all(int fd, const void *data, size_t len, struct err *err);
int file_read_all(const char *path, size_t limit, char **ret, size_t *ret_len, struct err *err);
int file_make_dirs(const char *path, struct err *err);
/* fsync(fd), rename(tmp -> path), fsync of the directory that holds path. */
int file_publish(int fd, const char *tmp_path, const char *path, struct err *err);
int file_sync_dir(const char *dir, struct err *err);
/* Removes every regular file in dir whose name starts with prefix; returns the number or < 0. */
int file_sweep(const char *dir, const char *prefix, struct err *err);

/* A read-only map of a whole file. */
struct file_map {
    const void *data;
    size_t size;
};
int file_map_open(const char *path, struct file_map *ret, struct err *err);
void file_map_close(struct file_map *m);
