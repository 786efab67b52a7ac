#include "cpu/form.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/oracle.h"
#include "cpu/tile/isa.h"

#define LN2 0.69314718055994530942
#define DRAWN_PAIRS 16384 /* whose distances say how many are near */
#define NEAR_SHARE 2000   /* of so many pairs one may be: a block has up to 320 */
#define LOOKED_AT 200     /* rows that say what is usual */

/* At r = 0, so that a small distance must be known well. */
static bool has_slope(enum kernel_id id)
{
    return id == KERNEL_LAPLACIAN || id == KERNEL_MATERN12;
}

/* ---- which forms there are ---- */

int64_t tile_pairs(const struct tile_loops *loops, enum kernel_id id, int64_t d)
{
    const int64_t least = id == KERNEL_GAUSSIAN ? loops->pairs_from : 12; /* roots take the time */
    return loops->pairs_from > 0 && tile_adds_beside() && d >= least ? d / 3 : 0;
}

/* Where additions have pipes of their own a difference takes no time, but an instruction and, where
 * registers are few, a number read from memory: with many features those decide. */
bool tile_has_inner(const struct tile_loops *loops, enum kernel_id id, int64_t d)
{
    const bool root = id == KERNEL_MATERN32 || id == KERNEL_MATERN52;
    if (has_slope(id)) {
        return loops->mends && d >= (tile_adds_beside() ? 32 : 4); /* fewer are as fast apart */
    }
    if (id != KERNEL_GAUSSIAN && !root) {
        return false;
    }
    if (loops->pairs_from > 0 && tile_adds_beside()) {
        return tile_pairs(loops, id, d) > 0 || id == KERNEL_GAUSSIAN;
    }
    return !tile_adds_beside() || d >= (root ? loops->inner_root_from : loops->inner_from);
}

/* A multiply-add spares the pipes of additions where they have their own. */
bool tile_doubles(const struct tile_loops *loops, enum kernel_id id)
{
    return loops->doubles && kernel_uses_l1(id) && !tile_adds_beside();
}

#define SUMS_FROM 16 /* features */

/* Of 256 bits and less, processors whose additions have no pipes of their own take sums of maxima,
 * in fixed point or of doubled points, in three units, and minima and products in two of them: with
 * many features that is more than the power of the sum. Reckoned, not measured. */
bool tile_has_powers(const struct tile_loops *loops, int64_t d, bool kept)
{
    const int64_t most = kept ? loops->powers_kept_to : loops->powers_to;
    return (loops->fixes || loops->doubles) && !tile_adds_beside() ? d < SUMS_FROM : d <= most;
}

#define PANEL_BYTES (32 * 1024) /* a first-level cache, or two thirds of one */

bool tile_panel_ahead(const struct tile_loops *loops, int64_t d, size_t number)
{
    const bool is_long = d * loops->wide * (int64_t)number > PANEL_BYTES;
    return is_long && !loops->fetches && !tile_adds_beside();
}

/* ---- which rows they are for ---- */

static double turned_limit(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? (double)TILE_TURNED_NEAR_F32 : TILE_TURNED_NEAR_F64;
}

/* The form by maxima loses about the size of a row's |x|_1 times the type's rounding, in units of
 * ln 2 of the exponent: small rows only, and in float32 no larger ones than fit into integers, so
 * that what is near does not depend on the form. A row far from all others loses more, where the
 * kernel is next to nothing; so it does in the form by inner products. */
static double by_max_limit(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? turned_limit(dtype) : 1024.0;
}

/* Features of pairs that are alike make the number that sums begin with up to twice the norms, and
 * roundings of equal features do not cancel: pairs keep a margin. */
static double inner_limit(const struct points *p)
{
    return kernel_inner_limit(p->kernel.id, p->d) * (p->kernel.pairs > 0 ? 0.6 : 1.0);
}

bool form_is_far(const struct points *p, double reach)
{
    if (has_slope(p->kernel.id)) {
        return false; /* form_choose() says which are */
    }
    return kernel_uses_l1(p->kernel.id) ? reach > by_max_limit(p->dtype)
                                        : 2 * reach * reach > inner_limit(p);
}

/* Far rows have their blocks for company, which the loops would otherwise take twice. Returns how
 * many blocks there are. */
static int64_t mark_blocks(struct points *p, int step)
{
    int64_t blocks = 0;
    for (int64_t first = 0; first < p->n; first += step) {
        const size_t rows = (size_t)min_i64(step, p->n - first);
        const bool far = memchr(p->far + first, 1, rows) != NULL;
        memset(p->far + first, far, rows);
        blocks += far;
    }
    return blocks;
}

/* Whether near and far blocks may take turns. What a tile begins with comes the more often then:
 * maxima gain less than that, and so do short blocks, and roots with few features. Rows that are
 * turned could not: far ones would need theirs as they are. */
