#include <math.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/group/group.h"
#include "engine/products.h"

/* What a member needs for its share of a product. */
struct share {
    struct backend *be;
    int64_t first, rows; /* of P */
    struct mat V, T, Y;  /* on the member; of the lead Y alone, which is not the share's own */
};

struct division {
    const struct group *g;
    double *host; /* numbers on their way */
    int rounds;
    bool asks;
    struct share shares[BACKEND_GROUP_MAX];
};

/* Shares and rounds begin at multiples of it, where there are rows enough: backends have points in
 * panels. */
enum { ALIGNED_ROWS = 128, ROUND_ROWS = 512, ROUNDS_MAX = 1 << 16 };

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

static int rounds_of(const struct group *g, int64_t rows, int64_t members)
{
    const double values = (double)rows * (double)members / g->count;
    const double wanted = ceil(values / ((double)g->least_values * BACKEND_GROUP_ROUND));
    const int64_t most = rows / g->count / ROUND_ROWS;
    const double rounds = fmin(fmin(wanted, (double)most), ROUNDS_MAX);
    return rounds > 1 ? (int)rounds : 1;
}

/* A product of `rows` with `members`. */
static int division_init(struct division *d, struct backend *be, int64_t rows, int64_t members,
                         int64_t numbers, struct err *err)
{
    *d = (struct division){.g = group_of(be),
                           .rounds = rounds_of(group_of(be), rows, members),
                           .asks = backend_asks(be, rows, members)};
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

/* What of a share's rows is done in a round; `first` is of the share, as its matrices are. */
struct piece {
    int64_t first, rows;
};

static struct piece piece_of(const struct division *d, const struct share *s, int round)
{
    const int64_t unit = d->rounds > 1 ? ALIGNED_ROWS : 1;
    const int64_t first = s->rows * round / d->rounds / unit * unit;
    const int64_t end =
        round + 1 < d->rounds ? s->rows * (round + 1) / d->rounds / unit * unit : s->rows;
    return (struct piece){.first = first, .rows = end - first};
}

static int wait_for(const struct share *s, struct err *err)
{
    double number;
    const struct mat corner = mat_cols(mat_rows(s->Y, 0, 1), 0, 1);
    return s->be->ops->mat_get(s->be, &corner, &number, 1, err);
}

/* Whether the product is still wanted, when all are done with the round before. */
static int ask(const struct division *d, int round, struct err *err)
{
    const struct backend *be = &d->g->base;
    int rc = 0;
    for (int i = 0; d->asks && rc == 0 && round > 0 && i < d->g->count; i++) {
        rc = wait_for(&d->shares[i], err);
    }
    return d->asks && rc == 0 ? be->stop(be->stop_context, err) : rc;
}

/* A round of one member's share. */
typedef int (*round_of_share)(const struct division *d, const void *product, int i, int round,
                              struct err *err);

/* The others first: a device works on while the next one gets its work. */
static int run_rounds(const struct division *d, round_of_share run, const void *product,
                      struct err *err)
{
    int rc = 0;
    for (int round = 0; rc == 0 && round < d->rounds; round++) {
        rc = ask(d, round, err);
        for (int i = 1; rc == 0 && i <= d->g->count; i++) {
            rc = run(d, product, i % d->g->count, round, err);
        }
    }
    return rc;
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

static int send_kmv(struct division *d, const struct kmv *k, int i, struct err *err)
{
    struct share *s = &d->shares[i];
    const struct mat part = mat_rows(*k->Y, s->first, s->rows);
    if (i == 0) {
        s->Y = part;
        return 0;
    }
    const int rc = send(d, k->V, s, &s->V, err);
    if (rc < 0) {
        return rc;
    }
    return k->b != 0 ? send(d, &part, s, &s->Y, err)
                     : s->be->ops->mat_new(s->be, part.dtype, part.rows, part.cols, &s->Y, err);
}

static int round_of_kmv(const struct division *d, const void *product, int i, int round,
                        struct err *err)
{
    const struct kmv *k = product;
    const struct share *s = &d->shares[i];
    const struct piece piece = piece_of(d, s, round);
    const struct mat Y = mat_rows(s->Y, piece.first, piece.rows);
    return s->be->ops->kmv(s->be, group_part(&k->P, i, s->first + piece.first, piece.rows),
                           group_view(&k->Q, i), k->a, i == 0 ? k->V : &s->V, k->b, &Y, err);
}

static int divided_kmv(struct backend *be, const struct kmv *k, struct err *err)
{
    struct division d;
    int rc = division_init(&d, be, k->P.count, k->Q.count,
                           max_i64(k->V->rows, k->Y->rows) * k->V->cols, err);
    for (int i = 0; rc == 0 && i < d.g->count; i++) {
        rc = send_kmv(&d, k, i, err);
    }
    rc = rc == 0 ? run_rounds(&d, round_of_kmv, k, err) : rc;
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

static int send_share(struct division *d, const struct kmv *k, int i, struct err *err)
{
    struct share *s = &d->shares[i];
    const int rc = send(d, k->V, s, &s->V, err);
    return rc == 0 ? s->be->ops->mat_new(s->be, k->Y->dtype, k->Y->rows, k->Y->cols, &s->Y, err)
                   : rc;
}

/* A share of the member's share. */
static int round_of_pairs(const struct division *d, const void *product, int i, int round,
                          struct err *err)
{
    const struct kmv *k = product;
    const struct share *s = &d->shares[i];
    return s->be->ops->kmv_share(s->be, group_view(&k->P, i), i * d->rounds + round,
                                 d->g->count * d->rounds, i == 0 ? k->V : &s->V, round > 0, &s->Y,
                                 err);
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
    int rc = division_init(&d, be, k->P.count, k->Q.count, k->V->rows * k->V->cols, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = send_share(&d, k, i, err);
    }
    if (rc == 0) {
        rc = o->mat_new(group_lead(be), k->Y->dtype, k->Y->rows, k->Y->cols, &sum, err);
    }
    d.shares[0].Y = sum;
    rc = rc == 0 ? run_rounds(&d, round_of_pairs, k, err) : rc;
    rc = rc == 0 ? fetch_sums(&d, &sum, err) : rc;
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
    struct backend *lead = group_asking_lead(be);
    return group_done(be,
                      lead->ops->kmv(lead, group_view(&P, 0), group_view(&Q, 0), a, V, b, Y, err));
}

/* ---- sums over P ---- */

/* Of kmtkv; backend.h. */
struct normal {
    struct view P, Q;
    const double *weights;
    const struct mat *V, *T, *U, *Y;
    bool add;
};

/* `rows` rows of P from `first` on, by member i with its own matrices; T and U, which may be NULL,
 * have these rows. */
static int part_of_normal(const struct normal *n, int i, struct backend *be, int64_t first,
                          int64_t rows, const struct mat *V, const struct mat *T,
                          const struct mat *U, bool add, const struct mat *Y, struct err *err)
{
    const struct view P = group_part(&n->P, i, first, rows), Q = group_view(&n->Q, i);
    const double *weights = n->weights != NULL ? n->weights + first : NULL;
    return be->ops->kmtkv != NULL
               ? be->ops->kmtkv(be, P, Q, weights, V, T, U, add, Y, err)
               : product_normal_by_blocks(be, P, Q, weights, V, T, U, add, Y, err);
}

/* U takes T's place. */
static int send_normal(struct division *d, const struct normal *n, int i, struct err *err)
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
    return rc == 0 ? o->mat_new(s->be, n->Y->dtype, n->Y->rows, n->Y->cols, &s->Y, err) : rc;
}

static int round_of_normal(const struct division *d, const void *product, int i, int round,
                           struct err *err)
{
    const struct normal *n = product;
    const struct share *s = &d->shares[i];
    const struct piece piece = piece_of(d, s, round);
    const struct mat none = {0};
    const struct mat T =
        n->T == NULL ? none : mat_rows(i == 0 ? *n->T : s->T, piece.first, piece.rows);
    const struct mat U =
        n->U == NULL ? none : mat_rows(i == 0 ? *n->U : s->T, piece.first, piece.rows);
    return part_of_normal(n, i, s->be, s->first + piece.first, piece.rows, i == 0 ? n->V : &s->V,
                          n->T != NULL ? &T : NULL, n->U != NULL ? &U : NULL,
                          round > 0 || (i == 0 && n->add), &s->Y, err);
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

static int divided_normal(struct backend *be, const struct normal *n, struct err *err)
{
    struct division d;
    const int64_t numbers = max_i64(n->V->rows, n->P.count) * n->V->cols;
    int rc = division_init(&d, be, n->P.count, n->Q.count, numbers, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        rc = send_normal(&d, n, i, err);
    }
    d.shares[0].Y = *n->Y;
    rc = rc == 0 ? run_rounds(&d, round_of_normal, n, err) : rc;
    rc = rc == 0 ? fetch_sums(&d, n->Y, err) : rc;
    rc = rc == 0 && n->U != NULL ? fetch_residuals(&d, n->U, err) : rc;
    division_deinit(&d);
    return group_done(be, rc);
}

int group__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
                 const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                 const struct mat *Y, struct err *err)
{
    const struct normal n = {
        .P = P, .Q = Q, .weights = weights, .V = V, .T = T, .U = U, .Y = Y, .add = add};
    if (worth(be, &P, &Q)) {
        return divided_normal(be, &n, err);
    }
    return group_done(
        be, part_of_normal(&n, 0, group_asking_lead(be), 0, P.count, V, T, U, add, Y, err));
}

/* Of ksketch; backend.h. */
struct sketch {
    const struct sign_sketch *phi;
    struct view P, Q;
    bool add;
};

static int round_of_sketch(const struct division *d, const void *product, int i, int round,
                           struct err *err)
{
    const struct sketch *k = product;
    const struct share *s = &d->shares[i];
    const struct piece piece = piece_of(d, s, round);
    const int64_t first = s->first + piece.first;
    const struct sign_sketch own = sign_sketch_part(k->phi, first);
    return product_sketch(s->be, &own, group_part(&k->P, i, first, piece.rows),
                          group_view(&k->Q, i), round > 0 || (i == 0 && k->add), &s->Y, err);
}

static int divided_sketch(struct backend *be, const struct sketch *k, const struct mat *S,
                          struct err *err)
{
    struct division d;
    int rc = division_init(&d, be, k->P.count, k->Q.count, S->rows * S->cols, err);
    for (int i = 1; rc == 0 && i < d.g->count; i++) {
        struct share *s = &d.shares[i];
        rc = s->be->ops->mat_new(s->be, S->dtype, S->rows, S->cols, &s->Y, err);
    }
    d.shares[0].Y = *S;
    rc = rc == 0 ? run_rounds(&d, round_of_sketch, k, err) : rc;
    rc = rc == 0 ? fetch_sums(&d, S, err) : rc;
    division_deinit(&d);
    return group_done(be, rc);
}

int group__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                   bool add, const struct mat *S, struct err *err)
{
    if (worth(be, &P, &Q) && sign_sketch_valid(phi, P.count)) {
        const struct sketch k = {.phi = phi, .P = P, .Q = Q, .add = add};
        return divided_sketch(be, &k, S, err);
    }
    return group_done(be, product_sketch(group_asking_lead(be), phi, group_view(&P, 0),
                                         group_view(&Q, 0), add, S, err));
}
