/* Tables whose columns have names of their own: a column after another, and split tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/bodies/question_json.h"

/* Numbers of a column that are read before they are spread over the rows. */
enum { COLUMN_PIECE = 512 };

/* ---- columns ---- */

/* A column while it is being read; `at` points at it. */
struct column_reading {
    const struct column *column;
    const char *at;
    bool first;  /* it says how many rows there are */
    int64_t row; /* values read */
};

/* Makes row c->row one that there is. */
static int need_row(struct reading *b, const struct column_reading *c, struct err *err)
{
    if (c->first && !rows_next(&b->rows, err)) {
        return err ? -(int)err->code : -ERR_NO_MEMORY;
    }
    b->rows.count += c->first;
    return 0;
}

static int bad_value(const struct column_reading *c, int token, struct err *err, const char *what)
{
    char pointer[192];
    snprintf(pointer, sizeof pointer, "%.150s/%lld", c->at, (long long)c->row);
    return token < 0 ? token : err_at(err, ERR_INVALID, pointer, "%s", what);
}

static int no_number(const struct reading *b, const struct column_reading *c, int token,
                     struct err *err)
{
    char text[256];
    snprintf(text, sizeof text, "Features are numbers.%s",
             token == JSONREAD_NULL ? rows_lack_hint(&b->rows) : "");
    return bad_value(c, token, err, text);
}

static int check_length(const struct reading *b, const struct column_reading *c, struct err *err)
{
    if (c->row != b->rows.count) {
        return err_at(err, ERR_INVALID, c->at,
                      "The column holds %lld values, the first one %lld; all must be as long.",
                      (long long)c->row, (long long)b->rows.count);
    }
    return 0;
}

/* The numbers of a column whose '[' was read. */
static int read_numbers(struct reading *b, struct column_reading *c, struct err *err)
{
    double piece[COLUMN_PIECE];
    const int64_t d = b->rows.model->d, feature = c->column->at;
    int64_t count = 0;
    int token = JSONREAD_NUMBER;
    while (token == JSONREAD_NUMBER || rows_lack(&b->rows, token)) {
        /* What ended the piece before. */
        piece[0] = token == JSONREAD_NUMBER ? jsonread_number(b->r) : NAN;
        const int64_t kept = c->row > 0;
        token = rows_numbers(&b->rows, b->r, piece + kept, COLUMN_PIECE - kept, &count, err);
        count += kept;
        c->row -= kept;
        for (int64_t i = 0; i < count; i++, c->row++) {
            const int r = need_row(b, c, err);
            if (r < 0) {
                return r;
            }
            if (c->row < b->rows.count) {
                b->rows.X[c->row * d + feature] = piece[i];
            }
        }
        c->row += token == JSONREAD_NUMBER || rows_lack(&b->rows, token);
    }
    return token == JSONREAD_ARRAY_END ? check_length(b, c, err) : no_number(b, c, token, err);
}

static bool is_text(const struct reading *b, int token)
{
    return token == JSONREAD_STRING || rows_lack(&b->rows, token);
}

/* The texts of a column whose '[' was read; none is as one that is empty. */
static int read_texts(struct reading *b, struct column_reading *c, struct err *err)
{
    const int64_t d = b->rows.model->d;
    int token;
    for (; is_text(b, token = jsonread_next(b->r, err)); c->row++) {
        char why[COLUMNS_WHY_SIZE];
        size_t len = 0;
        const char *text = token == JSONREAD_STRING ? jsonread_str(b->r, &len) : "";
        const int r = need_row(b, c, err);
        if (r < 0) {
            return r;
        }
        if (c->row < b->rows.count &&
            !columns_set_text(&b->columns, c->column, text, len, b->rows.X + c->row * d, why)) {
            return bad_value(c, token, err, why);
        }
    }
    char what[256];
    snprintf(what, sizeof what, "The model reads this column as text: its values are strings.%s",
             token == JSONREAD_NULL ? rows_lack_hint(&b->rows) : "");
    return token == JSONREAD_ARRAY_END ? check_length(b, c, err) : bad_value(c, token, err, what);
}

