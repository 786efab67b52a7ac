#include "base/jsonread.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

/* What may come next. A key takes its colon along, so a value follows it. */
enum expect {
    EXPECT_VALUE,
    EXPECT_FIRST_VALUE, /* or the end of the array */
    EXPECT_FIRST_KEY,   /* or the end of the object */
    EXPECT_SEPARATOR,   /* a comma, or the end of the container */
    EXPECT_NOTHING
};

struct jsonread {
    const char *text;
    size_t len;
    size_t at;         /* the next byte to read */
    size_t line_start; /* where the current line begins */
    int64_t line;
    int64_t token_line;
    int64_t token_column;
    enum expect expect;
    int depth;
    bool in_object[JSON_MAX_DEPTH];

    enum jsonread_token token; /* the last one, with its value in one of these */
    struct buf string;
    double number;
    bool boolean;

    int status; /* 0, or what every further call returns, with the story in `failure` */
    struct err failure;
};

int jsonread_new(const char *text, size_t len, struct jsonread **ret, struct err *err)
{
    struct jsonread *r = mem_zalloc(sizeof(*r));
    if (r == NULL) {
        return err_no_memory(err);
    }
    r->text = text;
    r->len = len;
    r->line = r->token_line = r->token_column = 1;
    *ret = r;
    return 0;
}

struct jsonread *jsonread_free(struct jsonread *r)
{
    if (r != NULL) {
        buf_deinit(&r->string);
    }
    return mem_free(r);
}

