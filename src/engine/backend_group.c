#include "engine/backend_group.h"

#include <string.h>

#include "base/mem.h"
#include "engine/products.h"

struct group {
    struct backend base; /* first */
    struct backend_ops ops;
    int count;
    int64_t least_values;
    struct backend *members[BACKEND_GROUP_MAX]; /* [0]: the lead */
};

/* The same points on every member. */
struct points {
    int64_t n;
    struct points *on[BACKEND_GROUP_MAX];
};

static struct group *group_of(struct backend *be)
{
    return (struct group *)be;
}

static struct backend *lead(struct backend *be)
{
    return group_of(be)->members[0];
}

/* What the lead is asked for in the group's name: its figures become the group's. Every operation
 * that changes them ends with it. */
static int done(struct backend *be, int rc)
{
    const struct group *g = group_of(be);
    be->bytes = g->members[0]->bytes;
    be->peak_bytes = g->members[0]->peak_bytes;
    be->kernel_entries = 0;
    for (int i = 0; i < g->count; i++) {
        be->kernel_entries += g->members[i]->kernel_entries;
    }
    return rc;
}

/* ---- the lead's alone ---- */

static int group_mat_new(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                         struct mat *ret, struct err *err)
{
    return done(be, lead(be)->ops->mat_new(lead(be), dtype, rows, cols, ret, err));
}

static void group_mat_free(struct backend *be, struct mat *m)
{
    lead(be)->ops->mat_free(lead(be), m);
    done(be, 0);
}

static int group_mat_put(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                         struct err *err)
{
    return lead(be)->ops->mat_put(lead(be), src, ld, dst, err);
}

static int group_mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                         struct err *err)
{
    return lead(be)->ops->mat_get(lead(be), src, dst, ld, err);
}

static int group_copy(struct backend *be, const struct mat *src, const struct mat *dst,
                      struct err *err)
{
    return lead(be)->ops->copy(lead(be), src, dst, err);
}

static int group_col_dots(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                          struct err *err)
{
    return lead(be)->ops->col_dots(lead(be), A, B, ret, err);
}

static int group_col_axpby(struct backend *be, const double *a, const struct mat *X,
                           const double *b, const struct mat *Y, struct err *err)
{
    return lead(be)->ops->col_axpby(lead(be), a, X, b, Y, err);
}

static int group_gather_rows(struct backend *be, const struct mat *A, const int64_t *index,
                             const struct mat *B, struct err *err)
{
    return lead(be)->ops->gather_rows(lead(be), A, index, B, err);
}

static int group_add_rows(struct backend *be, const double *a, const struct mat *A,
                          const int64_t *index, const struct mat *B, struct err *err)
{
    return lead(be)->ops->add_rows(lead(be), a, A, index, B, err);
}

static int group_deflate_diag(struct backend *be, const struct mat *F, const struct mat *d,
                              struct err *err)
{
    return lead(be)->ops->deflate_diag(lead(be), F, d, err);
}

static int group_add_diag(struct backend *be, double value, const struct mat *A, struct err *err)
{
    return lead(be)->ops->add_diag(lead(be), value, A, err);
}

static int group_scale_rows(struct backend *be, const double *factors, const struct mat *A,
                            struct err *err)
{
    return lead(be)->ops->scale_rows(lead(be), factors, A, err);
}

static int group_clear_upper(struct backend *be, const struct mat *A, struct err *err)
{
    return lead(be)->ops->clear_upper(lead(be), A, err);
}

static int group_gemm(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
                      const struct mat *B, double b, const struct mat *C, struct err *err)
{
    return lead(be)->ops->gemm(lead(be), ta, tb, a, A, B, b, C, err);
}

static int group_syrk(struct backend *be, bool ta, double a, const struct mat *A, double b,
                      const struct mat *C, struct err *err)
{
    return lead(be)->ops->syrk(lead(be), ta, a, A, b, C, err);
}

static int group_trsm(struct backend *be, bool right, bool tl, const struct mat *L,
                      const struct mat *B, struct err *err)
{
    return lead(be)->ops->trsm(lead(be), right, tl, L, B, err);
}

