/*
 * The kernel oracle: index lists brought to the device, and products cut into launches that fit a
 * bounded workspace. A product goes through slabs of P's rows, groups of right-hand sides, and
 * waves of Q's chunks; a chunk's share is the same in every cut, and chunks are added in order, so
 * the cut does not show in the bits.
 */
#include "gpu/cuda.h"

#define SLAB_ROWS 16384             /* rows of P a launch takes at most */
#define PARTIALS ((int64_t)8 << 20) /* numbers in the workspace: 64 MiB, or one chunk's */
#define WAVE_CHUNKS 32768           /* below the grid's limit of 65535 */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static bool view_valid(const struct view *v)
{
    if (v->count < 0) {
        return false;
    }
    if (v->index == NULL) {
        return v->first >= 0 && v->first <= v->points->n - v->count;
    }
    bool valid = true;
    for (int64_t i = 0; i < v->count; i++) {
        valid = valid && v->index[i] >= 0 && v->index[i] < v->points->n;
    }
    return valid;
}

/* The view on the device; its index list goes into `list`. */
static int view_load(struct cuda_backend *cu, const struct view *v, struct cuda_buffer *list,
                     struct launch_view *ret, struct err *err)
{
    struct launch_view view = {.data = v->points->data, .first = v->first, .count = v->count};
    if (v->index != NULL) {
        const size_t bytes = (size_t)v->count * sizeof *v->index;
        int rc = cuda__reserve(list, bytes, err);
        if (rc < 0 || (rc = cuda__upload(cu, list->data, v->index, bytes, err)) < 0) {
            return rc;
        }
        view.index = list->data;
    }
    *ret = view;
    return 0;
}

static bool views_fit(const struct view *P, const struct view *Q)
{
    const struct points *p = P->points, *q = Q->points;
    return p->d == q->d && p->dtype == q->dtype && p->kernel.form == q->kernel.form &&
           p->kernel.function == q->kernel.function && view_valid(P) && view_valid(Q);
}

static int tiles_load(struct cuda_backend *cu, const struct view *P, const struct view *Q,
                      struct launch_tiles *ret, struct err *err)
{
    struct launch_tiles tiles = {
        .kernel = P->points->kernel, .dtype = P->points->dtype, .d = P->points->d};
    int rc = view_load(cu, P, &cu->lists[0], &tiles.P, err);
    if (rc < 0 || (rc = view_load(cu, Q, &cu->lists[1], &tiles.Q, err)) < 0) {
        return rc;
    }
    *ret = tiles;
    return 0;
}

/* ---- kmv ---- */

struct product {
    struct launch_tiles tiles;
    double a, b;
    struct mat V, Y;
    int64_t chunks;           /* of Q */
    int64_t slab, wave, cols; /* the most of one launch */
    double *partials, *totals;
};

/* The cut, and the workspace for it: partials of one wave, then totals of one slab. */
static int product_plan(struct cuda_backend *cu, struct product *p, struct err *err)
{
    p->chunks = ceil_div(p->tiles.Q.count, LAUNCH_CHUNK);
    p->slab = least(p->tiles.P.count, SLAB_ROWS);
    p->cols = least(p->V.cols, LAUNCH_COLS);
    const int64_t one = p->slab * p->cols;
    p->wave = least(least(PARTIALS / one, WAVE_CHUNKS), p->chunks);
    const int rc = cuda__reserve(&cu->work, (size_t)((p->wave + 1) * one) * sizeof(double), err);
    if (rc == 0) {
        p->partials = cu->work.data;
        p->totals = p->partials + p->wave * one;
    }
    return rc;
}

/* Rows row .. row+rows-1 of Y's columns col .. col+cols-1, one wave. */
static int product_wave(struct cuda_backend *cu, const struct product *p, const struct mat *Y,
                        int64_t row, int64_t col, int64_t chunk, struct err *err)
{
    const int64_t chunks = least(p->wave, p->chunks - chunk);
    if (chunks > 0) {
        const struct launch_sums sums = {.tiles = p->tiles,
                                         .first_row = row,
                                         .rows = Y->rows,
                                         .first_chunk = chunk,
                                         .chunks = chunks,
                                         .V = mat_cols(p->V, col, Y->cols),
                                         .partials = p->partials};
        const int rc = cuda__status(launch_sums(cu->stream, &sums),
                                    "start a product with the kernel matrix", err);
        if (rc < 0) {
            return rc;
        }
    }
    const struct launch_finish finish = {.partials = p->partials,
                                         .chunks = chunks,
                                         .totals = p->totals,
                                         .first = chunk == 0,
                                         .last = chunk + chunks == p->chunks,
                                         .a = p->a,
                                         .b = p->b,
                                         .Y = *Y};
    return cuda__status(launch_finish(cu->stream, &finish),
                        "add up a product with the kernel matrix", err);
}

/* One slab against all of Q; an empty Q still takes one pass, for Y <- b Y. */
static int product_slab(struct cuda_backend *cu, const struct product *p, int64_t row, int64_t col,
                        struct err *err)
{
    const int64_t rows = least(p->slab, p->Y.rows - row), cols = least(p->cols, p->Y.cols - col);
    const struct mat Y = mat_rows(mat_cols(p->Y, col, cols), row, rows);
    int rc = 0;
    int64_t chunk = 0;
    do {
        rc = product_wave(cu, p, &Y, row, col, chunk, err);
        chunk += p->wave;
    } while (rc == 0 && chunk < p->chunks);
    return rc;
}

int cuda__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
              double b, const struct mat *Y, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols;
    int rc = cuda__begin(be, fits && views_fit(&P, &Q), "kmv", err);
    if (rc < 0 || P.count == 0 || V->cols == 0) {
        return rc;
    }
    struct product p = {.a = a, .b = b, .V = *V, .Y = *Y};
    if ((rc = tiles_load(cu, &P, &Q, &p.tiles, err)) < 0 || (rc = product_plan(cu, &p, err)) < 0) {
        return rc;
    }
    for (int64_t col = 0; rc == 0 && col < V->cols; col += p.cols) {
        for (int64_t row = 0; rc == 0 && row < P.count; row += p.slab) {
            rc = product_slab(cu, &p, row, col, err);
        }
        be->kernel_entries += P.count * Q.count;
    }
    return rc;
}

/* ---- kblock, kdiag ---- */

int cuda__kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                 struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const bool fits = K->rows == P.count && K->cols == Q.count;
    int rc = cuda__begin(be, fits && views_fit(&P, &Q), "kblock", err);
    if (rc < 0 || P.count == 0 || Q.count == 0) {
        return rc;
    }
    struct launch_tiles tiles;
    if ((rc = tiles_load(cu, &P, &Q, &tiles, err)) < 0) {
        return rc;
    }
    be->kernel_entries += P.count * Q.count;
    return cuda__status(launch_block(cu->stream, &tiles, K), "compute a kernel block", err);
}

int cuda__kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    int rc = cuda__begin(be, view_valid(&P) && d->rows == P.count && d->cols == 1, "kdiag", err);
    if (rc < 0 || P.count == 0) {
        return rc;
    }
    struct launch_tiles tiles = {
        .kernel = P.points->kernel, .dtype = P.points->dtype, .d = P.points->d};
    if ((rc = view_load(cu, &P, &cu->lists[0], &tiles.P, err)) < 0) {
        return rc;
    }
    return cuda__status(launch_diagonal(cu->stream, &tiles, d), "compute a kernel diagonal", err);
}
