#include "engine/methods/preconds/kron_basis.h"

#include <math.h>

#include "base/mem.h"
#include "engine/backend.h"

int kron_basis_find(struct kron_basis *b, struct backend *be, const struct kernel *kernel,
                    const struct rows *rows, int64_t most, struct err *err)
{
    *b = (struct kron_basis){.be = be, .kernel = kernel};
    return grid_find_axes(rows, 1, rows->d, most, &b->axes, err);
}

/* The kernel's factor between the values of an axis, column-major. */
static void fill(const struct kron_basis *b, int axis, double *K)
{
    const int64_t size = b->axes.size[axis];
    const double *x = b->axes.values[axis], *each = b->kernel->bandwidths;
    const struct kernel one = {
        .id = b->kernel->id,
        .d = 1,
        .bandwidth = each != NULL ? each[b->axes.feature[axis]] : b->kernel->bandwidth,
    };
    for (int64_t j = 0; j < size; j++) {
        for (int64_t i = 0; i < size; i++) {
            K[i + j * size] = kernel_eval(&one, x + i, x + j);
        }
    }
}

static int allocate(struct kron_basis *b, struct err *err)
{
    b->values = mem_array((size_t)b->axes.places, sizeof *b->values);
    if (b->values == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < b->axes.places; i++) {
        b->values[i] = 1.0;
    }
    return b->be->ops->mat_new(b->be, DTYPE_F64, b->axes.places, 1, &b->other, err);
}

/* values *= those of an axis, whose places are `behind` apart. Rounding makes some less than 0. */
static void spread_values(struct kron_basis *b, int axis, const double *own)
{
    int64_t behind = 1;
    for (int k = axis + 1; k < b->axes.dims; k++) {
        behind *= b->axes.size[k];
    }
    for (int64_t i = 0; i < b->axes.places; i++) {
        b->values[i] *= fmax(own[i / behind % b->axes.size[axis]], 0.0);
    }
}

int kron_basis_build(struct kron_basis *b, struct err *err)
{
    const struct backend_ops *o = b->be->ops;
    const int axis = b->next, dims = b->axes.dims;
    int r = axis == 0 && b->values == NULL ? allocate(b, err) : 0;
    if (r < 0 || axis == dims) {
        return r < 0 ? r : 1;
    }
    const int64_t size = b->axes.size[axis];
    cleanup_mem double *K = mem_array((size_t)(size * size), sizeof *K);
    if (K == NULL) {
        return err_no_memory(err);
    }
    fill(b, axis, K);
    r = o->mat_new(b->be, DTYPE_F64, size, size, &b->Q[axis], err);
    if (r == 0) {
        r = o->mat_put(b->be, K, size, &b->Q[axis], err);
    }
    if (r == 0) {
        r = o->eigh(b->be, &b->Q[axis], K, err); /* size of the values, in what K has held */
    }
    if (r == 0) {
        spread_values(b, axis, K);
        b->next++;
    }
    return r;
}

/* One column. Each turn takes the axis whose places are side by side, and puts it first: after all
 * of them the places have their old order. */
static int multiply_column(struct kron_basis *b, bool transposed, struct mat x, struct err *err)
{
    struct mat from = x, to = b->other;
    int r = 0;
    for (int k = b->axes.dims - 1; r == 0 && k >= 0; k--) {
        const int64_t size = b->axes.size[k], rest = b->axes.places / size;
        from.rows = from.ld = to.cols = size;
        to.rows = to.ld = from.cols = rest;
        r = b->be->ops->gemm(b->be, true, !transposed, 1.0, &from, &b->Q[k], 0.0, &to, err);
        const struct mat swap = from;
        from = to;
        to = swap;
    }
    if (r == 0 && from.data != x.data) {
        r = b->be->ops->copy(b->be, &b->other, &x, err);
    }
    return r;
}

int kron_basis_multiply(struct kron_basis *b, bool transposed, const struct mat *X, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && j < X->cols; j++) {
        r = multiply_column(b, transposed, mat_cols(*X, j, 1), err);
    }
    return r;
}

void kron_basis_deinit(struct kron_basis *b)
{
    for (int k = 0; b->be != NULL && k < GRID_DIMS; k++) {
        b->be->ops->mat_free(b->be, &b->Q[k]);
    }
    if (b->be != NULL) {
        b->be->ops->mat_free(b->be, &b->other);
    }
    b->values = mem_free(b->values);
    grid_axes_deinit(&b->axes);
}
