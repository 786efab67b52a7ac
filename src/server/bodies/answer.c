#include "server/bodies/answer.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Copies to *at, which moves behind it; NULL stays NULL. */
static const double *keep(const double *numbers, int64_t count, double **at)
{
    double *copy = numbers ? *at : NULL;
    if (copy) {
        memcpy(copy, numbers, (size_t)count * sizeof *copy);
        *at += count;
    }
    return copy;
}

int answer_keep(const struct serving_answer *a, struct answer_copy *ret, struct err *err)
{
    double *numbers = mem_array((size_t)answer_size(a), sizeof *numbers), *at = numbers;
    if (!numbers) {
        return err_no_memory(err);
    }
    ret->numbers = numbers;
    ret->answer = *a;
    ret->answer.model = served_hold(a->model);
    ret->answer.values = keep(a->values, a->rows * a->model->outputs, &at);
    ret->answer.scores = keep(a->scores, a->rows * a->model->classes, &at);
    ret->answer.variances = keep(a->variances, a->rows * a->model->variances, &at);
    return 0;
}

void answer_copy_deinit(struct answer_copy *c)
{
    c->numbers = mem_free(c->numbers);
    if (c->answer.model) {
        c->answer.model = served_release(c->answer.model);
    }
}

static bool are_finite(const double *values, int64_t n)
{
    bool good = true;
    for (int64_t i = 0; values && i < n; i++) {
        good &= __builtin_isfinite(values[i]) != 0;
    }
    return good;
}

int answer_check(const struct serving_answer *a, struct err *err)
{
    const char *what = NULL;
    if (!are_finite(a->values, a->rows * a->model->outputs) ||
        !are_finite(a->scores, a->rows * a->model->classes)) {
        what = "prediction";
    } else if (!are_finite(a->variances, a->rows * a->model->variances)) {
        what = "variance";
    }
    return what == NULL ? 0
                        : err_at(err, ERR_INVALID, "#/instances",
                                 "A %s is not a finite number: the features, or the targets that "
                                 "the model was trained on, are too large for it.",
                                 what);
}

int64_t answer_size(const struct serving_answer *a)
{
    const struct served_model *m = a->model;
    return a->rows *
           (m->outputs + (a->scores ? m->classes : 0) + (a->variances ? m->variances : 0));
}

static const char *label_of(const struct serving_answer *a, int64_t row)
{
    const int64_t k = (int64_t)a->values[row];
    return k >= 0 && k < a->model->classes ? a->model->labels[k] : "";
}

/* ---- JSON ---- */

/* An array a row. */
static void write_rows(const double *values, int64_t rows, int64_t columns, struct buf *b)
{
    for (int64_t i = 0; i < rows; i++) {
        buf_str(b, i > 0 ? ",[" : "[");
        buf_json_numbers(b, values + i * columns, columns);
        buf_char(b, ']');
    }
}

/* What a regression has of each row: a number, an array when there are several targets. */
static void write_targets(const struct serving_answer *a, const double *values, struct buf *b)
{
    if (a->model->outputs > 1) {
        write_rows(values, a->rows, a->model->outputs, b);
    } else {
        buf_json_numbers(b, values, a->rows);
    }
}

static void write_labels(const struct serving_answer *a, struct buf *b)
{
    for (int64_t i = 0; i < a->rows; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        buf_json_string(b, label_of(a, i));
    }
}

static void write_scores(const struct serving_answer *a, struct buf *b)
{
    buf_str(b, ",\"scores\":[");
    write_rows(a->scores, a->rows, a->model->classes, b);
    buf_char(b, ']');
}

static void write_variances(const struct serving_answer *a, struct buf *b)
{
    buf_str(b, ",\"variances\":[");
    if (a->model->classes > 0) {
        write_rows(a->variances, a->rows, a->model->classes, b);
    } else {
        write_targets(a, a->variances, b);
    }
    buf_char(b, ']');
}

