/* Parameters of the solvers that go by blocks of rows or by mini-batches. */
#include "wire/catalog_parts.h"

/* With less, momentum is that of no strong convexity at all, and its sums grow without bound. */
#define MU_LEAST 1e-12

static const char *const block_preconditioners[] = {"auto", "nystrom", "cholesky", "none", NULL};
static const char *const dampings[] = {"damped", "regularization", NULL};
static const char *const samplings[] = {"shuffled", "uniform", "leverage", NULL};

/* What the block methods share. */
#define BLOCK_PARAMS                                                                               \
    {.key = "block_size",                                                                          \
     .type = PARAM_INT,                                                                            \
     .min = 1,                                                                                     \
     .max = 32768,                                                                                 \
     .fallback = "\"auto\"",                                                                       \
     .allow_auto = true,                                                                           \
     .help =                                                                                       \
         "Rows b of a block, at most the number n of training rows; a block takes b^2 numbers "    \
         "of memory. auto: n up to 2,048 rows, beyond 2 sqrt(n), at least 256 and at most 8192."}, \
        {.key = "block_preconditioner",                                                            \
         .type = PARAM_CHOICE,                                                                     \
         .choices = block_preconditioners,                                                         \
         .fallback = "\"auto\"",                                                                   \
         .help = "nystrom: a randomized sketch of the block's kernel matrix; cholesky: its exact " \
                 "factor; none: plain block descent. auto: cholesky where that costs less than "   \
                 "the sketch or little beside the kernel values, else nystrom."},                  \
        {.key = "rank",                                                                            \
         .type = PARAM_INT,                                                                        \
         .min = 1,                                                                                 \
         .max = 10000,                                                                             \
         .fallback = "100",                                                                        \
         .help = "Rank r of the Nystrom sketch, at most the block size."},                         \
        {.key = "damping",                                                                         \
         .type = PARAM_CHOICE,                                                                     \
         .choices = dampings,                                                                      \
         .fallback = "\"damped\"",                                                                 \
         .help = "What the sketch is given as a multiple of the identity. regularization: n "      \
                 "lambda; damped: that and the sketch's r-th eigenvalue."},                        \
        {.key = "power_iterations",                                                                \
         .type = PARAM_INT,                                                                        \
         .min = 1,                                                                                 \
         .max = 1000,                                                                              \
         .fallback = "10",                                                                         \
         .help = "Power iterations at most for the step size of a block."},                        \
    {                                                                                              \
        .key = "residual_every", .type = PARAM_INT, .min = 1, .max = 1e6, .fallback = "10",        \
        .help = "Passes over the rows (n / b steps each) after which the true residual is "        \
                "computed; it costs at most one pass more. Besides, it is computed whenever the "  \
                "estimate from the blocks has reached the tolerance."                              \
    }

#define RESTARTS                                                                                   \
    {                                                                                              \
        .key = "restarts", .type = PARAM_BOOL, .fallback = "true",                                 \
        .help = "Whether momentum that goes uphill over a pass, 10 steps at least, is dropped "    \
                "(arXiv:1204.3982); false, with a mu: the iteration as published."                 \
    }

const struct param_def catalog_skotch_params[] = {
    BLOCK_PARAMS,
    {
        .key = "alpha",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1,
        .fallback = "0.5",
        .help = "Sampling parameter of Algorithm 4: a block is drawn in proportion to its "
                "smoothness to this power; 0: all alike.",
    },
    {.key = NULL},
};

const struct param_def catalog_askotch_params[] = {
    BLOCK_PARAMS,
    {
        .key = "beta",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1,
        .fallback = "0",
        .help = "Acceleration parameter of Algorithm 1: blocks are drawn in proportion to their "
                "smoothness to the power (1 - beta) / 2, and the momentum is divided by it to the "
                "power beta; 1: drawn all alike, as in Theorem 5.1.",
    },
    {
        .key = "mu",
        .type = PARAM_REAL,
        .min = MU_LEAST,
        .max = 1e30,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help =
            "Strong convexity the momentum assumes, where Algorithm 1 has lambda, which is n "
            "times `regularization`; lowered to half the square of the sum over blocks of "
            "smoothness to the power (1 - beta) / 2 where it is larger. auto: none; momentum rises "
            "from step to step, and less after each restart. Without restarts a constant one "
            "is measured on all blocks.",
    },
    RESTARTS,
    {.key = NULL},
};

