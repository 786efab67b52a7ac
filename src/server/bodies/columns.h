/*
 * What the columns of a request stand for, where it names them: a feature; a text that was turned
 * into the 0/1 features "name=value" when the model's data set was uploaded (one_hot, see
 * ingest_finish.c); or something that is passed over: the model's targets and the mask of its test
 * rows, so that the table that it was trained on is a question as it is, and what the request says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/serving/served.h"

/* What is to become of columns that the model does not know, and of words among texts that are none
 * of those that it was trained on (adr/0080). */
enum extra_columns { EXTRA_REFUSED, EXTRA_IGNORED };
enum unknown_values { UNKNOWN_REFUSED, UNKNOWN_IGNORED };
struct columns_rules {
    enum extra_columns extra;
    enum unknown_values unknown;
};

enum column_kind { COLUMN_FEATURE, COLUMN_TEXT, COLUMN_PASSED };

struct column {
    enum column_kind kind;
    int64_t at; /* the feature; of a text its first in columns.sorted; of what is passed over d + i
                 * of target i, d + outputs of the mask, or -1 */
    int64_t count; /* of a text: its features, "name=…" */
    size_t prefix; /* of a text: bytes of "name=" */
};

struct columns {
    const struct served_model *model; /* borrowed */
    struct columns_rules rules;
    int64_t unknown; /* words that were not known so far */
    int64_t *sorted; /* [d] features by name, made when first needed */
    int64_t *seen;   /* [d + outputs + 1] the number of the last row that named it, or 0 */
};

#define cleanup_columns __attribute__((cleanup(columns_deinit)))

int columns_init(struct columns *c, const struct served_model *model, struct columns_rules rules,
                 struct err *err);
void columns_deinit(struct columns *c);
/* What a column of that name is, most likely the `guess`-th feature; 1: the model knows none. */
int columns_find(struct columns *c, const char *name, int64_t guess, struct column *ret,
                 struct err *err);
/* Notes that row number `row` (from 1) has the column; false: it, or a part of it, was there. */
bool columns_mark(struct columns *c, const struct column *column, int64_t row);
/* The first feature that row number `row` has not named, or NULL. Those that tell of others that
 * they are missing need not be there. */
const char *columns_missing(const struct columns *c, int64_t row);

/* Room for the sentence of columns_set_text. */
#define COLUMNS_WHY_SIZE 512
/* Sets the 0/1 features of a text column in a row of features. Blanks around the text do not count,
 * as in an upload. A mark of a missing value sets none of them where the model fills in what is
 * missing, and a word that the model does not know where the rules say so. False, with a sentence
 * that names column and value, where it is none of them. */
bool columns_set_text(struct columns *c, const struct column *column, const char *text, size_t len,
                      double *row, char ret_why[COLUMNS_WHY_SIZE]);
/* The same where there is no text at all, in a model that fills in what is missing. */
void columns_set_missing(const struct columns *c, const struct column *column, double *row);
/* The name of a text column, which is not NUL-terminated. */
const char *columns_text_name(const struct columns *c, const struct column *column,
                              size_t *ret_len);

/* Errors of columns by name, at `pointer`: "The model has no feature …", "… is there twice", "… is
 * missing". */
int columns_unknown(struct err *err, const char *pointer, const char *name);
int columns_twice(struct err *err, const char *pointer, const char *name);
int columns_lacking(struct err *err, const char *pointer, const char *name);
