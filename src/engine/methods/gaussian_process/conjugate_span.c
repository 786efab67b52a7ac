#include "engine/methods/gaussian_process/conjugate_span.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"

/* Directions whose w'K w is not above so many units of what rounding makes of n x n kernel values
 * are left out: scaled to 1 they would be rounding alone. */
static const double rounding_units = 4.0;

enum { PASSES = 6 }; /* of a direction over those before it, at most */

void span_deinit(struct conjugate_span *s)
{
    if (s->be == NULL) {
        return;
    }
    struct mat *const matrices[] = {&s->S, &s->Z, &s->W, &s->V, &s->C, &s->core};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        s->be->ops->mat_free(s->be, matrices[i]);
    }
    s->scale = mem_free(s->scale);
}

static int allocate(struct conjugate_span *s, enum dtype dtype, struct err *err)
{
    const struct {
        struct mat *mat;
        enum dtype dtype;
        int64_t rows, cols;
    } parts[] = {
        {&s->S, dtype, s->n, s->room},
        {&s->Z, dtype, s->n, s->room},
        {&s->W, dtype, s->n, s->t},
        {&s->V, dtype, s->n, s->t},
        {&s->C, dtype, s->room > s->t ? s->room : s->t, s->t},
        {&s->core, DTYPE_F64, s->t, s->t},
    };
    s->scale = mem_zarray((size_t)s->t, sizeof(double));
    int r = s->scale != NULL ? 0 : err_no_memory(err);
    for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        r = s->be->ops->mat_new(s->be, parts[i].dtype, parts[i].rows, parts[i].cols, parts[i].mat,
                                err);
    }
    return r;
}

/* Each of n x n values has an error of eps max k(x,x). */
static int measure(struct conjugate_span *s, bool narrow, struct err *err)
{
    cleanup_mem double *values = mem_array((size_t)s->n, sizeof(*values));
    const struct mat diagonal = mat_cols(s->W, 0, 1);
    const double eps = narrow ? (double)FLT_EPSILON : DBL_EPSILON;
    double largest = 0;
    int r =
        values != NULL ? s->be->ops->kdiag(s->be, s->points, &diagonal, err) : err_no_memory(err);
    r = r == 0 ? s->be->ops->mat_get(s->be, &diagonal, values, s->n, err) : r;
    for (int64_t i = 0; r == 0 && i < s->n; i++) {
        largest = fmax(largest, fabs(values[i]));
        s->trace += values[i];
    }
    s->least = rounding_units * eps * (double)s->n * largest;
    return r;
}

int span_init(struct conjugate_span *s, const struct problem *p, int64_t t, int64_t room,
              struct err *err)
{
    const struct points *X = p->exact != NULL ? p->exact : p->X;
    const bool narrow = p->dtype == DTYPE_F32 || (X == p->X && p->points_dtype == DTYPE_F32);
    *s = (struct conjugate_span){
        .be = p->be, .points = view_all(X, p->n), .n = p->n, .t = t, .room = room};
    const int r = allocate(s, p->dtype, err);
    return r == 0 ? measure(s, narrow, err) : r;
}

/* W <- A, each column of length 1, or 0 where it is not longer than least[j]. */
static int take_unit(struct conjugate_span *s, const struct mat *A, const double *least,
                     struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    double *scale = s->scale;
    cleanup_mem double *zero = mem_zarray((size_t)s->t, sizeof(*zero));
    int r = zero != NULL ? o->col_dots(s->be, A, A, scale, err) : err_no_memory(err);
    for (int64_t j = 0; r == 0 && j < s->t; j++) {
        const double length = sqrt(scale[j]);
        scale[j] = length > least[j] ? 1.0 / length : 0.0;
    }
    return r == 0 ? o->col_axpby(s->be, scale, A, zero, &s->W, err) : r;
}

/* A <- A - B C, C = D' E. */
static int take_off(struct conjugate_span *s, const struct mat *D, const struct mat *E,
                    const struct mat *B, const struct mat *A, struct err *err)
{
    const struct mat C = mat_cols(mat_rows(s->C, 0, D->cols), 0, E->cols);
    const int r = s->be->ops->gemm(s->be, true, false, 1.0, D, E, 0.0, &C, err);
    return r == 0 ? s->be->ops->gemm(s->be, false, false, -1.0, B, &C, 1.0, A, err) : r;
}

/* Has a pass taken more than nine tenths of a column? Then what rounding made of S may be most of
 * what is left of it. */
static bool shrunk(const struct conjugate_span *s, int64_t j)
{
    return s->scale[j] > 10.0;
}

static bool any_shrunk(const struct conjugate_span *s)
{
    bool any = false;
    for (int64_t j = 0; j < s->t; j++) {
        any = any || shrunk(s, j);
    }
    return any;
}

/* W <- 0 in columns that were still shrinking: there was nothing but S in them. */
static int drop_shrunk(struct conjugate_span *s, double *none, struct err *err)
{
    for (int64_t j = 0; j < s->t; j++) {
        s->scale[j] = shrunk(s, j) ? 0.0 : 1.0;
    }
    return s->be->ops->col_axpby(s->be, s->scale, &s->W, none, &s->W, err);
}

