#include "server/bodies/columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "ingest/ingest_text.h"
#include "wire/missing.h"

enum {
    QUOTED_NAME = 80,   /* names are quoted in error texts up to this many bytes */
    VALUES_LISTED = 4,  /* of a text column, where a value is none of them */
    LISTED_LENGTH = 24, /* bytes of each, */
    LISTED_WIDTH = 40,  /* and with quotes and escapes */
};

int columns_init(struct columns *c, const struct served_model *model, struct columns_rules rules,
                 struct err *err)
{
    const size_t count = (size_t)(model->d + model->outputs + 1);
    *c = (struct columns){
        .model = model, .rules = rules, .seen = mem_zarray(count, sizeof *c->seen)};
    return c->seen ? 0 : err_no_memory(err);
}

void columns_deinit(struct columns *c)
{
    c->sorted = mem_free(c->sorted);
    c->seen = mem_free(c->seen);
}

/* ---- names ---- */

static int by_name(const void *a, const void *b, void *context)
{
    const char *const *names = context;
    return strcmp(names[*(const int64_t *)a], names[*(const int64_t *)b]);
}

static bool sort_names(struct columns *c)
{
    const int64_t d = c->model->d;
    c->sorted = mem_array((size_t)d, sizeof *c->sorted);
    for (int64_t i = 0; c->sorted && i < d; i++) {
        c->sorted[i] = i;
    }
    if (c->sorted) {
        qsort_r(c->sorted, (size_t)d, sizeof *c->sorted, by_name,
                (void *)(uintptr_t)c->model->features);
    }
    return c->sorted != NULL;
}

static const char *sorted_name(const struct columns *c, int64_t place)
{
    return c->model->features[c->sorted[place]];
}

