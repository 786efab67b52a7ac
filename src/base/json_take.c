/* Fetching the fields of an object, with errors that point at them. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

/* 2^53: the integers a double holds without gaps. */
static const double exact_integers = 9007199254740992.0;

/* Keys are quoted in error texts up to this many bytes. */
enum { QUOTED_KEY = 80 };

static const char *const type_names[] = {
    [JSON_NULL] = "null",       [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
    [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
};

/* ERR_INVALID at "#/key". The sentence names the key too: `before` key `after`. */
static int refuse(const char *key, const char *before, const char *after, struct err *err)
{
    cleanup_buf struct buf pointer = BUF_INIT;
    buf_char(&pointer, '#');
    buf_json_pointer(&pointer, key);
    const int quoted = (int)utf8_fit(key, strlen(key), QUOTED_KEY);
    return err_at(err, ERR_INVALID, pointer.failed ? "" : pointer.data, "%s\"%.*s\"%s", before,
                  quoted, key, after);
}

static int take(const struct json *obj, const char *key, enum json_type type,
                const struct json **ret, struct err *err)
{
    const struct json *found = json_get(obj, key);
    if (found != NULL && json_type(found) != type) {
        char after[64];
        snprintf(after, sizeof(after), " must be %s, but it is %s.", type_names[type],
                 type_names[json_type(found)]);
        return refuse(key, "", after, err);
    }
    *ret = found;
    return 0;
}

int json_take_string(const struct json *obj, const char *key, const char **ret, struct err *err)
{
    const struct json *found = NULL;
    const int rc = take(obj, key, JSON_STRING, &found, err);
    if (rc == 0 && found != NULL) {
        *ret = json_string(found);
    }
    return rc;
}

int json_take_bool(const struct json *obj, const char *key, bool *ret, struct err *err)
{
    const struct json *found = NULL;
    const int rc = take(obj, key, JSON_BOOL, &found, err);
    if (rc == 0 && found != NULL) {
        *ret = json_bool(found);
    }
    return rc;
}

int json_take_number(const struct json *obj, const char *key, double *ret, struct err *err)
{
    const struct json *found = NULL;
    const int rc = take(obj, key, JSON_NUMBER, &found, err);
    if (rc == 0 && found != NULL) {
        *ret = json_number(found);
    }
    return rc;
}

int json_take_int(const struct json *obj, const char *key, int64_t *ret, struct err *err)
{
    const struct json *found = NULL;
    const int rc = take(obj, key, JSON_NUMBER, &found, err);
    if (rc < 0 || found == NULL) {
        return rc;
    }
    const double v = json_number(found);
    if (v != trunc(v) || fabs(v) > JSON_WHOLE_MAX) {
        return refuse(key, "", " must be a whole number between -(2^53 - 1) and 2^53 - 1.", err);
    }
    *ret = (int64_t)v;
    return 0;
}

int64_t json_int(const struct json *j)
{
    return (int64_t)fmin(fmax(json_number(j), -exact_integers), exact_integers);
}

int json_only_keys(const struct json *obj, const char *const *keys, struct err *err)
{
    for (const struct json *child = json_first(obj); child != NULL; child = json_next(child)) {
        const char *const *known = keys;
        while (*known != NULL && strcmp(*known, json_key(child)) != 0) {
            known++;
        }
        if (*known == NULL) {
            return refuse(json_key(child), "The field ", " is not known here.", err);
        }
    }
    return 0;
}
