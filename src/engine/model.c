#include "engine/model.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "wire/field.h"
#include "wire/names.h"

enum { FORMAT_VERSION = 1, DEGREE_MAX = 1000, NAMES_MAX = 1 << 30 };

struct model *model_free(struct model *m)
{
    if (m == NULL) {
        return NULL;
    }
    mem_free(m->bandwidths);
    mem_free(m->centers);
    mem_free(m->coef);
    mem_free(m->feature_mean);
    mem_free(m->feature_scale);
    mem_free(m->target_mean);
    mem_free(m->target_scale);
    names_free(m->feature_names, m->d);
    names_free(m->target_names, m->outputs);
    names_free(m->class_labels, m->t);
    return mem_free(m);
}

int64_t model_argmax(const double *scores, int64_t t)
{
    int64_t best = 0;
    for (int64_t j = 1; j < t; j++) {
        if (scores[j] > scores[best]) {
            best = j;
        }
    }
    return best;
}

/* Only the members that the kernel reads. */
static struct json *kernel_to_json(const struct kernel *k)
{
    struct json *j = json_new_object();
    json_set_string(j, "name", kernel_name(k->id));
    if (kernel_uses_distance(k->id)) {
        if (k->bandwidths == NULL) {
            json_set_number(j, "bandwidth", k->bandwidth);
        }
        return j;
    }
    json_set_number(j, "gamma", k->gamma);
    json_set_number(j, "coef0", k->coef0);
    if (k->id == KERNEL_POLYNOMIAL) {
        json_set_int(j, "degree", k->degree);
    }
    return j;
}

struct json *model_describe(const struct model *m)
{
    struct json *j = json_new_object();
    struct json *kernel = json_set(j, "kernel", kernel_to_json(&m->kernel));
    if (m->bandwidths != NULL) {
        struct json *list = json_set_array(kernel, "bandwidth");
        for (int64_t i = 0; i < m->d; i++) {
            json_push(list, json_new_number(m->bandwidths[i]));
        }
    }
    json_set_string(j, "task", task_name(m->task));
    names_write(j, "features", m->feature_names, m->d);
    names_write(j, "targets", m->target_names, m->outputs);
    if (m->class_labels != NULL) {
        names_write(j, "classes", m->class_labels, m->t);
    } else {
        json_set(j, "classes", json_new_null());
    }
    json_set_int(j, "centers", m->m);
    json_set_string(j, "precision", dtype_name(m->dtype));
    if (json_ok(j)) {
        return j;
    }
    json_free(j);
    return NULL;
}

/* The text under the metadata key "model". */
static char *metadata_text(const struct model *m)
{
    cleanup_json struct json *j = json_new_object();
    json_set_int(j, "version", FORMAT_VERSION);
    json_set(j, "kernel", kernel_to_json(&m->kernel));
    json_set_string(j, "task", task_name(m->task));
    names_write(j, "features", m->feature_names, m->d);
    names_write(j, "targets", m->target_names, m->outputs);
    if (m->class_labels != NULL) {
        names_write(j, "classes", m->class_labels, m->t);
    }
    return json_ok(j) ? json_print(j) : NULL;
}

enum { TENSORS_ALL = 7 };

/* Every tensor of a model with its shape and its data, or where reading puts a copy of them. The
 * float64 ones come first: behind float32 centers they might not be aligned. */
struct slot {
    const char *name;
    enum dtype dtype;
    int dims;
    int64_t shape[2];
    void **data;
};

static void list_slots(struct model *m, struct slot ret[TENSORS_ALL])
{
    const struct slot slots[TENSORS_ALL] = {
        {"coef", DTYPE_F64, 2, {m->m, m->t}, (void **)&m->coef},
        {"feature_mean", DTYPE_F64, 1, {m->d, 1}, (void **)&m->feature_mean},
        {"feature_scale", DTYPE_F64, 1, {m->d, 1}, (void **)&m->feature_scale},
        {"target_mean", DTYPE_F64, 1, {m->t, 1}, (void **)&m->target_mean},
        {"target_scale", DTYPE_F64, 1, {m->t, 1}, (void **)&m->target_scale},
        {"bandwidths", DTYPE_F64, 1, {m->d, 1}, (void **)&m->bandwidths},
        {"centers", m->dtype, 2, {m->m, m->d}, &m->centers},
    };
    memcpy(ret, slots, sizeof(slots));
}

static size_t slot_bytes(const struct slot *s)
{
    return (size_t)s->shape[0] * (size_t)s->shape[1] * dtype_size(s->dtype);
}

