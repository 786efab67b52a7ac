#include "wire/catalog.h"

#include <string.h>

static const struct param_def linear_params[] = {
    {
        .key = "gamma",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .min_exclusive = true,
        .fallback = "1",
        .help = "Factor of the inner product.",
    },
    {
        .key = "coef0",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .fallback = "1",
        .help = "Constant term.",
    },
    {.key = NULL},
};

static const struct param_def polynomial_params[] = {
    {
        .key = "gamma",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .min_exclusive = true,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Factor of the inner product; auto: 1 / number of features.",
    },
    {
        .key = "coef0",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .fallback = "1",
        .help = "Constant term.",
    },
    {
        .key = "degree",
        .type = PARAM_INT,
        .min = 1,
        .max = 20,
        .fallback = "3",
        .help = "Exponent.",
    },
    {.key = NULL},
};

static const struct param_def sigmoid_params[] = {
    {
        .key = "gamma",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .min_exclusive = true,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Factor of the inner product; auto: 1 / number of features.",
    },
    {
        .key = "coef0",
        .type = PARAM_REAL,
        .min = -1e30,
        .max = 1e30,
        .fallback = "1",
        .help = "Constant term.",
    },
    {.key = NULL},
};

static const char *const factor_choices[] = {"float64", "float32", NULL};

static const struct param_def cholesky_params[] = {
    {
        .key = "factor",
        .type = PARAM_CHOICE,
        .choices = factor_choices,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Precision of the factor. float32 takes half the memory and about half the time, "
                "and is refined to the precision of the solve; auto: float32 where that is the "
                "faster way (n >= 4096, regularization >= 2^-23 max k(x,x), few features and "
                "targets) or the only one that fits.",
    },
    {
        .key = "block_size",
        .type = PARAM_INT,
        .min = 64,
        .max = 4096,
        .fallback = "512",
        .help = "Columns factorised in one step; a job can be cancelled between steps.",
    },
    {.key = NULL},
};

static const struct param_def pcg_params[] = {
    {
        .key = "residual_every",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "50",
        .help = "Iterations after which the residual is computed afresh, against the drift of the "
                "recurrence; each costs one more product with the kernel matrix.",
    },
    {.key = NULL},
};

static const struct param_def eigenpro2_params[] = {
    {
        .key = "subsample",
        .type = PARAM_INT,
        .min = 1,
        .max = 100000,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows s that the preconditioner is made from, at most the number n of training "
                "rows; auto: 2,000 below 100,000 training rows, else 12,000.",
    },
    {
        .key = "eigenvectors",
        .type = PARAM_INT,
        .min = 0,
        .max = 2000,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help =
            "Eigenvectors q of the subsample's kernel matrix that are flattened, at most s - 1; "
            "0: plain stochastic gradient descent; auto: as many as make the critical batch "
            "about s, at least 5 and at most 999.",
    },
    {
        .key = "alpha",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1,
        .min_exclusive = true,
        .fallback = "0.95",
        .help = "Exponent by which eigenvalues are flattened; below 1 to be safe against the "
                "subsample's errors.",
    },
    {
        .key = "batch_size",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows of a batch, at most n; auto: the critical batch size, within "
                "`batch_memory_mib`.",
    },
    {
        .key = "learning_rate",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .min_exclusive = true,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Step size eta, of which each row of a batch gets eta / batch_size; auto: by the "
                "published formula. Halved by itself whenever the residual grows.",
    },
    {
        .key = "batch_memory_mib",
        .type = PARAM_INT,
        .min = 1,
        .max = 1048576,
        .fallback = "256",
        .help = "Bound on the kernel values between a batch and the subsample, in MiB; bounds the "
                "automatic batch size.",
    },
    {
        .key = "residual_every",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "10",
        .help = "Epochs after which the true residual is computed; each time costs at most one "
                "more epoch.",
    },
    {.key = NULL},
};

#define RANK_PARAM                                                                                 \
    {                                                                                              \
        .key = "rank", .type = PARAM_INT, .min = 1, .max = 100000, .fallback = "\"auto\"",         \
        .allow_auto = true,                                                                        \
        .help = "Rank r of the approximation, at most the number n of training rows; auto: the "   \
                "smaller of n and ceil(10 sqrt(n)), less where building would cost more than 100 " \
                "iterations or an application more than an iteration, and halved until it takes "  \
                "a third of the free memory.",                                                     \
    }

static const struct param_def rank_params[] = {
    RANK_PARAM,
    {.key = NULL},
};

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
         "of memory. auto: 2 sqrt(n), at least 256 and at most 8192."},                            \
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

