/* job_spec_read: one function a field of the document, in its order; spec_methods.c has the
 * kernel, the solver and the centers, spec_solver.c what a solver asks of the rest. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "wire/field.h"
#include "wire/names.h"
#include "wire/spec_parts.h"

static const char *const task_choices[] = {"auto", "regression", "classification", NULL};
static const char *const precision_choices[] = {"auto", "float64", "float32", "mixed", NULL};

/* Far beyond use, and n times it is a number for every n. */
#define REGULARIZATION_MAX 1e100
/* What stands for a regularization until the search has found one. */
#define REGULARIZATION_DEFAULT 1e-6

static const struct param_def scalar_params[] = {
    {
        .key = "task",
        .type = PARAM_CHOICE,
        .choices = task_choices,
        .fallback = "\"auto\"",
        .help = "auto: what the data set's target asks for.",
    },
    {
        .key = "regularization",
        .type = PARAM_REAL,
        .min = 0,
        .max = REGULARIZATION_MAX,
        .fallback = "1e-6",
        .allow_auto = true,
        .allow_null = true,
        .help = "The ridge for each training row: (K + n*regularization*I) a = y; auto: searched "
                "for. Left open together with the kernel it is chosen with that.",
    },
    {
        .key = "precision",
        .type = PARAM_CHOICE,
        .choices = precision_choices,
        .fallback = "\"auto\"",
        .help = "Arithmetic of the solve. mixed: the solver's products take float32 kernel values, "
                "everything else is float64, the model included; pcg refines with float64 "
                "residuals, and goes on in float64 where float32 cannot reach the tolerance. It "
                "keeps the features in both. auto: mixed for pcg with kernels of a distance, else "
                "float64.",
    },
    {
        .key = "kernel_cache_bytes",
        .type = PARAM_INT,
        .min = 0,
        .max = JSON_WHOLE_MAX,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "How much of the kernel matrix may be kept in memory, where the solver multiplies "
                "with it many times and reading is faster than computing; auto: at most a quarter "
                "of the free memory.",
    },
    {
        .key = "seed",
        .type = PARAM_INT,
        .min = 0,
        .max = JSON_WHOLE_MAX,
        .fallback = "0",
        .help = "Of all random choices: split, bandwidth, pivots.",
    },
    {
        .key = "priority",
        .type = PARAM_INT,
        .min = -100,
        .max = 100,
        .fallback = "0",
        .help = "Higher starts first.",
    },
    {
        .key = "max_attempts",
        .type = PARAM_INT,
        .min = 1,
        .max = 10,
        .fallback = "3",
        .help = "How often a job that gets no further may lose its worker before it fails.",
    },
    {.key = NULL},
};

const char *const *job_spec_choices(const char *key)
{
    const struct param_def *p = scalar_params;
    while (p->key != NULL && strcmp(p->key, key) != 0) {
        p++;
    }
    assert(p->choices != NULL);
    return p->choices;
}

static const struct param_def standardize_params[] = {
    {
        .key = "features",
        .type = PARAM_BOOL,
        .fallback = "true",
        .help = "Mean 0 and standard deviation 1 over the training rows.",
    },
    {
        .key = "target",
        .type = PARAM_BOOL,
        .fallback = "true",
        .help = "The same for regression targets; predictions are in the target's own units.",
    },
    {.key = NULL},
};

static const struct param_def stop_params[] = {
    {
        .key = "tolerance",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1,
        .min_exclusive = true,
        .fallback = "1e-6",
        .help = "Of the relative residual.",
    },
    {
        .key = "max_iterations",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "1000",
        .help = "Iterations at most; block methods, whose iterations are small, have a default of "
                "their own.",
    },
    {.key = NULL},
};

static bool is_absent(const struct json *j)
{
    return j == NULL || json_type(j) == JSON_NULL;
}

