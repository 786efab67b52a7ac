/*
 * Nodes are struct cJSON, linked and unlinked by cJSON's list functions. They are allocated and
 * freed here, so that all memory goes through mem.h without cJSON's process-wide hooks. What a
 * string holds stands behind its node, in the same piece of memory: a tree of many names takes half
 * as many pieces. The field valueint, which cJSON uses for numbers only, marks an array or object
 * that lacks a child because memory ran out. Nodes of type cJSON_Raw are printed as they are; one
 * without a key stands for members of its object.
 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/buf.h"
#include "base/jsonread.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Keys are quoted in error texts up to this many bytes. */
enum { QUOTED_KEY = 80 };

static const cJSON *node_of(const struct json *j)
{
    return (const cJSON *)(const void *)j;
}

static cJSON *own_node(struct json *j)
{
    return (cJSON *)(void *)j;
}

static struct json *json_of(cJSON *node)
{
    return (struct json *)(void *)node;
}

static const struct json *const_json_of(const cJSON *node)
{
    return (const struct json *)(const void *)node;
}

static cJSON *node_new(int type)
{
    cJSON *node = mem_zalloc(sizeof(*node));
    if (node != NULL) {
        node->type = type;
    }
    return node;
}

/* A node with a text of its own. */
static cJSON *node_new_text(int type, const char *text, size_t len)
{
    cJSON *node = mem_alloc(sizeof(*node) + len + 1);
    if (node != NULL) {
        char *own = (char *)(node + 1);
        *node = (cJSON){.type = type, .valuestring = own};
        memcpy(own, text, len);
        own[len] = '\0';
    }
    return node;
}

/* Recursion goes as deep as the tree, which the reader bounds and builders keep shallow. */
static void node_free(cJSON *node)
{
    while (node != NULL) {
        cJSON *next = node->next;
        node_free(node->child);
        mem_free(node->string);
        mem_free(node);
        node = next;
    }
}

struct json *json_free(struct json *j)
{
    node_free(own_node(j));
    return NULL;
}

/* ---- reading ---- */

/* A key of an object that is still open, for the search for duplicates. */
struct seen_key {
    const char *key;
    int64_t line;
    int64_t column;
};

struct builder {
    struct jsonread *reader;
    cJSON *root; /* owns everything but `key` */
    cJSON *open[JSON_MAX_DEPTH];
    int depth;
    char *key; /* read, its value not yet */
    /* The keys of all open objects, one object behind the other. */
    struct seen_key *seen;
    size_t seen_count;
    size_t seen_capacity;
    size_t seen_from[JSON_MAX_DEPTH];
};

/* Where the reader stands. A container below the outermost is the last child of its parent. */
static void fill_pointer(const struct builder *b, struct err *err)
{
    cleanup_buf struct buf pointer = BUF_INIT;
    buf_char(&pointer, '#');
    for (int i = 0; i < b->depth; i++) {
        const bool innermost = i + 1 == b->depth;
        if (cJSON_IsArray(b->open[i])) {
            buf_printf(&pointer, "/%d", cJSON_GetArraySize(b->open[i]) - (innermost ? 0 : 1));
        } else if (!innermost) {
            buf_json_pointer(&pointer, b->open[i + 1]->string);
        } else if (b->key != NULL) {
            buf_json_pointer(&pointer, b->key);
        }
    }
    if (err != NULL && !pointer.failed) {
        err->pointer[0] = '\0';
        err_prefix(err, pointer.data);
    }
}

static int by_key_then_position(const void *a, const void *b)
{
    const struct seen_key *x = a;
    const struct seen_key *y = b;
    const int order = strcmp(x->key, y->key);
    if (order != 0) {
        return order;
    }
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                              : (x->column > y->column) - (x->column < y->column);
}

/* Sorting keeps hostile objects of a million keys at n log n. */
static int check_duplicates(struct builder *b, struct err *err)
{
    struct seen_key *keys = b->seen + b->seen_from[b->depth - 1];
    const size_t n = b->seen_count - b->seen_from[b->depth - 1];
    if (n < 2) {
        return 0;
    }
    qsort(keys, n, sizeof(*keys), by_key_then_position);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(keys[i - 1].key, keys[i].key) == 0) {
            const int quoted = (int)utf8_fit(keys[i].key, strlen(keys[i].key), QUOTED_KEY);
            b->key = mem_strdup(keys[i].key); /* for the pointer; without it, to the object */
            return err_set(err, ERR_PARSE,
                           "Line %lld, column %lld: the key \"%.*s\" stands twice in one object.",
                           (long long)keys[i].line, (long long)keys[i].column, quoted, keys[i].key);
        }
    }
    return 0;
}

