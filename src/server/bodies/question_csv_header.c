/* The first row of a CSV that is a question: names, or what stands for them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_numeral.h"
#include "server/bodies/question_csv.h"

static bool is_number(const struct csv *c, const struct cell *cell)
{
    double ignored;
    return ingest_numeral_read(cell->text, cell->len, c->form.decimal_comma, &ignored) !=
           INGEST_NUMBER_TEXT;
}

/* Whether all cells of the line are text, and not all of them missing; a NaN is bad data, not a
 * name. */
static int is_header(struct csv c, bool *ret, struct err *err)
{
    c.cell = (struct buf)BUF_INIT;
    int r = 0;
    bool named = !rows_may_lack(&c.rows);
    *ret = true;
    for (int64_t j = 0; r == 0; j++) {
        struct cell cell = {.len = 0};
        r = csv__read_cell(&c, j, &cell, err);
        named = named || (r == 0 && !csv__is_missing(&c, &cell));
        *ret = *ret && r == 0 && !is_number(&c, &cell);
        if (r < 0 || csv__at_line_end(&c)) {
            break;
        }
        c.at++;
    }
    buf_deinit(&c.cell);
    *ret = *ret && named;
    return r;
}

/* Room for a column more. */
static int grow(struct csv *c, int64_t column, struct err *err)
{
    if (column < c->width) {
        return 0;
    }
    const int64_t width = column < 8 ? 8 : 2 * column;
    struct column *larger = mem_regrow(c->column, (size_t)width, sizeof *larger);
    if (!larger) {
        return err_no_memory(err);
    }
    c->column = larger;
    c->width = width;
    return 0;
}

/* A column without a name has that of the upload: "column3". */
static char *name_of(const struct cell *cell, int64_t column)
{
    char number[32];
    snprintf(number, sizeof number, "column%lld", (long long)column);
    return cell->len > 0 ? mem_strndup(cell->text, cell->len) : mem_strdup(number);
}

static int take_name(struct csv *c, int64_t column, const struct cell *cell, struct err *err)
{
    char pointer[96];
    snprintf(pointer, sizeof pointer, "#/line/%lld/column/%lld", (long long)c->cell_line,
             (long long)column + 1);
    int r = csv__check_encoding(c, column, cell, err);
    if (r < 0) {
        return r;
    }
    cleanup_mem char *name = name_of(cell, column);
    r = name ? grow(c, column, err) : err_no_memory(err);
    r = r == 0 ? columns_find(&c->columns, name, column, &c->column[column], err) : r;
    if (r != 0) {
        return r < 0 ? r : columns_unknown(err, pointer, name);
    }
    return columns_mark(&c->columns, &c->column[column], 1) ? 0 : columns_twice(err, pointer, name);
}

/* Whether the columns are the features and nothing else, in their order. */
static bool is_plain(const struct csv *c)
{
    for (int64_t j = 0; j < c->width; j++) {
        if (c->column[j].kind != COLUMN_FEATURE || c->column[j].at != j) {
            return false;
        }
    }
    return true;
}

int csv__read_header(struct csv *c, struct err *err)
{
    int r = columns_init(&c->columns, c->rows.model, c->rules, err);
    int64_t j = 0;
    c->width = 0;
    for (bool more = true; r == 0 && more; j++) {
        struct cell cell = {.len = 0};
        r = csv__read_cell(c, j, &cell, err);
        r = r == 0 ? take_name(c, j, &cell, err) : r;
        more = !csv__at_line_end(c);
        c->at += more;
    }
    c->width = j;
    c->header = true;
    char pointer[64];
    snprintf(pointer, sizeof pointer, "#/line/%lld", (long long)c->row_line);
    const char *missing = r == 0 ? columns_missing(&c->columns, 1) : NULL;
    if (r == 0 && !missing && is_plain(c)) {
        c->column = mem_free(c->column);
    }
    return missing ? columns_lacking(err, pointer, missing) : r;
}

/* Of the line that comes next; its errors are found when it is read. */
static int64_t count_cells(struct csv c)
{
    c.cell = (struct buf)BUF_INIT;
    int64_t count = 0;
    for (bool more = true; more; c.at += more) {
        struct cell cell = {.len = 0};
        more = csv__read_cell(&c, count++, &cell, NULL) == 0 && !csv__at_line_end(&c);
    }
    buf_deinit(&c.cell);
    return count;
}

/* Rows without names may leave out the features that tell what is missing. */
int csv__take_narrow(struct csv *c, struct err *err)
{
    const struct served_model *model = c->rows.model;
    const int64_t narrow = rows_narrow(&c->rows);
    if (narrow == model->d || count_cells(*c) != narrow) {
        return 0;
    }
    c->column = mem_zarray((size_t)narrow, sizeof *c->column);
    if (!c->column) {
        return err_no_memory(err);
    }
    c->width = 0;
    for (int64_t j = 0; j < model->d; j++) {
        if (model->indicates[j] < 0) {
            c->column[c->width++] = (struct column){.kind = COLUMN_FEATURE, .at = j};
        }
    }
    return 0;
}

/* As the client says, where it does. */
int csv__choose_header(const struct csv *c, bool *ret, struct err *err)
{
    *ret = c->form.header == INGEST_HEADER_PRESENT;
    return c->form.header == INGEST_HEADER_AUTO ? is_header(*c, ret, err) : 0;
}
