#include "wire/model_file.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "wire/names.h"

/* Models are written as the first version has them that does, so that all readers take them: 1 has
 * no variance, 2 has one, 3 fills in what is missing and may have one, 4 also tells what was. */
enum {
    FORMAT_VERSION = 1,
    VARIANCE_VERSION = 2,
    FILL_VERSION = 3,
    INDICATE_VERSION = 4,
    NAMES_MAX = 1 << 30
};

static int corrupt(struct err *err, const char *what)
{
    return err_set(err, ERR_CORRUPT, "The model file is damaged: %s.", what);
}

static int corrupt_tensor(struct err *err, const char *name, const char *what)
{
    return err_set(err, ERR_CORRUPT, "The model file is damaged: the tensor \"%s\" %s.", name,
                   what);
}

/* `why`: what the tables say of the member at its pointer. */
static int corrupt_member(struct err *err, int rc, const struct err *why)
{
    if (rc != -ERR_INVALID) {
        return rc == 0 ? 0 : err_no_memory(err);
    }
    return err_set(err, ERR_CORRUPT, "The model file is damaged at %s of its description: %s",
                   why->pointer, why->detail);
}

static bool has_param(const struct method_def *kernel, const char *key)
{
    for (const struct param_def *p = kernel->params; p != NULL && p->key != NULL; p++) {
        if (strcmp(p->key, key) == 0) {
            return true;
        }
    }
    return false;
}

void model_file_deinit(struct model_file *f)
{
    names_free(f->feature_names, f->d);
    names_free(f->target_names, f->outputs);
    names_free(f->class_labels, f->t);
    *f = (struct model_file){.m = 0};
}

/* ---- the tensors ---- */

/* Every tensor of a model with its shape and where its data are kept. The float64 ones come first:
 * behind float32 centers they might not be aligned. */
struct slot {
    const char *name;
    enum dtype dtype;
    int dims;
    int64_t shape[2];
    const void **data;
};

static void list_slots(struct model_file *f, struct slot ret[MODEL_FILE_TENSORS])
{
    const struct slot slots[MODEL_FILE_TENSORS] = {
        {"coef", DTYPE_F64, 2, {f->m, f->t}, (const void **)&f->coef},
        {"feature_mean", DTYPE_F64, 1, {f->d, 1}, (const void **)&f->feature_mean},
        {"feature_scale", DTYPE_F64, 1, {f->d, 1}, (const void **)&f->feature_scale},
        {"target_mean", DTYPE_F64, 1, {f->t, 1}, (const void **)&f->target_mean},
        {"target_scale", DTYPE_F64, 1, {f->t, 1}, (const void **)&f->target_scale},
        {"feature_fill", DTYPE_F64, 1, {f->d, 1}, (const void **)&f->feature_fill},
        {"feature_indicates", DTYPE_F64, 1, {f->d, 1}, (const void **)&f->feature_indicates},
        {"bandwidths", DTYPE_F64, 1, {f->d, 1}, (const void **)&f->bandwidths},
        {"variance_factor", DTYPE_F64, 2, {f->m, f->p}, (const void **)&f->variance_factor},
        {"prior_variance", DTYPE_F64, 1, {f->t, 1}, (const void **)&f->prior_variance},
        {"noise_variance", DTYPE_F64, 1, {f->t, 1}, (const void **)&f->noise_variance},
        {"centers", f->dtype, 2, {f->m, f->d}, &f->centers},
    };
    memcpy(ret, slots, sizeof(slots));
}

int model_file_tensors(const struct model_file *f, struct tensor_info ret[MODEL_FILE_TENSORS])
{
    struct model_file view = *f;
    struct slot slots[MODEL_FILE_TENSORS];
    int count = 0;
    list_slots(&view, slots);
    for (int i = 0; i < MODEL_FILE_TENSORS; i++) {
        const struct slot *s = &slots[i];
        if (*s->data == NULL) {
            continue;
        }
        struct tensor_info *info = &ret[count++];
        *info = (struct tensor_info){
            .dtype = s->dtype,
            .dims = s->dims,
            .shape = {s->shape[0], s->shape[1]},
            .bytes = (size_t)s->shape[0] * (size_t)s->shape[1] * dtype_size(s->dtype),
            .data = *s->data,
        };
        memcpy(info->name, s->name, strlen(s->name) + 1);
    }
    return count;
}

