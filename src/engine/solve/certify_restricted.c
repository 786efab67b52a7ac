#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/methods/normal_core.h"
#include "engine/normal.h"
#include "engine/solve/certify.h"
#include "plan/rules.h"

/*
 * One pass gives both sums: with V = [A, 0] and targets [Y, Y], each kernel value is evaluated
 * once,
 *
 *     G = K_nm' (K_nm V - [Y, Y]) = [K_nm' (K_nm A - Y), -K_nm' Y].
 */
struct both {
    const struct problem *p;
    struct row_source source; /* with every target twice */
    struct restricted wide;   /* the problem in float64 */
    struct points *Z;
    struct mat V, G; /* m x 2t */
    double *numbers; /* [5 t]: of columns */
};

/* A right-hand side K_nm' Y_j below this share of what it may be at most has cancelled: it is the
 * rounding of its sums. */
static const double cancelled = 8 * DBL_EPSILON;
/* Smaller residuals are not of such ones, which nothing solves. */
static const double doubtful = 1e-6;

static int read_twice(const struct row_source *s, int64_t first, const int64_t *index,
                      int64_t count, void *ret_X, double *ret_Y, struct err *err)
{
    const struct row_source *once = s->context;
    const int r = once->read(once, first, index, count, ret_X, ret_Y, err);
    for (int64_t k = 0; r == 0 && ret_Y != NULL && k < count * once->t; k++) {
        ret_Y[count * once->t + k] = ret_Y[k];
    }
    return r;
}

static int prepare(struct both *b, const struct mat *A, struct err *err)
{
    const struct problem *p = b->p;
    const struct restricted *given = p->restricted;
    const struct backend_ops *o = p->be->ops;
    b->source = *given->source;
    b->source.context = (void *)(uintptr_t)given->source;
    b->source.t = 2 * p->t;
    b->source.read = read_twice;
    const struct rowset_spec spec = {
        .be = p->be,
        .kernel = given->kernel,
        .source = &b->source,
        .points = DTYPE_F64,
        .vectors = DTYPE_F64,
        .centers = given->m,
    };
    b->wide = *given;
    b->numbers = mem_zarray((size_t)p->t, 5 * sizeof(double));
    int r = b->numbers != NULL ? rowset_new(&spec, &b->wide.rows, err) : err_no_memory(err);
    if (r == 0) {
        r = o->points_new(p->be, given->kernel, DTYPE_F64, given->centers, &b->Z, err);
        b->wide.Z = b->wide.core = b->Z;
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, given->m, 2 * p->t, &b->V, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, given->m, 2 * p->t, &b->G, err);
    }
    const struct mat V = mat_cols(b->V, 0, p->t);
    return r == 0 ? o->copy(p->be, A, &V, err) : r;
}

/* G: the gradient, and minus the right-hand side beside it. */
static int sum_up(struct both *b, const struct certify_stop *stop, struct err *err)
{
    const struct problem *p = b->p;
    const struct mat G = mat_cols(b->G, 0, p->t), V = mat_cols(b->V, 0, p->t);
    struct normal_pass pass = {0};
    int r;
    do {
        if (stop != NULL && stop->asked(stop->context)) {
            return err_set(err, ERR_CANCELLED, "Stopped while the residual was computed.");
        }
        r = normal_gradient(&b->wide, p->be, &pass, &b->V, true, &b->G, err);
    } while (r == 0);
    return r < 0 ? r : normal_add_core(&b->wide, p->be, p->ridge, &V, &G, err);
}

static int dots(struct both *b, const struct mat *A, const struct mat *B, double *ret,
                struct err *err)
{
    return b->p->be->ops->col_dots(b->p->be, A, B, ret, err);
}

/* max_j sqrt(rr[j] / yy[j]), NaN if one is. */
static double largest_quotient(const double *rr, const double *yy, int64_t t)
{
    double largest = 0;
    for (int64_t j = 0; j < t; j++) {
        const double rel = sqrt(rr[j]) / (yy[j] > 0 ? sqrt(yy[j]) : 1.0);
        largest = isnan(rel) || isnan(largest) ? NAN : fmax(largest, rel);
    }
    return largest;
}