/* The feature of that name, or -1. */
static int64_t find_feature(const struct columns *c, const char *name)
{
    int64_t low = 0, high = c->model->d;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(sorted_name(c, middle), name);
        if (order == 0) {
            return c->sorted[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return -1;
}

/* The place of a target, behind them of the mask, or -1. */
static int64_t find_passed(const struct served_model *model, const char *name)
{
    for (int64_t i = 0; i < model->outputs; i++) {
        if (strcmp(model->targets[i], name) == 0) {
            return i;
        }
    }
    return model->mask && strcmp(model->mask, name) == 0 ? model->outputs : -1;
}

/* How a feature stands to "name=": before it, 0 where it begins so, or behind. */
static int prefix_order(const char *feature, const char *name, size_t len)
{
    const int order = strncmp(feature, name, len);
    return order != 0 ? order : (int)(unsigned char)feature[len] - '=';
}

/* The first place, not before `low`, whose feature stands behind `order` to "name=". */
static int64_t prefix_bound(const struct columns *c, const char *name, size_t len, int64_t low,
                            int order)
{
    int64_t high = c->model->d;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (prefix_order(sorted_name(c, middle), name, len) < order) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The features that begin with "name=". */
static struct column find_text(const struct columns *c, const char *name)
{
    const size_t len = strlen(name);
    const int64_t first = prefix_bound(c, name, len, 0, 0);
    const int64_t behind = prefix_bound(c, name, len, first, 1);
    return (struct column){COLUMN_TEXT, first, behind - first, len + 1};
}

/* What a column is that is no feature. */
static int find_other(const struct columns *c, const char *name, struct column *ret)
{
    const int64_t passed = find_passed(c->model, name);
    if (passed >= 0) {
        *ret = (struct column){.kind = COLUMN_PASSED, .at = c->model->d + passed};
        return 0;
    }
    const struct column text = find_text(c, name);
    if (text.count > 0) {
        *ret = text;
        return 0;
    }
    *ret = (struct column){.kind = COLUMN_PASSED, .at = -1};
    return c->rules.extra == EXTRA_IGNORED ? 0 : 1;
}

int columns_find(struct columns *c, const char *name, int64_t guess, struct column *ret,
                 struct err *err)
{
    ret->kind = COLUMN_FEATURE; /* its other members do not count */
    ret->at = guess;
    if (guess >= 0 && guess < c->model->d && strcmp(c->model->features[guess], name) == 0) {
        return 0;
    }
    if (!c->sorted && !sort_names(c)) {
        return err_no_memory(err);
    }
    ret->at = find_feature(c, name);
    return ret->at >= 0 ? 0 : find_other(c, name, ret);
}

bool columns_mark(struct columns *c, const struct column *column, int64_t row)
{
    bool first = true;
    if (column->kind != COLUMN_TEXT) {
        first = column->at < 0 || c->seen[column->at] != row;
        if (column->at >= 0) {
            c->seen[column->at] = row;
        }
        return first;
    }
    for (int64_t i = 0; i < column->count; i++) {
        int64_t *seen = &c->seen[c->sorted[column->at + i]];
        first = first && *seen != row;
        *seen = row;
    }
    return first;
}

const char *columns_missing(const struct columns *c, int64_t row)
{
    for (int64_t i = 0; i < c->model->d; i++) {
        const bool made = c->model->indicators > 0 && c->model->indicates[i] >= 0;
        if (c->seen[i] != row && !made) {
            return c->model->features[i];
        }
    }
    return NULL;
}

/* ---- texts ---- */

const char *columns_text_name(const struct columns *c, const struct column *column, size_t *ret_len)
{
    *ret_len = column->prefix - 1;
    return sorted_name(c, column->at);
}

static const char *value_at(const struct columns *c, const struct column *column, int64_t i)
{
    return sorted_name(c, column->at + i) + column->prefix;
}

/* How value stands to text[0..len), which may hold a NUL. */
static int value_order(const char *value, const char *text, size_t len)
{
    const size_t own = strlen(value);
    const int order = memcmp(value, text, own < len ? own : len);
    return order != 0 ? order : (own > len) - (own < len);
}

/* The place of a value among those of the column, or -1. */
static int64_t find_value(const struct columns *c, const struct column *column, const char *text,
                          size_t len)
{
    int64_t low = 0, high = column->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = value_order(value_at(c, column, middle), text, len);
        if (order == 0) {
            return middle;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return -1;
}

/* The way out, where there is a word at all. */
#define IGNORE_UNKNOWN                                                                             \
    " unknown_values=ignore (krr: --ignore-unknown) takes such a value as none of them."

static void tell_values(const struct columns *c, const struct column *column, const char *text,
                        size_t len, char ret[COLUMNS_WHY_SIZE])
{
    char show[INGEST_SHOW_SIZE], name[INGEST_SHOW_SIZE];
    size_t name_len = 0;
    const char *name_text = columns_text_name(c, column, &name_len);
    int used = snprintf(ret, COLUMNS_WHY_SIZE,
                        "%s is none of the values of %s that the model "
                        "knows: ",
                        ingest_show(text, len, show), ingest_show(name_text, name_len, name));
    for (int64_t i = 0; i < column->count && i < VALUES_LISTED; i++) {
        const char *value = value_at(c, column, i);
        ingest_show(value, utf8_fit(value, strlen(value), LISTED_LENGTH), show);
        used += snprintf(ret + used, COLUMNS_WHY_SIZE - (size_t)used, "%s%.*s", i > 0 ? ", " : "",
                         (int)utf8_fit(show, strlen(show), LISTED_WIDTH), show);
    }
    if (column->count > VALUES_LISTED) {
        used += snprintf(ret + used, COLUMNS_WHY_SIZE - (size_t)used, " and %lld more",
                         (long long)(column->count - VALUES_LISTED));
    }
    snprintf(ret + used, COLUMNS_WHY_SIZE - (size_t)used, ".%s", len > 0 ? IGNORE_UNKNOWN : "");
}

void columns_set_missing(const struct columns *c, const struct column *column, double *row)
{
    for (int64_t i = 0; i < column->count; i++) {
        row[c->sorted[column->at + i]] = NAN;
    }
}

bool columns_set_text(struct columns *c, const struct column *column, const char *text, size_t len,
                      double *row, char ret_why[COLUMNS_WHY_SIZE])
{
    text = ingest_trim(text, &len);
    if (c->model->fill && missing_mark(text, len)) {
        columns_set_missing(c, column, row);
        return true;
    }
    const int64_t value = find_value(c, column, text, len);
    const bool unknown = value < 0 && len > 0 && c->rules.unknown == UNKNOWN_IGNORED;
    if (value < 0 && !unknown) {
        tell_values(c, column, text, len, ret_why);
        return false;
    }
    c->unknown += unknown;
    for (int64_t i = 0; i < column->count; i++) {
        row[c->sorted[column->at + i]] = i == value;
    }
    return true;
}

/* ---- errors ---- */

static int name_length(const char *name)
{
    return (int)utf8_fit(name, strlen(name), QUOTED_NAME);
}

int columns_unknown(struct err *err, const char *pointer, const char *name)
{
    return err_at(err, ERR_INVALID, pointer,
                  "The model has no feature \"%.*s\"; extra_columns=ignore (krr: --ignore-extra) "
                  "passes over columns that it does not know.",
                  name_length(name), name);
}

int columns_twice(struct err *err, const char *pointer, const char *name)
{
    return err_at(err, ERR_INVALID, pointer, "The column \"%.*s\" is there twice.",
                  name_length(name), name);
}

int columns_lacking(struct err *err, const char *pointer, const char *name)
{
    return err_at(err, ERR_INVALID, pointer, "The feature \"%.*s\" is missing.", name_length(name),
                  name);
}
