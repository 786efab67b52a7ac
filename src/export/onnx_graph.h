/* Pieces of ONNX graphs: nodes, attributes, constants, the two ends. Field numbers are those of
 * onnx.proto; a graph is a protobuf message that these functions append to. */
#pragma once

#include "export/protobuf.h"

enum onnx_type { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_STRING = 8, ONNX_BOOL = 9, ONNX_DOUBLE = 11 };

/* Attributes of a node, gathered in a message of their own. */
void onnx_attribute_int(struct protobuf *attributes, const char *name, int64_t value);
void onnx_attribute_string(struct protobuf *attributes, const char *name, const char *value);
void onnx_attribute_ints(struct protobuf *attributes, const char *name, const int64_t *values,
                         int count);
/* The numbers are written as float32; those of the second one, few, are copied. */
void onnx_attribute_floats(struct protobuf *attributes, const char *name,
                           const struct numbers *numbers);
void onnx_attribute_few(struct protobuf *attributes, const char *name, const float *values,
                        int count);
/* A float64 number as a tensor of one element. */
void onnx_attribute_tensor(struct protobuf *attributes, const char *name, double value);
void onnx_attribute_graph(struct protobuf *attributes, const char *name, struct protobuf *graph);

/* inputs and outputs: names parted by single blanks. `domain` "" is ONNX's own. Takes the
 * attributes, which may be NULL. */
void onnx_node_of(struct protobuf *graph, const char *domain, const char *op, const char *inputs,
                  const char *outputs, struct protobuf *attributes);
void onnx_node(struct protobuf *graph, const char *op, const char *inputs, const char *outputs,
               struct protobuf *attributes);

/* Constants. A shape is a list of `dims` numbers. */
void onnx_constant(struct protobuf *graph, const char *name, const struct numbers *numbers,
                   const int64_t *shape, int dims);
void onnx_constant_f64(struct protobuf *graph, const char *name, double value); /* of shape [] */
void onnx_constant_ints(struct protobuf *graph, const char *name, const int64_t *values, int count);
void onnx_constant_strings(struct protobuf *graph, const char *name, char *const *texts,
                           int64_t count);

/* What goes in and what comes out: [rows, columns], both free where negative; columns 0: [rows]. */
void onnx_input(struct protobuf *graph, const char *name, enum onnx_type type, int64_t columns);
void onnx_output(struct protobuf *graph, const char *name, enum onnx_type type, int64_t columns);
