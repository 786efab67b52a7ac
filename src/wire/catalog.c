#include "wire/catalog.h"

#include <string.h>

#include "wire/catalog_parts.h"

const struct method_def *catalog_list(enum catalog which)
{
    switch (which) {
    case CATALOG_KERNELS:
        return catalog_kernels;
    case CATALOG_SOLVERS:
        return catalog_solvers;
    case CATALOG_PRECONDITIONERS:
        return catalog_preconditioners;
    case CATALOG_CENTERS:
        break;
    }
    return catalog_centers;
}

const struct method_def *catalog_find(enum catalog which, const char *name)
{
    for (const struct method_def *m = catalog_list(which); m->name != NULL; m++) {
        if (strcmp(m->name, name) == 0) {
            return m;
        }
    }
    return NULL;
}

static struct json *describe(enum catalog which, const struct method_def *m)
{
    struct json *j = json_new_object();
    json_set_string(j, "name", m->name);
    json_set_string(j, "title", m->title);
    json_set_string(j, "paper", m->paper);
    json_set_string(j, "help", m->help);
    if (which == CATALOG_KERNELS) {
        json_set_bool(j, "bandwidth", m->has_bandwidth);
    }
    if (which == CATALOG_SOLVERS) {
        json_set_bool(j, "preconditioner", m->has_preconditioner);
        json_set_bool(j, "centers", m->restricted);
        json_set_bool(j, "variance", m->posterior);
    }
    json_set(j, "parameters", param_describe(m->params));
    return j;
}

struct json *catalog_describe(enum catalog which)
{
    struct json *j = json_new_object();
    json_set_string(j, "object", "list");
    struct json *data = json_set_array(j, "data");
    for (const struct method_def *m = catalog_list(which); m->name != NULL; m++) {
        json_push(data, describe(which, m));
    }
    return j;
}
