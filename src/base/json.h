/*
 * Strict JSON. A tree (cJSON nodes underneath) built by our own strict reader (jsonread.h):
 * refuses trailing text, duplicate keys, NaN, Infinity, 1e999, leading zeros, control characters,
 * invalid UTF-8, and nesting beyond JSON_MAX_DEPTH. Getters name the bad field by a JSON pointer.
 *
 * `struct json` is opaque. A tree is freed once, by its root. Adding a child moves it into the
 * parent, or frees it where that fails. Builders return NULL on lack of memory, accept NULL parents
 * (then they return NULL) and mark a parent that lacks a child, so a chain of them needs one check
 * at its end: json_ok(root), or json_print(root), which prints no incomplete tree.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct json;

#define JSON_MAX_DEPTH 64

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Reading. ERR_PARSE names line, column and, where it is known, the pointer. */
int json_parse(const char *text, size_t len, struct json **ret, struct err *err);
struct json *json_free(struct json *j);
static inline void json_freep(struct json **j)
{
    *j = json_free(*j);
}
#define cleanup_json __attribute__((cleanup(json_freep)))

enum json_type json_type(const struct json *j);
const char *json_key(const struct json *j); /* key within the parent object, or NULL */
const struct json *json_get(const struct json *obj, const char *key); /* NULL when absent */
const struct json *json_first(const struct json *j); /* first child of array or object */
const struct json *json_next(const struct json *child);
int64_t json_size(const struct json *j); /* number of children */

/* Values of a node of the right type; 0 / NULL / false for another type. */
bool json_bool(const struct json *j);
double json_number(const struct json *j);
/* The same, cut off behind the point and at -2^53 and 2^53: for counts of a peer or a file that
 * nobody has checked, which a cast of json_number is undefined for where they are larger. */
int64_t json_int(const struct json *j);
/* The largest whole number of which a client can be believed that it meant it: 2^53 is also what
 * 2^53 + 1 is read as (RFC 8259, section 6). */
#define JSON_WHOLE_MAX 9007199254740991.0
const char *json_string(const struct json *j);

/* Fetch obj[key] into *ret. Absent: *ret unchanged, returns 0. Wrong type: -ERR_INVALID with
 * pointer "#/key" and a sentence saying what was expected and what was found. */
int json_take_string(const struct json *obj, const char *key, const char **ret, struct err *err);
int json_take_bool(const struct json *obj, const char *key, bool *ret, struct err *err);
int json_take_number(const struct json *obj, const char *key, double *ret, struct err *err);
int json_take_int(const struct json *obj, const char *key, int64_t *ret,
                  struct err *err); /* integral, |v| <= 2^53 */

/* -ERR_INVALID at "#/x" for the first key of obj that is not in the NULL-terminated list. */
int json_only_keys(const struct json *obj, const char *const *keys, struct err *err);

/* Building. json_set replaces a key that is there already (and puts it last). */
struct json *json_new_object(void);
struct json *json_new_array(void);
struct json *json_new_string(const char *s); /* NULL -> null node */
/* Text that json_print has printed (or an equal of it), which is printed as it is and read no more:
 * json_type calls it null. */
struct json *json_new_text(const char *text);
struct json *json_new_number(double v); /* not finite -> null node */
struct json *json_new_bool(bool v);
struct json *json_new_null(void);
struct json *json_copy(const struct json *j);
struct json *json_set(struct json *obj, const char *key, struct json *child); /* returns child */
struct json *json_push(struct json *arr, struct json *child);                 /* returns child */
void json_set_string(struct json *obj, const char *key, const char *s);       /* NULL -> null */
void json_set_number(struct json *obj, const char *key, double v);            /* NaN -> null */
void json_set_int(struct json *obj, const char *key, int64_t v);
void json_set_bool(struct json *obj, const char *key, bool v);
struct json *json_set_object(struct json *obj, const char *key); /* returns the new object */
struct json *json_set_array(struct json *obj, const char *key);
/* The members of such a text of an object, as they are, behind those that obj has. */
void json_add_members(struct json *obj, const char *object_text);
void json_remove(struct json *obj, const char *key);

/* True where root is not NULL and nothing in it is missing for lack of memory. */
bool json_ok(const struct json *root);

/* Compact text, NUL-terminated, owned by the caller (mem_free); NULL on lack of memory, now or
 * while the tree was built. */
char *json_print(const struct json *j);
