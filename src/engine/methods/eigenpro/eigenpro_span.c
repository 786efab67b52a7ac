#include "engine/methods/eigenpro/eigenpro_span.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/memory.h"
#include "engine/methods/normal_core.h"
#include "engine/methods/spectrum.h"
#include "engine/rowset.h"

enum { PIECE_ROWS = 512, LEAST_VECTORS = 5 };

/* Pairs below this share of ridge / n are not worth flattening. */
static const double ridge_share = 0.1;

/* Of the ridge: rows beyond need not be slowed down for the sake of a longer step. */
static const double ceiling_share = 0.125;

/* Of the longest step on all rows at once: level is exact but for rounding. */
static const double whole_share = 0.95;

enum stage { FACTORING, SUMMING, DECOMPOSING, PROBING, MEASURING, SIFTING, FINISHING, COMPLETE };

struct eigenpro_span {
    struct eigenpro_span_spec spec;
    struct backend *be;
    enum stage stage;
    double rho;      /* ridge / n */
    int64_t done;    /* rows summed, or sifted */
    int64_t *rows;   /* [PIECE_ROWS or the probes] */
    struct mat own;  /* L where it is made here */
    struct mat G;    /* F' F, then its eigenvectors, ascending */
    double *values;  /* [c] lambda_i, ascending */
    double *damping; /* [q] c_i */
    int64_t q;
    double level; /* r_1 lambda_1 */
    double beta, lambda;
    struct mat A;            /* k'(T,T) while building */
    double ceiling;          /* of k'(x,x) */
    bool sifting;            /* some rows are beyond */
    struct eigenpro_far far; /* rows beyond */
    struct mat U64, U;
};

struct eigenpro_span *eigenpro_span_free(struct eigenpro_span *e)
{
    if (e != NULL) {
        struct mat *const all[] = {&e->own, &e->G, &e->A, &e->U64, &e->U};
        for (int i = 0; i < 5; i++) {
            e->be->ops->mat_free(e->be, all[i]);
        }
        mem_free(e->rows);
        mem_free(e->values);
        mem_free(e->damping);
        eigenpro_far_deinit(&e->far);
        mem_free(e);
    }
    return NULL;
}

static int64_t probes(const struct eigenpro_span *e)
{
    return min_i64(e->spec.p->n, EIGENPRO_SPAN_PROBES);
}

int eigenpro_span_new(const struct eigenpro_span_spec *spec, struct eigenpro_span **ret,
                      struct err *err)
{
    struct eigenpro_span *e = mem_zalloc(sizeof(*e));
    if (e == NULL) {
        return err_no_memory(err);
    }
    e->spec = *spec;
    e->be = spec->p->be;
    e->rho = spec->p->ridge / (double)spec->p->n;
    e->rows = mem_array(EIGENPRO_SPAN_PROBES, sizeof(*e->rows));
    e->values = mem_zarray((size_t)spec->c, sizeof(*e->values));
    e->damping = mem_zarray((size_t)spec->c, sizeof(*e->damping));
    int r = e->rows != NULL && e->values != NULL && e->damping != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        r = memory_check_matrix(e->be, spec->c, 3 * spec->c, DTYPE_F64, "the preconditioner", err);
    }
    if (r == 0) {
        r = e->be->ops->mat_new(e->be, DTYPE_F64, spec->c, spec->c, &e->G, err);
    }
    if (r < 0) {
        eigenpro_span_free(e);
        return r;
    }
    *ret = e;
    return 0;
}

static struct view centers_of(const struct eigenpro_span *e)
{
    return view_index(e->spec.p->restricted->Z, e->spec.centers, e->spec.c);
}

static const struct mat *factor_of(const struct eigenpro_span *e)
{
    return e->spec.L != NULL ? e->spec.L : &e->own;
}

/* The rows of places first .. first+count-1 as a tile. */
static int read_rows(struct eigenpro_span *e, int64_t first, int64_t count, struct row_tile *ret,
                     struct err *err)
{
    for (int64_t i = 0; i < count; i++) {
        e->rows[i] = row_order_at(&e->spec.order, first + i);
    }
    return rowset_batch(e->spec.p->restricted->rows, e->rows, count, ret, err);
}

/* *ret <- F of those rows, for the caller to free. */
static int features(struct eigenpro_span *e, struct view rows, struct mat *ret, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    int r = o->mat_new(e->be, DTYPE_F64, rows.count, e->spec.c, ret, err);
    if (r == 0) {
        r = o->kblock(e->be, rows, centers_of(e), ret, err);
    }
    return r == 0 ? o->trsm(e->be, true, true, factor_of(e), ret, err) : r;
}

