#include <csv.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "ingest/ingest_csv.h"
#include "ingest/ingest_formats.h"
#include "ingest/ingest_lines.h"
#include "ingest/ingest_text.h"
#include "wire/names.h"

/* A row, quoted line ends included, is held to the same limit as a line. */
#define RECORD_MAX INGEST_LINE_MAX

/* Bytes by which libcsv's buffer of one cell grows; its own default makes long cells slow. */
#define CELL_STEP ((size_t)64 << 10)

struct csv_reader {
    struct csv_table c;
    struct ingest_lines lines;
    struct csv_parser parser;

    int64_t record_line, cell_line; /* where the current row and cell begin */
    size_t record_bytes;
    int64_t cells;  /* of the current row so far */
    bool row_ended; /* within the line just fed */

    int cell_status; /* the current row's first bad cell; a wrong number of cells goes first */
    struct err cell_err;
    int status; /* what ended the reading; < 0: every later callback does nothing */
    struct err err;
};

static void held_deinit(struct csv_row *row)
{
    for (int64_t j = 0; j < row->count; j++) {
        mem_free(row->cell[j].text);
    }
    mem_free(row->cell);
    *row = (struct csv_row){.cell = NULL};
}

static void reader_deinit(struct csv_reader *r)
{
    csv_free(&r->parser);
    ingest_lines_deinit(&r->lines);
    held_deinit(&r->c.held[0]);
    held_deinit(&r->c.held[1]);
    r->c.row = mem_free(r->c.row);
}

#define cleanup_reader __attribute__((cleanup(reader_deinit)))

static int width_error(const struct csv_reader *r, int64_t line, int64_t cells, struct err *err)
{
    return ingest_line_error(err, ERR_INVALID, line, "%lld cells, expected %lld as in line %lld.",
                             (long long)cells, (long long)r->c.width, (long long)r->c.held[0].line);
}

static int replay(struct csv_reader *r, const struct csv_row *row, struct err *err)
{
    for (int64_t j = 0; j < r->c.width; j++) {
        int status = csv_read_cell(&r->c, row->cell[j].line, j, &row->cell[j], err);
        if (status < 0) {
            return status;
        }
    }
    return r->c.kinds->looks ? 0 : ingest_table_rows(r->c.t, r->c.row, 1, err);
}

/* The first one or two rows are there: decides names, targets and kinds, and reads those rows. */
static int begin(struct csv_reader *r, struct err *err)
{
    const struct csv_row *second = r->c.held_rows > 1 ? &r->c.held[1] : NULL;
    r->c.width = r->c.held[0].count;
    if (second != NULL && second->count != r->c.width) {
        return width_error(r, second->line, second->count, err);
    }
    r->c.header = csv_choose_header(&r->c, second);
    int status = csv_kinds_init(r->c.kinds, r->c.width, err);
    if (status < 0) {
        return status;
    }
    char **names = mem_zarray((size_t)r->c.width, sizeof(*names));
    r->c.row = mem_array((size_t)r->c.width, sizeof(*r->c.row));
    if (names == NULL || r->c.row == NULL) {
        mem_free(names);
        return err_no_memory(err);
    }
    status = csv_make_names(&r->c, names, err);
    if (status < 0) {
        names_free(names, r->c.width);
        return status;
    }
    status = ingest_table_begin(r->c.t, names, r->c.width, 1, DTYPE_F64, err);
    if (status < 0) {
        return status;
    }
    r->c.begun = true;
    int first_data = r->c.header ? 1 : 0;
    for (int64_t j = 0; first_data < r->c.held_rows && j < r->c.width; j++) {
        status = csv_choose_kind(&r->c, j, &r->c.held[first_data].cell[j], err);
        if (status < 0) {
            return status;
        }
    }
    for (int i = first_data; status == 0 && i < r->c.held_rows; i++) {
        status = replay(r, &r->c.held[i], err);
    }
    return status;
}

