#include <csv.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_formats.h"
#include "ingest/ingest_lines.h"
#include "ingest/ingest_number.h"
#include "ingest/ingest_text.h"
#include "wire/names.h"

/* A row, quoted line ends included, is held to the same limit as a line. */
#define RECORD_MAX INGEST_LINE_MAX

/* Bytes by which libcsv's buffer of one cell grows; its own default makes long cells slow. */
#define CELL_STEP ((size_t)64 << 10)

struct held_cell {
    char *text; /* trimmed, NUL-terminated */
    size_t len;
    int64_t line;
};

/* One of the first two rows, kept until the header is decided. */
struct held_row {
    struct held_cell *cell;
    int64_t count, capacity;
    int64_t line;
};

struct csv_reader {
    struct ingest_table *t;
    struct ingest_lines lines;
    struct csv_parser parser;

    int64_t record_line, cell_line; /* where the current row and cell begin */
    size_t record_bytes;
    int64_t cells;  /* of the current row so far */
    bool row_ended; /* within the line just fed */

    struct held_row held[2];
    int held_rows;
    bool begun; /* the columns are known */
    bool header;
    int64_t width;
    double *row; /* [width] */

    int cell_status; /* the current row's first bad cell; a wrong number of cells goes first */
    struct err cell_err;
    int status; /* what ended the reading; < 0: every later callback does nothing */
    struct err err;
};

static void held_deinit(struct held_row *row)
{
    for (int64_t j = 0; j < row->count; j++) {
        mem_free(row->cell[j].text);
    }
    mem_free(row->cell);
    *row = (struct held_row){.cell = NULL};
}

static void reader_deinit(struct csv_reader *r)
{
    csv_free(&r->parser);
    ingest_lines_deinit(&r->lines);
    held_deinit(&r->held[0]);
    held_deinit(&r->held[1]);
    r->row = mem_free(r->row);
}

#define cleanup_reader __attribute__((cleanup(reader_deinit)))

