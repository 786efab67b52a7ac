#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonread.h"
#include "base/mem.h"
#include "server/bodies/infer.h"
#include "server/bodies/infer_tensor.h"
#include "wire/field.h"

struct reading {
    struct jsonread *r;
    struct infer_tensor x;
    const struct served_model *model;
    struct infer in;
    bool id, parameters, inputs, outputs; /* which members were there */
    bool all_binary;                      /* binary_data_output */
    bool binary_told[INFER_OUTPUTS];      /* an output says itself whether it is binary */
};

void infer_deinit(struct infer *in)
{
    in->id = mem_free(in->id);
}

static void reading_deinit(struct reading *b)
{
    jsonread_free(b->r);
    rows_deinit(&b->x.rows);
    infer_deinit(&b->in);
}

#define cleanup_reading __attribute__((cleanup(reading_deinit)))

static int read_id(struct reading *b, struct err *err)
{
    const int token = jsonread_next(b->r, err);
    if (token != JSONREAD_STRING) {
        return token < 0 ? token : err_at(err, ERR_INVALID, "#/id", "The id is a string.");
    }
    b->in.id = mem_strdup(jsonread_str(b->r, NULL));
    return b->in.id ? 0 : err_no_memory(err);
}

/* ---- parameters ---- */

/* A whole number from 0, as clients also send it: in a string. */
static int take_count(struct reading *b, int token, const char *at, int64_t *ret, struct err *err)
{
    const double v = token == JSONREAD_NUMBER ? jsonread_number(b->r) : -1;
    if (v < 0 || v != trunc(v) || v > JSON_WHOLE_MAX) {
        return err_at(err, ERR_INVALID, at, "This is a whole number from 0.");
    }
    *ret = (int64_t)v;
    return 0;
}

static int take_flag(struct reading *b, int token, const char *at, bool *ret, struct err *err)
{
    if (token != JSONREAD_BOOL) {
        return err_at(err, ERR_INVALID, at, "This must be true or false.");
    }
    *ret = jsonread_bool(b->r);
    return 0;
}

static int twice(const char *at, struct err *err)
{
    return err_at(err, ERR_PARSE, at, "The field appears twice.");
}

/* Those that mean nothing here are other servers' and are passed over, as the protocol has it.
 * `seen`: a bit of each that means something. */
static int read_parameter(struct reading *b, unsigned *seen, struct err *err)
{
    enum { TIMEOUT, PRIORITY, BINARY, OTHER } which = OTHER;
    static const char *const places[] = {"#/parameters/timeout", "#/parameters/priority",
                                         "#/parameters/binary_data_output"};
    const char *key = jsonread_str(b->r, NULL);
    which = strcmp(key, "timeout") == 0              ? TIMEOUT
            : strcmp(key, "priority") == 0           ? PRIORITY
            : strcmp(key, "binary_data_output") == 0 ? BINARY
                                                     : OTHER;
    const int token = jsonread_next(b->r, err);
    int64_t microseconds = 0;
    int r = 0;
    if (token < 0) {
        return token;
    }
    if (which != OTHER && (*seen & 1U << which) != 0) {
        return twice(places[which], err);
    }
    *seen |= 1U << which;
    switch (which) {
    case TIMEOUT:
        r = take_count(b, token, places[which], &microseconds, err);
        b->in.timeout_s = (double)microseconds * 1e-6;
        return r;
    case PRIORITY:
        return take_count(b, token, places[which], &b->in.priority, err);
    case BINARY:
        return take_flag(b, token, places[which], &b->all_binary, err);
    case OTHER:
        break;
    }
    return token == JSONREAD_OBJECT_BEGIN || token == JSONREAD_ARRAY_BEGIN
               ? err_at(err, ERR_INVALID, "#/parameters",
                        "Parameters are strings, numbers and booleans.")
               : 0;
}

static int read_parameters(struct reading *b, struct err *err)
{
    unsigned seen = 0;
    int token = jsonread_next(b->r, err);
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, "#/parameters", "Parameters are an object.");
    }
    while (token >= 0 && (token = jsonread_next(b->r, err)) == JSONREAD_KEY) {
        token = read_parameter(b, &seen, err);
    }
    return token < 0 ? token : 0;
}

/* ---- inputs and outputs ---- */