void answer_write_json(const struct serving_answer *a, int64_t unknown, struct buf *ret)
{
    buf_str(ret, a->model->head_text);
    buf_str(ret, ",\"predictions\":[");
    if (a->model->classes > 0) {
        write_labels(a, ret);
    } else {
        write_targets(a, a->values, ret);
    }
    buf_char(ret, ']');
    if (a->model->classes > 0) {
        buf_str(ret, ",\"classes\":");
        buf_str(ret, a->model->labels_text);
    }
    if (a->scores) {
        write_scores(a, ret);
    }
    if (a->variances) {
        write_variances(a, ret);
    }
    if (unknown >= 0) {
        buf_printf(ret, ",\"unknown_values\":%lld", (long long)unknown);
    }
    buf_char(ret, '}');
}

/* ---- CSV ---- */

static void write_cell(const char *text, struct buf *b)
{
    if (text[0] != '\0' && !strpbrk(text, ",;\t\"\r\n") && text[0] != ' ') {
        buf_str(b, text);
        return;
    }
    buf_char(b, '"');
    for (const char *quote; (quote = strchr(text, '"')); text = quote + 1) {
        buf_add(b, text, (size_t)(quote - text));
        buf_str(b, "\"\"");
    }
    buf_str(b, text);
    buf_char(b, '"');
}

static void write_names(const char *const *names, int64_t count, char between, struct buf *b)
{
    for (int64_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_char(b, between);
        }
        write_cell(names[i], b);
    }
}

