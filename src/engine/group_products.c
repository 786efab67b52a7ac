#include "base/mem.h"
#include "engine/group.h"
#include "engine/products.h"

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

/* Shares begin at multiples of it, where there are rows enough: backends have points in panels. */
enum { ALIGNED_ROWS = 128 };

/* Rows of P for each member, about as many for each. */
static void divide(struct division *d, int64_t rows)
{
    const int64_t count = d->g->count;
    const int64_t unit = rows >= 4 * count * ALIGNED_ROWS ? ALIGNED_ROWS : 1;
    for (int i = 0; i < count; i++) {
        const int64_t first = rows * i / count / unit * unit;
        const int64_t end = i + 1 < count ? rows * (i + 1) / count / unit * unit : rows;
        d->shares[i] = (struct share){.be = d->g->members[i], .first = first, .rows = end - first};
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

/* ---- kmv ---- */

struct kmv {
    struct view P, Q;
    double a, b;
    const struct mat *V, *Y;
};

static int start_kmv(struct division *d, const struct kmv *k, int i, struct err *err)
{
    struct share *s = &d->shares[i];
    const struct mat part = mat_rows(*k->Y, s->first, s->rows);
    int rc = send(d, k->V, s, &s->V, err);
    if (rc == 0) {
        rc = k->b != 0 ? send(d, &part, s, &s->Y, err)
                       : s->be->ops->mat_new(s->be, part.dtype, part.rows, part.cols, &s->Y, err);
    }
    return rc == 0 ? s->be->ops->kmv(s->be, group_part(&k->P, i, s->first, s->rows),
                                     group_view(&k->Q, i), k->a, &s->V, k->b, &s->Y, err)
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
        rc = group_lead(be)->ops->kmv(group_lead(be), group_part(&k->P, 0, 0, own.rows),
                                      group_view(&k->Q, 0), k->a, k->V, k->b, &own, err);
    }
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = fetch_rows(&d, &d.shares[i], k->Y, err);
    }
    division_deinit(&d);
    return group_done(be, rc);
}

/* ---- both sides of one view ---- */

static bool all_share(struct backend *be)
{
    const struct group *g = group_of(be);
    bool all = true;
    for (int i = 0; i < g->count; i++) {
        all = all && g->members[i]->ops->kmv_share != NULL;
    }
    return all;
}

static int start_share(struct division *d, const struct kmv *k, int i, struct err *err)
{
    struct share *s = &d->shares[i];
    int rc = send(d, k->V, s, &s->V, err);
    if (rc == 0) {
        rc = s->be->ops->mat_new(s->be, k->Y->dtype, k->Y->rows, k->Y->cols, &s->Y, err);
    }
    return rc == 0 ? s->be->ops->kmv_share(s->be, group_view(&k->P, i), i, d->g->count, &s->V,
                                           &s->Y, err)
                   : rc;
}

/* sum <- the lead's own share, and those of the others in their order. */
static int add_shares(struct backend *be, const struct division *d, const struct kmv *k,
                      const struct mat *sum, struct err *err)
{
    const int rc = group_lead(be)->ops->kmv_share(group_lead(be), group_view(&k->P, 0), 0,
                                                  d->g->count, k->V, sum, err);
    return rc == 0 ? fetch_sums(d, sum, err) : rc;
}

static int scaled_sum(struct backend *be, const struct kmv *k, const struct mat *sum,
                      struct err *err)
{
    cleanup_mem double *factors = mem_array((size_t)k->Y->cols, 2 * sizeof(double));
    if (factors == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < k->Y->cols; j++) {
        factors[j] = k->a;
        factors[k->Y->cols + j] = k->b;
    }
    return group_lead(be)->ops->col_axpby(group_lead(be), factors, sum, factors + k->Y->cols, k->Y,
                                          err);
}

static int shared_kmv(struct backend *be, const struct kmv *k, struct err *err)
{
    const struct backend_ops *o = group_lead(be)->ops;
    struct division d;
    struct mat sum = {0};
    int rc = division_init(&d, be, k->P.count, k->V->rows * k->V->cols, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = start_share(&d, k, i, err);
    }
    if (rc == 0) {
        rc = o->mat_new(group_lead(be), k->Y->dtype, k->Y->rows, k->Y->cols, &sum, err);
    }
    rc = rc == 0 ? add_shares(be, &d, k, &sum, err) : rc;
    rc = rc == 0 ? scaled_sum(be, k, &sum, err) : rc;
    o->mat_free(group_lead(be), &sum);
    division_deinit(&d);
    return group_done(be, rc);
}

int group__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
               double b, const struct mat *Y, struct err *err)
{
    if (worth(be, &P, &Q) && V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols) {
        const struct kmv k = {.P = P, .Q = Q, .a = a, .b = b, .V = V, .Y = Y};
        return view_same(&P, &Q) && all_share(be) ? shared_kmv(be, &k, err)
                                                  : divided_kmv(be, &k, err);
    }
    return group_done(be, group_lead(be)->ops->kmv(group_lead(be), group_view(&P, 0),
                                                   group_view(&Q, 0), a, V, b, Y, err));
}

/* ---- sums over P ---- */

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
    const struct view P = group_part(&n->P, i, s->first, s->rows), Q = group_view(&n->Q, i);
    const double *weights = n->weights != NULL ? n->weights + s->first : NULL;
    return s->be->ops->kmtkv != NULL
               ? s->be->ops->kmtkv(s->be, P, Q, weights, V, T, U, add, Y, err)
               : product_normal_by_blocks(s->be, P, Q, weights, V, T, U, add, Y, err);
}

/* U takes T's place. */
static int start_normal(struct division *d, const struct normal *n, int i, struct err *err)
{
    struct share *s = &d->shares[i];
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
    return group_done(be, rc);
}

int group__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
                 const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                 const struct mat *Y, struct err *err)
{
    const struct normal n = {.P = P, .Q = Q, .weights = weights, .V = V, .T = T, .U = U, .Y = Y};
    if (worth(be, &P, &Q)) {
        return divided_normal(be, &n, add, err);
    }
    const struct share all = {.be = group_lead(be), .first = 0, .rows = P.count};
    return group_done(be, share_of_normal(&n, 0, &all, V, T, U, add, Y, err));
}

static int share_of_sketch(const struct sign_sketch *phi, const struct view *P,
                           const struct view *Q, int i, const struct share *s, bool add,
                           const struct mat *S, struct err *err)
{
    struct sign_sketch own = *phi;
    own.index += s->first * phi->nonzeros;
    own.sign += s->first * phi->nonzeros;
    return product_sketch(s->be, &own, group_part(P, i, s->first, s->rows), group_view(Q, i), add,
                          S, err);
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
    return group_done(be, rc);
}

int group__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                   bool add, const struct mat *S, struct err *err)
{
    if (worth(be, &P, &Q)) {
        return divided_sketch(be, phi, &P, &Q, add, S, err);
    }
    return group_done(
        be, product_sketch(group_lead(be), phi, group_view(&P, 0), group_view(&Q, 0), add, S, err));
}
