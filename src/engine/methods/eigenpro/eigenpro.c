#include "engine/methods/eigenpro/eigenpro.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/methods/eigenpro/eigenpro_top.h"
#include "engine/methods/spectrum.h"

enum { PROBE_ROWS = 250, LEAST_VECTORS = 5 };

/* Values below this share of the ridge are not worth flattening. */
static const double ridge_share = 0.1;

enum stage { DECOMPOSING, CHOOSING, PROBING, MEASURING, COMPLETE };

struct eigenpro {
    struct eigenpro_spec spec;
    enum stage stage;
    struct eigenpro_top *top;
    int64_t q;
    int64_t probes, probed; /* rows of the diagonal */
    double kappa, lambda_1, lambda, beta;
    struct mat W64; /* s x q, while building */
    struct mat F;   /* M(T,S) W of the probes T, while building */
    struct mat W;
};

struct eigenpro *eigenpro_free(struct eigenpro *e)
{
    if (e != NULL) {
        eigenpro_top_free(e->top);
        e->spec.be->ops->mat_free(e->spec.be, &e->W64);
        e->spec.be->ops->mat_free(e->spec.be, &e->F);
        e->spec.be->ops->mat_free(e->spec.be, &e->W);
        mem_free(e);
    }
    return NULL;
}

int eigenpro_new(const struct eigenpro_spec *spec, struct eigenpro **ret, struct err *err)
{
    struct eigenpro *e = mem_zalloc(sizeof(*e));
    if (e == NULL) {
        return err_no_memory(err);
    }
    e->spec = *spec;
    e->probes = min_i64(spec->n, EIGENPRO_PROBES);
    const bool whole = spec->s == spec->n && spec->s <= EIGENPRO_DENSE_ROWS;
    const int64_t most = whole ? spec->s : EIGENPRO_PAIRS;
    const int64_t wanted = spec->q >= 0 ? spec->q + 1 : most;
    const int r = eigenpro_top_new(spec->be, spec->X, spec->order, spec->s,
                                   min_i64(wanted, spec->s), spec->rng, &e->top, err);
    if (r < 0) {
        eigenpro_free(e);
        return r;
    }
    *ret = e;
    return 0;
}

/* kappa = max_i k(x_i, x_i) + ridge over the subsample. */
static int largest_diagonal(struct eigenpro *e, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    struct mat d = {0};
    cleanup_mem double *diag = mem_array((size_t)c->s, sizeof(double));
    int r = diag != NULL ? o->mat_new(c->be, DTYPE_F64, c->s, 1, &d, err) : err_no_memory(err);
    if (r == 0) {
        r = o->kdiag(c->be, view_index(c->X, c->order, c->s), &d, err);
    }
    if (r == 0) {
        r = o->mat_get(c->be, &d, diag, c->s, err);
    }
    for (int64_t i = 0; r == 0 && i < c->s; i++) {
        e->kappa = fmax(e->kappa, diag[i] + c->ridge);
    }
    o->mat_free(c->be, &d);
    return r;
}

/* lambda_i of M_S / s; K_S has no negative eigenvalues but for rounding. */
static double lambda_at(const struct eigenpro *e, int64_t i)
{
    return (fmax(eigenpro_top_values(e->top)[i], 0.0) + e->spec.ridge) / (double)e->spec.s;
}

/* How many of the leading pairs are above rounding error and above the ridge's share. */
static int64_t sound_pairs(const struct eigenpro *e)
{
    const double *sigma = eigenpro_top_values(e->top);
    const double floor =
        fmax(ridge_share * e->spec.ridge, e->spec.rounding * sqrt((double)e->spec.s) * sigma[0]);
    int64_t count = 0;
    while (count < eigenpro_top_count(e->top) && sigma[count] > floor) {
        count++;
    }
    return count;
}

/* The largest q for which lambda_q+1 is among the sound pairs; where there are pairs left beyond
 * them, the first of those (the ridge alone) may serve as lambda_q+1 if it is positive. */
static int64_t choose_q(const struct eigenpro *e)
{
    const struct eigenpro_spec *c = &e->spec;
    const int64_t sound = sound_pairs(e);
    const bool ridge_follows = c->ridge > 0 && sound < eigenpro_top_count(e->top);
    const int64_t most = ridge_follows ? sound : sound - 1;
    const int64_t fifth = c->s / 5 > c->max_batch ? c->s / 5 : c->max_batch;
    const double max_m = (double)min_i64(fifth, c->s);
    int64_t q = -1;
    for (int64_t i = 0; i < sound && pow(lambda_at(e, i) / e->kappa, -c->alpha) < max_m; i++) {
        q++;
    }
    q = q < LEAST_VECTORS ? LEAST_VECTORS : q;
    q = c->s == c->n ? most : q;
    q = c->q >= 0 ? c->q : q;
    q = min_i64(q, most);
    return q > 0 ? q : 0;
}

