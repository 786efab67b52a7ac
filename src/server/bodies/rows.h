/* Rows of a question while they are being read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/jsonread.h"
#include "server/bodies/question.h"

struct rows {
    const struct served_model *model; /* borrowed */
    double *X;                        /* [capacity, d], owned; rows_take hands it out */
    int64_t count, capacity;
    size_t begin, end; /* of their text in the body; end 0: not known */
};

void rows_deinit(struct rows *rows);
/* Makes room for `count` rows; more may follow. */
int rows_reserve(struct rows *rows, int64_t count, struct err *err);
/* Room for one row more, which rows->count++ keeps, and in which what tells that others are missing
 * is not said yet. NULL with *err where there is none. */
double *rows_next(struct rows *rows, struct err *err);
/* The rows that follow stand in the bytes from `begin` to `end` of the body, or before `end`. */
void rows_begin(struct rows *rows, size_t begin, size_t end);
/* Makes room for a row more where there is none, `at` being how far the body was read: once the
 * length of rows is known, for as many as the rest of it may hold. Returns for how many there is
 * room, 0 where there may be no more, or -ERR_NO_MEMORY. */
int64_t rows_room(struct rows *rows, size_t at, struct err *err);
/* Whether a feature may be missing: it is NaN in the rows, until they are taken. */
bool rows_may_lack(const struct rows *rows);
/* Whether the token of a JSON body stands for a feature that is missing, where one may be. */
bool rows_lack(const struct rows *rows, int token);
/* As jsonread_numbers, with NaN for features that are missing. Where one of those ends them, there
 * are more than max. */
int rows_numbers(const struct rows *rows, struct jsonread *r, double *to, int64_t max,
                 int64_t *ret_count, struct err *err);
/* Numbers of a row without those that tell which of the others are missing, which are made of them:
 * d, where the model has none of those. */
int64_t rows_narrow(const struct rows *rows);
/* Puts the numbers of such a row, which stand in front, in their places. */
void rows_widen(const struct rows *rows, double *row);
/* What to say where one may not, behind what is wrong; "" where it may. */
const char *rows_lack_hint(const struct rows *rows);
/* Fills in what is missing, and tells what was. -ERR_INVALID at "#" + where when there is no row.
 */
int rows_take(struct rows *rows, const char *where, struct question *ret, struct err *err);

/* Puts the rows, whose j-th column is feature order[j], in the order of the features. */
int rows_sort(const int64_t *order, struct rows *rows, struct err *err);

#define cleanup_rows __attribute__((cleanup(rows_deinit)))
