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
        .help = "Pivots drawn together; 1 is the method as published, more is faster on wide "
                "machines.",
    },
    {.key = NULL},
};

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
        .name = "file",
        .title = "The rows of another data set",
        .paper = "",
        .help = "Centers of the user's own: all rows of the data set, or `count` of them drawn "
                "uniformly.",
    },
    {.name = NULL},
};