static int read_column(struct reading *b, struct column_reading *c, struct err *err)
{
    const int token = jsonread_next(b->r, err);
    if (token >= 0 && c->column->kind == COLUMN_PASSED) {
        return jsonread_skip(b->r, err);
    }
    if (token != JSONREAD_ARRAY_BEGIN) {
        return token < 0 ? token
                         : err_at(err, ERR_INVALID, c->at, "A column is an array of values.");
    }
    return c->column->kind == COLUMN_TEXT ? read_texts(b, c, err) : read_numbers(b, c, err);
}

int reading_columns(struct reading *b, struct err *err)
{
    bool first = true;
    int r = reading_use_names(b, err);
    for (int64_t i = 0; r == 0; i++) {
        const int token = jsonread_next(b->r, err);
        if (token < 0) {
            return token;
        }
        if (token == JSONREAD_OBJECT_END) {
            const char *missing = columns_missing(&b->columns, 1);
            return missing ? columns_lacking(err, b->at, missing) : 0;
        }
        struct column column;
        cleanup_buf struct buf pointer = BUF_INIT;
        reading_key_pointer(b, false, jsonread_str(b->r, NULL), &pointer);
        r = reading_take_name(b, i, 1, false, &column, err);
        if (r == 0) {
            struct column_reading c = {&column, pointer.failed ? b->at : pointer.data, first, 0};
            r = read_column(b, &c, err);
            first = first && column.kind == COLUMN_PASSED;
        }
    }
    return r;
}

/* ---- {"columns": [...], "data": [...]} ---- */

struct split {
    struct column *column; /* [count] owned */
    int64_t count, capacity;
    bool plain; /* they are all of the features, and nothing else */
    bool columns, data, index;
};

static void split_deinit(struct split *s)
{
    s->column = mem_free(s->column);
}

#define cleanup_split __attribute__((cleanup(split_deinit)))

static int grow(struct split *s, struct err *err)
{
    if (s->count < s->capacity) {
        return 0;
    }
    const int64_t capacity = s->capacity == 0 ? 16 : 2 * s->capacity;
    struct column *larger = mem_regrow(s->column, (size_t)capacity, sizeof *larger);
    if (!larger) {
        return err_no_memory(err);
    }
    s->column = larger;
    s->capacity = capacity;
    return 0;
}

static int take_split_name(struct reading *b, struct split *s, const char *at, struct err *err)
{
    const char *name = jsonread_str(b->r, NULL);
    int r = grow(s, err);
    struct column *column = &s->column[s->count];
    r = r == 0 ? columns_find(&b->columns, name, s->count, column, err) : r;
    if (r != 0) {
        return r < 0 ? r : columns_unknown(err, at, name);
    }
    if (!columns_mark(&b->columns, column, 1)) {
        return columns_twice(err, at, name);
    }
    s->plain = s->plain && column->kind == COLUMN_FEATURE;
    s->count++;
    return 0;
}

/* The names of the array whose '[' was read. */
static int read_names(struct reading *b, struct split *s, struct err *err)
{
    const char *at = "#/dataframe_split/columns";
    int r = reading_use_names(b, err);
    while (r == 0) {
        const int token = jsonread_next(b->r, err);
        if (token < 0) {
            return token;
        }
        if (token == JSONREAD_ARRAY_END) {
            break;
        }
        if (token != JSONREAD_STRING) {
            return err_at(err, ERR_INVALID, at, "The names of columns are strings.");
        }
        r = take_split_name(b, s, at, err);
    }
    const char *missing = r == 0 ? columns_missing(&b->columns, 1) : NULL;
    if (missing) {
        return columns_lacking(err, at, missing);
    }
    s->plain = s->plain && s->count == b->rows.model->d;
    if (r == 0 && s->data && !s->plain) {
        return err_at(
            err, ERR_INVALID, at,
            "Where columns are not the features, their names must stand before the data.");
    }
    return r;
}