const struct param_def catalog_askotch2_params[] = {
    BLOCK_PARAMS,
    {
        .key = "sampling",
        .type = PARAM_CHOICE,
        .choices = samplings,
        .fallback = "\"shuffled\"",
        .help = "How blocks are drawn. shuffled: every pass meets all rows, in a new random order; "
                "uniform: each block afresh, as published; leverage: likewise, with half of the "
                "chance in proportion to approximate ridge leverage scores.",
    },
    {
        .key = "accelerated",
        .type = PARAM_BOOL,
        .fallback = "true",
        .help = "Nesterov's momentum; false is Skotch, version 2.",
    },
    {
        .key = "mu",
        .type = PARAM_REAL,
        .min = MU_LEAST,
        .max = 1e30,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Strong convexity the momentum assumes, lowered to 1/nu where it is larger. auto: "
                "none; momentum rises from step to step, and less after each restart. Without "
                "restarts a constant one is measured on four blocks.",
    },
    {
        .key = "nu",
        .type = PARAM_REAL,
        .min = 1,
        .max = 1e30,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help =
            "Spread of the blocks the momentum assumes; auto: n / b, or half of it, 1 at least, "
            "while momentum rises and blocks are sketched with a rank below b, or not "
            "preconditioned.",
    },
    RESTARTS,
    {.key = NULL},
};

/* What the stochastic methods for restricted problems share. */
#define STOCHASTIC_PARAMS                                                                          \
    {.key = "batch_size",                                                                          \
     .type = PARAM_INT,                                                                            \
     .min = 1,                                                                                     \
     .max = 1e9,                                                                                   \
     .fallback = "\"auto\"",                                                                       \
     .allow_auto = true,                                                                           \
     .help = "Rows b of a batch, at most n; auto: as many as centers, at least 256 and at most "   \
             "n / 8; of up to 512 rows all, where the preconditioner is exact for all."},          \
        {.key = "rank",                                                                            \
         .type = PARAM_INT,                                                                        \
         .min = 1,                                                                                 \
         .max = 100000,                                                                            \
         .fallback = "\"auto\"",                                                                   \
         .allow_auto = true,                                                                       \
         .help = "Rank r of the preconditioner, at most the number m of centers. m: exact for "    \
                 "the rows it is made from, m^3 operations and 3 m^2 numbers of memory; less: a "  \
                 "Nystrom sketch, 3 m r numbers. auto: m up to 8192 centers, else 500."},          \
        {.key = "hessian_rows",                                                                    \
         .type = PARAM_INT,                                                                        \
         .min = 1,                                                                                 \
         .max = 1e9,                                                                               \
         .fallback = "\"auto\"",                                                                   \
         .allow_auto = true,                                                                       \
         .help = "Rows that the preconditioner is made from, at most n; auto: 8 r, of more than "  \
                 "1024 centers fewer, down to 4 r; at least sqrt(n)."},                            \
        {.key = "damping",                                                                         \
         .type = PARAM_REAL,                                                                       \
         .min = 0,                                                                                 \
         .max = 1e12,                                                                              \
         .min_exclusive = true,                                                                    \
         .fallback = "\"auto\"",                                                                   \
         .allow_auto = true,                                                                       \
         .help = "Damping of the preconditioner, as a multiple of n lambda (rank m) or of the "    \
                 "sketch's r-th eigenvalue; auto: 1 where batches are smooth enough with it, "     \
                 "else the power of 10, up to 1e15, that wins a short race on a sample of the "    \
                 "rows."},                                                                         \
        {.key = "rho",                                                                             \
         .type = PARAM_REAL,                                                                       \
         .min = 0,                                                                                 \
         .max = 1e30,                                                                              \
         .min_exclusive = true,                                                                    \
         .fallback = "\"auto\"",                                                                   \
         .allow_auto = true,                                                                       \
         .help = "Damping itself, in place of a multiple: with a rank below the number m of "      \
                 "centers the rho of Algorithm 5 of arXiv:2407.10070v1, for objectives that are "  \
                 "sums over the rows; with rank m, the default up to 8,192, it multiplies K_mm "   \
                 "instead of I. auto: by `damping`."},                                             \
    {                                                                                              \
        .key = "power_iterations", .type = PARAM_INT, .min = 1, .max = 1000, .fallback = "10",     \
        .help = "Power iterations for the step size, on each of four batches."                     \
    }

const struct param_def catalog_sketchysaga_params[] = {
    STOCHASTIC_PARAMS,
    {
        .key = "learning_rate_scaling",
        .type = PARAM_REAL,
        .min = 0,
        .max = 2,
        .min_exclusive = true,
        .fallback = "0.5",
        .help = "Step size as a share of 1 / L, L the smoothness: the alpha of Algorithm 5 of "
                "arXiv:2407.10070v1. Halved by itself whenever the residual grows.",
    },
    {
        .key = "residual_every",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "10",
        .help = "Epochs after which the true residual is computed, which costs one more. Besides, "
                "it is computed whenever the estimate from the table has reached the tolerance.",
    },
    {.key = NULL},
};

const struct param_def catalog_sketchykatyusha_params[] = {
    STOCHASTIC_PARAMS,
    {
        .key = "mu",
        .type = PARAM_REAL,
        .min = MU_LEAST,
        .max = 1,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Strong convexity that the momentum assumes, in the norm of the preconditioner; "
                "auto: a quarter of n lambda over the damping, of a sketch a hundredth, and less "
                "where the residual does not fall.",
    },
    {.key = NULL},
};

/* About 1000 passes over the rows at the usual block sizes, the work of 1000 iterations of pcg. */