static const struct param_def skotch_params[] = {
    BLOCK_PARAMS,
    {.key = NULL},
};

static const struct param_def askotch2_params[] = {
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
        .min = 0,
        .max = 1e30,
        .min_exclusive = true,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Strong convexity the momentum assumes, lowered to 1/nu where it is larger; auto: "
                "measured on four blocks.",
    },
    {
        .key = "nu",
        .type = PARAM_REAL,
        .min = 1,
        .max = 1e30,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Spread of the blocks the momentum assumes; auto: n / b.",
    },
    {.key = NULL},
};

static const struct param_def rpcholesky_params[] = {
    RANK_PARAM,
    {
        .key = "block_size",
        .type = PARAM_INT,
        .min = 1,
        .max = 10000,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Pivots drawn together; 1 is the method as published, more is faster on wide "
                "machines.",
    },
    {.key = NULL},
};

#define ROBUST_PRECONDITIONING                                                                     \
    "Díaz, Epperly, Frangella, Tropp, Webber: Robust, randomized preconditioning for kernel "     \
    "ridge regression, arXiv:2304.12465"
/* About 1000 passes over the rows at the usual block sizes, the work of 1000 iterations of pcg. */
enum { BLOCK_ITERATIONS = 200000 };

#define ASKOTCH                                                                                    \
    "Rathore, Frangella, Yang, Dereziński, Udell: Have ASkotch: A neat solution for large-scale " \
    "kernel ridge regression, arXiv:2407.10070"
#define RPCHOLESKY                                                                                 \
    "Chen, Epperly, Tropp, Webber: Randomly pivoted Cholesky: Practical approximation of a "       \
    "kernel "                                                                                      \
    "matrix with few entry evaluations, arXiv:2207.06503; " ROBUST_PRECONDITIONING

#define EIGENPRO2                                                                                  \
    "Ma, Belkin: Kernel machines that adapt to GPUs for effective large batch training, "          \
    "arXiv:1806.06144; Abedsoltan, Belkin, Pandit: Toward large kernel models, arXiv:2302.02605"

static const struct method_def kernels[] = {
    {
        .name = "gaussian",
        .title = "exp(-|x-z|_2^2 / (2 s^2))",
        .paper = "",
        .help = "Infinitely smooth; for smooth targets and few features.",
        .has_bandwidth = true,
    },
    {
        .name = "laplacian",
        .title = "exp(-|x-z|_2 / s)",
        .paper = "",
        .help = "On the Euclidean norm; rough functions, well-conditioned systems.",
        .has_bandwidth = true,
    },
    {
        .name = "laplacian_l1",
        .title = "exp(-|x-z|_1 / s)",
        .paper = ROBUST_PRECONDITIONING,
        .help = "On the sum of absolute differences; usual for molecules.",
        .has_bandwidth = true,
    },
    {
        .name = "matern12",
        .title = "exp(-r), r = |x-z|_2 / s",
        .paper = "",
        .help = "Matern of smoothness 1/2: the same function as laplacian.",
        .has_bandwidth = true,
    },
    {
        .name = "matern32",
        .title = "(1 + sqrt(3) r) exp(-sqrt(3) r), r = |x-z|_2 / s",
        .paper = "",
        .help = "Matern of smoothness 3/2: once differentiable.",
        .has_bandwidth = true,
    },
    {
        .name = "matern52",
        .title = "(1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r), r = |x-z|_2 / s",
        .paper = "",
        .help = "Matern of smoothness 5/2: twice differentiable.",
        .has_bandwidth = true,
    },
    {
        .name = "linear",
        .title = "gamma x.z + coef0",
        .paper = "",
        .help = "Linear ridge regression in its dual form.",
        .params = linear_params,
    },
    {
        .name = "polynomial",
        .title = "(gamma x.z + coef0)^degree",
        .paper = "",
        .help = "Products of up to `degree` features; scale the features first.",
        .params = polynomial_params,
    },
    {
        .name = "sigmoid",
        .title = "tanh(gamma x.z + coef0)",
        .paper = "",
        .help = "Not positive definite in general: a solve may end with not_positive_definite or "
                "breakdown.",
        .params = sigmoid_params,
    },
    {.name = NULL},
};

