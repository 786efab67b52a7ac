/*
 * Y <- K' diag(w) (K V - T). Where values are worth it they are stored for a panel of P's rows, as
 * many as stay in the device's cache, and read for the other side and for further right-hand sides
 * (launch_panel of launch.h). Where a value takes no longer than to write and read one, or a panel
 * of few rows already leaves the cache far behind, the product and that with the transpose evaluate
 * it each; and for many right-hand sides dense products of blocks are best. Which way, and how rows
 * are cut, depends on the shape and the kernel alone.
 */
#include "engine/products.h"
#include "gpu/cuda.h"

#define PANEL_BYTES ((int64_t)32 << 20) /* of stored values, or LAUNCH_TILE rows' */
#define PANEL_ROWS 32768
#define SEGMENT 256                      /* rows whose share of a column's sum is one piece */
#define FEATURES 24                      /* by inner products: storing pays from here on */
#define GROUPS 3                         /* of right-hand sides, before dense products pay */
#define TWICE_NUMBERS ((int64_t)1 << 20) /* of K V at a time, where nothing is stored */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* What a call is asked for. */
struct request {
    const double *weights; /* on the host, or NULL */
    const struct mat *V, *T, *U, *Y;
    bool add;
};

static struct mat columns_or_none(const struct mat *m, int64_t row, int64_t rows, int64_t col,
                                  int64_t cols)
{
    return m != NULL ? mat_rows(mat_cols(*m, col, cols), row, rows) : (struct mat){0};
}

/* ---- with stored values ---- */

struct normal {
    struct cuda_backend *cu;
    const struct request *r;
    struct cuda_view P, Q;
    struct launch_tiles tiles;
    struct launch_panel panel;            /* of the rows and right-hand sides at hand */
    int64_t rows, segments;               /* of a panel */
    int64_t padded, wave, cols;           /* of Q, and right-hand sides that go together */
    char *values, *q_weights, *p_weights; /* q_weights: [group][padded * its columns] */
    double *row_sums, *columns, *factors; /* columns: [group][segments][its columns][q] */
    float *reach;
};

/* The parts of the workspace; `base` NULL measures it. */
static size_t lay_out(struct normal *n, char *base)
{
    const size_t value = dtype_size(n->panel.dtype), weight = dtype_size(n->panel.type);
    const size_t rows = (size_t)n->rows, q = (size_t)n->padded, cols = (size_t)n->cols;
    const size_t t = (size_t)n->r->V->cols, segments = (size_t)n->segments;
    const size_t chunks = (size_t)ceil_div(n->panel.members, n->panel.chunk);
    const size_t sizes[] = {
        rows * q * value,
        q * t * weight,
        rows * cols * weight,
        chunks * cols * rows * sizeof(double),
        segments * t * (size_t)n->panel.members * sizeof(double),
        rows * sizeof(double),
        q / (size_t)launch_tile_rows(n->panel.dtype, n->panel.group) * sizeof(float),
    };
    char *parts[sizeof sizes / sizeof sizes[0]];
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        parts[i] = base != NULL ? base + at : NULL;
        at += (sizes[i] + 255) / 256 * 256;
    }
    n->values = parts[0];
    n->q_weights = parts[1];
    n->p_weights = parts[2];
    n->row_sums = (double *)(void *)parts[3];
    n->columns = (double *)(void *)parts[4];
    n->factors = (double *)(void *)parts[5];
    n->reach = (float *)(void *)parts[6];
    return at;
}

static void cut(struct normal *n)
{
    const struct points *p = n->P.view.points;
    const int64_t members = n->Q.view.count, count = n->P.view.count;
    n->panel = (struct launch_panel){.dtype = p->dtype,
                                     .type = cuda__weight_type(p, n->r->V),
                                     .group = p->kernel.group,
                                     .members = members,
                                     .chunk = cuda__chunk(members),
                                     .segment = SEGMENT};
    n->padded = cuda__padded(members);
    n->panel.across = n->padded / launch_tile_rows(p->dtype, p->kernel.group);
    n->cols = least(n->r->V->cols, launch_cols(p->dtype, n->panel.type));
    n->wave = cuda__view_wave(&n->Q, n->panel.chunk, members);
    const int64_t fit = PANEL_BYTES / (n->padded * (int64_t)dtype_size(p->dtype));
    const int64_t rows = least(least(fit, PANEL_ROWS), cuda__view_step(&n->P));
    n->rows = least(most(rows / LAUNCH_TILE, 1) * LAUNCH_TILE, cuda__padded(count));
    n->segments = ceil_div(least(n->rows, count), SEGMENT);
}

/* float64 values always take longer than 16 bytes of traffic. */
static bool storing_pays(const struct points *p)
{
    return p->dtype == DTYPE_F64 || (p->kernel.inner > 0 ? p->d : 2 * p->d) >= FEATURES;
}

