/* The cells of a CSV: numbers, labels, and what a column is. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_csv.h"
#include "ingest/ingest_number.h"
#include "ingest/ingest_text.h"

int csv_cell_error(const struct csv_table *c, int64_t line, int64_t column, enum err_code code,
                   struct err *err, const char *fmt, ...)
{
    char what[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    char pointer[96];
    snprintf(pointer, sizeof(pointer), "#/line/%lld/column/%lld", (long long)line,
             (long long)column + 1);
    char show[INGEST_SHOW_SIZE];
    char name[INGEST_SHOW_SIZE + 4] = "";
    if (c->begun && c->header) {
        const char *text = c->t->names[column];
        snprintf(name, sizeof(name), " (%s)", ingest_show(text, strlen(text), show));
    }
    return err_at(err, code, pointer, "Line %lld, column %lld%s: %s", (long long)line,
                  (long long)column + 1, name, what);
}

bool csv_is_text(const struct csv_cell *cell)
{
    double ignored;
    return cell->len > 0 &&
           ingest_number_read(cell->text, cell->len, &ignored) == INGEST_NUMBER_TEXT;
}

/* "2,5" among semicolons or tabs: a number to its writer, and a class label if nobody objects. */
static bool has_decimal_comma(const struct csv_table *c, const struct csv_cell *cell)
{
    const char *comma = memchr(cell->text, ',', cell->len);
    char copy[64];
    if (c->delimiter == ',' || comma == NULL || cell->len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, cell->text, cell->len);
    copy[comma - cell->text] = '.';
    double ignored;
    return ingest_number_read(copy, cell->len, &ignored) == INGEST_NUMBER_OK;
}

static int number_error(const struct csv_table *c, int64_t line, int64_t column,
                        const struct csv_cell *cell, struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    double ignored;
    const bool hex = ingest_number_read(cell->text, cell->len, &ignored) == INGEST_NUMBER_HEX;
    return csv_cell_error(c, line, column, ERR_INVALID, err, "%s is %s.",
                          ingest_show(cell->text, cell->len, show),
                          hex ? "hexadecimal; numbers are decimal here" : "not a finite number");
}

/* Why a column may not be one of text; 0: it may. */
static int check_text(const struct csv_table *c, int64_t line, int64_t column,
                      const struct csv_cell *cell, struct err *err)
{
    const struct ingest_table *t = c->t;
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    if (has_decimal_comma(c, cell)) {
        return csv_cell_error(c, line, column, ERR_INVALID, err,
                              "%s has a decimal comma; numbers take a point.", show);
    }
    if (!t->is_target[column] && !t->options->one_hot) {
        return csv_cell_error(
            c, line, column, ERR_INVALID, err,
            "%s is not a number; " INGEST_LEAVE_OUT
            ", one_hot=true (krr: --one-hot) turns columns of text into 0/1 columns.",
            show);
    }
    if (t->is_target[column] && (t->targets > 1 || t->options->task == TASK_REGRESSION)) {
        return csv_cell_error(
            c, line, column, ERR_INVALID, err,
            "%s is not a number; only the one target of a classification may be text.", show);
    }
    return 0;
}

int csv_choose_kind(struct csv_table *c, int64_t column, const struct csv_cell *cell,
                    struct err *err)
{
    if (c->t->is_ignored[column]) {
        return 0;
    }
    if (c->late->column[column].show != NULL) {
        return ingest_table_make_text(c->t, column, err);
    }
    if (!csv_is_text(cell)) {
        return 0;
    }
    const int status = check_text(c, cell->line, column, cell, err);
    return status < 0 ? status : ingest_table_make_text(c->t, column, err);
}

/* ---- text below numbers ---- */

/* Numbers that a column of text below its first row may hold, where it is a feature. Codes of kinds
 * are few; a column of many numbers is one of amounts, and its text a mark of what is missing. */
#define LATE_NUMBERS_MAX 50

int csv_late_init(struct csv_late *late, int64_t width, struct err *err)
{
    if (late->column != NULL) {
        return 0;
    }
    late->width = width;
    late->column = mem_zarray((size_t)width, sizeof(*late->column));
    return late->column == NULL ? err_no_memory(err) : 0;
}

