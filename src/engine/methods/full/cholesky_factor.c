#include "engine/methods/full/cholesky_factor.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"

int factor_largest_kernel(const struct problem *p, double *ret, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    struct mat d = {0};
    cleanup_mem double *diag = mem_array((size_t)p->n, sizeof(double));
    int r = diag != NULL ? o->mat_new(p->be, p->dtype, p->n, 1, &d, err) : err_no_memory(err);
    if (r == 0) {
        r = o->kdiag(p->be, view_all(p->X, p->n), &d, err);
    }
    if (r == 0) {
        r = o->mat_get(p->be, &d, diag, p->n, err);
    }
    o->mat_free(p->be, &d);
    double largest = 0;
    for (int64_t i = 0; r == 0 && i < p->n; i++) {
        largest = fmax(largest, diag[i]);
        if (!isfinite(diag[i])) {
            r = kernel_overflows(err);
        }
    }
    *ret = largest;
    return r;
}

int factor_init(const struct problem *p, enum dtype dtype, double ridge, double min_pivot,
                int64_t block, struct factor *ret, struct err *err)
{
    *ret = (struct factor){
        .be = p->be,
        .X = p->X,
        .n = p->n,
        .block = block,
        .narrow = dtype == DTYPE_F32 || p->points_dtype == DTYPE_F32,
        .ridge = ridge,
        .min_pivot = min_pivot,
    };
    int r = memory_check_matrix(p->be, p->n, p->n, dtype, "solver `cholesky`", err);
    if (r == 0 && dtype != p->dtype) {
        r = p->be->ops->mat_new(p->be, dtype, p->n, p->t, &ret->work, err);
    }
    return r == 0 ? p->be->ops->mat_new(p->be, dtype, p->n, p->n, &ret->L, err) : r;
}

void factor_deinit(struct factor *f)
{
    if (f->be != NULL) {
        f->be->ops->mat_free(f->be, &f->L);
        f->be->ops->mat_free(f->be, &f->work);
    }
}

static int not_positive_definite(const struct factor *f, int64_t row, struct err *err)
{
    return err_at(
        err, ERR_NOT_POSITIVE_DEFINITE, "#/regularization",
        "The regularized kernel matrix is not positive definite in this precision: the "
        "factorisation broke down at training row %" PRId64 " of %" PRId64
        ". Raise `regularization`, remove duplicate rows, %sor choose a positive definite "
        "kernel.",
        row + 1, f->n, f->narrow ? "use precision float64, " : "");
}

/* G = K(I,J) + ridge I - L(I,1:j) L(J,1:j)' into L(I,J). */
static int fill_panel(struct factor *f, int64_t j, int64_t b, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    const int64_t below = f->n - j;
    const struct mat G = mat_rows(mat_cols(f->L, j, b), j, below);
    const struct mat G_JJ = mat_rows(G, 0, b);
    int r = o->kblock(f->be, view_range(f->X, j, below), view_range(f->X, j, b), &G, err);
    if (r == 0) {
        r = o->add_diag(f->be, f->ridge, &G_JJ, err);
    }
    if (r == 0 && j > 0) {
        const struct mat L_I = mat_rows(mat_cols(f->L, 0, j), j, below);
        const struct mat L_J = mat_rows(L_I, 0, b);
        r = o->gemm(f->be, false, true, -1.0, &L_I, &L_J, 1.0, &G, err);
    }
    return r;
}

int factor_step(struct factor *f, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    const int64_t j = f->next;
    const int64_t b = f->n - j < f->block ? f->n - j : f->block;
    if (b == 0) {
        return 1; /* it was loaded */
    }
    int r = fill_panel(f, j, b, err);
    if (r < 0) {
        return r;
    }
    const struct mat panel = mat_rows(mat_cols(f->L, j, b), j, f->n - j);
    const struct mat L_JJ = mat_rows(panel, 0, b);
    int64_t column = 0;
    r = o->potrf(f->be, &L_JJ, f->min_pivot, &column, err);
    if (r == -ERR_NOT_POSITIVE_DEFINITE) {
        return not_positive_definite(f, j + column, err);
    }
    if (r == 0 && f->n > j + b) {
        const struct mat L_IJ = mat_rows(panel, b, f->n - j - b);
        r = o->trsm(f->be, true, true, &L_JJ, &L_IJ, err);
    }
    f->next += b;
    return r < 0 ? r : f->next == f->n;
}

/* The panels up to column x n have x^2 (3 - 2x) of the n^3/6 multiply-adds. */
double factor_fraction(const struct factor *f)
{
    const double x = (double)f->next / (double)f->n;
    return x * x * (3.0 - 2.0 * x);
}

/* The panels left of column `end`, an array to be freed. */
static struct mat *list_panels(const struct factor *f, int64_t end, int64_t *ret_count)
{
    *ret_count = (end + f->block - 1) / f->block;
    struct mat *panels = mem_array((size_t)*ret_count, sizeof(*panels));
    for (int64_t k = 0; panels != NULL && k < *ret_count; k++) {
        const int64_t j = k * f->block;
        const struct mat columns = mat_cols(f->L, j, end - j < f->block ? end - j : f->block);
        panels[k] = mat_rows(columns, j, f->n - j);
    }
    return panels;
}

int factor_save(const struct factor *f, struct state *to, struct err *err)
{
    const int64_t place[2] = {f->next, f->block};
    int64_t count = 0;
    cleanup_mem struct mat *panels = list_panels(f, f->next, &count);
    const int r =
        panels != NULL ? state_put_ints(to, "factor.place", place, 2, err) : err_no_memory(err);
    return r == 0 ? state_lend_mats(to, "factor.panels", f->be, panels, count, err) : r;
}

int factor_load(struct factor *f, const struct state *from, struct err *err)
{
    int64_t place[2], count = 0;
    int r = state_get_ints(from, "factor.place", place, 2, err);
    const bool whole = r == 0 && (place[0] == f->n || place[0] % f->block == 0);
    if (r == 0 && (place[0] < 0 || place[0] > f->n || place[1] != f->block || !whole)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's factor is in an impossible place.");
    }
    if (r < 0) {
        return r;
    }
    cleanup_mem struct mat *panels = list_panels(f, place[0], &count);
    r = panels != NULL ? state_get_mats(from, "factor.panels", f->be, panels, count, err)
                       : err_no_memory(err);
    f->next = r == 0 ? place[0] : 0;
    return r;
}

static int solve_in_type(struct factor *f, const struct mat *B, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    const int r = o->trsm(f->be, false, false, &f->L, B, err);
    return r == 0 ? o->trsm(f->be, false, true, &f->L, B, err) : r;
}

int factor_solve(struct factor *f, const struct mat *B, struct err *err)
{
    const struct backend_ops *o = f->be->ops;
    if (B->dtype == f->L.dtype) {
        return solve_in_type(f, B, err);
    }
    int r = o->copy(f->be, B, &f->work, err);
    if (r == 0) {
        r = solve_in_type(f, &f->work, err);
    }
    return r == 0 ? o->copy(f->be, &f->work, B, err) : r;
}