/* Line 17, column 3 ("age"): … at #/line/17/column/3. */
static int cell_error(const struct csv_reader *r, int64_t line, int64_t column, enum err_code code,
                      struct err *err, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

static int cell_error(const struct csv_reader *r, int64_t line, int64_t column, enum err_code code,
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
    if (r->begun && r->header) {
        const char *text = r->t->names[column];
        snprintf(name, sizeof(name), " (%s)", ingest_show(text, strlen(text), show));
    }
    return err_at(err, code, pointer, "Line %lld, column %lld%s: %s", (long long)line,
                  (long long)column + 1, name, what);
}

static int number_error(const struct csv_reader *r, int64_t line, int64_t column,
                        const struct held_cell *cell, struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    double ignored;
    switch (ingest_number_read(cell->text, cell->len, &ignored)) {
    case INGEST_NUMBER_NOT_FINITE:
        return cell_error(r, line, column, ERR_INVALID, err, "%s is not a finite number.", show);
    case INGEST_NUMBER_HEX:
        return cell_error(r, line, column, ERR_INVALID, err,
                          "%s is hexadecimal; numbers are decimal here.", show);
    case INGEST_NUMBER_TEXT:
    case INGEST_NUMBER_OK:
        break;
    }
    const bool feature = !r->t->is_target[column];
    return cell_error(r, line, column, ERR_INVALID, err, "%s is not a number%s.", show,
                      feature ? "; " INGEST_LEAVE_OUT : "");
}

static int label_cell(struct csv_reader *r, int64_t line, int64_t column,
                      const struct held_cell *cell, struct err *err)
{
    const char *fault = ingest_name_fault(cell->text, cell->len);
    if (fault != NULL) {
        char show[INGEST_SHOW_SIZE];
        return cell_error(r, line, column, ERR_INVALID, err, "the text %s %s.",
                          ingest_show(cell->text, cell->len, show), fault);
    }
    int64_t number = 0;
    int status = ingest_labels_add(r->t->labels[column], cell->text, cell->len, INGEST_MAX_CLASSES,
                                   &number, err);
    if (status > 0) {
        return cell_error(r, line, column, ERR_TOO_LARGE, err,
                          "the column has more than %d distinct texts.", INGEST_MAX_CLASSES);
    }
    r->row[column] = (double)number;
    return status;
}

/* One cell of a data row into r->row. */
static int read_cell(struct csv_reader *r, int64_t line, int64_t column,
                     const struct held_cell *cell, struct err *err)
{
    if (r->t->is_ignored[column]) {
        r->row[column] = 0;
        return 0;
    }
    if (cell->len == 0) {
        return cell_error(r, line, column, ERR_INVALID, err,
                          "the cell is empty; missing values are not supported.");
    }
    if (r->t->labels[column] != NULL) {
        return label_cell(r, line, column, cell, err);
    }
    if (ingest_number_read(cell->text, cell->len, &r->row[column]) != INGEST_NUMBER_OK) {
        return number_error(r, line, column, cell, err);
    }
    return 0;
}

static int width_error(const struct csv_reader *r, int64_t line, int64_t cells, struct err *err)
{
    return ingest_line_error(err, ERR_INVALID, line, "%lld cells, expected %lld as in line %lld.",
                             (long long)cells, (long long)r->width, (long long)r->held[0].line);
}

static bool is_text(const struct held_cell *cell)
{
    double ignored;
    return cell->len > 0 &&
           ingest_number_read(cell->text, cell->len, &ignored) == INGEST_NUMBER_TEXT;
}

/* The rule of ingest_formats.h. */
static bool is_header(const struct held_row *first, const struct held_row *second)
{
    bool all_text = true;
    for (int64_t j = 0; j < first->count; j++) {
        bool text = is_text(&first->cell[j]);
        all_text = all_text && (text || first->cell[j].len == 0);
        bool number_below = second != NULL && second->cell[j].len > 0 && !is_text(&second->cell[j]);
        if (text && number_below) {
            return true;
        }
    }
    return all_text;
}

/* As the upload says, where it does. */
static bool choose_header(const struct csv_reader *r, const struct held_row *second)
{
    switch (r->t->options->header) {
    case INGEST_HEADER_PRESENT:
        return true;
    case INGEST_HEADER_ABSENT:
        return false;
    default:
        return is_header(&r->held[0], second);
    }
}

/* The names, from the first row where it is a header. */
static int make_names(const struct csv_reader *r, char **names, struct err *err)
{
    if (!r->header) {
        return ingest_names_number(names, "column", 0, r->width, err);
    }
    const struct held_row *first = &r->held[0];
    for (int64_t j = 0; j < r->width; j++) {
        const struct held_cell *cell = &first->cell[j];
        const char *fault = cell->len == 0 ? NULL : ingest_name_fault(cell->text, cell->len);
        if (fault != NULL) {
            char show[INGEST_SHOW_SIZE];
            return cell_error(r, cell->line, j, ERR_INVALID, err, "the name %s %s.",
                              ingest_show(cell->text, cell->len, show), fault);
        }
        int status = 0;
        if (cell->len == 0) {
            status = ingest_names_number(names + j, "column", j, 1, err);
        } else if ((names[j] = mem_strdup(cell->text)) == NULL) {
            status = err_no_memory(err);
        }
        if (status < 0) {
            return status;
        }
    }
    int64_t a = 0;
    int64_t b = 0;
    int same = ingest_names_unique(names, r->width, &a, &b, err);
    if (same > 0) {
        char show[INGEST_SHOW_SIZE];
        same = cell_error(r, first->cell[b].line, b, ERR_INVALID, err,
                          "column %lld has the name %s as well.", (long long)a + 1,
                          ingest_show(names[b], strlen(names[b]), show));
    }
    return same;
}

/* "2,5" among semicolons or tabs: a number to its writer, and a class label if nobody objects. */
static bool has_decimal_comma(struct csv_reader *r, const struct held_cell *cell)
{
    const char *comma = memchr(cell->text, ',', cell->len);
    char copy[64];
    if (csv_get_delim(&r->parser) == ',' || comma == NULL || cell->len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, cell->text, cell->len);
    copy[comma - cell->text] = '.';
    double ignored;
    return ingest_number_read(copy, cell->len, &ignored) == INGEST_NUMBER_OK;
}

/* Makes a column one of text where the first data row says so and the options allow it. */
static int choose_kind(struct csv_reader *r, int64_t column, const struct held_cell *cell,
                       struct err *err)
{
    struct ingest_table *t = r->t;
    if (t->is_ignored[column] || !is_text(cell)) {
        return 0;
    }
    char show[INGEST_SHOW_SIZE];
    ingest_show(cell->text, cell->len, show);
    if (has_decimal_comma(r, cell)) {
        return cell_error(r, cell->line, column, ERR_INVALID, err,
                          "%s has a decimal comma; numbers take a point.", show);
    }
    if (!t->is_target[column] && !t->options->one_hot) {
        return cell_error(r, cell->line, column, ERR_INVALID, err,
                          "%s is not a number; " INGEST_LEAVE_OUT
                          ", one_hot=true (krr: --one-hot) turns columns of text into 0/1 columns.",
                          show);
    }
    if (t->is_target[column] && (t->targets > 1 || t->options->task == TASK_REGRESSION)) {
        return cell_error(
            r, cell->line, column, ERR_INVALID, err,
            "%s is not a number; only the one target of a classification may be text.", show);
    }
    return ingest_table_make_text(t, column, err);
}

static int replay(struct csv_reader *r, const struct held_row *row, struct err *err)
{
    for (int64_t j = 0; j < r->width; j++) {
        int status = read_cell(r, row->cell[j].line, j, &row->cell[j], err);
        if (status < 0) {
            return status;
        }
    }
    return ingest_table_rows(r->t, r->row, 1, err);
}

/* One text above a number makes a header, and so does a mark of what is missing in the first row of
 * a table that has none. Fractions are no names, whereas columns are often numbered. */
static int warn_header(const struct csv_reader *r, struct err *err)
{
    const bool guessed = r->header && r->t->options->header == INGEST_HEADER_AUTO;
    for (int64_t j = 0; guessed && j < r->width; j++) {
        const struct held_cell *cell = &r->held[0].cell[j];
        double ignored;
        if (memchr(cell->text, '.', cell->len) != NULL &&
            ingest_number_read(cell->text, cell->len, &ignored) == INGEST_NUMBER_OK) {
            char show[INGEST_SHOW_SIZE];
            return ingest_table_warn(r->t, err,
                                     "The first row was taken for the names of the columns, %s "
                                     "among them. If it holds data, give the table a header.",
                                     ingest_show(cell->text, cell->len, show));
        }
    }
    return 0;
}

/* The first one or two rows are there: decides names, targets and kinds, and reads those rows. */
static int begin(struct csv_reader *r, struct err *err)
{
    const struct held_row *second = r->held_rows > 1 ? &r->held[1] : NULL;
    r->width = r->held[0].count;
    if (second != NULL && second->count != r->width) {
        return width_error(r, second->line, second->count, err);
    }
    r->header = choose_header(r, second);
    char **names = mem_zarray((size_t)r->width, sizeof(*names));
    r->row = mem_array((size_t)r->width, sizeof(*r->row));
    if (names == NULL || r->row == NULL) {
        mem_free(names);
        return err_no_memory(err);
    }
    int status = make_names(r, names, err);
    if (status < 0) {
        names_free(names, r->width);
        return status;
    }
    status = ingest_table_begin(r->t, names, r->width, 1, DTYPE_F64, err);
    status = status < 0 ? status : warn_header(r, err);
    if (status < 0) {
        return status;
    }
    r->begun = true;
    int first_data = r->header ? 1 : 0;
    for (int64_t j = 0; first_data < r->held_rows && j < r->width; j++) {
        status = choose_kind(r, j, &r->held[first_data].cell[j], err);
        if (status < 0) {
            return status;
        }
    }
    for (int i = first_data; status == 0 && i < r->held_rows; i++) {
        status = replay(r, &r->held[i], err);
    }
    return status;
}

static int hold_cell(struct csv_reader *r, const struct held_cell *cell, struct err *err)
{
    struct held_row *row = &r->held[r->held_rows];
    int64_t limit = ingest_max_columns(r->t->options);
    if (row->count >= limit) {
        return ingest_line_error(err, ERR_TOO_LARGE, r->record_line,
                                 "the row has more than the limit of %lld columns (--max-columns).",
                                 (long long)limit);
    }
    if (row->count == row->capacity) {
        int64_t capacity = row->capacity == 0 ? 16 : 2 * row->capacity;
        struct held_cell *larger = mem_regrow(row->cell, (size_t)capacity, sizeof(*larger));
        if (larger == NULL) {
            return err_no_memory(err);
        }
        row->cell = larger;
        row->capacity = capacity;
    }
    char *text = mem_strndup(cell->text, cell->len);
    if (text == NULL) {
        return err_no_memory(err);
    }
    row->cell[row->count++] =
        (struct held_cell){.text = text, .len = cell->len, .line = cell->line};
    row->line = r->record_line;
    return 0;
}

/* libcsv: a cell is complete. The byte behind it is NUL. */
static void on_cell(void *data, size_t len, void *user)
{
    struct csv_reader *r = user;
    if (r->status < 0) {
        return;
    }
    struct held_cell cell = {.text = data, .len = len, .line = r->cell_line};
    cell.text = (char *)ingest_trim(data, &cell.len);
    if (!r->begun) {
        r->status = hold_cell(r, &cell, &r->err);
    } else if (r->cells < r->width && r->cell_status == 0) {
        r->cell_status = read_cell(r, cell.line, r->cells, &cell, &r->cell_err);
    }
    r->cells++;
    r->cell_line = r->lines.line;
}

static int end_row(struct csv_reader *r)
{
    if (!r->begun) {
        r->held_rows++;
        return r->held_rows < 2 ? 0 : begin(r, &r->err);
    }
    if (r->cells != r->width) {
        return width_error(r, r->record_line, r->cells, &r->err);
    }
    if (r->cell_status < 0) {
        r->err = r->cell_err;
        return r->cell_status;
    }
    return ingest_table_rows(r->t, r->row, 1, &r->err);
}

/* libcsv: a row is complete. */
static void on_row(int terminator, void *user)
{
    (void)terminator;
    struct csv_reader *r = user;
    if (r->status == 0) {
        r->status = end_row(r);
    }
    r->cells = 0;
    r->row_ended = true;
}

static void *parser_regrow(void *p, size_t size)
{
    return mem_regrow(p, size, 1);
}

static void parser_free(void *p)
{
    mem_free(p);
}

/* A quoted cell may hold the end of the first line, and the first delimiter stand in another;
 * libcsv looks for none within quotes. True: it is known, or the row has none. */
static bool find_delimiter(struct csv_reader *r, const char *line, size_t len, bool *quoted)
{
    const char delimiter = ingest_delimiter(line, len, quoted);
    if (delimiter != '\0') {
        csv_set_delim(&r->parser, (unsigned char)delimiter);
    }
    return delimiter != '\0' || !*quoted;
}

static int parse_error(struct csv_reader *r, struct err *err)
{
    if (csv_error(&r->parser) != CSV_EPARSE) {
        return err_no_memory(err);
    }
    return ingest_line_error(err, ERR_PARSE, r->lines.line,
                             "a quotation mark stands within a cell; a cell with one is quoted as "
                             "a whole, and the mark doubled.");
}

static bool is_blank(const char *line, size_t len, char delimiter)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] == delimiter || strchr(" \t\r\n", line[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Feeds one physical line. `open`: a quoted cell goes on from the line before. */
static int feed(struct csv_reader *r, const char *line, size_t len, bool open, struct err *err)
{
    if (!open) {
        r->record_line = r->lines.line;
        r->cell_line = r->lines.line;
        r->record_bytes = 0;
        r->cell_status = 0;
    }
    r->record_bytes += len;
    if (r->record_bytes > RECORD_MAX) {
        return ingest_line_error(err, ERR_TOO_LARGE, r->record_line,
                                 "the row that begins here has more than %zu bytes.", RECORD_MAX);
    }
    r->row_ended = false;
    if (csv_parse(&r->parser, line, len, on_cell, on_row, r) != len) {
        return parse_error(r, err);
    }
    if (r->status < 0 && err != NULL) {
        *err = r->err;
    }
    return r->status;
}

static int feed_all(struct csv_reader *r, struct err *err)
{
    char *line = NULL;
    size_t len = 0;
    bool open = false;
    bool found = false; /* the delimiter */
    bool quoted = false;
    int status;
    while ((status = ingest_lines_next(&r->lines, &line, &len, err)) == 0) {
        if (r->lines.line == 1 && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
            line += 3;
            len -= 3;
        }
        if (!open && is_blank(line, len, (char)csv_get_delim(&r->parser))) {
            continue;
        }
        found = found || find_delimiter(r, line, len, &quoted);
        status = feed(r, line, len, open, err);
        if (status < 0) {
            return status;
        }
        open = !r->row_ended;
    }
    return status < 0 ? status : 0;
}

/* The last row may lack its line end, and a file may have fewer than two rows. */
static int end_of_file(struct csv_reader *r, struct err *err)
{
    if (csv_fini(&r->parser, on_cell, on_row, r) != 0) {
        return ingest_line_error(err, ERR_PARSE, r->cell_line,
                                 "the quoted cell that begins here is never closed.");
    }
    if (r->status == 0 && !r->begun && r->held_rows > 0) {
        r->status = begin(r, &r->err);
    }
    if (r->status < 0 && err != NULL) {
        *err = r->err;
    }
    return r->status;
}

int ingest_read_csv(const struct ingest_input *in, struct ingest_table *t, struct err *err)
{
    cleanup_reader struct csv_reader r = {.t = t};
    if (csv_init(&r.parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL) != 0) {
        return err_set(err, ERR_INTERNAL, "The CSV reader could not be started.");
    }
    csv_set_realloc_func(&r.parser, parser_regrow);
    csv_set_free_func(&r.parser, parser_free);
    csv_set_blk_size(&r.parser, CELL_STEP);
    int status = ingest_lines_init(&r.lines, in->fd, err);
    if (status == 0) {
        status = feed_all(&r, err);
    }
    return status < 0 ? status : end_of_file(&r, err);
}
