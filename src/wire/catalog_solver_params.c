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
                "descent; auto: half of c, at most s / 10; all where s = n, c = m and b = n.",
    },
    {
        .key = "alpha",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1,
        .min_exclusive = true,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Exponent by which eigenvalues are flattened; below 1 to be safe against the "
                "subsample's errors. auto: 0.95, or 1 where there are none: s = n, c = m, b = n.",
    },
    {
        .key = "batch_size",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows b of a batch, at most n; auto: the critical batch size, at least 64 or "
                "260,000 / m and at most n / 8, within `batch_memory_mib`; n where the "
                "preconditioner is made from all rows (s = n) and all centers (c = m), as of up to "
                "2,000 rows.",
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
