#include "wire/catalog_parts.h"

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

const struct method_def catalog_kernels[] = {
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