static int remember_key(struct builder *b, struct err *err)
{
    if (b->seen_count == b->seen_capacity) {
        const size_t capacity = b->seen_capacity == 0 ? 32 : 2 * b->seen_capacity;
        struct seen_key *seen = mem_regrow(b->seen, capacity, sizeof(*seen));
        if (seen == NULL) {
            return err_no_memory(err);
        }
        b->seen = seen;
        b->seen_capacity = capacity;
    }
    size_t len;
    const char *key = jsonread_str(b->reader, &len);
    b->key = mem_strndup(key, len);
    if (b->key == NULL) {
        return err_no_memory(err);
    }
    struct seen_key *last = &b->seen[b->seen_count++];
    last->key = b->key;
    jsonread_position(b->reader, &last->line, &last->column);
    return 0;
}

/* Puts a node into the innermost open container, under the key just read if that is an object. */
static int add_node(struct builder *b, cJSON *node, struct err *err)
{
    if (node == NULL) {
        return err_no_memory(err);
    }
    if (b->depth == 0) {
        b->root = node;
        return 0;
    }
    node->string = b->key;
    b->key = NULL;
    cJSON_AddItemToArray(b->open[b->depth - 1], node);
    return 0;
}

static int open_container(struct builder *b, int type, struct err *err)
{
    cJSON *node = node_new(type);
    const int rc = add_node(b, node, err);
    if (rc == 0) {
        b->seen_from[b->depth] = b->seen_count;
        b->open[b->depth++] = node;
    }
    return rc;
}

static int close_container(struct builder *b, struct err *err)
{
    const int rc = check_duplicates(b, err);
    if (rc == 0) {
        b->depth--;
        b->seen_count = b->seen_from[b->depth];
    }
    return rc;
}

static int take_token(struct builder *b, int token, struct err *err)
{
    switch (token) {
    case JSONREAD_OBJECT_BEGIN:
        return open_container(b, cJSON_Object, err);
    case JSONREAD_ARRAY_BEGIN:
        return open_container(b, cJSON_Array, err);
    case JSONREAD_OBJECT_END:
    case JSONREAD_ARRAY_END:
        return close_container(b, err);
    case JSONREAD_KEY:
        return remember_key(b, err);
    case JSONREAD_STRING:
        return add_node(b, own_node(json_new_string(jsonread_str(b->reader, NULL))), err);
    case JSONREAD_NUMBER:
        return add_node(b, own_node(json_new_number(jsonread_number(b->reader))), err);
    case JSONREAD_BOOL:
        return add_node(b, own_node(json_new_bool(jsonread_bool(b->reader))), err);
    default:
        return add_node(b, own_node(json_new_null()), err);
    }
}

static int build(struct builder *b, struct err *err)
{
    for (;;) {
        const int token = jsonread_next(b->reader, err);
        const int rc = token > 0 ? take_token(b, token, err) : token;
        if (rc < 0) {
            if (rc == -ERR_PARSE) {
                fill_pointer(b, err);
            }
            return rc;
        }
        if (token == JSONREAD_END) {
            return 0;
        }
    }
}

int json_parse(const char *text, size_t len, struct json **ret, struct err *err)
{
    struct builder b = {.depth = 0};
    int rc = jsonread_new(text, len, &b.reader, err);
    if (rc < 0) {
        return rc;
    }
    rc = build(&b, err);
    mem_free(b.seen);
    mem_free(b.key);
    jsonread_free(b.reader);
    if (rc < 0) {
        node_free(b.root);
        return rc;
    }
    *ret = json_of(b.root);
    return 0;
}

/* ---- looking ---- */

