#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

/* Data directories hold what users uploaded; their group may look, others may not. */
enum { DIRECTORY_MODE = 0750, READ_CHUNK = 65536 };

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}
#define cleanup_fd __attribute__((cleanup(close_fd)))

static void close_dir(DIR **dir)
{
    if (*dir != NULL) {
        closedir(*dir);
    }
}
#define cleanup_dir __attribute__((cleanup(close_dir)))

int file_write_all(int fd, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    while (len > 0) {
        const ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, "write");
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* A descriptor, or -ERR_NOT_FOUND / -ERR_IO. A pipe in the file's place is opened without waiting
 * for somebody to write to it; reading a file never waits anyway. */
static int open_for_reading(const char *path, struct err *err)
{
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0) {
        return fd;
    }
    return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "The file does not exist.")
                           : err_errno(err, "open the file");
}

/* Up to `limit` bytes and one more, if there are more. */
static int read_into(int fd, size_t limit, struct buf *b, struct err *err)
{
    cleanup_mem char *chunk = mem_alloc(READ_CHUNK);
    if (chunk == NULL) {
        return err_no_memory(err);
    }
    while (b->len <= limit) {
        const size_t left = limit - b->len; /* READ_CHUNK also where left + 1 would overflow */
        const ssize_t n = read(fd, chunk, left < READ_CHUNK ? left + 1 : READ_CHUNK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, "read the file");
        }
        buf_add(b, chunk, (size_t)n);
        if (n == 0 || b->failed) {
            break;
        }
    }
    return b->failed ? err_no_memory(err) : 0;
}

int file_read_all(const char *path, size_t limit, char **ret, size_t *ret_len, struct err *err)
{
    cleanup_fd int fd = open_for_reading(path, err);
    if (fd < 0) {
        return fd;
    }
    cleanup_buf struct buf b = BUF_INIT;
    const int rc = read_into(fd, limit, &b, err);
    if (rc < 0) {
        return rc;
    }
    if (b.len > limit) {
        return err_set(err, ERR_TOO_LARGE, "The file has more than %zu bytes.", limit);
    }
    const size_t len = b.len;
    char *data = buf_take(&b);
    if (data == NULL) {
        return err_no_memory(err);
    }
    *ret = data;
    *ret_len = len;
    return 0;
}

static int make_dir(const char *path, struct err *err)
{
    struct stat st;
    if (mkdir(path, DIRECTORY_MODE) == 0) {
        return 0;
    }
    if (errno == EEXIST && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
    }
    return errno == EEXIST ? 0 : err_errno(err, "make a directory");
}

int file_make_dirs(const char *path, struct err *err)
{
    cleanup_mem char *part = mem_strdup(path);
    if (part == NULL) {
        return err_no_memory(err);
    }
    /* The first character may be the root's slash, or the end of an empty path. */
    char *slash = part[0] == '\0' ? NULL : strchr(part + 1, '/');
    for (; slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int rc = make_dir(part, err);
        *slash = '/';
        if (rc < 0) {
            return rc;
        }
    }
    return make_dir(part, err);
}

int file_sync_dir(const char *dir, struct err *err)
{
    cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0) {
        return err_errno(err, "flush a directory");
    }
    return 0;
}

/* "a/b" -> "a", "b" -> ".", "/b" -> "/". */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return mem_strdup(".");
    }
    return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int file_publish(int fd, const char *tmp_path, const char *path, struct err *err)
{
    cleanup_mem char *dir = parent_of(path);
    if (dir == NULL) {
        return err_no_memory(err);
    }
    if (fsync(fd) < 0) {
        return err_errno(err, "flush a file");
    }
    if (rename(tmp_path, path) < 0) {
        return err_errno(err, "rename a file");
    }
    return file_sync_dir(dir, err);
}

/* 1 removed, 0 left alone, < 0 failed. Somebody else may remove the file first. */
static int sweep_one(int dir_fd, const char *name, struct err *err)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
        return 0;
    }
    if (unlinkat(dir_fd, name, 0) == 0) {
        return 1;
    }
    return errno == ENOENT ? 0 : err_errno(err, "remove a file");
}

int file_sweep(const char *dir, const char *prefix, struct err *err)
{
    cleanup_dir DIR *d = opendir(dir);
    if (d == NULL) {
        return err_errno(err, "open a directory");
    }
    int removed = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (entry == NULL) {
            return errno == 0 ? removed : err_errno(err, "read a directory");
        }
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            const int rc = sweep_one(dirfd(d), entry->d_name, err);
            if (rc < 0) {
                return rc;
            }
            removed += rc;
        }
    }
}

int file_map_open(const char *path, struct file_map *ret, struct err *err)
{
    cleanup_fd int fd = open_for_reading(path, err);
    if (fd < 0) {
        return fd;
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_errno(err, "look at the file");
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_INVALID, "This is not a regular file.");
    }
    if (st.st_size == 0) { /* mmap refuses an empty map */
        *ret = (struct file_map){.data = "", .size = 0};
        return 0;
    }
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return err_errno(err, "map the file");
    }
    *ret = (struct file_map){.data = data, .size = (size_t)st.st_size};
    return 0;
}

void file_map_close(struct file_map *m)
{
    if (m->size > 0) {
        munmap((void *)(uintptr_t)m->data, m->size);
    }
    *m = (struct file_map){.data = NULL, .size = 0};
}
