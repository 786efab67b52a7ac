/*
 * Products of points with themselves, every value used for both sides (launch_both of launch.h):
 * blocks of rows meet in steps, as many to a launch as the workspace has room for, and the steps'
 * shares are added in their order. Where values may be kept (cuda_cache.c), how rows are cut, and
 * who is x and who z in a pair, depends on the number of rows alone, not on the right-hand sides:
 * values that were kept for one product are those of every other.
 */
#include "gpu/cuda.h"

#define WORK_BYTES ((int64_t)64 << 20) /* at most; more rows go the plain way */
#define ROWS_MIN 64                    /* no more are one row of tiles */
#define BLOCKS 48                      /* that are to be, rows permitting: some 1,200 pairs */
#define FEW_BLOCKS 96                  /* likewise, of `few` */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* About so many blocks, but of at most so many rows. */
static struct cuda_blocks blocks_of(const struct points *p, int64_t n, int64_t blocks, int64_t most)
{
    struct cuda_blocks b = {.n = n};
    const int64_t even = ceil_div(ceil_div(n, blocks), LAUNCH_TILE) * LAUNCH_TILE;
    b.rows = least(even, most);
    b.count = ceil_div(n, b.rows);
    b.steps = b.count / 2 + 1;
    /* As many as the smallest tiles need: workspaces of all devices have room for as many steps. */
    b.reaches = (size_t)(b.count * b.rows / launch_tile_rows(p->dtype, true)) * sizeof(float);
    return b;
}

struct cuda_blocks cuda__blocks(const struct points *p, int64_t n)
{
    return blocks_of(p, n, BLOCKS, LAUNCH_BOTH_ROWS);
}

/* How a product is cut, and the bytes of the workspace's parts. */
struct cut {
    struct cuda_blocks of;
    int64_t cols;
    int64_t begin, end; /* steps of this share */
    int64_t together;   /* steps a launch takes */
    bool few;           /* as launch_both.few */
    size_t weights, totals, step;
};

/* `own`: the cut may be one that other devices would not make. */
static struct cut cut_of(const struct cuda_view *P, enum dtype weights, int64_t t, bool own)
{
    const struct points *p = P->view.points;
    const struct launch_tiles tiles = cuda__tiles(p);
    const bool few = own && launch_takes_short(&tiles, (int)least(t, 2), weights);
    struct cut c = {.of = few ? blocks_of(p, P->view.count, FEW_BLOCKS, LAUNCH_SHORT_ROWS)
                              : cuda__blocks(p, P->view.count),
                    .cols = least(t, launch_both_cols(p->dtype, weights)),
                    .few = few};
    c.end = c.of.steps;
    const size_t padded = (size_t)(c.of.count * c.of.rows * c.cols);
    c.weights = padded * dtype_size(weights);
    c.totals = (size_t)(c.of.n * c.cols) * sizeof(double);
    c.step = 2 * padded * dtype_size(weights);
    const int64_t room = WORK_BYTES - (int64_t)(c.weights + c.totals + c.of.reaches);
    c.together = room > 0 ? least(room / (int64_t)c.step, c.of.steps) : 0;
    return c;
}

static bool pays(const struct cuda_view *P, enum dtype weights, int64_t t, bool own)
{
    const int64_t n = P->view.count;
    if (n <= ROWS_MIN || n > WORK_BYTES || cuda__view_step(P) < n) {
        return false;
    }
    return cut_of(P, weights, t, own).together > 0;
}

bool cuda__both_pays(const struct cuda_view *P, enum dtype weights, int64_t t)
{
    return pays(P, weights, t, true);
}

/* What the points keep of this view's values. */
static struct launch_kept kept_of(const struct view *P)
{
    const bool all = P->index == NULL && P->first == 0 && P->count == P->points->n;
    return all ? P->points->kept : (struct launch_kept){.slots = 0};
}

/* The steps of one group of columns; the workspace holds weights, partials, totals, reaches. */
static int sum_steps(struct cuda_backend *cu, const struct cut *c, struct launch_both *both,
                     double *totals, struct err *err)
{
    int rc = 0;
    for (int64_t step = c->begin; rc == 0 && step < c->end; step += c->together) {
        both->first_step = step;
        both->first = step == c->begin;
        both->steps = (int)least(c->together, c->end - step);
        rc = cuda__ask(cu, c->of.n, c->of.n, err);
        if (rc == 0) {
            rc = cuda__status(launch_both(cu->stream, both),
                              "start a product with the kernel matrix", err);
        }
        if (rc == 0) {
            rc = cuda__status(launch_add_both(cu->stream, both, totals),
                              "add up a product with the kernel matrix", err);
        }
    }
    return rc;
}

