#include "wire/param.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "wire/field.h"

enum { ALSO_MAX = 32 };

static bool has_range(const struct param_def *d)
{
    return d->type == PARAM_INT || d->type == PARAM_REAL;
}

static bool in_range(const struct param_def *d, double v)
{
    return isfinite(v) && v <= d->max && (d->min_exclusive ? v > d->min : v >= d->min);
}

static bool is_text(const struct json *j, const char *text)
{
    return json_type(j) == JSON_STRING && strcmp(json_string(j), text) == 0;
}

static bool read_number(const struct param_def *d, const struct json *j, double *ret)
{
    if (json_type(j) != JSON_NUMBER || !in_range(d, json_number(j))) {
        return false;
    }
    const double v = json_number(j);
    if (d->type == PARAM_INT && (v != trunc(v) || fabs(v) > JSON_WHOLE_MAX)) {
        return false;
    }
    *ret = v;
    return true;
}

static const char *find_choice(const struct param_def *d, const struct json *j)
{
    for (const char *const *c = d->choices; *c != NULL; c++) {
        if (is_text(j, *c)) {
            return *c;
        }
    }
    return NULL;
}

/* False: the value is not allowed. */
static bool read_value(const struct param_def *d, const struct json *j, struct param_value *ret)
{
    struct param_value v = {.is_auto = d->allow_auto && is_text(j, "auto")};
    if (!v.is_auto) {
        switch (d->type) {
        case PARAM_INT:
        case PARAM_REAL:
            if (!read_number(d, j, &v.real)) {
                return false;
            }
            break;
        case PARAM_BOOL:
            if (json_type(j) != JSON_BOOL) {
                return false;
            }
            v.real = json_bool(j) ? 1 : 0;
            break;
        case PARAM_CHOICE:
            v.choice = find_choice(d, j);
            if (v.choice == NULL) {
                return false;
            }
            break;
        }
    }
    *ret = v;
    return true;
}

static void describe_range(const struct param_def *d, struct buf *b)
{
    buf_str(b, d->type == PARAM_INT ? "a whole number" : "a number");
    if (isfinite(d->min)) {
        buf_str(b, d->min_exclusive ? " greater than " : " of at least ");
        buf_json_number(b, d->min);
    }
    if (isfinite(d->max)) {
        buf_str(b, isfinite(d->min) ? " and at most " : " of at most ");
        buf_json_number(b, d->max);
    }
}

static void describe_expected(const struct param_def *d, struct buf *b)
{
    if (has_range(d)) {
        describe_range(d, b);
    } else if (d->type == PARAM_BOOL) {
        buf_str(b, "true or false");
    } else {
        buf_str(b, "one of ");
        for (const char *const *c = d->choices; *c != NULL; c++) {
            buf_str(b, c == d->choices ? "" : ", ");
            buf_json_string(b, *c);
        }
    }
    if (d->allow_auto) {
        buf_str(b, " or \"auto\"");
    }
}

static int wrong_value(const struct param_def *d, const struct json *found, struct err *err)
{
    struct buf expected cleanup_buf = BUF_INIT;
    describe_expected(d, &expected);
    if (expected.failed) {
        return err_no_memory(err);
    }
    return field_wrong(err, d->key, FIELD_WHOLE, found, "%s", expected.data);
}

/* A value of a table, as JSON text. */
static int read_text(const struct param_def *d, const char *text, struct param_value *ret,
                     struct err *err)
{
    struct json *j cleanup_json = NULL;
    const int rc = json_parse(text, strlen(text), &j, err);
    if (rc < 0) {
        return rc;
    }
    return read_value(d, j, ret) ? 0 : wrong_value(d, j, err);
}

static int check_keys(const struct param_def *defs, const struct json *obj, const char *const *also,
                      struct err *err)
{
    const char *keys[PARAM_MAX + ALSO_MAX + 1];
    int n = 0;
    for (; also != NULL && also[n] != NULL; n++) {
        assert(n < ALSO_MAX);
        keys[n] = also[n];
    }
    for (const struct param_def *d = defs; d != NULL && d->key != NULL; d++) {
        assert(d - defs < PARAM_MAX);
        keys[n++] = d->key;
    }
    keys[n] = NULL;
    return json_only_keys(obj, keys, err);
}

int param_read(const struct param_def *defs, const struct json *obj, const char *const *also,
               struct param_set *ret, struct err *err)
{
    if (obj != NULL) {
        const int rc = check_keys(defs, obj, also, err);
        if (rc < 0) {
            return rc;
        }
    }
    struct param_set set = {.defs = defs};
    for (int i = 0; defs != NULL && defs[i].key != NULL; i++) {
        const struct json *given = obj == NULL ? NULL : json_get(obj, defs[i].key);
        if (given == NULL || (defs[i].allow_null && json_type(given) == JSON_NULL)) {
            const int rc = read_text(&defs[i], defs[i].fallback, &set.values[i], err);
            if (rc < 0) {
                return rc;
            }
        } else if (!read_value(&defs[i], given, &set.values[i])) {
            return wrong_value(&defs[i], given, err);
        }
    }
    *ret = set;
    return 0;
}

