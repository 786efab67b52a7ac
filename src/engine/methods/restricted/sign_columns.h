/*
 * Phi of krill's sketch S = Phi K_nm (struct sign_sketch of engine/backend.h): d rows, a column a
 * training row, drawn as they are needed.
 *
 * S's rows are cut into a band for each of a block's numbers, which holds it in a row drawn
 * uniformly: no two signs of a column meet. (The paper draws the rows of a column from all d.)
 * Where S would take too much memory it is made in parts, to which bands are dealt out. Columns
 * depend on the seed, d, the signs' shape and the row's number alone.
 *
 * Memory: 1 + 9 copies bytes for each of SIGN_COLUMNS_MOST columns, or n.
 */
#pragma once

#include "engine/backend.h"
#include "plan/rules.h"

#define SIGN_COLUMNS_MOST (INT64_C(1) << 16) /* at a time */

struct sign_columns {
    uint64_t seed;
    int64_t d;
    struct rule_sketch signs;
    int parts;
    int64_t most; /* columns at a time */
    int64_t *index;
    signed char *sign, *flip;
};

/* For n training rows, d rows of S in so many parts; no more parts than signs. */
int sign_columns_init(struct sign_columns *c, uint64_t seed, int64_t n, int64_t d,
                      struct rule_sketch signs, int parts, struct err *err);
void sign_columns_deinit(struct sign_columns *c);

/* Rows of a part of S. */
int64_t sign_columns_rows(const struct sign_columns *c, int part);

/* Columns of the training rows first .. first+count-1, count <= most, of them the part's rows;
 * until the next call. */
struct sign_sketch sign_columns_draw(struct sign_columns *c, int part, int64_t first,
                                     int64_t count);

/* ret <- ret + Phi y, a number a column. */
void sign_sketch_multiply(const struct sign_sketch *phi, const double *y, int64_t count,
                          double *ret);
