#include "export/onnx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "export/formula.h"
#include "export/onnx_graph.h"

/* onnx.proto */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_NAME = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
};
enum { IR_VERSION = 8, OPSET = 17, OPSET_ML = 3 };

static const char ml_domain[] = "ai.onnx.ml";

static struct numbers f64(const double *data, int64_t count)
{
    return (struct numbers){.data = data, .from = DTYPE_F64, .to = DTYPE_F64, .count = count};
}

static struct numbers f32(const double *data, int64_t count)
{
    return (struct numbers){.data = data, .from = DTYPE_F64, .to = DTYPE_F32, .count = count};
}

static void vector(struct protobuf *g, const char *name, const double *data, int64_t count)
{
    const struct numbers n = f64(data, count);
    onnx_constant(g, name, &n, &count, 1);
}

static void matrix(struct protobuf *g, const char *name, const struct numbers *n, int64_t rows,
                   int64_t columns)
{
    onnx_constant(g, name, n, (const int64_t[]){rows, columns}, 2);
}

static void cast(struct protobuf *g, const char *from, const char *to, enum onnx_type type)
{
    struct protobuf a = PROTOBUF_INIT;
    onnx_attribute_int(&a, "to", type);
    onnx_node(g, "Cast", from, to, &a);
}

/* "rows": the number of rows, as a list of one. */
static void add_rows(struct protobuf *g)
{
    struct protobuf a = PROTOBUF_INIT;
    onnx_attribute_int(&a, "start", 0);
    onnx_attribute_int(&a, "end", 1);
    onnx_node(g, "Shape", "X", "rows", &a);
}

/*
 * to = from * factor, from [N, columns] the result of a MatMul. onnxruntime would make a factor
 * that is one constant number part of the product, where it is kept in float32; a factor for each
 * row, whose number is not known before, it leaves alone.
 */
static void add_factor(struct protobuf *g, const char *from, const char *factor, int64_t columns,
                       const char *to)
{
    char name[64], count[64], inputs[160];
    struct protobuf axis = PROTOBUF_INIT;
    onnx_attribute_int(&axis, "axis", 0);
    snprintf(name, sizeof name, "%s_shape", factor);
    snprintf(count, sizeof count, "%s_columns", factor);
    onnx_constant_ints(g, count, &columns, 1);
    snprintf(inputs, sizeof inputs, "rows %s", count);
    onnx_node(g, "Concat", inputs, name, &axis);
    snprintf(inputs, sizeof inputs, "%s %s", factor, name);
    snprintf(name, sizeof name, "%s_rows", factor);
    onnx_node(g, "Expand", inputs, name, NULL);
    snprintf(inputs, sizeof inputs, "%s %s", from, name);
    onnx_node(g, "Mul", inputs, to, NULL);
}

/* ---- points: S [N, d] from X, C [m, d] ---- */

/* Per feature, whether it tells of another (mask) or of which (else its own place). */
static void constant_places(struct protobuf *g, const char *name, const struct model_file *f,
                            bool mask)
{
    int64_t *places = mem_array((size_t)f->d, sizeof *places);
    for (int64_t j = 0; places != NULL && j < f->d; j++) {
        const bool tells = f->feature_indicates[j] >= 0;
        places[j] = mask ? tells : tells ? (int64_t)f->feature_indicates[j] : j;
    }
    g->text.failed = g->text.failed || places == NULL;
    if (places != NULL) {
        onnx_constant_ints(g, name, places, (int)f->d);
    }
    mem_free(places);
}

/* What tells that another feature is missing is 1 where that one is NaN. */
static void add_indicators(struct protobuf *g, const struct model_file *f, bool narrow)
{
    struct protobuf axis = PROTOBUF_INIT;
    onnx_attribute_int(&axis, "axis", 1);
    constant_places(g, "feature_indicates", f, false);
    constant_places(g, "feature_indicator", f, true);
    cast(g, "feature_indicator", "feature_is_indicator", ONNX_BOOL);
    onnx_node(g, "Gather", "X_missing feature_indicates", "X_told_missing", &axis);
    onnx_node(g, "And", "X_told_missing feature_is_indicator", "X_indicated", NULL);
    cast(g, "X_indicated", "X_ones", narrow ? ONNX_FLOAT : ONNX_DOUBLE);
    onnx_node(g, "Where", "X_indicated X_ones X_filled", "X_whole", NULL);
}