static int group_potrf(struct backend *be, const struct mat *A, double min_pivot,
                       int64_t *ret_column, struct err *err)
{
    return lead(be)->ops->potrf(lead(be), A, min_pivot, ret_column, err);
}

static int group_eigh(struct backend *be, const struct mat *A, double *ret_values, struct err *err)
{
    return lead(be)->ops->eigh(lead(be), A, ret_values, err);
}

/* Every device has the points, and room for its share of vectors: the least room counts. */
static int64_t group_memory_available(struct backend *be)
{
    const struct group *g = group_of(be);
    int64_t least = INT64_MAX;
    for (int i = 0; i < g->count; i++) {
        g->members[i]->memory_limit = be->memory_limit;
        const int64_t room = g->members[i]->ops->memory_available(g->members[i]);
        least = room < least ? room : least;
    }
    return least;
}

/* ---- points ---- */

static void group_points_free(struct backend *be, struct points *p)
{
    const struct group *g = group_of(be);
    for (int i = 0; p != NULL && i < g->count; i++) {
        g->members[i]->ops->points_free(g->members[i], p->on[i]);
    }
    mem_free(p);
    done(be, 0);
}

static int group_points_new(struct backend *be, const struct kernel *k, enum dtype dtype,
                            const struct rows *X, struct points **ret, struct err *err)
{
    const struct group *g = group_of(be);
    struct points *p = mem_zalloc(sizeof(*p));
    if (p == NULL) {
        return err_no_memory(err);
    }
    p->n = X->n;
    int rc = 0;
    for (int i = 0; rc == 0 && i < g->count; i++) {
        rc = g->members[i]->ops->points_new(g->members[i], k, dtype, X, &p->on[i], err);
    }
    if (rc < 0) {
        group_points_free(be, p);
        return rc;
    }
    *ret = p;
    return done(be, 0);
}

/* The view as member i has it. */
static struct view on_member(const struct view *v, int i)
{
    struct view ret = *v;
    ret.points = v->points->on[i];
    return ret;
}

static struct view part_of(const struct view *v, int i, int64_t first, int64_t count)
{
    const struct view on = on_member(v, i);
    return v->index != NULL ? view_index(on.points, on.index + first, count)
                            : view_range(on.points, on.first + first, count);
}

/* ---- products ---- */

/* What a member but the lead needs for its share of a product. */
struct share {
    struct backend *be;
    int64_t first, rows; /* of P */
    struct mat V, T, Y;  /* on the member */
};

struct division {
    const struct group *g;
    double *host; /* numbers on their way */
    struct share shares[BACKEND_GROUP_MAX];
};

/* Rows of P for each member: as many for each, the rest for the first ones. */
static void divide(struct division *d, int64_t rows)
{
    int64_t first = 0;
    for (int i = 0; i < d->g->count; i++) {
        const int64_t own = rows / d->g->count + (i < rows % d->g->count);
        d->shares[i] = (struct share){.be = d->g->members[i], .first = first, .rows = own};
        first += own;
    }
}

static int division_init(struct division *d, struct backend *be, int64_t rows, int64_t numbers,
                         struct err *err)
{
    *d = (struct division){.g = group_of(be)};
    divide(d, rows);
    d->host = mem_array((size_t)numbers, sizeof(double));
    return d->host == NULL ? err_no_memory(err) : 0;
}

static void division_deinit(struct division *d)
{
    for (int i = 1; i < d->g->count; i++) {
        struct share *s = &d->shares[i];
        s->be->ops->mat_free(s->be, &s->V);
        s->be->ops->mat_free(s->be, &s->T);
        s->be->ops->mat_free(s->be, &s->Y);
    }
    d->host = mem_free(d->host);
}

static int64_t ld_of(const struct mat *m)
{
    return m->rows > 0 ? m->rows : 1;
}

