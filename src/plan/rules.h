/*
 * What krrd chooses where a job leaves it open, as far as that follows from sizes alone: the
 * engine takes these rules when it runs a job, and a plan (plan.h) takes them before it.
 *
 * Solver of a full model: cholesky while its matrix takes at most a quarter of the free memory and
 * its multiply-adds are at most those of pcg with rpcholesky, both for each entry of the matrix:
 *
 *     cholesky   n/6, or n/12 with a float32 factor: float32 vectors, or regularization >= 2^-23
 *     pcg        30 v + 110 with such a regularization, 200 v + 110 below
 *
 * v = (d + 18)/4 is a product's share in mixed precision and in float32, twice that in float64,
 * with d at most 18, since kernel values that cost more are kept. 110 is the preconditioner. 30 and
 * 200 are iterations to 1e-6 with the default rank 10 sqrt(n), between those of the data below.
 * Processor seconds of one thread and iterations, to a relative residual of 1e-6, on a machine with
 * other work; normal points and three real sets, gaussian kernel, bandwidth by the median rule:
 *
 *                            1e-6                           1e-8
 *         d       n   cholesky         pcg, mixed    cholesky       pcg, mixed
 *         3   4,000       0.79         0.25    2         0.82       0.30     3
 *         3   8,000       2.63         0.71    2         4.62       0.68     4
 *        18   2,000       0.20         0.26   45         0.20       0.44   288
 *        18   4,000       0.75         0.60   34         0.86       3.40   343
 *        18   8,000       2.83         2.03   30         4.55      10.2    309
 *        18  12,000       8.00         3.33   28                   18.2    287
 *        64   4,000       0.94         1.04   56         0.90       1.55   120
 *        64   8,000       3.04         2.43   56         4.89       5.30   191
 *     bike    6,000                    0.74   13                    2.48   106
 *     hflights                         0.58    6                    1.02    33
 *     diamonds                         0.57    4                    0.88    18
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "plan/machine.h"
#include "wire/dtype.h"
#include "wire/param.h"
#include "wire/spec.h"

/* Kernel values of more features cost more to compute than to read: where they fit they are kept.
 */
#define RULE_KEPT_FEATURES 18

/*
 * What a value of k(x, x') costs on a processor in a whole product, where each is used twice: d
 * features, t targets, in units of a feature in the same precision. `kernel` NULL counts as a
 * gaussian. Nanoseconds of a value, one thread of a Zen 5 core with AVX-512, on a machine busy with
 * other work, n = 8,000, t = 1 (krr-bench operator --symmetric), computed, and read where it was
 * kept (--cached); a feature is 0.021 in float32 and 0.043 in float64:
 *
 *                       float32                          float64
 *     d              3          18          90          3          18          90
 *     gaussian     .20 .25    .54 .24   2.01 .50     .62 .69   1.24 .81   4.65 .91
 *     laplacian    .33 .33    .61 .30   2.23 .42     .74 .62   1.43 .65   4.90 .77
 *     laplacian_l1 .26 .24    .54 .34   2.10 .43     .70 .85   1.25 .76   4.52 .88
 *     matern52     .36 .33    .67 .25   2.32 .42     .95 .51   1.44 .72   5.04 1.17
 *     linear       .14 .30    .39 .25   1.89 .43     .25 .61    .79 .56   3.61 .76
 *     polynomial   .21 .31    .46 .39   1.97 .42     .41 .47   1.33 .58   4.15 .84
 *
 * laplacian_l1 has since come down to what its features and targets cost (ADR 78): with 3 features
 * to .6 (float32) and .4 (float64) of the time it took, with 18 to .8 and .7, on a Zen 4.
 */
double rule_value_cost(const char *kernel, double d, double t, enum dtype dtype);

struct keep_shape {
    const char *kernel; /* NULL: a gaussian */
    int64_t d, t;
    enum dtype dtype; /* of the points */
    int64_t room;     /* bytes that are free; INT64_MAX: not known */
    bool device;      /* of a device with memory of its own */
};
/*
 * Bytes that kernel values may take that are kept for products of all points with all points; 0:
 * they are computed each time. What the job asks for, at most half of the room; where it leaves
 * that open, a quarter of it if twenty products by kept values, the first filling included, take
 * less than four fifths of the time of computing them, by the machine's rates (NULL, or none
 * measured: a usual machine's), and the job is to last, 20 iterations and 5 s at least: filling
 * comes before the first iteration, and memory is dear.
 */