/* W64(:,i) = e_i sqrt(d_i / s), d_i = (1 - r_i) / lambda_i. */
static int scale_vectors(struct eigenpro *e, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    cleanup_mem double *factor = mem_zarray((size_t)e->q, 2 * sizeof(double));
    if (factor == NULL) {
        return err_no_memory(err);
    }
    const double tail = lambda_at(e, e->q);
    for (int64_t i = 0; i < e->q; i++) {
        const double lambda = lambda_at(e, i);
        const double d = (1.0 - pow(tail / lambda, c->alpha)) / lambda;
        factor[i] = sqrt(fmax(d, 0.0) / (double)c->s);
    }
    const struct mat V = mat_cols(eigenpro_top_vectors(e->top), 0, e->q);
    const int r = o->mat_new(c->be, DTYPE_F64, c->s, e->q, &e->W64, err);
    return r == 0 ? o->col_axpby(c->be, factor, &V, factor + e->q, &e->W64, err) : r;
}

static int choose(struct eigenpro *e, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    int r = largest_diagonal(e, err);
    if (r < 0) {
        return r;
    }
    const double sigma_1 = eigenpro_top_values(e->top)[0];
    const double rounding = (double)FLT_EPSILON * (double)c->s * fmax(sigma_1, c->ridge);
    if (eigenpro_top_least(e->top) + c->ridge < -rounding) {
        return err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/regularization",
                      "The regularized kernel matrix of a subsample of %lld rows has the negative "
                      "eigenvalue %.3g. Raise `regularization`, or choose a positive definite "
                      "kernel.",
                      (long long)c->s, eigenpro_top_least(e->top) + c->ridge);
    }
    e->q = choose_q(e);
    e->lambda_1 = lambda_at(e, 0);
    e->lambda = e->lambda_1;
    if (e->q > 0) {
        e->lambda = e->lambda_1 / pow(e->lambda_1 / lambda_at(e, e->q), c->alpha);
        r = scale_vectors(e, err);
    }
    e->top = eigenpro_top_free(e->top);
    e->stage = PROBING;
    return r == 0 && e->q > 0 ? c->be->ops->mat_new(c->be, DTYPE_F64, e->probes, e->q, &e->F, err)
                              : r;
}

/* F = M(T,S) W for the rows order[first .. first+count-1] = T; where they are in S, they lie on the
 * diagonal of M. */
static int probe_rows(const struct eigenpro *e, int64_t first, const struct mat *B,
                      const struct mat *F, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    int r = o->kblock(c->be, view_index(c->X, c->order + first, B->rows),
                      view_index(c->X, c->order, c->s), B, err);
    if (r == 0 && first < c->s) {
        const int64_t shared = min_i64(B->rows, c->s - first);
        const struct mat diagonal = mat_rows(mat_cols(*B, first, shared), 0, shared);
        r = o->add_diag(c->be, c->ridge, &diagonal, err);
    }
    return r == 0 ? o->gemm(c->be, false, false, 1.0, B, &e->W64, 0.0, F, err) : r;
}

/* d(i) = M_ii of the rows from `first` on, also on the host. */
static int diagonal(const struct eigenpro *e, int64_t first, const struct mat *d, double *host,
                    struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    int r = o->kdiag(c->be, view_index(c->X, c->order + first, d->rows), d, err);
    if (r == 0) {
        r = o->mat_get(c->be, d, host, d->rows, err);
    }
    for (int64_t i = 0; r == 0 && i < d->rows; i++) {
        host[i] += c->ridge;
    }
    return r == 0 ? o->mat_put(c->be, host, d->rows, d, err) : r;
}

/* d(i) = M'_ii = M_ii - |F(i,:)|^2 of the rows from `first` on. */
static int deflate(const struct eigenpro *e, int64_t first, const struct mat *d, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    const struct mat F = mat_rows(e->F, e->probed, d->rows);
    struct mat B = {0};
    int r = o->mat_new(c->be, DTYPE_F64, d->rows, c->s, &B, err);
    if (r == 0) {
        r = probe_rows(e, first, &B, &F, err);
    }
    if (r == 0) {
        r = o->deflate_diag(c->be, &F, d, err);
    }
    o->mat_free(c->be, &B);
    return r;
}

/* beta = max(beta, M'_ii) over `count` rows from `first` on. */
static int raise_beta(struct eigenpro *e, int64_t first, int64_t count, struct err *err)
{
    const struct backend_ops *o = e->spec.be->ops;
    double host[PROBE_ROWS];
    struct mat d = {0};
    int r = o->mat_new(e->spec.be, DTYPE_F64, count, 1, &d, err);
    if (r == 0) {
        r = diagonal(e, first, &d, host, err);
    }
    if (r == 0 && e->q > 0) {
        r = deflate(e, first, &d, err);
    }
    if (r == 0) {
        r = o->mat_get(e->spec.be, &d, host, count, err);
    }
    for (int64_t i = 0; r == 0 && i < count; i++) {
        e->beta = fmax(e->beta, host[i]);
    }
    o->mat_free(e->spec.be, &d);
    return r;
}