static int read_inputs(struct reading *b, struct err *err)
{
    int token = jsonread_next(b->r, err);
    token = token == JSONREAD_ARRAY_BEGIN ? jsonread_next(b->r, err)
            : token < 0                   ? token
                                          : (int)JSONREAD_NULL;
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, "#/inputs", "The inputs are an array of one tensor, X.");
    }
    int r = token < 0 ? token : infer_tensor_read(&b->x, b->r, err);
    token = r == 0 ? jsonread_next(b->r, err) : r;
    if (token >= 0 && token != JSONREAD_ARRAY_END) {
        return err_at(err, ERR_INVALID, "#/inputs/1", "The model has one input, X.");
    }
    return token < 0 ? token : 0;
}

struct output {
    int which; /* enum infer_output, or -1 */
    bool told, binary;
    bool parameters; /* are there */
};

static int read_output_parameters(struct reading *b, struct output *o, const char *at,
                                  struct err *err)
{
    if (o->parameters) {
        return twice(at, err);
    }
    o->parameters = true;
    int token = jsonread_next(b->r, err);
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, at, "Parameters are an object.");
    }
    while (token >= 0 && (token = jsonread_next(b->r, err)) == JSONREAD_KEY) {
        const char *key = jsonread_str(b->r, NULL);
        const bool binary = strcmp(key, "binary_data") == 0;
        if (strcmp(key, "classification") == 0 || strncmp(key, "shared_memory_", 14) == 0) {
            return err_at(err, ERR_UNSUPPORTED, at, "There is no \"%.40s\" here.", key);
        }
        token = jsonread_next(b->r, err);
        if (token >= 0 && binary && o->told) {
            return twice(at, err);
        }
        if (token >= 0 && binary) {
            o->told = true;
            token = take_flag(b, token, at, &o->binary, err);
        } else if (token >= 0) {
            token = jsonread_skip(b->r, err);
        }
    }
    return token < 0 ? token : 0;
}

static int no_such_output(const struct served_model *m, const char *at, struct err *err)
{
    char names[64] = "";
    size_t len = 0;
    for (int i = 0; i < INFER_OUTPUTS; i++) {
        const struct infer_facts f = infer_facts_of(m, (enum infer_output)i);
        if (f.columns > 0) {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s\"%s\"",
                                    len > 0 ? ", " : "", f.name);
        }
    }
    return err_at(err, ERR_INVALID, at, "There is no such output; the model has %s.", names);
}

static int take_output_name(struct reading *b, struct output *o, const char *at, struct err *err)
{
    if (o->which >= 0) {
        return twice(at, err);
    }
    const int token = jsonread_next(b->r, err);
    if (token < 0) {
        return token;
    }
    const char *name = token == JSONREAD_STRING ? jsonread_str(b->r, NULL) : "";
    for (int i = 0; i < INFER_OUTPUTS; i++) {
        const struct infer_facts f = infer_facts_of(b->model, (enum infer_output)i);
        if (f.columns > 0 && strcmp(name, f.name) == 0) {
            o->which = i;
            return 0;
        }
    }
    return strcmp(name, "variance") == 0 ? question_no_variance(b->model, at, err)
                                         : no_such_output(b->model, at, err);
}

/* The members of an output whose '{' was read. */
static int read_output(struct reading *b, const char *at, struct err *err)
{
    struct output o = {.which = -1};
    int token;
    while ((token = jsonread_next(b->r, err)) == JSONREAD_KEY) {
        const char *key = jsonread_str(b->r, NULL);
        const int r = strcmp(key, "name") == 0 ? take_output_name(b, &o, at, err)
                      : strcmp(key, "parameters") == 0
                          ? read_output_parameters(b, &o, at, err)
                          : err_at(err, ERR_INVALID, at,
                                   "An output has a name and parameters, nothing else.");
        if (r < 0) {
            return r;
        }
    }
    if (token < 0) {
        return token;
    }
    for (int i = 0; i < b->in.output_count; i++) {
        if ((int)b->in.outputs[i] == o.which) {
            return err_at(err, ERR_INVALID, at, "The output is asked for twice.");
        }
    }
    if (o.which < 0) {
        return err_at(err, ERR_INVALID, at, "The output has no name.");
    }
    b->in.outputs[b->in.output_count++] = (enum infer_output)o.which;
    b->binary_told[o.which] = o.told;
    b->in.binary[o.which] = o.binary;
    return 0;
}