/* G += F' F of a piece. */
static int sum_piece(struct eigenpro_span *e, struct err *err)
{
    const int64_t count = min_i64(PIECE_ROWS, e->spec.s - e->done);
    struct row_tile tile;
    struct mat F = {0};
    int r = read_rows(e, e->done, count, &tile, err);
    if (r == 0) {
        r = features(e, tile.rows, &F, err);
    }
    if (r == 0) {
        r = e->be->ops->syrk(e->be, true, 1.0 / (double)e->spec.s, &F, e->done > 0 ? 1.0 : 0.0,
                             &e->G, err);
    }
    e->be->ops->mat_free(e->be, &F);
    e->done += count;
    if (e->done == e->spec.s) {
        e->stage = DECOMPOSING;
        e->done = 0;
    }
    return r;
}

/* lambda_i + ridge / n in descending order, i from 0. */
static double lambda_at(const struct eigenpro_span *e, int64_t i)
{
    return fmax(e->values[e->spec.c - 1 - i], 0.0) + e->rho;
}

/* How many of the leading pairs are above rounding error and above the ridge's share. */
static int64_t sound_pairs(const struct eigenpro_span *e)
{
    const int64_t c = e->spec.c;
    const double largest = e->values[c - 1];
    const double rounding = 10.0 * problem_rounding(e->spec.p) * (double)c * largest;
    const double floor = fmax(ridge_share * e->rho, rounding);
    int64_t count = 0;
    while (count < c && e->values[c - 1 - count] > floor) {
        count++;
    }
    return count;
}

/* One less than the sound pairs at most, since the next one says how far to flatten; where what is
 * left is the ridge, or nothing, all but one. */
static int64_t choose_q(const struct eigenpro_span *e)
{
    const struct eigenpro_span_spec *c = &e->spec;
    const int64_t sound = sound_pairs(e), most = sound < c->c ? sound : c->c - 1;
    const int64_t some = min_i64(c->c / 2, c->s / 10);
    const int64_t usual = c->whole ? most : some;
    return min_i64(c->q >= 0 ? c->q : (usual > LEAST_VECTORS ? usual : LEAST_VECTORS), most);
}

/* U = L^-T V of the q leading vectors, and c_i. */
static int make_vectors(struct eigenpro_span *e, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    const double tail = lambda_at(e, e->q);
    for (int64_t i = 0; i < e->q; i++) {
        e->damping[i] = 1.0 - pow(tail / lambda_at(e, i), e->spec.alpha);
    }
    int r = o->mat_new(e->be, DTYPE_F64, e->spec.c, e->q, &e->U64, err);
    for (int64_t i = 0; r == 0 && i < e->q; i++) {
        const struct mat from = mat_cols(e->G, e->spec.c - 1 - i, 1), to = mat_cols(e->U64, i, 1);
        r = o->copy(e->be, &from, &to, err);
    }
    return r == 0 ? o->trsm(e->be, false, true, factor_of(e), &e->U64, err) : r;
}

static int decompose(struct eigenpro_span *e, struct err *err)
{
    int r = e->be->ops->eigh(e->be, &e->G, e->values, err);
    for (int64_t i = 0; r == 0 && i < e->spec.c; i++) {
        if (!isfinite(e->values[i])) {
            r = kernel_overflows(err);
        }
    }
    if (r < 0) {
        return r;
    }
    e->q = choose_q(e);
    e->level = e->q > 0 ? pow(lambda_at(e, e->q) / lambda_at(e, 0), e->spec.alpha) * lambda_at(e, 0)
                        : lambda_at(e, 0);
    r = e->q > 0 ? make_vectors(e, err) : 0;
    e->be->ops->mat_free(e->be, &e->G);
    e->stage = PROBING;
    if (e->spec.whole && e->level > 0) {
        e->lambda = e->beta = e->level;
        e->stage = FINISHING;
    }
    return r;
}

/* X <- X diag(sqrt(c_i)). */
static int weigh(struct eigenpro_span *e, const struct mat *X, struct err *err)
{
    cleanup_mem double *factors = mem_zarray((size_t)e->q, 2 * sizeof(double));
    if (factors == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < e->q; i++) {
        factors[i] = sqrt(e->damping[i]);
    }
    return e->be->ops->col_axpby(e->be, factors, X, factors + e->q, X, err);
}

