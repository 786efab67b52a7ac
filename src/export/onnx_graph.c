#include "export/onnx_graph.h"

#include <string.h>

/* onnx.proto */
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
};
enum {
    TYPE_INT = 2,
    TYPE_STRING = 3,
    TYPE_TENSOR = 4,
    TYPE_GRAPH = 5,
    TYPE_FLOATS = 6,
    TYPE_INTS = 7,
};
enum {
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_STRING_DATA = 6,
    TENSOR_INT64_DATA = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
};
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR_TYPE = 1 };
enum {
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2
};

/* ---- attributes ---- */

static struct protobuf begin(const char *name, int type)
{
    struct protobuf a = PROTOBUF_INIT;
    protobuf_string(&a, ATTRIBUTE_NAME, name);
    protobuf_int(&a, ATTRIBUTE_TYPE, type);
    return a;
}

void onnx_attribute_int(struct protobuf *attributes, const char *name, int64_t value)
{
    struct protobuf a = begin(name, TYPE_INT);
    protobuf_int(&a, ATTRIBUTE_I, value);
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_attribute_string(struct protobuf *attributes, const char *name, const char *value)
{
    struct protobuf a = begin(name, TYPE_STRING);
    protobuf_string(&a, ATTRIBUTE_S, value);
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_attribute_ints(struct protobuf *attributes, const char *name, const int64_t *values,
                         int count)
{
    struct protobuf a = begin(name, TYPE_INTS);
    for (int i = 0; i < count; i++) {
        protobuf_int(&a, ATTRIBUTE_INTS, values[i]);
    }
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_attribute_few(struct protobuf *attributes, const char *name, const float *values,
                        int count)
{
    struct protobuf a = begin(name, TYPE_FLOATS);
    protobuf_bytes(&a, ATTRIBUTE_FLOATS, values, (size_t)count * sizeof *values);
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_attribute_floats(struct protobuf *attributes, const char *name,
                           const struct numbers *numbers)
{
    struct protobuf a = begin(name, TYPE_FLOATS);
    protobuf_numbers(&a, ATTRIBUTE_FLOATS, numbers);
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_attribute_tensor(struct protobuf *attributes, const char *name, double value)
{
    struct protobuf a = begin(name, TYPE_TENSOR), t = PROTOBUF_INIT;
    protobuf_int(&t, TENSOR_DIMS, 1);
    protobuf_int(&t, TENSOR_DATA_TYPE, ONNX_DOUBLE);
    protobuf_bytes(&t, TENSOR_RAW_DATA, &value, sizeof value);
    protobuf_message(&a, ATTRIBUTE_T, &t);
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_attribute_graph(struct protobuf *attributes, const char *name, struct protobuf *graph)
{
    struct protobuf a = begin(name, TYPE_GRAPH);
    protobuf_message(&a, ATTRIBUTE_G, graph);
    protobuf_message(attributes, NODE_ATTRIBUTE, &a);
}

/* ---- nodes ---- */

static void add_names(struct protobuf *node, int field, const char *names)
{
    while (*names != '\0') {
        const size_t n = strcspn(names, " ");
        protobuf_bytes(node, field, names, n);
        names += n + (names[n] == ' ');
    }
}

void onnx_node_of(struct protobuf *graph, const char *domain, const char *op, const char *inputs,
                  const char *outputs, struct protobuf *attributes)
{
    struct protobuf node = PROTOBUF_INIT;
    add_names(&node, NODE_INPUT, inputs);
    add_names(&node, NODE_OUTPUT, outputs);
    protobuf_string(&node, NODE_OP_TYPE, op);
    if (domain[0] != '\0') {
        protobuf_string(&node, NODE_DOMAIN, domain);
    }
    if (attributes != NULL) {
        protobuf_append(&node, attributes);
    }
    protobuf_message(graph, GRAPH_NODE, &node);
}

void onnx_node(struct protobuf *graph, const char *op, const char *inputs, const char *outputs,
               struct protobuf *attributes)
{
    onnx_node_of(graph, "", op, inputs, outputs, attributes);
}

/* ---- constants ---- */

static struct protobuf begin_tensor(const char *name, enum onnx_type type, const int64_t *shape,
                                    int dims)
{
    struct protobuf t = PROTOBUF_INIT;
    for (int i = 0; i < dims; i++) {
        protobuf_int(&t, TENSOR_DIMS, shape[i]);
    }
    protobuf_int(&t, TENSOR_DATA_TYPE, type);
    protobuf_string(&t, TENSOR_NAME, name);
    return t;
}

void onnx_constant(struct protobuf *graph, const char *name, const struct numbers *numbers,
                   const int64_t *shape, int dims)
{
    const enum onnx_type type = numbers->to == DTYPE_F32 ? ONNX_FLOAT : ONNX_DOUBLE;
    struct protobuf t = begin_tensor(name, type, shape, dims);
    protobuf_numbers(&t, TENSOR_RAW_DATA, numbers);
    protobuf_message(graph, GRAPH_INITIALIZER, &t);
}

void onnx_constant_f64(struct protobuf *graph, const char *name, double value)
{
    struct protobuf t = begin_tensor(name, ONNX_DOUBLE, NULL, 0);
    protobuf_bytes(&t, TENSOR_RAW_DATA, &value, sizeof value);
    protobuf_message(graph, GRAPH_INITIALIZER, &t);
}

void onnx_constant_ints(struct protobuf *graph, const char *name, const int64_t *values, int count)
{
    struct protobuf t = begin_tensor(name, ONNX_INT64, (const int64_t[]){count}, 1);
    for (int i = 0; i < count; i++) {
        protobuf_int(&t, TENSOR_INT64_DATA, values[i]);
    }
    protobuf_message(graph, GRAPH_INITIALIZER, &t);
}

void onnx_constant_strings(struct protobuf *graph, const char *name, char *const *texts,
                           int64_t count)
{
    struct protobuf t = begin_tensor(name, ONNX_STRING, &count, 1);
    for (int64_t i = 0; i < count; i++) {
        protobuf_string(&t, TENSOR_STRING_DATA, texts[i]);
    }
    protobuf_message(graph, GRAPH_INITIALIZER, &t);
}

/* ---- the ends ---- */

static void add_dim(struct protobuf *shape, const char *name, int64_t value)
{
    struct protobuf dim = PROTOBUF_INIT;
    if (value >= 0) {
        protobuf_int(&dim, DIM_VALUE, value);
    } else {
        protobuf_string(&dim, DIM_PARAM, name);
    }
    protobuf_message(shape, SHAPE_DIM, &dim);
}

static void add_value(struct protobuf *graph, int field, const char *name, enum onnx_type type,
                      int64_t columns)
{
    struct protobuf value = PROTOBUF_INIT, of = PROTOBUF_INIT, tensor = PROTOBUF_INIT;
    struct protobuf shape = PROTOBUF_INIT;
    add_dim(&shape, "rows", -1);
    if (columns != 0) {
        add_dim(&shape, "columns", columns);
    }
    protobuf_int(&tensor, TENSOR_TYPE_ELEMENT, type);
    protobuf_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
    protobuf_message(&of, TYPE_TENSOR_TYPE, &tensor);
    protobuf_string(&value, VALUE_NAME, name);
    protobuf_message(&value, VALUE_TYPE, &of);
    protobuf_message(graph, field, &value);
}

void onnx_input(struct protobuf *graph, const char *name, enum onnx_type type, int64_t columns)
{
    add_value(graph, GRAPH_INPUT, name, type, columns);
}

void onnx_output(struct protobuf *graph, const char *name, enum onnx_type type, int64_t columns)
{
    add_value(graph, GRAPH_OUTPUT, name, type, columns);
}