/* W <- R - S Z'R, each column of length 1 or 0. Twice: what rounding leaves of S the first time is
 * of the length that W had then. Residuals at the level of rounding are the same from step to step
 * and so in the span of S but for rounding: they take a pass or two more. */
static int take_residuals(struct conjugate_span *s, const struct mat *R, const double *least,
                          struct err *err)
{
    const struct mat S = span_S(s), Z = span_Z(s);
    cleanup_mem double *none = mem_zarray((size_t)s->t, sizeof(*none));
    int r = none != NULL ? take_unit(s, R, least, err) : err_no_memory(err);
    for (int pass = 0; r == 0 && s->count > 0 && (pass < 2 || (pass < PASSES && any_shrunk(s)));
         pass++) {
        r = take_off(s, &Z, &s->W, &S, &s->W, err);
        r = r == 0 ? take_unit(s, &s->W, none, err) : r;
    }
    return r == 0 && s->count > 0 && any_shrunk(s) ? drop_shrunk(s, none, err) : r;
}

/* The core, W'V. */
static int take_core(struct conjugate_span *s, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const struct mat C = mat_rows(s->C, 0, s->t);
    cleanup_mem double *values = mem_array((size_t)(s->t * s->t), sizeof(*values));
    int r = values != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? o->gemm(s->be, true, false, 1.0, &s->W, &s->V, 0.0, &C, err) : r;
    r = r == 0 ? o->copy(s->be, &C, &s->core, err) : r;
    r = r == 0 ? o->mat_get(s->be, &s->core, values, s->t, err) : r;
    for (int64_t i = 0; r == 0 && i < s->t * s->t; i++) {
        r = isfinite(values[i]) ? 0 : kernel_overflows(err);
    }
    return r;
}

/* T (t x q) with T'(W'V)T = I, for the eigenvectors of W'V that are more than rounding; *ret = q,
 * at most `most`: the largest. T column-major on the host. */
static int whiten(struct conjugate_span *s, int64_t most, double *T, int64_t *ret, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const int64_t t = s->t;
    cleanup_mem double *values = mem_array((size_t)t, sizeof(*values));
    cleanup_mem double *vectors = mem_array((size_t)(t * t), sizeof(*vectors));
    int r = values != NULL && vectors != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? take_core(s, err) : r;
    r = r == 0 ? o->eigh(s->be, &s->core, values, err) : r;
    r = r == 0 ? o->mat_get(s->be, &s->core, vectors, t, err) : r;
    if (r < 0) {
        return r;
    }
    for (*ret = 0; *ret < most && values[t - 1 - *ret] > s->least; ++*ret) {
        const int64_t from = t - 1 - *ret;
        for (int64_t i = 0; i < t; i++) {
            T[i + *ret * t] = vectors[i + from * t] / sqrt(values[from]);
        }
    }
    return 0;
}

/* The next q columns of S and Z: W T and V T. */
static int append(struct conjugate_span *s, const double *T, int64_t q, struct err *err)
{
    const struct backend_ops *o = s->be->ops;
    const struct mat S = mat_cols(s->S, s->count, q), Z = mat_cols(s->Z, s->count, q);
    const struct mat C = mat_cols(mat_rows(s->C, 0, s->t), 0, q);
    int r = o->mat_put(s->be, T, s->t, &C, err);
    r = r == 0 ? o->gemm(s->be, false, false, 1.0, &s->W, &C, 0.0, &S, err) : r;
    return r == 0 ? o->gemm(s->be, false, false, 1.0, &s->V, &C, 0.0, &Z, err) : r;
}

/* What the new columns S, Z still have of the old ones, by products that are there already, so that
 * Z = K S stays as true as the product made it. */
static int clean(struct conjugate_span *s, const struct mat *S, const struct mat *Z,
                 struct err *err)
{
    const struct mat old_S = span_S(s), old_Z = span_Z(s);
    const struct mat C = mat_cols(mat_rows(s->C, 0, s->count), 0, S->cols);
    if (s->count == 0) {
        return 0;
    }
    const int r = take_off(s, &old_S, Z, &old_S, S, err);
    return r == 0 ? s->be->ops->gemm(s->be, false, false, -1.0, &old_Z, &C, 1.0, Z, err) : r;
}

int span_extend(struct conjugate_span *s, const struct mat *R, const double *least, int64_t *ret,
                struct err *err)
{
    const int64_t left = s->room - s->count;
    cleanup_mem double *T = mem_array((size_t)(s->t * s->t), sizeof(*T));
    int64_t q = 0;
    int r = T != NULL ? take_residuals(s, R, least, err) : err_no_memory(err);
    r = r == 0 ? s->be->ops->kmv(s->be, s->points, s->points, 1.0, &s->W, 0.0, &s->V, err) : r;
    r = r == 0 ? whiten(s, left < s->t ? left : s->t, T, &q, err) : r;
    *ret = q;
    if (r < 0 || q == 0) {
        return r;
    }
    const struct mat S = mat_cols(s->S, s->count, q), Z = mat_cols(s->Z, s->count, q);
    r = append(s, T, q, err);
    r = r == 0 ? clean(s, &S, &Z, err) : r;
    s->count += r == 0 ? q : 0;
    return r;
}
