/*
 * What can be asked for: kernels, solvers, preconditioners and ways to select centers, with their
 * parameter tables. The daemon validates with it without linking the engine; a conformance test
 * holds the engine's registries to it, name by name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/param.h"

struct method_def {
    const char *name;
    const char *title;                 /* formula or full name */
    const char *paper;                 /* citation, or "" */
    const char *help;                  /* when to use it, cost and memory */
    const struct param_def *params;    /* NULL: none */
    const struct param_clash *clashes; /* of its parameters; NULL: none */
    bool has_bandwidth;                /* kernels: distance-based, takes `bandwidth` */
    bool has_preconditioner;           /* solvers */
    bool restricted;                   /* solvers: of a model on few centers, takes `centers` */
    bool weighted;                     /* selectors: give weights; solvers: need such a selector */
    bool posterior;                    /* solvers: know variance and evidence; need a ridge */
    int64_t max_iterations;            /* solvers: the default of that limit; 0: the general one */
};

enum catalog { CATALOG_KERNELS, CATALOG_SOLVERS, CATALOG_PRECONDITIONERS, CATALOG_CENTERS };

/* The NULL-name-terminated list. Solvers start with "auto"; preconditioners and center
 * selectors with the default. */
const struct method_def *catalog_list(enum catalog which);
const struct method_def *catalog_find(enum catalog which, const char *name); /* or NULL */
/* {"object":"list","data":[{name, title, paper, help, parameters: […] as param_describe has
 * them}]}; kernels have `bandwidth`, solvers `preconditioner` and `centers` (true: the method
 * takes that field) and `variance` (true: its models know their own). */
struct json *catalog_describe(enum catalog which);