enum json_type json_type(const struct json *j)
{
    switch (j == NULL ? cJSON_NULL : node_of(j)->type) {
    case cJSON_False:
    case cJSON_True:
        return JSON_BOOL;
    case cJSON_Number:
        return JSON_NUMBER;
    case cJSON_String:
        return JSON_STRING;
    case cJSON_Array:
        return JSON_ARRAY;
    case cJSON_Object:
        return JSON_OBJECT;
    default:
        return JSON_NULL;
    }
}

const char *json_key(const struct json *j)
{
    return j == NULL ? NULL : node_of(j)->string;
}

const struct json *json_get(const struct json *obj, const char *key)
{
    if (json_type(obj) != JSON_OBJECT) {
        return NULL;
    }
    const cJSON *at = node_of(obj)->child;
    while (at != NULL && (at->string == NULL || strcmp(at->string, key) != 0)) {
        at = at->next;
    }
    return const_json_of(at);
}

const struct json *json_first(const struct json *j)
{
    return j == NULL ? NULL : const_json_of(node_of(j)->child);
}

const struct json *json_next(const struct json *child)
{
    return child == NULL ? NULL : const_json_of(node_of(child)->next);
}

int64_t json_size(const struct json *j)
{
    int64_t n = 0;
    for (const struct json *child = json_first(j); child != NULL; child = json_next(child)) {
        n++;
    }
    return n;
}

bool json_bool(const struct json *j)
{
    return j != NULL && node_of(j)->type == cJSON_True;
}

double json_number(const struct json *j)
{
    return json_type(j) == JSON_NUMBER ? node_of(j)->valuedouble : 0.0;
}

const char *json_string(const struct json *j)
{
    return json_type(j) == JSON_STRING ? node_of(j)->valuestring : NULL;
}

/* ---- building ---- */

struct json *json_new_object(void)
{
    return json_of(node_new(cJSON_Object));
}

struct json *json_new_array(void)
{
    return json_of(node_new(cJSON_Array));
}

struct json *json_new_string(const char *s)
{
    return json_of(s == NULL ? node_new(cJSON_NULL) : node_new_text(cJSON_String, s, strlen(s)));
}

struct json *json_new_text(const char *text)
{
    return json_of(node_new_text(cJSON_Raw, text, strlen(text)));
}

struct json *json_new_number(double v)
{
    cJSON *node = node_new(isfinite(v) ? cJSON_Number : cJSON_NULL);
    if (node != NULL && isfinite(v)) {
        node->valuedouble = v;
    }
    return json_of(node);
}

struct json *json_new_bool(bool v)
{
    return json_of(node_new(v ? cJSON_True : cJSON_False));
}

struct json *json_new_null(void)
{
    return json_of(node_new(cJSON_NULL));
}

/* Marks a container that lacks a child. */
static void mark_incomplete(struct json *parent)
{
    if (parent != NULL) {
        own_node(parent)->valueint = 1;
    }
}

static bool is_incomplete(const struct json *j)
{
    const enum json_type type = json_type(j);
    return (type == JSON_ARRAY || type == JSON_OBJECT) && node_of(j)->valueint != 0;
}

bool json_ok(const struct json *j)
{
    if (j == NULL || is_incomplete(j)) {
        return false;
    }
    for (const struct json *child = json_first(j); child != NULL; child = json_next(child)) {
        if (!json_ok(child)) {
            return false;
        }
    }
    return true;
}

static struct json *copy_scalar(const struct json *j)
{
    if (node_of(j)->type == cJSON_Raw) {
        return json_new_text(node_of(j)->valuestring);
    }
    switch (json_type(j)) {
    case JSON_STRING:
        return json_new_string(json_string(j));
    case JSON_NUMBER:
        return json_new_number(json_number(j));
    case JSON_BOOL:
        return json_new_bool(json_bool(j));
    default:
        return json_new_null();
    }
}

struct json *json_copy(const struct json *j)
{
    const enum json_type type = json_type(j);
    if (j == NULL || (type != JSON_ARRAY && type != JSON_OBJECT)) {
        return j == NULL ? NULL : copy_scalar(j);
    }
    cleanup_json struct json *copy = type == JSON_ARRAY ? json_new_array() : json_new_object();
    for (const struct json *child = json_first(j); copy != NULL && child != NULL;
         child = json_next(child)) {
        /* Appended directly: json_set would search for the key each time. */
        cJSON *node = own_node(json_copy(child));
        if (node != NULL) {
            node->string = mem_strdup(json_key(child));
        }
        if (node == NULL || (json_key(child) != NULL && node->string == NULL)) {
            node_free(node);
            return NULL;
        }
        cJSON_AddItemToArray(own_node(copy), node);
    }
    if (copy != NULL && is_incomplete(j)) {
        mark_incomplete(copy);
    }
    struct json *done = copy;
    copy = NULL;
    return done;
}

