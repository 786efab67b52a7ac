#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"

#define MAGIC 0x4652524bu /* "KRRF" */

enum {
    READ_SIZE = 64 << 10,    /* bytes asked of the kernel at once */
    KEEP_CAPACITY = 1 << 20, /* a larger buffer is given back once it is empty */
};

static const size_t frame_max =
    FRAME_HEADER_SIZE + (size_t)FRAME_JSON_MAX + (size_t)FRAME_PAYLOAD_MAX;

struct header {
    uint32_t magic;
    uint32_t type;
    uint64_t request;
    uint32_t json_size;
    uint32_t payload_size;
};

struct frame_reader {
    struct buf buf;
    size_t taken; /* bytes of buf that belong to frames already handed out */
    bool corrupt;
};

void frame_deinit(struct frame *f)
{
    json_free(f->json);
    mem_free(f->payload);
    *f = (struct frame){.json = NULL};
}

static void put(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

int frame_head(enum frame_type type, uint64_t request, const struct json *json, size_t payload_size,
               struct buf *ret, struct err *err)
{
    char *text cleanup_mem = json == NULL ? NULL : json_print(json);
    if (json != NULL && text == NULL) {
        return err_no_memory(err);
    }
    const size_t json_size = text == NULL ? 0 : strlen(text);
    if (json_size > FRAME_JSON_MAX || payload_size > FRAME_PAYLOAD_MAX) {
        return err_set(err, ERR_TOO_LARGE,
                       "A message holds at most %u bytes of JSON and %u of payload.",
                       FRAME_JSON_MAX, FRAME_PAYLOAD_MAX);
    }
    unsigned char head[FRAME_HEADER_SIZE];
    put(head, MAGIC, 4);
    put(head + 4, (uint64_t)type, 4);
    put(head + 8, request, 8);
    put(head + 16, json_size, 4);
    put(head + 20, payload_size, 4);
    buf_add(ret, head, sizeof(head));
    buf_add(ret, text, json_size);
    return ret->failed ? err_no_memory(err) : 0;
}

struct frame_reader *frame_reader_new(void)
{
    return mem_zalloc(sizeof(struct frame_reader));
}

struct frame_reader *frame_reader_free(struct frame_reader *r)
{
    if (r != NULL) {
        buf_deinit(&r->buf);
    }
    return mem_free(r);
}

static int corrupt(struct frame_reader *r, struct err *err)
{
    r->corrupt = true;
    return err_set(err, ERR_CORRUPT, "The peer sent something that is not a message.");
}

static size_t waiting(const struct frame_reader *r)
{
    return r->buf.len - r->taken;
}

/* Moves what is waiting to the front. Amortised: at most once for each byte taken. */
static void compact(struct frame_reader *r)
{
    if (waiting(r) == 0 && r->buf.cap > KEEP_CAPACITY) {
        buf_deinit(&r->buf);
        r->taken = 0;
    } else if (r->taken > 0 && r->taken >= waiting(r)) {
        buf_consume(&r->buf, r->taken);
        r->taken = 0;
    }
}

int frame_reader_feed(struct frame_reader *r, const void *data, size_t len, struct err *err)
{
    if (r->corrupt) {
        return corrupt(r, err);
    }
    if (waiting(r) + len > frame_max + KEEP_CAPACITY) {
        return err_set(err, ERR_TOO_LARGE, "Too many bytes are waiting to be read.");
    }
    compact(r);
    buf_add(&r->buf, data, len);
    if (r->buf.failed) {
        r->corrupt = true; /* Bytes are lost. */
        return err_no_memory(err);
    }
    return 0;
}

static bool read_header(const struct frame_reader *r, struct header *ret)
{
    const unsigned char *at = (const unsigned char *)r->buf.data + r->taken;
    *ret = (struct header){
        .magic = (uint32_t)get(at, 4),
        .type = (uint32_t)get(at + 4, 4),
        .request = get(at + 8, 8),
        .json_size = (uint32_t)get(at + 16, 4),
        .payload_size = (uint32_t)get(at + 20, 4),
    };
    return ret->magic == MAGIC && ret->type >= FRAME_TRAIN && ret->type < FRAME_TYPE_COUNT_ &&
           ret->json_size <= FRAME_JSON_MAX && ret->payload_size <= FRAME_PAYLOAD_MAX;
}

/* The body of a complete frame. */
static int read_body(struct frame_reader *r, const struct header *h, struct frame *f,
                     struct err *err)
{
    const char *at = r->buf.data + r->taken + FRAME_HEADER_SIZE;
    if (h->json_size > 0) {
        const int rc = json_parse(at, h->json_size, &f->json, NULL);
        if (rc == -ERR_NO_MEMORY) {
            return err_no_memory(err);
        }
        if (rc < 0 || json_type(f->json) != JSON_OBJECT) {
            return corrupt(r, err);
        }
    }
    if (h->payload_size > 0) {
        f->payload = mem_aligned(h->payload_size, 1);
        if (f->payload == NULL) {
            return err_no_memory(err);
        }
        memcpy(f->payload, at + h->json_size, h->payload_size);
        f->payload_size = h->payload_size;
    }
    return 0;
}

int frame_reader_next(struct frame_reader *r, struct frame *ret, struct err *err)
{
    if (r->corrupt) {
        return corrupt(r, err);
    }
    if (waiting(r) < FRAME_HEADER_SIZE) {
        return 0;
    }
    struct header h;
    if (!read_header(r, &h)) {
        return corrupt(r, err);
    }
    const size_t total = FRAME_HEADER_SIZE + (size_t)h.json_size + (size_t)h.payload_size;
    if (waiting(r) < total) {
        return 0;
    }
    struct frame f = {.type = (enum frame_type)h.type, .request = h.request};
    const int rc = read_body(r, &h, &f, err);
    if (rc < 0) {
        frame_deinit(&f);
        return rc;
    }
    r->taken += total;
    compact(r);
    *ret = f;
    return 1;
}

/* Waits until fd is ready for `events`, for callers whose descriptor does not block. */
static int wait_for(int fd, short events, const char *doing, struct err *err)
{
    struct pollfd p = {.fd = fd, .events = events};
    while (poll(&p, 1, -1) < 0) {
        if (errno != EINTR) {
            return err_errno(err, doing);
        }
    }
    return 0;
}

static ssize_t send_some(int fd, const struct iovec *parts, size_t count)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
    const ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? writev(fd, parts, (int)count) : n;
}

