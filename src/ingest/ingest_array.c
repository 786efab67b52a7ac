#include "ingest/ingest_array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ingest/ingest_text.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_SIZE 6
#define HEADER_MAX ((size_t)64 << 10)

/* Integers up to here are exact in float64. */
#define EXACT_INTEGER (INT64_C(1) << 53)

struct ingest_element {
    char kind; /* as in descr: b, i, u, f */
    int size;
    enum dtype dtype; /* the smaller one that holds every value; float64 for 64-bit integers */
};

static const struct ingest_element elements[] = {
    {'b', 1, DTYPE_F32}, {'i', 1, DTYPE_F32}, {'i', 2, DTYPE_F32}, {'i', 4, DTYPE_F64},
    {'i', 8, DTYPE_F64}, {'u', 1, DTYPE_F32}, {'u', 2, DTYPE_F32}, {'u', 4, DTYPE_F64},
    {'u', 8, DTYPE_F64}, {'f', 2, DTYPE_F32}, {'f', 4, DTYPE_F32}, {'f', 8, DTYPE_F64},
};

/* ---- header ---- */

struct cursor {
    const char *at;
    const char *end;
};

struct header {
    bool has_descr, has_order, has_shape;
    bool texts; /* are taken */
    struct ingest_array *a;
};

static int malformed(const struct header *h, struct err *err, const char *what)
{
    return err_at(err, ERR_PARSE, "#/header", "The NPY header of %s %s.", h->a->who, what);
}

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) != NULL && *c->at != '\0') {
        c->at++;
    }
}

static bool take(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted) {
        return false;
    }
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    skip_blanks(c);
    size_t len = strlen(word);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0) {
        return false;
    }
    c->at += len;
    return true;
}

/* 'text' or "text" without escapes. */
static bool take_string(struct cursor *c, const char **ret, size_t *ret_len)
{
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) {
        return false;
    }
    const char *start = c->at + 1;
    const char *close = memchr(start, *c->at, (size_t)(c->end - start));
    if (close == NULL || memchr(start, '\\', (size_t)(close - start)) != NULL) {
        return false;
    }
    *ret = start;
    *ret_len = (size_t)(close - start);
    c->at = close + 1;
    return true;
}

static bool take_count(struct cursor *c, int64_t *ret)
{
    skip_blanks(c);
    const char *start = c->at;
    int64_t value = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c->at - '0', &value)) {
            return false;
        }
        c->at++;
    }
    *ret = value;
    return c->at > start;
}

static int read_descr(struct cursor *c, struct header *h, struct err *err)
{
    const char *text = NULL;
    size_t len = 0;
    if (!take_string(c, &text, &len)) {
        return err_at(err, ERR_UNSUPPORTED, "#/header/descr",
                      "The array of %s has a structured type; plain numbers are supported.",
                      h->a->who);
    }
    bool order = len >= 3 && (*text == '<' || *text == '>' || *text == '|');
    for (size_t i = 0; order && i < sizeof(elements) / sizeof(elements[0]); i++) {
        const struct ingest_element *e = &elements[i];
        bool same = len == 3 && text[1] == e->kind && text[2] == '0' + e->size;
        if (same && (e->size == 1 || *text != '|')) {
            h->a->element = e;
            h->a->size = (size_t)e->size;
            h->a->swap = *text == '>';
            h->has_descr = true;
            return 0;
        }
    }
    if (h->texts && ingest_array_text_type(h->a, text, len)) {
        h->has_descr = true;
        return 0;
    }
    char show[INGEST_SHOW_SIZE];
    return err_at(err, ERR_UNSUPPORTED, "#/header/descr",
                  "The array of %s has the element type %s; bool, integers of 8 to 64 bits%s "
                  "floats of 16 to 64 bits%s are supported.",
                  h->a->who, ingest_show(text, len, show), h->texts ? "," : " and",
                  h->texts ? " and texts of a fixed width (U, S; not object)" : "");
}

static int read_order(struct cursor *c, struct header *h, struct err *err)
{
    h->a->fortran = take_word(c, "True");
    if (!h->a->fortran && !take_word(c, "False")) {
        return err_at(err, ERR_PARSE, "#/header/fortran_order",
                      "The NPY header of %s has a fortran_order that is neither True nor False.",
                      h->a->who);
    }
    h->has_order = true;
    return 0;
}

/* "(3, 4)", "(3,)". */
static int read_shape(struct cursor *c, struct header *h, struct err *err)
{
    int64_t shape[2] = {1, 1};
    int dims = 0;
    bool well = take(c, '(');
    bool more = well;
    while (well && more && !take(c, ')')) {
        int64_t n = 0;
        well = take_count(c, &n);
        if (dims < 2) {
            shape[dims] = n;
        }
        dims++;
        more = take(c, ',');
        well = well && (more || take(c, ')'));
    }
    if (!well) {
        return err_at(err, ERR_PARSE, "#/header/shape",
                      "The NPY header of %s has a shape that is no tuple of whole numbers.",
                      h->a->who);
    }
    if (dims < 1 || dims > 2) {
        return err_at(err, ERR_INVALID, "#/header/shape",
                      "The array of %s has %d dimensions, not one or two.", h->a->who, dims);
    }
    h->a->dims = dims;
    h->a->rows = shape[0];
    h->a->columns = shape[1];
    h->has_shape = true;
    return 0;
}