/* A copy of a matrix of the lead on a member. */
static int send(const struct division *d, const struct mat *from, const struct share *s,
                struct mat *to, struct err *err)
{
    struct backend *be = d->g->members[0];
    int rc = s->be->ops->mat_new(s->be, from->dtype, from->rows, from->cols, to, err);
    if (rc == 0) {
        rc = be->ops->mat_get(be, from, d->host, ld_of(from), err);
    }
    return rc == 0 ? s->be->ops->mat_put(s->be, d->host, ld_of(from), to, err) : rc;
}

static bool worth(struct backend *be, const struct view *P, const struct view *Q)
{
    const struct group *g = group_of(be);
    return g->count > 1 && P->count >= g->count && Q->count > 0 &&
           (double)P->count * (double)Q->count >= (double)g->least_values;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Y(rows of the share) <- what the member made of them. */
static int fetch_rows(const struct division *d, const struct share *s, const struct mat *Y,
                      struct err *err)
{
    struct backend *be = d->g->members[0];
    const struct mat part = mat_rows(*Y, s->first, s->rows);
    const int rc = s->be->ops->mat_get(s->be, &s->Y, d->host, ld_of(&s->Y), err);
    return rc == 0 ? be->ops->mat_put(be, d->host, ld_of(&s->Y), &part, err) : rc;
}

struct kmv {
    struct view P, Q;
    double a, b;
    const struct mat *V, *Y;
};

static int start_kmv(const struct division *d, const struct kmv *k, int i, struct err *err)
{
    struct share *s = (struct share *)&d->shares[i];
    const struct mat part = mat_rows(*k->Y, s->first, s->rows);
    int rc = send(d, k->V, s, &s->V, err);
    if (rc == 0) {
        rc = k->b != 0 ? send(d, &part, s, &s->Y, err)
                       : s->be->ops->mat_new(s->be, part.dtype, part.rows, part.cols, &s->Y, err);
    }
    return rc == 0 ? s->be->ops->kmv(s->be, part_of(&k->P, i, s->first, s->rows),
                                     on_member(&k->Q, i), k->a, &s->V, k->b, &s->Y, err)
                   : rc;
}

/* The others first: a device works on while the next one gets its weights. */
static int divided_kmv(struct backend *be, const struct kmv *k, struct err *err)
{
    struct division d;
    int rc = division_init(&d, be, k->P.count, most(k->V->rows, k->Y->rows) * k->V->cols, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = start_kmv(&d, k, i, err);
    }
    if (rc == 0) {
        const struct mat own = mat_rows(*k->Y, 0, d.shares[0].rows);
        rc = lead(be)->ops->kmv(lead(be), part_of(&k->P, 0, 0, own.rows), on_member(&k->Q, 0), k->a,
                                k->V, k->b, &own, err);
    }
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = fetch_rows(&d, &d.shares[i], k->Y, err);
    }
    division_deinit(&d);
    return done(be, rc);
}

static int group_kmv(struct backend *be, struct view P, struct view Q, double a,
                     const struct mat *V, double b, const struct mat *Y, struct err *err)
{
    if (worth(be, &P, &Q) && V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols) {
        const struct kmv k = {.P = P, .Q = Q, .a = a, .b = b, .V = V, .Y = Y};
        return divided_kmv(be, &k, err);
    }
    return done(be,
                lead(be)->ops->kmv(lead(be), on_member(&P, 0), on_member(&Q, 0), a, V, b, Y, err));
}

static int group_kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                        struct err *err)
{
    return done(be, lead(be)->ops->kblock(lead(be), on_member(&P, 0), on_member(&Q, 0), K, err));
}

static int group_kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err)
{
    return lead(be)->ops->kdiag(lead(be), on_member(&P, 0), d, err);
}

/* ---- sums over P ---- */

/* sum <- sum + what the member made. */
static int fetch_sum(const struct division *d, const struct share *s, const struct mat *sum,
                     struct err *err)
{
    struct backend *be = d->g->members[0];
    cleanup_mem double *ones = mem_array((size_t)sum->cols, sizeof(double));
    struct mat more = {0};
    int rc = ones == NULL ? err_no_memory(err)
                          : be->ops->mat_new(be, sum->dtype, sum->rows, sum->cols, &more, err);
    for (int64_t j = 0; rc == 0 && j < sum->cols; j++) {
        ones[j] = 1.0;
    }
    if (rc == 0) {
        rc = s->be->ops->mat_get(s->be, &s->Y, d->host, ld_of(&s->Y), err);
    }
    if (rc == 0) {
        rc = be->ops->mat_put(be, d->host, ld_of(&s->Y), &more, err);
    }
    if (rc == 0) {
        rc = be->ops->col_axpby(be, ones, &more, ones, sum, err);
    }
    be->ops->mat_free(be, &more);
    return rc;
}

