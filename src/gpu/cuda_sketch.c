/*
 * S <- Phi K(P,Q) (+ S), Phi sparse with a few signs a column. The values of some of P's rows with
 * some of Q's are stored, a row of P after the other; then each number of S takes its row's share
 * of them, in the order of P. So a value is evaluated once, and read once for each of its signs.
 */
#include <string.h>

#include "base/mem.h"
#include "gpu/cuda.h"

#define VALUE_BYTES ((int64_t)32 << 20)
#define PANEL_ROWS 16384             /* of P at a time: S is read and written for each */
#define SLAB_COLS ((int64_t)1 << 20) /* of Q at a time, below the grid's limit */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t whole_tiles(int64_t rows)
{
    return rows > LAUNCH_TILE ? rows / LAUNCH_TILE * LAUNCH_TILE : LAUNCH_TILE;
}

struct sketch {
    struct cuda_backend *cu;
    const struct sign_sketch *phi;
    struct cuda_view P, Q;
    struct launch_tiles tiles;
    struct launch_signs signs; /* on the device */
    const struct mat *S;
    int64_t rows, cols;       /* of P and of Q at a time */
    int32_t *begin, *entries; /* on the host */
};

/* Phi's columns first .. first+count-1 by rows, each row's in the order of the columns. */
static void sort_entries(struct sketch *s, int64_t first, int64_t count)
{
    const struct sign_sketch phi = sign_sketch_part(s->phi, first);
    const int numbers = sign_sketch_numbers(&phi);
    memset(s->begin, 0, (size_t)(phi.rows + 2) * sizeof *s->begin);
    for (int64_t k = 0; k < count * numbers; k++) {
        const struct sign_entry e = sign_sketch_entry(&phi, k / numbers, (int)(k % numbers));
        s->begin[e.row + 2] += e.row >= 0;
    }
    for (int64_t r = 2; r <= phi.rows + 1; r++) {
        s->begin[r] += s->begin[r - 1];
    }
    for (int64_t k = 0; k < count * numbers; k++) { /* begin[r + 1] ends as the end of row r */
        const struct sign_entry e = sign_sketch_entry(&phi, k / numbers, (int)(k % numbers));
        if (e.row >= 0) {
            s->entries[s->begin[e.row + 1]++] = (int32_t)(2 * (k / numbers)) + e.negative;
        }
    }
}

static int upload_entries(struct sketch *s, int64_t first, int64_t count, struct err *err)
{
    sort_entries(s, first, count);
    const size_t begin = (size_t)(s->phi->rows + 1) * sizeof *s->begin;
    const size_t entries = (size_t)(count * sign_sketch_numbers(s->phi)) * sizeof *s->entries;
    const int rc = cuda__upload(s->cu, (void *)s->signs.begin, s->begin, begin, err);
    return rc < 0 || entries == 0
               ? rc
               : cuda__upload(s->cu, (void *)s->signs.entries, s->entries, entries, err);
}

/* What the rows that tiles.Q are add to S's columns from `col` on. */
static int sketch_slab(struct sketch *s, int64_t col, bool add, struct err *err)
{
    const int64_t cols = least(s->cols, s->S->cols - col);
    int rc = cuda__view_part(s->cu, &s->Q, col, cols, &s->tiles.P, err);
    struct launch_signs signs = s->signs;
    signs.transposed.rows = signs.transposed.ld = cols;
    signs.transposed.cols = s->tiles.Q.count;
    signs.S = mat_cols(*s->S, col, cols);
    signs.b = add ? 1.0 : 0.0;
    if (rc == 0) {
        rc = cuda__status(launch_block(s->cu->stream, &s->tiles, &signs.transposed),
                          "compute a kernel block", err);
    }
    return rc < 0 ? rc : cuda__status(launch_signs(s->cu->stream, &signs), "start a sketch", err);
}

static int sketch_panels(struct sketch *s, bool add, struct err *err)
{
    int rc = 0;
    for (int64_t row = 0; rc == 0 && row < s->P.view.count; row += s->rows) {
        const int64_t count = least(s->rows, s->P.view.count - row);
        rc = cuda__view_part(s->cu, &s->P, row, count, &s->tiles.Q, err);
        rc = rc == 0 ? upload_entries(s, row, count, err) : rc;
        for (int64_t col = 0; rc == 0 && col < s->S->cols; col += s->cols) {
            rc = sketch_slab(s, col, add || row > 0, err);
        }
    }
    return rc;
}

/* The workspace: values, entries, where each row's begin. */
static int reserve(struct sketch *s, struct err *err)
{
    const struct sign_sketch *phi = s->phi;
    const size_t values = (size_t)(s->rows * s->cols) * dtype_size(s->tiles.dtype);
    const size_t entries = (size_t)(s->rows * sign_sketch_numbers(phi)) * sizeof(int32_t);
    const size_t begin = (size_t)(phi->rows + 2) * sizeof(int32_t);
    s->begin = mem_array((size_t)phi->rows + 2, sizeof *s->begin);
    s->entries = mem_array((size_t)(s->rows * sign_sketch_numbers(phi)) + 1, sizeof *s->entries);
    if (s->begin == NULL || s->entries == NULL) {
        return err_no_memory(err);
    }
    const int rc = cuda__reserve(&s->cu->work, values + entries + begin, err);
    if (rc == 0) {
        char *const base = s->cu->work.data;
        s->signs =
            (struct launch_signs){.transposed = {.dtype = s->tiles.dtype, .data = base},
                                  .entries = (const int32_t *)(const void *)(base + values),
                                  .begin = (const int32_t *)(const void *)(base + values + entries),
                                  .scale = phi->scale};
    }
    return rc;
}

static void cut(struct sketch *s)
{
    const struct points *p = s->P.view.points;
    const int64_t padded = cuda__padded(s->P.view.count);
    s->rows = whole_tiles(least(PANEL_ROWS, least(cuda__view_step(&s->P), padded)));
    const int64_t columns = VALUE_BYTES / (s->rows * (int64_t)dtype_size(p->dtype));
    s->cols = whole_tiles(least(least(columns, SLAB_COLS), cuda__view_step(&s->Q)));
    s->cols = least(s->cols, cuda__padded(s->Q.view.count));
}

static int sparse_product(struct sketch *s, struct view P, struct view Q, bool add, struct err *err)
{
    int rc = cuda__view_open(s->cu, &P, 0, &s->P, err);
    if (rc == 0) {
        rc = cuda__view_open(s->cu, &Q, 1, &s->Q, err);
    }
    if (rc == 0) {
        cut(s);
        rc = reserve(s, err);
    }
    rc = rc == 0 ? sketch_panels(s, add, err) : rc;
    mem_free(s->begin);
    mem_free(s->entries);
    cuda__views_close(s->cu);
    return rc;
}

int cuda__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                  bool add, const struct mat *S, struct err *err)
{
    const bool fits = S->rows == phi->rows && S->cols == Q.count &&
                      sign_sketch_valid(phi, P.count) && cuda__views_fit(&P, &Q);
    struct sketch s = {.cu = cuda_of(be), .phi = phi, .S = S, .tiles = cuda__tiles(P.points)};
    const int rc = cuda__begin(be, fits, "ksketch", err);
    if (rc < 0 || S->rows == 0 || S->cols == 0) {
        return rc;
    }
    if (P.count == 0) {
        return add ? 0
                   : cuda__status(launch_scale(s.cu->stream, false, 0.0, S), "clear a matrix", err);
    }
    be->kernel_entries += P.count * Q.count;
    return sparse_product(&s, P, Q, add, err);
}