static bool same_value(const struct param_value *a, const struct param_value *b)
{
    const bool choices = a->choice != NULL && b->choice != NULL;
    return a->is_auto == b->is_auto && a->real == b->real &&
           (choices ? strcmp(a->choice, b->choice) == 0 : a->choice == b->choice);
}

/* *ret: whether the parameter has that value, or, where there is none, another than its default. */
static int has_value(const struct param_set *set, const char *key, const char *text, bool *ret,
                     struct err *err)
{
    const struct param_value *v = param_get(set, key);
    const struct param_def *d = &set->defs[v - set->values];
    struct param_value wanted;
    const int rc = read_text(d, text != NULL ? text : d->fallback, &wanted, err);
    *ret = rc == 0 && same_value(v, &wanted) == (text != NULL);
    return rc;
}

int param_check_clashes(const struct param_set *set, const struct param_clash *clashes,
                        struct err *err)
{
    int rc = 0;
    for (const struct param_clash *c = clashes; rc == 0 && c != NULL && c->key != NULL; c++) {
        bool given = false, ruled = false;
        rc = has_value(set, c->key, NULL, &given, err);
        rc = rc == 0 ? has_value(set, c->other, c->value, &ruled, err) : rc;
        if (rc == 0 && given && ruled) {
            return field_error(
                err, c->key, FIELD_WHOLE,
                "The parameter \"%s\" has no effect where \"%s\" is %s: leave one of them "
                "out.",
                c->key, c->other, c->value != NULL ? c->value : "given");
        }
    }
    return rc;
}

void param_write(const struct param_set *set, struct json *obj)
{
    for (int i = 0; set->defs != NULL && set->defs[i].key != NULL; i++) {
        const struct param_def *d = &set->defs[i];
        const struct param_value *v = &set->values[i];
        if (v->is_auto) {
            json_set_string(obj, d->key, "auto");
        } else if (d->type == PARAM_BOOL) {
            json_set_bool(obj, d->key, v->real != 0);
        } else if (d->type == PARAM_CHOICE) {
            json_set_string(obj, d->key, v->choice);
        } else {
            json_set_number(obj, d->key, v->real);
        }
    }
}

static const char *type_name(enum param_type t)
{
    switch (t) {
    case PARAM_INT:
        return "integer";
    case PARAM_REAL:
        return "number";
    case PARAM_BOOL:
        return "boolean";
    case PARAM_CHOICE:
        break;
    }
    return "string";
}

static void describe_default(const struct param_def *d, struct json *j)
{
    struct json *fallback = NULL; /* stays NULL on lack of memory: j is then not json_ok */
    json_parse(d->fallback, strlen(d->fallback), &fallback, NULL);
    json_set(j, "default", fallback);
}

static void describe_choices(const struct param_def *d, struct json *j)
{
    struct json *list = json_set_array(j, "choices");
    for (const char *const *c = d->choices; *c != NULL; c++) {
        json_push(list, json_new_string(*c));
    }
}

static struct json *describe_one(const struct param_def *d)
{
    struct json *j = json_new_object();
    json_set_string(j, "key", d->key);
    json_set_string(j, "type", type_name(d->type));
    if (has_range(d)) {
        json_set_number(j, d->min_exclusive ? "exclusive_minimum" : "minimum", d->min);
        json_set_number(j, "maximum", d->max); /* infinity prints null: none */
    }
    if (d->type == PARAM_CHOICE) {
        describe_choices(d, j);
    }
    json_set_bool(j, "auto", d->allow_auto);
    describe_default(d, j);
    json_set_string(j, "help", d->help);
    return j;
}

struct json *param_describe(const struct param_def *defs)
{
    struct json *list = json_new_array();
    for (const struct param_def *d = defs; d != NULL && d->key != NULL; d++) {
        json_push(list, describe_one(d));
    }
    return list;
}

const struct param_value *param_get(const struct param_set *set, const char *key)
{
    for (int i = 0; set->defs != NULL && set->defs[i].key != NULL; i++) {
        if (strcmp(set->defs[i].key, key) == 0) {
            return &set->values[i];
        }
    }
    assert(!"the key is in the table");
    return NULL;
}

double param_real(const struct param_set *set, const char *key)
{
    return param_get(set, key)->real;
}

int64_t param_int(const struct param_set *set, const char *key)
{
    return (int64_t)param_get(set, key)->real;
}

bool param_bool(const struct param_set *set, const char *key)
{
    return param_get(set, key)->real != 0;
}

const char *param_choice(const struct param_set *set, const char *key)
{
    return param_get(set, key)->choice;
}