/* X without the model's means. Where X is NaN it is what the model fills in, if it does that. */
static void add_centered(struct protobuf *g, const struct model_file *f, bool narrow)
{
    if (f->feature_fill != NULL) {
        const struct numbers fill =
            narrow ? f32(f->feature_fill, f->d) : f64(f->feature_fill, f->d);
        onnx_constant(g, "feature_fill", &fill, &f->d, 1);
        onnx_node(g, "IsNaN", "X", "X_missing", NULL);
        onnx_node(g, "Where", "X_missing feature_fill X",
                  f->feature_indicates != NULL ? "X_filled" : "X_whole", NULL);
    }
    if (f->feature_indicates != NULL) {
        add_indicators(g, f, narrow);
    }
    onnx_node(g, "Sub", f->feature_fill != NULL ? "X_whole feature_mean" : "X feature_mean",
              "X_centered", NULL);
}

/* Float32 models keep their centers, and round their features, to float32. */
static void add_points(struct protobuf *g, const struct model_file *f)
{
    const struct numbers centers = {
        .data = f->centers, .from = f->dtype, .to = f->dtype, .count = f->m * f->d};
    const bool narrow = f->dtype == DTYPE_F32;
    vector(g, "feature_mean", f->feature_mean, f->d);
    vector(g, "feature_scale", f->feature_scale, f->d);
    add_centered(g, f, false);
    onnx_node(g, "Div", "X_centered feature_scale", narrow ? "S_64" : "S", NULL);
    matrix(g, narrow ? "C_32" : "C", &centers, f->m, f->d);
    if (narrow) {
        cast(g, "S_64", "S_32", ONNX_FLOAT);
        cast(g, "S_32", "S", ONNX_DOUBLE);
        cast(g, "C_32", "C", ONNX_DOUBLE);
    }
}

/* ---- distances ---- */

/* P [N, d] and Q [m, d]: the points near the origin, in bandwidths where there is one a feature. */
static void add_scaled(struct protobuf *g, const struct model_file *f, const double *shift)
{
    vector(g, "shift", shift, f->d);
    onnx_node(g, "Sub", "S shift", f->bandwidths != NULL ? "S_near" : "P", NULL);
    onnx_node(g, "Sub", "C shift", f->bandwidths != NULL ? "C_near" : "Q", NULL);
    if (f->bandwidths != NULL) {
        vector(g, "bandwidths", f->bandwidths, f->d);
        onnx_node(g, "Div", "S_near bandwidths", "P", NULL);
        onnx_node(g, "Div", "C_near bandwidths", "Q", NULL);
    }
}

static void add_squares(struct protobuf *g, const char *from, const char *to)
{
    struct protobuf a = PROTOBUF_INIT;
    onnx_attribute_ints(&a, "axes", (const int64_t[]){1}, 1);
    onnx_attribute_int(&a, "keepdims", 1);
    onnx_node(g, "ReduceSumSquare", from, to, &a);
}

/* D2 = |p|^2 + |q|^2 - 2 p.q, not below 0. */
static void add_squared_distances(struct protobuf *g)
{
    onnx_constant_f64(g, "two", 2.0);
    onnx_node(g, "Transpose", "Q", "Q_t", NULL);
    onnx_node(g, "MatMul", "P Q_t", "PQ", NULL);
    add_squares(g, "P", "PP");
    add_squares(g, "Q", "QQ_column");
    onnx_node(g, "Transpose", "QQ_column", "QQ", NULL);
    onnx_node(g, "Add", "PP QQ", "PP_QQ", NULL);
    onnx_node(g, "Mul", "PQ two", "PQ_2", NULL);
    onnx_node(g, "Sub", "PP_QQ PQ_2", "D2_raw", NULL);
    onnx_node(g, "Relu", "D2_raw", "D2", NULL);
}

