#include "worker/checkpoint_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"

static const char digest_key[] = "sha256";

/* What stands for the digest while it is taken. */
static const char no_digest[SHA256_HEX_SIZE] =
    "0000000000000000000000000000000000000000000000000000000000000000";

/* A file being written, or only looked at (fd < 0). */
struct passing {
    struct sha256 *hash;
    int fd;
    bool begun;
    off_t digits; /* where the file has the digest; -1: nowhere */
};

/* The first piece is the header. Digits that stand for a digest follow its key. */
static off_t find_digits(const char *header, size_t size)
{
    char mark[SHA256_HEX_SIZE + 16];
    const int length = snprintf(mark, sizeof mark, "\"%s\":\"%s\"", digest_key, no_digest);
    const char *found = memmem(header, size, mark, (size_t)length);
    return found ? (off_t)(found - header) + length - SHA256_HEX_SIZE : -1;
}

static int pass(void *context, const void *data, size_t size, struct err *err)
{
    struct passing *p = context;
    if (!p->begun) {
        p->digits = find_digits(data, size);
        p->begun = true;
    }
    sha256_update(p->hash, data, size);
    return p->fd >= 0 ? file_write_all(p->fd, data, size, err) : 0;
}

/* Writes the state to fd, without its digest, or nowhere (fd < 0); the digest, and where the file
 * should have it. */
static int pass_state(const struct state *s, int fd, char ret[SHA256_HEX_SIZE], off_t *ret_digits,
                      struct err *err)
{
    struct passing p = {.hash = sha256_new(), .fd = fd, .digits = -1};
    if (!p.hash) {
        return err_no_memory(err);
    }
    int r = state_write_with(s, digest_key, no_digest, pass, &p, err);
    sha256_hex(p.hash, ret);
    sha256_free(p.hash);
    *ret_digits = p.digits;
    return r;
}

/* Beside its place, under a name that no other process uses. */
static char *temporary_name(const char *path)
{
    const size_t size = strlen(path) + 24;
    char *name = mem_alloc(size);
    if (name) {
        snprintf(name, size, "%s.%ld", path, (long)getpid());
    }
    return name;
}

static int write_at(int fd, const char *name, const char *path, const struct state *s,
                    struct err *err)
{
    char hex[SHA256_HEX_SIZE];
    off_t digits = -1;
    int r = pass_state(s, fd, hex, &digits, err);
    if (r == 0 && digits < 0) {
        r = err_set(err, ERR_INTERNAL, "The checkpoint's header has no room for its digest.");
    }
    const size_t size = SHA256_HEX_SIZE - 1;
    if (r == 0 && pwrite(fd, hex, size, digits) != (ssize_t)size) {
        r = err_errno(err, "write the checkpoint's digest");
    }
    return r == 0 ? file_publish(fd, name, path, err) : r;
}

int checkpoint_file_write(const char *path, const struct state *s, struct err *err)
{
    cleanup_mem char *name = temporary_name(path);
    if (!name) {
        return err_no_memory(err);
    }
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return err_errno(err, "open the checkpoint's file");
    }
    int r = write_at(fd, name, path, s, err);
    close(fd);
    if (r < 0) {
        unlink(name);
    }
    return r;
}

static int damaged(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "The checkpoint is damaged.");
}

/* Takes the digest out of the texts and compares. */
static int check(struct state *s, struct err *err)
{
    char expected[SHA256_HEX_SIZE] = "", found[SHA256_HEX_SIZE];
    const char *text = state_text(s, digest_key);
    off_t digits = -1;
    if (!text || strlen(text) != SHA256_HEX_SIZE - 1) {
        return damaged(err);
    }
    memcpy(expected, text, SHA256_HEX_SIZE);
    state_drop_text(s, digest_key);
    int r = pass_state(s, -1, found, &digits, err);
    if (r < 0) {
        return r;
    }
    return strcmp(expected, found) == 0 ? 0 : damaged(err);
}

static void release(void *context)
{
    file_map_close(context);
    mem_free(context);
}

/* The map goes with the state, or with the failure. */
static int read_map(struct file_map *map, struct state **ret, struct err *err)
{
    struct state *s = NULL;
    int r = state_read(map->data, map->size, &s, err);
    if (r < 0) {
        release(map);
        return r == -ERR_NO_MEMORY ? r : damaged(err);
    }
    state_keep(s, release, map);
    r = check(s, err);
    if (r < 0) {
        state_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

int checkpoint_file_read(const char *path, struct state **ret, struct err *err)
{
    struct file_map *map = mem_zalloc(sizeof *map);
    if (!map) {
        return err_no_memory(err);
    }
    int r = file_map_open(path, map, err);
    if (r < 0) {
        mem_free(map);
        return r;
    }
    return read_map(map, ret, err);
}