static int read_scalars(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"model",   "dataset",     "target", "features",   "test",
                                       "kernel",  "standardize", "solver", "centers",    "stop",
                                       "device",  "metadata",    "search", "warm_start", "promote",
                                       "webhook", NULL};
    struct param_set set;
    const int rc = param_read(scalar_params, j, also, &set, err);
    if (rc < 0) {
        return rc;
    }
    const struct param_value *regularization = param_get(&set, "regularization");
    spec->regularization = regularization->is_auto ? REGULARIZATION_DEFAULT : regularization->real;
    spec->seed = param_int(&set, "seed");
    spec->priority = param_int(&set, "priority");
    spec->max_attempts = param_int(&set, "max_attempts");
    spec->kernel_cache_bytes = param_get(&set, "kernel_cache_bytes")->is_auto
                                   ? SPEC_CACHE_AUTO
                                   : param_int(&set, "kernel_cache_bytes");
    const char *precision = param_choice(&set, "precision");
    while (strcmp(precision_name(spec->precision), precision) != 0) {
        spec->precision++;
    }
    return task_parse(param_choice(&set, "task"), &spec->task, err);
}

static int read_model(const struct json *j, struct job_spec *spec, struct err *err)
{
    const char *name = NULL;
    const int rc = field_text(j, "model", &name, err);
    if (rc < 0) {
        return rc;
    }
    if (!spec_name_valid(name)) {
        return field_wrong(err, "model", FIELD_WHOLE, json_get(j, "model"),
                           "at most %d letters, digits, '.', '_' and '-', the first one a letter "
                           "or digit",
                           SPEC_NAME_MAX);
    }
    memcpy(spec->model, name, strlen(name) + 1);
    return 0;
}

int spec__read_dataset_id(const struct json *obj, char ret[ID_SIZE], struct err *err)
{
    const char *id = NULL;
    const int rc = field_text(obj, "dataset", &id, err);
    if (rc < 0) {
        return rc;
    }
    if (!id_valid(id, "ds")) {
        return field_wrong(err, "dataset", FIELD_WHOLE, json_get(obj, "dataset"),
                           "the id of a data set (ds_...)");
    }
    snprintf(ret, ID_SIZE, "%s", id);
    return 0;
}

/* "target": "name" is the same as "target": ["name"]. */
static int read_single_target(const char *name, struct job_spec *spec, struct err *err)
{
    spec->target_names = mem_zarray(1, sizeof(*spec->target_names));
    if (spec->target_names == NULL) {
        return err_no_memory(err);
    }
    spec->targets = 1;
    spec->target_names[0] = mem_strdup(name);
    return spec->target_names[0] == NULL ? err_no_memory(err) : 0;
}

static int read_target(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char key[] = "target";
    const struct json *given = json_get(j, key);
    if (is_absent(given)) {
        return 0;
    }
    if (json_type(given) == JSON_STRING && json_string(given)[0] != '\0') {
        return read_single_target(json_string(given), spec, err);
    }
    if (json_type(given) != JSON_ARRAY) {
        return field_wrong(err, key, FIELD_WHOLE, given, "a column's name or an array of names");
    }
    const int rc =
        names_read(j, key, 1, SPEC_TARGETS_MAX, &spec->target_names, &spec->targets, err);
    return rc < 0 ? rc : names_check_distinct(spec->target_names, spec->targets, key, err);
}

static int read_features(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char key[] = "features";
    if (is_absent(json_get(j, key))) {
        return 0;
    }
    const int rc =
        names_read(j, key, 1, SPEC_FEATURES_MAX, &spec->feature_names, &spec->features, err);
    return rc < 0 ? rc : names_check_distinct(spec->feature_names, spec->features, key, err);
}

static int read_fraction(const struct json *test, struct job_spec *spec, struct err *err)
{
    const struct json *given = json_get(test, "fraction");
    const double f = json_number(given);
    if (json_type(given) != JSON_NUMBER || !(f >= 0 && f < 1)) {
        return field_wrong(err, "fraction", FIELD_WHOLE, given,
                           "a number of at least 0 and below 1");
    }
    spec->test.fraction = f;
    return 0;
}