static int fetch_sums(const struct division *d, const struct mat *sum, struct err *err)
{
    int rc = 0;
    for (int i = 1; rc == 0 && i < d->g->count; i++) {
        rc = fetch_sum(d, &d->shares[i], sum, err);
    }
    return rc;
}

/* Of kmtkv; backend.h. */
struct normal {
    struct view P, Q;
    const double *weights;
    const struct mat *V, *T, *U, *Y;
};

/* The share of one member, with its own T, U and Y; U may be NULL. */
static int share_of_normal(const struct normal *n, int i, const struct share *s,
                           const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                           const struct mat *Y, struct err *err)
{
    const struct view P = part_of(&n->P, i, s->first, s->rows), Q = on_member(&n->Q, i);
    const double *weights = n->weights != NULL ? n->weights + s->first : NULL;
    return s->be->ops->kmtkv != NULL
               ? s->be->ops->kmtkv(s->be, P, Q, weights, V, T, U, add, Y, err)
               : product_normal_by_blocks(s->be, P, Q, weights, V, T, U, add, Y, err);
}

/* U takes T's place. */
static int start_normal(const struct division *d, const struct normal *n, int i, struct err *err)
{
    struct share *s = (struct share *)&d->shares[i];
    const struct backend_ops *o = s->be->ops;
    int rc = send(d, n->V, s, &s->V, err);
    if (rc == 0 && n->T != NULL) {
        const struct mat part = mat_rows(*n->T, s->first, s->rows);
        rc = send(d, &part, s, &s->T, err);
    } else if (rc == 0 && n->U != NULL) {
        rc = o->mat_new(s->be, n->U->dtype, s->rows, n->U->cols, &s->T, err);
    }
    if (rc == 0) {
        rc = o->mat_new(s->be, n->Y->dtype, n->Y->rows, n->Y->cols, &s->Y, err);
    }
    return rc == 0 ? share_of_normal(n, i, s, &s->V, n->T != NULL ? &s->T : NULL,
                                     n->U != NULL ? &s->T : NULL, false, &s->Y, err)
                   : rc;
}

static int own_normal(const struct division *d, const struct normal *n, bool add, struct err *err)
{
    const struct share *s = &d->shares[0];
    const struct mat none = {0};
    const struct mat T = n->T != NULL ? mat_rows(*n->T, 0, s->rows) : none;
    const struct mat U = n->U != NULL ? mat_rows(*n->U, 0, s->rows) : none;
    return share_of_normal(n, 0, s, n->V, n->T != NULL ? &T : NULL, n->U != NULL ? &U : NULL, add,
                           n->Y, err);
}

static int fetch_residuals(const struct division *d, const struct mat *U, struct err *err)
{
    int rc = 0;
    for (int i = 1; rc == 0 && i < d->g->count; i++) {
        struct share of = d->shares[i];
        of.Y = of.T;
        rc = fetch_rows(d, &of, U, err);
    }
    return rc;
}

static int divided_normal(struct backend *be, const struct normal *n, bool add, struct err *err)
{
    struct division d;
    const int64_t numbers = most(n->V->rows, n->P.count) * n->V->cols;
    int rc = division_init(&d, be, n->P.count, numbers, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = start_normal(&d, n, i, err);
    }
    rc = rc == 0 ? own_normal(&d, n, add, err) : rc;
    rc = rc == 0 ? fetch_sums(&d, n->Y, err) : rc;
    rc = rc == 0 && n->U != NULL ? fetch_residuals(&d, n->U, err) : rc;
    division_deinit(&d);
    return done(be, rc);
}