static bool takes_turns(const struct points *p, const struct tile_loops *loops)
{
    const int64_t least = p->kernel.id == KERNEL_GAUSSIAN ? 0 : loops->root_turns_from;
    return loops->turns && !kernel_uses_l1(p->kernel.id) && p->d >= least;
}

#define TURNED_BYTES (12U << 20) /* of turned rows beside the points themselves */

size_t form_turned_bytes(const struct points *p)
{
    const size_t size = (size_t)(p->n * p->ld) * dtype_size(p->dtype);
    return size <= TURNED_BYTES ? size : 0;
}

/* ---- kernels with a slope at 0: all but pairs that are near ---- */

/* |x|^2 in units of the exponent, of what inner products begin with. */
static double square_of(const struct points *p, const struct tile_loops *loops, int64_t i)
{
    const struct rows X = {.dtype = p->dtype, .n = p->n, .d = p->ld, .data = p->data};
    return -2.0 * rows_at(&X, i, p->d) / (loops->scale_root * loops->scale_root);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Twice what nine of ten rows have, of some that are looked at. */
static double usual_square(const struct points *p, const struct tile_loops *loops)
{
    double squares[LOOKED_AT];
    const int64_t step = (p->n + LOOKED_AT - 1) / LOOKED_AT;
    size_t count = 0;
    for (int64_t i = 0; i < p->n; i += step) {
        squares[count++] = square_of(p, loops, i);
    }
    qsort(squares, count, sizeof *squares, compare_doubles);
    return 2.0 * squares[count * 9 / 10];
}

/* Marks rows far beyond the others, if blocks of them may take turns. Returns |x|^2 of the others
 * at most. */
static double mark_far(struct points *p, const struct tile_loops *loops)
{
    const double most = p->reach * p->reach, limit = usual_square(p, loops);
    if (!takes_turns(p, loops) || !(limit < most)) {
        return most;
    }
    for (int64_t i = 0; i < p->n; i++) {
        p->far[i] = square_of(p, loops, i) > limit;
    }
    return limit;
}

/* The distance, in units of the exponent, at which a kernel with a slope loses as much as others
 * may (kernel_inner_limit) by inner products of rows with squares up to `square`. */
static double nearest_pair(const struct points *p, double square)
{
    const double lost = kernel_inner_error(p->d) * 2.0 * square, most = 4e-6;
    return LN2 * lost / (2.0 * most);
}

/* Whether |x_i - x_j|^2 is less than `square`: of most pairs a few features say. */
static bool is_near(const struct points *p, int64_t i, int64_t j, double square)
{
    const struct rows X = {.dtype = p->dtype, .n = p->n, .d = p->ld, .data = p->data};
    double sum = 0.0;
    for (int64_t k = 0; k < p->d && sum < square; k++) {
        const double diff = rows_at(&X, i, k) - rows_at(&X, j, k);
        sum += diff * diff;
    }
    return sum < square;
}

/* Whether so few pairs, of some that are drawn, are nearer than `square` that most blocks have
 * none: those with any are computed twice. No more are drawn than there are rows: whoever makes
 * points of a few rows multiplies them once. */
static bool few_near(const struct points *p, double square)
{
    struct rng rng = rng_new(1, RNG_NEAR);
    const int64_t pairs = min_i64(p->n, DRAWN_PAIRS);
    int64_t near = 0;
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t row = i * p->n / pairs, other = rng_below(&rng, p->n);
        near += row != other && is_near(p, row, other, square);
    }
    return near * NEAR_SHARE <= pairs;
}

/* Whether inner products pay. Where they overflow in float32 all pairs are near, but those that are
 * drawn may be none: of a single row there is no other. */
static bool choose_mended(struct points *p, const struct tile_loops *loops)
{
    const double least = nearest_pair(p, mark_far(p, loops)) * loops->scale_root;
    p->kernel.nearest = -0.5 * least * least;
    return p->kernel.nearest > -(double)FLT_MAX && few_near(p, least * least);
}

void form_choose(struct points *p, const struct tile_loops *loops)
{
    const bool l1 = kernel_uses_l1(p->kernel.id), has = p->far != NULL && p->n > 0;
    const bool pays = has && (!has_slope(p->kernel.id) || choose_mended(p, loops));
    const int64_t most = takes_turns(p, loops) ? p->n / loops->step / 4 : 0;
    const int64_t far = has ? mark_blocks(p, loops->step) : 0;
    const bool faster = pays && far <= most;
    const bool powers = tile_has_powers(loops, p->d, form_turned_bytes(p) > 0);
    p->kernel.by_powers = faster && l1 && powers && p->reach <= turned_limit(p->dtype);
    p->kernel.by_fixed = faster && l1 && !p->kernel.by_powers && loops->fixes;
    p->kernel.by_max = faster && l1 && !p->kernel.by_powers && !loops->fixes;
    p->kernel.by_inner = faster && !l1;
    if (!faster || far == 0) {
        p->far = mem_free(p->far);
    }
}
