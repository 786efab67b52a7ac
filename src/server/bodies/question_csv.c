#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ingest/ingest_numeral.h"
#include "ingest/ingest_text.h"
#include "server/bodies/columns.h"
#include "server/bodies/rows.h"
#include "wire/missing.h"

struct csv {
    const char *begin, *at, *end;
    const char *filled; /* up to there, lines without anything have one with something behind */
    int64_t line;       /* where `at` is */
    int64_t row_line, cell_line; /* where the current row and cell begin */
    char delimiter;
    struct buf cell; /* a quoted cell, its quotes resolved */
    struct rows rows;
    struct columns columns;
    struct column *column; /* [width] NULL: they are the features, in their order */
    int64_t width;         /* cells in a line */
    bool header;
    struct columns_rules rules;
    struct csv_form form;
};

struct cell {
    const char *text; /* trimmed; within the body, or in csv.cell */
    size_t len;
};

static void csv_deinit(struct csv *c)
{
    buf_deinit(&c->cell);
    rows_deinit(&c->rows);
    columns_deinit(&c->columns);
    c->column = mem_free(c->column);
}

#define cleanup_csv __attribute__((cleanup(csv_deinit)))

static bool at_line_end(const struct csv *c)
{
    return c->at == c->end || *c->at == '\n' || *c->at == '\r';
}

static void next_line(struct csv *c)
{
    if (c->at < c->end) {
        const bool both = *c->at == '\r' && c->at + 1 < c->end && c->at[1] == '\n';
        c->at += both ? 2 : 1;
        c->line++;
    }
}

static bool is_blank(char ch)
{
    return ch == ' ' || ch == '\t';
}

static void skip_blanks(struct csv *c)
{
    while (c->at < c->end && is_blank(*c->at) && *c->at != c->delimiter) {
        c->at++;
    }
}

/* At the beginning of a row, a line that holds something; false at the end of the body. */
static bool find_row(struct csv *c)
{
    for (;;) {
        const char *start = c->at;
        skip_blanks(c);
        if (!at_line_end(c)) {
            c->at = start;
            c->row_line = c->line;
            return true;
        }
        if (c->at == c->end) {
            return false;
        }
        next_line(c);
    }
}

/* The same in a table of one column, where a line without anything is a row, too: it lacks its
 * value. Only behind the last row it is none, and in front where it was not said that rows begin.
 */
static bool find_narrow_row(struct csv *c)
{
    const char *start = c->at;
    const int64_t line = c->line;
    if (start >= c->filled) {
        if (!find_row(c)) {
            return false;
        }
        c->filled = c->at;
    }
    c->at = start;
    c->line = c->row_line = line;
    return true;
}

/* As in an upload. */
static char find_delimiter(const struct csv *c)
{
    bool quoted = false;
    const bool commas = !c->form.decimal_comma;
    const char found = ingest_delimiter(c->at, (size_t)(c->end - c->at), commas, &quoted);
    return found != '\0' ? found : c->delimiter;
}

/* ---- errors ---- */

__attribute__((format(printf, 4, 5))) static int cell_error(const struct csv *c, int64_t column,
                                                            struct err *err, const char *fmt, ...)
{
    char what[COLUMNS_WHY_SIZE], pointer[96];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    snprintf(pointer, sizeof pointer, "#/line/%lld/column/%lld", (long long)c->cell_line,
             (long long)column + 1);
    return err_at(err, ERR_INVALID, pointer, "Line %lld, column %lld: %s", (long long)c->cell_line,
                  (long long)column + 1, what);
}

static int width_error(const struct csv *c, int64_t have, struct err *err)
{
    const bool more = have > c->width;
    char pointer[64];
    snprintf(pointer, sizeof pointer, "#/line/%lld", (long long)c->row_line);
    return err_at(err, ERR_INVALID, pointer, "Line %lld holds %s%lld cells; %s %lld %s.",
                  (long long)c->row_line, more ? "more than " : "",
                  (long long)(more ? c->width : have),
                  c->header ? "the header has" : "the model takes", (long long)c->width,
                  c->header ? "columns" : "features");
}

/* What a cell of the column should hold, by name where it is a feature. */
static void show_wanted(const struct csv *c, int64_t column, char *ret, size_t size)
{
    char show[INGEST_SHOW_SIZE];
    const struct column *known = c->column ? &c->column[column] : NULL;
    const int64_t at = known ? known->at : column;
    const bool feature = known ? known->kind == COLUMN_FEATURE : column < c->rows.model->d;
    const char *name = feature ? c->rows.model->features[at] : NULL;
    snprintf(ret, size, "%s%s", name ? ", for the feature " : "",
             name ? ingest_show(name, strlen(name), show) : "");
}

