#include "wire/spec.h"

#include <string.h>

#include "base/mem.h"
#include "wire/names.h"

static const char *const precision_names[] = {
    [PRECISION_FLOAT64] = "float64",
    [PRECISION_FLOAT32] = "float32",
    [PRECISION_MIXED] = "mixed",
    [PRECISION_AUTO] = "auto",
};

const char *precision_name(enum precision p)
{
    return precision_names[p];
}

bool spec_name_valid(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t len = strlen(name);
    return len >= 1 && len <= SPEC_NAME_MAX && strchr(first, name[0]) != NULL &&
           strspn(name, allowed) == len;
}

struct job_spec *job_spec_free(struct job_spec *spec)
{
    if (spec != NULL) {
        names_free(spec->target_names, spec->targets);
        names_free(spec->feature_names, spec->features);
        mem_free(spec->test.mask);
        mem_free(spec->kernel.bandwidths);
        search_deinit(&spec->search);
        json_free(spec->metadata);
    }
    return mem_free(spec);
}

static void write_columns(const struct job_spec *spec, struct json *j)
{
    if (spec->targets == 0) {
        json_set(j, "target", json_new_null());
    } else if (spec->targets == 1) {
        json_set_string(j, "target", spec->target_names[0]);
    } else {
        names_write(j, "target", spec->target_names, spec->targets);
    }
    if (spec->features == 0) {
        json_set(j, "features", json_new_null());
    } else {
        names_write(j, "features", spec->feature_names, spec->features);
    }
}

static void write_test(const struct job_spec *spec, struct json *j)
{
    struct json *test = json_set_object(j, "test");
    switch (spec->test.kind) {
    case SPEC_TEST_FRACTION:
        json_set_number(test, "fraction", spec->test.fraction);
        break;
    case SPEC_TEST_DATASET:
        json_set_string(test, "dataset", spec->test.dataset);
        break;
    case SPEC_TEST_MASK:
        json_set_string(test, "mask", spec->test.mask);
        break;
    }
}

static void write_bandwidth(const struct job_spec *spec, struct json *kernel)
{
    static const char key[] = "bandwidth";
    switch (spec->kernel.kind) {
    case SPEC_BANDWIDTH_MEDIAN:
        json_set_string(kernel, key, "median");
        break;
    case SPEC_BANDWIDTH_AUTO:
        json_set_string(kernel, key, "auto");
        break;
    case SPEC_BANDWIDTH_SCALAR:
        json_set_number(kernel, key, spec->kernel.bandwidth);
        break;
    case SPEC_BANDWIDTH_PER_FEATURE: {
        struct json *list = json_set_array(kernel, key);
        for (int64_t i = 0; i < spec->kernel.bandwidth_count; i++) {
            json_push(list, json_new_number(spec->kernel.bandwidths[i]));
        }
        break;
    }
    }
}

static void write_kernel(const struct job_spec *spec, struct json *j)
{
    const struct method_def *m = spec->kernel.method;
    struct json *kernel = json_set_object(j, "kernel");
    json_set_string(kernel, "name", m == NULL ? "auto" : m->name);
    if (m == NULL || m->has_bandwidth) {
        write_bandwidth(spec, kernel);
    }
    param_write(&spec->kernel.params, kernel);
}

static void write_regularization(const struct job_spec *spec, struct json *j)
{
    if (spec->search.regularizations > 0) {
        json_set_string(j, "regularization", "auto");
    } else if (spec->open_regularization) {
        json_set(j, "regularization", json_new_null());
    } else {
        json_set_number(j, "regularization", spec->regularization);
    }
}

static void write_solver(const struct job_spec *spec, struct json *j)
{
    struct json *solver = json_set_object(j, "solver");
    json_set_string(solver, "name", spec->solver.method->name);
    param_write(&spec->solver.params, solver);
    if (spec->solver.preconditioner != NULL) {
        struct json *preconditioner = json_set_object(solver, "preconditioner");
        json_set_string(preconditioner, "name", spec->solver.preconditioner->name);
        param_write(&spec->solver.preconditioner_params, preconditioner);
    } else if (spec->solver.method->has_preconditioner) {
        json_set_string(json_set_object(solver, "preconditioner"), "name", "auto");
    }
}

static void write_centers(const struct job_spec *spec, struct json *j)
{
    static const char key[] = "centers";
    if (spec->centers.method == NULL) {
        json_set(j, key, json_new_null());
        return;
    }
    struct json *centers = json_set_object(j, key);
    json_set_string(centers, "method", spec->centers.method->name);
    if (spec->centers.count == 0) {
        json_set_string(centers, "count", "auto");
    } else {
        json_set_int(centers, "count", spec->centers.count);
    }
    if (spec->centers.dataset[0] != '\0') {
        json_set_string(centers, "dataset", spec->centers.dataset);
    }
    param_write(&spec->centers.params, centers);
}

static void write_stop(const struct job_spec *spec, struct json *j)
{
    struct json *stop = json_set_object(j, "stop");
    json_set_number(stop, "tolerance", spec->stop.tolerance);
    json_set_int(stop, "max_iterations", spec->stop.max_iterations);
    json_set_number(stop, "time_budget_s", spec->stop.time_budget_s); /* infinity prints null */
}

static void write_warm_start(const struct job_spec *spec, struct json *j)
{
    static const char key[] = "warm_start";
    if (spec->warm_start.model[0] == '\0') {
        json_set(j, key, json_new_null());
        return;
    }
    struct json *warm = json_set_object(j, key);
    json_set_string(warm, "model", spec->warm_start.model);
    if (spec->warm_start.version > 0) {
        json_set_int(warm, "version", spec->warm_start.version);
    }
}

static void write_standardize(const struct job_spec *spec, struct json *j)
{
    struct json *standardize = json_set_object(j, "standardize");
    json_set_bool(standardize, "features", spec->standardize.features);
    json_set_bool(standardize, "target", spec->standardize.target);
}

static void write_metadata(const struct job_spec *spec, struct json *j)
{
    json_set(j, "metadata", spec->metadata == NULL ? json_new_object() : json_copy(spec->metadata));
}

struct json *job_spec_write(const struct job_spec *spec)
{
    struct json *j = json_new_object();
    json_set_string(j, "model", spec->model);
    json_set_string(j, "dataset", spec->dataset);
    write_columns(spec, j);
    json_set_string(j, "task", task_name(spec->task));
    write_test(spec, j);
    write_standardize(spec, j);
    write_kernel(spec, j);
    write_regularization(spec, j);
    write_solver(spec, j);
    write_centers(spec, j);
    write_stop(spec, j);
    write_warm_start(spec, j);
    promote_write(&spec->promote, j);
    webhook_write(&spec->webhook, j);
    json_set_string(j, "precision", precision_name(spec->precision));
    if (spec->kernel_cache_bytes == SPEC_CACHE_AUTO) {
        json_set_string(j, "kernel_cache_bytes", "auto");
    } else {
        json_set_int(j, "kernel_cache_bytes", spec->kernel_cache_bytes);
    }
    json_set_string(j, "device", spec->device);
    json_set_int(j, "seed", spec->seed);
    json_set_int(j, "priority", spec->priority);
    json_set_int(j, "max_attempts", spec->max_attempts);
    write_metadata(spec, j);
    search_write(&spec->search, j);
    return json_ok(j) ? j : json_free(j);
}
