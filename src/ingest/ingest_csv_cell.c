/* The cells of a CSV: numbers, labels, and what a column is. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_csv.h"
#include "ingest/ingest_numeral.h"
#include "ingest/ingest_text.h"
#include "wire/missing.h"

int csv_cell_error(const struct csv_table *c, int64_t line, int64_t column, enum err_code code,
                   struct err *err, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    char pointer[96];
    snprintf(pointer, sizeof(pointer), "#/line/%lld/column/%lld", (long long)line,
             (long long)column + 1);
    char show[INGEST_SHOW_SIZE];
    char name[INGEST_SHOW_SIZE + 24] = "";
    if (c->begun) { /* numbers of columns in parameters, and so in names that are made, are from 0
                     */
        const char *text = c->t->names[column];
        snprintf(name, sizeof(name), " (%s%s)", ingest_show(text, strlen(text), show),
                 c->header ? "" : ", counted from 0");
    }
    return err_at(err, code, pointer, "Line %lld, column %lld%s: %s", (long long)line,
                  (long long)column + 1, name, what);
}

static enum ingest_number read_number(const struct csv_table *c, const struct csv_cell *cell,
                                      double *ret)
{
    return ingest_numeral_read(cell->text, cell->len, c->t->options->decimal_comma, ret);
}

/* What a text was meant as. */
static enum ingest_numeral numeral_of(const struct csv_table *c, const struct csv_cell *cell)
{
    return ingest_numeral_of(cell->text, cell->len, c->t->options->decimal_comma);
}

bool csv_is_text(const struct csv_table *c, const struct csv_cell *cell)
{
    double ignored;
    return cell->len > 0 && read_number(c, cell, &ignored) == INGEST_NUMBER_TEXT;
}

bool csv_is_missing(const struct csv_table *c, const struct csv_cell *cell)
{
    return c->t->options->missing != INGEST_MISSING_REFUSE && missing_mark(cell->text, cell->len);
}

/* Whether the cell makes its column one of text. Numbers that the reader refuses, nan, 0x1f, 2,5 or
 * 1.234,5 do not: they are what is wrong with a column of numbers, and texts like others beside a
 * text. */
static bool makes_text(const struct csv_table *c, const struct csv_cell *cell)
{
    return csv_is_text(c, cell) && !ingest_numeral_meant(numeral_of(c, cell)) &&
           !csv_is_missing(c, cell);
}

static int number_error(const struct csv_table *c, int64_t line, int64_t column,
                        const struct csv_cell *cell, struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    double ignored;
    const enum ingest_number read = read_number(c, cell, &ignored);
    if (missing_mark(cell->text, cell->len)) {
        return csv_cell_error(c, line, column, ERR_INVALID, err, "%s is not a finite number; %s.",
                              ingest_show(cell->text, cell->len, show),
                              c->t->is_target[column] ? INGEST_TAKE_TARGETS : INGEST_TAKE_MISSING);
    }
    return csv_cell_error(
        c, line, column, ERR_INVALID, err, "%s %s.", ingest_show(cell->text, cell->len, show),
        read == INGEST_NUMBER_HEX ? "is hexadecimal; numbers are decimal here"
        : read == INGEST_NUMBER_TEXT
            ? ingest_numeral_fault(numeral_of(c, cell), c->t->options->decimal_comma)
            : "is not a finite number");
}

