#include "wire/catalog_parts.h"

#define RANK_PARAM                                                                                 \
    {                                                                                              \
        .key = "rank", .type = PARAM_INT, .min = 1, .max = 100000, .fallback = "\"auto\"",         \
        .allow_auto = true,                                                                        \
        .help = "Rank r of the approximation, at most the number n of training rows; auto: the "   \
                "smaller of n and ceil(10 sqrt(n)), less where building would cost more than 100 " \
                "iterations (by a grid of places 20, but for 100 columns) or an application more " \
                "than an iteration, and halved until it takes a third of the free memory.",        \
    }

static const struct param_def rank_params[] = {
    RANK_PARAM,
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
        .help = "Pivots proposed together, of which some are rejected so that the law is that of "
                "pivots drawn one by one (block_size 1), whatever the number; more is faster on "
                "wide machines.",
    },
    {.key = NULL},
};

const struct method_def catalog_preconditioners[] = {
    {
        .name = "rpcholesky",
        .title = "Randomly pivoted Cholesky",
        .paper = RPCHOLESKY "; " ROBUST_PRECONDITIONING,
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
                "that and 64 MiB while it is built.",
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
        .name = "kronecker",
        .title = "All places of a grid",
        .paper = "Bartels, Hennig: Conjugate gradients for kernel machines, JMLR 21, 2020, section "
                 "4.2 (the grids)",
        .help = "For rows on a grid of at most four places for each row, and the kernels gaussian "
                "and laplacian_l1, which are products over the features: the eigenvectors of a "
                "small matrix for each feature. One or two iterations where every place has a "
                "row; places without rows or with several cost Chebyshev steps, which are found "
                "out first.",
    },
    {
        .name = "none",
        .title = "The identity",
        .paper = "",
        .help = "Plain conjugate gradients; for well-conditioned systems and comparisons.",
    },
    {.name = NULL},
};