static int read_outputs(struct reading *b, struct err *err)
{
    int token = jsonread_next(b->r, err);
    if (token >= 0 && token != JSONREAD_ARRAY_BEGIN) {
        return err_at(err, ERR_INVALID, "#/outputs", "The outputs are an array.");
    }
    for (int i = 0; token >= 0; i++) {
        char at[32];
        snprintf(at, sizeof at, "#/outputs/%d", i);
        token = jsonread_next(b->r, err);
        if (token == JSONREAD_ARRAY_END) {
            return 0;
        }
        if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
            return err_at(err, ERR_INVALID, at, "An output is an object.");
        }
        token = token < 0 ? token : read_output(b, at, err);
    }
    return token;
}

/* ---- the body ---- */

static int read_member(struct reading *b, struct err *err)
{
    const char *key = jsonread_str(b->r, NULL);
    static const char *const names[] = {"id", "parameters", "inputs", "outputs"};
    bool *const seen[] = {&b->id, &b->parameters, &b->inputs, &b->outputs};
    static int (*const readers[])(struct reading * reading, struct err * reason) = {
        read_id, read_parameters, read_inputs, read_outputs};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(key, names[i]) == 0) {
            if (*seen[i]) {
                char at[32];
                snprintf(at, sizeof at, "#/%s", names[i]);
                return twice(at, err);
            }
            *seen[i] = true;
            return readers[i](b, err);
        }
    }
    return field_error(err, key, FIELD_WHOLE, "This field of an inference request is not known.");
}

static int read_json(struct reading *b, struct err *err)
{
    int token = jsonread_next(b->r, err);
    if (token >= 0 && token != JSONREAD_OBJECT_BEGIN) {
        return err_at(err, ERR_INVALID, "#", "An inference request is an object.");
    }
    while (token >= 0 && (token = jsonread_next(b->r, err)) == JSONREAD_KEY) {
        token = read_member(b, err);
    }
    token = token < 0 ? token : jsonread_next(b->r, err); /* END, or an error */
    if (token >= 0 && !b->inputs) {
        return err_at(err, ERR_INVALID, "#/inputs", "The field \"inputs\" is missing.");
    }
    return token < 0 ? token : 0;
}

/* All that come with the predictions, where none was named. */
static void choose_outputs(struct reading *b)
{
    if (b->in.output_count == 0) {
        b->in.outputs[b->in.output_count++] = INFER_Y;
        if (b->model->classes > 0) {
            b->in.outputs[b->in.output_count++] = INFER_SCORES;
        }
    }
    for (int i = 0; i < INFER_OUTPUTS; i++) {
        b->in.binary[i] = b->binary_told[i] ? b->in.binary[i] : b->all_binary;
    }
}

static bool wants(const struct infer *in, enum infer_output which)
{
    for (int i = 0; i < in->output_count; i++) {
        if (in->outputs[i] == which) {
            return true;
        }
    }
    return false;
}

/* header 0: there is no JSON part. */
static int read_all(struct reading *b, const char *body, size_t len, int64_t header,
                    struct err *err)
{
    if (header == 0) {
        b->all_binary = true;
        return infer_tensor_raw(&b->x, body, len, err);
    }
    const size_t json = header == INFER_NO_HEADER ? len : (size_t)header;
    b->x.text = body;
    b->x.len = json;
    int r = jsonread_new(body, json, &b->r, err);
    r = r == 0 ? read_json(b, err) : r;
    return r == 0 ? infer_tensor_finish(&b->x, body + json, len - json, err) : r;
}

int infer_read(const char *body, size_t len, int64_t header, const struct served_model *model,
               struct infer *ret, struct question *ret_question, struct err *err)
{
    if (header >= 0 && (uint64_t)header > len) {
        return err_set(err, ERR_PARSE,
                       "The Inference-Header-Content-Length is %lld, the body has %zu bytes.",
                       (long long)header, len);
    }
    cleanup_reading struct reading b = {.x = {.rows = {.model = model}}, .model = model};
    int r = read_all(&b, body, len, header, err);
    if (r < 0) {
        return r;
    }
    choose_outputs(&b);
    struct question q = {.scores = wants(&b.in, INFER_SCORES),
                         .variance = wants(&b.in, INFER_VARIANCE)};
    r = rows_take(&b.x.rows, "#/inputs/0", &q, err);
    if (r == 0) {
        *ret = b.in;
        b.in.id = NULL;
        *ret_question = q;
    }
    return r;
}