/* *ret <- Psi diag(sqrt(c)), Psi = K(T,Z_c) U, for the caller to free. */
static int functions(struct eigenpro_span *e, struct view T, struct mat *ret, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    struct mat K = {0};
    int r = o->mat_new(e->be, DTYPE_F64, T.count, e->spec.c, &K, err);
    if (r == 0) {
        r = o->mat_new(e->be, DTYPE_F64, T.count, e->q, ret, err);
    }
    if (r == 0) {
        r = o->kblock(e->be, T, centers_of(e), &K, err);
    }
    if (r == 0) {
        r = o->gemm(e->be, false, false, 1.0, &K, &e->U64, 0.0, ret, err);
    }
    o->mat_free(e->be, &K);
    return r == 0 ? weigh(e, ret, err) : r;
}

/* A -= Psi diag(c) Psi'. */
static int deflate(struct eigenpro_span *e, struct view T, struct err *err)
{
    struct mat psi = {0};
    int r = functions(e, T, &psi, err);
    if (r == 0) {
        r = e->be->ops->gemm(e->be, false, true, -1.0, &psi, &psi, 1.0, &e->A, err);
    }
    e->be->ops->mat_free(e->be, &psi);
    return r;
}

/* A = k'(T,T). */
static int probe(struct eigenpro_span *e, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    const int64_t count = probes(e);
    struct row_tile T;
    struct mat F = {0};
    int r = read_rows(e, e->spec.p->n - count, count, &T, err);
    if (r == 0) {
        r = o->mat_new(e->be, DTYPE_F64, count, count, &e->A, err);
    }
    if (r == 0 && e->spec.projected) {
        r = features(e, T.rows, &F, err);
        r = r == 0 ? o->gemm(e->be, false, true, 1.0, &F, &F, 0.0, &e->A, err) : r;
    } else if (r == 0) {
        r = o->kblock(e->be, T.rows, T.rows, &e->A, err);
    }
    o->mat_free(e->be, &F);
    e->stage = MEASURING;
    return r == 0 && e->q > 0 ? deflate(e, T.rows, err) : r;
}

/* ret[i] <- A(i,i). */
static int diagonal(struct eigenpro_span *e, double *ret, struct err *err)
{
    int r = 0;
    for (int64_t i = 0; r == 0 && i < e->A.rows; i++) {
        const struct mat entry = mat_rows(mat_cols(e->A, i, 1), i, 1);
        r = e->be->ops->mat_get(e->be, &entry, ret + i, 1, err);
    }
    return r;
}

static double share_of(const struct eigenpro_span *e, double value)
{
    return value > e->ceiling ? e->ceiling / value : 1.0;
}

/* The ceiling, and A <- diag(sqrt(w)) A diag(sqrt(w)) with the shares w of the probes. */
static int set_ceiling(struct eigenpro_span *e, struct err *err)
{
    const int64_t count = e->A.rows;
    cleanup_mem double *values = mem_zarray((size_t)count, 3 * sizeof(double));
    if (values == NULL) {
        return err_no_memory(err);
    }
    double *roots = values + count, *zeros = roots + count;
    int r = diagonal(e, values, err);
    memcpy(roots, values, (size_t)count * sizeof(double));
    e->ceiling = eigenpro_far_ceiling(roots, count, ceiling_share * e->spec.p->ridge);
    for (int64_t i = 0; i < count; i++) {
        roots[i] = sqrt(share_of(e, values[i]));
        e->beta = fmax(e->beta, fmin(values[i], e->ceiling));
        e->sifting = e->sifting || values[i] > e->ceiling;
    }
    r = r == 0 ? e->be->ops->scale_rows(e->be, roots, &e->A, err) : r;
    return r == 0 ? e->be->ops->col_axpby(e->be, roots, &e->A, zeros, &e->A, err) : r;
}

/* beta, lambda1. Both are positive unless the kernel is 0 on the rows: then any step will do. */
static int measure(struct eigenpro_span *e, struct err *err)
{
    const int64_t count = e->A.rows;
    double largest = 0;
    int r = set_ceiling(e, err);
    r = r == 0 ? spectrum_largest(e->be, &e->A, e->spec.p->seed, &largest, err) : r;
    e->be->ops->mat_free(e->be, &e->A);
    const double seen = count > 1 ? (largest - e->beta) / (double)(count - 1) : 0.0;
    e->lambda = fmax(e->level, seen + e->rho);
    e->beta = fmax(e->beta + e->rho, e->lambda);
    if (!(e->lambda > 0)) {
        e->lambda = e->beta = e->beta > 0 ? e->beta : 1.0;
    }
    e->stage = e->sifting ? SIFTING : FINISHING;
    return r;
}