/* The body of the loop over features: sum + |p - q| or (p - q)^2. */
static struct protobuf scan_body(bool l1)
{
    struct protobuf b = PROTOBUF_INIT;
    protobuf_string(&b, GRAPH_NAME, "feature");
    onnx_constant_ints(&b, "one", (const int64_t[]){1}, 1);
    onnx_node(&b, "Unsqueeze", "p one", "p_column", NULL);
    onnx_node(&b, "Sub", "p_column q", "difference", NULL);
    if (l1) {
        onnx_node(&b, "Abs", "difference", "term", NULL);
    } else {
        onnx_node(&b, "Mul", "difference difference", "term", NULL);
    }
    onnx_node(&b, "Add", "sum term", "sum_next", NULL);
    onnx_input(&b, "sum", ONNX_DOUBLE, -1);
    onnx_input(&b, "p", ONNX_DOUBLE, 0);
    onnx_input(&b, "q", ONNX_DOUBLE, 0);
    onnx_output(&b, "sum_next", ONNX_DOUBLE, -1);
    return b;
}

/* D [N, m]: sums over the features of |p - q|, or the root of those of (p - q)^2. */
static void add_distances(struct protobuf *g, const struct model_file *f, bool l1)
{
    struct protobuf axis = PROTOBUF_INIT, zero = PROTOBUF_INIT;
    struct protobuf scan = PROTOBUF_INIT, body = scan_body(l1);
    onnx_constant_ints(g, "centers", &f->m, 1);
    onnx_attribute_int(&axis, "axis", 0);
    onnx_node(g, "Concat", "rows centers", "shape", &axis);
    onnx_attribute_tensor(&zero, "value", 0.0);
    onnx_node(g, "ConstantOfShape", "shape", "zeros", &zero);
    onnx_node(g, "Transpose", "P", "P_t", NULL);
    onnx_node(g, "Transpose", "Q", "Q_t", NULL);
    onnx_attribute_graph(&scan, "body", &body);
    onnx_attribute_int(&scan, "num_scan_inputs", 2);
    onnx_node(g, "Scan", "zeros P_t Q_t", l1 ? "D" : "D2", &scan);
    if (!l1) {
        onnx_node(g, "Sqrt", "D2", "D", NULL);
    }
}

/* ---- kernel values K [N, m] ---- */

static bool is(const struct model_file *f, const char *kernel)
{
    return strcmp(f->kernel->name, kernel) == 0;
}

/* K = (1 + a) exp(-a), a = sqrt(3) r; or (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r. */
static void add_matern(struct protobuf *g, const struct model_file *f, double bandwidth)
{
    const bool rougher = is(f, "matern32");
    onnx_constant_f64(g, "root", sqrt(rougher ? 3.0 : 5.0) / bandwidth);
    onnx_constant_f64(g, "one", 1.0);
    onnx_node(g, "Sqrt", "D2", "D", NULL);
    onnx_node(g, "Mul", "D root", "a", NULL);
    onnx_node(g, "Add", "a one", rougher ? "factor" : "linear", NULL);
    if (!rougher) {
        onnx_constant_f64(g, "third", 5.0 / 3.0 / (bandwidth * bandwidth));
        onnx_node(g, "Mul", "D2 third", "quadratic", NULL);
        onnx_node(g, "Add", "linear quadratic", "factor", NULL);
    }
    onnx_node(g, "Neg", "a", "exponent", NULL);
    onnx_node(g, "Exp", "exponent", "decay", NULL);
    onnx_node(g, "Mul", "factor decay", "K", NULL);
}

static void add_exponential(struct protobuf *g, const char *from, double factor)
{
    onnx_constant_f64(g, "factor", factor);
    onnx_node(g, "Mul", from, "exponent", NULL);
    onnx_node(g, "Exp", "exponent", "K", NULL);
}