static int read_entry(struct cursor *c, struct header *h, struct err *err)
{
    const char *key = NULL;
    size_t len = 0;
    if (!take_string(c, &key, &len) || !take(c, ':')) {
        return malformed(h, err, "is no dictionary of descr, fortran_order and shape");
    }
    if (len == 5 && memcmp(key, "descr", len) == 0 && !h->has_descr) {
        return read_descr(c, h, err);
    }
    if (len == 13 && memcmp(key, "fortran_order", len) == 0 && !h->has_order) {
        return read_order(c, h, err);
    }
    if (len == 5 && memcmp(key, "shape", len) == 0 && !h->has_shape) {
        return read_shape(c, h, err);
    }
    return malformed(h, err, "has an unknown key, or one twice");
}

static int read_dictionary(struct cursor *c, struct header *h, struct err *err)
{
    bool more = take(c, '{');
    if (!more) {
        return malformed(h, err, "is no dictionary of descr, fortran_order and shape");
    }
    while (more && !take(c, '}')) {
        int r = read_entry(c, h, err);
        if (r < 0) {
            return r;
        }
        more = take(c, ',');
        if (!more && !take(c, '}')) {
            return malformed(h, err, "is no dictionary of descr, fortran_order and shape");
        }
    }
    skip_blanks(c);
    if (c->at != c->end) {
        return malformed(h, err, "goes on behind its dictionary");
    }
    if (!h->has_descr || !h->has_order || !h->has_shape) {
        return malformed(h, err, "lacks descr, fortran_order or shape");
    }
    return 0;
}

/* Magic, version and length: where the dictionary lies. */
static int find_dictionary(const struct header *h, size_t *ret_start, size_t *ret_len,
                           struct err *err)
{
    const unsigned char *p = h->a->map.data;
    size_t size = h->a->map.size;
    if (size < MAGIC_SIZE + 4 || memcmp(p, MAGIC, MAGIC_SIZE) != 0) {
        return err_at(err, ERR_PARSE, "#/header", "The contents of %s are no NPY array.",
                      h->a->who);
    }
    if (p[6] < 1 || p[6] > 3 || p[7] != 0) {
        return err_at(err, ERR_UNSUPPORTED, "#/header",
                      "The array of %s is of NPY version %d.%d; 1.0, 2.0 and 3.0 are supported.",
                      h->a->who, p[6], p[7]);
    }
    size_t start = p[6] == 1 ? 10 : 12;
    if (size < start) {
        return malformed(h, err, "is truncated");
    }
    size_t len = (size_t)p[8] | (size_t)p[9] << 8;
    if (p[6] != 1) {
        len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    }
    if (len > HEADER_MAX) {
        return malformed(h, err, "is longer than 64 KiB");
    }
    if (len > size - start) {
        return malformed(h, err, "is truncated");
    }
    *ret_start = start;
    *ret_len = len;
    return 0;
}

/* The declared size must be the file's. */
static int check_size(const struct ingest_array *a, size_t present, struct err *err)
{
    size_t declared = a->size;
    if (__builtin_mul_overflow(declared, (size_t)a->rows, &declared) ||
        __builtin_mul_overflow(declared, (size_t)a->columns, &declared) || declared != present) {
        return err_at(
            err, ERR_INVALID, "#/header/shape",
            "The NPY header of %s declares %lld x %lld elements of %zu bytes, but %zu bytes "
            "follow it.",
            a->who, (long long)a->rows, (long long)a->columns, a->size, present);
    }
    return 0;
}

static int read_header(struct ingest_array *a, bool texts, struct err *err)
{
    struct header h = {.a = a, .texts = texts};
    size_t start = 0;
    size_t len = 0;
    int r = find_dictionary(&h, &start, &len, err);
    if (r < 0) {
        return r;
    }
    const char *text = (const char *)a->map.data + start;
    struct cursor c = {.at = text, .end = text + len};
    r = read_dictionary(&c, &h, err);
    if (r < 0) {
        return r;
    }
    a->data = (const unsigned char *)a->map.data + start + len;
    return check_size(a, a->map.size - start - len, err);
}

int ingest_array_open(struct ingest_array *a, const char *path, const char *who, struct err *err)
{
    *a = (struct ingest_array){.who = who};
    int r = file_map_open(path, &a->map, err);
    return r < 0 ? r : read_header(a, false, err);
}

int ingest_array_open_any(struct ingest_array *a, const char *path, const char *who,
                          struct err *err)
{
    *a = (struct ingest_array){.who = who};
    int r = file_map_open(path, &a->map, err);
    return r < 0 ? r : read_header(a, true, err);
}

