#include <endian.h>
#include <string.h>

#include "base/json.h"
#include "server/bodies/infer.h"

static const char *label_of(const struct serving_answer *a, int64_t row)
{
    const int64_t k = (int64_t)a->values[row];
    return k >= 0 && k < a->model->classes ? a->model->labels[k] : "";
}

struct infer_facts infer_facts_of(const struct served_model *m, enum infer_output which)
{
    switch (which) {
    case INFER_SCORES:
        return (struct infer_facts){"scores", "FP64", m->classes};
    case INFER_VARIANCE:
        return (struct infer_facts){"variance", "FP64", m->variances};
    default:
        return (struct infer_facts){"y", m->classes > 0 ? "BYTES" : "FP64", m->outputs};
    }
}

/* An output with its data. */
struct tensor {
    const char *name, *datatype;
    int64_t columns;
    const double *numbers; /* [rows, columns]; NULL: labels */
};

static struct tensor tensor_of(const struct serving_answer *a, enum infer_output which)
{
    const struct infer_facts f = infer_facts_of(a->model, which);
    const double *numbers = which == INFER_SCORES     ? a->scores
                            : which == INFER_VARIANCE ? a->variances
                            : a->model->classes == 0  ? a->values
                                                      : NULL;
    return (struct tensor){f.name, f.datatype, f.columns, numbers};
}

static size_t binary_size(const struct tensor *f, const struct serving_answer *a)
{
    if (f->numbers) {
        return (size_t)(a->rows * f->columns) * sizeof(double);
    }
    size_t size = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        size += sizeof(uint32_t) + strlen(label_of(a, i));
    }
    return size;
}

static void write_binary(const struct tensor *f, const struct serving_answer *a, struct buf *b)
{
    const int64_t n = a->rows * f->columns;
    if (f->numbers && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        buf_add(b, f->numbers, (size_t)n * sizeof *f->numbers);
        return;
    }
    for (int64_t i = 0; i < n && f->numbers; i++) {
        uint64_t bits;
        memcpy(&bits, &f->numbers[i], sizeof bits);
        bits = htole64(bits);
        buf_add(b, &bits, sizeof bits);
    }
    for (int64_t i = 0; i < a->rows && !f->numbers; i++) {
        const char *label = label_of(a, i);
        const uint32_t size = htole32((uint32_t)strlen(label));
        buf_add(b, &size, sizeof size);
        buf_str(b, label);
    }
}

static void write_data(const struct tensor *f, const struct serving_answer *a, struct buf *b)
{
    buf_str(b, ",\"data\":[");
    if (f->numbers) {
        buf_json_numbers(b, f->numbers, a->rows * f->columns);
    }
    for (int64_t i = 0; i < a->rows && !f->numbers; i++) {
        if (i > 0) {
            buf_char(b, ',');
        }
        buf_json_string(b, label_of(a, i));
    }
    buf_char(b, ']');
}

static void write_output(const struct infer *in, enum infer_output which,
                         const struct serving_answer *a, struct buf *b)
{
    const struct tensor f = tensor_of(a, which);
    buf_printf(b, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[%lld,%lld]", f.name, f.datatype,
               (long long)a->rows, (long long)f.columns);
    if (in->binary[which]) {
        buf_printf(b, ",\"parameters\":{\"binary_data_size\":%zu}", binary_size(&f, a));
    } else {
        write_data(&f, a, b);
    }
    buf_char(b, '}');
}

void infer_write(const struct infer *in, const struct serving_answer *a, struct buf *ret,
                 size_t *ret_header)
{
    bool binary = false;
    buf_str(ret, "{\"model_name\":");
    buf_json_string(ret, a->model->name);
    buf_printf(ret, ",\"model_version\":\"%lld\"", (long long)a->model->version);
    if (in->id) {
        buf_str(ret, ",\"id\":");
        buf_json_string(ret, in->id);
    }
    buf_printf(ret, ",\"parameters\":{\"digest\":\"%s\"},\"outputs\":[", a->model->digest);
    for (int i = 0; i < in->output_count; i++) {
        if (i > 0) {
            buf_char(ret, ',');
        }
        write_output(in, in->outputs[i], a, ret);
        binary = binary || in->binary[in->outputs[i]];
    }
    buf_str(ret, "]}");
    *ret_header = binary ? ret->len : 0;
    for (int i = 0; i < in->output_count; i++) {
        if (in->binary[in->outputs[i]]) {
            const struct tensor f = tensor_of(a, in->outputs[i]);
            write_binary(&f, a, ret);
        }
    }
}

static void describe(struct json *to, const char *name, const char *datatype, int64_t columns)
{
    struct json *tensor = json_push(to, json_new_object());
    json_set_string(tensor, "name", name);
    json_set_string(tensor, "datatype", datatype);
    struct json *shape = json_set_array(tensor, "shape");
    json_push(shape, json_new_number(-1));
    json_push(shape, json_new_number((double)columns));
}

struct json *infer_describe_inputs(const struct served_model *model)
{
    struct json *inputs = json_new_array();
    describe(inputs, "X", "FP64", model->d);
    return inputs;
}

struct json *infer_describe_outputs(const struct served_model *model)
{
    struct json *outputs = json_new_array();
    for (int i = 0; i < INFER_OUTPUTS; i++) {
        const struct infer_facts f = infer_facts_of(model, (enum infer_output)i);
        if (f.columns > 0) {
            describe(outputs, f.name, f.datatype, f.columns);
        }
    }
    return outputs;
}