static int read_mask(const struct json *test, struct job_spec *spec, struct err *err)
{
    const char *name = NULL;
    const int rc = field_text(test, "mask", &name, err);
    if (rc < 0) {
        return rc;
    }
    spec->test.kind = SPEC_TEST_MASK;
    spec->test.mask = mem_strdup(name);
    return spec->test.mask == NULL ? err_no_memory(err) : 0;
}

static int read_test_fields(const struct json *test, struct job_spec *spec, struct err *err)
{
    static const char *const keys[] = {"fraction", "dataset", "mask", NULL};
    const int rc = json_only_keys(test, keys, err);
    if (rc < 0) {
        return rc;
    }
    if (json_size(test) > 1) {
        return err_at(err, ERR_INVALID, "#",
                      "Give one of \"fraction\", \"dataset\" and \"mask\", not several.");
    }
    if (json_get(test, "fraction") != NULL) {
        return read_fraction(test, spec, err);
    }
    if (json_get(test, "dataset") != NULL) {
        spec->test.kind = SPEC_TEST_DATASET;
        return spec__read_dataset_id(test, spec->test.dataset, err);
    }
    return json_get(test, "mask") != NULL ? read_mask(test, spec, err) : 0;
}

static int read_test(const struct json *j, struct job_spec *spec, struct err *err)
{
    const struct json *test = NULL;
    spec->test.kind = SPEC_TEST_FRACTION;
    spec->test.fraction = 0.2;
    const int rc = field_object(j, "test", &test, err);
    return rc < 0 || test == NULL ? rc
                                  : spec__within("test", read_test_fields(test, spec, err), err);
}

static int read_standardize(const struct json *j, struct job_spec *spec, struct err *err)
{
    const struct json *standardize = NULL;
    int rc = field_object(j, "standardize", &standardize, err);
    if (rc < 0) {
        return rc;
    }
    struct param_set set;
    rc = spec__within("standardize", param_read(standardize_params, standardize, NULL, &set, err),
                      err);
    if (rc < 0) {
        return rc;
    }
    spec->standardize.features = param_bool(&set, "features");
    spec->standardize.target = param_bool(&set, "target");
    return 0;
}

static int read_time_budget(const struct json *stop, struct job_spec *spec, struct err *err)
{
    static const char key[] = "time_budget_s";
    const struct json *given = stop == NULL ? NULL : json_get(stop, key);
    spec->stop.time_budget_s = INFINITY;
    if (is_absent(given)) {
        return 0;
    }
    if (json_type(given) != JSON_NUMBER || !(json_number(given) > 0)) {
        return field_wrong(err, key, FIELD_WHOLE, given, "a number greater than 0, or null");
    }
    spec->stop.time_budget_s = json_number(given);
    return 0;
}

static int read_stop(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"time_budget_s", NULL};
    const struct json *stop = NULL;
    int rc = field_object(j, "stop", &stop, err);
    if (rc < 0) {
        return rc;
    }
    struct param_set set;
    rc = param_read(stop_params, stop, also, &set, err);
    rc = spec__within("stop", rc < 0 ? rc : read_time_budget(stop, spec, err), err);
    if (rc < 0) {
        return rc;
    }
    spec->stop.tolerance = param_real(&set, "tolerance");
    spec->stop.max_iterations = param_int(&set, "max_iterations");
    const int64_t usual = spec->solver.method->max_iterations;
    if (usual > 0 && (stop == NULL || json_get(stop, "max_iterations") == NULL)) {
        spec->stop.max_iterations = usual;
    }
    return 0;
}

static int read_earlier_model(const struct json *named, const char *key, struct job_spec *spec,
                              struct err *err)
{
    const char *name = named == NULL ? NULL : json_string(named);
    if (name == NULL || !spec_name_valid(name)) {
        return field_wrong(err, key, FIELD_WHOLE, named, "a model's name");
    }
    snprintf(spec->warm_start.model, sizeof(spec->warm_start.model), "%s", name);
    return 0;
}

