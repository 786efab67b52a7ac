#include "server/pool/tail.h"

#include <string.h>

#include "base/file.h"

/* A log that cannot be written has nobody to be told. */
static void tell(struct tail *t, size_t end, int fd)
{
    if (end > t->told) {
        file_write_all(fd, t->text + t->told, end - t->told, NULL);
        t->told = end;
    }
}

/* The older half goes, at the latest then it is passed on. */
static void make_room(struct tail *t, int fd)
{
    const size_t half = TAIL_BYTES / 2;
    if (t->told < half) {
        tell(t, t->len, fd);
    }
    memmove(t->text, t->text + half, t->len - half);
    t->len -= half;
    t->told -= half;
}

static void tell_lines(struct tail *t, int fd)
{
    const char *last = memrchr(t->text + t->told, '\n', t->len - t->told);
    if (last) {
        tell(t, (size_t)(last - t->text) + 1, fd);
    }
}

void tail_add(struct tail *t, const char *data, size_t size, int fd)
{
    while (size > 0) {
        if (t->len == TAIL_BYTES) {
            make_room(t, fd);
        }
        const size_t room = TAIL_BYTES - t->len;
        const size_t n = size < room ? size : room;
        memcpy(t->text + t->len, data, n);
        t->len += n;
        data += n;
        size -= n;
        tell_lines(t, fd);
    }
}

void tail_end(struct tail *t, int fd)
{
    if (t->told < t->len) {
        tail_add(t, "\n", 1, fd);
    }
}

static void push_line(struct json *to, const char *line, size_t len)
{
    char text[TAIL_LINE_BYTES + 1];
    len = len < TAIL_LINE_BYTES ? len : TAIL_LINE_BYTES;
    for (size_t i = 0; i < len; i++) {
        text[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    }
    text[len] = '\0';
    json_push(to, json_new_string(text));
}

void tail_lines(const struct tail *t, struct json *to_array)
{
    size_t starts[TAIL_LINES], count = 0;
    size_t end = t->len;
    while (end > 0 && count < TAIL_LINES) {
        const char *before = memrchr(t->text, '\n', end - 1);
        const size_t start = before ? (size_t)(before - t->text) + 1 : 0;
        if (t->text[start] != '\n') {
            starts[count++] = start;
        }
        end = start;
    }
    while (count-- > 0) {
        const char *line = t->text + starts[count];
        const char *stop = memchr(line, '\n', t->len - starts[count]);
        push_line(to_array, line, stop ? (size_t)(stop - line) : t->len - starts[count]);
    }
}