int ingest_array_view(struct ingest_array *a, const void *data, size_t size, const char *who,
                      struct err *err)
{
    *a = (struct ingest_array){.who = who};
    a->map = (struct file_map){.data = (void *)(uintptr_t)data, .size = size};
    const int r = read_header(a, false, err);
    a->map = (struct file_map){.data = NULL};
    return r;
}

void ingest_array_close(struct ingest_array *a)
{
    file_map_close(&a->map);
    a->data = NULL;
}

enum dtype ingest_array_dtype(const struct ingest_array *a)
{
    return a->element != NULL ? a->element->dtype : DTYPE_F32;
}

/* ---- elements ---- */

/* IEEE 754 binary16. */
static double from_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    int fraction = h & 1023;
    double v = 0;
    if (exponent == 31) {
        v = fraction == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        v = ldexp(fraction, -24);
    } else {
        v = ldexp(fraction + 1024, exponent - 25);
    }
    return (h & 0x8000) != 0 ? -v : v;
}

static double from_float(const struct ingest_element *e, uint64_t bits)
{
    if (e->size == 2) {
        return from_half((uint16_t)bits);
    }
    if (e->size == 4) {
        uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof(f));
        return f;
    }
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* NaN stands for a 64-bit integer that is not exact. */
static double from_integer(const struct ingest_element *e, uint64_t bits)
{
    if (e->kind == 'b') {
        return bits != 0;
    }
    if (e->kind == 'u') {
        return bits <= (uint64_t)EXACT_INTEGER ? (double)bits : NAN;
    }
    int unused = 64 - 8 * e->size;
    int64_t v = (int64_t)(bits << unused) >> unused; // gcc shifts the sign in.
    return v >= -EXACT_INTEGER && v <= EXACT_INTEGER ? (double)v : NAN;
}

static inline double element_at(const struct ingest_array *a, const unsigned char *p)
{
    const struct ingest_element *e = a->element;
    uint64_t bits = 0;
    memcpy(&bits, p, (size_t)e->size);
    if (a->swap) {
        bits = __builtin_bswap64(bits) >> (64 - 8 * e->size);
    }
    return e->kind == 'f' ? from_float(e, bits) : from_integer(e, bits);
}

static int refuse(const struct ingest_array *a, int64_t row, int64_t column, const char *advice,
                  struct err *err, const char *what)
{
    char pointer[96];
    snprintf(pointer, sizeof(pointer), "#/row/%lld/column/%lld", (long long)row, (long long)column);
    return err_at(err, ERR_INVALID, pointer, "Row %lld, column %lld of %s (counted from 0): %s.%s",
                  (long long)row, (long long)column, a->who, what, advice);
}

int ingest_array_error(const struct ingest_array *a, int64_t row, int64_t column, struct err *err,
                       const char *fmt, ...)
{
    char what[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    return refuse(a, row, column, "", err, what);
}

static const unsigned char *place_of(const struct ingest_array *a, int64_t row, int64_t column)
{
    const int64_t i = a->fortran ? column * a->rows + row : row * a->columns + column;
    return a->data + (size_t)i * (size_t)a->element->size;
}

static int element_error(const struct ingest_array *a, int64_t row, int64_t column, struct err *err)
{
    const bool real = a->element->kind == 'f';
    const bool nan = real && isnan(element_at(a, place_of(a, row, column)));
    return refuse(a, row, column, nan && !a->missing && a->advice != NULL ? a->advice : "", err,
                  real ? "the value is not finite" : "the integer is too large for a float64");
}

/* A run of `count` elements, `step` bytes apart, into ret[i * stride]. Returns the place of the
 * first that is refused, or -1. */
static int64_t read_run(const struct ingest_array *a, const unsigned char *p, size_t step,
                        int64_t count, double *ret, int64_t stride)
{
    for (int64_t i = 0; i < count; i++) {
        double v = element_at(a, p + (size_t)i * step);
        if (!isfinite(v) && !(a->missing && isnan(v) && a->element->kind == 'f')) {
            return i;
        }
        ret[i * stride] = v;
    }
    return -1;
}

int ingest_array_read(const struct ingest_array *a, int64_t first, int64_t count, double *ret,
                      int64_t stride, struct err *err)
{
    size_t size = (size_t)a->element->size;
    if (a->fortran) {
        for (int64_t j = 0; j < a->columns; j++) {
            const unsigned char *p = a->data + (size_t)(j * a->rows + first) * size;
            int64_t bad = read_run(a, p, size, count, ret + j, stride);
            if (bad >= 0) {
                return element_error(a, first + bad, j, err);
            }
        }
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *p = a->data + (size_t)((first + i) * a->columns) * size;
        int64_t bad = read_run(a, p, size, a->columns, ret + i * stride, 1);
        if (bad >= 0) {
            return element_error(a, first + i, bad, err);
        }
    }
    return 0;
}
