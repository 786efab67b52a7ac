#include "export/protobuf.h"

#include <string.h>

/* Numbers that are converted at a time. */
enum { BLOCK = 4096 };

enum wire_type { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void protobuf_deinit(struct protobuf *p)
{
    buf_deinit(&p->text);
    p->arrays = 0;
}

static uint64_t bytes_of(const struct numbers *n)
{
    return (uint64_t)n->count * dtype_size(n->to);
}

uint64_t protobuf_size(const struct protobuf *p)
{
    uint64_t size = p->text.len;
    for (int i = 0; i < p->arrays; i++) {
        size += bytes_of(&p->array[i].numbers);
    }
    return size;
}

/* ---- fields ---- */

static void add_varint(struct protobuf *p, uint64_t value)
{
    while (value >= 0x80) {
        buf_char(&p->text, (char)(value | 0x80));
        value >>= 7;
    }
    buf_char(&p->text, (char)value);
}

static void add_tag(struct protobuf *p, int field, enum wire_type type)
{
    add_varint(p, (uint64_t)field << 3 | (uint64_t)type);
}

void protobuf_int(struct protobuf *p, int field, int64_t value)
{
    add_tag(p, field, WIRE_VARINT);
    add_varint(p, (uint64_t)value);
}

void protobuf_bytes(struct protobuf *p, int field, const void *data, size_t size)
{
    add_tag(p, field, WIRE_BYTES);
    add_varint(p, size);
    buf_add(&p->text, data, size);
}

void protobuf_string(struct protobuf *p, int field, const char *text)
{
    protobuf_bytes(p, field, text, strlen(text));
}

static void add_array(struct protobuf *p, size_t at, const struct numbers *numbers)
{
    if (p->arrays == PROTOBUF_ARRAYS_MAX) {
        p->text.failed = true;
        return;
    }
    p->array[p->arrays].at = at;
    p->array[p->arrays].numbers = *numbers;
    p->arrays++;
}

void protobuf_numbers(struct protobuf *p, int field, const struct numbers *numbers)
{
    add_tag(p, field, WIRE_BYTES);
    add_varint(p, bytes_of(numbers));
    add_array(p, p->text.len, numbers);
}

void protobuf_append(struct protobuf *p, struct protobuf *other)
{
    const size_t before = p->text.len;
    buf_add(&p->text, other->text.data, other->text.len);
    for (int i = 0; i < other->arrays; i++) {
        add_array(p, before + other->array[i].at, &other->array[i].numbers);
    }
    p->text.failed = p->text.failed || other->text.failed;
    protobuf_deinit(other);
}

void protobuf_message(struct protobuf *p, int field, struct protobuf *child)
{
    add_tag(p, field, WIRE_BYTES);
    add_varint(p, protobuf_size(child));
    protobuf_append(p, child);
}

/* ---- writing ---- */

static double number_at(const struct numbers *n, int64_t k)
{
    const double x =
        n->from == DTYPE_F32 ? (double)((const float *)n->data)[k] : ((const double *)n->data)[k];
    return n->divide != NULL ? x / n->divide[k % n->period] : x;
}

static int write_numbers(const struct numbers *n,
                         int (*sink)(void *context, const void *data, size_t size, struct err *err),
                         void *context, struct err *err)
{
    if (n->from == n->to && n->divide == NULL) {
        return sink(context, n->data, (size_t)bytes_of(n), err);
    }
    union {
        float f32[BLOCK];
        double f64[BLOCK];
    } block;
    int r = 0;
    for (int64_t first = 0; r == 0 && first < n->count; first += BLOCK) {
        const int64_t count = n->count - first < BLOCK ? n->count - first : BLOCK;
        for (int64_t i = 0; i < count; i++) {
            const double x = number_at(n, first + i);
            if (n->to == DTYPE_F32) {
                block.f32[i] = (float)x;
            } else {
                block.f64[i] = x;
            }
        }
        r = sink(context, &block, (size_t)count * dtype_size(n->to), err);
    }
    return r;
}

int protobuf_write(const struct protobuf *p,
                   int (*sink)(void *context, const void *data, size_t size, struct err *err),
                   void *context, struct err *err)
{
    if (p->text.failed) {
        return err_no_memory(err);
    }
    if (protobuf_size(p) > PROTOBUF_SIZE_MAX) {
        return err_set(err, ERR_UNSUPPORTED,
                       "The model would be larger than 2 GiB, which no reader of ONNX takes.");
    }
    size_t at = 0;
    int r = 0;
    for (int i = 0; r == 0 && i < p->arrays; i++) {
        r = sink(context, p->text.data + at, p->array[i].at - at, err);
        at = p->array[i].at;
        r = r == 0 ? write_numbers(&p->array[i].numbers, sink, context, err) : r;
    }
    return r == 0 ? sink(context, p->text.data + at, p->text.len - at, err) : r;
}