static double number_at(const struct tensor_info *t, int64_t k)
{
    return t->dtype == DTYPE_F32 ? (double)((const float *)t->data)[k]
                                 : ((const double *)t->data)[k];
}

static bool all_finite(const struct tensor_info *t)
{
    for (int64_t k = 0; k < t->shape[0] * t->shape[1]; k++) {
        if (!isfinite(number_at(t, k))) {
            return false;
        }
    }
    return true;
}

static int take_tensor(const struct tensors *file, const struct slot *s, struct err *err)
{
    const struct tensor_info *t = tensors_find(file, s->name);
    if (t == NULL || t->dtype != s->dtype || t->dims != s->dims || t->shape[0] != s->shape[0] ||
        t->shape[1] != s->shape[1]) {
        return corrupt_tensor(err, s->name,
                              t == NULL ? "is missing" : "has the wrong type or shape");
    }
    if (!all_finite(t)) {
        return corrupt_tensor(err, s->name, "holds infinity or NaN");
    }
    *s->data = t->data;
    return 0;
}

static bool none_negative(const double *x, int64_t n)
{
    for (int64_t i = 0; x != NULL && i < n; i++) {
        if (!(x[i] >= 0)) {
            return false;
        }
    }
    return true;
}

/* Places of features that tell of no other themselves, and -1. */
static bool are_indicators(const double *of, int64_t d)
{
    for (int64_t j = 0; of != NULL && j < d; j++) {
        if (of[j] != -1 && !(of[j] >= 0 && of[j] < (double)d && of[j] == trunc(of[j]) &&
                             of[(int64_t)of[j]] == -1)) {
            return false;
        }
    }
    return true;
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

/* Backends take points times a factor of about 1 / bandwidth, in the centers' type. What any of
 * them could be trained with passes: none has a factor of half of it. */
static int check_centers(const struct tensor_info *centers, const struct model_file *f,
                         struct err *err)
{
    const double most = f->dtype == DTYPE_F32 ? (double)FLT_MAX : DBL_MAX;
    const int64_t rows = f->kernel->has_bandwidth ? f->m : 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < f->d; j++) {
            const double bandwidth = f->bandwidths != NULL ? f->bandwidths[j] : f->bandwidth;
            if (!(fabs(number_at(centers, i * f->d + j) * (0.5 / bandwidth)) <= most)) {
                return err_set(err, ERR_CORRUPT,
                               "The model file is damaged: center %" PRId64
                               " divided by the bandwidth is infinity or NaN in %s.",
                               i + 1, dtype_name(f->dtype));
            }
        }
    }
    return 0;
}

/* The columns of the factor, where the file is of the version that has one. */
static int read_factor_size(const struct tensors *file, struct model_file *f, struct err *err)
{
    const struct tensor_info *factor = tensors_find(file, "variance_factor");
    if (factor == NULL || factor->dims != 2 || factor->shape[1] < 1) {
        return corrupt(err, "it has no factor of its variance");
    }
    f->p = factor->shape[1];
    return 0;
}

/* Which tensors a file has that not all have. */
struct extent {
    bool bandwidths, variance, fill, indicates;
};

static bool is_wanted(const struct slot *s, const struct model_file *f, const struct extent *e)
{
    const void **at = s->data;
    const bool variance = at == (const void **)&f->variance_factor ||
                          at == (const void **)&f->prior_variance ||
                          at == (const void **)&f->noise_variance;
    return at == (const void **)&f->bandwidths          ? e->bandwidths
           : at == (const void **)&f->feature_fill      ? e->fill
           : at == (const void **)&f->feature_indicates ? e->indicates
                                                        : !variance || e->variance;
}