/* Columns from `col` on as the panel's: their weights and sums. */
static void take_group(struct normal *n, int64_t col)
{
    struct launch_panel *p = &n->panel;
    p->cols = (int)least(n->cols, n->r->V->cols - col);
    p->q_weights = n->q_weights + (size_t)(n->padded * col) * dtype_size(p->type);
    p->column_sums = n->columns + n->segments * p->members * col;
}

/* The weights of members first .. first+count-1 of Q, which tiles.Q are, in all groups. */
static int lay_weights(struct normal *n, int64_t first, int64_t count, struct err *err)
{
    const struct launch_panel *p = &n->panel;
    int rc = 0;
    for (int64_t col = 0; rc == 0 && col < n->r->V->cols; col += n->cols) {
        take_group(n, col);
        const struct launch_weights weights = {
            .dtype = p->dtype,
            .group = p->group,
            .d = n->tiles.d,
            .ld = n->tiles.ld,
            .Q = n->tiles.Q,
            .V = columns_or_none(n->r->V, first, count, col, p->cols),
            .type = p->type,
            .norms = n->tiles.kernel.inner > 0,
            .weights = (char *)p->q_weights + (size_t)(first * p->cols) * dtype_size(p->type),
            .reach = n->reach + first / launch_tile_rows(p->dtype, p->group),
        };
        rc = cuda__status(launch_weights(n->cu->stream, &weights), "lay out a vector", err);
    }
    return rc;
}

/* The panel's values with Q's members from `first` on, which tiles.Q are, and the first group's
 * shares of its rows' sums. */
static int sum_values(struct normal *n, int64_t first, struct err *err)
{
    struct launch_panel *p = &n->panel;
    const int64_t tile = first / launch_tile_rows(p->dtype, p->group);
    const int64_t tile_bytes = launch_tile_bytes(p->dtype);
    take_group(n, 0);
    const struct launch_sums sums = {.tiles = n->tiles,
                                     .chunk = p->chunk,
                                     .cols = p->cols,
                                     .type = p->type,
                                     .weights = (const char *)p->q_weights +
                                                (size_t)(first * p->cols) * dtype_size(p->type),
                                     .reach = n->reach + tile,
                                     .partials = p->row_sums + first / p->chunk * p->cols * p->rows,
                                     .values = n->values + tile * tile_bytes,
                                     .across = p->across};
    return cuda__status(launch_sums(n->cu->stream, &sums), "start a product with the kernel matrix",
                        err);
}

static int evaluate(struct normal *n, bool first_panel, struct err *err)
{
    const int64_t members = n->panel.members;
    int rc = 0;
    for (int64_t first = 0; rc == 0 && first < members; first += n->wave) {
        const int64_t count = least(n->wave, members - first);
        rc = cuda__view_part(n->cu, &n->Q, first, count, &n->tiles.Q, err);
        if (rc == 0 && first_panel) {
            rc = lay_weights(n, first, count, err);
        }
        if (rc == 0) {
            rc = sum_values(n, first, err);
        }
    }
    return rc;
}

/* What the group's sums along the panel's rows are for its columns. */
static int use_rows(struct normal *n, int64_t row, int64_t col, struct err *err)
{
    const struct launch_panel *p = &n->panel;
    const struct mat T = columns_or_none(n->r->T, row, p->rows, col, p->cols);
    const struct mat U = columns_or_none(n->r->U, row, p->rows, col, p->cols);
    const double *factors = n->r->weights != NULL ? n->factors : NULL;
    int rc = cuda__status(launch_residual(n->cu->stream, p, factors, &T, &U),
                          "add up a product with the kernel matrix", err);
    if (rc == 0) {
        rc = cuda__status(launch_panel_columns(n->cu->stream, p, row == 0),
                          "start a product with a transpose", err);
    }
    n->cu->base.kernel_entries += 2 * p->rows * p->members;
    return rc;
}

/* The rows from `row` on. */
static int sum_panel(struct normal *n, int64_t row, struct err *err)
{
    struct launch_panel *p = &n->panel;
    p->rows = least(n->rows, n->P.view.count - row);
    int rc = cuda__view_part(n->cu, &n->P, row, p->rows, &n->tiles.P, err);
    if (rc == 0 && n->r->weights != NULL) {
        rc = cuda__upload(n->cu, n->factors, n->r->weights + row, (size_t)p->rows * sizeof(double),
                          err);
    }
    for (int64_t col = 0; rc == 0 && col < n->r->V->cols; col += n->cols) {
        if (col == 0) {
            rc = evaluate(n, row == 0, err);
        } else {
            take_group(n, col);
            rc = cuda__status(launch_panel_rows(n->cu->stream, p),
                              "start a product with the kernel matrix", err);
        }
        take_group(n, col);
        rc = rc == 0 ? use_rows(n, row, col, err) : rc;
    }
    return rc;
}