static void add_tensor(struct tensors *t, const struct slot *s)
{
    struct tensor_info *info = &t->tensor[t->count++];
    *info = (struct tensor_info){
        .dtype = s->dtype,
        .dims = s->dims,
        .shape = {s->shape[0], s->shape[1]},
    };
    memcpy(info->name, s->name, strlen(s->name) + 1);
}

static int write_header(const struct slot *slots, const char *text,
                        int (*sink)(void *context, const void *data, size_t size, struct err *err),
                        void *context, struct err *err)
{
    struct tensors t = {.count = 0, .metadata = json_new_object()};
    json_set_string(t.metadata, "model", text);
    for (int i = 0; i < TENSORS_ALL; i++) {
        if (*slots[i].data != NULL) {
            add_tensor(&t, &slots[i]);
        }
    }
    cleanup_buf struct buf header = BUF_INIT;
    int r = json_ok(t.metadata) ? tensors_header(&t, 0, &header, err) : err_no_memory(err);
    if (r == 0) {
        r = sink(context, header.data, header.len, err);
    }
    tensors_deinit(&t);
    return r;
}

int model_write(const struct model *m,
                int (*sink)(void *context, const void *data, size_t size, struct err *err),
                void *context, struct err *err)
{
    cleanup_mem char *text = metadata_text(m);
    if (text == NULL) {
        return err_no_memory(err);
    }
    struct model view = *m;
    struct slot slots[TENSORS_ALL];
    list_slots(&view, slots);
    int r = write_header(slots, text, sink, context, err);
    for (int i = 0; r == 0 && i < TENSORS_ALL; i++) {
        if (*slots[i].data != NULL) {
            r = sink(context, *slots[i].data, slot_bytes(&slots[i]), err);
        }
    }
    return r;
}

static int corrupt(struct err *err, const char *what)
{
    return err_set(err, ERR_CORRUPT, "The model file is damaged: %s.", what);
}

static bool take_number(const struct json *obj, const char *key, double *ret)
{
    const struct json *j = json_get(obj, key);
    if (j == NULL || json_type(j) != JSON_NUMBER) {
        return false;
    }
    *ret = json_number(j);
    return true;
}

static int read_kernel(const struct json *j, struct model *m, bool *ret_scalar, struct err *err)
{
    static const char *const keys[] = {"name", "bandwidth", "gamma", "coef0", "degree", NULL};
    struct kernel *k = &m->kernel;
    const struct json *name = j != NULL ? json_get(j, "name") : NULL;
    if (name == NULL || json_type(name) != JSON_STRING || json_only_keys(j, keys, NULL) < 0 ||
        kernel_id_parse(json_string(name), &k->id, NULL) < 0) {
        return corrupt(err, "it names no kernel that is known here");
    }
    double degree = 1;
    k->bandwidth = 1.0;
    k->gamma = 1.0;
    const bool scalar = take_number(j, "bandwidth", &k->bandwidth);
    const bool gamma = take_number(j, "gamma", &k->gamma);
    const bool coef0 = take_number(j, "coef0", &k->coef0);
    const bool has_degree = take_number(j, "degree", &degree);
    const bool distance = kernel_uses_distance(k->id);
    if (distance ? gamma || coef0 || has_degree : !gamma || !coef0 || scalar) {
        return corrupt(err, "the kernel's parameters do not belong to it");
    }
    if (!(k->bandwidth > 0) || degree < 1 || degree > DEGREE_MAX || degree != floor(degree) ||
        has_degree != (k->id == KERNEL_POLYNOMIAL)) {
        return corrupt(err, "a parameter of the kernel is out of range");
    }
    k->degree = (int)degree;
    *ret_scalar = scalar;
    return 0;
}

static int read_names(const struct json *j, struct model *m, struct err *err)
{
    int r = names_read(j, "features", 1, NAMES_MAX, &m->feature_names, &m->d, err);
    if (r == 0) {
        r = names_read(j, "targets", 1, NAMES_MAX, &m->target_names, &m->outputs, err);
    }
    m->t = m->outputs;
    if (r == 0 && m->task == TASK_CLASSIFICATION) {
        r = names_read(j, "classes", 1, NAMES_MAX, &m->class_labels, &m->t, err);
        if (r == 0 && m->outputs != 1) {
            return corrupt(err, "a classification has one target");
        }
    }
    return r == -ERR_INVALID ? corrupt(err, "its lists of names have the wrong form") : r;
}

