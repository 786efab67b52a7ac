#include "wire/catalog_parts.h"

static const struct param_def kmeans_params[] = {
    {
        .key = "sample",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows that the seeds are drawn from, at least m and at most n, in memory while "
                "that lasts; auto: 10 m, at least 20,000.",
    },
    {
        .key = "batch_size",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows of a mini-batch, at most n; auto: 2 m, at least 4,096.",
    },
    {
        .key = "rows",
        .type = PARAM_INT,
        .min = 0,
        .max = 1e12,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows seen in mini-batches, in all passes; 0: the seeds are the centers. auto: "
                "100 m, at least 200,000 and at most 3 n.",
    },
    {.key = NULL},
};

static const struct param_def rpcholesky_params[] = {
    {
        .key = "sample",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows N that are looked at, at least m and at most n; N m numbers of memory. auto: "
                "20 m, at least 20,000, and less where that takes a quarter of the free memory.",
    },
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

/* What the ways by leverage scores share. */
#define OVERSAMPLING                                                                               \
    {                                                                                              \
        .key = "q2", .type = PARAM_REAL, .min = 0.01, .max = 1000, .fallback = "\"auto\"",         \
        .allow_auto = true,                                                                        \
        .help = "Centers for each unit of the effective dimension: more give scores that are "     \
                "closer, at the cost of their square. Where m are asked for, the scores are at "   \
                "the lambda where q2 times the effective dimension is m, unless `regularization` " \
                "names it. auto: 5; m / 20, from 5 to 100, where that lambda is looked for.",      \
    }
#define REGULARIZATION                                                                             \
    {                                                                                              \
        .key = "regularization", .type = PARAM_REAL, .min = 0, .min_exclusive = true,              \
        .max = 1e100, .fallback = "\"auto\"", .allow_auto = true,                                  \
        .help =                                                                                    \
            "Lambda of the leverage scores, for each training row as the job's own is. Larger "    \
            "than that, as published: fewer centers, sooner. auto: the job's; where m are "        \
            "asked for, the one where q2 times the effective dimension is m.",                     \
    }
#define LEVELS                                                                                     \
    {.key = "q",                                                                                   \
     .type = PARAM_REAL,                                                                           \
     .min = 1.05,                                                                                  \
     .max = 100,                                                                                   \
     .fallback = "2",                                                                              \
     .help = "Factor at most from one lambda of the path to the next."},                           \
        {.key = "t",                                                                               \
         .type = PARAM_REAL,                                                                       \
         .min = 0.001,                                                                             \
         .max = 1,                                                                                 \
         .fallback = "1",                                                                          \
         .help = "The path of lambda starts at max k(x,x) / t."},                                  \
    {                                                                                              \
        .key = "candidates", .type = PARAM_INT, .min = 256, .max = 1e9, .fallback = "\"auto\"",    \
        .allow_auto = true,                                                                        \
        .help = "Rows of a level whose scores are computed, at most; at least twice the centers "  \
                "asked for. auto: 100,000, and a job that would take more says so; 20 m, at "      \
                "least 20,000, where the lambda for m is looked for.",                             \
    }

static const struct param_def bless_params[] = {
    LEVELS,
    {
        .key = "q1",
        .type = PARAM_REAL,
        .min = 0.01,
        .max = 1000,
        .fallback = "3",
        .help = "Candidates of a level are q1 max k(x,x) / lambda rows.",
    },
    OVERSAMPLING,
    REGULARIZATION,
    {.key = NULL},
};

static const struct param_def bless_r_params[] = {
    LEVELS,
    OVERSAMPLING,
    REGULARIZATION,
    {.key = NULL},
};

static const struct param_def recursive_params[] = {
    OVERSAMPLING,
    REGULARIZATION,
    {
        .key = "first",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e6,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows of the first, uniform set at most. auto: 512 for rls; max k(x,x) / lambda, "
                "but at most 10,000, for two_pass.",
    },
    {.key = NULL},
};

static const struct param_def squeak_params[] = {
    OVERSAMPLING,
    REGULARIZATION,
    {
        .key = "block_size",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e6,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Rows that come in at a time; auto: as many as there are centers so far, at least "
                "256.",
    },
    {.key = NULL},
};

#define LEVERAGE                                                                                   \
    " `count` \"auto\": as many as the regularization asks for, q2 times its effective dimension."

const struct method_def catalog_centers[] = {
    {
        .name = "uniform",
        .title = "Rows drawn uniformly without replacement",
        .paper = "Williams, Seeger: Using the Nystrom method to speed up kernel machines, NIPS "
                 "2000",
        .help = "Costs nothing; for data without small clusters or outliers that matter.",
    },
    {
        .name = "kmeans",
        .title = "Centers of clusters: k-means++ and mini-batches",
        .paper = "Arthur, Vassilvitskii: k-means++: The advantages of careful seeding, SODA 2007; "
                 "Sculley: Web-scale k-means clustering, WWW 2010; " EIGENPRO3,
        .help = "Free points that lie closer to the rows than rows would, so that fewer do. "
                "Distances of m centers to a sample and to the rows of the batches: about 110 m^2 "
                "of them, or 4 n m where that is less.",
        .params = kmeans_params,
        .clashes = catalog_kmeans_clashes,
    },
    {
        .name = "rpcholesky",
        .title = "Pivots of randomly pivoted Cholesky",
        .paper = RPCHOLESKY,
        .help = "Rows that the centers so far describe worst are the likeliest: finds small "
                "clusters and outliers. N m^2 / 2 multiplications and N m numbers of memory on a "
                "sample of N rows. Fewer centers than asked for come back where the kernel matrix "
                "has no further rank.",
        .params = rpcholesky_params,
    },
    {
        .name = "bless",
        .title = "Leverage scores, bottom up, with replacement",
        .paper = BLESS,
        .help = "Rows in proportion to their ridge leverage scores, for more accuracy from fewer "
                "centers and a better preconditioner; the cost, min(n, q1 max k(x,x) / lambda) m^2 "
                "multiplications, does not grow with n. The effective dimensions on "
                "the way down to lambda are in the job's result." LEVERAGE,
        .params = bless_params,
        .weighted = true,
    },
    {
        .name = "bless_r",
        .title = "Leverage scores, bottom up, without replacement",
        .paper = BLESS,
        .help = "As bless, each row on its own: weights that vary less." LEVERAGE,
        .params = bless_r_params,
        .weighted = true,
    },
    {
        .name = "rls",
        .title = "Leverage scores by recursion over halves of the rows",
        .paper = "Musco, Musco: Recursive sampling for the Nystrom method, NIPS 2017, "
                 "arXiv:1605.07583",
        .help = "Scores of all rows: n m^2 multiplications." LEVERAGE,
        .params = recursive_params,
        .weighted = true,
    },
    {
        .name = "two_pass",
        .title = "Leverage scores from one uniform set",
        .paper = "El Alaoui, Mahoney: Fast randomized kernel methods with statistical guarantees, "
                 "NIPS 2015, arXiv:1411.0306",
        .help = "The simplest, and the dearest for small lambda: n first^2 multiplications; for "
                "comparisons." LEVERAGE,
        .params = recursive_params,
        .weighted = true,
    },
    {
        .name = "squeak",
        .title = "Leverage scores in a single pass over the rows",
        .paper = "Calandriello, Lazaric, Valko: Distributed adaptive sampling for kernel matrix "
                 "approximation, AISTATS 2017, arXiv:1803.10172",
        .help = "Reads every row once, in order, and keeps the centers of what it has seen: about "
                "10 n m^2 multiplications." LEVERAGE,
        .params = squeak_params,
        .weighted = true,
    },
    {
        .name = "file",
        .title = "The rows of another data set",
        .paper = "",
        .help = "Centers of the user's own: all rows of the data set, or `count` of them drawn "
                "uniformly.",
    },
    {.name = NULL},
};
