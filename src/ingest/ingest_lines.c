#include "ingest/ingest_lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define FIRST_CAPACITY ((size_t)256 << 10)

int ingest_lines_init(struct ingest_lines *l, int fd, struct err *err)
{
    *l = (struct ingest_lines){.fd = fd, .limit = INGEST_LINE_MAX};
    l->buffer = mem_alloc(FIRST_CAPACITY + 1);
    if (l->buffer == NULL) {
        return err_no_memory(err);
    }
    l->capacity = FIRST_CAPACITY;
    return ingest_lines_rewind(l, err);
}

int ingest_lines_rewind(struct ingest_lines *l, struct err *err)
{
    if (lseek(l->fd, 0, SEEK_SET) < 0) {
        return err_errno(err, "read the upload");
    }
    l->begin = 0;
    l->end = 0;
    l->at_end = false;
    l->saved = '\0';
    l->line = 0;
    return 0;
}

void ingest_lines_deinit(struct ingest_lines *l)
{
    l->buffer = mem_free(l->buffer);
}

int ingest_line_error(struct err *err, enum err_code code, int64_t line, const char *fmt, ...)
{
    char pointer[64];
    char detail[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof(detail), fmt, args);
    va_end(args);
    snprintf(pointer, sizeof(pointer), "#/line/%lld", (long long)line);
    return err_at(err, code, pointer, "Line %lld: %s", (long long)line, detail);
}

/* Moves the unread bytes to the front and makes room for more. */
static int make_room(struct ingest_lines *l, struct err *err)
{
    size_t unread = l->end - l->begin;
    memmove(l->buffer, l->buffer + l->begin, unread);
    l->begin = 0;
    l->end = unread;
    if (unread < l->capacity) {
        return 0;
    }
    if (unread > l->limit) {
        return ingest_line_error(err, ERR_TOO_LARGE, l->line + 1,
                                 "the line has more than %zu bytes.", l->limit);
    }
    char *larger = mem_regrow(l->buffer, 2 * l->capacity + 1, 1);
    if (larger == NULL) {
        return err_no_memory(err);
    }
    l->buffer = larger;
    l->capacity *= 2;
    return 0;
}

static int read_more(struct ingest_lines *l, struct err *err)
{
    int r = make_room(l, err);
    if (r < 0) {
        return r;
    }
    ssize_t n;
    do {
        n = read(l->fd, l->buffer + l->end, l->capacity - l->end);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return err_errno(err, "read the upload");
    }
    l->at_end = n == 0;
    l->end += (size_t)n;
    return 0;
}

/* Length of the first line in buffer[begin..end) with its end, or 0 when more bytes must tell.
 * *searched bytes are known to hold no line end. */
static size_t complete_line(const struct ingest_lines *l, size_t *searched)
{
    const char *start = l->buffer + l->begin;
    size_t len = l->end - l->begin;
    const char *lf = memchr(start + *searched, '\n', len - *searched);
    size_t stop = lf == NULL ? len : (size_t)(lf - start);
    const char *cr = memchr(start + *searched, '\r', stop - *searched);
    if (cr != NULL && cr + 1 < start + len) {
        return (size_t)(cr - start) + (cr[1] == '\n' ? 2 : 1);
    }
    if (cr == NULL && lf != NULL) {
        return stop + 1;
    }
    if (l->at_end) {
        return len;
    }
    *searched = cr == NULL ? len : len - 1; // A CR at the very end may be half of CR LF.
    return 0;
}

int ingest_lines_next(struct ingest_lines *l, char **ret, size_t *ret_len, struct err *err)
{
    if (l->saved != '\0') {
        l->buffer[l->begin] = l->saved;
        l->saved = '\0';
    }
    size_t searched = 0;
    size_t len = 0;
    while ((len = complete_line(l, &searched)) == 0) {
        if (l->at_end) {
            return 1;
        }
        int r = read_more(l, err);
        if (r < 0) {
            return r;
        }
    }
    char *line = l->buffer + l->begin;
    l->begin += len;
    l->line++;
    if (len > l->limit) {
        return ingest_line_error(err, ERR_TOO_LARGE, l->line, "the line has more than %zu bytes.",
                                 l->limit);
    }
    if (memchr(line, '\0', len) != NULL) {
        return ingest_line_error(err, ERR_PARSE, l->line,
                                 "the line holds a NUL byte; text must be UTF-8.");
    }
    l->saved = l->begin < l->end ? line[len] : '\0';
    line[len] = '\0';
    *ret = line;
    *ret_len = len;
    return 0;
}
