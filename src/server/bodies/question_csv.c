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
#include "server/bodies/question_csv.h"
#include "wire/missing.h"

static void csv_deinit(struct csv *c)
{
    buf_deinit(&c->cell);
    rows_deinit(&c->rows);
    columns_deinit(&c->columns);
    c->column = mem_free(c->column);
}

#define cleanup_csv __attribute__((cleanup(csv_deinit)))

bool csv__at_line_end(const struct csv *c)
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
        if (!csv__at_line_end(c)) {
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

/* What a row of a table without a header should hold: as many as the first, where that may be. */
static void show_width(const struct csv *c, char *ret, size_t size)
{
    const int64_t d = c->rows.model->d, narrow = rows_narrow(&c->rows);
    if (c->width < d) {
        snprintf(ret, size, "the first row has %lld", (long long)c->width);
    } else if (narrow < d) {
        snprintf(ret, size,
                 "the model takes %lld features, or in all rows %lld without those that tell what "
                 "is missing",
                 (long long)d, (long long)narrow);
    } else {
        snprintf(ret, size, "the model takes %lld features", (long long)d);
    }
}

static int width_error(const struct csv *c, int64_t have, struct err *err)
{
    const bool more = have > c->width;
    char pointer[64], wanted[160];
    snprintf(pointer, sizeof pointer, "#/line/%lld", (long long)c->row_line);
    show_width(c, wanted, sizeof wanted);
    if (c->header) {
        snprintf(wanted, sizeof wanted, "the header has %lld columns", (long long)c->width);
    }
    return err_at(err, ERR_INVALID, pointer, "Line %lld holds %s%lld cells; %s.",
                  (long long)c->row_line, more ? "more than " : "",
                  (long long)(more ? c->width : have), wanted);
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
        if (csv__at_line_end(c)) {
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
    if (!csv__at_line_end(c) && *c->at != c->delimiter) {
        return cell_error(c, column, err, "text follows the closing quotes.");
    }
    *ret = (struct cell){c->cell.data ? c->cell.data : "", c->cell.len};
    ret->text = ingest_trim(ret->text, &ret->len);
    return 0;
}

/* Leaves c->at at the delimiter or the end of the line. */
int csv__read_cell(struct csv *c, int64_t column, struct cell *ret, struct err *err)
{
    c->cell_line = c->line;
    skip_blanks(c);
    if (c->at < c->end && *c->at == '"') {
        return read_quoted(c, column, ret, err);
    }
    const char *start = c->at;
    while (!csv__at_line_end(c) && *c->at != c->delimiter) {
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
bool csv__is_missing(const struct csv *c, const struct cell *cell)
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
    const int r = csv__read_cell(c, column, &cell, err);
    if (r < 0) {
        return r;
    }
    if (csv__is_missing(c, &cell)) {
        *ret = NAN;
        return 0;
    }
    return ingest_numeral_read(cell.text, cell.len, c->form.decimal_comma, ret) == INGEST_NUMBER_OK
               ? 0
               : number_error(c, &cell, column, err);
}

/* A text in another encoding is neither a name nor a word, whatever it looks like; nor is one with
 * a NUL, behind which a name would not be looked at. */
int csv__check_encoding(const struct csv *c, int64_t column, const struct cell *cell,
                        struct err *err)
{
    char show[INGEST_SHOW_SIZE], hint[INGEST_ENCODING_SIZE];
    if (memchr(cell->text, '\0', cell->len)) {
        return cell_error(c, column, err, "%s holds a NUL byte.",
                          ingest_show(cell->text, cell->len, show));
    }
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
    const int r = csv__read_cell(c, column, &cell, err);
    if (r < 0 || c->column[column].kind == COLUMN_PASSED) {
        return r;
    }
    if (cell.len == 0 && !rows_may_lack(&c->rows)) {
        return number_error(c, &cell, column, err);
    }
    const int encoded = csv__check_encoding(c, column, &cell, err);
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
        if (csv__at_line_end(c)) {
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

/* ---- the body ---- */

static int read_body(struct csv *c, struct question *q, struct err *err)
{
    int r = ingest_refuse_utf16(c->at, (size_t)(c->end - c->at), err);
    c->at += utf8_marks(c->at, (size_t)(c->end - c->at));
    r = r == 0 ? ingest_refuse_separator(c->at, (size_t)(c->end - c->at), err) : r;
    const char *begin = c->at;
    if (r == 0 && find_row(c)) {
        c->delimiter = find_delimiter(c);
        r = csv__choose_header(c, &q->header, err);
        r = r < 0 ? r : q->header ? csv__read_header(c, err) : csv__take_narrow(c, err);
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
