#include "ingest/ingest_zip.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include "base/mem.h"
#include "ingest/ingest_text.h"

#define CHUNK ((size_t)256 << 10)

/* The end of central directory record (APPNOTE.TXT 4.3.16) has 22 bytes and a comment. */
#define END_SIZE ((size_t)22)
#define COMMENT_MAX ((size_t)65535)
#define LOCATOR_SIZE ((size_t)20)
#define END64_SIZE ((size_t)56)

/* libzip reads the whole central directory into memory, some 300 bytes for an entry of 46 bytes at
 * least. With this limit on its size, memory stays below some 10 MB before any entry is counted. */
#define DIRECTORY_MAX ((uint64_t)1 << 20)

struct ingest_zip {
    zip_t *zip;
    int64_t count;
};

static uint64_t little(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static int damaged(struct err *err)
{
    return err_set(err, ERR_PARSE, "The file is no ZIP archive, or it is damaged.");
}

static int read_at(int fd, uint64_t offset, unsigned char *data, size_t len, struct err *err)
{
    while (len > 0) {
        ssize_t n = pread(fd, data, len, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? err_errno(err, "read the upload") : damaged(err);
        }
        data += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

/* Size of the central directory that the end record at tail[at] declares. `tail` begins at
 * `tail_offset` of the file. */
static int directory_size(int fd, uint64_t file_size, const unsigned char *tail, size_t at,
                          uint64_t *ret, struct err *err)
{
    *ret = little(tail + at + 12, 4);
    if (at < LOCATOR_SIZE || memcmp(tail + at - LOCATOR_SIZE, "PK\x06\x07", 4) != 0) {
        return 0;
    }
    uint64_t offset = little(tail + at - LOCATOR_SIZE + 8, 8);
    if (file_size < END64_SIZE || offset > file_size - END64_SIZE) {
        return damaged(err);
    }
    unsigned char end64[END64_SIZE];
    int r = read_at(fd, offset, end64, sizeof(end64), err);
    if (r < 0) {
        return r;
    }
    uint64_t size64 = little(end64 + 40, 8);
    *ret = *ret == UINT32_MAX || size64 > *ret ? size64 : *ret;
    return 0;
}

/* Every place that could be an end record must declare a small directory: libzip may choose any. */
static int check_directory(int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return err_errno(err, "read the upload");
    }
    uint64_t size = (uint64_t)st.st_size;
    size_t tail_max = END_SIZE + COMMENT_MAX + LOCATOR_SIZE;
    size_t len = size < tail_max ? (size_t)size : tail_max;
    cleanup_mem unsigned char *tail = mem_alloc(len);
    if (tail == NULL) {
        return err_no_memory(err);
    }
    int r = read_at(fd, size - len, tail, len, err);
    for (size_t at = 0; r == 0 && at + END_SIZE <= len; at++) {
        if (memcmp(tail + at, "PK\x05\x06", 4) != 0) {
            continue;
        }
        uint64_t directory = 0;
        r = directory_size(fd, size, tail, at, &directory, err);
        if (r == 0 && directory > DIRECTORY_MAX) {
            r = err_set(err, ERR_TOO_LARGE, "The directory of the ZIP archive is too large.");
        }
    }
    return r;
}

static int zip_failure(zip_error_t *e, struct err *err)
{
    return zip_error_code_zip(e) == ZIP_ER_MEMORY ? err_no_memory(err) : damaged(err);
}

int ingest_zip_open(const char *path, int fd, struct ingest_zip **ret, struct err *err)
{
    int r = check_directory(fd, err);
    if (r < 0) {
        return r;
    }
    cleanup_zip struct ingest_zip *z = mem_zalloc(sizeof(*z));
    if (z == NULL) {
        return err_no_memory(err);
    }
    int code = 0;
    z->zip = zip_open(path, ZIP_RDONLY, &code);
    if (z->zip == NULL) {
        return code == ZIP_ER_MEMORY ? err_no_memory(err) : damaged(err);
    }
    z->count = zip_get_num_entries(z->zip, 0);
    if (z->count > INGEST_ZIP_MEMBERS_MAX) {
        return err_set(err, ERR_TOO_LARGE, "The archive has more than %d members.",
                       INGEST_ZIP_MEMBERS_MAX);
    }
    *ret = z;
    z = NULL;
    return 0;
}

struct ingest_zip *ingest_zip_free(struct ingest_zip *z)
{
    if (z != NULL && z->zip != NULL) {
        zip_discard(z->zip);
    }
    return mem_free(z);
}

int64_t ingest_zip_count(const struct ingest_zip *z)
{
    return z->count;
}

const char *ingest_zip_name(const struct ingest_zip *z, int64_t member)
{
    const char *name = zip_get_name(z->zip, (zip_uint64_t)member, 0);
    return name == NULL ? "" : name;
}

/* Refuses what the header of a member says, before any of it is read. */
static int check_member(struct ingest_zip *z, int64_t member, const char *show, struct err *err)
{
    zip_stat_t st;
    if (zip_stat_index(z->zip, (zip_uint64_t)member, 0, &st) != 0) {
        return zip_failure(zip_get_error(z->zip), err);
    }
    if ((st.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && st.encryption_method != ZIP_EM_NONE) {
        return err_set(err, ERR_UNSUPPORTED, "The member %s is encrypted.", show);
    }
    if ((st.valid & ZIP_STAT_COMP_METHOD) != 0 && st.comp_method != ZIP_CM_STORE &&
        st.comp_method != ZIP_CM_DEFLATE) {
        return err_set(err, ERR_UNSUPPORTED,
                       "The member %s is packed by method %d; stored and deflated members are "
                       "supported.",
                       show, st.comp_method);
    }
    return 0;
}

static int copy_member(zip_file_t *file, const char *show, const struct ingest_temp *to,
                       struct deflate_limit limit, int64_t *left, struct err *err)
{
    cleanup_mem unsigned char *chunk = mem_alloc(CHUNK);
    if (chunk == NULL) {
        return err_no_memory(err);
    }
    for (;;) {
        zip_int64_t n = zip_fread(file, chunk, CHUNK);
        if (n < 0) {
            return err_set(err, ERR_PARSE, "The member %s is damaged.", show);
        }
        if (n == 0) {
            return 0;
        }
        if (n > *left) {
            return err_set(err, ERR_TOO_LARGE,
                           "The archive unpacks to more than the limit of %lld bytes (%s).",
                           (long long)limit.bytes, limit.name);
        }
        *left -= n;
        int r = ingest_temp_write(to, chunk, (size_t)n, err);
        if (r < 0) {
            return r;
        }
    }
}

int ingest_zip_unpack(struct ingest_zip *z, int64_t member, const struct ingest_temp *to,
                      struct deflate_limit limit, int64_t *left, struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    const char *name = ingest_zip_name(z, member);
    ingest_show(name, strlen(name), show);
    int r = check_member(z, member, show, err);
    if (r < 0) {
        return r;
    }
    zip_file_t *file = zip_fopen_index(z->zip, (zip_uint64_t)member, 0);
    if (file == NULL) {
        return zip_failure(zip_get_error(z->zip), err);
    }
    r = copy_member(file, show, to, limit, left, err);
    zip_fclose(file);
    return r;
}
