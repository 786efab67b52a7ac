#include "wire/promote.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "wire/field.h"
#include "wire/spec.h"
#include "wire/spec_parts.h"

static const char *const op_names[] = {
    [PROMOTE_LT] = "lt",
    [PROMOTE_LE] = "le",
    [PROMOTE_GT] = "gt",
    [PROMOTE_GE] = "ge",
};

enum { OPS = sizeof(op_names) / sizeof(op_names[0]) };

_Static_assert(PROMOTE_CONDITIONS_MAX == SEARCH_AUC * OPS, "Each comparison of each metric.");
_Static_assert(PROMOTE_ALIAS_MAX == SPEC_NAME_MAX, "Aliases are names as those of models.");

/* ---- reading ---- */

static bool find_metric(const char *name, enum search_metric *ret)
{
    for (enum search_metric m = SEARCH_SMAPE; m <= SEARCH_AUC; m++) {
        if (strcmp(search_metric_name(m), name) == 0) {
            *ret = m;
            return true;
        }
    }
    return false;
}

static bool find_op(const char *name, enum promote_op *ret)
{
    for (int i = 0; i < OPS; i++) {
        if (strcmp(op_names[i], name) == 0) {
            *ret = (enum promote_op)i;
            return true;
        }
    }
    return false;
}

static int read_limit(const struct json *j, struct promote_condition *c, struct err *err)
{
    if (json_type(j) == JSON_STRING && strcmp(json_string(j), "current") == 0) {
        c->current = true;
        return 0;
    }
    if (json_type(j) != JSON_NUMBER) {
        return field_wrong(err, json_key(j), FIELD_WHOLE, j, "a number or \"current\"");
    }
    c->limit = json_number(j);
    return 0;
}

/* The comparisons of one metric. */
static int read_metric(const struct json *j, struct promote_spec *s, struct err *err)
{
    enum search_metric metric;
    if (!find_metric(json_key(j), &metric)) {
        return field_error(err, json_key(j), FIELD_WHOLE,
                           "A metric is smape, rmse, mae, r2, accuracy or auc.");
    }
    if (json_type(j) != JSON_OBJECT || json_first(j) == NULL) {
        return field_wrong(err, json_key(j), FIELD_WHOLE, j,
                           "an object with \"lt\", \"le\", \"gt\" or \"ge\"");
    }
    int rc = 0;
    for (const struct json *at = json_first(j); rc == 0 && at != NULL; at = json_next(at)) {
        struct promote_condition *c = &s->conditions[s->count];
        *c = (struct promote_condition){.metric = metric};
        rc = find_op(json_key(at), &c->op)
                 ? read_limit(at, c, err)
                 : field_error(err, json_key(at), FIELD_WHOLE,
                               "A comparison is \"lt\", \"le\", \"gt\" or \"ge\".");
        s->count++;
    }
    return spec__within(json_key(j), rc, err);
}

static int read_conditions(const struct json *j, struct promote_spec *s, struct err *err)
{
    const struct json *conditions = NULL;
    int rc = field_object(j, "if", &conditions, err);
    const struct json *at = rc == 0 && conditions != NULL ? json_first(conditions) : NULL;
    for (; rc == 0 && at != NULL; at = json_next(at)) {
        rc = spec__within("if", read_metric(at, s, err), err);
    }
    return rc;
}

static int read_fields(const struct json *j, struct promote_spec *s, struct err *err)
{
    static const char *const keys[] = {"alias", "if", NULL};
    const char *alias = NULL;
    int rc = json_only_keys(j, keys, err);
    rc = rc < 0 ? rc : field_text(j, "alias", &alias, err);
    if (rc == 0 && !spec_name_valid(alias)) {
        rc = field_wrong(err, "alias", FIELD_WHOLE, json_get(j, "alias"),
                         "at most %d letters, digits, '.', '_' and '-', the first one a letter or "
                         "digit",
                         PROMOTE_ALIAS_MAX);
    }
    if (rc == 0) {
        snprintf(s->alias, sizeof(s->alias), "%s", alias);
        rc = read_conditions(j, s, err);
    }
    return rc;
}

