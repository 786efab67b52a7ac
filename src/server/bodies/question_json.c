#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonread.h"
#include "base/mem.h"
#include "server/bodies/question_json.h"
#include "wire/field.h"

static void reading_deinit(struct reading *b)
{
    jsonread_free(b->r);
    rows_deinit(&b->rows);
    columns_deinit(&b->columns);
}

#define cleanup_reading __attribute__((cleanup(reading_deinit)))

/* ---- errors ---- */

int reading_bad_row(const struct reading *b, struct err *err, const char *what)
{
    char pointer[96];
    snprintf(pointer, sizeof pointer, "%s/%lld", b->at, (long long)b->rows.count);
    return err_at(err, ERR_INVALID, pointer, "%s", what);
}

static int wrong_width(const struct reading *b, int64_t have, struct err *err)
{
    char text[192], narrow[80] = "";
    const int64_t d = b->rows.model->d;
    if (!b->whole && rows_narrow(&b->rows) < d) {
        snprintf(narrow, sizeof narrow, ", or %lld without those that tell what is missing",
                 (long long)rows_narrow(&b->rows));
    }
    snprintf(text, sizeof text, "The row holds %s%lld numbers; the model takes %lld features%s.",
             have > d ? "more than " : "", (long long)(have > d ? d : have), (long long)d, narrow);
    return reading_bad_row(b, err, text);
}

void reading_key_pointer(const struct reading *b, bool in_row, const char *key, struct buf *ret)
{
    buf_str(ret, b->at);
    if (in_row) {
        buf_printf(ret, "/%lld", (long long)b->rows.count);
    }
    buf_json_pointer(ret, key);
}

/* "#/instances/3/2" in an array, "#/instances/3/city" by the name of a column. */
static void cell_pointer(const struct reading *b, const struct column *column, int64_t cell,
                         struct buf *ret)
{
    if (cell != READING_NAMED) {
        buf_printf(ret, "%s/%lld/%lld", b->at, (long long)b->rows.count, (long long)cell);
        return;
    }
    size_t len = 0;
    const char *text = column->kind == COLUMN_TEXT ? columns_text_name(&b->columns, column, &len)
                                                   : b->rows.model->features[column->at];
    cleanup_mem char *name = mem_strndup(text, len > 0 ? len : strlen(text));
    reading_key_pointer(b, true, name ? name : "", ret);
}

/* What stands in the place of a number: a token that is none, or text that is no JSON. */
static int bad_number(const struct reading *b, int token, const struct column *column, int64_t cell,
                      struct err *err)
{
    cleanup_buf struct buf pointer = BUF_INIT;
    cell_pointer(b, column, cell, &pointer);
    const char *at = pointer.failed ? b->at : pointer.data;
    if (token >= 0) {
        return err_at(err, ERR_INVALID, at, "Features are numbers.%s",
                      token == JSONREAD_NULL ? rows_lack_hint(&b->rows) : "");
    }
    if (err && err->pointer[0] == '\0') {
        snprintf(err->pointer, sizeof err->pointer, "%s", at);
    }
    return token;
}

/* ---- rows ---- */

/* Plain rows, as many as follow. */
static int read_plain(struct reading *b, struct err *err)
{
    const int64_t d = b->rows.model->d;
    int64_t room, taken;
    do {
        room = rows_room(&b->rows, jsonread_offset(b->r), err);
        taken = room > 0 ? jsonread_rows(b->r, b->rows.X + b->rows.count * d, d, room) : 0;
        b->rows.count += taken;
    } while (room > 0 && taken == room);
    return room < 0 ? (int)room : 0;
}

/* The numbers of a row whose '[' was read. */
static int read_array(struct reading *b, struct err *err)
{
    const int64_t d = b->rows.model->d;
    double *row = rows_next(&b->rows, err);
    int64_t count = 0;
    if (!row) {
        return err ? -(int)err->code : -ERR_NO_MEMORY;
    }
    const int token = rows_numbers(&b->rows, b->r, row, d, &count, err);
    if (token == JSONREAD_NUMBER || rows_lack(&b->rows, token)) {
        return wrong_width(b, count + 1, err);
    }
    if (token != JSONREAD_ARRAY_END) {
        return bad_number(b, token, NULL, count, err);
    }
    if (count < d && (b->whole || count != rows_narrow(&b->rows))) {
        return wrong_width(b, count, err);
    }
    if (count < d) {
        rows_widen(&b->rows, row);
    }
    b->rows.count++;
    return 0;
}

int reading_use_names(struct reading *b, struct err *err)
{
    const int r = b->by_name ? 0 : columns_init(&b->columns, b->rows.model, b->rules, err);
    b->by_name = b->by_name || r == 0;
    return r;
}

