/* The parts of a job specification that name methods: a kernel, a solver, a preconditioner, a
 * selector of centers. */
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

/* How a method is named in a document. */
struct named {
    enum catalog which;
    const char *key;      /* of the object that holds it */
    const char *name_key; /* of its name inside its own object */
    bool allow_auto;      /* the name "auto" gives NULL */
    const char *fallback; /* the name of an absent one */
};

static int unknown_method(const struct named *n, const char *key, const struct json *found,
                          struct err *err)
{
    struct buf known cleanup_buf = BUF_INIT;
    buf_str(&known, n->allow_auto ? "\"auto\"" : "");
    for (const struct method_def *m = catalog_list(n->which); m->name != NULL; m++) {
        buf_printf(&known, "%s\"%s\"", known.len > 0 ? ", " : "", m->name);
    }
    if (known.failed) {
        return err_no_memory(err);
    }
    return field_wrong(err, key, FIELD_WHOLE, found, "one of %s", known.data);
}

/*
 * A method at obj[key]: absent (fallback), its bare name, or an object with its name (absent:
 * fallback) and parameters, given back in *ret_fields (else NULL). Pointers are relative to obj.
 */
static int read_method(const struct named *n, const struct json *obj, const struct method_def **ret,
                       const struct json **ret_fields, struct err *err)
{
    const struct json *given = obj == NULL ? NULL : json_get(obj, n->key);
    const bool detailed = given != NULL && json_type(given) == JSON_OBJECT;
    const struct json *named = detailed ? json_get(given, n->name_key) : given;
    if (given != NULL && !detailed && json_type(given) != JSON_STRING) {
        return field_wrong(err, n->key, FIELD_WHOLE, given, "a name or an object");
    }
    const char *name = named == NULL ? n->fallback : json_string(named);
    const bool is_auto = n->allow_auto && name != NULL && strcmp(name, "auto") == 0;
    const struct method_def *found = name == NULL ? NULL : catalog_find(n->which, name);
    if (found == NULL && !is_auto) {
        const int rc = unknown_method(n, detailed ? n->name_key : n->key, named, err);
        return detailed ? spec__within(n->key, rc, err) : rc;
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
    const char *word = json_type(given) == JSON_STRING ? json_string(given) : "";
    if (strcmp(word, "median") == 0 || strcmp(word, "auto") == 0) {
        spec->kernel.kind = word[0] == 'm' ? SPEC_BANDWIDTH_MEDIAN : SPEC_BANDWIDTH_AUTO;
        return 0;
    }
    return field_wrong(
        err, key, FIELD_WHOLE, given,
        "a number greater than 0, \"median\", \"auto\" or an array with one for each "
        "feature");
}

int spec__read_kernel(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"name", "bandwidth", NULL};
    const struct named named = {.which = CATALOG_KERNELS,
                                .key = "kernel",
                                .name_key = "name",
                                .allow_auto = true,
                                .fallback = "auto"};
    const struct json *fields = NULL;
    int rc = read_method(&named, j, &spec->kernel.method, &fields, err);
    if (rc < 0) {
        return rc;
    }
    const struct method_def *m = spec->kernel.method;
    spec->kernel.kind = m == NULL ? SPEC_BANDWIDTH_AUTO : SPEC_BANDWIDTH_MEDIAN;
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
    const struct json *given = solver != NULL ? json_get(solver, key) : NULL;
    const bool detailed = given != NULL && json_type(given) == JSON_OBJECT;
    const char *first = catalog_list(CATALOG_PRECONDITIONERS)->name; /* whose parameters they are */
    const struct named named = {.which = CATALOG_PRECONDITIONERS,
                                .key = key,
                                .name_key = "name",
                                .allow_auto = true,
                                .fallback = detailed ? first : "auto"};
    const struct json *fields = NULL;
    const int rc = read_method(&named, solver, &spec->solver.preconditioner, &fields, err);
    if (rc < 0) {
        return rc;
    }
    const struct method_def *m = spec->solver.preconditioner;
    return spec__within(key,
                        param_read(m != NULL ? m->params : NULL, fields, also,
                                   &spec->solver.preconditioner_params, err),
                        err);
}

int spec__read_solver(const struct json *j, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"name", "preconditioner", NULL};
    const struct named named = {
        .which = CATALOG_SOLVERS, .key = "solver", .name_key = "name", .fallback = "auto"};
    const struct json *fields = NULL;
    int rc = read_method(&named, j, &spec->solver.method, &fields, err);
    if (rc < 0) {
        return rc;
    }
    const struct method_def *m = spec->solver.method;
    rc = param_read(m->params, fields, also, &spec->solver.params, err);
    return spec__within("solver", rc < 0 ? rc : read_preconditioner(fields, spec, err), err);
}

