#include "wire/catalog_parts.h"

enum { BLOCK_ITERATIONS = 200000 };

#define ASKOTCH                                                                                    \
    "Rathore, Frangella, Yang, Dereziński, Udell: Have ASkotch: A neat solution for large-scale " \
    "kernel ridge regression, arXiv:2407.10070"

#define ASKOTCH_1                                                                                  \
    "Rathore, Frangella, Udell: Have ASkotch: Fast methods for large-scale, memory-constrained "   \
    "kernel ridge regression, arXiv:2407.10070v1"

#define PROMISE                                                                                    \
    "Frangella, Rathore, Zhao, Udell: PROMISE: Preconditioned stochastic optimization methods by " \
    "incorporating scalable curvature estimates, arXiv:2309.02014"

#define FALKON                                                                                     \
    "Rudi, Carratino, Rosasco: FALKON: An optimal large scale kernel method, arXiv:1705.10958"

#define BLESS                                                                                      \
    "Rudi, Calandriello, Carratino, Rosasco: On fast leverage score sampling and optimal "         \
    "learning, arXiv:1810.13258"

#define EIGENPRO4                                                                                  \
    "Abedsoltan, Ma, Pandit, Belkin: Fast training of large kernel models with delayed "           \
    "projections, arXiv:2411.16658"

#define KMCG                                                                                       \
    "Bartels, Hennig: Conjugate gradients for kernel machines, Journal of Machine Learning "       \
    "Research 21 (2020)"

#define INDUCING                                                                                   \
    "Quiñonero-Candela, Rasmussen: A unifying view of sparse approximate Gaussian process "       \
    "regression, Journal of Machine Learning Research 6 (2005); Titsias: Variational learning of " \
    "inducing variables in sparse Gaussian processes, AISTATS 2009; " KMCG

#define EIGENPRO2                                                                                  \
    "Ma, Belkin: Kernel machines that adapt to GPUs for effective large batch training, "          \
    "arXiv:1806.06144; " EIGENPRO3