int reading_take_name(struct reading *b, int64_t guess, int64_t row, bool in_row,
                      struct column *ret, struct err *err)
{
    const char *name = jsonread_str(b->r, NULL);
    const int r = columns_find(&b->columns, name, guess, ret, err);
    if (r < 0 || (r == 0 && columns_mark(&b->columns, ret, row))) {
        return r;
    }
    cleanup_buf struct buf pointer = BUF_INIT;
    reading_key_pointer(b, in_row, name, &pointer);
    const char *at = pointer.failed ? b->at : pointer.data;
    if (r > 0) {
        return columns_unknown(err, at, name);
    }
    columns_twice(err, at, name);
    if (err) {
        err->code = ERR_PARSE; /* a key that is there twice */
    }
    return -ERR_PARSE;
}

/* A text of the row that is being read. */
static int take_text(struct reading *b, const struct column *column, int64_t cell, int token,
                     double *row, struct err *err)
{
    char why[COLUMNS_WHY_SIZE] = "The model reads this column as text: its values are strings.";
    if (rows_lack(&b->rows, token)) {
        columns_set_missing(&b->columns, column, row);
        return 0;
    }
    size_t len = 0;
    const char *text = token == JSONREAD_STRING ? jsonread_str(b->r, &len) : NULL;
    if (token < 0 || (text && columns_set_text(&b->columns, column, text, len, row, why))) {
        return token < 0 ? token : 0;
    }
    cleanup_buf struct buf pointer = BUF_INIT;
    cell_pointer(b, column, cell, &pointer);
    return err_at(err, ERR_INVALID, pointer.failed ? b->at : pointer.data, "%s%s", why,
                  token == JSONREAD_NULL ? rows_lack_hint(&b->rows) : "");
}

int reading_take_value(struct reading *b, const struct column *column, int64_t cell, int token,
                       double *row, struct err *err)
{
    if (column->kind == COLUMN_TEXT) {
        return take_text(b, column, cell, token, row, err);
    }
    if (column->kind == COLUMN_PASSED) {
        return token < 0 ? token : jsonread_skip(b->r, err);
    }
    if (token != JSONREAD_NUMBER && !rows_lack(&b->rows, token)) {
        return bad_number(b, token, column, cell, err);
    }
    row[column->at] = token == JSONREAD_NUMBER ? jsonread_number(b->r) : NAN;
    return 0;
}

/* The members of a row whose '{' was read. */
static int read_record(struct reading *b, struct err *err)
{
    const int64_t number = b->rows.count + 1;
    double *row = rows_next(&b->rows, err);
    if (!row) {
        return err ? -(int)err->code : -ERR_NO_MEMORY;
    }
    int r = reading_use_names(b, err);
    for (int64_t i = 0; r == 0; i++) {
        const int token = jsonread_next(b->r, err);
        if (token < 0) {
            return token;
        }
        if (token == JSONREAD_OBJECT_END) {
            break;
        }
        struct column column;
        r = reading_take_name(b, i, number, true, &column, err);
        const int value = r == 0 ? jsonread_next(b->r, err) : r;
        if (value == JSONREAD_NUMBER && column.kind == COLUMN_FEATURE) {
            row[column.at] = jsonread_number(b->r);
        } else if (r == 0) {
            r = reading_take_value(b, &column, READING_NAMED, value, row, err);
        }
    }
    const char *missing = r == 0 ? columns_missing(&b->columns, number) : NULL;
    if (missing) {
        char pointer[96];
        snprintf(pointer, sizeof pointer, "%s/%lld", b->at, (long long)b->rows.count);
        return columns_lacking(err, pointer, missing);
    }
    b->rows.count += r == 0;
    return r;
}

int reading_rows(struct reading *b, bool records, struct err *err)
{
    rows_begin(&b->rows, jsonread_offset(b->r), b->len);
    for (;;) {
        int r = read_plain(b, err);
        const int token = r < 0 ? r : jsonread_next(b->r, err);
        if (token < 0 || token == JSONREAD_ARRAY_END) {
            return token < 0 ? token : 0;
        }
        if (token == JSONREAD_ARRAY_BEGIN) {
            r = read_array(b, err);
        } else if (token == JSONREAD_OBJECT_BEGIN && records) {
            r = read_record(b, err);
        } else {
            r = reading_bad_row(b, err, "A row is an array of numbers.");
        }
        if (r < 0) {
            return r;
        }
    }
}

/* ---- the body ---- */

static int expect_rows(struct reading *b, bool columns, struct err *err)
{
    const int token = jsonread_next(b->r, err);
    if (token == JSONREAD_ARRAY_BEGIN) {
        return reading_rows(b, true, err);
    }
    if (token == JSONREAD_OBJECT_BEGIN && columns) {
        return reading_columns(b, err);
    }
    return token < 0 ? token
                     : err_at(err, ERR_INVALID, b->at, "The rows are an array of rows%s.",
                              columns ? ", or an object of columns" : "");
}