/* Why a column may not be one of text; 0: it may. */
static int check_text(const struct csv_table *c, int64_t line, int64_t column,
                      const struct csv_cell *cell, struct err *err)
{
    const struct ingest_table *t = c->t;
    const char *fault = ingest_numeral_fault(numeral_of(c, cell), t->options->decimal_comma);
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    if (!t->is_target[column] && !t->options->one_hot && fault != NULL) {
        return csv_cell_error(c, line, column, ERR_INVALID, err, "%s %s; " INGEST_LEAVE_OUT ".",
                              show, fault);
    }
    if (!t->is_target[column] && !t->options->one_hot) {
        const bool mark = missing_mark(cell->text, cell->len);
        return csv_cell_error(
            c, line, column, ERR_INVALID, err,
            mark ? "%s is not a number; " INGEST_TAKE_MISSING ", " INGEST_LEAVE_OUT "."
                 : "%s is not a number; " INGEST_LEAVE_OUT
                   ", one_hot=true (krr: --one-hot) turns columns of text into 0/1 columns.",
            show);
    }
    if (t->is_target[column] && (t->targets > 1 || t->options->task == TASK_REGRESSION)) {
        return csv_cell_error(c, line, column, ERR_INVALID, err,
                              "%s %s; only the one target of a classification may be text.", show,
                              fault != NULL ? fault : "is not a number");
    }
    return 0;
}

/* ---- what a column is ---- */

/* Numbers that a column of text may hold, where it is a feature. Codes of kinds are few; a column
 * of many numbers is one of amounts, and its text a mark of what is missing. */
#define NUMBERS_MAX 50

int csv_kinds_init(struct csv_kinds *kinds, int64_t width, struct err *err)
{
    if (kinds->column != NULL) {
        return 0;
    }
    kinds->width = width;
    kinds->column = mem_zarray((size_t)width, sizeof(*kinds->column));
    return kinds->column == NULL ? err_no_memory(err) : 0;
}

void csv_kinds_deinit(struct csv_kinds *kinds)
{
    for (int64_t j = 0; kinds->column != NULL && j < kinds->width; j++) {
        mem_free(kinds->column[j].show);
        mem_free(kinds->column[j].fault);
    }
    kinds->column = mem_free(kinds->column);
}

int csv_kinds_check(const struct csv_kinds *kinds, struct err *err)
{
    const struct csv_kind *first = NULL;
    for (int64_t j = 0; j < kinds->width; j++) {
        const struct csv_kind *k = &kinds->column[j];
        const bool holds = k->fault != NULL && k->show == NULL;
        first = holds && (first == NULL || k->fault_line < first->fault_line) ? k : first;
    }
    if (first != NULL && err != NULL) {
        *err = *first->fault;
    }
    return first == NULL ? 0 : -(int)first->fault->code;
}

static int keep_text(struct csv_kind *kind, int64_t line, const struct csv_cell *cell,
                     struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    kind->line = line;
    kind->show = mem_strdup(ingest_show(cell->text, cell->len, show));
    return kind->show == NULL ? err_no_memory(err) : 0;
}

int csv_choose_kind(struct csv_table *c, int64_t column, const struct csv_cell *cell,
                    struct err *err)
{
    struct csv_kind *kind = &c->kinds->column[column];
    double ignored;
    kind->numbers = 0;
    kind->open = kind->show == NULL && csv_is_missing(c, cell);
    kind->waits = kind->show == NULL && !makes_text(c, cell) && cell->len > 0 && !kind->open &&
                  read_number(c, cell, &ignored) != INGEST_NUMBER_OK;
    if (c->t->is_ignored[column] || (kind->show == NULL && !makes_text(c, cell))) {
        return 0;
    }
    int status = 0;
    if (kind->show == NULL) {
        status = check_text(c, cell->line, column, cell, err);
        status = status < 0 ? status : keep_text(kind, cell->line, cell, err);
    }
    return status < 0 ? status : ingest_table_make_text(c->t, column, err);
}

/* Whether the text that is shown, in quotes, is a mark of a missing value. */
static bool shows_mark(const struct csv_kind *kind)
{
    return missing_mark(kind->show + 1, strlen(kind->show) - 2);
}

/* A target of which nobody said that it is one of classes is one of numbers or one of text. In one
 * of both a stray mark is likelier than names. */
static bool is_undecided(const struct csv_table *c, int64_t column)
{
    return c->t->is_target[column] && c->t->options->task == TASK_AUTO;
}

