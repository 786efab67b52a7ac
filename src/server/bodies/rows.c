#include "server/bodies/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum {
    FIRST_ROWS = 2,
    SAMPLE_ROWS = 16, /* from which on the length of the others is reckoned */
};

/* Of what was reckoned: rows differ in length. */
#define MORE_ROWS 1.0625

/* Names are quoted in error texts up to this many bytes. */
enum { QUOTED_NAME = 80 };

void question_deinit(struct question *q)
{
    q->X = mem_free(q->X);
}

void rows_deinit(struct rows *rows)
{
    rows->X = mem_free(rows->X);
    rows->count = rows->capacity = 0;
}

/* The most rows that a worker takes at once. */
static int64_t rows_max(const struct rows *rows)
{
    return (int64_t)(QUESTION_MAX_BYTES / sizeof(double)) / rows->model->d;
}

static int set_capacity(struct rows *rows, int64_t capacity, struct err *err)
{
    double *X = mem_regrow(rows->X, (size_t)(capacity * rows->model->d), sizeof *X);
    if (!X) {
        return err_no_memory(err);
    }
    rows->X = X;
    rows->capacity = capacity;
    return 0;
}

static int too_many(const struct rows *rows, struct err *err)
{
    return err_at(err, ERR_TOO_LARGE, "#",
                  "A request holds at most %zu MiB of numbers, %lld rows of this model; send "
                  "fewer rows at a time.",
                  QUESTION_MAX_BYTES >> 20, (long long)rows_max(rows));
}

int rows_reserve(struct rows *rows, int64_t count, struct err *err)
{
    if (count > rows_max(rows)) {
        return too_many(rows, err);
    }
    return count > rows->capacity ? set_capacity(rows, count, err) : 0;
}

void rows_begin(struct rows *rows, size_t begin, size_t end)
{
    rows->begin = begin;
    rows->end = end;
}

/* Twice as many as there were; or, once some are there, for all that the rest of the text may hold,
 * by the length of those. Memory that is not written to takes none; two copies of the rows would.
 */
static int64_t next_capacity(const struct rows *rows, size_t at)
{
    const double most = (double)rows_max(rows);
    double wanted = rows->capacity > 0 ? 2.0 * (double)rows->capacity : FIRST_ROWS;
    if (rows->count >= SAMPLE_ROWS && at > rows->begin && at < rows->end) {
        const double left = (double)(rows->end - at) / (double)(at - rows->begin);
        wanted = (double)rows->count * (1.0 + MORE_ROWS * left) + SAMPLE_ROWS;
    }
    return (int64_t)fmin(wanted, most);
}

int64_t rows_room(struct rows *rows, size_t at, struct err *err)
{
    if (rows->count == rows->capacity && rows->count < rows_max(rows)) {
        const int r = set_capacity(rows, next_capacity(rows, at), err);
        if (r < 0) {
            return r;
        }
    }
    return rows->capacity - rows->count;
}

double *rows_next(struct rows *rows, struct err *err)
{
    const int64_t room = rows_room(rows, 0, err);
    if (room == 0) {
        too_many(rows, err);
    }
    return room > 0 ? rows->X + rows->count * rows->model->d : NULL;
}

int rows_take(struct rows *rows, const char *where, struct question *ret, struct err *err)
{
    if (rows->count == 0) {
        return err_at(err, ERR_INVALID, where, "There must be at least one row.");
    }
    ret->X = rows->X;
    ret->rows = rows->count;
    rows->X = NULL;
    return 0;
}

/* ---- columns ---- */

int columns_init(struct columns *c, const struct served_model *model, struct err *err)
{
    *c = (struct columns){.model = model, .seen = mem_zarray((size_t)model->d, sizeof *c->seen)};
    return c->seen ? 0 : err_no_memory(err);
}

void columns_deinit(struct columns *c)
{
    c->sorted = mem_free(c->sorted);
    c->seen = mem_free(c->seen);
}

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

int columns_find(struct columns *c, const char *name, int64_t guess, int64_t *ret, struct err *err)
{
    const char *const *names = c->model->features;
    if (guess >= 0 && guess < c->model->d && strcmp(names[guess], name) == 0) {
        *ret = guess;
        return 0;
    }
    if (!c->sorted && !sort_names(c)) {
        return err_no_memory(err);
    }
    int64_t low = 0, high = c->model->d;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(names[c->sorted[middle]], name);
        if (order == 0) {
            *ret = c->sorted[middle];
            return 0;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return 1;
}

bool columns_mark(struct columns *c, int64_t feature, int64_t row)
{
    const bool first = c->seen[feature] != row;
    c->seen[feature] = row;
    return first;
}

const char *columns_missing(const struct columns *c, int64_t row)
{
    for (int64_t i = 0; i < c->model->d; i++) {
        if (c->seen[i] != row) {
            return c->model->features[i];
        }
    }
    return NULL;
}

static int name_length(const char *name)
{
    return (int)utf8_fit(name, strlen(name), QUOTED_NAME);
}

int columns_unknown(struct err *err, const char *pointer, const char *name)
{
    return err_at(err, ERR_INVALID, pointer, "The model has no feature \"%.*s\".",
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

int columns_sort(const int64_t *order, struct rows *rows, struct err *err)
{
    const int64_t d = rows->model->d;
    int64_t ordered = 0;
    while (ordered < d && order[ordered] == ordered) {
        ordered++;
    }
    if (ordered == d) {
        return 0;
    }
    cleanup_mem double *row = mem_array((size_t)d, sizeof *row);
    if (!row) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        double *x = rows->X + i * d;
        memcpy(row, x, (size_t)d * sizeof *row);
        for (int64_t j = 0; j < d; j++) {
            x[order[j]] = row[j];
        }
    }
    return 0;
}
