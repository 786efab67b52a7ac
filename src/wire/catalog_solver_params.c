/* The parameter tables of the solvers, which catalog_solvers.c lists. */
#include "wire/catalog_parts.h"

static const char *const factor_choices[] = {"float64", "float32", NULL};

const struct param_def catalog_cholesky_params[] = {
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

const struct param_def catalog_pcg_params[] = {
    {
        .key = "residual_every",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "50",
        .help = "Iterations after which the residual is computed afresh, against the drift of the "
                "recurrence; each costs one more product with the kernel matrix. In mixed "
                "precision the drift is estimated from some rows instead, and more often.",
    },
    {.key = NULL},
};

#define AMPLITUDE                                                                                  \
    {                                                                                              \
        .key = "amplitude", .type = PARAM_REAL, .min = 0, .max = 1e30, .min_exclusive = true,      \
        .fallback = "\"auto\"", .allow_auto = true,                                                \
        .help = "Variance of the prior where k(x,x) is 1, of targets as they are solved for "      \
                "(standardised, unless the job says otherwise); that of the noise is "             \
                "n regularization times as large. auto: of each target the most likely one. "      \
                "The mean does not depend on it.",                                                 \
    }

#define DIRECTIONS(as_many)                                                                        \
    {                                                                                              \
        .key = "directions", .type = PARAM_INT, .min = 1, .max = 100000, .fallback = "500",        \
        .help = "Search directions p at most, and at most as many as " as_many                     \
                ": the rank of what the model knows of its variance.",                             \
    }

#define PROBES                                                                                     \
    {                                                                                              \
        .key = "probes", .type = PARAM_INT, .min = 0, .max = 1000, .fallback = "\"auto\"",         \
        .allow_auto = true,                                                                        \
        .help = "Random targets beside the job's own, which share each product: their directions " \
                "learn the kernel where the targets are silent, for the variance's sake. 0: as "   \
                "published; auto: 16 with the targets.",                                           \
    }

static const char *const kmcg_choices[] = {"dtc", "vfe", NULL};

const struct param_def catalog_kmcg_params[] = {
    DIRECTIONS("training rows"),
    PROBES,
    {
        .key = "approximation",
        .type = PARAM_CHOICE,
        .choices = kmcg_choices,
        .fallback = "\"vfe\"",
        .help = "Whether the evidence pays for the part of k(x,x) that the directions do not show. "
                "vfe: it does, and is a bound; dtc: as published, too large while directions are "
                "few. Mean and variance are the same.",
    },
    AMPLITUDE,
    {.key = NULL},
};

static const char *const approximation_choices[] = {"dtc", "fitc", "vfe", NULL};

const struct param_def catalog_inducing_params[] = {
    {
        .key = "approximation",
        .type = PARAM_CHOICE,
        .choices = approximation_choices,
        .fallback = "\"vfe\"",
        .help = "What becomes of the part of k(x,x) that the centers do not show. dtc: it is left "
                "out; fitc: it is noise of its row; vfe: the evidence pays for it (Titsias's "
                "bound), mean and variance are those of dtc.",
    },
    AMPLITUDE,
    {.key = NULL},
};

const struct param_def catalog_kmcg_restricted_params[] = {
    DIRECTIONS("centers"),
    PROBES,
    {
        .key = "approximation",
        .type = PARAM_CHOICE,
        .choices = approximation_choices,
        .fallback = "\"vfe\"",
        .help = "What becomes of the part of k(x,x) that the directions do not show. dtc: it is "
                "left out, as published; fitc: it is noise of its row; vfe: the evidence pays for "
                "it (Titsias's bound), mean and variance are those of dtc.",
    },
    AMPLITUDE,
    {.key = NULL},
};

/* Restricted problems, by conjugate gradients. */
#define RESIDUAL_EVERY                                                                             \
    {                                                                                              \
        .key = "residual_every", .type = PARAM_INT, .min = 1, .max = 1e9, .fallback = "20",        \
        .help = "Iterations after which the residual is computed afresh, against the drift of "    \
                "the recurrence; each costs one more pass over the rows.",                         \
    }

const struct param_def catalog_normal_params[] = {RESIDUAL_EVERY, {.key = NULL}};

static const char *const starts[] = {"centers", "zero", NULL};

const struct param_def catalog_falkon_bless_params[] = {
    RESIDUAL_EVERY,
    {
        .key = "start",
        .type = PARAM_CHOICE,
        .choices = starts,
        .fallback = "\"centers\"",
        .help = "What the iteration begins with. centers: the solution of the centers' own "
                "problem, where they are rows of the data, for one pass over the rows; zero: as "
                "published. A warm start takes the place of either.",
    },
    {.key = NULL},
};

const struct param_def catalog_krill_params[] = {
    {
        .key = "oversampling",
        .type = PARAM_REAL,
        .min = 1,
        .max = 100,
        .fallback = "4",
        .help = "Rows d of the sketch for each center (the paper has 2). Building takes d m^2 / 2 "
                "multiplications; an iteration leaves about sqrt(m / d) of the error.",
    },
    {
        .key = "nonzeros",
        .type = PARAM_INT,
        .min = 1,
        .max = 1000,
        .fallback = "8",
        .help = "Rows of the sketch that a training row is added to: the next power of two is "
                "taken, 64 at most.",
    },
    {
        .key = "residual_every",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "20",
        .help = "Iterations after which the residual is computed afresh, against the drift of the "
                "recurrence; each costs one more pass over the rows.",
    },
    {.key = NULL},
};

const struct param_def catalog_eigenpro2_params[] = {
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

static const char *const projections[] = {"auto", "exact", "inexact", NULL};

/* EigenPro 3 and 4. */
const struct param_def catalog_eigenpro34_params[] = {
    {
        .key = "projection",
        .type = PARAM_CHOICE,
        .choices = projections,
        .fallback = "\"auto\"",
        .help = "How functions are brought back to the span of the centers. exact: by a Cholesky "
                "factor of their m x m matrix, m^2 float64 numbers of memory; inexact: by epochs "
                "of EigenPro 2 on the centers, m^2 kernel values each and no matrix. auto: exact "
                "up to 20,000 centers.",
    },
    {
        .key = "projection_epochs",
        .type = PARAM_INT,
        .min = 1,
        .max = 1000,
        .fallback = "1",
        .help = "Epochs of an inexact projection.",
    },
    {
        .key = "plain_epochs",
        .type = PARAM_INT,
        .min = 0,
        .max = 1e9,
        .fallback = "1",
        .help = "Epochs as published, in which the noise of the batches stays; from then on each "
                "epoch begins with the full gradient, one pass more, and converges.",
    },
    {
        .key = "residual_every",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "10",
        .help = "Plain epochs after which the true residual is computed, and the run ends where it "
                "has reached the tolerance; it costs a pass, half of an epoch. After the last "
                "plain epoch and in later ones it is known anyway, and at the end of every run, so "
                "that only a value below `plain_epochs`, which is 1 by default, has an effect.",
    },
    {
        .key = "subsample",
        .type = PARAM_INT,
        .min = 1,
        .max = 1000000,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows s that the preconditioner is made from, at most the number n of training "
                "rows; auto: five times its centers, at least 2,000.",
    },
    {
        .key = "subsample_centers",
        .type = PARAM_INT,
        .min = 1,
        .max = 2500,
        .fallback = "2000",
        .help = "Centers c whose span the preconditioner works in, at most all m; 2 c^2 numbers of "
                "memory while it is built, and an eigen-decomposition of that size.",
    },
    {
        .key = "eigenvectors",
        .type = PARAM_INT,
        .min = 0,
        .max = 2500,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Eigenvectors q that are flattened, at most c - 1; 0: plain stochastic gradient "
                "descent; auto: half of c, at most s / 10.",
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
        .help = "Rows b of a batch, at most n; auto: the critical batch size, at least 64 or "
                "260,000 / m and at most n / 8, within `batch_memory_mib`.",
    },
    {
        .key = "learning_rate",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e30,
        .min_exclusive = true,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Step size eta, of which each row of a batch gets eta / b, half of that after the "
                "plain epochs; auto: by the published formula. Halved by itself whenever the "
                "residual grows.",
    },
    {
        .key = "batch_memory_mib",
        .type = PARAM_INT,
        .min = 1,
        .max = 1048576,
        .fallback = "256",
        .help = "Bound on the kernel values between a batch and the centers, b m numbers, in MiB; "
                "bounds the automatic batch size.",
    },
    {.key = NULL},
};

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
             "n / 8."},                                                                            \
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