static const char centers_key[] = "centers";

static int not_restricted(const struct job_spec *spec, struct err *err)
{
    struct buf known cleanup_buf = BUF_INIT;
    for (const struct method_def *m = catalog_list(CATALOG_SOLVERS); m->name != NULL; m++) {
        if (m->restricted) {
            buf_printf(&known, ", \"%s\"", m->name);
        }
    }
    if (known.failed) {
        return err_no_memory(err);
    }
    return field_error(err, centers_key, FIELD_WHOLE,
                       "The solver \"%s\" finds a coefficient for every training row; centers are "
                       "for restricted solvers: \"auto\"%s.",
                       spec->solver.method->name, known.data);
}

static int read_count(const struct json *centers, struct job_spec *spec, struct err *err)
{
    static const char key[] = "count";
    const struct json *given = json_get(centers, key);
    const char *text = given == NULL ? "auto" : json_string(given);
    if (text != NULL && strcmp(text, "auto") == 0) {
        return 0;
    }
    int64_t count;
    if (!field_count(given, &count) || count < 1 || count > SPEC_CENTERS_MAX) {
        return field_wrong(err, key, FIELD_WHOLE, given, "a whole number of 1 to %d, or \"auto\"",
                           SPEC_CENTERS_MAX);
    }
    spec->centers.count = count;
    return 0;
}

/* The rows of one data set, by the method that takes them from there. */
static int read_centers_dataset(const struct json *centers, struct job_spec *spec, struct err *err)
{
    static const char file[] = "file";
    static const char key[] = "dataset";
    if (strcmp(spec->centers.method->name, file) == 0) {
        return spec__read_dataset_id(centers, spec->centers.dataset, err);
    }
    return centers == NULL || json_get(centers, key) == NULL
               ? 0
               : field_error(err, key, FIELD_WHOLE,
                             "The method \"%s\" finds centers by itself; only \"%s\" takes them "
                             "from a data set.",
                             spec->centers.method->name, file);
}

static int read_centers_fields(const struct json *centers, struct job_spec *spec, struct err *err)
{
    static const char *const also[] = {"method", "count", "dataset", NULL};
    const struct method_def *m = spec->centers.method;
    int rc = param_read(m->params, centers, also, &spec->centers.params, err);
    rc = rc < 0 ? rc : read_count(centers, spec, err);
    return rc < 0 ? rc : read_centers_dataset(centers, spec, err);
}

static int check_folds(const struct job_spec *spec, struct err *err)
{
    return spec->search.folds == 0
               ? 0
               : err_at(
                     err, ERR_INVALID, "#/search/folds",
                     "The search for a model on centers leaves out one row at a time: leave this "
                     "out, or say \"loo\".");
}

/* The first one in the catalog that serves the solver. */
static const char *first_selector(const struct method_def *solver)
{
    const struct method_def *list = catalog_list(CATALOG_CENTERS), *m = list;
    while (solver->weighted && m->name != NULL && !m->weighted) {
        m++;
    }
    return m->name != NULL ? m->name : list->name;
}

static int check_weights(const struct job_spec *spec, const struct json *fields, struct err *err)
{
    const struct method_def *solver = spec->solver.method;
    if (!solver->weighted || spec->centers.method->weighted) {
        return 0;
    }
    field_error(err, fields != NULL ? "method" : centers_key, FIELD_WHOLE,
                "The solver \"%s\" needs centers drawn by leverage scores, as \"%s\" draws them; "
                "\"%s\" knows no weights.",
                solver->name, first_selector(solver), spec->centers.method->name);
    return fields != NULL ? spec__within(centers_key, -ERR_INVALID, err) : -ERR_INVALID;
}

int spec__read_centers(const struct json *j, struct job_spec *spec, struct err *err)
{
    const struct method_def *solver = spec->solver.method;
    const struct json *given = json_get(j, centers_key);
    const bool absent = given == NULL || json_type(given) == JSON_NULL;
    if (!solver->restricted) {
        if (absent) {
            return 0;
        }
        if (strcmp(solver->name, "auto") != 0) {
            return not_restricted(spec, err);
        }
    }
    const struct named named = {.which = CATALOG_CENTERS,
                                .key = centers_key,
                                .name_key = "method",
                                .fallback = first_selector(solver)};
    const struct json *fields = NULL;
    int rc = read_method(&named, absent ? NULL : j, &spec->centers.method, &fields, err);
    rc = rc < 0 ? rc : check_weights(spec, fields, err);
    if (rc == 0) {
        rc = spec__within(centers_key, read_centers_fields(fields, spec, err), err);
    }
    return rc < 0 ? rc : check_folds(spec, err);
}
