#include "client/choices.h"

#include <stddef.h>

#include "wire/catalog.h"
#include "wire/spec.h"

/* Lists end with a NULL name, and places are asked for in turn. */
static const char *of_catalog(enum catalog which, int place)
{
    return catalog_list(which)[place].name;
}

/* The catalog's, and "auto", which is none of them. */
const char *choice_kernel(int place)
{
    return place == 0 ? "auto" : of_catalog(CATALOG_KERNELS, place - 1);
}

const char *choice_solver(int place)
{
    return of_catalog(CATALOG_SOLVERS, place);
}

const char *choice_preconditioner(int place)
{
    return place == 0 ? "auto" : of_catalog(CATALOG_PRECONDITIONERS, place - 1);
}

const char *choice_center_method(int place)
{
    return of_catalog(CATALOG_CENTERS, place);
}

const char *choice_precision(int place)
{
    return job_spec_choices("precision")[place];
}

const char *choice_task(int place)
{
    return job_spec_choices("task")[place];
}

const char *choice_device(int place)
{
    static const char *const names[] = {"auto", "cpu", "cuda", NULL};
    return names[place];
}

const char *choice_status(int place)
{
    static const char *const names[] = {"queued",    "running", "paused",    "cancelling",
                                        "succeeded", "failed",  "cancelled", NULL};
    return names[place];
}

const char *choice_order(int place)
{
    static const char *const names[] = {"newest", "queue", NULL};
    return names[place];
}

const char *choice_table_format(int place)
{
    static const char *const names[] = {"csv", "libsvm", "npy", "npz", NULL};
    return names[place];
}

const char *choice_missing(int place)
{
    static const char *const names[] = {"refuse", "drop", "fill", "indicate", NULL};
    return names[place];
}

const char *choice_decimal(int place)
{
    static const char *const names[] = {"point", "comma", NULL};
    return names[place];
}

const char *choice_model_format(int place)
{
    static const char *const names[] = {"safetensors", "onnx", NULL};
    return names[place];
}