static int number_error(const struct csv *c, const struct cell *cell, int64_t column,
                        struct err *err)
{
    double ignored;
    char show[INGEST_SHOW_SIZE], wanted[INGEST_SHOW_SIZE + 32];
    show_wanted(c, column, wanted, sizeof wanted);
    const char *hint = missing_mark(cell->text, cell->len) ? rows_lack_hint(&c->rows) : "";
    if (cell->len == 0) {
        return cell_error(c, column, err, "the cell is empty%s.%s", wanted, hint);
    }
    const bool comma = c->form.decimal_comma;
    const bool finite =
        ingest_numeral_read(cell->text, cell->len, comma, &ignored) != INGEST_NUMBER_NOT_FINITE;
    const char *fault =
        ingest_numeral_fault(ingest_numeral_of(cell->text, cell->len, comma), comma);
    ingest_show(cell->text, cell->len, show);
    return finite && fault ? cell_error(c, column, err, "%s%s %s.", show, wanted, fault)
                           : cell_error(c, column, err, "%s is not a %snumber%s.%s", show,
                                        finite ? "" : "finite ", wanted, hint);
}

/* ---- cells ---- */

static void skip_to_quote(struct csv *c)
{
    while (c->at < c->end && *c->at != '"') {
        if (at_line_end(c)) {
            next_line(c);
        } else {
            c->at++;
        }
    }
}

/* Up to the closing quotes, and in front of them. */
static int unquote(struct csv *c, int64_t column, struct err *err)
{
    buf_clear(&c->cell);
    for (c->at++;; c->at += 2) {
        const char *start = c->at;
        skip_to_quote(c);
        buf_add(&c->cell, start, (size_t)(c->at - start));
        if (c->at == c->end) {
            return cell_error(c, column, err, "the quoted cell that begins here is never closed.");
        }
        if (c->at + 1 == c->end || c->at[1] != '"') {
            return c->cell.failed ? err_no_memory(err) : 0;
        }
        buf_char(&c->cell, '"');
    }
}

static int read_quoted(struct csv *c, int64_t column, struct cell *ret, struct err *err)
{
    const int r = unquote(c, column, err);
    if (r < 0) {
        return r;
    }
    c->at++;
    skip_blanks(c);
    if (!at_line_end(c) && *c->at != c->delimiter) {
        return cell_error(c, column, err, "text follows the closing quotes.");
    }
    *ret = (struct cell){c->cell.data ? c->cell.data : "", c->cell.len};
    ret->text = ingest_trim(ret->text, &ret->len);
    return 0;
}

/* Leaves c->at at the delimiter or the end of the line. */
static int read_cell(struct csv *c, int64_t column, struct cell *ret, struct err *err)
{
    c->cell_line = c->line;
    skip_blanks(c);
    if (c->at < c->end && *c->at == '"') {
        return read_quoted(c, column, ret, err);
    }
    const char *start = c->at;
    while (!at_line_end(c) && *c->at != c->delimiter) {
        c->at++;
    }
    size_t len = (size_t)(c->at - start);
    while (len > 0 && is_blank(start[len - 1])) {
        len--;
    }
    if (memchr(start, '"', len)) {
        return cell_error(c, column, err,
                          "a quotation mark stands within the cell; a cell with one is quoted as a "
                          "whole, and the mark doubled.");
    }
    *ret = (struct cell){start, len};
    return 0;
}

/* Whether the cell says that its feature is missing, and that may be. */
static bool is_missing(const struct csv *c, const struct cell *cell)
{
    return rows_may_lack(&c->rows) && missing_mark(cell->text, cell->len);
}

static int read_number(struct csv *c, int64_t column, double *ret, struct err *err)
{
    /* Which takes points. */
    const size_t len =
        c->form.decimal_comma ? 0 : decimal_scan(c->at, (size_t)(c->end - c->at), ret);
    const char *behind = c->at + len;
    if (len > 0 && isfinite(*ret) &&
        (behind == c->end || *behind == c->delimiter || *behind == '\n' || *behind == '\r')) {
        c->at = behind;
        return 0;
    }
    struct cell cell = {.len = 0};
    const int r = read_cell(c, column, &cell, err);
    if (r < 0) {
        return r;
    }
    if (is_missing(c, &cell)) {
        *ret = NAN;
        return 0;
    }
    return ingest_numeral_read(cell.text, cell.len, c->form.decimal_comma, ret) == INGEST_NUMBER_OK
               ? 0
               : number_error(c, &cell, column, err);
}

/* A text in another encoding is neither a name nor a word, whatever it looks like. */
static int check_encoding(const struct csv *c, int64_t column, const struct cell *cell,
                          struct err *err)
{
    char show[INGEST_SHOW_SIZE], hint[INGEST_ENCODING_SIZE];
    ingest_encoding_hint(cell->text, cell->len, hint);
    return hint[0] == '\0' ? 0
                           : cell_error(c, column, err, "%s is not UTF-8%s.",
                                        ingest_show(cell->text, cell->len, show), hint);
}

/* A cell that is no feature: a text, or what is passed over, which may be empty and is not looked
 * at. */