/* A failure at the next byte to read. */
__attribute__((format(printf, 2, 3))) static int fail(struct jsonread *r, const char *fmt, ...)
{
    char what[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    r->status = err_set(&r->failure, ERR_PARSE, "Line %lld, column %lld: %s.", (long long)r->line,
                        (long long)(r->at - r->line_start + 1), what);
    return r->status;
}

static int fail_expected(struct jsonread *r, const char *expected)
{
    if (r->at == r->len) {
        return fail(r, "the text ends where %s should stand", expected);
    }
    const unsigned char c = (unsigned char)r->text[r->at];
    if (c > 0x20 && c < 0x7F) {
        return fail(r, "expected %s, found '%c'", expected, c);
    }
    return fail(r, "expected %s, found the byte 0x%02x", expected, c);
}

static bool next_is(const struct jsonread *r, char c)
{
    return r->at < r->len && r->text[r->at] == c;
}

/* Newlines stand only between tokens, so lines are counted nowhere else. */
static void skip_space(struct jsonread *r)
{
    for (; r->at < r->len; r->at++) {
        const char c = r->text[r->at];
        if (c == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static void mark_token(struct jsonread *r)
{
    r->token_line = r->line;
    r->token_column = (int64_t)(r->at - r->line_start) + 1;
}

/* Four hexadecimal digits, or -1. */
static int read_hex4(struct jsonread *r)
{
    int value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->len ? r->text[r->at] : '\0';
        if (c >= '0' && c <= '9') {
            value = 16 * value + (c - '0');
        } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
            value = 16 * value + ((c | 0x20) - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

static void add_utf8(struct buf *b, int c)
{
    char text[4];
    buf_add(b, text, utf8_put((uint32_t)c, text));
}

/* The four digits behind a "\u", and a second escape where the first is half a pair. */
static int read_unicode_escape(struct jsonread *r)
{
    const int c = read_hex4(r);
    if (c < 0) {
        return fail_expected(r, "a hexadecimal digit");
    }
    if (c == 0) {
        return fail(r, "\\u0000 is not allowed in a string");
    }
    if (c < 0xD800 || c > 0xDFFF) {
        add_utf8(&r->string, c);
        return 0;
    }
    if (c <= 0xDBFF && next_is(r, '\\') && r->at + 1 < r->len && r->text[r->at + 1] == 'u') {
        r->at += 2;
        const int low = read_hex4(r);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            add_utf8(&r->string, 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00));
            return 0;
        }
    }
    return fail(r, "\\u%04x is half of a surrogate pair without its other half", (unsigned)c);
}

/* The part of an escape behind its backslash. */
static int read_escape(struct jsonread *r)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (next_is(r, 'u')) {
        r->at++;
        return read_unicode_escape(r);
    }
    const char *found = r->at < r->len ? memchr(from, r->text[r->at], sizeof(from) - 1) : NULL;
    if (found == NULL) {
        return fail_expected(r, "one of \"\\/bfnrtu after a backslash");
    }
    buf_char(&r->string, to[found - from]);
    r->at++;
    return 0;
}

/* Copies what may stand in a string as it is. */
static void read_plain(struct jsonread *r)
{
    const size_t start = r->at;
    while (r->at < r->len) {
        const unsigned char c = (unsigned char)r->text[r->at];
        const size_t step = c < 0x80 ? 1 : utf8_step(r->text + r->at, r->len - r->at);
        if (step == 0 || c < 0x20 || c == '"' || c == '\\') {
            break;
        }
        r->at += step;
    }
    buf_add(&r->string, r->text + start, r->at - start);
}

static int read_string(struct jsonread *r)
{
    buf_clear(&r->string);
    r->at++; /* the opening quote */
    for (;;) {
        read_plain(r);
        if (r->at == r->len) {
            return fail(r, "the text ends inside a string");
        }
        const unsigned char c = (unsigned char)r->text[r->at];
        if (c == '"') {
            r->at++;
            break;
        }
        if (c < 0x20) {
            return fail(r, "the control character 0x%02x must be escaped in a string", c);
        }
        if (c != '\\') {
            return fail(r, "the string is not valid UTF-8");
        }
        r->at++;
        const int rc = read_escape(r);
        if (rc < 0) {
            return rc;
        }
    }
    if (r->string.failed) {
        r->status = err_no_memory(&r->failure);
    }
    return r->status;
}

/* After a whole value: what may follow it. */
static int value_done(struct jsonread *r, enum jsonread_token token)
{
    r->expect = r->depth > 0 ? EXPECT_SEPARATOR : EXPECT_NOTHING;
    r->token = token;
    return (int)token;
}

static int read_number(struct jsonread *r)
{
    double value = 0.0;
    const size_t len = decimal_scan(r->text + r->at, r->len - r->at, &value);
    if (len == 0) {
        return fail(r, "this is not a complete number");
    }
    if (!isfinite(value)) {
        return fail(r, "the number is too large for a 64-bit float");
    }
    r->at += len;
    /* "01" and "1.2.3" would otherwise be called a missing comma. */
    if (r->at < r->len && strchr("0123456789.eE+-", r->text[r->at]) != NULL &&
        r->text[r->at] != '\0') {
        return fail(r, "this is not a number in the form that JSON demands");
    }
    r->number = value;
    return value_done(r, JSONREAD_NUMBER);
}

static int read_word(struct jsonread *r, const char *word, enum jsonread_token token)
{
    const size_t len = strlen(word);
    if (r->len - r->at < len || memcmp(r->text + r->at, word, len) != 0) {
        return fail_expected(r, "a value");
    }
    r->at += len;
    r->boolean = word[0] == 't';
    return value_done(r, token);
}

static int begin(struct jsonread *r, bool object)
{
    if (r->depth == JSON_MAX_DEPTH) {
        return fail(r, "arrays and objects are nested more than %d deep", JSON_MAX_DEPTH);
    }
    r->at++;
    r->in_object[r->depth++] = object;
    r->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
    r->token = object ? JSONREAD_OBJECT_BEGIN : JSONREAD_ARRAY_BEGIN;
    return (int)r->token;
}

static int end(struct jsonread *r)
{
    r->at++;
    r->depth--;
    return value_done(r, r->in_object[r->depth] ? JSONREAD_OBJECT_END : JSONREAD_ARRAY_END);
}

static int read_value(struct jsonread *r)
{
    const char c = r->at < r->len ? r->text[r->at] : '\0';
    switch (c) {
    case '{':
        return begin(r, true);
    case '[':
        return begin(r, false);
    case '"':
        return read_string(r) < 0 ? r->status : value_done(r, JSONREAD_STRING);
    case 't':
        return read_word(r, "true", JSONREAD_BOOL);
    case 'f':
        return read_word(r, "false", JSONREAD_BOOL);
    case 'n':
        return read_word(r, "null", JSONREAD_NULL);
    default:
        break;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        return read_number(r);
    }
    return fail_expected(r, "a value");
}

static int read_key(struct jsonread *r, const char *expected)
{
    if (!next_is(r, '"')) {
        return fail_expected(r, expected);
    }
    if (read_string(r) < 0) {
        return r->status;
    }
    skip_space(r);
    if (!next_is(r, ':')) {
        return fail_expected(r, "a colon");
    }
    r->at++;
    r->expect = EXPECT_VALUE;
    r->token = JSONREAD_KEY;
    return (int)r->token;
}

/* Behind a value inside a container. */
static int read_separator(struct jsonread *r)
{
    const bool object = r->in_object[r->depth - 1];
    if (next_is(r, object ? '}' : ']')) {
        return end(r);
    }
    if (!next_is(r, ',')) {
        return fail_expected(r, object ? "a comma or '}'" : "a comma or ']'");
    }
    r->at++;
    skip_space(r);
    mark_token(r);
    return object ? read_key(r, "a key in double quotes") : read_value(r);
}

static int read_token(struct jsonread *r)
{
    skip_space(r);
    mark_token(r);
    switch (r->expect) {
    case EXPECT_VALUE:
        return read_value(r);
    case EXPECT_FIRST_VALUE:
        return next_is(r, ']') ? end(r) : read_value(r);
    case EXPECT_FIRST_KEY:
        return next_is(r, '}') ? end(r) : read_key(r, "a key in double quotes or '}'");
    case EXPECT_SEPARATOR:
        return read_separator(r);
    default:
        break;
    }
    if (r->at < r->len) {
        return fail_expected(r, "nothing more after the value");
    }
    r->token = JSONREAD_END;
    return JSONREAD_END;
}

int jsonread_next(struct jsonread *r, struct err *err)
{
    const int token = r->status < 0 ? r->status : read_token(r);
    if (token < 0 && err != NULL) {
        *err = r->failure;
    }
    return token;
}

/* Takes the array's next numbers, up to `max`, from the next byte, or from behind a comma and
 * blanks there, and returns how many. 0: nothing was read, and jsonread_next says what is there. */
static int64_t take_plain_numbers(struct jsonread *r, double *to, int64_t max)
{
    size_t at = r->at;
    if (r->expect == EXPECT_SEPARATOR) {
        if (at == r->len || r->text[at] != ',') {
            return 0;
        }
        for (at++; at < r->len && r->text[at] == ' '; at++) {
        }
    }
    int64_t count = 0;
    const size_t len = decimal_scan_list(r->text + at, r->len - at, max, to, &count);
    if (count > 0) {
        r->at = at + len;
        r->expect = EXPECT_SEPARATOR;
        r->token = JSONREAD_NUMBER;
    }
    return count;
}

int jsonread_numbers(struct jsonread *r, double *to, int64_t max, int64_t *ret_count,
                     struct err *err)
{
    int token = JSONREAD_NUMBER;
    int64_t count = 0;
    while (token == JSONREAD_NUMBER && count < max) {
        const bool inside = r->status == 0 && r->depth > 0 && !r->in_object[r->depth - 1];
        const int64_t taken = inside ? take_plain_numbers(r, to + count, max - count) : 0;
        count += taken;
        if (taken > 0 && r->text[r->at] == ']') {
            mark_token(r);
            token = end(r);
        } else if (count < max) {
            token = jsonread_next(r, err);
            if (token == JSONREAD_NUMBER) {
                to[count++] = r->number;
            }
        }
    }
    *ret_count = count;
    return token == JSONREAD_NUMBER ? jsonread_next(r, err) : token;
}

/* From the next byte: a comma, unless the row is the array's first, and a row of `columns` plain
 * numbers. Where they are not there nothing is read. */
static bool take_row(struct jsonread *r, double *to, int64_t columns)
{
    int64_t count = 0;
    size_t at = r->at;
    if (r->expect == EXPECT_SEPARATOR) {
        if (at == r->len || r->text[at] != ',') {
            return false;
        }
        at++;
    }
    while (at < r->len && r->text[at] == ' ') {
        at++;
    }
    if (at == r->len || r->text[at] != '[') {
        return false;
    }
    at++;
    at += decimal_scan_list(r->text + at, r->len - at, columns, to, &count);
    if (count < columns || r->text[at] != ']') {
        return false;
    }
    r->at = at + 1;
    r->expect = EXPECT_SEPARATOR;
    return true;
}

int64_t jsonread_rows(struct jsonread *r, double *to, int64_t columns, int64_t max)
{
    const bool inside = r->depth > 0 && r->depth < JSON_MAX_DEPTH && !r->in_object[r->depth - 1];
    int64_t count = 0;
    if (r->status < 0 || !inside || columns < 1) {
        return 0;
    }
    while (count < max && take_row(r, to + count * columns, columns)) {
        count++;
    }
    if (count > 0) { /* the last ']' is the last token */
        mark_token(r);
        r->token_column--;
        r->token = JSONREAD_ARRAY_END;
    }
    return count;
}

size_t jsonread_offset(const struct jsonread *r)
{
    return r->at;
}

const char *jsonread_str(const struct jsonread *r, size_t *ret_len)
{
    if (ret_len != NULL) {
        *ret_len = r->string.len;
    }
    return r->string.data == NULL ? "" : r->string.data;
}

double jsonread_number(const struct jsonread *r)
{
    return r->number;
}

bool jsonread_bool(const struct jsonread *r)
{
    return r->boolean;
}

int jsonread_skip(struct jsonread *r, struct err *err)
{
    int token = r->status < 0 || r->token == JSONREAD_KEY ? jsonread_next(r, err) : (int)r->token;
    if (token != JSONREAD_OBJECT_BEGIN && token != JSONREAD_ARRAY_BEGIN) {
        return token < 0 ? token : 0;
    }
    const int outside = r->depth - 1;
    while (r->depth > outside) {
        token = jsonread_next(r, err);
        if (token < 0) {
            return token;
        }
    }
    return 0;
}

void jsonread_position(const struct jsonread *r, int64_t *ret_line, int64_t *ret_column)
{
    *ret_line = r->token_line;
    *ret_column = r->token_column;
}