static const struct method_def solvers[] = {
    {
        .name = "auto",
        .title = "Chosen by the size of the problem",
        .paper = "",
        .help =
            "cholesky while its matrix fits into a quarter of the memory and it is the faster way, "
            "else pcg.",
    },
    {
        .name = "cholesky",
        .title = "Cholesky factorisation of the full matrix",
        .paper = "",
        .help =
            "Exact up to rounding, or refined to a hundredth of the tolerance. n^3/3 operations "
            "and n^2 numbers of memory for n training rows, whatever the number of targets.",
        .params = cholesky_params,
    },
    {
        .name = "pcg",
        .title = "Preconditioned conjugate gradients on the full matrix",
        .paper = ROBUST_PRECONDITIONING,
        .help = "One product with the kernel matrix, n^2 kernel values, an iteration; memory is "
                "that of the preconditioner.",
        .params = pcg_params,
        .has_preconditioner = true,
    },
    {
        .name = "askotch2",
        .title = "Accelerated sketch-and-project, a fresh block of rows each step",
        .paper = ASKOTCH,
        .help = "An iteration is one block of b rows: b n kernel values. Memory: 4 numbers a row "
                "and target, and b^2; for data too large for a preconditioner of all rows.",
        .params = askotch2_params,
        .max_iterations = BLOCK_ITERATIONS,
    },
    {
        .name = "askotch",
        .title = "Accelerated block coordinate descent on a fixed partition of the rows",
        .paper = ASKOTCH,
        .help = "Version 1 of askotch2, as first published: blocks are drawn by their smoothness, "
                "which takes a sweep over all blocks first. Iterations and memory as askotch2's.",
        .params = skotch_params,
        .max_iterations = BLOCK_ITERATIONS,
    },
    {
        .name = "skotch",
        .title = "Block coordinate descent on a fixed partition of the rows",
        .paper = ASKOTCH,
        .help = "askotch without momentum, for comparisons.",
        .params = skotch_params,
        .max_iterations = BLOCK_ITERATIONS,
    },
    {
        .name = "eigenpro2",
        .title = "EigenPro 2.0: preconditioned stochastic gradient descent",
        .paper = EIGENPRO2,
        .help =
            "Epochs of small batches, n^2 kernel values each and 4 n t numbers of memory. A few "
            "epochs give the test error of rough kernels (laplacian) without regularization: "
            "within 1 % of the exact one after 2 epochs on 16,000 rows of letter, pcg after "
            "13 products. Smooth kernels with little regularization are for pcg: 45 epochs "
            "against 2 products on 13,900 rows of bike, gaussian. A small residual takes "
            "beta / (n regularization) epochs for a factor of e.",
        .params = eigenpro2_params,
    },
    {.name = NULL},
};

static const struct method_def preconditioners[] = {
    {
        .name = "rpcholesky",
        .title = "Randomly pivoted Cholesky",
        .paper = RPCHOLESKY,
        .help = "A low-rank approximation from r columns of the kernel matrix: n r^2 operations "
                "and n r numbers of memory, once.",
        .params = rpcholesky_params,
    },
    {
        .name = "nystrom_uniform",
        .title = "Nystrom approximation from uniform columns",
        .paper = "Williams, Seeger: Using the Nystrom method to speed up kernel machines, NIPS "
                 "2000; " ROBUST_PRECONDITIONING,
        .help = "r columns of the kernel matrix drawn without looking at it: for data without "
                "outliers or small clusters. n r^2 operations and n r numbers of memory, once.",
        .params = rank_params,
    },
    {
        .name = "nystrom_gaussian",
        .title = "Nystrom approximation from products with Gaussian vectors",
        .paper = "Frangella, Tropp, Udell: Randomized Nystrom preconditioning, SIAM J. Matrix "
                 "Anal. Appl. 44, 2023, arXiv:2110.02820; " ROBUST_PRECONDITIONING,
        .help = "The closest to the best approximation of its rank, and the dearest: all n^2 "
                "kernel values once, n^2 r + 3 n r^2 operations, and n r numbers of memory, twice "
                "that while it is built.",
        .params = rank_params,
    },
    {
        .name = "cholesky_greedy",
        .title = "Greedily pivoted Cholesky",
        .paper = "Harbrecht, Peters, Schneider: On the low-rank approximation by the pivoted "
                 "Cholesky decomposition, Appl. Numer. Math. 62, 2012; " ROBUST_PRECONDITIONING,
        .help = "The row with the largest residual comes next: finds outliers, and little else "
                "while there are any. n r^2 operations and n r numbers of memory, once.",
        .params = rank_params,
    },
    {
        .name = "none",
        .title = "The identity",
        .paper = "",
        .help = "Plain conjugate gradients; for well-conditioned systems and comparisons.",
    },
    {.name = NULL},
};

const struct method_def *catalog_list(enum catalog which)
{
    switch (which) {
    case CATALOG_KERNELS:
        return kernels;
    case CATALOG_SOLVERS:
        return solvers;
    case CATALOG_PRECONDITIONERS:
        break;
    }
    return preconditioners;
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
