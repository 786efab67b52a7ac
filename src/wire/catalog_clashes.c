/* Parameters that others leave without effect. */
#include "wire/catalog_parts.h"

/* A rank, a damping and a step size are of sketches; plain descent has the step size alone. */
#define BLOCK_CLASHES                                                                              \
    {"rank", "block_preconditioner", "\"cholesky\""},                                              \
        {"rank", "block_preconditioner", "\"none\""},                                              \
        {"damping", "block_preconditioner", "\"cholesky\""},                                       \
        {"damping", "block_preconditioner", "\"none\""},                                           \
    {                                                                                              \
        "power_iterations", "block_preconditioner", "\"cholesky\""                                 \
    }

const struct param_clash catalog_block_clashes[] = {BLOCK_CLASHES, {.key = NULL}};

/* All three are of the momentum. */
const struct param_clash catalog_askotch2_clashes[] = {
    BLOCK_CLASHES,
    {"mu", "accelerated", "false"},
    {"nu", "accelerated", "false"},
    {"restarts", "accelerated", "false"},
    {.key = NULL},
};

/* `batch_memory_mib` bounds the number of eigenvectors, too. */
const struct param_clash catalog_eigenpro2_clashes[] = {
    {"alpha", "eigenvectors", "0"},
    {.key = NULL},
};

const struct param_clash catalog_eigenpro34_clashes[] = {
    {"alpha", "eigenvectors", "0"},
    {"batch_memory_mib", "batch_size", NULL},
    {"projection_epochs", "projection", "\"exact\""},
    {"residual_every", "plain_epochs", "0"},
    {.key = NULL},
};

const struct param_clash catalog_stochastic_clashes[] = {
    {"damping", "rho", NULL},
    {.key = NULL},
};

const struct param_clash catalog_kmeans_clashes[] = {
    {"batch_size", "rows", "0"},
    {.key = NULL},
};