static int read_tensors(const struct tensors *file, struct model_file *f, const struct extent *e,
                        struct err *err)
{
    const struct tensor_info *centers = tensors_find(file, "centers");
    if (centers == NULL || centers->dims != 2 || centers->shape[0] < 1) {
        return corrupt(err, "it has no centers");
    }
    f->m = centers->shape[0];
    f->dtype = centers->dtype;
    const int count = MODEL_FILE_TENSORS - (e->bandwidths ? 0 : 1) - (e->variance ? 0 : 3) -
                      (e->fill ? 0 : 1) - (e->indicates ? 0 : 1);
    if (file->count != count) {
        return corrupt(err, "it has too few or too many tensors");
    }
    struct slot slots[MODEL_FILE_TENSORS];
    list_slots(f, slots);
    int r = 0;
    for (int i = 0; r == 0 && i < MODEL_FILE_TENSORS; i++) {
        r = is_wanted(&slots[i], f, e) ? take_tensor(file, &slots[i], err) : 0;
    }
    if (r == 0 && (!all_positive(f->feature_scale, f->d) || !all_positive(f->target_scale, f->t) ||
                   !all_positive(f->bandwidths, f->d))) {
        return corrupt(err, "a scale or a bandwidth is not positive");
    }
    if (r == 0 && !are_indicators(f->feature_indicates, f->d)) {
        return corrupt(err, "a feature tells of none of the others whether it is missing");
    }
    if (r == 0 &&
        (!none_negative(f->prior_variance, f->t) || !none_negative(f->noise_variance, f->t))) {
        return corrupt(err, "a variance is negative");
    }
    return r == 0 ? check_centers(centers, f, err) : r;
}

/* ---- the metadata ---- */

static bool take_number(const struct json *obj, const char *key, double *ret)
{
    const struct json *j = json_get(obj, key);
    if (j == NULL || json_type(j) != JSON_NUMBER) {
        return false;
    }
    *ret = json_number(j);
    return true;
}

/* In the ranges that jobs have. */
static int check_params(const struct method_def *kernel, const struct json *j, struct err *err)
{
    static const char *const also[] = {"name", "bandwidth", NULL};
    struct param_set set;
    struct err why;
    const int r = param_read(kernel->params, j, also, &set, &why);
    if (r < 0) {
        err_prefix(&why, "#/kernel");
    }
    return corrupt_member(err, r, &why);
}

static int read_kernel(const struct json *j, struct model_file *f, bool *ret_bandwidths,
                       struct err *err)
{
    static const char *const keys[] = {"name", "bandwidth", "gamma", "coef0", "degree", NULL};
    const struct json *name = j != NULL ? json_get(j, "name") : NULL;
    if (name == NULL || json_type(name) != JSON_STRING || json_only_keys(j, keys, NULL) < 0 ||
        (f->kernel = catalog_find(CATALOG_KERNELS, json_string(name))) == NULL) {
        return corrupt(err, "it names no kernel that is known here");
    }
    double degree = 1;
    f->bandwidth = 1.0;
    f->gamma = 1.0;
    const bool scalar = take_number(j, "bandwidth", &f->bandwidth);
    const bool gamma = take_number(j, "gamma", &f->gamma);
    const bool coef0 = take_number(j, "coef0", &f->coef0);
    const bool has_degree = take_number(j, "degree", &degree);
    if (f->kernel->has_bandwidth ? gamma || coef0 || has_degree : !gamma || !coef0 || scalar) {
        return corrupt(err, "the kernel's parameters do not belong to it");
    }
    if (!(f->bandwidth > 0) || has_degree != has_param(f->kernel, "degree")) {
        return corrupt(err, "a parameter of the kernel is missing or out of range");
    }
    const int r = check_params(f->kernel, j, err);
    if (r < 0) {
        return r;
    }
    f->degree = (int)degree;
    *ret_bandwidths = f->kernel->has_bandwidth && !scalar;
    return 0;
}

/* As those of data sets: none is empty, none stands there twice. */
static int check_names(const struct model_file *f, struct err *err)
{
    struct err why;
    int r = names_check_distinct(f->feature_names, f->d, "features", &why);
    r = r < 0 ? r : names_check_distinct(f->target_names, f->outputs, "targets", &why);
    if (r == 0 && f->task == TASK_CLASSIFICATION) {
        r = names_check_distinct(f->class_labels, f->t, "classes", &why);
    }
    return corrupt_member(err, r, &why);
}

static int read_names(const struct json *j, struct model_file *f, struct err *err)
{
    int r = names_read(j, "features", 1, NAMES_MAX, &f->feature_names, &f->d, err);
    if (r == 0) {
        r = names_read(j, "targets", 1, NAMES_MAX, &f->target_names, &f->outputs, err);
    }
    f->t = f->outputs;
    if (r == 0 && f->task == TASK_CLASSIFICATION) {
        r = names_read(j, "classes", 1, NAMES_MAX, &f->class_labels, &f->t, err);
        if (r == 0 && f->outputs != 1) {
            return corrupt(err, "a classification has one target");
        }
        if (r == 0 && f->t < 2) {
            return corrupt(err, "a classification has two classes at least");
        }
    }
    return r == 0              ? check_names(f, err)
           : r == -ERR_INVALID ? corrupt(err, "its lists of names have the wrong form")
                               : r;
}