static int hold_cell(struct csv_reader *r, const struct csv_cell *cell, struct err *err)
{
    struct csv_row *row = &r->c.held[r->c.held_rows];
    int64_t limit = ingest_max_columns(r->c.t->options);
    if (row->count >= limit) {
        return ingest_line_error(err, ERR_TOO_LARGE, r->record_line,
                                 "the row has more than the limit of %lld columns (--max-columns).",
                                 (long long)limit);
    }
    if (row->count == row->capacity) {
        int64_t capacity = row->capacity == 0 ? 16 : 2 * row->capacity;
        struct csv_cell *larger = mem_regrow(row->cell, (size_t)capacity, sizeof(*larger));
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
    row->cell[row->count++] = (struct csv_cell){.text = text, .len = cell->len, .line = cell->line};
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
    struct csv_cell cell = {.text = data, .len = len, .line = r->cell_line};
    cell.text = (char *)ingest_trim(data, &cell.len);
    if (!r->c.begun) {
        r->status = hold_cell(r, &cell, &r->err);
    } else if (r->cells < r->c.width && r->cell_status == 0) {
        r->cell_status = csv_read_cell(&r->c, cell.line, r->cells, &cell, &r->cell_err);
    }
    r->cells++;
    r->cell_line = r->lines.line;
}

static int end_row(struct csv_reader *r)
{
    if (!r->c.begun) {
        r->c.held_rows++;
        return r->c.held_rows < 2 ? 0 : begin(r, &r->err);
    }
    if (r->cells != r->c.width) {
        return width_error(r, r->record_line, r->cells, &r->err);
    }
    if (r->cell_status < 0) {
        r->err = r->cell_err;
        return r->cell_status;
    }
    return r->c.kinds->looks ? 0 : ingest_table_rows(r->c.t, r->c.row, 1, &r->err);
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
    const char delimiter = ingest_delimiter(line, len, !r->c.t->options->decimal_comma, quoted);
    if (delimiter != '\0') {
        csv_set_delim(&r->parser, (unsigned char)delimiter);
        r->c.delimiter = delimiter;
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
        const size_t marks = r->lines.line == 1 ? utf8_marks(line, len) : 0;
        line += marks;
        len -= marks;
        if (!open && is_blank(line, len, r->c.delimiter)) {
            continue;
        }
        status = r->lines.line == 1 ? ingest_refuse_separator(line, len, err) : 0;
        if (status < 0) {
            return status;
        }
        found = found || find_delimiter(r, line, len, &quoted);
        status = ingest_wanted(r->c.t->options, err);
        status = status < 0 ? status : feed(r, line, len, open, err);
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
    if (r->status == 0 && !r->c.begun && r->c.held_rows > 0) {
        r->status = begin(r, &r->err);
    }
    if (r->status == 0) {
        r->status = csv_kinds_check(r->c.kinds, &r->err);
    }
    if (r->status == 0) {
        r->status = csv_warn_header(&r->c, &r->err);
    }
    if (r->status == 0) {
        r->status = csv_warn_row_numbers(&r->c, &r->err);
    }
    if (r->status < 0 && err != NULL) {
        *err = r->err;
    }
    return r->status;
}

static int read_once(const struct ingest_input *in, struct ingest_table *t, struct csv_kinds *kinds,
                     struct err *err)
{
    const char usual = t->options->decimal_comma ? ';' : ',';
    cleanup_reader struct csv_reader r = {.c = {.t = t, .delimiter = usual, .kinds = kinds}};
    if (csv_init(&r.parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL) != 0) {
        return err_set(err, ERR_INTERNAL, "The CSV reader could not be started.");
    }
    csv_set_delim(&r.parser, (unsigned char)usual);
    csv_set_realloc_func(&r.parser, parser_regrow);
    csv_set_free_func(&r.parser, parser_free);
    csv_set_blk_size(&r.parser, CELL_STEP);
    int status = ingest_lines_init(&r.lines, in->fd, err);
    if (status == 0) {
        status = feed_all(&r, err);
    }
    return status < 0 ? status : end_of_file(&r, err);
}

/* Once, unless there is text below numbers: texts keep what was written, which the numbers before
 * it no longer tell. */
int ingest_read_csv(const struct ingest_input *in, struct ingest_table *t, struct err *err)
{
    struct csv_kinds kinds = {.column = NULL};
    int status = read_once(in, t, &kinds, err);
    if (status == 0 && kinds.looks) {
        kinds.known = true;
        kinds.looks = false;
        ingest_table_reset(t);
        status = read_once(in, t, &kinds, err);
    }
    csv_kinds_deinit(&kinds);
    return status;
}
