/*
 * The kernel oracle: products and blocks cut into launches that fit a bounded workspace. A product
 * goes through groups of right-hand sides, slabs of P's rows and waves of Q's chunks; a chunk's
 * share is the same in every cut, and chunks are added in order, so the cut does not show in the
 * bits. Products of points with themselves may go another way (cuda_both.c).
 */
#include "gpu/cuda.h"

#define SLAB_ROWS 16384                  /* rows of P a launch takes at most */
#define PARTIALS ((int64_t)4 << 20)      /* numbers in the workspace: 32 MiB, or one chunk's */
#define WEIGHT_BYTES ((int64_t)16 << 20) /* of a wave, or of one chunk */
#define WAVE_CHUNKS 32768                /* below the grid's limit of 65535 */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- kmv ---- */

/* One product: its views, cut into steps, and the workspace. */
struct product {
    struct cuda_view P, Q;
    struct launch_tiles tiles; /* P and Q are those of a launch */
    double a, b;
    struct mat V, Y;
    enum dtype type;           /* of weights on the device */
    int64_t chunk;             /* members of Q whose share of a sum is formed in one piece */
    int64_t slab, wave, cols;  /* rows of P, members of Q and columns a launch takes */
    void *weights;             /* of a wave */
    double *partials, *totals; /* of its chunks, and of the waves so far */
    float *reach;
};

/* Small enough that few rows fill a device, large enough that partial sums are few; by Q alone. */
int64_t cuda__chunk(int64_t members)
{
    return members <= 32768 ? 512 : members <= 262144 ? 1024 : 2048;
}

/* The workspace holds the weights of a wave, its partials, the totals and the reaches. */
static int reserve_work(struct cuda_backend *cu, struct product *p, struct err *err)
{
    const int64_t one = p->slab * p->cols;
    const int64_t rows = ceil_div(least(p->wave, p->Q.view.count), LAUNCH_TILE) * LAUNCH_TILE;
    const int64_t chunks = ceil_div(rows, p->chunk);
    const size_t weights = (size_t)(rows * p->cols) * dtype_size(p->type);
    const size_t sums = (size_t)((chunks + 1) * one) * sizeof(double);
    const int64_t tile_rows = launch_tile_rows(p->tiles.dtype, p->tiles.kernel.group);
    const size_t reaches = (size_t)(rows / tile_rows) * sizeof(float);
    const int rc = cuda__reserve(&cu->work, weights + sums + reaches, err);
    if (rc == 0) {
        p->weights = cu->work.data;
        p->partials = (double *)((char *)p->weights + weights);
        p->totals = p->partials + chunks * one;
        p->reach = (float *)(p->totals + one);
    }
    return rc;
}

static int plan_product(struct cuda_backend *cu, struct product *p, struct err *err)
{
    p->chunk = cuda__chunk(p->Q.view.count);
    p->cols = least(p->V.cols, launch_cols(p->tiles.dtype, p->type));
    p->slab = least(least(p->P.view.count, SLAB_ROWS), cuda__view_step(&p->P));
    const int64_t weight = p->cols * (int64_t)dtype_size(p->type);
    const int64_t chunks = least(PARTIALS / (p->slab * p->cols), WAVE_CHUNKS);
    p->wave = cuda__view_wave(&p->Q, p->chunk, least(chunks * p->chunk, WEIGHT_BYTES / weight));
    return reserve_work(cu, p, err);
}

/* Members first .. first+count-1 of Q, their weights, and the shares of their chunks. */
static int sum_wave(struct cuda_backend *cu, struct product *p, const struct mat *Y, int64_t col,
                    int64_t first, int64_t count, struct err *err)
{
    int rc = cuda__view_part(cu, &p->Q, first, count, &p->tiles.Q, err);
    const struct launch_weights weights = {
        .dtype = p->tiles.dtype,
        .group = p->tiles.kernel.group,
        .d = p->tiles.d,
        .ld = p->tiles.ld,
        .Q = p->tiles.Q,
        .V = mat_rows(mat_cols(p->V, col, Y->cols), first, count),
        .type = p->type,
        .norms = p->tiles.kernel.inner > 0,
        .weights = p->weights,
        .reach = p->reach,
    };
    const struct launch_sums sums = {.tiles = p->tiles,
                                     .chunk = p->chunk,
                                     .cols = (int)Y->cols,
                                     .type = p->type,
                                     .weights = p->weights,
                                     .reach = p->reach,
                                     .partials = p->partials};
    if (rc == 0) {
        rc = cuda__status(launch_weights(cu->stream, &weights), "lay out a vector", err);
    }
    return rc < 0 ? rc
                  : cuda__status(launch_sums(cu->stream, &sums),
                                 "start a product with the kernel matrix", err);
}