static void add_distance_kernel(struct protobuf *g, const struct model_file *f, const double *shift)
{
    const double s = f->bandwidths != NULL ? 1.0 : f->bandwidth;
    add_scaled(g, f, shift);
    if (!formula_smooth(f)) {
        add_distances(g, f, is(f, "laplacian_l1"));
        add_exponential(g, "D factor", -1.0 / s);
        return;
    }
    add_squared_distances(g);
    if (is(f, "gaussian")) {
        add_exponential(g, "D2 factor", -0.5 / (s * s));
    } else {
        add_matern(g, f, s);
    }
}

static void add_product_kernel(struct protobuf *g, const struct model_file *f)
{
    const bool polynomial = is(f, "polynomial"), sigmoid = is(f, "sigmoid");
    onnx_constant_f64(g, "gamma", f->gamma);
    onnx_constant_f64(g, "coef0", f->coef0);
    onnx_node(g, "Transpose", "C", "C_t", NULL);
    onnx_node(g, "MatMul", "S C_t", "SC", NULL);
    add_factor(g, "SC", "gamma", 1, "SC_gamma");
    onnx_node(g, "Add", "SC_gamma coef0", polynomial || sigmoid ? "base" : "K", NULL);
    if (polynomial) {
        onnx_constant_f64(g, "degree", (double)f->degree);
        onnx_node(g, "Pow", "base degree", "K", NULL);
    } else if (sigmoid) {
        onnx_node(g, "Tanh", "base", "K", NULL);
    }
}

/* ---- the ends ---- */

static void add_answer(struct protobuf *g, const struct model_file *f)
{
    const bool classes = f->task == TASK_CLASSIFICATION;
    const char *out = classes ? "scores" : "y";
    const struct numbers coef = f64(f->coef, f->m * f->t);
    matrix(g, "coef", &coef, f->m, f->t);
    vector(g, "target_scale", f->target_scale, f->t);
    vector(g, "target_mean", f->target_mean, f->t);
    onnx_node(g, "MatMul", "K coef", "sums", NULL);
    add_factor(g, "sums", "target_scale", f->t, "scaled");
    onnx_node(g, "Add", "scaled target_mean", out, NULL);
    if (classes) {
        struct protobuf a = PROTOBUF_INIT;
        onnx_attribute_int(&a, "axis", 1);
        onnx_attribute_int(&a, "keepdims", 0);
        onnx_constant_strings(g, "classes", f->class_labels, f->t);
        onnx_node(g, "ArgMax", "scores", "class", &a);
        onnx_node(g, "Gather", "classes class", "label", NULL);
        onnx_output(g, "label", ONNX_STRING, 0);
    }
    onnx_output(g, out, ONNX_DOUBLE, f->t);
}

static void add_graph(struct protobuf *g, const struct model_file *f, const double *shift)
{
    onnx_input(g, "X", ONNX_DOUBLE, f->d);
    add_rows(g);
    add_points(g, f);
    if (f->kernel->has_bandwidth) {
        add_distance_kernel(g, f, shift);
    } else {
        add_product_kernel(g, f);
    }
    add_answer(g, f);
}

/* ---- SVMRegressor ---- */

bool onnx_svm_fits(const struct model_file *f)
{
    return is(f, "gaussian") && f->task == TASK_REGRESSION && f->t == 1;
}

/* One bandwidth a feature is part of the points' scale. */
static void add_svm_points(struct protobuf *g, const struct model_file *f)
{
    const struct numbers mean = f32(f->feature_mean, f->d), scale = f32(f->feature_scale, f->d);
    onnx_constant(g, "feature_mean", &mean, &f->d, 1);
    onnx_constant(g, "feature_scale", &scale, &f->d, 1);
    add_centered(g, f, true);
    onnx_node(g, "Div", "X_centered feature_scale", f->bandwidths != NULL ? "S_wide" : "S", NULL);
    if (f->bandwidths != NULL) {
        const struct numbers bandwidths = f32(f->bandwidths, f->d);
        onnx_constant(g, "bandwidths", &bandwidths, &f->d, 1);
        onnx_node(g, "Div", "S_wide bandwidths", "S", NULL);
    }
}

