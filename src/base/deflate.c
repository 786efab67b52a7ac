#include "base/deflate.h"

#include <stdbool.h>
#include <zlib.h>

#include "base/mem.h"

/* Unpacked at a time, and the most that zlib is given at once: its counts are 32-bit. */
#define CHUNK ((size_t)64 << 10)
#define PIECE_MAX ((size_t)1 << 30)

/* Numbers in text shrink little more at higher levels, for twice the time. */
enum { PACK_LEVEL = 1, MEMORY_LEVEL = 8 };

struct inflater {
    z_stream z;
    enum deflate_kind kind;
    struct deflate_limit limit;
    int64_t left;   /* bytes that may still come out */
    bool in_member; /* within a member or stream: its end has not been seen */
    unsigned char out[CHUNK];
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

/* windowBits with the largest window (zlib.h, inflateInit2 and deflateInit2). */
static int window_bits(enum deflate_kind kind)
{
    return kind == DEFLATE_GZIP ? 16 + MAX_WBITS : MAX_WBITS;
}

static const char *name_of(enum deflate_kind kind)
{
    return kind == DEFLATE_GZIP ? "gzip" : "deflate";
}

int inflater_new(enum deflate_kind kind, struct deflate_limit limit, struct inflater **ret,
                 struct err *err)
{
    struct inflater *f = mem_alloc(sizeof(*f));
    if (f == NULL) {
        return err_no_memory(err);
    }
    f->z = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free};
    f->kind = kind;
    f->limit = limit;
    f->left = limit.bytes;
    f->in_member = true;
    if (inflateInit2(&f->z, window_bits(kind)) != Z_OK) {
        mem_free(f);
        return err_no_memory(err);
    }
    *ret = f;
    return 0;
}

struct inflater *inflater_free(struct inflater *f)
{
    if (f != NULL) {
        inflateEnd(&f->z);
    }
    return mem_free(f);
}

static int give_output(struct inflater *f, deflate_sink *sink, void *context, struct err *err)
{
    const size_t size = CHUNK - f->z.avail_out;
    if ((int64_t)size > f->left) {
        return err_set(err, ERR_TOO_LARGE,
                       "The %s stream unpacks to more than the limit of %lld bytes (%s).",
                       name_of(f->kind), (long long)f->limit.bytes, f->limit.name);
    }
    f->left -= (int64_t)size;
    return size > 0 ? sink(context, f->out, size, err) : 0;
}

/* Unpacks the input at hand until it is used up or a member ends. */
static int inflate_input(struct inflater *f, deflate_sink *sink, void *context, struct err *err)
{
    int z = Z_OK;
    do {
        f->z.next_out = f->out;
        f->z.avail_out = (uInt)CHUNK;
        z = inflate(&f->z, Z_NO_FLUSH);
        if (z == Z_MEM_ERROR) {
            return err_no_memory(err);
        }
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR) {
            return err_set(err, ERR_PARSE, "The %s stream is damaged%s%s.", name_of(f->kind),
                           f->z.msg == NULL ? "" : ": ", f->z.msg == NULL ? "" : f->z.msg);
        }
        const int r = give_output(f, sink, context, err);
        if (r < 0) {
            return r;
        }
    } while (z != Z_STREAM_END && (f->z.avail_in > 0 || f->z.avail_out == 0));
    f->in_member = z != Z_STREAM_END;
    return 0;
}

/* After a member: the next one. Two bytes are not always at hand, so inflate itself tells a member
 * from garbage by the magic number. */
static int start_member(struct inflater *f, struct err *err)
{
    if (f->kind != DEFLATE_GZIP || f->z.next_in[0] != 0x1f) {
        return err_set(err, ERR_PARSE, "Bytes that are no %s data follow the %s stream.",
                       name_of(f->kind), name_of(f->kind));
    }
    if (inflateReset(&f->z) != Z_OK) {
        return err_set(err, ERR_INTERNAL, "The %s reader could not be reset.", name_of(f->kind));
    }
    f->in_member = true;
    return 0;
}

int inflater_feed(struct inflater *f, const void *data, size_t size, deflate_sink *sink,
                  void *context, struct err *err)
{
    const unsigned char *at = data;
    while (size > 0) {
        const size_t piece = size < PIECE_MAX ? size : PIECE_MAX;
        f->z.next_in = (unsigned char *)(uintptr_t)at; /* zlib does not write there */
        f->z.avail_in = (uInt)piece;
        while (f->z.avail_in > 0) {
            int r = f->in_member ? 0 : start_member(f, err);
            r = r == 0 ? inflate_input(f, sink, context, err) : r;
            if (r < 0) {
                return r;
            }
        }
        at += piece;
        size -= piece;
    }
    return 0;
}

int inflater_end(const struct inflater *f, struct err *err)
{
    return f->in_member ? err_set(err, ERR_PARSE, "The %s stream is truncated.", name_of(f->kind))
                        : 0;
}

static int add_to_buf(void *context, const void *data, size_t size, struct err *err)
{
    struct buf *to = context;
    buf_add(to, data, size);
    return to->failed ? err_no_memory(err) : 0;
}

int deflate_unpack(enum deflate_kind kind, const void *data, size_t size,
                   struct deflate_limit limit, struct buf *ret, struct err *err)
{
    struct inflater *f = NULL;
    int r = inflater_new(kind, limit, &f, err);
    if (r < 0) {
        return r;
    }
    r = inflater_feed(f, data, size, add_to_buf, ret, err);
    r = r == 0 ? inflater_end(f, err) : r;
    inflater_free(f);
    return r;
}

static int pack_all(z_stream *z, const unsigned char *at, size_t size, struct buf *ret,
                    struct err *err)
{
    cleanup_mem unsigned char *out = mem_alloc(CHUNK);
    int state = out != NULL ? Z_OK : Z_MEM_ERROR;
    while (state == Z_OK) {
        if (z->avail_in == 0 && size > 0) {
            const size_t piece = size < PIECE_MAX ? size : PIECE_MAX;
            z->next_in = (unsigned char *)(uintptr_t)at;
            z->avail_in = (uInt)piece;
            at += piece;
            size -= piece;
        }
        z->next_out = out;
        z->avail_out = (uInt)CHUNK;
        state = deflate(z, size == 0 ? Z_FINISH : Z_NO_FLUSH);
        buf_add(ret, out, CHUNK - z->avail_out);
    }
    return state == Z_STREAM_END && !ret->failed ? 0 : err_no_memory(err);
}

int deflate_pack(enum deflate_kind kind, const void *data, size_t size, struct buf *ret,
                 struct err *err)
{
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    if (deflateInit2(&z, PACK_LEVEL, Z_DEFLATED, window_bits(kind), MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return err_no_memory(err);
    }
    const int r = pack_all(&z, data, size, ret, err);
    deflateEnd(&z);
    return r;
}