static int read_warm_fields(const struct json *warm, struct job_spec *spec, struct err *err)
{
    static const char *const keys[] = {"model", "version", NULL};
    int rc = json_only_keys(warm, keys, err);
    rc = rc < 0 ? rc : read_earlier_model(json_get(warm, "model"), "model", spec, err);
    const struct json *version = json_get(warm, "version");
    if (rc < 0 || is_absent(version)) {
        return rc;
    }
    const double v = json_number(version);
    if (json_type(version) != JSON_NUMBER || !(v >= 1 && v <= JSON_WHOLE_MAX) || v != floor(v)) {
        return field_wrong(err, "version", FIELD_WHOLE, version, "a version number from 1");
    }
    spec->warm_start.version = (int64_t)v;
    return 0;
}

static int read_warm_start(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char key[] = "warm_start";
    const struct json *given = json_get(j, key);
    if (is_absent(given)) {
        return 0;
    }
    return json_type(given) == JSON_OBJECT
               ? spec__within(key, read_warm_fields(given, spec, err), err)
               : read_earlier_model(given, key, spec, err);
}

/* A number without leading zeros that is larger than *last, which becomes it; its length, or 0. */
static size_t gpu_length(const char *digits, int *last)
{
    const size_t len = strspn(digits, "0123456789");
    int n = 0;
    for (size_t i = 0; i < len && i < 4; i++) {
        n = 10 * n + (digits[i] - '0');
    }
    const bool valid =
        len >= 1 && len <= 3 && (len == 1 || digits[0] != '0') && n <= SPEC_CUDA_MAX && n > *last;
    *last = n;
    return valid ? len : 0;
}

/* "auto", "cpu", "cuda", "cuda:N", or "cuda:N,M" with ascending numbers. */
static bool device_valid(const char *name)
{
    static const char prefix[] = "cuda:";
    if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0 || strcmp(name, "cuda") == 0) {
        return true;
    }
    if (strncmp(name, prefix, strlen(prefix)) != 0) {
        return false;
    }
    const char *at = name + strlen(prefix);
    for (int count = 1, last = -1; count <= SPEC_GPUS_MAX; count++) {
        const size_t len = gpu_length(at, &last);
        at += len;
        if (len == 0 || *at != ',') {
            return len > 0 && *at == '\0';
        }
        at++;
    }
    return false;
}

static int read_device(const struct json *j, struct job_spec *spec, struct err *err)
{
    const struct json *given = json_get(j, "device");
    const char *name = given == NULL ? "auto" : json_string(given);
    if (name == NULL || !device_valid(name)) {
        return field_wrong(
            err, "device", FIELD_WHOLE, given,
            "\"auto\", \"cpu\", \"cuda\", \"cuda:0\" to \"cuda:%d\", or up to %d GPUs "
            "together, ascending, as in \"cuda:0,1\"",
            SPEC_CUDA_MAX, SPEC_GPUS_MAX);
    }
    snprintf(spec->device, sizeof(spec->device), "%s", name);
    return 0;
}

static int check_metadata(const struct json *metadata, struct err *err)
{
    enum { KEY_MAX = 64, VALUE_MAX = 512 };
    for (const struct json *item = json_first(metadata); item != NULL; item = json_next(item)) {
        const char *key = json_key(item);
        if (key[0] == '\0' || strlen(key) > KEY_MAX) {
            return field_error(err, key, FIELD_WHOLE, "A key has 1 to %d bytes.", KEY_MAX);
        }
        if (json_type(item) != JSON_STRING || strlen(json_string(item)) > VALUE_MAX) {
            return field_wrong(err, key, FIELD_WHOLE, item, "a string of at most %d bytes",
                               VALUE_MAX);
        }
    }
    return 0;
}