int64_t rule_kept_bytes(const struct job_spec *spec, const struct keep_shape *shape,
                        const struct plan_rates *rates);

/* What engine/choose/choose.h tries where a job leaves them open: kernels, bandwidths of each, one
 * bandwidth beyond those of the best pair (and further ones only while they are better), and
 * regularizations of each pair, three at least and five of most. */
#define RULE_KERNELS 4
#define RULE_BANDWIDTHS 2
#define RULE_BEYOND 1
#define RULE_RIDGES 5
/* Features that were standardised are tried once more as they are: one pair more for each kernel.
 */
#define RULE_PLAIN 1
/* And finer steps from what was best, of ridge and of bandwidth, where they are open and some rows
 * are held out: so many of each on either sample, and more only after one that is better. */
#define RULE_FINER 2
/* Whether the fitted rows judge those steps, too, each left out: where fewer are held out, once. A
 * fit is then as so many factors, for it takes a triangle's inverse, and there is one more. */
#define RULE_LEFT_OUT 4
bool rule_choice_leaves_out(int64_t fitted, int64_t held, int folds);
/* Rows from which some are held out; of fewer each is in its turn. */
#define RULE_HELD_OUT_LEAST 100
/* Of 100 rows and more, and fewer than 300, each is held out in one of five folds, where all these
 * factors are reckoned to take a tenth of the time budget at most (RULE_SEARCH_RATE); else 1. */
#define RULE_CHOICE_FOLDS 5
int rule_choice_folds(int64_t n, double time_budget_s);
/* On the rows of a fold that it does not hold out, or on two thirds of n rows, 1,000 at most, and
 * no more than those whose factors are reckoned to take a tenth of the time budget, but for 100. */
int64_t rule_choice_first(int64_t n, double time_budget_s);
/* For each of these kernels bandwidths one a feature are learned, of so many features at most, in
 * so many steps at most from each of two starts at most, from 500 of the fitted rows at most, or as
 * many as are reckoned to take a tenth of the time budget, a step as seven factors of them
 * (engine/choose/relevance.h); 0, none, where that comes to fewer than 200. Of several folds they
 * are learned in each, from 80 rows at least; and, for the best pair, once more from all n rows.
 * They are then tried as above. */
#define RULE_LEARNED_FEATURES 512
#define RULE_LEARNED_STEPS 40
#define RULE_LEARNED_STARTS 2
int64_t rule_learned_rows(int64_t fitted, int folds, int64_t d, double time_budget_s);
/* The most of a time budget that all of this may take, by the clock. */
#define RULE_CHOICE_SHARE 0.25
double rule_choice_limit(double time_budget_s);
/* And of these pairs the best ones, so many, and the best one of each kernel, once more on a larger
 * sample, fitted on rule_choice_rows rows: an eighth of the n training rows, at most 3,000, and no
 * more than those whose factors are reckoned to take a tenth of the time budget (RULE_SEARCH_RATE);
 * 0, no second sample, where that comes to fewer than 1,250. */
#define RULE_CHOICE_PAIRS 3
#define RULE_CHOICE_AGAIN (RULE_KERNELS + 1) /* that this is reckoned to come to */
int64_t rule_choice_rows(int64_t n, double time_budget_s);
/* Held out of n rows, beside those that are fitted: so many times as many, or the rows left; of
 * many features and targets, `width` in all, fewer, whose kernel values take as long as the factor,
 * but twice as many as are fitted. */
#define RULE_HELD_FIRST 4
#define RULE_HELD_AGAIN 8
int64_t rule_choice_held(int64_t n, int64_t fitted, int64_t width, int times);

/* "cholesky" or "pcg", for n points of d features; `precision` is the one that pcg would have,
 * `room` the bytes that are free. */
const char *rule_solver(int64_t room, int64_t n, int64_t d, double regularization,
                        enum precision precision);

/* Of a model on m centers: "direct", whose m multiplications a kernel value are less than what
 * some twenty iterations take, or "krill", which takes 5 to 25 iterations to 1e-4 down to
 * regularizations of 1e-12. Processor seconds to 1e-4 with 1,000 centers (gaussian, bandwidth 3,
 * 10,000 rows, one thread, with other work) for krill and for falkon: bike at 1e-7 a row 0.6
 * and 2.0, at 2e-10 0.7 and 2.2; higgs7k 0.7 and 0.6; hflights, all 223,874 rows, 5.4 and more
 * than 32. */