void csv_late_deinit(struct csv_late *late)
{
    for (int64_t j = 0; late->column != NULL && j < late->width; j++) {
        mem_free(late->column[j].show);
    }
    late->column = mem_free(late->column);
}

/* A text in a column that began with a number: as if it had stood in the first row, but for a
 * target that nobody called one of classes. There a stray mark is likelier than names. */
static int late_text(struct csv_table *c, int64_t line, int64_t column, const struct csv_cell *cell,
                     struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    const int status = check_text(c, line, column, cell, err);
    if (status < 0) {
        return status;
    }
    if (c->t->is_target[column] && c->t->options->task == TASK_AUTO) {
        return csv_cell_error(c, line, column, ERR_INVALID, err,
                              "%s is not a number. By its first row the target is one of numbers; "
                              "task=classification (krr: --task classification) makes it one of "
                              "classes, which may be text.",
                              show);
    }
    struct csv_late_column *late = &c->late->column[column];
    late->line = line;
    late->show = mem_strdup(show);
    c->late->count++;
    return late->show == NULL ? err_no_memory(err) : 0;
}

static int too_many_texts(const struct csv_table *c, int64_t line, int64_t column, struct err *err)
{
    const struct csv_late_column *late = &c->late->column[column];
    if (late->show == NULL) {
        return csv_cell_error(c, line, column, ERR_TOO_LARGE, err,
                              "the column has more than %d distinct texts.", INGEST_MAX_CLASSES);
    }
    const bool numbers = late->numbers > LATE_NUMBERS_MAX && !c->t->is_target[column];
    return csv_cell_error(c, late->line, column, numbers ? ERR_INVALID : ERR_TOO_LARGE, err,
                          "%s is not a number, and the column has more than %d distinct %s, too "
                          "many for %s%s.",
                          late->show, numbers ? LATE_NUMBERS_MAX : INGEST_MAX_CLASSES,
                          numbers ? "numbers" : "texts",
                          c->t->is_target[column] ? "classes" : "kinds; ",
                          c->t->is_target[column] ? "" : INGEST_LEAVE_OUT);
}

/* Whether a new text of such a column is one number too many. */
static bool counts_too_many(const struct csv_table *c, int64_t column, const struct csv_cell *cell)
{
    struct csv_late_column *late = &c->late->column[column];
    if (late->show == NULL || c->t->is_target[column]) {
        return false;
    }
    late->numbers += !csv_is_text(cell);
    return late->numbers > LATE_NUMBERS_MAX;
}

/* ---- reading ---- */

static int label_cell(struct csv_table *c, int64_t line, int64_t column,
                      const struct csv_cell *cell, struct err *err)
{
    const char *fault = ingest_name_fault(cell->text, cell->len);
    if (fault != NULL) {
        char show[INGEST_SHOW_SIZE];
        return csv_cell_error(c, line, column, ERR_INVALID, err, "the text %s %s.",
                              ingest_show(cell->text, cell->len, show), fault);
    }
    struct ingest_labels *labels = c->t->labels[column];
    const int64_t known = labels->count;
    int64_t number = 0;
    int status = ingest_labels_add(labels, cell->text, cell->len, INGEST_MAX_CLASSES, &number, err);
    if (status > 0 || (labels->count > known && counts_too_many(c, column, cell))) {
        return too_many_texts(c, line, column, err);
    }
    c->row[column] = (double)number;
    return status;
}

int csv_read_cell(struct csv_table *c, int64_t line, int64_t column, const struct csv_cell *cell,
                  struct err *err)
{
    if (c->t->is_ignored[column]) {
        c->row[column] = 0;
        return 0;
    }
    if (cell->len == 0) {
        return csv_cell_error(c, line, column, ERR_INVALID, err,
                              "the cell is empty; missing values are not supported.");
    }
    if (c->t->labels[column] != NULL) {
        return label_cell(c, line, column, cell, err);
    }
    if (c->late->column[column].show != NULL) {
        return 0;
    }
    switch (ingest_number_read(cell->text, cell->len, &c->row[column])) {
    case INGEST_NUMBER_OK:
        return 0;
    case INGEST_NUMBER_TEXT:
        return late_text(c, line, column, cell, err);
    default:
        return number_error(c, line, column, cell, err);
    }
}
