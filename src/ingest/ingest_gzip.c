#include "ingest/ingest_gzip.h"

#include <errno.h>
#include <unistd.h>

#include "base/deflate.h"
#include "base/mem.h"

#define CHUNK ((size_t)256 << 10)

static int write_output(void *context, const void *data, size_t size, struct err *err)
{
    return ingest_temp_write(context, data, size, err);
}

static int read_input(int fd, unsigned char *to, size_t *ret_size, struct err *err)
{
    ssize_t n;
    do {
        n = read(fd, to, CHUNK);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return err_errno(err, "read the upload");
    }
    *ret_size = (size_t)n;
    return 0;
}

static int unpack(struct inflater *f, int in_fd, const struct ingest_temp *out, unsigned char *in,
                  struct err *err)
{
    for (int64_t total = 0;;) {
        size_t size = 0;
        int r = read_input(in_fd, in, &size, err);
        if (r < 0) {
            return r;
        }
        if (size == 0) {
            return total > 0 ? inflater_end(f, err)
                             : err_at(err, ERR_INVALID, "#", "The file is empty.");
        }
        total += (int64_t)size;
        r = inflater_feed(f, in, size, write_output, (void *)(uintptr_t)out, err);
        if (r < 0) {
            return r;
        }
    }
}

int ingest_gunzip(int in_fd, const struct ingest_temp *out, struct deflate_limit limit,
                  struct err *err)
{
    if (lseek(in_fd, 0, SEEK_SET) < 0) {
        return err_errno(err, "read the upload");
    }
    cleanup_mem unsigned char *in = mem_alloc(CHUNK);
    struct inflater *f = NULL;
    if (in == NULL) {
        return err_no_memory(err);
    }
    int r = inflater_new(DEFLATE_GZIP, limit, &f, err);
    if (r == 0) {
        r = unpack(f, in_fd, out, in, err);
    }
    inflater_free(f);
    return r;
}
