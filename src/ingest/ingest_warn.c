/* What a client should know of the columns of its table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_numeral.h"
#include "ingest/ingest_table.h"
#include "ingest/ingest_text.h"
#include "wire/missing.h"

/* A constant target trains, but the client should know. */
static int warn_constant_targets(struct ingest_table *t, struct err *err)
{
    for (int64_t k = 0; k < t->targets; k++) {
        if (t->values[k].count == 1) {
            char show[INGEST_SHOW_SIZE];
            const char *name = t->names[t->target[k]];
            int r =
                ingest_table_warn(t, err, "The target %s is constant: it is %.17g in every row.",
                                  ingest_show(name, strlen(name), show), t->values[k].value[0]);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

/* Above that many 0/1 columns of a column, the client should know. */
enum { MANY_TEXTS = 50 };

/* The texts of a column that are numbers, or nan and the like; *ret_other becomes the first that is
 * none. */
static int64_t count_numbers(const struct ingest_labels *l, bool comma, const char **ret_other)
{
    int64_t numbers = 0;
    for (int64_t i = l->count; i-- > 0;) {
        double ignored;
        const bool number = ingest_numeral_read(l->text[i], strlen(l->text[i]), comma, &ignored) !=
                            INGEST_NUMBER_TEXT;
        numbers += number;
        *ret_other = number ? *ret_other : l->text[i];
    }
    return numbers;
}

/* Whether all texts of a column were something else to their writer: numbers with spaces or
 * apostrophes between thousands; of a target that nobody called one of classes, dates as well. */
static bool meant_otherwise(const struct ingest_table *t, int64_t column)
{
    const struct ingest_labels *l = t->labels[column];
    const bool dates = t->is_target[column] && t->options->task == TASK_AUTO;
    bool all = l->count > 0 && (dates || !t->is_target[column]);
    for (int64_t i = 0; all && i < l->count; i++) {
        const enum ingest_numeral n =
            ingest_numeral_of(l->text[i], strlen(l->text[i]), t->options->decimal_comma);
        all = n == INGEST_NUMERAL_SPACED || (dates && n == INGEST_NUMERAL_DATE);
    }
    return all;
}

static int warn_meant(struct ingest_table *t, int64_t column, const char *what, struct err *err)
{
    const struct ingest_labels *l = t->labels[column];
    const char *text = l->text[0], *name = t->names[column];
    const bool comma = t->options->decimal_comma;
    const enum ingest_numeral numeral = ingest_numeral_of(text, strlen(text), comma);
    char show[INGEST_SHOW_SIZE], show_text[INGEST_SHOW_SIZE];
    return ingest_table_warn(t, err,
                             "The column %s holds no numbers, and its %lld different texts became "
                             "%s: %s %s.",
                             ingest_show(name, strlen(name), show), (long long)l->count, what,
                             ingest_show(text, strlen(text), show_text),
                             ingest_numeral_fault(numeral, comma));
}

/* One text makes a column one of text: a mark of what is missing there, or identifiers, make
 * categories that nobody meant. */
static int warn_text(struct ingest_table *t, int64_t column, struct err *err)
{
    const struct ingest_labels *l = t->labels[column];
    const char *name = t->names[column], *other = "";
    const char *what = t->is_target[column] ? "classes" : "0/1 columns";
    const int64_t numbers = count_numbers(l, t->options->decimal_comma, &other);
    char show[INGEST_SHOW_SIZE], show_other[INGEST_SHOW_SIZE];
    ingest_show(name, strlen(name), show);
    if (numbers == l->count) {
        return ingest_table_warn(t, err,
                                 "The column %s holds text in rows that were left out: its %lld "
                                 "different numbers in the others became %s.",
                                 show, (long long)numbers, what);
    }
    if (numbers > 0) {
        return ingest_table_warn(t, err,
                                 "The column %s holds text, as %s, and %lld different numbers: all "
                                 "of them became %s. %s.",
                                 show, ingest_show(other, strlen(other), show_other),
                                 (long long)numbers, what,
                                 missing_mark(other, strlen(other))
                                     ? "If that marks a missing value, " INGEST_TAKE_MISSING
                                     : "A mark of a missing value makes it so, too");
    }
    if (meant_otherwise(t, column)) {
        return warn_meant(t, column, what, err);
    }
    if (t->writer.rows >= INGEST_FEW_ROWS && 2 * l->count > t->writer.rows) {
        return ingest_table_warn(t, err,
                                 "The column %s holds %lld different texts in %lld rows: as %s, "
                                 "what repeats so seldom teaches nothing.",
                                 show, (long long)l->count, (long long)t->writer.rows, what);
    }
    if (!t->is_target[column] && l->count > MANY_TEXTS) {
        return ingest_table_warn(t, err,
                                 "The column %s became %lld 0/1 columns. If its texts are no kinds "
                                 "(dates, names), " INGEST_LEAVE_OUT ".",
                                 show, (long long)l->count);
    }
    return 0;
}

static int warn_texts(struct ingest_table *t, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && j < t->columns; j++) {
        r = t->labels[j] != NULL ? warn_text(t, j, err) : 0;
    }
    return r;
}

static bool is_feature(const struct ingest_table *t, int64_t column)
{
    return !t->is_target[column] && !t->is_ignored[column];
}

/* A word that is missing is as good as another one; a number becomes the mean of the others, and
 * says something only where an indicator tells that it was missing. */
static bool varies(const struct ingest_table *t, int64_t column)
{
    const bool lacks = t->gap != NULL && t->gap[column].kept < t->writer.rows;
    const bool told = t->labels[column] != NULL || ingest_gap_indicated(t, column);
    return t->column[column].varies || (lacks && told);
}

/* Files of a few rows have such columns by chance. Tables of images have hundreds: one sentence
 * tells of them all. */
static int warn_constant_features(struct ingest_table *t, struct err *err)
{
    int64_t count = 0, first = 0;
    for (int64_t j = t->columns; j-- > 0;) {
        const bool constant = is_feature(t, j) && !varies(t, j);
        count += constant;
        first = constant ? j : first;
    }
    if (count == 0) {
        return 0;
    }
    char show[INGEST_SHOW_SIZE];
    ingest_show(t->names[first], strlen(t->names[first]), show);
    return count == 1
               ? ingest_table_warn(t, err,
                                   "The feature %s is the same in every row, and teaches "
                                   "nothing; " INGEST_LEAVE_OUT ".",
                                   show)
               : ingest_table_warn(t, err,
                                   "%lld features, %s the first, are the same in every row, and "
                                   "teach nothing; " INGEST_LEAVE_OUT ".",
                                   (long long)count, show);
}

/* ---- columns that repeat others ---- */

struct twin {
    uint64_t hash;
    int64_t column;
};

static int compare_twins(const void *a, const void *b)
{
    const struct twin *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->column > y->column) - (x->column < y->column);
}

/* Texts are the same where their labels are, not the numbers of those. */
static uint64_t hash_of(const struct ingest_table *t, int64_t column)
{
    const struct ingest_labels *l = t->labels[column];
    uint64_t hash = t->column[column].hash;
    for (int64_t i = 0; l != NULL && i < l->count; i++) {
        hash = ingest_hash_step(hash, l->hash[i]);
    }
    return hash;
}

static int warn_twins(struct ingest_table *t, int64_t count, int64_t column, int64_t of,
                      struct err *err)
{
    char show[INGEST_SHOW_SIZE], other[INGEST_SHOW_SIZE], more[64] = "";
    ingest_show(t->names[column], strlen(t->names[column]), show);
    ingest_show(t->names[of], strlen(t->names[of]), other);
    if (count > 1) {
        snprintf(more, sizeof(more), " So do %lld more of other columns.", (long long)count - 1);
    }
    return ingest_table_warn(
        t, err, "The feature %s has the values of the %s %s in every row.%s " INGEST_LEAVE_OUT ".",
        show, t->is_target[of] ? "target" : "feature", other, more);
}

/* The columns that vary, sorted; returns how many. */
static int64_t sort_twins(const struct ingest_table *t, struct twin *twin)
{
    int64_t count = 0;
    for (int64_t j = 0; j < t->columns; j++) {
        if (!t->is_ignored[j] && t->column[j].varies) {
            twin[count++] = (struct twin){hash_of(t, j), j};
        }
    }
    qsort(twin, (size_t)count, sizeof(*twin), compare_twins);
    return count;
}

/* A feature that is the target in disguise is told before those that repeat a feature. */
static int warn_repeated(struct ingest_table *t, struct err *err)
{
    cleanup_mem struct twin *twin = mem_array((size_t)t->columns, sizeof(*twin));
    if (twin == NULL) {
        return err_no_memory(err);
    }
    const int64_t count = sort_twins(t, twin);
    int64_t repeated = 0, column = 0, of = 0;
    for (int64_t i = 1; i < count; i++) {
        const int64_t a = twin[i - 1].column, b = twin[i].column;
        if (twin[i].hash != twin[i - 1].hash || (t->is_target[a] && t->is_target[b])) {
            continue;
        }
        const bool target = t->is_target[a] || t->is_target[b];
        if (repeated++ == 0 || (target && !t->is_target[of])) {
            column = t->is_target[b] ? a : b;
            of = t->is_target[b] ? b : a;
        }
    }
    return repeated > 0 ? warn_twins(t, repeated, column, of, err) : 0;
}

int ingest_table_warn_columns(struct ingest_table *t, struct err *err)
{
    int r = warn_constant_targets(t, err);
    r = r < 0 ? r : warn_texts(t, err);
    if (r < 0 || t->writer.rows < INGEST_FEW_ROWS) {
        return r;
    }
    r = warn_constant_features(t, err);
    return r < 0 ? r : warn_repeated(t, err);
}