static int read_other(struct csv *c, int64_t column, double *row, struct err *err)
{
    struct cell cell = {.len = 0};
    char why[COLUMNS_WHY_SIZE];
    const int r = read_cell(c, column, &cell, err);
    if (r < 0 || c->column[column].kind == COLUMN_PASSED) {
        return r;
    }
    if (cell.len == 0 && !rows_may_lack(&c->rows)) {
        return number_error(c, &cell, column, err);
    }
    const int encoded = check_encoding(c, column, &cell, err);
    if (encoded < 0) {
        return encoded;
    }
    return columns_set_text(&c->columns, &c->column[column], cell.text, cell.len, row, why)
               ? 0
               : cell_error(c, column, err, "%s", why);
}

static int read_row(struct csv *c, struct err *err)
{
    const int64_t room = rows_room(&c->rows, (size_t)(c->at - c->begin), err);
    double *row = room >= 0 ? rows_next(&c->rows, err) : NULL;
    if (!row) {
        return err ? -(int)err->code : -ERR_NO_MEMORY;
    }
    for (int64_t j = 0;; j++) {
        if (j == c->width) {
            return width_error(c, j + 1, err);
        }
        const struct column *column = c->column ? &c->column[j] : NULL;
        const int r = column && column->kind != COLUMN_FEATURE
                          ? read_other(c, j, row, err)
                          : read_number(c, j, row + (column ? column->at : j), err);
        if (r < 0) {
            return r;
        }
        if (at_line_end(c)) {
            if (j + 1 < c->width) {
                return width_error(c, j + 1, err);
            }
            break;
        }
        c->at++; /* the delimiter */
    }
    c->rows.count++;
    return 0;
}

/* ---- header ---- */

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
        r = read_cell(&c, j, &cell, err);
        named = named || (r == 0 && !is_missing(&c, &cell));
        *ret = *ret && r == 0 && !is_number(&c, &cell);
        if (r < 0 || at_line_end(&c)) {
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
    int r = check_encoding(c, column, cell, err);
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

static int read_header(struct csv *c, struct err *err)
{
    int r = columns_init(&c->columns, c->rows.model, c->rules, err);
    int64_t j = 0;
    c->width = 0;
    for (bool more = true; r == 0 && more; j++) {
        struct cell cell = {.len = 0};
        r = read_cell(c, j, &cell, err);
        r = r == 0 ? take_name(c, j, &cell, err) : r;
        more = !at_line_end(c);
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
        more = read_cell(&c, count++, &cell, NULL) == 0 && !at_line_end(&c);
    }
    buf_deinit(&c.cell);
    return count;
}

/* Rows without names may leave out the features that tell what is missing. */
static int take_narrow(struct csv *c, struct err *err)
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
static int choose_header(const struct csv *c, bool *ret, struct err *err)
{
    *ret = c->form.header == INGEST_HEADER_PRESENT;
    return c->form.header == INGEST_HEADER_AUTO ? is_header(*c, ret, err) : 0;
}

static int read_body(struct csv *c, struct question *q, struct err *err)
{
    int r = ingest_refuse_utf16(c->at, (size_t)(c->end - c->at), err);
    c->at += utf8_marks(c->at, (size_t)(c->end - c->at));
    r = r == 0 ? ingest_refuse_separator(c->at, (size_t)(c->end - c->at), err) : r;
    const char *begin = c->at;
    if (r == 0 && find_row(c)) {
        c->delimiter = find_delimiter(c);
        r = choose_header(c, &q->header, err);
        r = r < 0 ? r : q->header ? read_header(c, err) : take_narrow(c, err);
    }
    if (r == 0 && q->header) {
        next_line(c);
    } else if (c->form.header == INGEST_HEADER_ABSENT && c->width == 1) {
        c->at = c->filled = begin; /* it begins with a row, where that is said */
        c->line = 1;
    }
    rows_begin(&c->rows, (size_t)(c->at - c->begin), (size_t)(c->end - c->begin));
    while (r == 0 && (c->width == 1 ? find_narrow_row(c) : find_row(c))) {
        r = read_row(c, err);
        next_line(c);
    }
    return r == 0 ? rows_take(&c->rows, "#", q, err) : r;
}

int question_read_csv(const char *text, size_t len, const struct served_model *model,
                      struct columns_rules rules, struct csv_form form, struct question *ret,
                      struct err *err)
{
    struct question q = {.scores = model->classes > 0};
    cleanup_csv struct csv c = {.begin = text,
                                .at = text,
                                .filled = text,
                                .end = text + len,
                                .line = 1,
                                .delimiter = form.decimal_comma ? ';' : ',',
                                .rows = {.model = model},
                                .width = model->d,
                                .rules = rules,
                                .form = form};
    const int r = read_body(&c, &q, err);
    if (r == 0) {
        q.unknown = c.columns.unknown;
        *ret = q;
    }
    return r;
}