/* Drops the first n bytes; returns the index of the first part that is not empty. */
static size_t advance(struct iovec *parts, size_t count, size_t n)
{
    size_t i = 0;
    for (; i < count && n >= parts[i].iov_len; i++) {
        n -= parts[i].iov_len;
        parts[i].iov_len = 0;
    }
    if (i < count) {
        parts[i].iov_base = (char *)parts[i].iov_base + n;
        parts[i].iov_len -= n;
    }
    return i;
}

static int send_all(int fd, struct iovec *parts, size_t count, struct err *err)
{
    static const char doing[] = "send a message";
    size_t first = advance(parts, count, 0);
    while (first < count) {
        const ssize_t n = send_some(fd, parts + first, count - first);
        if (n >= 0) {
            first += advance(parts + first, count - first, (size_t)n);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            const int rc = wait_for(fd, POLLOUT, doing, err);
            if (rc < 0) {
                return rc;
            }
        } else if (errno != EINTR) {
            return err_errno(err, doing);
        }
    }
    return 0;
}

int frame_send(int fd, enum frame_type type, uint64_t request, const struct json *json,
               const void *payload, size_t payload_size, struct err *err)
{
    struct buf head cleanup_buf = BUF_INIT;
    const int rc = frame_head(type, request, json, payload_size, &head, err);
    if (rc < 0) {
        return rc;
    }
    struct iovec parts[] = {
        {.iov_base = head.data, .iov_len = head.len},
        {.iov_base = (void *)payload, .iov_len = payload_size},
    };
    return send_all(fd, parts, 2, err);
}

int frame_recv(int fd, struct frame_reader *r, struct frame *ret, struct err *err)
{
    static const char doing[] = "receive a message";
    char bytes[READ_SIZE];
    for (;;) {
        int rc = frame_reader_next(r, ret, err);
        if (rc != 0) {
            return rc;
        }
        const ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n > 0) {
            rc = frame_reader_feed(r, bytes, (size_t)n, err);
        } else if (n == 0) {
            return waiting(r) == 0 ? 0 : corrupt(r, err);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            rc = wait_for(fd, POLLIN, doing, err);
        } else if (errno != EINTR) {
            rc = err_errno(err, doing);
        }
        if (rc < 0) {
            return rc;
        }
    }
}