static int both_columns(struct cuda_backend *cu, const struct cut *c, struct launch_tiles tiles,
                        struct launch_kept kept, enum dtype type, double a, const struct mat *V,
                        double b, const struct mat *Y, struct err *err)
{
    char *partials = (char *)cu->work.data + c->weights;
    double *totals = (double *)(partials + (size_t)c->together * c->step);
    float *reach = (float *)(totals + c->of.n * c->cols);
    const struct launch_weights weights = {.dtype = tiles.dtype,
                                           .group = tiles.kernel.group,
                                           .d = tiles.d,
                                           .ld = tiles.ld,
                                           .Q = tiles.Q,
                                           .V = *V,
                                           .type = type,
                                           .norms = tiles.kernel.inner > 0,
                                           .weights = cu->work.data,
                                           .reach = reach};
    struct launch_both both = {.tiles = tiles,
                               .rows = c->of.rows,
                               .blocks = c->of.count,
                               .cols = (int)V->cols,
                               .few = c->few,
                               .type = type,
                               .weights = cu->work.data,
                               .reach = reach,
                               .partials = partials,
                               .kept = kept};
    const struct launch_finish finish = {.totals = totals, .last = true, .a = a, .b = b, .Y = *Y};
    int rc = cuda__status(launch_weights(cu->stream, &weights), "lay out a vector", err);
    if (rc == 0) {
        rc = sum_steps(cu, c, &both, totals, err);
    }
    return rc < 0 ? rc
                  : cuda__status(launch_finish(cu->stream, &finish),
                                 "finish a product with the kernel matrix", err);
}

/* The cut's steps of Y <- a K(P,P) V + b Y. */
static int both_steps(struct cuda_backend *cu, const struct cuda_view *P, const struct cut *cut,
                      double a, const struct mat *V, double b, const struct mat *Y, struct err *err)
{
    const struct points *p = P->view.points;
    const enum dtype type = cuda__weight_type(p, V);
    const struct cut c = *cut;
    const struct launch_kept kept = c.few ? (struct launch_kept){.slots = 0} : kept_of(&P->view);
    struct launch_tiles tiles = cuda__tiles(p);
    const size_t bytes = c.weights + (size_t)c.together * c.step + c.totals + c.of.reaches;
    int rc = cuda__view_part(cu, P, 0, P->view.count, &tiles.P, err);
    tiles.Q = tiles.P;
    if (rc == 0) {
        rc = cuda__reserve(&cu->work, bytes, err);
    }
    for (int64_t col = 0; rc == 0 && col < V->cols; col += c.cols) {
        const int64_t cols = least(c.cols, V->cols - col);
        const struct mat v = mat_cols(*V, col, cols), y = mat_cols(*Y, col, cols);
        rc = both_columns(cu, &c, tiles, kept, type, a, &v, b, &y, err);
        cu->base.kernel_entries += c.of.n * c.of.n / c.of.steps * (c.end - c.begin);
    }
    return rc;
}

int cuda__both(struct cuda_backend *cu, const struct cuda_view *P, double a, const struct mat *V,
               double b, const struct mat *Y, struct err *err)
{
    const struct cut c = cut_of(P, cuda__weight_type(P->view.points, V), V->cols, true);
    return both_steps(cu, P, &c, a, V, b, Y, err);
}

static int clear(struct cuda_backend *cu, const struct mat *Y, struct err *err)
{
    return cuda__status(launch_scale(cu->stream, false, 0.0, Y), "clear a matrix", err);
}

/* Where values do not serve both sides, a share is some of the rows; the others are 0. */
static int share_rows(struct backend *be, struct view P, int64_t first, int64_t end,
                      const struct mat *V, bool add, const struct mat *Y, struct err *err)
{
    struct view own = P;
    own.first += P.index == NULL ? first : 0;
    own.index = P.index != NULL ? P.index + first : NULL;
    own.count = end - first;
    const struct mat rows = mat_rows(*Y, first, own.count);
    const int rc = add ? 0 : clear(cuda_of(be), Y, err);
    return rc < 0 ? rc : cuda__kmv(be, own, P, 1.0, V, add ? 1.0 : 0.0, &rows, err);
}

/* The cut's steps of Y <- K(P,P) V, which may be none, or of Y <- K(P,P) V + Y. */
static int share_steps(struct cuda_backend *cu, const struct cuda_view *P, const struct cut *c,
                       const struct mat *V, bool add, const struct mat *Y, struct err *err)
{
    if (c->begin < c->end) {
        return both_steps(cu, P, c, 1.0, V, add ? 1.0 : 0.0, Y, err);
    }
    return add ? 0 : clear(cu, Y, err);
}

int cuda__kmv_share(struct backend *be, struct view P, int part, int parts, const struct mat *V,
                    bool add, const struct mat *Y, struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    const int64_t n = P.count;
    const bool fits = V->rows == n && Y->rows == n && V->cols == Y->cols && part < parts;
    int rc = cuda__begin(be, fits && cuda__views_fit(&P, &P), "kmv_share", err);
    if (rc < 0 || n == 0 || V->cols == 0) {
        return rc;
    }
    struct cuda_view view;
    rc = cuda__view_open(cu, &P, 0, &view, err);
    const enum dtype weights = cuda__weight_type(P.points, V);
    if (rc == 0 && !pays(&view, weights, V->cols, be->alike)) {
        cuda__views_close(cu);
        return share_rows(be, P, n * part / parts, n * (part + 1) / parts, V, add, Y, err);
    }
    if (rc == 0) {
        struct cut c = cut_of(&view, weights, V->cols, be->alike);
        c.begin = cuda__share_begin(&c.of, part, parts);
        c.end = cuda__share_begin(&c.of, part + 1, parts);
        rc = share_steps(cu, &view, &c, V, add, Y, err);
    }
    cuda__views_close(cu);
    return rc;
}
