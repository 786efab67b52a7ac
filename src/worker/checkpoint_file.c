#include "worker/checkpoint_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"

static const char digest_key[] = "sha256";

static int to_hash(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    sha256_update(context, data, size);
    return 0;
}

static int to_file(void *context, const void *data, size_t size, struct err *err)
{
    const int *fd = context;
    return file_write_all(*fd, data, size, err);
}

/* Of the file that the state would make now. */
static int digest(const struct state *s, char ret[SHA256_HEX_SIZE], struct err *err)
{
    struct sha256 *hash = sha256_new();
    if (!hash) {
        return err_no_memory(err);
    }
    int r = state_write(s, to_hash, hash, err);
    sha256_hex(hash, ret);
    sha256_free(hash);
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
    int r = digest(s, hex, err);
    if (r == 0) {
        r = state_write_with(s, digest_key, hex, to_file, &fd, err);
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
    if (!text || strlen(text) != SHA256_HEX_SIZE - 1) {
        return damaged(err);
    }
    memcpy(expected, text, SHA256_HEX_SIZE);
    state_drop_text(s, digest_key);
    int r = digest(s, found, err);
    if (r < 0) {
        return r;
    }
    return strcmp(expected, found) == 0 ? 0 : damaged(err);
}

int checkpoint_file_read(const char *path, struct state **ret, struct err *err)
{
    struct file_map map;
    struct state *s = NULL;
    int r = file_map_open(path, &map, err);
    if (r < 0) {
        return r;
    }
    r = state_read(map.data, map.size, &s, err);
    file_map_close(&map);
    if (r < 0) {
        return r == -ERR_NO_MEMORY ? r : damaged(err);
    }
    r = check(s, err);
    if (r < 0) {
        state_free(s);
        return r;
    }
    *ret = s;
    return 0;
}
