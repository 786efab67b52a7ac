/*
 * Parameter tables: the single truth about a method's parameters. JSON validation, GET /v1/solvers,
 * the documentation and the engine's defaults all derive from them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum param_type { PARAM_INT, PARAM_REAL, PARAM_BOOL, PARAM_CHOICE };

struct param_def {
    const char *key; /* NULL ends a table */
    enum param_type type;
    double min, max;            /* PARAM_INT and PARAM_REAL; inclusive */
    bool min_exclusive;         /* min itself is not allowed */
    const char *const *choices; /* PARAM_CHOICE, NULL-terminated */
    const char *fallback;       /* JSON text of the default, e.g. "3", "\"auto\"" */
    bool allow_auto;            /* the string "auto" is accepted; the engine decides */
    bool allow_null;            /* null is accepted: as if nothing were given */
    const char *help;           /* one sentence, units included */
};

/* A parameter that means nothing beside another one. Documents that a job is made from have every
 * parameter, so that a default counts as not given. */
struct param_clash {
    const char *key;   /* NULL ends a list */
    const char *other; /* leaves `key` without effect where it has */
    const char *value; /* this value, as JSON text; NULL: any but its default */
};

#define PARAM_MAX 16

struct param_value {
    bool is_auto;
    double real;        /* PARAM_REAL, PARAM_INT, PARAM_BOOL (0 / 1) */
    const char *choice; /* PARAM_CHOICE: the table's own string */
};

/* Values in the table's order; complete: defaults are filled in. */
struct param_set {
    const struct param_def *defs; /* may be NULL: no parameters */
    struct param_value values[PARAM_MAX];
};

/* Reads obj (may be NULL: all defaults). Keys not in the table and not in `also` (NULL-terminated,
 * may be NULL) are refused at "#/key"; so are wrong types and values out of range. */
int param_read(const struct param_def *defs, const struct json *obj, const char *const *also,
               struct param_set *ret, struct err *err);
/* Refuses a parameter that another one leaves without effect, at "#/key"; names both. */
int param_check_clashes(const struct param_set *set, const struct param_clash *clashes,
                        struct err *err);
/* Adds every key to obj with its value. */
void param_write(const struct param_set *set, struct json *obj);
/* The table itself, as GET /v1/solvers shows it: [{key, type: integer|number|boolean|string,
 * minimum or exclusive_minimum, maximum, choices, auto, default, help}]; limits for numbers (a
 * maximum of null: none), choices for strings. */
struct json *param_describe(const struct param_def *defs);

/* By key; a key not in the table is a programmer's error (assert). */
const struct param_value *param_get(const struct param_set *set, const char *key);
double param_real(const struct param_set *set, const char *key);
int64_t param_int(const struct param_set *set, const char *key);
bool param_bool(const struct param_set *set, const char *key);
const char *param_choice(const struct param_set *set, const char *key);