static int read_metadata(const struct json *j, const struct tensors *file, struct model_file *f,
                         struct extent *ret, struct err *err)
{
    static const char *const keys[] = {"version", "kernel",  "task", "features",
                                       "targets", "classes", NULL};
    double version = 0;
    const struct json *task = json_type(j) == JSON_OBJECT ? json_get(j, "task") : NULL;
    if (task == NULL || json_only_keys(j, keys, NULL) < 0 || json_type(task) != JSON_STRING ||
        task_parse(json_string(task), &f->task, NULL) < 0 || f->task == TASK_AUTO ||
        !take_number(j, "version", &version)) {
        return corrupt(err, "its description has the wrong form");
    }
    if (!(version >= FORMAT_VERSION && version <= INDICATE_VERSION && version == trunc(version))) {
        return err_set(err, ERR_UNSUPPORTED,
                       "The model file has version %g; versions %d to %d are read.", version,
                       FORMAT_VERSION, INDICATE_VERSION);
    }
    ret->indicates = version == INDICATE_VERSION;
    ret->fill = version >= FILL_VERSION;
    ret->variance =
        ret->fill ? tensors_find(file, "variance_factor") != NULL : version == VARIANCE_VERSION;
    if ((json_get(j, "classes") != NULL) != (f->task == TASK_CLASSIFICATION)) {
        return corrupt(err, "class labels and task do not agree");
    }
    const int r = read_names(j, f, err);
    return r == 0 ? read_kernel(json_get(j, "kernel"), f, &ret->bandwidths, err) : r;
}

static int parse_metadata(const struct tensors *file, struct json **ret, struct err *err)
{
    const char *text = tensors_metadata(file, "model");
    if (text == NULL) {
        return corrupt(err, "it has no description");
    }
    const int r = json_parse(text, strlen(text), ret, err);
    return r == -ERR_PARSE ? corrupt(err, "its description is not JSON") : r;
}