const char *rule_restricted_solver(int64_t m, int64_t d);

/* The precision of a job that leaves it to us: mixed for pcg, whose refinement reaches what float64
 * does, and for values in [0, 1], which a kernel of distances has; float64 for methods that have no
 * such refinement (cholesky refines a float32 factor in any precision) and for kernels whose values
 * float32 might not hold. */
enum precision rule_precision(const char *solver, bool distance);

/* Whether a float32 factor is the faster way of cholesky in float64: `largest` is max k(x,x). */
bool rule_narrow_factor(int64_t n, int64_t d, int64_t t, double ridge, double largest);

/* A restricted model's centers where neither the job nor the selector says: the smaller of n and
 * ceil(10 sqrt(n)). */
int64_t rule_centers(int64_t n);

/* Whether the certificate of a model on m centers of n rows factorises the centers' matrix as well
 * (engine/solve/certify.h): m^3 / 3 operations are then about as many as the certificate's own pass
 * over the rows takes, or next to nothing, and the matrix has 512 MiB at most. */
#define RULE_WHITENED_FEW 2048
#define RULE_WHITENED_MOST 8192
#define RULE_WHITENED_SHARE 128
bool rule_whitens(int64_t n, int64_t m);

/* Whether a search of a full model, on more of n rows than there is time for or than max_rows, has
 * models on centers: not where fewer rows than a sample of max_rows would have their left-out
 * predictions, `each` a row (targets times regularizations), kept. */
bool rule_search_takes_centers(int64_t n, int64_t each, int64_t max_rows);

struct rule_search {
    int64_t rows, centers;
};
/* Of a search for a model on m centers of n rows (docs/adr/0015): at most 64 max_rows rows, and as
 * many as have 2^25 left-out predictions, `each` a row; then as many centers, at most those rows
 * and max_rows, as `products` multiplications allow: 4 rows m^2 + 9 m^3. Fewer rows where those
 * would be fewer than 100. */
struct rule_search rule_search_on_centers(int64_t n, int64_t m, int64_t each, int64_t max_rows,
                                          double products);

/* Multiplications a second that a decomposition of 9 n^3 is reckoned to make: about a third of what
 * one core with 256-bit vectors does. */
#define RULE_SEARCH_RATE 1e10
#define RULE_SEARCH_ROWS_MIN 100 /* of a sample that full models are judged on */
/* What a search for a model of n rows and t targets on `centers` (0: a full one) judges: full
 * models where `centers` of the result is 0. Of a size that lets a bandwidth end within the time
 * budget. */
struct rule_search rule_search_size(const struct search_spec *spec, int64_t n, int64_t t,
                                    int64_t centers, double time_budget_s);

/* Rows that models on centers judge at a time, of `each` left-out predictions a row. */
int64_t rule_search_tile(int64_t rows, int64_t each);

/* Training rows up to which a job that leaves solver and centers open gets a full model: 250,000 on
 * a processor, 1,500,000 on a device. A product with the kernel matrix then takes some ten seconds
 * on two cores, as on an H200 by its arithmetic, and a job takes fifty and more. */
int64_t rule_full_rows(bool device);

/* Centers of such a job beyond that: rule_centers, at most 10,000: a pass over 10^8 rows is 10^12
 * kernel values then, and the factors take a few GB. */
int64_t rule_open_centers(int64_t n);

/* The most that the rank of a kernel matrix on points of d features can be, whatever their number:
 * d + 1 for a linear kernel, the (d + degree over degree) monomials for a polynomial one, INT64_MAX
 * for the others. `degree` is the polynomial's. A restricted model keeps no more centers
 * (engine/methods/centers/center_rank.h). */
int64_t rule_kernel_rank(const char *kernel, int64_t d, int64_t degree);

/*
 * The rank of a low-rank preconditioner where the job leaves it open ("auto"): a function of the
 * problem's shape alone, the same on every machine, but for the memory, and for a grid that one
 * machine finds and another does not.
 *
 *     k = ceil(10 sqrt(n)), the recommendation of arXiv:2304.12465; then the largest rank up to it
 *     with     build(k) <= 100 product     and     apply(k) <= product,
 *     and at least 1; halved until its n x k numbers take at most a third of the free memory.
 *
 * Costs in multiplications in float32, of which one in float64 counts two:
 *
 *     product  = n^2 (d + 10 + 4 t) / 2      one product with K, each kernel value used twice
 *     apply(k) = 4 n k t
 *     build(k) = 2 n k^2 + n k (d + 10)             from k columns of K
 *              = 2 n^2 k + 6 n k^2 + n^2 (d + 10)   from the product of K with k vectors
 *
 * Where products go by a grid (engine/grid.h) one with a vector costs `share` of that, one with t
 * vectors t times as much, and build(k) from columns is at most max(100 share, 20) products, or k
 * is 100: iterations are cheap then, so fewer of them are worth less (adr/0076).
 *
 * A rank that the job gives is taken, up to n.
 */