/* Whether one of the names is another one and the suffix. */
static bool is_taken(const char *const *names, int64_t count, const char *suffix)
{
    const size_t len = strlen(suffix);
    for (int64_t i = 0; i < count; i++) {
        const size_t size = strlen(names[i]), stem = size > len ? size - len : 0;
        bool ends = stem > 0 && strcmp(names[i] + stem, suffix) == 0;
        for (int64_t j = 0; ends && j < count; j++) {
            if (strlen(names[j]) == stem && memcmp(names[j], names[i], stem) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void write_variance_names(const char *const *names, int64_t count, char between,
                                 struct buf *b)
{
    char suffix[32] = "_variance";
    for (int k = 2; is_taken(names, count, suffix); k++) {
        snprintf(suffix, sizeof suffix, "_variance%d", k);
    }
    for (int64_t i = 0; i < count; i++) {
        cleanup_buf struct buf name = BUF_INIT;
        buf_str(&name, names[i]);
        buf_str(&name, suffix);
        buf_char(b, between);
        write_cell(name.failed ? "" : name.data, b);
        b->failed = b->failed || name.failed;
    }
}

static void write_header(const struct serving_answer *a, char between, struct buf *b)
{
    if (a->model->classes == 0) {
        write_names(a->model->targets, a->model->outputs, between, b);
    } else {
        buf_str(b, "prediction");
    }
    if (a->scores) {
        buf_char(b, between);
        write_names(a->model->labels, a->model->classes, between, b);
    }
    if (a->variances) {
        const bool classes = a->model->classes > 0;
        write_variance_names(classes ? a->model->labels : a->model->targets, a->model->variances,
                             between, b);
    }
    buf_str(b, "\r\n");
}

/* As JSON has them; or with commas in place of points, and semicolons in place of commas. */
static void write_numbers(const double *values, int64_t count, bool comma, struct buf *b)
{
    const size_t begin = b->len;
    buf_json_numbers(b, values, count);
    for (size_t i = begin; comma && !b->failed && i < b->len; i++) {
        b->data[i] = b->data[i] == ',' ? ';' : b->data[i] == '.' ? ',' : b->data[i];
    }
}

void answer_write_csv(const struct serving_answer *a, bool header, bool decimal_comma,
                      struct buf *ret)
{
    const char between = decimal_comma ? ';' : ',';
    const int64_t outputs = a->model->outputs, classes = a->model->classes;
    if (header) {
        write_header(a, between, ret);
    }
    for (int64_t i = 0; i < a->rows; i++) {
        if (classes > 0) {
            write_cell(label_of(a, i), ret);
        } else {
            write_numbers(a->values + i * outputs, outputs, decimal_comma, ret);
        }
        if (a->scores) {
            buf_char(ret, between);
            write_numbers(a->scores + i * classes, classes, decimal_comma, ret);
        }
        if (a->variances) {
            buf_char(ret, between);
            write_numbers(a->variances + i * a->model->variances, a->model->variances,
                          decimal_comma, ret);
        }
        buf_str(ret, "\r\n");
    }
}

/* ---- NPY ---- */

/* Header of version 1.0; the data begins at a multiple of 64 bytes. */
static void write_npy_header(struct buf *b, const char *descr, int64_t rows, int64_t columns)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,", descr,
               (long long)rows);
    if (columns > 0) {
        buf_printf(&text, " %lld", (long long)columns);
    }
    buf_str(&text, "), }");
    while ((10 + text.len + 1) % 64 != 0 && !text.failed) {
        buf_char(&text, ' ');
    }
    buf_char(&text, '\n');
    const unsigned char lengths[2] = {(unsigned char)text.len, (unsigned char)(text.len >> 8)};
    buf_add(b, "\x93NUMPY\x01\x00", 8);
    buf_add(b, lengths, 2);
    buf_add(b, text.data ? text.data : "", text.len);
    b->failed = b->failed || text.failed;
}

static const char *float_descr(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "<f8" : ">f8";
}

/* columns 0: one dimension. */
static void write_floats(const double *values, int64_t rows, int64_t columns, struct buf *b)
{
    write_npy_header(b, float_descr(), rows, columns);
    buf_add(b, values, (size_t)(rows * (columns > 0 ? columns : 1)) * sizeof *values);
}

/* [rows, 2 columns]: what the variances belong to, and they. */
static void write_pairs(const struct serving_answer *a, struct buf *b)
{
    const int64_t columns = a->model->variances;
    const size_t size = (size_t)columns * sizeof(double);
    const double *values = a->scores ? a->scores : a->values;
    write_npy_header(b, float_descr(), a->rows, 2 * columns);
    for (int64_t i = 0; i < a->rows && !b->failed; i++) {
        buf_add(b, values + i * columns, size);
        buf_add(b, a->variances + i * columns, size);
    }
}

/* The characters of a text of UTF-8. */
static size_t count_characters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return count;
}

/* The character at *at, which moves behind it; labels are well-formed. */
static uint32_t take_character(const char **at)
{
    const unsigned char first = (unsigned char)**at;
    const size_t len = utf8_step(*at, strlen(*at));
    uint32_t c = len <= 1 ? first : first & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        c = c << 6 | ((unsigned char)(*at)[i] & 0x3Fu);
    }
    *at += len > 0 ? len : 1;
    return c;
}

/* NumPy's text type: UTF-32, every label as long as the longest, filled up with NUL. */
static void write_npy_labels(const struct serving_answer *a, struct buf *b)
{
    size_t width = 1;
    for (int64_t k = 0; k < a->model->classes; k++) {
        const size_t characters = count_characters(a->model->labels[k]);
        width = characters > width ? characters : width;
    }
    char descr[32];
    snprintf(descr, sizeof descr, "<U%zu", width);
    write_npy_header(b, descr, a->rows, 0);
    for (int64_t i = 0; i < a->rows && !b->failed; i++) {
        const char *label = label_of(a, i);
        for (size_t j = 0; j < width; j++) {
            const uint32_t c = htole32(*label != '\0' ? take_character(&label) : 0);
            buf_add(b, &c, sizeof c);
        }
    }
}

void answer_write_npy(const struct serving_answer *a, struct buf *ret)
{
    if (a->variances) {
        write_pairs(a, ret);
    } else if (a->scores) {
        write_floats(a->scores, a->rows, a->model->classes, ret);
    } else if (a->model->classes > 0) {
        write_npy_labels(a, ret);
    } else {
        write_floats(a->values, a->rows, a->model->outputs > 1 ? a->model->outputs : 0, ret);
    }
}
