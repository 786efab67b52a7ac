#include "client/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"

#define SPEC_MAX_BYTES ((size_t)4 << 20)
#define KEY_ROOM 128

/* Options that are fields of the specification. */
static const struct {
    const char *option, *path;
} fields[] = {
    {"features", "features"},
    {"test-fraction", "test.fraction"},
    {"kernel", "kernel.name"},
    {"bandwidth", "kernel.bandwidth"},
    {"regularization", "regularization"},
    {"solver", "solver.name"},
    {"preconditioner", "solver.preconditioner.name"},
    {"rank", "solver.preconditioner.rank"},
    {"centers", "centers.count"},
    {"center-method", "centers.method"},
    {"tolerance", "stop.tolerance"},
    {"max-iterations", "stop.max_iterations"},
    {"time-budget", "stop.time_budget_s"},
    {"precision", "precision"},
    {"device", "device"},
    {"seed", "seed"},
    {"priority", "priority"},
};

static struct json *value_of(const char *text)
{
    struct json *j = NULL;
    return json_parse(text, strlen(text), &j, NULL) == 0 ? j : json_new_string(text);
}

/* The object obj[key], made where there is none. */
static struct json *enter(struct json *obj, const char *key)
{
    const struct json *there = json_get(obj, key);
    if (there && json_type(there) != JSON_OBJECT) {
        return NULL;
    }
    /* Trees are written by who holds their root. */
    return there ? (struct json *)there : json_set_object(obj, key);
}

bool spec_set(struct json *spec, const char *path, const char *value)
{
    char key[KEY_ROOM];
    const char *dot;
    while ((dot = strchr(path, '.')) != NULL) {
        if (dot == path || dot - path >= KEY_ROOM) {
            return false;
        }
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        spec = enter(spec, key);
        if (!spec) {
            return false;
        }
        path = dot + 1;
    }
    return path[0] != '\0' && json_set(spec, path, value_of(value)) != NULL;
}

/* "a,b,c" as an array of strings. */
static void set_features(struct json *spec, const char *list)
{
    struct json *array = json_set_array(spec, "features");
    while (*list) {
        const size_t n = strcspn(list, ",");
        cleanup_mem char *name = mem_strndup(list, n);
        json_push(array, name ? json_new_string(name) : NULL);
        list += n + (list[n] == ',');
    }
}

/* --target, where it is not about a file that is sent: of the data set's columns. */
static void set_targets(struct json *spec, const struct args *args)
{
    struct json *array = args_has(args, "target") ? json_set_array(spec, "target") : NULL;
    for (int i = 0; array && i < args->value_count; i++) {
        if (strcmp(args->values[i].name, "target") == 0) {
            json_push(array, json_new_string(args->values[i].value));
        }
    }
}

/* "path=value" of --set. */
static enum exit_code set_pair(struct json *spec, const char *pair)
{
    char path[KEY_ROOM];
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair || equals - pair >= KEY_ROOM) {
        complain("--set %s: expected FIELD=VALUE, as in stop.tolerance=1e-6", pair);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof path, "%.*s", (int)(equals - pair), pair);
    if (!spec_set(spec, path, equals + 1)) {
        complain("--set %s: a part of this field is no object", pair);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static enum exit_code read_file(const char *path, struct json **ret)
{
    cleanup_mem char *text = NULL;
    size_t size = 0;
    struct err err;
    if (file_read_all(path, SPEC_MAX_BYTES, &text, &size, &err) < 0 ||
        json_parse(text, size, ret, &err) < 0) {
        complain("%s: %s", path, err.detail);
        return EXIT_LOCAL;
    }
    if (json_type(*ret) != JSON_OBJECT) {
        complain("%s: a specification is a JSON object", path);
        return EXIT_LOCAL;
    }
    return EXIT_DONE;
}

/* solver and kernel may be plain names, as the server takes them too. */
static void name_to_object(struct json *spec, const char *key)
{
    const struct json *v = json_get(spec, key);
    cleanup_mem char *name = v && json_type(v) == JSON_STRING ? mem_strdup(json_string(v)) : NULL;
    if (name) {
        json_set_string(json_set_object(spec, key), "name", name);
    }
}

static enum exit_code apply(const struct args *args, struct json *spec)
{
    enum exit_code code = EXIT_DONE;
    name_to_object(spec, "solver");
    name_to_object(spec, "kernel");
    if (!args_operand(args, 0)) {
        set_targets(spec, args);
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *value = args_get(args, fields[i].option);
        if (value && strcmp(fields[i].option, "features") == 0) {
            set_features(spec, value);
        } else if (value && !spec_set(spec, fields[i].path, value)) {
            complain("--%s does not go with the rest of the specification", fields[i].option);
            code = EXIT_USAGE;
        }
    }
    for (int i = 0; code == EXIT_DONE && i < args->value_count; i++) {
        if (strcmp(args->values[i].name, "set") == 0) {
            code = set_pair(spec, args->values[i].value);
        }
    }
    return code;
}

enum exit_code spec_build(const struct args *args, struct json **ret)
{
    const char *path = args_get(args, "spec");
    cleanup_json struct json *spec = path ? NULL : json_new_object();
    enum exit_code code = path ? read_file(path, &spec) : EXIT_DONE;
    if (code != EXIT_DONE) {
        return code;
    }
    code = apply(args, spec);
    if (code == EXIT_DONE && !json_ok(spec)) {
        complain("not enough memory");
        code = EXIT_LOCAL;
    }
    if (code == EXIT_DONE) {
        *ret = spec;
        spec = NULL;
    }
    return code;
}
