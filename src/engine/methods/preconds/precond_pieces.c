#include "engine/methods/preconds/precond_pieces.h"

/* Fewer rows than ROWS_MIN would spend their time on the k x k sums; more than CONVERTED_ROWS need
 * not be held in float64. */
enum { ROWS_MIN = 128, CONVERTED_ROWS = 4096, FACTOR_COLUMNS = 512 };

int64_t piece_rows(int64_t left, double work)
{
    int64_t rows = work * (double)left > PIECE_WORK ? (int64_t)(PIECE_WORK / work) : left;
    rows = rows < ROWS_MIN ? ROWS_MIN : rows;
    return rows < left ? rows : left;
}

/* Rows of A in float64: a view, or a copy in *buffer, which the caller frees. */
struct rows64 {
    struct mat view, buffer;
};

static int rows64_init(struct rows64 *r, struct backend *be, const struct mat *A, int64_t first,
                       int64_t count, struct err *err)
{
    const struct mat rows = mat_rows(*A, first, count);
    *r = (struct rows64){.view = rows};
    if (A->dtype == DTYPE_F64) {
        return 0;
    }
    const int rc = be->ops->mat_new(be, DTYPE_F64, count, A->cols, &r->buffer, err);
    r->view = r->buffer;
    return rc == 0 ? be->ops->copy(be, &rows, &r->view, err) : rc;
}

static void rows64_deinit(struct rows64 *r, struct backend *be)
{
    be->ops->mat_free(be, &r->buffer);
}

static int64_t tall_rows(const struct mat *A, int64_t next, double work)
{
    const int64_t rows = piece_rows(A->rows - next, work);
    return A->dtype != DTYPE_F64 && rows > CONVERTED_ROWS ? CONVERTED_ROWS : rows;
}

int piece_gram(struct backend *be, const struct mat *A, int64_t *next, const struct mat *C,
               struct err *err)
{
    const double k = (double)A->cols;
    const int64_t count = tall_rows(A, *next, k * k / 2);
    struct rows64 rows;
    int r = rows64_init(&rows, be, A, *next, count, err);
    if (r == 0) {
        r = be->ops->syrk(be, true, 1.0, &rows.view, 1.0, C, err);
    }
    rows64_deinit(&rows, be);
    *next += count;
    return r < 0 ? r : *next == A->rows;
}

int piece_cross(struct backend *be, const struct mat *A, const struct mat *B, int64_t *next,
                const struct mat *C, struct err *err)
{
    const double k = (double)A->cols;
    const int64_t count = tall_rows(A, *next, k * k);
    struct rows64 a, b = {.buffer = {0}};
    int r = rows64_init(&a, be, A, *next, count, err);
    if (r == 0) {
        r = rows64_init(&b, be, B, *next, count, err);
    }
    if (r == 0) {
        r = be->ops->gemm(be, true, false, 1.0, &a.view, &b.view, 1.0, C, err);
    }
    rows64_deinit(&a, be);
    rows64_deinit(&b, be);
    *next += count;
    return r < 0 ? r : *next == A->rows;
}

int piece_solve(struct backend *be, const struct mat *L, int64_t *next, const struct mat *A,
                struct err *err)
{
    const double k = (double)A->cols;
    const int64_t count = tall_rows(A, *next, k * k / 2);
    const struct mat target = mat_rows(*A, *next, count);
    struct rows64 rows;
    int r = rows64_init(&rows, be, A, *next, count, err);
    if (r == 0) {
        r = be->ops->trsm(be, true, true, L, &rows.view, err);
    }
    if (r == 0 && A->dtype != DTYPE_F64) {
        r = be->ops->copy(be, &rows.view, &target, err);
    }
    rows64_deinit(&rows, be);
    *next += count;
    return r < 0 ? r : *next == A->rows;
}

/* Left-looking: the columns J from *next on, of the rows I from there down, are
 * L(I,J) = (A(I,J) - L(I,1:j) L(J,1:j)') L(J,J)^-T. */
int piece_factor(struct backend *be, int64_t *next, const struct mat *A, struct err *err)
{
    const struct backend_ops *o = be->ops;
    const int64_t j = *next, left = A->rows - j;
    const int64_t b = left < FACTOR_COLUMNS ? left : FACTOR_COLUMNS;
    const struct mat panel = mat_rows(mat_cols(*A, j, b), j, left);
    const struct mat L_JJ = mat_rows(panel, 0, b), L_IJ = mat_rows(panel, b, left - b);
    int r = 0;
    if (j > 0) {
        const struct mat L_I = mat_rows(mat_cols(*A, 0, j), j, left);
        const struct mat L_J = mat_rows(L_I, 0, b);
        r = o->gemm(be, false, true, -1.0, &L_I, &L_J, 1.0, &panel, err);
    }
    if (r == 0) {
        r = o->potrf(be, &L_JJ, 0.0, NULL, err);
    }
    if (r == 0 && left > b) {
        r = o->trsm(be, true, true, &L_JJ, &L_IJ, err);
    }
    *next += b;
    return r < 0 ? r : *next == A->rows;
}