static int mixed_error(const struct csv_table *c, int64_t column, struct err *err)
{
    const struct csv_kind *kind = &c->kinds->column[column];
    if (shows_mark(kind)) {
        return csv_cell_error(
            c, kind->line, column, ERR_INVALID, err,
            "%s is not a number, unlike other cells of the target; " INGEST_TAKE_TARGETS ".",
            kind->show);
    }
    return csv_cell_error(c, kind->line, column, ERR_INVALID, err,
                          "%s is not a number, unlike other cells of the target; "
                          "task=classification (krr: --task classification) makes it one of "
                          "classes, which may be both.",
                          kind->show);
}

/* A text in a column that began with a number, or without a value: as if it had stood in the first
 * row. */
static int text_below(struct csv_table *c, int64_t line, int64_t column,
                      const struct csv_cell *cell, struct err *err)
{
    struct csv_kind *kind = &c->kinds->column[column];
    int status = check_text(c, line, column, cell, err);
    status = status < 0 ? status : keep_text(kind, line, cell, err);
    if (status < 0) {
        return status;
    }
    kind->below = true;
    c->kinds->looks = true;
    return is_undecided(c, column) && !kind->open ? mixed_error(c, column, err) : 0;
}

/* Whether a text below decides what a number that is none stands for: it would make it a text as
 * well, or, where that takes one_hot and no number stands above, is what the user is to hear of. */
static bool depends_on_text(const struct csv_table *c, int64_t line, int64_t column,
                            const struct csv_cell *cell)
{
    const bool hidden = c->kinds->column[column].waits && !c->t->is_target[column];
    return !is_undecided(c, column) && (hidden || check_text(c, line, column, cell, NULL) == 0);
}

/* A number that is none. It is refused when all rows are known, where a text below matters. */
static int not_a_number(struct csv_table *c, int64_t line, int64_t column,
                        const struct csv_cell *cell, struct err *err)
{
    struct csv_kind *kind = &c->kinds->column[column];
    if (!depends_on_text(c, line, column, cell)) {
        return number_error(c, line, column, cell, err);
    }
    c->kinds->looks = true;
    if (kind->fault != NULL) {
        return 0;
    }
    kind->fault = mem_zalloc(sizeof(*kind->fault));
    if (kind->fault == NULL) {
        return err_no_memory(err);
    }
    kind->fault_line = line;
    number_error(c, line, column, cell, kind->fault);
    return 0;
}

static int too_many_texts(const struct csv_table *c, int64_t line, int64_t column, struct err *err)
{
    const struct csv_kind *kind = &c->kinds->column[column];
    const bool numbers = kind->numbers > NUMBERS_MAX && !c->t->is_target[column];
    if (!kind->below && !numbers) {
        return csv_cell_error(c, line, column, ERR_TOO_LARGE, err,
                              "the column has more than %d distinct texts.", INGEST_MAX_CLASSES);
    }
    return csv_cell_error(
        c, kind->line, column, numbers ? ERR_INVALID : ERR_TOO_LARGE, err,
        "%s is not a number, and the column has more than %d distinct %s, too "
        "many for %s%s%s.",
        kind->show, numbers ? NUMBERS_MAX : INGEST_MAX_CLASSES, numbers ? "numbers" : "texts",
        c->t->is_target[column] ? "classes" : "kinds; ",
        shows_mark(kind) && !c->t->is_target[column] ? INGEST_TAKE_MISSING ", " : "",
        c->t->is_target[column] ? "" : INGEST_LEAVE_OUT);
}

/* Whether a new text of a feature is one number too many. */
static bool counts_too_many(const struct csv_table *c, int64_t column, const struct csv_cell *cell)
{
    struct csv_kind *kind = &c->kinds->column[column];
    kind->numbers += !makes_text(c, cell);
    return !c->t->is_target[column] && kind->numbers > NUMBERS_MAX;
}