/* A member that brings rows. */
static int read_form(struct reading *b, const char *form, struct err *err)
{
    static const struct {
        const char *key, *at;
    } forms[] = {{"instances", "#/instances"},
                 {"inputs", "#/inputs"},
                 {"dataframe_split", "#/dataframe_split"},
                 {"dataframe_records", "#/dataframe_records"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        b->at = strcmp(forms[i].key, form) == 0 ? forms[i].at : b->at;
        form = strcmp(forms[i].key, form) == 0 ? forms[i].key : form;
    }
    if (b->form) {
        return err_at(err, ERR_PARSE, b->at, "The rows are there twice, as \"%s\" and as \"%s\".",
                      b->form, form);
    }
    b->form = form;
    return strcmp(form, "dataframe_split") == 0
               ? reading_split(b, err)
               : expect_rows(b, form[1] == 'n' && form[2] == 'p', err);
}

static bool is_form(const char *key)
{
    return strcmp(key, "instances") == 0 || strcmp(key, "inputs") == 0 ||
           strcmp(key, "dataframe_split") == 0 || strcmp(key, "dataframe_records") == 0;
}

enum { SCORES, VARIANCE, PROBABILITIES, SIGNATURE, WISHES };

static const char *const wishes[WISHES] = {
    [SCORES] = "return_scores",
    [VARIANCE] = "return_variance",
    [PROBABILITIES] = "return_probabilities",
    [SIGNATURE] = "signature_name",
};

static int take_wish(struct reading *b, int wish, bool wanted, struct err *err)
{
    const struct served_model *model = b->rows.model;
    if (wish == SCORES) {
        b->ret->scores = wanted;
        b->ret->scores_said = true;
        return wanted ? question_no_scores(model, "#/return_scores", err) : 0;
    }
    if (wish == VARIANCE) {
        b->ret->variance = wanted;
        b->ret->variance_said = true;
        return wanted ? question_no_variance(model, "#/return_variance", err) : 0;
    }
    return !wanted ? 0
                   : field_error(err, wishes[wish], FIELD_WHOLE,
                                 "The model has no probabilities; a classifier's \"scores\" are "
                                 "the values of its regressions on the classes.");
}

/* How the answer is wished. */
static int read_wish(struct reading *b, int wish, struct err *err)
{
    const int token = jsonread_next(b->r, err);
    if (token < 0) {
        return token;
    }
    if (wish == SIGNATURE) {
        return token == JSONREAD_STRING && strcmp(jsonread_str(b->r, NULL), "serving_default") == 0
                   ? 0
                   : field_error(err, wishes[wish], FIELD_WHOLE,
                                 "The only signature is \"serving_default\".");
    }
    if (token != JSONREAD_BOOL) {
        return field_error(err, wishes[wish], FIELD_WHOLE, "This must be true or false.");
    }
    return take_wish(b, wish, jsonread_bool(b->r), err);
}

static int read_member(struct reading *b, bool seen[WISHES], struct err *err)
{
    const char *key = jsonread_str(b->r, NULL);
    if (is_form(key)) {
        if (b->form && strcmp(b->form, key) == 0) {
            cleanup_buf struct buf pointer = BUF_INIT;
            buf_printf(&pointer, "#/%s", key);
            return err_at(err, ERR_PARSE, pointer.failed ? "" : pointer.data,
                          "The field appears twice.");
        }
        return read_form(b, key, err);
    }
    for (int i = 0; i < WISHES; i++) {
        if (strcmp(key, wishes[i]) == 0) {
            if (seen[i]) {
                field_error(err, wishes[i], FIELD_WHOLE, "The field appears twice.");
                if (err) {
                    err->code = ERR_PARSE;
                }
                return -ERR_PARSE;
            }
            seen[i] = true;
            return read_wish(b, i, err);
        }
    }
    return field_error(err, key, FIELD_WHOLE,
                       "This field is not known here; a prediction takes \"instances\".");
}

/* The members of the object whose '{' was read. */
static int read_members(struct reading *b, struct err *err)
{
    bool seen[WISHES] = {false};
    for (;;) {
        const int token = jsonread_next(b->r, err);
        if (token < 0 || token == JSONREAD_OBJECT_END) {
            return token < 0 ? token : 0;
        }
        const int r = read_member(b, seen, err);
        if (r < 0) {
            return r;
        }
    }
}

static int read_body(struct reading *b, struct err *err)
{
    int token = jsonread_next(b->r, err);
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, "#", "The body is an object with the field \"instances\".");
    }
    int r = token < 0 ? token : read_members(b, err);
    if (r == 0 && !b->form) {
        return err_at(err, ERR_INVALID, "#/instances", "The field \"instances\" is missing.");
    }
    if (r == 0) {
        token = jsonread_next(b->r, err); /* END, or an error about text that follows */
        r = token < 0 ? token : 0;
    }
    return r;
}

int question_read_json(const char *text, size_t len, const struct served_model *model,
                       struct columns_rules rules, struct question *ret, struct err *err)
{
    struct question q = {.scores = model->classes > 0};
    cleanup_reading struct reading b = {
        .rows = {.model = model}, .rules = rules, .at = "#", .len = len, .ret = &q};
    int r = jsonread_new(text, len, &b.r, err);
    if (r == 0) {
        r = read_body(&b, err);
    }
    if (r == 0) {
        r = rows_take(&b.rows, b.at, &q, err);
    }
    if (r == 0) {
        q.unknown = b.columns.unknown;
        *ret = q;
    }
    return r;
}
