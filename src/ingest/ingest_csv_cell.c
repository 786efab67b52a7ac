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

static int number_error(const struct csv_table *c, int64_t line, int64_t column,
                        const struct csv_cell *cell, struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    double ignored;
    switch (ingest_number_read(cell->text, cell->len, &ignored)) {
    case INGEST_NUMBER_NOT_FINITE:
        return csv_cell_error(c, line, column, ERR_INVALID, err, "%s is not a finite number.",
                              show);
    case INGEST_NUMBER_HEX:
        return csv_cell_error(c, line, column, ERR_INVALID, err,
                              "%s is hexadecimal; numbers are decimal here.", show);
    case INGEST_NUMBER_TEXT:
    case INGEST_NUMBER_OK:
        break;
    }
    const bool feature = !c->t->is_target[column];
    return csv_cell_error(c, line, column, ERR_INVALID, err, "%s is not a number%s.", show,
                          feature ? "; " INGEST_LEAVE_OUT : "");
}

static int label_cell(struct csv_table *c, int64_t line, int64_t column,
                      const struct csv_cell *cell, struct err *err)
{
    const char *fault = ingest_name_fault(cell->text, cell->len);
    if (fault != NULL) {
        char show[INGEST_SHOW_SIZE];
        return csv_cell_error(c, line, column, ERR_INVALID, err, "the text %s %s.",
                              ingest_show(cell->text, cell->len, show), fault);
    }
    int64_t number = 0;
    int status = ingest_labels_add(c->t->labels[column], cell->text, cell->len, INGEST_MAX_CLASSES,
                                   &number, err);
    if (status > 0) {
        return csv_cell_error(c, line, column, ERR_TOO_LARGE, err,
                              "the column has more than %d distinct texts.", INGEST_MAX_CLASSES);
    }
    c->row[column] = (double)number;
    return status;
}

/* One cell of a data row into c->row. */
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
    if (ingest_number_read(cell->text, cell->len, &c->row[column]) != INGEST_NUMBER_OK) {
        return number_error(c, line, column, cell, err);
    }
    return 0;
}

bool csv_is_text(const struct csv_cell *cell)
{
    double ignored;
    return cell->len > 0 &&
           ingest_number_read(cell->text, cell->len, &ignored) == INGEST_NUMBER_TEXT;
}

/* "2,5" among semicolons or tabs: a number to its writer, and a class label if nobody objects. */
static bool has_decimal_comma(struct csv_table *c, const struct csv_cell *cell)
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

/* Makes a column one of text where the first data row says so and the options allow it. */
int csv_choose_kind(struct csv_table *c, int64_t column, const struct csv_cell *cell,
                    struct err *err)
{
    struct ingest_table *t = c->t;
    if (t->is_ignored[column] || !csv_is_text(cell)) {
        return 0;
    }
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    if (has_decimal_comma(c, cell)) {
        return csv_cell_error(c, cell->line, column, ERR_INVALID, err,
                              "%s has a decimal comma; numbers take a point.", show);
    }
    if (!t->is_target[column] && !t->options->one_hot) {
        return csv_cell_error(
            c, cell->line, column, ERR_INVALID, err,
            "%s is not a number; " INGEST_LEAVE_OUT
            ", one_hot=true (krr: --one-hot) turns columns of text into 0/1 columns.",
            show);
    }
    if (t->is_target[column] && (t->targets > 1 || t->options->task == TASK_REGRESSION)) {
        return csv_cell_error(
            c, cell->line, column, ERR_INVALID, err,
            "%s is not a number; only the one target of a classification may be text.", show);
    }
    return ingest_table_make_text(t, column, err);
}
