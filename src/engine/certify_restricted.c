#include <math.h>

#include "base/mem.h"
#include "engine/certify.h"
#include "engine/normal.h"

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
    double *numbers; /* [4 t] */
};

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
    b->numbers = mem_zarray((size_t)p->t, 4 * sizeof(double));
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

static int compute(struct both *b, const struct certify_stop *stop, double *ret, struct err *err)
{
    const struct problem *p = b->p;
    const struct mat G = mat_cols(b->G, 0, p->t), V = mat_cols(b->V, 0, p->t);
    const struct mat rhs = mat_cols(b->G, p->t, p->t);
    double *rr = b->numbers, *yy = b->numbers + p->t;
    struct normal_pass pass = {0};
    int r;
    do {
        if (stop != NULL && stop->asked(stop->context)) {
            return err_set(err, ERR_CANCELLED, "Stopped while the residual was computed.");
        }
        r = normal_gradient(&b->wide, p->be, &pass, &b->V, true, &b->G, err);
    } while (r == 0);
    r = r < 0 ? r : normal_add_core(&b->wide, p->be, p->ridge, &V, &G, err);
    if (r == 0) {
        r = p->be->ops->col_dots(p->be, &G, &G, rr, err);
    }
    if (r == 0) {
        r = p->be->ops->col_dots(p->be, &rhs, &rhs, yy, err);
    }
    double largest = 0;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        const double rel = sqrt(rr[j]) / (yy[j] > 0 ? sqrt(yy[j]) : 1.0);
        largest = isnan(rel) || isnan(largest) ? NAN : fmax(largest, rel);
    }
    *ret = largest;
    return r;
}

int certify_restricted(const struct problem *p, const struct mat *A,
                       const struct certify_stop *stop, double *ret, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    struct both b = {.p = p};
    int r = prepare(&b, A, err);
    if (r == 0) {
        r = compute(&b, stop, ret, err);
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