static int finish(struct normal *n, struct err *err)
{
    int rc = 0;
    for (int64_t col = 0; rc == 0 && col < n->r->V->cols; col += n->cols) {
        take_group(n, col);
        const struct launch_finish finish = {.partials = n->panel.column_sums,
                                             .chunks = n->segments,
                                             .first = true,
                                             .last = true,
                                             .a = 1.0,
                                             .b = n->r->add ? 1.0 : 0.0,
                                             .Y = mat_cols(*n->r->Y, col, n->panel.cols)};
        rc = cuda__status(launch_finish(n->cu->stream, &finish),
                          "finish a product with the kernel matrix", err);
    }
    return rc;
}

static int stored_product(struct normal *n, struct err *err)
{
    int rc = cuda__reserve(&n->cu->work, lay_out(n, NULL), err);
    if (rc < 0) {
        return rc;
    }
    lay_out(n, n->cu->work.data);
    n->panel.values = n->values;
    n->panel.row_sums = n->row_sums;
    n->panel.p_weights = n->p_weights;
    for (int64_t row = 0; rc == 0 && row < n->P.view.count; row += n->rows) {
        rc = cuda__ask(n->cu, n->P.view.count, n->panel.members, err);
        rc = rc == 0 ? sum_panel(n, row, err) : rc;
    }
    return rc == 0 ? finish(n, err) : rc;
}

/* ---- without ---- */

/* to <- weights o (K(P,Q) V - T), of the rows from `row` on, which P are; and U likewise. */
static int residual(struct backend *be, const struct request *r, struct view P, struct view Q,
                    int64_t row, const struct mat *to, struct err *err)
{
    const struct mat T = columns_or_none(r->T, row, P.count, 0, to->cols);
    const struct mat U = columns_or_none(r->U, row, P.count, 0, to->cols);
    int rc = r->T != NULL ? cuda__copy(be, &T, to, err) : 0;
    if (rc == 0) {
        rc = cuda__kmv(be, P, Q, 1.0, r->V, r->T != NULL ? -1.0 : 0.0, to, err);
    }
    if (rc == 0 && r->weights != NULL) {
        rc = cuda__scale_rows(be, r->weights + row, to, err);
    }
    return rc == 0 && r->U != NULL ? cuda__copy(be, to, &U, err) : rc;
}

static int two_products(struct backend *be, const struct request *r, struct view P, struct view Q,
                        struct err *err)
{
    const int64_t t = r->V->cols;
    const int64_t rows = most(TWICE_NUMBERS / t / LAUNCH_TILE, 1) * LAUNCH_TILE;
    struct mat all = {0};
    int rc =
        cuda__mat_new(be, cuda__weight_type(P.points, r->V), least(rows, P.count), t, &all, err);
    int64_t row = 0;
    do {
        const struct mat part = mat_rows(all, 0, least(rows, P.count - row));
        struct view own = P;
        own.first += P.index == NULL ? row : 0;
        own.index = P.index != NULL ? P.index + row : NULL;
        own.count = part.rows;
        if (rc == 0 && part.rows > 0) {
            rc = residual(be, r, own, Q, row, &part, err);
        }
        if (rc == 0) {
            rc = cuda__kmv(be, Q, own, 1.0, &part, r->add || row > 0 ? 1.0 : 0.0, r->Y, err);
        }
        row += rows;
    } while (rc == 0 && row < P.count);
    cuda__mat_free(be, &all);
    return rc;
}

/* Whether values are stored; then the views are open. */
static int open_normal(struct normal *n, struct view P, struct view Q, bool *ret_stored,
                       struct err *err)
{
    *ret_stored = false;
    if (P.count == 0 || Q.count == 0 || !storing_pays(P.points)) {
        return 0;
    }
    int rc = cuda__view_open(n->cu, &P, 0, &n->P, err);
    if (rc == 0) {
        rc = cuda__view_open(n->cu, &Q, 1, &n->Q, err);
    }
    if (rc == 0) {
        cut(n);
        *ret_stored = lay_out(n, NULL) <= CUDA_KEPT_BYTES;
    }
    return rc;
}

int cuda__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
                const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                const struct mat *Y, struct err *err)
{
    const int64_t t = V->cols;
    const bool fits = V->rows == Q.count && Y->rows == Q.count && t == Y->cols &&
                      (T == NULL || (T->rows == P.count && T->cols == t)) &&
                      (U == NULL || (U->rows == P.count && U->cols == t));
    int rc = cuda__begin(be, fits && cuda__views_fit(&P, &Q), "kmtkv", err);
    if (rc < 0 || t == 0) {
        return rc;
    }
    if (t > GROUPS * launch_cols(P.points->dtype, cuda__weight_type(P.points, V))) {
        return product_normal_by_blocks(be, P, Q, weights, V, T, U, add, Y, err);
    }
    const struct request r = {.weights = weights, .V = V, .T = T, .U = U, .Y = Y, .add = add};
    struct normal n = {.cu = cuda_of(be), .r = &r, .tiles = cuda__tiles(P.points)};
    bool stored;
    rc = open_normal(&n, P, Q, &stored, err);
    if (rc == 0) {
        rc = stored ? stored_product(&n, err) : two_products(be, &r, P, Q, err);
    }
    cuda__views_close(n.cu);
    return rc;
}