static int group_kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
                       const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                       const struct mat *Y, struct err *err)
{
    const struct normal n = {.P = P, .Q = Q, .weights = weights, .V = V, .T = T, .U = U, .Y = Y};
    if (worth(be, &P, &Q)) {
        return divided_normal(be, &n, add, err);
    }
    const struct share all = {.be = lead(be), .first = 0, .rows = P.count};
    return done(be, share_of_normal(&n, 0, &all, V, T, U, add, Y, err));
}

static int share_of_sketch(const struct sign_sketch *phi, const struct view *P,
                           const struct view *Q, int i, const struct share *s, bool add,
                           const struct mat *S, struct err *err)
{
    struct sign_sketch own = *phi;
    own.index += s->first * phi->nonzeros;
    own.sign += s->first * phi->nonzeros;
    return product_sketch(s->be, &own, part_of(P, i, s->first, s->rows), on_member(Q, i), add, S,
                          err);
}

static int divided_sketch(struct backend *be, const struct sign_sketch *phi, const struct view *P,
                          const struct view *Q, bool add, const struct mat *S, struct err *err)
{
    struct division d;
    int rc = division_init(&d, be, P->count, S->rows * S->cols, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        struct share *s = &d.shares[i];
        rc = s->be->ops->mat_new(s->be, S->dtype, S->rows, S->cols, &s->Y, err);
        rc = rc == 0 ? share_of_sketch(phi, P, Q, i, s, false, &s->Y, err) : rc;
    }
    rc = rc == 0 ? share_of_sketch(phi, P, Q, 0, &d.shares[0], add, S, err) : rc;
    rc = rc == 0 ? fetch_sums(&d, S, err) : rc;
    division_deinit(&d);
    return done(be, rc);
}

static int group_ksketch(struct backend *be, const struct sign_sketch *phi, struct view P,
                         struct view Q, bool add, const struct mat *S, struct err *err)
{
    if (worth(be, &P, &Q)) {
        return divided_sketch(be, phi, &P, &Q, add, S, err);
    }
    return done(be, product_sketch(lead(be), phi, on_member(&P, 0), on_member(&Q, 0), add, S, err));
}

/* ---- open and close ---- */

static void group_close(struct backend *be)
{
    struct group *g = group_of(be);
    for (int i = 0; i < g->count; i++) {
        backend_close(g->members[i]);
    }
    mem_free(g);
}

static const struct backend_ops group_ops = {
    .close = group_close,
    .mat_new = group_mat_new,
    .mat_free = group_mat_free,
    .mat_put = group_mat_put,
    .mat_get = group_mat_get,
    .copy = group_copy,
    .col_dots = group_col_dots,
    .col_axpby = group_col_axpby,
    .gather_rows = group_gather_rows,
    .add_rows = group_add_rows,
    .deflate_diag = group_deflate_diag,
    .add_diag = group_add_diag,
    .scale_rows = group_scale_rows,
    .clear_upper = group_clear_upper,
    .gemm = group_gemm,
    .syrk = group_syrk,
    .trsm = group_trsm,
    .potrf = group_potrf,
    .eigh = group_eigh,
    .points_new = group_points_new,
    .points_free = group_points_free,
    .kmv = group_kmv,
    .kblock = group_kblock,
    .kdiag = group_kdiag,
    .kmtkv = group_kmtkv,
    .ksketch = group_ksketch,
    .memory_available = group_memory_available,
};

int backend_group_new(struct backend *const *members, int count, int64_t least_values,
                      struct backend **ret, struct err *err)
{
    struct group *g = mem_zalloc(sizeof(*g));
    if (g == NULL) {
        return err_no_memory(err);
    }
    g->base = *members[0];
    g->ops = group_ops;
    g->ops.name = members[0]->ops->name;
    for (int i = 0; i < count; i++) {
        g->members[i] = members[i];
        if (members[i]->ops->memory_available == NULL) {
            g->ops.memory_available = NULL;
        }
    }
    g->base.ops = &g->ops;
    g->count = count;
    g->least_values = least_values;
    *ret = &g->base;
    return 0;
}