/* No pairs and no metadata are the same: NULL. */
static int read_metadata(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char key[] = "metadata";
    const struct json *given = NULL;
    int rc = field_object(j, key, &given, err);
    if (rc < 0 || given == NULL || json_first(given) == NULL) {
        return rc;
    }
    if (json_size(given) > SPEC_METADATA_MAX) {
        return field_error(err, key, FIELD_WHOLE, "At most %d pairs are kept.", SPEC_METADATA_MAX);
    }
    rc = spec__within(key, check_metadata(given, err), err);
    if (rc < 0) {
        return rc;
    }
    spec->metadata = json_copy(given);
    return spec->metadata == NULL ? err_no_memory(err) : 0;
}

/* What is searched for must not be given as well: which of the two is meant? */
static int check_search(const struct json *j, const struct job_spec *spec, struct err *err)
{
    const struct search_spec *s = &spec->search;
    const struct json *given = json_get(j, "regularization");
    const struct method_def *kernel = spec->kernel.method;
    if (s->regularizations > 0 && given != NULL && json_type(given) == JSON_NUMBER) {
        return field_error(err, "regularization", FIELD_WHOLE,
                           "It is searched for: leave it out, or say \"auto\".");
    }
    if (s->bandwidths > 0 && kernel != NULL && !kernel->has_bandwidth) {
        return err_at(err, ERR_INVALID, "#/search/bandwidth", "The kernel \"%s\" has no bandwidth.",
                      kernel->name);
    }
    if (s->bandwidths > 0 && spec->kernel.kind > SPEC_BANDWIDTH_AUTO) {
        return err_at(err, ERR_INVALID, "#/kernel/bandwidth",
                      "It is searched for: leave it out, or say \"auto\".");
    }
    return 0;
}

static int read_search(const struct json *j, struct job_spec *spec, struct err *err)
{
    const struct json *given = json_get(j, "regularization");
    const bool asked = given != NULL && json_type(given) == JSON_STRING;
    const int rc = search_read(j, asked, &spec->search, err);
    spec->open_regularization = (given == NULL || json_type(given) == JSON_NULL) &&
                                spec->kernel.method == NULL && spec->search.regularizations == 0;
    return rc < 0 ? rc : check_search(j, spec, err);
}

static int read_fields(const struct json *j, struct job_spec *spec, struct err *err)
{
    int rc = read_scalars(j, spec, err);
    rc = rc < 0 ? rc : read_model(j, spec, err);
    rc = rc < 0 ? rc : spec__read_dataset_id(j, spec->dataset, err);
    rc = rc < 0 ? rc : read_target(j, spec, err);
    rc = rc < 0 ? rc : read_features(j, spec, err);
    rc = rc < 0 ? rc : read_test(j, spec, err);
    rc = rc < 0 ? rc : read_standardize(j, spec, err);
    rc = rc < 0 ? rc : spec__read_kernel(j, spec, err);
    rc = rc < 0 ? rc : read_search(j, spec, err);
    rc = rc < 0 ? rc : spec__read_solver(j, spec, err);
    rc = rc < 0 ? rc : spec__read_centers(j, spec, err);
    rc = rc < 0 ? rc : read_stop(j, spec, err);
    rc = rc < 0 ? rc : read_warm_start(j, spec, err);
    rc = rc < 0 ? rc : spec__check_solver(spec, err);
    rc = rc < 0 ? rc : promote_read(j, &spec->promote, err);
    rc = rc < 0 ? rc : webhook_read(j, &spec->webhook, err);
    rc = rc < 0 ? rc : read_device(j, spec, err);
    return rc < 0 ? rc : read_metadata(j, spec, err);
}

int job_spec_read(const struct json *j, struct job_spec **ret, struct err *err)
{
    if (j == NULL || json_type(j) != JSON_OBJECT) {
        return err_at(err, ERR_INVALID, "#", "A job specification is a JSON object.");
    }
    struct job_spec *spec = mem_zalloc(sizeof(*spec));
    if (spec == NULL) {
        return err_no_memory(err);
    }
    const int rc = read_fields(j, spec, err);
    if (rc < 0) {
        job_spec_free(spec);
        return rc;
    }
    *ret = spec;
    return 0;
}
