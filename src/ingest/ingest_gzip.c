#include "ingest/ingest_gzip.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"

#define CHUNK ((size_t)256 << 10)

/* windowBits for "gzip only" with the largest window (zlib.h, inflateInit2). */
#define GZIP_ONLY (16 + MAX_WBITS)

struct gunzip {
    z_stream z;
    int in_fd, out_fd;
    int64_t left; /* bytes that may still come out */
    int64_t limit;
    unsigned char *in, *out; /* CHUNK bytes each */
    bool in_member;          /* within a member: its end has not been seen */
};

static voidpf zlib_alloc(voidpf opaque, uInt count, uInt size)
{
    (void)opaque;
    return mem_zarray(count, size);
}

static void zlib_free(voidpf opaque, voidpf p)
{
    (void)opaque;
    mem_free(p);
}

static int read_input(struct gunzip *g, struct err *err)
{
    ssize_t n;
    do {
        n = read(g->in_fd, g->in, CHUNK);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return err_errno(err, "read the upload");
    }
    g->z.next_in = g->in;
    g->z.avail_in = (uInt)n;
    return 0;
}

static int write_output(struct gunzip *g, struct err *err)
{
    size_t len = CHUNK - g->z.avail_out;
    if ((int64_t)len > g->left) {
        return err_set(err, ERR_TOO_LARGE,
                       "The gzip stream unpacks to more than the limit of %lld bytes.",
                       (long long)g->limit);
    }
    g->left -= (int64_t)len;
    return file_write_all(g->out_fd, g->out, len, err);
}

/* Unpacks the input at hand until it is used up or a member ends. */
static int inflate_input(struct gunzip *g, struct err *err)
{
    int z = Z_OK;
    do {
        g->z.next_out = g->out;
        g->z.avail_out = (uInt)CHUNK;
        z = inflate(&g->z, Z_NO_FLUSH);
        if (z == Z_MEM_ERROR) {
            return err_no_memory(err);
        }
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR) {
            return err_set(err, ERR_PARSE, "The gzip stream is damaged%s%s.",
                           g->z.msg == NULL ? "" : ": ", g->z.msg == NULL ? "" : g->z.msg);
        }
        int r = write_output(g, err);
        if (r < 0) {
            return r;
        }
    } while (z != Z_STREAM_END && (g->z.avail_in > 0 || g->z.avail_out == 0));
    g->in_member = z != Z_STREAM_END;
    return 0;
}

/* After a member: nothing, or the next member. Two bytes are not always at hand, so inflate itself
 * tells a member from garbage by the magic number. */
static int start_member(struct gunzip *g, struct err *err)
{
    if (inflateReset(&g->z) != Z_OK) {
        return err_set(err, ERR_INTERNAL, "The gzip reader could not be reset.");
    }
    g->in_member = true;
    if (g->z.next_in[0] != 0x1f) {
        return err_set(err, ERR_PARSE, "Bytes that are no gzip data follow the gzip stream.");
    }
    return 0;
}

static int unpack(struct gunzip *g, struct err *err)
{
    g->in_member = true;
    bool empty = true;
    for (;;) {
        int r = 0;
        if (g->z.avail_in == 0 && (r = read_input(g, err)) < 0) {
            return r;
        }
        if (g->z.avail_in == 0) {
            break;
        }
        empty = false;
        if (!g->in_member && (r = start_member(g, err)) < 0) {
            return r;
        }
        if ((r = inflate_input(g, err)) < 0) {
            return r;
        }
    }
    if (empty) {
        return err_at(err, ERR_INVALID, "#", "The file is empty.");
    }
    return g->in_member ? err_set(err, ERR_PARSE, "The gzip stream is truncated.") : 0;
}

int ingest_gunzip(int in_fd, int out_fd, int64_t limit, struct err *err)
{
    if (lseek(in_fd, 0, SEEK_SET) < 0) {
        return err_errno(err, "read the upload");
    }
    cleanup_mem unsigned char *in = mem_alloc(CHUNK);
    cleanup_mem unsigned char *out = mem_alloc(CHUNK);
    if (in == NULL || out == NULL) {
        return err_no_memory(err);
    }
    struct gunzip g = {
        .z = {.zalloc = zlib_alloc, .zfree = zlib_free},
        .in_fd = in_fd,
        .out_fd = out_fd,
        .left = limit,
        .limit = limit,
        .in = in,
        .out = out,
    };
    if (inflateInit2(&g.z, GZIP_ONLY) != Z_OK) {
        return err_no_memory(err);
    }
    int r = unpack(&g, err);
    inflateEnd(&g.z);
    return r;
}
