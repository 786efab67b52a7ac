#include "server/bodies/infer_tensor.h"

#include <endian.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"

#define AT "#/inputs/0"

static int number_error(const struct infer_tensor *t, int64_t at, double number, struct err *err)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, AT "/data/%lld", (long long)at);
    return err_at(err, ERR_INVALID, pointer, "The number is not finite in the tensor's datatype.%s",
                  isnan(number) ? rows_lack_hint(&t->rows) : "");
}

/* ---- data as JSON ---- */

static int data_error(const struct infer_tensor *t, int token, struct err *err)
{
    if (token < 0 && err && err->pointer[0] == '\0') {
        snprintf(err->pointer, sizeof err->pointer, AT "/data");
    }
    return token < 0 ? token
                     : err_at(err, ERR_INVALID, AT "/data",
                              "The data are an array of numbers, or of rows of as many numbers as "
                              "the model has features.%s",
                              token == JSONREAD_NULL ? rows_lack_hint(&t->rows) : "");
}

static int no_row(const struct err *err)
{
    return err ? -(int)err->code : -ERR_NO_MEMORY;
}

/* Room for the row that comes next, and how many more. */
static double *make_room(struct infer_tensor *t, const struct jsonread *r, int64_t *ret,
                         struct err *err)
{
    *ret = rows_room(&t->rows, jsonread_offset(r), err);
    return *ret >= 0 ? rows_next(&t->rows, err) : NULL;
}

/* [1, 2, 3, 4, ...], of which the first `have` numbers are in the row already. */
static int read_flat(struct infer_tensor *t, struct jsonread *r, int token, int64_t have,
                     struct err *err)
{
    const int64_t d = t->rows.model->d;
    t->rows.count += have / d;
    while (token == JSONREAD_NUMBER || rows_lack(&t->rows, token)) { /* the rows are full */
        int64_t room = 0, count = 0;
        double *to = make_room(t, r, &room, err);
        if (!to) {
            return no_row(err);
        }
        to[0] = token == JSONREAD_NUMBER ? jsonread_number(r) : NAN;
        token = rows_numbers(&t->rows, r, to + 1, room * d - 1, &count, err);
        have = 1 + count;
        t->rows.count += have / d;
    }
    t->left_over = have % d;
    return token == JSONREAD_ARRAY_END ? 0 : data_error(t, token, err);
}

/* [[1, 2], [3, 4], ...], of which the first '[[' was read. */
static int read_nested(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    const int64_t d = t->rows.model->d;
    int token = JSONREAD_ARRAY_BEGIN;
    t->nested = true;
    while (token == JSONREAD_ARRAY_BEGIN) {
        int64_t count = 0, room = 0;
        double *row = make_room(t, r, &room, err);
        if (!row) {
            return no_row(err);
        }
        token = rows_numbers(&t->rows, r, row, d, &count, err);
        if (token >= 0 && (token != JSONREAD_ARRAY_END || count < d)) {
            char pointer[64];
            snprintf(pointer, sizeof pointer, AT "/data/%lld", (long long)t->rows.count);
            return err_at(err, ERR_INVALID, pointer, "A row holds %lld numbers.", (long long)d);
        }
        t->rows.count++;
        if (token >= 0) {
            t->rows.count += jsonread_rows(r, row + d, d, room - 1);
            token = jsonread_next(r, err);
        }
    }
    return token == JSONREAD_ARRAY_END ? 0 : data_error(t, token, err);
}

static int read_data(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    int token = jsonread_next(r, err);
    if (token != JSONREAD_ARRAY_BEGIN) {
        return data_error(t, token, err);
    }
    t->data_at = jsonread_offset(r);
    rows_begin(&t->rows, t->data_at, t->len);
    double *row = rows_next(&t->rows, err);
    int64_t count = 0;
    if (!row) {
        return no_row(err);
    }
    token = rows_numbers(&t->rows, r, row, t->rows.model->d, &count, err);
    if (token == JSONREAD_ARRAY_BEGIN && count == 0) {
        return read_nested(t, r, err);
    }
    return read_flat(t, r, token, count, err);
}

/* ---- the other members ---- */

static int read_shape(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    double shape[2];
    int64_t count = 0;
    int token = jsonread_next(r, err);
    if (token == JSONREAD_ARRAY_BEGIN) {
        token = jsonread_numbers(r, shape, 2, &count, err);
    }
    for (int64_t i = 0; token >= 0 && i < count; i++) {
        if (shape[i] < 0 || shape[i] != trunc(shape[i]) || shape[i] > JSON_WHOLE_MAX) {
            token = JSONREAD_NULL;
        } else {
            t->shape[i] = (int64_t)shape[i];
        }
    }
    if (token < 0) {
        return token;
    }
    if (token != JSONREAD_ARRAY_END || count != 2) {
        return err_at(err, ERR_INVALID, AT "/shape", "The shape of X is [rows, %lld].",
                      (long long)t->rows.model->d);
    }
    return 0;
}

