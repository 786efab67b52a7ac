#include "server/bodies/rows.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum {
    FIRST_ROWS = 2,
    SAMPLE_ROWS = 16, /* from which on the length of the others is reckoned */
};

/* Of what was reckoned: rows differ in length. */
#define MORE_ROWS 1.0625

void question_deinit(struct question *q)
{
    q->X = mem_free(q->X);
}

int question_no_scores(const struct served_model *model, const char *pointer, struct err *err)
{
    return model->classes > 0 ? 0
                              : err_at(err, ERR_INVALID, pointer,
                                       "The model is a regression; only classifiers have scores.");
}

int question_no_variance(const struct served_model *model, const char *pointer, struct err *err)
{
    return model->variances > 0
               ? 0
               : err_at(err, ERR_INVALID, pointer,
                        "The model has no variance. Those of the solvers \"kmcg\", "
                        "\"kmcg_restricted\" and \"inducing\" have one, unless their job's "
                        "messages say why not; others find means alone.");
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
    double *row = room > 0 ? rows->X + rows->count * rows->model->d : NULL;
    for (int64_t j = 0; row && rows->model->indicators > 0 && j < rows->model->d; j++) {
        if (rows->model->indicates[j] >= 0) {
            row[j] = NAN;
        }
    }
    return row;
}

int64_t rows_narrow(const struct rows *rows)
{
    return rows->model->d - rows->model->indicators;
}

void rows_widen(const struct rows *rows, double *row)
{
    int64_t from = rows_narrow(rows);
    for (int64_t j = rows->model->d - 1; j >= 0 && from <= j; j--) {
        row[j] = rows->model->indicates[j] >= 0 ? NAN : row[--from];
    }
}

bool rows_may_lack(const struct rows *rows)
{
    return rows->model->fill != NULL;
}

bool rows_lack(const struct rows *rows, int token)
{
    return token == JSONREAD_NULL && rows_may_lack(rows);
}

int rows_numbers(const struct rows *rows, struct jsonread *r, double *to, int64_t max,
                 int64_t *ret_count, struct err *err)
{
    int64_t count = 0;
    int token = jsonread_numbers(r, to, max, ret_count, err);
    while (*ret_count < max && rows_lack(rows, token)) {
        to[(*ret_count)++] = NAN;
        token = jsonread_numbers(r, to + *ret_count, max - *ret_count, &count, err);
        *ret_count += count;
    }
    return token;
}

const char *rows_lack_hint(const struct rows *rows)
{
    return rows_may_lack(rows) ? ""
                               : " The model fills in nothing that is missing; one that is trained "
                                 "on a data set uploaded with missing=fill (krr: --missing fill) "
                                 "does.";
}

/* 1 where the other feature is missing, whatever the question says, and 0 where it says nothing. */
static void tell_missing(const struct served_model *model, double *x)
{
    for (int64_t j = 0; j < model->d; j++) {
        const int64_t of = model->indicates[j];
        if (of >= 0) {
            x[j] = isnan(x[of]) ? 1.0 : isnan(x[j]) ? 0.0 : x[j];
        }
    }
}

/* Nothing else in the rows is NaN: readers refuse it. */
static void fill_in(struct rows *rows)
{
    const int64_t d = rows->model->d;
    for (int64_t i = 0; i < rows->count; i++) {
        double *x = rows->X + i * d;
        if (rows->model->indicators > 0) {
            tell_missing(rows->model, x);
        }
        for (int64_t j = 0; j < d; j++) {
            x[j] = isnan(x[j]) ? rows->model->fill[j] : x[j];
        }
    }
}

int rows_take(struct rows *rows, const char *where, struct question *ret, struct err *err)
{
    if (rows->count == 0) {
        return err_at(err, ERR_INVALID, where, "There must be at least one row.");
    }
    if (rows_may_lack(rows)) {
        fill_in(rows);
    }
    ret->X = rows->X;
    ret->rows = rows->count;
    rows->X = NULL;
    return 0;
}

int rows_sort(const int64_t *order, struct rows *rows, struct err *err)
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