const struct method_def catalog_solvers[] = {
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
            "Exact up to rounding, or refined to a hundredth of the tolerance. n^3/3 operations; "
            "n^2 numbers of memory (half as many bytes with a float32 factor) and 3 n t for n "
            "training rows and t targets.",
        .params = catalog_cholesky_params,
    },
    {
        .name = "pcg",
        .title = "Preconditioned conjugate gradients on the full matrix",
        .paper = ROBUST_PRECONDITIONING,
        .help =
            "One product with the kernel matrix, n^2 kernel values, an iteration. Memory: 5 n t "
            "numbers, and n r of the preconditioner; in mixed precision, which \"auto\" is "
            "here, the features once more in float32, 12 bytes a value in all; and the kernel "
            "values that are kept (kernel_cache_bytes).",
        .params = catalog_pcg_params,
        .has_preconditioner = true,
    },
    {
        .name = "askotch2",
        .title = "Accelerated sketch-and-project, a fresh block of rows each step",
        .paper = ASKOTCH,
        .help = "An iteration is one block of b rows: b n kernel values. Memory: 5 numbers a row "
                "and target, and b^2; for data too large for a preconditioner of all rows.",
        .params = catalog_askotch2_params,
        .clashes = catalog_askotch2_clashes,
        .max_iterations = BLOCK_ITERATIONS,
    },
    {
        .name = "askotch",
        .title = "Accelerated block coordinate descent on a fixed partition of the rows",
        .paper = ASKOTCH_1,
        .help = "Version 1 of askotch2, as first published: blocks are drawn by their smoothness, "
                "which takes a sweep over all blocks first. Iterations and memory as askotch2's.",
        .params = catalog_askotch_params,
        .clashes = catalog_block_clashes,
        .max_iterations = BLOCK_ITERATIONS,
    },
    {
        .name = "skotch",
        .title = "Block coordinate descent on a fixed partition of the rows",
        .paper = ASKOTCH_1,
        .help = "askotch without momentum, for comparisons.",
        .params = catalog_skotch_params,
        .clashes = catalog_block_clashes,
        .max_iterations = BLOCK_ITERATIONS,
    },
    {
        .name = "eigenpro2",
        .title = "EigenPro 2.0: preconditioned stochastic gradient descent",
        .paper = EIGENPRO2,
        .help = "Epochs of small batches, n^2 kernel values each. Memory: 5 n t numbers, and 2 s^2 "
                "+ s q "
                "for q eigenvectors of s rows. A few "
                "epochs give the test error of rough kernels (laplacian) without regularization: "
                "within 1 % of the exact one after 2 epochs on 16,000 rows of letter, pcg after "
                "13 products. Smooth kernels with little regularization are for pcg: 45 epochs "
                "against 2 products on 13,900 rows of bike, gaussian. A small residual takes "
                "beta / (n regularization) epochs for a factor of e.",
        .params = catalog_eigenpro2_params,
        .clashes = catalog_eigenpro2_clashes,
    },
    {
        .name = "kmcg",
        .title = "Kernel machine conjugate gradients: a mean, its variance and the evidence",
        .paper = KMCG,
        .help =
            "The model knows how sure it is (return_variance), the result has the log "
            "evidence of kernel and regularization. An iteration is one product with the "
            "kernel matrix and adds a search direction for each of w targets and probes. They are "
            "kept: 2 n p + 4 n w + 6 n t numbers of memory and 2 p^2 for p `directions`, and "
            "n p in the model. With all of them in use the mean goes on to the tolerance by "
            "conjugate "
            "gradients that they precondition. For the mean alone pcg is quicker.",
        .params = catalog_kmcg_params,
        .posterior = true,
    },
    {
        .name = "krill",
        .title = "KRILL: conjugate gradients on m centers, preconditioned by a sketch of all rows",
        .paper = ROBUST_PRECONDITIONING,
        .help =
            "About 12 iterations to 1e-4 however small the regularization, each one pass over the "
            "rows, n m kernel values. The sketch takes one or two dearer passes and 13/3 m^3 "
            "operations; memory is 3 m^2 numbers and 128 MiB while it is made, m^2 numbers "
            "afterwards.",
        .params = catalog_krill_params,
        .restricted = true,
    },
    {
        .name = "falkon",
        .title = "FALKON: conjugate gradients on m centers, preconditioned by them",
        .paper = FALKON,
        .help = "An iteration is one pass over the rows, n m kernel values; the preconditioner "
                "takes 4/3 m^3 operations and 2 m^2 numbers of memory. A few iterations where the "
                "regularization is not tiny and the centers are drawn uniformly.",
        .params = catalog_normal_params,
        .restricted = true,
    },
    {
        .name = "falkon_bless",
        .title = "FALKON with centers drawn by leverage scores",
        .paper = BLESS,
        .help =
            "falkon with the weights of the selection in its preconditioner: about a quarter "
            "of the iterations for the same error. Takes centers drawn by leverage scores: bless "
            "(the default), bless_r, rls, two_pass or squeak.",
        .params = catalog_falkon_bless_params,
        .restricted = true,
        .weighted = true,
    },
    {
        .name = "sketchysaga",
        .title = "SketchySAGA: stochastic gradients of m centers, preconditioned by a sample",
        .paper = ASKOTCH_1 "; " PROMISE,
        .help = "An iteration is one epoch of mini-batches, n m kernel values and m^2 a batch. "
                "Memory: 8 bytes a row and target for the table of residuals, streamed rows "
                "included, and that of the preconditioner. For very many centers, with `rank` "
                "well below their number: no matrix of all centers is formed.",
        .params = catalog_sketchysaga_params,
        .clashes = catalog_stochastic_clashes,
        .restricted = true,
    },
    {
        .name = "sketchykatyusha",
        .title = "SketchyKatyusha: sketchysaga with momentum, and snapshots in place of its table",
        .paper = PROMISE,
        .help = "An iteration is one epoch of mini-batches and on average one pass more for a "
                "snapshot, n m kernel values each, and m^2 a batch. No memory grows with the "
                "rows; about as fast as sketchysaga.",
        .params = catalog_sketchykatyusha_params,
        .clashes = catalog_stochastic_clashes,
        .restricted = true,
    },
    {
        .name = "direct",
        .title = "The normal equations of m centers, factorised",
        .paper = "",
        .help = "n m^2 + m^3 / 3 multiplications and 2 m^2 numbers of memory, all in float64; "
                "one or two passes more, which find again what forming them lost. For up to about "
                "a thousand centers, or when nothing else converges.",
        .params = NULL,
        .restricted = true,
    },
    {
        .name = "inducing",
        .title = "A gaussian process on m inducing points: mean, variance and evidence",
        .paper = INDUCING,
        .help = "The model knows how sure it is (return_variance), the result has the log "
                "evidence, or a bound on it. One pass, n m^2 + 10 m^3 multiplications, 4 m^2 "
                "numbers of memory in float64, which all of it is in, and m^2 in the model: for up "
                "to a few thousand centers.",
        .params = catalog_inducing_params,
        .restricted = true,
        .posterior = true,
    },
    {
        .name = "kmcg_restricted",
        .title = "Kernel machine conjugate gradients on m centers: mean, variance and evidence",
        .paper = KMCG,
        .help = "What inducing knows, by p `directions` among the centers in place of all m: for "
                "centers too many for that, some 10,000 and more. m^2 kernel values for 16 "
                "directions, one pass over the rows of n p m multiplications; 2 m p + 4 m w + 4 "
                "p^2 numbers of memory in float64, which all of it is in, for w targets and "
                "probes, and m p in the model. The mean is that of the directions: it meets the "
                "tolerance where they are enough, and its residual says how far off it is.",
        .params = catalog_kmcg_restricted_params,
        .restricted = true,
        .posterior = true,
    },
    {
        .name = "cg",
        .title = "Conjugate gradients on the normal equations of m centers",
        .paper = "",
        .help = "Without a preconditioner, for comparisons: takes thousands of iterations where "
                "the regularization is small.",
        .params = catalog_normal_params,
        .restricted = true,
    },
    {
        .name = "eigenpro3",
        .title = "EigenPro 3: stochastic gradient descent on m centers, projected every batch",
        .paper = EIGENPRO3,
        .help = "An iteration is an epoch of batches and, after the first, a pass for the full "
                "gradient: 2 n m to 3 n m kernel values. Memory: 21 numbers a center and target, "
                "a batch of b (m + 2 t) numbers, and the projection's m^2 (none when inexact).",
        .params = catalog_eigenpro34_params,
        .clashes = catalog_eigenpro34_clashes,
        .restricted = true,
    },
    {
        .name = "eigenpro4",
        .title = "EigenPro 4: stochastic gradient descent on m centers, projected seldom",
        .paper = EIGENPRO4,
        .help = "eigenpro3 with the projection delayed until about m rows have become temporary "
                "centers: for centers so many that a projection is dear. Up to n m / 2 kernel "
                "values more an epoch, and m more rows and weights of memory.",
        .params = catalog_eigenpro34_params,
        .clashes = catalog_eigenpro34_clashes,
        .restricted = true,
    },
    {.name = NULL},
};