/* Every label of a feature becomes a column: too many of them are refused before they pile up. */
static int count_label(struct csv_table *c, int64_t line, int64_t column, struct err *err)
{
    const int64_t limit = ingest_max_columns(c->t->options);
    c->t->feature_labels += !c->t->is_target[column];
    if (c->t->feature_labels <= limit) {
        return 0;
    }
    return csv_cell_error(c, line, column, ERR_TOO_LARGE, err,
                          "one-hot encoding makes more columns of the texts up to here than the "
                          "limit of %lld (--max-columns).",
                          (long long)limit);
}

/* ---- reading ---- */

static int label_cell(struct csv_table *c, int64_t line, int64_t column,
                      const struct csv_cell *cell, struct err *err)
{
    const char *fault = ingest_name_fault(cell->text, cell->len);
    if (fault != NULL) {
        char show[INGEST_SHOW_SIZE], hint[INGEST_ENCODING_SIZE];
        return csv_cell_error(c, line, column, ERR_INVALID, err, "the text %s %s%s.",
                              ingest_show(cell->text, cell->len, show), fault,
                              ingest_encoding_hint(cell->text, cell->len, hint));
    }
    if (is_undecided(c, column) && !makes_text(c, cell)) {
        return mixed_error(c, column, err);
    }
    struct ingest_labels *labels = c->t->labels[column];
    const int64_t known = labels->count;
    int64_t number = 0;
    int status = ingest_labels_add(labels, cell->text, cell->len, INGEST_MAX_CLASSES, &number, err);
    const bool added = labels->count > known;
    if (status > 0 || (added && counts_too_many(c, column, cell))) {
        return too_many_texts(c, line, column, err);
    }
    c->row[column] = (double)number;
    return status == 0 && added ? count_label(c, line, column, err) : status;
}

/* A number below numbers that are none: without one_hot these are what is wrong. Or below nothing.
 */
static int end_wait(struct csv_table *c, int64_t column, struct err *err)
{
    struct csv_kind *kind = &c->kinds->column[column];
    kind->waits = false;
    kind->open = false;
    if (c->t->is_target[column] || c->t->options->one_hot || kind->fault == NULL) {
        return 0;
    }
    if (err != NULL) {
        *err = *kind->fault;
    }
    return -(int)kind->fault->code;
}

/* A cell of a column that is one of numbers so far. */
static int number_cell(struct csv_table *c, int64_t line, int64_t column,
                       const struct csv_cell *cell, struct err *err)
{
    const struct csv_kind *kind = &c->kinds->column[column];
    if (kind->show != NULL) {
        return 0;
    }
    if (read_number(c, cell, &c->row[column]) == INGEST_NUMBER_OK) {
        return kind->waits || kind->open ? end_wait(c, column, err) : 0;
    }
    return makes_text(c, cell) ? text_below(c, line, column, cell, err)
                               : not_a_number(c, line, column, cell, err);
}

static int empty_cell(struct csv_table *c, int64_t line, int64_t column, struct err *err)
{
    if (c->t->is_target[column]) {
        return csv_cell_error(c, line, column, ERR_INVALID, err,
                              "the cell is empty, and it is the target; " INGEST_TAKE_TARGETS ".");
    }
    return csv_cell_error(c, line, column, ERR_INVALID, err,
                          "the cell is empty; " INGEST_TAKE_MISSING ", " INGEST_LEAVE_OUT ".");
}

int csv_read_cell(struct csv_table *c, int64_t line, int64_t column, const struct csv_cell *cell,
                  struct err *err)
{
    if (c->t->is_ignored[column]) {
        c->row[column] = 0;
        return 0;
    }
    if (csv_is_missing(c, cell)) {
        c->row[column] = NAN;
        return 0;
    }
    if (cell->len == 0) {
        return empty_cell(c, line, column, err);
    }
    return c->t->labels[column] != NULL ? label_cell(c, line, column, cell, err)
                                        : number_cell(c, line, column, cell, err);
}