/* G += ridge (L' A - L^-1 K_mm A): the same residual with L L' for K_mm. The second half of V has
 * done its duty. */
static int take_factor(struct both *b, const struct mat *L, struct err *err)
{
    const struct problem *p = b->p;
    const struct backend_ops *o = p->be->ops;
    const struct mat A = mat_cols(b->V, 0, p->t), W = mat_cols(b->V, p->t, p->t);
    const struct mat G = mat_cols(b->G, 0, p->t);
    double *one = b->numbers + p->t; /* of a moment */
    for (int64_t j = 0; j < p->t; j++) {
        one[j] = 1.0;
    }
    int r = normal_add_core(&b->wide, p->be, -p->ridge, &A, &W, err);
    r = r == 0 ? o->trsm(p->be, false, false, L, &W, err) : r;
    r = r == 0 ? o->gemm(p->be, true, false, p->ridge, L, &A, 1.0, &W, err) : r;
    return r == 0 ? o->col_axpby(p->be, one, &W, one, &G, err) : r;
}

/* |L^-1 R_j|^2: R's with K_mm or with L L', the smaller one. They differ by as much as the rounding
 * of K_mm makes, which no solver is to blame for. */
static int whitened_squares(struct both *b, const struct mat *L, double *ret_rr, struct err *err)
{
    const struct problem *p = b->p;
    const struct mat G = mat_cols(b->G, 0, p->t);
    double *other = b->numbers + p->t;
    int r = dots(b, &G, &G, ret_rr, err);
    r = r == 0 ? take_factor(b, L, err) : r;
    r = r == 0 ? dots(b, &G, &G, other, err) : r;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        ret_rr[j] = fmin(ret_rr[j], other[j]);
    }
    return r;
}

static int measure(struct both *b, const struct mat *L, struct certificate *ret, struct err *err)
{
    const struct problem *p = b->p;
    const struct mat A = mat_cols(b->V, 0, p->t), rhs = mat_cols(b->G, p->t, p->t);
    double *rr = b->numbers, *yy = b->numbers + 2 * p->t, *fitted = b->numbers + 3 * p->t;
    const double *most = b->numbers + 4 * p->t;
    int r = dots(b, &A, &rhs, fitted, err);
    r = r == 0 ? p->be->ops->trsm(p->be, false, false, L, &b->G, err) : r;
    r = r == 0 ? dots(b, &rhs, &rhs, yy, err) : r;
    r = r == 0 ? whitened_squares(b, L, rr, err) : r;
    if (r < 0) {
        return r;
    }
    for (int64_t j = 0; j < p->t; j++) {
        rr[j] = most[j] > 0 ? 0.0 : rr[j];
    }
    ret->whitened = largest_quotient(rr, yy, p->t);
    for (int64_t j = 0; j < p->t; j++) { /* G has minus the right-hand side */
        fitted[j] = rr[j] > 0 ? fmax(-p->ridge * fitted[j], 0.0) : 1.0;
        rr[j] = fitted[j] > 0 ? rr[j] : INFINITY;
    }
    ret->distance = p->ridge > 0 ? largest_quotient(rr, fitted, p->t) : NAN;
    return 0;
}

/* A factor that does not exist, or that there is no memory for, leaves *ret as it is: a model does
 * not depend on it. */
static int whiten(struct both *b, struct certificate *ret, struct err *err)
{
    const struct problem *p = b->p;
    struct mat L = {0};
    struct err why;
    int r = core_factor_variables(p, &L, &why);
    if (r == 0) {
        r = measure(b, &L, ret, err);
    } else if (r == -ERR_NO_MEMORY || r == -ERR_NOT_POSITIVE_DEFINITE) {
        r = 0;
    } else if (err != NULL) {
        *err = why;
    }
    p->be->ops->mat_free(p->be, &L);
    return r;
}

