#include "client/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "wire/missing.h"

/* A record longer than this is a quote that was never closed. */
#define RECORD_MAX (64u << 20)

void pieces_begin(struct pieces *p, FILE *file)
{
    *p = (struct pieces){.file = file};
}

void pieces_deinit(struct pieces *p)
{
    buf_deinit(&p->header);
    buf_deinit(&p->rest);
}

/* Reads until `want` bytes are there or the file ends. */
static int fill(struct pieces *p, size_t want, struct err *err)
{
    char chunk[1 << 16];
    while (p->rest.len < want && !p->at_end) {
        const size_t n = fread(chunk, 1, sizeof chunk, p->file);
        if (ferror(p->file)) {
            return err_set(err, ERR_IO, "The file cannot be read.");
        }
        p->at_end = n == 0;
        buf_add(&p->rest, chunk, n);
        if (p->rest.failed) {
            return err_no_memory(err);
        }
    }
    return 0;
}

/* Bytes of whole records, at most `most` of them, at the beginning of text; 0: not one. Unless it
 * is all (`last`), they do not end with a line without anything: in a table of one column that is a
 * row, but at the end of a piece it would be none. */
static size_t whole(const char *text, size_t len, int64_t most, bool last, int64_t *ret_records)
{
    bool quoted = false, filled = false; /* the line holds something */
    size_t end = 0;
    int64_t records = 0;
    *ret_records = 0;
    for (size_t i = 0; i < len && records < most; i++) {
        quoted = quoted != (text[i] == '"');
        filled = filled || strchr(" \t\r\n", text[i]) == NULL;
        /* A CR alone ends a line, too; whether the last one is alone is not known yet. */
        const bool alone = text[i] == '\r' && i + 1 < len && text[i + 1] != '\n';
        if ((text[i] != '\n' && !alone) || quoted) {
            continue;
        }
        records++;
        if (last || filled) {
            end = i + 1;
            *ret_records = records;
        }
        filled = false;
    }
    return end;
}

static bool is_between(char c)
{
    return c != '\0' && strchr(" \t\r\n,;\"", c) != NULL;
}

/* Behind the number, or the mark of a missing value, that a field begins with; else `line`. */
static const char *behind_number(const char *line, const char *end)
{
    char *number;
    strtod(line, &number);
    const char *stop = number;
    while (number == line && stop < end && !is_between(*stop)) {
        stop++;
    }
    return number != line || missing_mark(line, (size_t)(stop - line)) ? stop : line;
}

/* Whether every field of the line is a number, or missing, so that it is no header. */
static bool all_numbers(const char *line, size_t len)
{
    const char *end = line + len;
    for (;;) {
        while (line < end && is_between(*line)) {
            line++;
        }
        if (line == end) {
            return true;
        }
        const char *stop = behind_number(line, end);
        if (stop == line || (stop < end && !is_between(*stop))) {
            return false;
        }
        line = stop;
    }
}

/* Lines with nothing in them in front of the first one that has something. */
static void drop_blank_lines(struct buf *b)
{
    size_t end = 0;
    for (size_t i = 0; i < b->len && strchr(" \t\r\n", b->data[i]) && b->data[i] != '\0'; i++) {
        end = b->data[i] == '\n' || b->data[i] == '\r' ? i + 1 : end;
    }
    buf_consume(b, end);
}

/* Byte order marks belong to no name. */
static void drop_marks(struct buf *b)
{
    if (b->len > 0) {
        buf_consume(b, utf8_marks(b->data, b->len));
    }
}

/* Files that other commands take, and how their bytes begin. */
static int refuse_other_formats(const struct buf *b, struct err *err)
{
    static const struct {
        const char *begins, *what, *remedy;
    } formats[] = {
        {"PK\x03\x04", "an NPZ or ZIP archive", "write its X as CSV"},
        {"\x93NUMPY", "an NPY array", "write it as CSV"},
        {"\x1f\x8b", "packed by gzip", "unpack it first, as in gunzip -c FILE | krr predict MODEL"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t len = strlen(formats[i].begins);
        if (b->len >= len && memcmp(b->data, formats[i].begins, len) == 0) {
            return err_set(err, ERR_UNSUPPORTED, "The table is %s: predict takes CSV, so %s.",
                           formats[i].what, formats[i].remedy);
        }
    }
    return 0;
}

static int take_header(struct pieces *p, struct err *err)
{
    int64_t records;
    int r = fill(p, PIECE_BYTES, err);
    r = r == 0 ? refuse_other_formats(&p->rest, err) : r;
    drop_marks(&p->rest);
    drop_blank_lines(&p->rest);
    const size_t len =
        r == 0 && p->rest.data ? whole(p->rest.data, p->rest.len, 1, true, &records) : 0;
    if (len > 0 && !all_numbers(p->rest.data, len)) {
        buf_add(&p->header, p->rest.data, len);
        buf_consume(&p->rest, len);
    }
    p->begun = true;
    return r == 0 && p->header.failed ? err_no_memory(err) : r;
}

/* Bytes to give now. */
static int measure(struct pieces *p, size_t *ret, int64_t *ret_records, struct err *err)
{
    size_t want = PIECE_BYTES;
    for (;; want *= 2) {
        int r = fill(p, want, err);
        if (r < 0) {
            return r;
        }
        const char *text = p->rest.data ? p->rest.data : "";
        *ret = whole(text, p->rest.len, INT64_MAX, p->at_end, ret_records);
        if (p->at_end) {
            *ret_records += *ret < p->rest.len; /* a last line without its end */
            *ret = p->rest.len;
        }
        if (*ret > 0 || p->at_end) {
            return 0;
        }
        if (want > RECORD_MAX) {
            return err_set(err, ERR_PARSE, "A quote after row %lld is never closed.",
                           (long long)p->records);
        }
    }
}

int pieces_next(struct pieces *p, struct buf *ret, struct err *err)
{
    size_t len = 0;
    int64_t records = 0;
    int r = p->begun ? 0 : take_header(p, err);
    if (r == 0) {
        r = measure(p, &len, &records, err);
    }
    if (r < 0 || len == 0) {
        return r;
    }
    buf_clear(ret);
    buf_add(ret, p->header.data, p->header.len);
    buf_add(ret, p->rest.data, len);
    buf_consume(&p->rest, len);
    p->whole = p->records == 0 && p->at_end && p->rest.len == 0;
    p->records += records;
    return ret->failed ? err_no_memory(err) : 1;
}