static int read_type(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    const int token = jsonread_next(r, err);
    if (token < 0) {
        return token;
    }
    const char *type = token == JSONREAD_STRING ? jsonread_str(r, NULL) : "";
    t->single = strcmp(type, "FP32") == 0;
    if (!t->single && strcmp(type, "FP64") != 0) {
        return err_at(err, ERR_INVALID, AT "/datatype", "The datatype of X is FP64 or FP32.");
    }
    return 0;
}

static int read_name(struct jsonread *r, struct err *err)
{
    const int token = jsonread_next(r, err);
    if (token < 0) {
        return token;
    }
    if (token != JSONREAD_STRING || strcmp(jsonread_str(r, NULL), "X") != 0) {
        return err_at(err, ERR_INVALID, AT "/name", "The model's input is \"X\".");
    }
    return 0;
}

static int twice(const char *key, struct err *err)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, AT "/%s", key);
    return err_at(err, ERR_PARSE, pointer, "The field appears twice.");
}

static int read_parameter(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    const bool size = strcmp(jsonread_str(r, NULL), "binary_data_size") == 0;
    const bool shared = strncmp(jsonread_str(r, NULL), "shared_memory_", 14) == 0;
    const int token = jsonread_next(r, err);
    if (token < 0) {
        return token;
    }
    if (shared) {
        return err_at(err, ERR_UNSUPPORTED, AT "/parameters", "There is no shared memory here.");
    }
    const double number = token == JSONREAD_NUMBER ? jsonread_number(r) : -1;
    if (size && (number < 0 || number != trunc(number) || number > JSON_WHOLE_MAX)) {
        return err_at(err, ERR_INVALID, AT "/parameters/binary_data_size",
                      "The size of the binary data is a whole number of bytes.");
    }
    if (size && t->binary >= 0) {
        return twice("parameters/binary_data_size", err);
    }
    t->binary = size ? (int64_t)number : t->binary;
    return jsonread_skip(r, err);
}

static int read_parameters(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    int token = jsonread_next(r, err);
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, AT "/parameters", "Parameters are an object.");
    }
    while (token >= 0 && (token = jsonread_next(r, err)) == JSONREAD_KEY) {
        token = read_parameter(t, r, err);
    }
    return token < 0 ? token : 0;
}

static int read_member(struct infer_tensor *t, struct jsonread *r, bool *parameters,
                       struct err *err)
{
    const char *key = jsonread_str(r, NULL);
    bool *seen = strcmp(key, "name") == 0         ? &t->named
                 : strcmp(key, "shape") == 0      ? &t->shaped
                 : strcmp(key, "datatype") == 0   ? &t->typed
                 : strcmp(key, "data") == 0       ? &t->has_data
                 : strcmp(key, "parameters") == 0 ? parameters
                                                  : NULL;
    if (!seen) {
        cleanup_buf struct buf pointer = BUF_INIT;
        buf_str(&pointer, AT);
        buf_json_pointer(&pointer, key);
        return err_at(err, ERR_INVALID, pointer.failed ? AT : pointer.data,
                      "This field of a tensor is not known.");
    }
    if (*seen) {
        return twice(key, err);
    }
    *seen = true;
    return seen == &t->named      ? read_name(r, err)
           : seen == &t->shaped   ? read_shape(t, r, err)
           : seen == &t->typed    ? read_type(t, r, err)
           : seen == &t->has_data ? read_data(t, r, err)
                                  : read_parameters(t, r, err);
}

int infer_tensor_read(struct infer_tensor *t, struct jsonread *r, struct err *err)
{
    bool parameters = false;
    t->binary = -1;
    for (;;) {
        const int token = jsonread_next(r, err);
        if (token < 0 || token == JSONREAD_OBJECT_END) {
            return token < 0 ? token : 0;
        }
        const int rc = read_member(t, r, &parameters, err);
        if (rc < 0) {
            return rc;
        }
    }
}

/* ---- binary data ---- */

static double double_at(const char *at)
{
    uint64_t bits;
    double v;
    memcpy(&bits, at, sizeof bits);
    bits = le64toh(bits);
    memcpy(&v, &bits, sizeof v);
    return v;
}

static double float_at(const char *at)
{
    uint32_t bits;
    float v;
    memcpy(&bits, at, sizeof bits);
    bits = le32toh(bits);
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* `count` rows, for which there are as many bytes. */
static int take_rows(struct infer_tensor *t, const char *data, int64_t count, struct err *err)
{
    const int r = rows_reserve(&t->rows, count, err);
    const int64_t n = count * t->rows.model->d;
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < n; i++) {
        const double v = t->single ? float_at(data + 4 * i) : double_at(data + 8 * i);
        if (!isfinite(v) && !(isnan(v) && rows_may_lack(&t->rows))) {
            return number_error(t, i, v, err);
        }
        t->rows.X[i] = v;
    }
    t->rows.count = count;
    return 0;
}

