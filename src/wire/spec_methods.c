/* The parts of a job specification that name methods: a kernel, a solver, a preconditioner. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/field.h"
#include "wire/spec_parts.h"

int spec__within(const char *key, int rc, struct err *err)
{
    if (rc < 0) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "#/%s", key);
        err_prefix(err, prefix);
    }
    return rc;
}

static int unknown_method(enum catalog which, bool allow_auto, const char *key,
                          const struct json *found, struct err *err)
{
    struct buf known cleanup_buf = BUF_INIT;
    buf_str(&known, allow_auto ? "\"auto\"" : "");
    for (const struct method_def *m = catalog_list(which); m->name != NULL; m++) {
        buf_printf(&known, "%s\"%s\"", known.len > 0 ? ", " : "", m->name);
    }
    if (known.failed) {
        return err_no_memory(err);
    }
    return field_wrong(err, key, FIELD_WHOLE, found, "one of %s", known.data);
}

/*
 * A method at obj[key]: absent (fallback), its bare name, or an object with the key "name" (absent:
 * fallback) and parameters, given back in *ret_fields (else NULL). With allow_auto, the name "auto"
 * gives NULL. Pointers are relative to obj.
 */
static int read_method(enum catalog which, const struct json *obj, const char *key, bool allow_auto,
                       const char *fallback, const struct method_def **ret,
                       const struct json **ret_fields, struct err *err)
{
    const struct json *given = obj == NULL ? NULL : json_get(obj, key);
    const bool detailed = given != NULL && json_type(given) == JSON_OBJECT;
    const struct json *named = detailed ? json_get(given, "name") : given;
    if (given != NULL && !detailed && json_type(given) != JSON_STRING) {
        return field_wrong(err, key, FIELD_WHOLE, given, "a name or an object");
    }
    const char *name = named == NULL ? fallback : json_string(named);
    const bool is_auto = allow_auto && name != NULL && strcmp(name, "auto") == 0;
    const struct method_def *found = name == NULL ? NULL : catalog_find(which, name);
    if (found == NULL && !is_auto) {
        const int rc = unknown_method(which, allow_auto, detailed ? "name" : key, named, err);
        return detailed ? spec__within(key, rc, err) : rc;
    }
    *ret = is_auto ? NULL : found;
    *ret_fields = detailed ? given : NULL;
    return 0;
}

static bool is_bandwidth(const struct json *j)
{
    return json_type(j) == JSON_NUMBER && json_number(j) > 0;
}

static int read_bandwidth_list(const struct json *list, struct job_spec *spec, struct err *err)
{
    static const char key[] = "bandwidth";
    const int64_t count = json_size(list);
    if (count < 1 || count > SPEC_FEATURES_MAX) {
        return field_wrong(err, key, FIELD_WHOLE, list, "one number for each feature, at most %d",
                           SPEC_FEATURES_MAX);
    }
    spec->kernel.bandwidths = mem_array((size_t)count, sizeof(*spec->kernel.bandwidths));
    if (spec->kernel.bandwidths == NULL) {
        return err_no_memory(err);
    }
    spec->kernel.kind = SPEC_BANDWIDTH_PER_FEATURE;
    spec->kernel.bandwidth_count = count;
    int64_t i = 0;
    for (const struct json *item = json_first(list); item != NULL; item = json_next(item), i++) {
        if (!is_bandwidth(item)) {
            return field_wrong(err, key, i, item, "a number greater than 0");
        }
        spec->kernel.bandwidths[i] = json_number(item);
    }
    return 0;
}

static int read_bandwidth(const struct json *kernel, struct job_spec *spec, struct err *err)
{
    static const char key[] = "bandwidth";
    const struct json *given = kernel == NULL ? NULL : json_get(kernel, key);
    if (given == NULL) {
        return 0;
    }
    const struct method_def *m = spec->kernel.method;
    if (m != NULL && !m->has_bandwidth) {
        return field_error(err, key, FIELD_WHOLE, "The kernel \"%s\" has no bandwidth.", m->name);
    }
    if (json_type(given) == JSON_ARRAY) {
        return read_bandwidth_list(given, spec, err);
    }
    if (is_bandwidth(given)) {
        spec->kernel.kind = SPEC_BANDWIDTH_SCALAR;
        spec->kernel.bandwidth = json_number(given);
        return 0;
    }
    if (json_type(given) == JSON_STRING && strcmp(json_string(given), "median") == 0) {
        return 0;
    }
    return field_wrong(err, key, FIELD_WHOLE, given,
                       "a number greater than 0, \"median\" or an array with one for each feature");
}

int spec__read_kernel(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"name", "bandwidth", NULL};
    const struct json *fields = NULL;
    int rc =
        read_method(CATALOG_KERNELS, j, "kernel", true, "auto", &spec->kernel.method, &fields, err);
    if (rc < 0) {
        return rc;
    }
    const struct method_def *m = spec->kernel.method;
    spec->kernel.kind = SPEC_BANDWIDTH_MEDIAN;
    rc = param_read(m == NULL ? NULL : m->params, fields, also, &spec->kernel.params, err);
    return spec__within("kernel", rc < 0 ? rc : read_bandwidth(fields, spec, err), err);
}

static int read_preconditioner(const struct json *solver, struct job_spec *spec, struct err *err)
{
    static const char key[] = "preconditioner";
    static const char *const also[] = {"name", NULL};
    if (!spec->solver.method->has_preconditioner) {
        const bool given = solver != NULL && json_get(solver, key) != NULL;
        return !given ? 0
                      : field_error(err, key, FIELD_WHOLE,
                                    "The solver \"%s\" takes no preconditioner.",
                                    spec->solver.method->name);
    }
    const char *fallback = catalog_list(CATALOG_PRECONDITIONERS)->name;
    const struct json *fields = NULL;
    const int rc = read_method(CATALOG_PRECONDITIONERS, solver, key, false, fallback,
                               &spec->solver.preconditioner, &fields, err);
    if (rc < 0) {
        return rc;
    }
    return spec__within(key,
                        param_read(spec->solver.preconditioner->params, fields, also,
                                   &spec->solver.preconditioner_params, err),
                        err);
}

int spec__read_solver(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"name", "preconditioner", NULL};
    const struct json *fields = NULL;
    int rc = read_method(CATALOG_SOLVERS, j, "solver", false, "auto", &spec->solver.method, &fields,
                         err);
    if (rc < 0) {
        return rc;
    }
    rc = param_read(spec->solver.method->params, fields, also, &spec->solver.params, err);
    return spec__within("solver", rc < 0 ? rc : read_preconditioner(fields, spec, err), err);
}