void json_remove(struct json *obj, const char *key)
{
    const struct json *found = json_get(obj, key);
    if (found != NULL) {
        node_free(cJSON_DetachItemViaPointer(own_node(obj), (cJSON *)node_of(found)));
    }
}

struct json *json_set(struct json *obj, const char *key, struct json *child)
{
    char *name = child == NULL || json_type(obj) != JSON_OBJECT ? NULL : mem_strdup(key);
    if (name == NULL) {
        mark_incomplete(obj);
        return json_free(child);
    }
    json_remove(obj, key);
    mem_free(own_node(child)->string);
    own_node(child)->string = name;
    cJSON_AddItemToArray(own_node(obj), own_node(child));
    return child;
}

struct json *json_push(struct json *arr, struct json *child)
{
    if (child == NULL || json_type(arr) != JSON_ARRAY) {
        mark_incomplete(arr);
        return json_free(child);
    }
    own_node(child)->string = mem_free(own_node(child)->string);
    cJSON_AddItemToArray(own_node(arr), own_node(child));
    return child;
}

void json_add_members(struct json *obj, const char *object_text)
{
    const size_t len = strlen(object_text);
    const bool object = len >= 2 && object_text[0] == '{' && object_text[len - 1] == '}';
    if (object && len == 2) {
        return; /* {} */
    }
    cJSON *node = json_type(obj) != JSON_OBJECT || !object
                      ? NULL
                      : node_new_text(cJSON_Raw, object_text + 1, len - 2);
    if (node == NULL) {
        mark_incomplete(obj);
        return;
    }
    cJSON_AddItemToArray(own_node(obj), node);
}

void json_set_string(struct json *obj, const char *key, const char *s)
{
    json_set(obj, key, json_new_string(s));
}

void json_set_number(struct json *obj, const char *key, double v)
{
    json_set(obj, key, json_new_number(v));
}

void json_set_int(struct json *obj, const char *key, int64_t v)
{
    json_set(obj, key, json_new_number((double)v));
}

void json_set_bool(struct json *obj, const char *key, bool v)
{
    json_set(obj, key, json_new_bool(v));
}

struct json *json_set_object(struct json *obj, const char *key)
{
    return json_set(obj, key, json_new_object());
}

struct json *json_set_array(struct json *obj, const char *key)
{
    return json_set(obj, key, json_new_array());
}

/* ---- printing ---- */

static void print(struct buf *b, const struct json *j);

static void print_children(struct buf *b, const struct json *j)
{
    const bool object = json_type(j) == JSON_OBJECT;
    buf_char(b, object ? '{' : '[');
    for (const struct json *child = json_first(j); child != NULL; child = json_next(child)) {
        if (child != json_first(j)) {
            buf_char(b, ',');
        }
        if (json_key(child) != NULL) {
            buf_json_string(b, json_key(child));
            buf_char(b, ':');
        }
        print(b, child);
    }
    buf_char(b, object ? '}' : ']');
}

static void print(struct buf *b, const struct json *j)
{
    if (j != NULL && node_of(j)->type == cJSON_Raw) {
        buf_str(b, node_of(j)->valuestring);
        return;
    }
    switch (json_type(j)) {
    case JSON_BOOL:
        buf_str(b, json_bool(j) ? "true" : "false");
        break;
    case JSON_NUMBER:
        buf_json_number(b, json_number(j));
        break;
    case JSON_STRING:
        buf_json_string(b, json_string(j));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        print_children(b, j);
        break;
    default:
        buf_str(b, "null");
        break;
    }
}

char *json_print(const struct json *j)
{
    if (!json_ok(j)) {
        return NULL;
    }
    struct buf b = BUF_INIT;
    print(&b, j);
    return buf_take(&b);
}
