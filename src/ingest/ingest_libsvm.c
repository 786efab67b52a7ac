#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_formats.h"
#include "ingest/ingest_lines.h"
#include "ingest/ingest_number.h"
#include "ingest/ingest_text.h"
#include "wire/missing.h"
#include "wire/names.h"

/*
 * The file is read twice by the same code. The first time `row` is NULL: everything is checked,
 * rows and the largest index are found. The second time rows are filled and handed on.
 */
struct libsvm_reader {
    struct ingest_table *t;
    struct ingest_lines lines;
    int64_t max_index; /* features */
    int64_t rows;
    double *row; /* [max_index + 1], the target last; or NULL */
};

static void reader_deinit(struct libsvm_reader *r)
{
    ingest_lines_deinit(&r->lines);
    r->row = mem_free(r->row);
}

#define cleanup_reader __attribute__((cleanup(reader_deinit)))

/* A word of a line; the label is item 1. */
struct item {
    const char *text;
    size_t len;
    int64_t number;
};

/* Line 17, item 3 ("2:abc"): … at #/line/17/column/3. */
static int item_error(const struct libsvm_reader *r, const struct item *item, enum err_code code,
                      struct err *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static int item_error(const struct libsvm_reader *r, const struct item *item, enum err_code code,
                      struct err *err, const char *fmt, ...)
{
    char what[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    char pointer[96];
    snprintf(pointer, sizeof(pointer), "#/line/%lld/column/%lld", (long long)r->lines.line,
             (long long)item->number);
    char show[INGEST_SHOW_SIZE];
    return err_at(err, code, pointer, "Line %lld, item %lld (%s): %s", (long long)r->lines.line,
                  (long long)item->number, ingest_show(item->text, item->len, show), what);
}

/* The next word at *p before end; false at the end of the line. */
static bool next_item(const char **p, const char *end, struct item *item)
{
    const char *q = *p;
    while (q < end && (*q == ' ' || *q == '\t' || *q == '\r' || *q == '\n')) {
        q++;
    }
    item->text = q;
    while (q < end && *q != ' ' && *q != '\t' && *q != '\r' && *q != '\n') {
        q++;
    }
    item->len = (size_t)(q - item->text);
    item->number++;
    *p = q;
    return item->len > 0;
}

static int read_number(const struct libsvm_reader *r, const struct item *item, bool is_label,
                       const char *text, size_t len, double *ret, struct err *err)
{
    if (missing_mark(text, len)) {
        *ret = NAN;
        return r->t->options->missing != INGEST_MISSING_REFUSE
                   ? 0
                   : item_error(r, item, ERR_INVALID, err, "the value is missing; %s.",
                                is_label ? INGEST_TAKE_TARGETS : INGEST_TAKE_MISSING);
    }
    switch (ingest_number_read(text, len, ret)) {
    case INGEST_NUMBER_OK:
        return 0;
    case INGEST_NUMBER_NOT_FINITE:
        return item_error(r, item, ERR_INVALID, err, "the value is not finite.");
    case INGEST_NUMBER_HEX:
        return item_error(r, item, ERR_INVALID, err, "the value is hexadecimal, not decimal.");
    case INGEST_NUMBER_TEXT:
        break;
    }
    return item_error(r, item, ERR_INVALID, err, "the value is not a number.");
}

static int read_label(const struct libsvm_reader *r, const struct item *item, double *ret,
                      struct err *err)
{
    if (memchr(item->text, ',', item->len) != NULL) {
        return item_error(r, item, ERR_UNSUPPORTED, err,
                          "several labels in a row are not supported.");
    }
    if (memchr(item->text, ':', item->len) != NULL) {
        return item_error(r, item, ERR_INVALID, err, "the line begins without a label.");
    }
    return read_number(r, item, true, item->text, item->len, ret, err);
}

/* The index before the colon, checked against its limit and the one before it. */
static int read_index(const struct libsvm_reader *r, const struct item *item, size_t len,
                      int64_t last, int64_t *ret, struct err *err)
{
    int64_t limit = ingest_max_columns(r->t->options) - 1;
    int64_t index = 0;
    for (size_t i = 0; i < len; i++) {
        if (item->text[i] < '0' || item->text[i] > '9') {
            return item_error(r, item, ERR_INVALID, err, "the index is not a whole number.");
        }
        index = index <= limit ? index * 10 + (item->text[i] - '0') : index;
    }
    if (len == 0) {
        return item_error(r, item, ERR_INVALID, err, "the index is missing.");
    }
    if (index == 0) {
        return item_error(r, item, ERR_INVALID, err, "indices begin at 1.");
    }
    if (index > limit) {
        return item_error(r, item, ERR_TOO_LARGE, err,
                          "the index is above the limit of %lld (--max-columns).",
                          (long long)limit);
    }
    if (index <= last) {
        return item_error(r, item, ERR_INVALID, err, "indices ascend, but %lld comes before it.",
                          (long long)last);
    }
    *ret = index;
    return 0;
}

static int read_pair(const struct libsvm_reader *r, const struct item *item, int64_t *last,
                     double *ret, struct err *err)
{
    const char *colon = memchr(item->text, ':', item->len);
    if (colon == NULL) {
        return item_error(r, item, ERR_INVALID, err, "expected index:value.");
    }
    size_t len = (size_t)(colon - item->text);
    if (len == 3 && memcmp(item->text, "qid", 3) == 0) {
        return item_error(r, item, ERR_UNSUPPORTED, err, "query ids are not supported.");
    }
    int status = read_index(r, item, len, *last, last, err);
    return status < 0 ? status
                      : read_number(r, item, false, colon + 1, item->len - len - 1, ret, err);
}

static int read_line(struct libsvm_reader *r, const char *line, size_t len, struct err *err)
{
    const char *comment = memchr(line, '#', len);
    const char *end = comment == NULL ? line + len : comment;
    struct item item = {.number = 0};
    if (!next_item(&line, end, &item)) {
        return 0;
    }
    double label = 0;
    int status = read_label(r, &item, &label, err);
    if (r->row != NULL) {
        memset(r->row, 0, (size_t)r->max_index * sizeof(*r->row));
        r->row[r->max_index] = label;
    }
    int64_t index = 0;
    while (status == 0 && next_item(&line, end, &item)) {
        double value = 0;
        status = read_pair(r, &item, &index, &value, err);
        if (status == 0 && r->row != NULL) {
            r->row[index - 1] = value;
        }
    }
    if (status < 0) {
        return status;
    }
    r->rows++;
    if (r->row != NULL) {
        return ingest_table_rows(r->t, r->row, 1, err);
    }
    r->max_index = index > r->max_index ? index : r->max_index;
    return 0;
}

static int read_lines(struct libsvm_reader *r, struct err *err)
{
    char *line = NULL;
    size_t len = 0;
    int status;
    while ((status = ingest_lines_next(&r->lines, &line, &len, err)) == 0) {
        status = ingest_wanted(r->t->options, err);
        status = status < 0 ? status : read_line(r, line, len, err);
        if (status < 0) {
            return status;
        }
    }
    return status < 0 ? status : 0;
}

/* A sparse file may be tiny and its matrix huge. */
static int check_size(const struct libsvm_reader *r, struct err *err)
{
    if (r->rows > 0 && r->max_index == 0) {
        return err_at(err, ERR_INVALID, "#/rows", "No line of the file has a feature.");
    }
    double bytes = (double)r->rows * (double)(r->max_index + 1) * (double)sizeof(double);
    if (bytes > (double)r->t->options->max_unpacked_bytes) {
        return err_set(err, ERR_TOO_LARGE,
                       "The file's %lld rows and %lld features make a dense matrix of %.0f bytes, "
                       "more than the limit of %lld (--max-unpacked-bytes).",
                       (long long)r->rows, (long long)r->max_index, bytes,
                       (long long)r->t->options->max_unpacked_bytes);
    }
    return 0;
}

static int begin(struct libsvm_reader *r, struct err *err)
{
    int64_t columns = r->max_index + 1;
    char **names = mem_zarray((size_t)columns, sizeof(*names));
    r->row = mem_array((size_t)columns, sizeof(*r->row));
    if (names == NULL || r->row == NULL) {
        mem_free(names);
        return err_no_memory(err);
    }
    int status = ingest_names_number(names, "x", 1, r->max_index, err);
    if (status == 0 && (names[r->max_index] = mem_strdup("y")) == NULL) {
        status = err_no_memory(err);
    }
    if (status < 0) {
        names_free(names, columns);
        return status;
    }
    status = ingest_table_begin(r->t, names, columns, 1, DTYPE_F64, err);
    return status < 0 ? status : ingest_table_expect(r->t, r->rows, err);
}

int ingest_read_libsvm(const struct ingest_input *in, struct ingest_table *t, struct err *err)
{
    cleanup_reader struct libsvm_reader r = {.t = t};
    int status = ingest_lines_init(&r.lines, in->fd, err);
    status = status < 0 ? status : read_lines(&r, err);
    status = status < 0 ? status : check_size(&r, err);
    if (status < 0 || r.rows == 0) {
        return status;
    }
    status = begin(&r, err);
    status = status < 0 ? status : ingest_lines_rewind(&r.lines, err);
    return status < 0 ? status : read_lines(&r, err);
}