static int read_metadata(const struct json *j, struct model *m, bool *ret_scalar, struct err *err)
{
    static const char *const keys[] = {"version", "kernel",  "task", "features",
                                       "targets", "classes", NULL};
    double version = 0;
    const struct json *task = json_type(j) == JSON_OBJECT ? json_get(j, "task") : NULL;
    if (task == NULL || json_only_keys(j, keys, NULL) < 0 || json_type(task) != JSON_STRING ||
        task_parse(json_string(task), &m->task, NULL) < 0 || m->task == TASK_AUTO ||
        !take_number(j, "version", &version)) {
        return corrupt(err, "its description has the wrong form");
    }
    if (version != FORMAT_VERSION) {
        return err_set(err, ERR_UNSUPPORTED, "The model file has version %g; version %d is read.",
                       version, FORMAT_VERSION);
    }
    if ((json_get(j, "classes") != NULL) != (m->task == TASK_CLASSIFICATION)) {
        return corrupt(err, "class labels and task do not agree");
    }
    const int r = read_names(j, m, err);
    return r == 0 ? read_kernel(json_get(j, "kernel"), m, ret_scalar, err) : r;
}

static bool all_finite(const struct tensor_info *t)
{
    const struct rows all = {
        .dtype = t->dtype, .n = t->shape[0], .d = t->shape[1], .data = t->data};
    for (int64_t k = 0; k < t->shape[0] * t->shape[1]; k++) {
        if (!isfinite(rows_at(&all, 0, k))) {
            return false;
        }
    }
    return true;
}

static int copy_tensor(const struct tensors *file, const struct slot *s, struct err *err)
{
    const struct tensor_info *t = tensors_find(file, s->name);
    if (t == NULL || t->dtype != s->dtype || t->dims != s->dims || t->shape[0] != s->shape[0] ||
        t->shape[1] != s->shape[1]) {
        return corrupt(err, "a tensor is missing or has the wrong shape");
    }
    if (!all_finite(t)) {
        return corrupt(err, "a tensor holds infinity or NaN");
    }
    *s->data = mem_dup(t->data, t->bytes);
    return *s->data != NULL ? 0 : err_no_memory(err);
}

static bool all_positive(const double *x, int64_t n)
{
    for (int64_t i = 0; x != NULL && i < n; i++) {
        if (!(x[i] > 0)) {
            return false;
        }
    }
    return true;
}

static int read_tensors(const struct tensors *file, struct model *m, bool scalar, struct err *err)
{
    const struct tensor_info *centers = tensors_find(file, "centers");
    if (centers == NULL || centers->dims != 2 || centers->shape[0] < 1) {
        return corrupt(err, "it has no centers");
    }
    m->m = centers->shape[0];
    m->dtype = centers->dtype;
    const bool per_feature = !scalar && kernel_uses_distance(m->kernel.id);
    if (file->count != (per_feature ? TENSORS_ALL : TENSORS_ALL - 1)) {
        return corrupt(err, "it has too few or too many tensors");
    }
    struct slot slots[TENSORS_ALL];
    list_slots(m, slots);
    int r = 0;
    for (int i = 0; r == 0 && i < TENSORS_ALL; i++) {
        const bool wanted = slots[i].data != (void **)&m->bandwidths || per_feature;
        r = wanted ? copy_tensor(file, &slots[i], err) : 0;
    }
    if (r == 0 && (!all_positive(m->feature_scale, m->d) || !all_positive(m->target_scale, m->t) ||
                   !all_positive(m->bandwidths, m->d))) {
        return corrupt(err, "a scale or a bandwidth is not positive");
    }
    m->kernel.d = m->d;
    m->kernel.bandwidths = m->bandwidths;
    return r;
}

static int parse_metadata(const struct tensors *file, struct json **ret, struct err *err)
{
    const struct json *text = file->metadata != NULL ? json_get(file->metadata, "model") : NULL;
    if (text == NULL) {
        return corrupt(err, "it has no description");
    }
    const char *s = json_string(text);
    const int r = json_parse(s, strlen(s), ret, err);
    return r == -ERR_PARSE ? corrupt(err, "its description is not JSON") : r;
}

int model_read(const void *image, size_t size, struct model **ret, struct err *err)
{
    struct tensors file;
    int r = tensors_open(image, size, &file, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *j = NULL;
    bool scalar = false;
    struct model *m = mem_zalloc(sizeof(*m));
    r = m != NULL ? parse_metadata(&file, &j, err) : err_no_memory(err);
    if (r == 0) {
        r = read_metadata(j, m, &scalar, err);
    }
    if (r == 0) {
        r = read_tensors(&file, m, scalar, err);
    }
    tensors_deinit(&file);
    if (r < 0) {
        model_free(m);
        return r;
    }
    *ret = m;
    return 0;
}