int promote_read(const struct json *j, struct promote_spec *ret, struct err *err)
{
    static const char key[] = "promote";
    const struct json *given = json_get(j, key);
    struct promote_spec s = {.count = 0};
    if (given != NULL && json_type(given) != JSON_NULL) {
        const int rc = json_type(given) == JSON_OBJECT
                           ? spec__within(key, read_fields(given, &s, err), err)
                           : field_wrong(err, key, FIELD_WHOLE, given, "an object");
        if (rc < 0) {
            return rc;
        }
    }
    *ret = s;
    return 0;
}

void promote_write(const struct promote_spec *s, struct json *j)
{
    if (s->alias[0] == '\0') {
        json_set(j, "promote", json_new_null());
        return;
    }
    struct json *promote = json_set_object(j, "promote");
    json_set_string(promote, "alias", s->alias);
    struct json *conditions = json_set_object(promote, "if");
    struct json *metric = NULL;
    for (int i = 0; i < s->count; i++) {
        const struct promote_condition *c = &s->conditions[i];
        if (i == 0 || c[-1].metric != c->metric) {
            metric = json_set_object(conditions, search_metric_name(c->metric));
        }
        if (c->current) {
            json_set_string(metric, op_names[c->op], "current");
        } else {
            json_set_number(metric, op_names[c->op], c->limit);
        }
    }
}

/* ---- checking ---- */

static int check_condition(const struct promote_condition *c, int64_t classes, struct err *err)
{
    const char *name = search_metric_name(c->metric);
    char pointer[64];
    snprintf(pointer, sizeof(pointer), "#/promote/if/%s", name);
    if (search_metric_classifies(c->metric) != (classes > 0)) {
        return err_at(err, ERR_INVALID, pointer, "The metric \"%s\" does not judge a %s.", name,
                      classes > 0 ? "classification" : "regression");
    }
    if (c->metric == SEARCH_AUC && classes != 2) {
        return err_at(err, ERR_INVALID, pointer,
                      "The metric \"auc\" is defined for two classes; the target has %lld.",
                      (long long)classes);
    }
    return 0;
}

int promote_check(const struct promote_spec *s, int64_t classes, bool tested, struct err *err)
{
    if (s->count > 0 && !tested) {
        return err_at(err, ERR_INVALID, "#/promote/if",
                      "The job has no test rows, and so no metrics to decide by.");
    }
    int rc = 0;
    for (int i = 0; rc == 0 && i < s->count; i++) {
        rc = check_condition(&s->conditions[i], classes, err);
    }
    return rc;
}

/* ---- deciding ---- */

/* NaN where it is not known. */
static double metric_of(const struct json *metrics, enum search_metric metric)
{
    const struct json *j = metrics != NULL ? json_get(metrics, search_metric_name(metric)) : NULL;
    return j != NULL && json_type(j) == JSON_NUMBER ? json_number(j) : NAN;
}

static bool holds(double value, enum promote_op op, double limit)
{
    switch (op) {
    case PROMOTE_LT:
        return value < limit;
    case PROMOTE_LE:
        return value <= limit;
    case PROMOTE_GT:
        return value > limit;
    default:
        return value >= limit;
    }
}

bool promote_worth(const struct promote_spec *s, const struct json *metrics)
{
    bool all = true;
    for (int i = 0; i < s->count; i++) {
        const struct promote_condition *c = &s->conditions[i];
        all &= c->current || holds(metric_of(metrics, c->metric), c->op, c->limit);
    }
    return all;
}

bool promote_decide(const struct promote_spec *s, const struct json *metrics,
                    const struct json *current, struct json **ret_conditions)
{
    struct json *list = json_new_array();
    bool all = true;
    for (int i = 0; i < s->count; i++) {
        const struct promote_condition *c = &s->conditions[i];
        const double value = metric_of(metrics, c->metric);
        const double limit = c->current ? metric_of(current, c->metric) : c->limit;
        const bool first = c->current && current == NULL;
        const bool met = first ? isfinite(value) : holds(value, c->op, limit);
        struct json *j = json_push(list, json_new_object());
        json_set_string(j, "metric", search_metric_name(c->metric));
        json_set_string(j, "op", op_names[c->op]);
        json_set_bool(j, "current", c->current);
        json_set_number(j, "limit", limit);
        json_set_number(j, "value", value);
        json_set_bool(j, "met", met);
        all &= met;
    }
    *ret_conditions = list;
    return all;
}