/* ret[j] <- |Y_j|^2. */
static int target_squares(struct both *b, double *ret, struct err *err)
{
    const int64_t t = b->p->t;
    double *dot = b->numbers + 2 * t; /* of a moment */
    int r = 0;
    for (int64_t i = 0; r == 0 && i < rowset_tiles(b->wide.rows); i++) {
        struct row_tile tile;
        r = rowset_tile(b->wide.rows, i, &tile, err);
        if (r == 0) {
            const struct mat Y = mat_cols(tile.Y, 0, t);
            r = dots(b, &Y, &Y, dot, err);
        }
        for (int64_t j = 0; r == 0 && j < t; j++) {
            ret[j] += dot[j];
        }
    }
    return r;
}

/* The trace of K_mm. */
static int center_trace(struct both *b, double *ret, struct err *err)
{
    const struct backend_ops *o = b->p->be->ops;
    const int64_t m = b->wide.m;
    struct mat diagonal = {0};
    cleanup_mem double *values = mem_array((size_t)m, sizeof(double));
    int r = values != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? o->mat_new(b->p->be, DTYPE_F64, m, 1, &diagonal, err) : r;
    r = r == 0 ? o->kdiag(b->p->be, view_all(b->Z, m), &diagonal, err) : r;
    r = r == 0 ? o->mat_get(b->p->be, &diagonal, values, m, err) : r;
    o->mat_free(b->p->be, &diagonal);
    *ret = 0;
    for (int64_t i = 0; r == 0 && i < m; i++) {
        *ret += values[i];
    }
    return r;
}

/* Of right-hand sides that have cancelled, yy and `most` are the square and the value of what
 * |K_nm' Y_j| may be at most, sqrt(tr K_nn tr K_mm) |Y_j|: zeros solve them, as any coefficients do
 * whose residual is rounding. tr K_nn is taken for n / m tr K_mm. */
static int measure_cancelled(struct both *b, double *yy, struct err *err)
{
    const struct problem *p = b->p;
    double *most = b->numbers + 4 * p->t, trace = 0;
    int r = center_trace(b, &trace, err);
    r = r == 0 ? target_squares(b, most, err) : r;
    const double share = trace > 0 ? trace * sqrt((double)p->n / (double)b->wide.m) : 0.0;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double value = share * sqrt(most[j]);
        most[j] = sqrt(yy[j]) <= cancelled * value ? value : 0.0;
        yy[j] = most[j] > 0 ? value * value : yy[j];
    }
    return r;
}

static int compute(struct both *b, const struct certify_stop *stop, struct certificate *ret,
                   struct err *err)
{
    const struct problem *p = b->p;
    const struct mat G = mat_cols(b->G, 0, p->t), rhs = mat_cols(b->G, p->t, p->t);
    double *rr = b->numbers, *yy = b->numbers + p->t;
    int r = sum_up(b, stop, err);
    r = r == 0 ? dots(b, &G, &G, rr, err) : r;
    r = r == 0 ? dots(b, &rhs, &rhs, yy, err) : r;
    if (r < 0) {
        return r;
    }
    ret->residual = largest_quotient(rr, yy, p->t);
    if (ret->residual > doubtful && p->restricted->row_weights == NULL) {
        r = measure_cancelled(b, yy, err);
        ret->residual = largest_quotient(rr, yy, p->t);
    }
    if (r < 0) {
        return r;
    }
    const bool whitens = isfinite(ret->residual) && rule_whitens(p->n, p->restricted->m);
    return whitens ? whiten(b, ret, err) : 0;
}

int certify_restricted(const struct problem *p, const struct mat *A,
                       const struct certify_stop *stop, struct certificate *ret, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    struct both b = {.p = p};
    int r = prepare(&b, A, err);
    struct certificate found = {.whitened = NAN, .distance = NAN};
    if (r == 0) {
        r = compute(&b, stop, &found, err);
    }
    if (r == 0) {
        found.bound = found.residual;
        *ret = found;
    }
    o->mat_free(p->be, &b.G);
    o->mat_free(p->be, &b.V);
    if (b.Z != NULL) {
        o->points_free(p->be, b.Z);
    }
    if (b.wide.rows != p->restricted->rows) {
        rowset_free(b.wide.rows);
    }
    mem_free(b.numbers);
    return r;
}