/* The cells of a row whose '[' was read. */
static int read_mixed_row(struct reading *b, const struct split *s, struct err *err)
{
    double *row = rows_next(&b->rows, err);
    int64_t j = 0;
    int r = row ? 0 : err ? -(int)err->code : -ERR_NO_MEMORY;
    for (; r == 0; j++) {
        const int token = jsonread_next(b->r, err);
        if (token == JSONREAD_ARRAY_END || (token >= 0 && j == s->count)) {
            j += token != JSONREAD_ARRAY_END;
            break;
        }
        r = reading_take_value(b, &s->column[j], j, token, row, err);
    }
    if (r == 0 && j != s->count) {
        char text[96];
        snprintf(text, sizeof text, "The row has %s cells than the %lld columns.",
                 j < s->count ? "fewer" : "more", (long long)s->count);
        return reading_bad_row(b, err, text);
    }
    b->rows.count += r == 0;
    return r;
}

/* Rows of which not every cell is a feature; their '[' was read. */
static int read_mixed(struct reading *b, const struct split *s, struct err *err)
{
    rows_begin(&b->rows, jsonread_offset(b->r), b->len);
    for (;;) {
        const int token = jsonread_next(b->r, err);
        if (token < 0 || token == JSONREAD_ARRAY_END) {
            return token < 0 ? token : 0;
        }
        const int64_t room = rows_room(&b->rows, jsonread_offset(b->r), err);
        const int r = room < 0 ? (int)room
                      : token == JSONREAD_ARRAY_BEGIN
                          ? read_mixed_row(b, s, err)
                          : reading_bad_row(b, err, "A row is an array of cells.");
        if (r < 0) {
            return r;
        }
    }
}

static int read_data(struct reading *b, const struct split *s, struct err *err)
{
    return s->columns && !s->plain ? read_mixed(b, s, err) : reading_rows(b, false, err);
}

static int read_split_member(struct reading *b, struct split *s, struct err *err)
{
    const char *key = jsonread_str(b->r, NULL);
    bool *seen = strcmp(key, "columns") == 0 ? &s->columns
                 : strcmp(key, "data") == 0  ? &s->data
                 : strcmp(key, "index") == 0 ? &s->index
                                             : NULL;
    if (!seen) {
        cleanup_buf struct buf pointer = BUF_INIT;
        buf_str(&pointer, "#/dataframe_split");
        buf_json_pointer(&pointer, key);
        return err_at(err, ERR_INVALID, pointer.failed ? "" : pointer.data,
                      "A split table holds \"columns\", \"data\" and \"index\".");
    }
    if (*seen) {
        return err_at(err, ERR_PARSE, "#/dataframe_split", "A field appears twice.");
    }
    *seen = true;
    if (seen == &s->index) { /* the rows' names, which mean nothing to a model */
        return jsonread_skip(b->r, err);
    }
    const bool names = seen == &s->columns;
    const int token = jsonread_next(b->r, err);
    if (token != JSONREAD_ARRAY_BEGIN) {
        return token < 0 ? token
                         : err_at(err, ERR_INVALID,
                                  names ? "#/dataframe_split/columns" : "#/dataframe_split/data",
                                  "This must be an array.");
    }
    return names ? read_names(b, s, err) : read_data(b, s, err);
}

/* Rows that were read as they came, in the order of the features. */
static int sort_rows(struct reading *b, const struct split *s, struct err *err)
{
    cleanup_mem int64_t *order = mem_array((size_t)s->count, sizeof *order);
    if (!order) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < s->count; j++) {
        order[j] = s->column[j].at;
    }
    return rows_sort(order, &b->rows, err);
}

int reading_split(struct reading *b, struct err *err)
{
    cleanup_split struct split s = {.plain = true};
    int token = jsonread_next(b->r, err);
    if (token != JSONREAD_OBJECT_BEGIN) {
        return token < 0 ? token
                         : err_at(err, ERR_INVALID, "#/dataframe_split",
                                  "A split table is an object with \"columns\" and \"data\".");
    }
    b->at = "#/dataframe_split/data";
    b->whole = true;
    while ((token = jsonread_next(b->r, err)) != JSONREAD_OBJECT_END) {
        const int r = token < 0 ? token : read_split_member(b, &s, err);
        if (r < 0) {
            return r;
        }
    }
    if (!s.columns || !s.data) {
        return err_at(err, ERR_INVALID,
                      s.data ? "#/dataframe_split/columns" : "#/dataframe_split/data",
                      "The field is missing.");
    }
    return s.plain ? sort_rows(b, &s, err) : 0;
}