/* d(i) <- k'(x_i,x_i) of some rows. */
static int measure_rows(struct eigenpro_span *e, struct view rows, const struct mat *d,
                        struct err *err)
{
    struct mat psi = {0};
    int r = e->be->ops->kdiag(e->be, rows, d, err);
    if (r == 0 && e->q > 0) {
        r = functions(e, rows, &psi, err);
        r = r == 0 ? e->be->ops->deflate_diag(e->be, &psi, d, err) : r;
    }
    e->be->ops->mat_free(e->be, &psi);
    return r;
}

/* Which rows of a piece are far. With the kernel of the span they may be fewer: a step too short.
 */
static int sift_piece(struct eigenpro_span *e, struct err *err)
{
    const int64_t count = min_i64(PIECE_ROWS, e->spec.p->n - e->done);
    double values[PIECE_ROWS];
    struct row_tile tile;
    struct mat d = {0};
    for (int64_t i = 0; i < count; i++) {
        e->rows[i] = e->done + i;
    }
    int r = rowset_batch(e->spec.p->restricted->rows, e->rows, count, &tile, err);
    r = r == 0 ? e->be->ops->mat_new(e->be, DTYPE_F64, count, 1, &d, err) : r;
    r = r == 0 ? measure_rows(e, tile.rows, &d, err) : r;
    r = r == 0 ? e->be->ops->mat_get(e->be, &d, values, count, err) : r;
    for (int64_t i = 0; r == 0 && i < count; i++) {
        const double share = share_of(e, values[i]);
        r = share < 1.0 ? eigenpro_far_add(&e->far, e->done + i, share, err) : 0;
    }
    e->be->ops->mat_free(e->be, &d);
    e->done += count;
    e->stage = e->done == e->spec.p->n ? FINISHING : SIFTING;
    return r;
}

/* U as the solver needs it. */
static int finish(struct eigenpro_span *e, struct err *err)
{
    const struct backend_ops *o = e->be->ops;
    e->stage = COMPLETE;
    if (e->q == 0) {
        return 0;
    }
    int r = o->mat_new(e->be, e->spec.p->dtype, e->spec.c, e->q, &e->U, err);
    r = r == 0 ? o->copy(e->be, &e->U64, &e->U, err) : r;
    o->mat_free(e->be, &e->U64);
    o->mat_free(e->be, &e->own);
    return r;
}

static int factor(struct eigenpro_span *e, struct err *err)
{
    e->stage = SUMMING;
    return e->spec.L != NULL
               ? 0
               : core_factor_some(e->spec.p, e->spec.centers, e->spec.c, &e->own, err);
}

int eigenpro_span_step(struct eigenpro_span *e, double *ret_fraction, struct err *err)
{
    static int (*const steps[])(struct eigenpro_span * e, struct err * err) = {
        [FACTORING] = factor,  [SUMMING] = sum_piece,  [DECOMPOSING] = decompose, [PROBING] = probe,
        [MEASURING] = measure, [SIFTING] = sift_piece, [FINISHING] = finish,
    };
    const int r = e->stage < COMPLETE ? steps[e->stage](e, err) : 0;
    const double of = e->stage == SUMMING ? (double)e->spec.s : (double)e->spec.p->n;
    *ret_fraction = ((double)e->stage + (double)e->done / of) / (double)COMPLETE;
    return r < 0 ? r : e->stage == COMPLETE;
}

int64_t eigenpro_span_rank(const struct eigenpro_span *e)
{
    return e->q;
}

struct mat eigenpro_span_vectors(const struct eigenpro_span *e)
{
    return e->U;
}

const double *eigenpro_span_damping(const struct eigenpro_span *e)
{
    return e->damping;
}

const struct eigenpro_far *eigenpro_span_far(const struct eigenpro_span *e)
{
    return &e->far;
}

double eigenpro_span_beta(const struct eigenpro_span *e)
{
    return e->beta;
}

double eigenpro_span_lambda(const struct eigenpro_span *e)
{
    return e->lambda;
}

double eigenpro_span_critical(const struct eigenpro_span *e)
{
    return e->beta / e->lambda + 1.0;
}

double eigenpro_span_rate(const struct eigenpro_span *e, int64_t batch)
{
    const double b = (double)batch;
    if (e->spec.whole && batch == e->spec.p->n) {
        return whole_share * 2.0 / e->lambda;
    }
    return b < eigenpro_span_critical(e) ? b / e->beta
                                         : 2.0 * b / (e->beta + (b - 1.0) * e->lambda);
}