static int size_error(struct err *err, int64_t declared, size_t present)
{
    return err_at(err, ERR_INVALID, AT "/parameters/binary_data_size",
                  "The binary data of X are declared as %lld bytes; %zu follow the JSON part.",
                  (long long)declared, present);
}

static int take_binary(struct infer_tensor *t, const char *data, size_t len, struct err *err)
{
    const int64_t row = t->rows.model->d * (t->single ? 4 : 8);
    if ((size_t)t->binary != len) {
        return size_error(err, t->binary, len);
    }
    if (t->shape[0] > t->binary / row || t->shape[0] * row != t->binary) {
        return err_at(err, ERR_INVALID, AT "/shape",
                      "The shape [%lld, %lld] does not take %lld bytes.", (long long)t->shape[0],
                      (long long)t->shape[1], (long long)t->binary);
    }
    return t->shape[0] > 0 ? take_rows(t, data, t->shape[0], err) : 0;
}

int infer_tensor_raw(struct infer_tensor *t, const char *data, size_t len, struct err *err)
{
    const size_t row = (size_t)t->rows.model->d * sizeof(double);
    if (len == 0 || len % row != 0) {
        return err_at(err, ERR_INVALID, "#",
                      "A raw body is X as FP64, %zu bytes a row; it has %zu.", row, len);
    }
    return take_rows(t, data, (int64_t)(len / row), err);
}

/* ---- the whole ---- */

static int missing(const char *key, struct err *err)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, AT "/%s", key);
    return err_at(err, ERR_INVALID, pointer, "The field is missing.");
}

/* A float and the next one are as far from it. */
static bool is_midpoint(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const double half_steps = fabs(v) * 0x1p150; /* of the smallest float */
    return fabs(v) < FLT_MIN ? half_steps == floor(half_steps) && fmod(half_steps, 2.0) == 1.0
                             : (bits & ((UINT64_C(1) << 29) - 1)) == UINT64_C(1) << 28;
}

/* The text of a number of the data, the `next`-th. */
struct cursor {
    const char *at, *end;
    int64_t next;
};

/* The i-th number to the nearest float; i only grows. The data were read: nothing else stands
 * between numbers than commas, brackets, white space and nulls. */
static float read_single(struct cursor *c, int64_t i)
{
    for (;; c->next++) {
        double ignored;
        c->at += strcspn(c->at, "-0123456789");
        const char *const number = c->at;
        const size_t len = decimal_scan(number, (size_t)(c->end - number), &ignored);
        c->at += len;
        if (c->next == i) {
            c->next++;
            return decimal_single(number, len);
        }
    }
}

/* To what the text is closest to. A double between two floats may have been rounded to there: the
 * text decides, and only then. */
static int round_to_single(struct infer_tensor *t, struct err *err)
{
    const int64_t n = t->rows.count * t->rows.model->d;
    struct cursor text = {.at = t->text + t->data_at, .end = t->text + t->len};
    for (int64_t i = 0, number = 0; i < n; i++) {
        const double v = t->rows.X[i];
        if (isnan(v)) {
            continue; /* it is missing */
        }
        t->rows.X[i] = (double)(is_midpoint(v) ? read_single(&text, number) : (float)v);
        number++;
        if (!isfinite(t->rows.X[i])) {
            return number_error(t, i, t->rows.X[i], err);
        }
    }
    return 0;
}

static int check_data(struct infer_tensor *t, struct err *err)
{
    const int64_t d = t->rows.model->d;
    if (t->rows.count != t->shape[0] || t->left_over > 0) {
        return err_at(
            err, ERR_INVALID, AT "/data", "The data hold %lld numbers; the shape is [%lld, %lld].",
            (long long)(t->rows.count * d + t->left_over), (long long)t->shape[0], (long long)d);
    }
    return t->single ? round_to_single(t, err) : 0;
}

int infer_tensor_finish(struct infer_tensor *t, const char *data, size_t len, struct err *err)
{
    const bool binary = t->binary >= 0;
    const char *lacking = !t->named                 ? "name"
                          : !t->shaped              ? "shape"
                          : !t->typed               ? "datatype"
                          : !binary && !t->has_data ? "data"
                                                    : NULL;
    if (lacking) {
        return missing(lacking, err);
    }
    if (t->shape[1] != t->rows.model->d) {
        return err_at(err, ERR_INVALID, AT "/shape",
                      "The shape of X is [rows, %lld], not [%lld, %lld].",
                      (long long)t->rows.model->d, (long long)t->shape[0], (long long)t->shape[1]);
    }
    if (binary && t->has_data) {
        return err_at(err, ERR_INVALID, AT "/data",
                      "The data are there twice, binary and as JSON.");
    }
    if (!binary && len > 0) {
        return size_error(err, 0, len);
    }
    return binary ? take_binary(t, data, len, err) : check_data(t, err);
}