int model_file_open(const void *image, size_t size, struct model_file *ret,
                    struct tensors *ret_tensors, struct err *err)
{
    struct tensors file;
    int r = tensors_open(image, size, &file, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *j = NULL;
    struct extent e = {.fill = false};
    struct model_file f = {.m = 0};
    r = parse_metadata(&file, &j, err);
    r = r == 0 ? read_metadata(j, &file, &f, &e, err) : r;
    r = r == 0 && e.variance ? read_factor_size(&file, &f, err) : r;
    r = r == 0 ? read_tensors(&file, &f, &e, err) : r;
    if (r < 0) {
        model_file_deinit(&f);
    }
    if (r < 0 || ret_tensors == NULL) {
        tensors_deinit(&file);
    } else {
        *ret_tensors = file;
    }
    if (r == 0) {
        *ret = f;
    }
    return r;
}

/* ---- writing ---- */

static void set_numbers(struct json *obj, const char *key, const double *x, int64_t n)
{
    struct json *list = json_set_array(obj, key);
    for (int64_t i = 0; i < n; i++) {
        json_push(list, json_new_number(x[i]));
    }
}

/* Only the members that the kernel reads. */
struct json *model_file_kernel(const struct model_file *f, bool list)
{
    struct json *j = json_new_object();
    json_set_string(j, "name", f->kernel->name);
    if (!f->kernel->has_bandwidth) {
        json_set_number(j, "gamma", f->gamma);
        json_set_number(j, "coef0", f->coef0);
        if (has_param(f->kernel, "degree")) {
            json_set_int(j, "degree", f->degree);
        }
    } else if (f->bandwidths == NULL) {
        json_set_number(j, "bandwidth", f->bandwidth);
    } else if (list) {
        set_numbers(j, "bandwidth", f->bandwidths, f->d);
    }
    return j;
}

/* What a model knows of its own errors: null, or of each target the variance before any data, with
 * k(x,x) = 1, and that of the noise, in the target's own units squared. */
static void describe_variance(const struct model_file *f, struct json *to)
{
    if (f->variance_factor == NULL) {
        json_set(to, "variance", json_new_null());
        return;
    }
    struct json *j = json_set_object(to, "variance");
    json_set_int(j, "directions", f->p);
    set_numbers(j, "prior", f->prior_variance, f->t);
    set_numbers(j, "noise", f->noise_variance, f->t);
}

/* The place of the feature of which another tells that it is missing; of the others null. */
static void describe_indicators(const struct model_file *f, struct json *to)
{
    if (f->feature_indicates == NULL) {
        json_set(to, "indicates", json_new_null());
        return;
    }
    struct json *list = json_set_array(to, "indicates");
    for (int64_t j = 0; j < f->d; j++) {
        const double of = f->feature_indicates[j];
        json_push(list, of >= 0 ? json_new_number(of) : json_new_null());
    }
}

struct json *model_file_describe(const struct model_file *f)
{
    struct json *j = json_new_object();
    json_set(j, "kernel", model_file_kernel(f, true));
    json_set_string(j, "task", task_name(f->task));
    names_write(j, "features", f->feature_names, f->d);
    if (f->feature_fill != NULL) {
        set_numbers(j, "fill", f->feature_fill, f->d);
    } else {
        json_set(j, "fill", json_new_null());
    }
    describe_indicators(f, j);
    names_write(j, "targets", f->target_names, f->outputs);
    if (f->class_labels != NULL) {
        names_write(j, "classes", f->class_labels, f->t);
    } else {
        json_set(j, "classes", json_new_null());
    }
    json_set_int(j, "centers", f->m);
    json_set_string(j, "precision", dtype_name(f->dtype));
    describe_variance(f, j);
    if (json_ok(j)) {
        return j;
    }
    json_free(j);
    return NULL;
}

/* The text under the metadata key "model". */
static char *metadata_text(const struct model_file *f)
{
    cleanup_json struct json *j = json_new_object();
    json_set_int(j, "version",
                 f->feature_indicates != NULL ? INDICATE_VERSION
                 : f->feature_fill != NULL    ? FILL_VERSION
                 : f->variance_factor != NULL ? VARIANCE_VERSION
                                              : FORMAT_VERSION);
    json_set(j, "kernel", model_file_kernel(f, false));
    json_set_string(j, "task", task_name(f->task));
    names_write(j, "features", f->feature_names, f->d);
    names_write(j, "targets", f->target_names, f->outputs);
    if (f->class_labels != NULL) {
        names_write(j, "classes", f->class_labels, f->t);
    }
    return json_ok(j) ? json_print(j) : NULL;
}

static struct json *make_metadata(const struct model_file *f, const struct json *more)
{
    cleanup_mem char *text = metadata_text(f);
    struct json *j = text != NULL ? json_new_object() : NULL;
    json_set_string(j, "model", text);
    for (const struct json *at = more != NULL ? json_first(more) : NULL; at != NULL;
         at = json_next(at)) {
        json_set_string(j, json_key(at), json_string(at));
    }
    return j;
}

/* What reading would refuse, so that no model is kept that nobody can load. */
static int check_numbers(const struct model_file *f, struct err *err)
{
    const bool scalar = f->kernel->has_bandwidth && f->bandwidths == NULL;
    struct tensor_info tensor[MODEL_FILE_TENSORS];
    const int count = model_file_tensors(f, tensor);
    if (f->m < 1) {
        return err_set(err, ERR_DIVERGED, "The model has no centers.");
    }
    if (scalar && !(f->bandwidth > 0 && isfinite(f->bandwidth))) {
        return err_at(err, ERR_DIVERGED, "#/kernel/bandwidth",
                      "The model's bandwidth is not a positive number.");
    }
    for (int i = 0; i < count; i++) {
        if (!all_finite(&tensor[i])) {
            return err_set(err, ERR_DIVERGED, "The model's %s hold infinity or NaN.",
                           tensor[i].name);
        }
    }
    return 0;
}

int model_file_write(const struct model_file *f, const struct json *more,
                     int (*sink)(void *context, const void *data, size_t size, struct err *err),
                     void *context, struct err *err)
{
    int r = check_numbers(f, err);
    if (r < 0) {
        return r;
    }
    struct tensors t = {.metadata = make_metadata(f, more)};
    t.count = model_file_tensors(f, t.tensor);
    cleanup_buf struct buf header = BUF_INIT;
    r = json_ok(t.metadata) ? tensors_header(&t, 0, &header, err) : err_no_memory(err);
    r = r == 0 ? sink(context, header.data, header.len, err) : r;
    for (int i = 0; r == 0 && i < t.count; i++) {
        r = sink(context, t.tensor[i].data, t.tensor[i].bytes, err);
    }
    tensors_deinit(&t);
    return r;
}
