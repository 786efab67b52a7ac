#include "server/api/instances.h"

#include <stdio.h>
#include <string.h>

#include "base/jsonread.h"
#include "base/mem.h"
#include "wire/field.h"

struct matrix {
    double *data;
    int64_t d, rows;
    size_t used, capacity; /* numbers */
};

static int append(struct matrix *m, double v, struct err *err)
{
    if (m->used == m->capacity) {
        const size_t capacity = m->capacity ? m->capacity * 2 : 256;
        double *data = mem_regrow(m->data, capacity, sizeof *data);
        if (!data) {
            return err_no_memory(err);
        }
        m->data = data;
        m->capacity = capacity;
    }
    m->data[m->used++] = v;
    return 0;
}

static int bad_row(const struct matrix *m, struct err *err, const char *what)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "#/instances/%lld", (long long)m->rows);
    return err_at(err, ERR_INVALID, pointer, "%s", what);
}

static int wrong_width(const struct matrix *m, int64_t have, struct err *err)
{
    char text[128];
    snprintf(text, sizeof text, "The row holds %s%lld numbers; the model takes %lld features.",
             have > m->d ? "more than " : "", (long long)(have > m->d ? m->d : have),
             (long long)m->d);
    return bad_row(m, err, text);
}

static int bad_number(const struct matrix *m, int64_t column, struct err *err)
{
    char pointer[96];
    snprintf(pointer, sizeof pointer, "#/instances/%lld/%lld", (long long)m->rows,
             (long long)column);
    return err_at(err, ERR_INVALID, pointer, "Features are numbers.");
}

/* The numbers of a row whose '[' was read. */
static int read_row(struct jsonread *r, struct matrix *m, struct err *err)
{
    for (int64_t column = 0;; column++) {
        const int token = jsonread_next(r, err);
        if (token < 0) {
            return token;
        }
        if (token == JSONREAD_ARRAY_END) {
            if (column < m->d) {
                return wrong_width(m, column, err);
            }
            m->rows++;
            return 0;
        }
        if (token != JSONREAD_NUMBER) {
            return bad_number(m, column, err);
        }
        if (column == m->d) {
            return wrong_width(m, column + 1, err);
        }
        const int a = append(m, jsonread_number(r), err);
        if (a < 0) {
            return a;
        }
    }
}

static int read_rows(struct jsonread *r, struct matrix *m, struct err *err)
{
    int token = jsonread_next(r, err);
    if (token >= 0 && token != JSONREAD_ARRAY_BEGIN) {
        return err_at(err, ERR_INVALID, "#/instances", "Instances are an array of rows.");
    }
    while (token >= 0) {
        token = jsonread_next(r, err);
        if (token == JSONREAD_ARRAY_END) {
            return m->rows > 0
                       ? 0
                       : err_at(err, ERR_INVALID, "#/instances", "There must be at least one row.");
        }
        if (token >= 0 && token != JSONREAD_ARRAY_BEGIN) {
            return bad_row(m, err, "A row is an array of numbers.");
        }
        if (token >= 0) {
            token = read_row(r, m, err);
        }
    }
    return token;
}

static int unknown_field(const char *key, struct err *err)
{
    return field_error(err, key, FIELD_WHOLE,
                       "This field is not known here; a prediction takes \"instances\".");
}

/* The members of the object whose '{' was read. */
static int read_members(struct jsonread *r, struct matrix *m, struct err *err)
{
    bool seen = false;
    for (;;) {
        int token = jsonread_next(r, err);
        if (token < 0) {
            return token;
        }
        if (token == JSONREAD_OBJECT_END) {
            return seen ? 0
                        : err_at(err, ERR_INVALID, "#/instances",
                                 "The field \"instances\" is missing.");
        }
        size_t len;
        const char *key = jsonread_str(r, &len);
        if (strcmp(key, "instances") != 0) {
            return unknown_field(key, err);
        }
        if (seen) {
            return err_at(err, ERR_PARSE, "#/instances", "The field appears twice.");
        }
        seen = true;
        token = read_rows(r, m, err);
        if (token < 0) {
            return token;
        }
    }
}

static int read_body(struct jsonread *r, struct matrix *m, struct err *err)
{
    int token = jsonread_next(r, err);
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, "#", "The body is an object with the field \"instances\".");
    }
    if (token >= 0) {
        token = read_members(r, m, err);
    }
    if (token >= 0) {
        token = jsonread_next(r, err); /* END, or an error about text that follows */
    }
    return token < 0 ? token : 0;
}

int instances_read(const char *text, size_t len, int64_t d, double **ret, int64_t *ret_rows,
                   struct err *err)
{
    struct matrix m = {.d = d};
    struct jsonread *reader;
    int r = jsonread_new(text, len, &reader, err);
    if (r < 0) {
        return r;
    }
    r = read_body(reader, &m, err);
    jsonread_free(reader);
    if (r < 0) {
        mem_free(m.data);
        return r;
    }
    *ret = m.data;
    *ret_rows = m.rows;
    return 0;
}
