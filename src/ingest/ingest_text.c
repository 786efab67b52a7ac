#include "ingest/ingest_text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"

/* A printed character takes at most four bytes, and so does \xNN. */
#define SHOW_UNIT 4
#define SHOW_LIMIT (INGEST_SHOW_SIZE - sizeof(ELLIPSIS "\"") - SHOW_UNIT)

/* Bytes of the character at text that may be printed as they are, or 0. */
static size_t printable(const char *text, size_t len)
{
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
        return 0;
    }
    if (c == 0xc2 && len > 1 && (unsigned char)text[1] < 0xa0) {
        return 0; // U+0080 to U+009F are control characters as well.
    }
    return utf8_step(text, len);
}

const char *ingest_show(const char *text, size_t len, char ret[INGEST_SHOW_SIZE])
{
    size_t out = 0;
    ret[out++] = '"';
    size_t in = 0;
    while (in < len && out <= SHOW_LIMIT) {
        size_t n = printable(text + in, len - in);
        if (n > 0) {
            memcpy(ret + out, text + in, n);
            out += n;
            in += n;
        } else {
            snprintf(ret + out, SHOW_UNIT + 1, "\\x%02x", (unsigned)(unsigned char)text[in]);
            out += SHOW_UNIT;
            in++;
        }
    }
    snprintf(ret + out, INGEST_SHOW_SIZE - out, "%s\"", in < len ? ELLIPSIS : "");
    return ret;
}

/* The place of the first byte that is not UTF-8, or len. */
static size_t find_foreign(const char *text, size_t len)
{
    size_t i = 0;
    for (size_t n = 1; i < len && n > 0; i += n) {
        n = utf8_step(text + i, len - i);
    }
    return i;
}

const char *ingest_encoding_hint(const char *text, size_t len, char ret[INGEST_ENCODING_SIZE])
{
    const size_t at = find_foreign(text, len);
    ret[0] = '\0';
    if (at < len) {
        snprintf(ret, INGEST_ENCODING_SIZE,
                 " (its byte %zu is 0x%02x); tables of text are in UTF-8. iconv -f WINDOWS-1252 -t "
                 "UTF-8 makes one of a table that Windows wrote; Excel calls it \"CSV UTF-8\"",
                 at + 1, (unsigned)(unsigned char)text[at]);
    }
    return ret;
}

const char *ingest_name_fault(const char *text, size_t len)
{
    if (len == 0) {
        return "is empty";
    }
    if (len > INGEST_NAME_MAX) {
        return "is longer than 256 bytes";
    }
    if (memchr(text, '\0', len) != NULL) {
        return "holds a NUL byte";
    }
    return find_foreign(text, len) == len ? NULL : "is not UTF-8";
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

const char *ingest_trim(const char *text, size_t *len)
{
    while (*len > 0 && is_blank(text[*len - 1])) {
        (*len)--;
    }
    while (*len > 0 && is_blank(*text)) {
        text++;
        (*len)--;
    }
    return text;
}

int ingest_refuse_utf16(const char *text, size_t len, struct err *err)
{
    if (len < 2 || (memcmp(text, "\xff\xfe", 2) != 0 && memcmp(text, "\xfe\xff", 2) != 0)) {
        return 0;
    }
    return err_at(
        err, ERR_PARSE, "#/line/1",
        "The table begins with the byte order mark of UTF-16; tables of text are in UTF-8 "
        "(iconv -f UTF-16 -t UTF-8 makes one; in Excel \"CSV UTF-8\").");
}

int ingest_refuse_separator(const char *text, size_t len, struct err *err)
{
    size_t line = 0;
    while (line < len && line <= 5 && text[line] != '\r' && text[line] != '\n') {
        line++;
    }
    if (line > 5 || line < 4 || strncasecmp(text, "sep=", 4) != 0) {
        return 0;
    }
    return err_at(
        err, ERR_INVALID, "#/line/1",
        "Line 1: \"%.*s\" tells Excel what parts the cells. Here that is found without, and "
        "the line would be a row: leave it out.",
        (int)line, text);
}

char ingest_delimiter(const char *line, size_t len, bool commas, bool *quoted)
{
    char found = '\0';
    for (size_t i = 0; i < len; i++) {
        *quoted = *quoted != (line[i] == '"');
        const char c = *quoted ? '"' : line[i];
        if (c == ',' && commas) {
            return c;
        }
        if ((line[i] == '\n' || line[i] == '\r') && (found != '\0' || !*quoted)) {
            break;
        }
        if (c == ';' || (c == '\t' && found == '\0')) {
            found = c;
        }
    }
    return found;
}