/* The bias, rho, is 0: the target's mean is added in the end. */
static void add_svm(struct protobuf *g, const struct model_file *f)
{
    const double s = f->bandwidths != NULL ? 1.0 : f->bandwidth;
    const float rho = 0.0F, params[] = {(float)(0.5 / (s * s)), 0.0F, 0.0F};
    const struct numbers coef = f32(f->coef, f->m);
    const struct numbers centers = {.data = f->centers,
                                    .from = f->dtype,
                                    .to = DTYPE_F32,
                                    .count = f->m * f->d,
                                    .divide = f->bandwidths,
                                    .period = f->d};
    struct protobuf a = PROTOBUF_INIT;
    onnx_attribute_floats(&a, "coefficients", &coef);
    onnx_attribute_floats(&a, "support_vectors", &centers);
    onnx_attribute_few(&a, "kernel_params", params, 3);
    onnx_attribute_few(&a, "rho", &rho, 1);
    onnx_attribute_string(&a, "kernel_type", "RBF");
    onnx_attribute_int(&a, "n_supports", f->m);
    onnx_node_of(g, ml_domain, "SVMRegressor", "S", "sums", &a);
}

static void add_svm_graph(struct protobuf *g, const struct model_file *f)
{
    const struct numbers scale = f32(f->target_scale, 1), mean = f32(f->target_mean, 1);
    onnx_input(g, "X", ONNX_FLOAT, f->d);
    add_svm_points(g, f);
    add_svm(g, f);
    onnx_constant(g, "target_scale", &scale, &f->t, 1);
    onnx_constant(g, "target_mean", &mean, &f->t, 1);
    onnx_node(g, "Mul", "sums target_scale", "scaled", NULL);
    onnx_node(g, "Add", "scaled target_mean", "y", NULL);
    onnx_output(g, "y", ONNX_FLOAT, 1);
}

/* ---- the model ---- */

static void add_opset(struct protobuf *model, const char *domain, int64_t version)
{
    struct protobuf p = PROTOBUF_INIT;
    protobuf_string(&p, OPSET_DOMAIN, domain);
    protobuf_int(&p, OPSET_VERSION, version);
    protobuf_message(model, MODEL_OPSET, &p);
}

static void add_metadata(struct protobuf *model, const struct json *about)
{
    for (const struct json *at = about != NULL ? json_first(about) : NULL; at != NULL;
         at = json_next(at)) {
        struct protobuf p = PROTOBUF_INIT;
        protobuf_string(&p, ENTRY_KEY, json_key(at));
        protobuf_string(&p, ENTRY_VALUE, json_string(at));
        protobuf_message(model, MODEL_METADATA, &p);
    }
}

int onnx_write(const struct model_file *f, bool svm, const struct json *about,
               int (*sink)(void *context, const void *data, size_t size, struct err *err),
               void *context, struct err *err)
{
    struct protobuf model = PROTOBUF_INIT, graph = PROTOBUF_INIT;
    cleanup_mem double *shift = formula_shift(f);
    if (shift == NULL) {
        return err_no_memory(err);
    }
    protobuf_int(&model, MODEL_IR_VERSION, IR_VERSION);
    protobuf_string(&model, MODEL_PRODUCER, "krrd");
    protobuf_string(&model, MODEL_PRODUCER_VERSION, KRRD_VERSION);
    add_opset(&model, "", OPSET);
    protobuf_string(&graph, GRAPH_NAME, "kernel_ridge_regression");
    if (svm) {
        add_opset(&model, ml_domain, OPSET_ML);
        add_svm_graph(&graph, f);
    } else {
        add_graph(&graph, f, shift);
    }
    protobuf_message(&model, MODEL_GRAPH, &graph);
    add_metadata(&model, about);
    const int r = protobuf_write(&model, sink, context, err);
    protobuf_deinit(&model);
    return r;
}