/* A = M'_TT = M_TT - F F' for the probes T. */
static int probe_kernel(const struct eigenpro *e, const struct mat *A, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    const struct view T = view_index(c->X, c->order + c->n - e->probes, e->probes);
    int r = o->kblock(c->be, T, T, A, err);
    if (r == 0) {
        r = o->add_diag(c->be, c->ridge, A, err);
    }
    return r == 0 ? o->gemm(c->be, false, true, -1.0, &e->F, &e->F, 1.0, A, err) : r;
}

/* lambda1' = max(lambda1', (lambda_max(M'_TT) - beta) / (m - 1)) for the m probes T: the size that
 * the formulas expect of a batch of m rows is beta + (m - 1) lambda1'. */
static int measure(struct eigenpro *e, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    const int64_t m = e->probes;
    struct mat A = {0};
    double largest = 0;
    int r = o->mat_new(c->be, DTYPE_F64, m, m, &A, err);
    if (r == 0) {
        r = probe_kernel(e, &A, err);
    }
    if (r == 0) {
        r = spectrum_largest(c->be, &A, c->rng.seed, &largest, err);
    }
    o->mat_free(c->be, &A);
    e->lambda = fmax(e->lambda, (largest - e->beta) / (double)(m - 1));
    return r;
}

/* W from W64. The largest diagonal entry is at least the mean, the trace of M' / n, and so at least
 * lambda1'; both are positive unless M = 0, where any step will do. */
static int complete(struct eigenpro *e, struct err *err)
{
    const struct eigenpro_spec *c = &e->spec;
    const struct backend_ops *o = c->be->ops;
    e->beta = fmax(e->beta, e->lambda);
    if (!(e->lambda > 0)) {
        e->lambda = e->beta = e->beta > 0 ? e->beta : 1.0;
    }
    e->stage = COMPLETE;
    if (e->q == 0) {
        return 0;
    }
    int r = o->mat_new(c->be, c->dtype, c->s, e->q, &e->W, err);
    if (r == 0) {
        r = o->copy(c->be, &e->W64, &e->W, err);
    }
    o->mat_free(c->be, &e->W64);
    o->mat_free(c->be, &e->F);
    return r;
}

static int probe(struct eigenpro *e, struct err *err)
{
    const int64_t count = min_i64(e->probes - e->probed, PROBE_ROWS);
    const int64_t first = e->spec.n - e->probes + e->probed;
    int r = raise_beta(e, first, count, err);
    e->probed += count;
    if (e->probed == e->probes) {
        e->stage = MEASURING;
    }
    return r;
}

int eigenpro_step(struct eigenpro *e, double *ret_fraction, struct err *err)
{
    double part = 1.0;
    int r = 0;
    switch (e->stage) {
    case DECOMPOSING:
        r = eigenpro_top_step(e->top, &part, err);
        e->stage = r > 0 ? CHOOSING : DECOMPOSING;
        r = r > 0 ? 0 : r;
        break;
    case CHOOSING:
        r = choose(e, err);
        break;
    case PROBING:
        r = probe(e, err);
        break;
    case MEASURING:
        /* Where S is all rows there is nothing else to measure on. */
        r = e->q > 0 && e->spec.s < e->spec.n ? measure(e, err) : 0;
        r = r == 0 ? complete(e, err) : r;
        break;
    case COMPLETE:
        break;
    }
    const double probed = (double)e->probed / (double)e->probes;
    *ret_fraction = e->stage <= CHOOSING ? 0.8 * part : 0.8 + 0.2 * probed;
    return r < 0 ? r : e->stage == COMPLETE;
}

int64_t eigenpro_rank(const struct eigenpro *e)
{
    return e->q;
}

struct mat eigenpro_weights(const struct eigenpro *e)
{
    return e->W;
}

double eigenpro_top_value(const struct eigenpro *e)
{
    return e->lambda_1;
}

double eigenpro_lambda(const struct eigenpro *e)
{
    return e->lambda;
}

double eigenpro_beta(const struct eigenpro *e)
{
    return e->beta;
}

int64_t eigenpro_batch(const struct eigenpro *e)
{
    const double critical = e->beta / e->lambda + 1.0;
    const int64_t most = min_i64(e->spec.max_batch, e->spec.n);
    return critical < (double)most ? (int64_t)critical : most;
}

double eigenpro_rate(const struct eigenpro *e, int64_t batch)
{
    const double b = (double)batch;
    if (b < e->beta / e->lambda + 1.0) {
        return b / e->beta;
    }
    if (batch < e->spec.n) {
        return 2.0 * b / (e->beta + (b - 1.0) * e->lambda);
    }
    return 0.95 * 2.0 / e->lambda;
}
