#include "wire/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

/* How much of a client's own text is repeated to it. */
enum { QUOTE_MAX = 64 };

/* "#/key/index" with the key escaped as RFC 6901 asks. */
static void pointer_to(struct buf *b, const char *key, int64_t index)
{
    buf_str(b, "#/");
    for (const char *c = key; *c != '\0'; c++) {
        if (*c == '~' || *c == '/') {
            buf_str(b, *c == '~' ? "~0" : "~1");
        } else {
            buf_char(b, *c);
        }
    }
    if (index != FIELD_WHOLE) {
        buf_printf(b, "/%" PRId64, index);
    }
}

static int report(struct err *err, const char *key, int64_t index, const struct buf *sentence)
{
    struct buf pointer cleanup_buf = BUF_INIT;
    pointer_to(&pointer, key, index);
    if (pointer.failed || sentence->failed) {
        return err_no_memory(err);
    }
    return err_at(err, ERR_INVALID, pointer.data, "%s", sentence->data);
}

static void add_formatted(struct buf *b, const char *fmt, va_list args)
{
    char text[400];
    vsnprintf(text, sizeof(text), fmt, args);
    utf8_mend(text);
    buf_str(b, text);
}

int field_error(struct err *err, const char *key, int64_t index, const char *fmt, ...)
{
    struct buf sentence cleanup_buf = BUF_INIT;
    va_list args;
    va_start(args, fmt);
    add_formatted(&sentence, fmt, args);
    va_end(args);
    return report(err, key, index, &sentence);
}

static void describe_string(struct buf *b, const char *s)
{
    const size_t len = strlen(s);
    struct buf shown cleanup_buf = BUF_INIT;
    buf_add(&shown, s, utf8_fit(s, len, QUOTE_MAX));
    if (len > QUOTE_MAX) {
        buf_str(&shown, "...");
    }
    if (!shown.failed) {
        buf_json_string(b, shown.data);
    }
}

static void describe(struct buf *b, const struct json *j)
{
    if (j == NULL) {
        buf_str(b, "nothing");
        return;
    }
    switch (json_type(j)) {
    case JSON_NULL:
        buf_str(b, "null");
        break;
    case JSON_BOOL:
        buf_str(b, json_bool(j) ? "true" : "false");
        break;
    case JSON_NUMBER:
        buf_json_number(b, json_number(j));
        break;
    case JSON_STRING:
        describe_string(b, json_string(j));
        break;
    case JSON_ARRAY:
        buf_printf(b, "an array of %" PRId64, json_size(j));
        break;
    case JSON_OBJECT:
        buf_str(b, "an object");
        break;
    }
}

int field_wrong(struct err *err, const char *key, int64_t index, const struct json *found,
                const char *fmt, ...)
{
    struct buf sentence cleanup_buf = BUF_INIT;
    buf_str(&sentence, "Expected ");
    va_list args;
    va_start(args, fmt);
    add_formatted(&sentence, fmt, args);
    va_end(args);
    buf_str(&sentence, "; found ");
    describe(&sentence, found);
    buf_char(&sentence, '.');
    return report(err, key, index, &sentence);
}

bool field_count(const struct json *j, int64_t *ret)
{
    if (j == NULL || json_type(j) != JSON_NUMBER) {
        return false;
    }
    const double v = json_number(j);
    if (!(v >= 0) || v > JSON_WHOLE_MAX || v != trunc(v)) {
        return false;
    }
    *ret = (int64_t)v;
    return true;
}

int field_object(const struct json *obj, const char *key, const struct json **ret, struct err *err)
{
    const struct json *j = json_get(obj, key);
    if (j != NULL && json_type(j) != JSON_OBJECT) {
        return field_wrong(err, key, FIELD_WHOLE, j, "an object");
    }
    *ret = j;
    return 0;
}

int field_text(const struct json *obj, const char *key, const char **ret, struct err *err)
{
    const struct json *j = json_get(obj, key);
    if (j == NULL || json_type(j) != JSON_STRING || json_string(j)[0] == '\0') {
        return field_wrong(err, key, FIELD_WHOLE, j, "a string that is not empty");
    }
    *ret = json_string(j);
    return 0;
}