enum rank_source {
    RANK_COLUMNS,
    RANK_SKETCH
}; /* a sketch holds n x 2k numbers while it is built */

struct rank_shape {
    int64_t n, d, t;
    enum dtype dtype; /* of the vectors */
    int64_t room;     /* free bytes */
    double share;     /* what a product takes by a grid, of one without; 0: there is none */
};
int64_t rule_rank(const struct rank_shape *s, enum rank_source source,
                  const struct param_value *rank);

/* Search directions that kmcg has room for, where the job asks for so many. */
int64_t rule_directions(int64_t n, int64_t asked);
/* And its probes beside t targets; auto: 16 vectors a product in all. */
int64_t rule_probes(int64_t t, const struct param_value *asked);

/* Rows of a block of the block methods: those asked for, at most n; auto: all up to 2,048, which
 * are solved by one factor, and beyond 2 sqrt(n), between 256 and 8,192. The factor of such a block
 * costs b^2/3 multiplications a row of it beside n kernel values, a tenth of the time whatever n
 * is, and exact steps on small blocks get further in the same time than sketched ones on the
 * papers' n/100. */
int64_t rule_block_rows(int64_t n, const struct param_value *block);
/* Whether a block of b rows is solved by its exact factor where the job leaves that open: it is
 * cheaper than a sketch of rank r with powering, or small beside the kernel values. */
bool rule_block_exact(int64_t n, int64_t d, int64_t b, int64_t r, int64_t power_iterations,
                      enum dtype dtype);

/* The stochastic methods for n rows and m centers: rows of a batch, rank of the preconditioner, and
 * rows that it is made from. `params` has batch_size, rank and hessian_rows. */
int64_t rule_batch_rows(int64_t n, int64_t m, const struct param_set *params);
int64_t rule_sketch_rank(int64_t m, const struct param_set *params);
int64_t rule_hessian_rows(int64_t n, int64_t rank, const struct param_set *params);

/* The signs of a column of krill's sketch of d rows, block times copies (struct sign_sketch):
 * `nonzeros` of `params`, to the next power of two up to 64, or the largest one that d has room
 * for. Rows are mixed where they are many beside d: mixing takes accuracy from a sketch that is
 * hardly shorter than what it sketches (adr/0050). */
struct rule_sketch {
    int block, copies;
};
struct rule_sketch rule_sketch_signs(int64_t n, int64_t d, const struct param_set *params);
/* In how many parts krill makes its sketch of d rows for m centers: the fewest that are small
 * enough, RULE_SKETCH_BYTES beside m^2 numbers, but no more than a column has signs. */
#define RULE_SKETCH_BYTES (INT64_C(128) << 20)
int rule_sketch_parts(int64_t d, int64_t m, int signs);

/* Bytes of a float32 point that a device with memory of its own may hold besides the point itself:
 * products by tensor cores take it in parts, on some (adr/0052, adr/0054), of kernels whose
 * distances come from inner products: 64 bytes for 16 features, four of the norm among them, and
 * for 16 more; up to 92 features 128 for 16 of them; up to 20 features 64 for 16 numbers, three of
 * each feature and four of the norm. `kernel` NULL: not chosen yet. */
double rule_point_parts(const char *kernel, int64_t d);

struct rule_rows {
    const char *kernel; /* NULL: not chosen yet */
    int64_t n, d, t;
    enum dtype points, vectors;
    bool device; /* with memory of its own */
};
/* Whether the rows of a restricted problem stay on the backend, where so many bytes are for them:
 * points with their parts, and targets. */
bool rule_rows_stay(const struct rule_rows *rows, double budget);

/* Rows of a tile of a restricted problem (engine/rowset.h). */
#define RULE_TILE_VALUES (INT64_C(1) << 28)
#define RULE_TILE_BYTES (INT64_C(4) << 20)
#define RULE_TILE_ROWS (INT64_C(1) << 16)
int64_t rule_tile_rows(int64_t d, int64_t t, int64_t m);