/* One slab against all of Q; an empty Q still takes one pass, for Y <- b Y. */
static int product_slab(struct cuda_backend *cu, struct product *p, int64_t row, int64_t col,
                        struct err *err)
{
    const int64_t rows = least(p->slab, p->Y.rows - row), cols = least(p->cols, p->Y.cols - col);
    const struct mat Y = mat_rows(mat_cols(p->Y, col, cols), row, rows);
    const int64_t members = p->Q.view.count;
    int rc = cuda__view_part(cu, &p->P, row, rows, &p->tiles.P, err);
    int64_t first = 0;
    do {
        const int64_t count = least(p->wave, members - first);
        rc = rc == 0 ? cuda__ask(cu, p->P.view.count, members, err) : rc;
        if (rc == 0 && count > 0) {
            rc = sum_wave(cu, p, &Y, col, first, count, err);
        }
        const struct launch_finish finish = {.partials = p->partials,
                                             .chunks = ceil_div(count, p->chunk),
                                             .totals = p->totals,
                                             .first = first == 0,
                                             .last = first + count == members,
                                             .a = p->a,
                                             .b = p->b,
                                             .Y = Y};
        if (rc == 0) {
            rc = cuda__status(launch_finish(cu->stream, &finish),
                              "add up a product with the kernel matrix", err);
        }
        first += count;
    } while (rc == 0 && first < members);
    return rc;
}

static int plain_product(struct cuda_backend *cu, struct product *p, struct err *err)
{
    int rc = plan_product(cu, p, err);
    for (int64_t col = 0; rc == 0 && col < p->V.cols; col += p->cols) {
        for (int64_t row = 0; rc == 0 && row < p->Y.rows; row += p->slab) {
            rc = product_slab(cu, p, row, col, err);
        }
        cu->base.kernel_entries += p->P.view.count * p->Q.view.count;
    }
    return rc;
}

int cuda__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
              double b, const struct mat *Y, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols;
    int rc = cuda__begin(be, fits && cuda__views_fit(&P, &Q), "kmv", err);
    if (rc < 0 || P.count == 0 || V->cols == 0) {
        return rc;
    }
    struct product p = {.tiles = cuda__tiles(P.points),
                        .a = a,
                        .b = b,
                        .V = *V,
                        .Y = *Y,
                        .type = cuda__weight_type(P.points, V)};
    rc = cuda__view_open(cu, &P, 0, &p.P, err);
    if (rc == 0 && view_same(&P, &Q) && cuda__both_pays(&p.P, p.type, V->cols)) {
        rc = cuda__both(cu, &p.P, a, V, b, Y, err);
    } else if (rc == 0 && (rc = cuda__view_open(cu, &Q, 1, &p.Q, err)) == 0) {
        rc = plain_product(cu, &p, err);
    }
    cuda__views_close(cu);
    return rc;
}

/* ---- kblock, kdiag ---- */

/* Rows of P from `row` on against all of Q. */
static int block_rows(struct cuda_backend *cu, struct launch_tiles *tiles,
                      const struct cuda_view *Q, int64_t row, const struct mat *K, struct err *err)
{
    const int64_t step = cuda__view_step(Q);
    int rc = 0;
    for (int64_t col = 0; rc == 0 && col < K->cols; col += step) {
        const int64_t cols = least(step, K->cols - col);
        const struct mat part = mat_rows(mat_cols(*K, col, cols), row, tiles->P.count);
        rc = cuda__view_part(cu, Q, col, cols, &tiles->Q, err);
        if (rc == 0) {
            rc =
                cuda__status(launch_block(cu->stream, tiles, &part), "compute a kernel block", err);
        }
    }
    return rc;
}

int cuda__kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                 struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = K->rows == P.count && K->cols == Q.count;
    int rc = cuda__begin(be, fits && cuda__views_fit(&P, &Q), "kblock", err);
    struct cuda_view rows, cols;
    if (rc < 0 || P.count == 0 || Q.count == 0 ||
        (rc = cuda__view_open(cu, &P, 0, &rows, err)) < 0 ||
        (rc = cuda__view_open(cu, &Q, 1, &cols, err)) < 0) {
        return rc;
    }
    struct launch_tiles tiles = cuda__tiles(P.points);
    const int64_t step = cuda__view_step(&rows);
    be->kernel_entries += P.count * Q.count;
    for (int64_t row = 0; rc == 0 && row < P.count; row += step) {
        rc = cuda__view_part(cu, &rows, row, least(step, P.count - row), &tiles.P, err);
        if (rc == 0) {
            rc = block_rows(cu, &tiles, &cols, row, K, err);
        }
    }
    cuda__views_close(cu);
    return rc;
}

int cuda__kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = cuda__view_valid(&P) && d->rows == P.count && d->cols == 1;
    int rc = cuda__begin(be, fits, "kdiag", err);
    struct cuda_view rows;
    if (rc < 0 || P.count == 0 || (rc = cuda__view_open(cu, &P, 0, &rows, err)) < 0) {
        return rc;
    }
    struct launch_tiles tiles = cuda__tiles(P.points);
    const int64_t step = cuda__view_step(&rows);
    for (int64_t row = 0; rc == 0 && row < P.count; row += step) {
        const int64_t count = least(step, P.count - row);
        const struct mat part = mat_rows(*d, row, count);
        rc = cuda__view_part(cu, &rows, row, count, &tiles.P, err);
        if (rc == 0) {
            rc = cuda__status(launch_diagonal(cu->stream, &tiles, &part),
                              "compute a kernel diagonal", err);
        }
    }
    cuda__views_close(cu);
    return rc;
}
