#include "engine/posterior.h"

#include <math.h>

#include "base/mem.h"
#include "engine/evidence.h"

void posterior_deinit(struct posterior *p)
{
    mem_free(p->factor);
    mem_free(p->amplitude);
    *p = (struct posterior){.factor = NULL};
}

/* Q <- Q (T / (T + ridge))^1/2 of G = Q T Q'; *ret_log is ln |G + ridge I|. */
static int decompose(struct backend *be, const struct posterior_sums *s, const struct mat *Q,
                     double *ret_log, struct err *err)
{
    const int64_t p = Q->cols;
    cleanup_mem double *values = mem_array((size_t)p, sizeof(*values));
    cleanup_mem double *zero = mem_zarray((size_t)p, sizeof(*zero));
    if (values == NULL || zero == NULL) {
        return err_no_memory(err);
    }
    int r = be->ops->copy(be, s->G, Q, err);
    r = r == 0 ? be->ops->eigh(be, Q, values, err) : r;
    *ret_log = 0;
    for (int64_t i = 0; r == 0 && i < p; i++) {
        const double value = fmax(values[i], 0.0); /* of a sum of squares */
        *ret_log += log(value + s->ridge);
        values[i] = sqrt(value / (value + s->ridge));
    }
    return r == 0 ? be->ops->col_axpby(be, values, Q, zero, Q, err) : r;
}

/* Rows first .. first + count - 1 of V, from S in float64. */
static int take_rows(struct backend *be, const struct mat *S, const struct mat *Q,
                     const struct mat *block, double *host, double *ret, struct err *err)
{
    const int64_t count = block->rows, p = Q->cols;
    const struct mat V = mat_cols(*block, p, p), wide = mat_cols(*block, 0, p);
    int r = be->ops->copy(be, S, &wide, err);
    r = r == 0 ? be->ops->gemm(be, false, false, 1.0, &wide, Q, 0.0, &V, err) : r;
    r = r == 0 ? be->ops->mat_get(be, &V, host, count, err) : r;
    for (int64_t i = 0; r == 0 && i < count; i++) {
        for (int64_t j = 0; j < p; j++) {
            ret[i * p + j] = host[i + j * count];
        }
    }
    return r;
}

/* V = S Q, some rows at a time. */
static int take_factor(struct backend *be, const struct mat *S, const struct mat *Q, double *ret,
                       struct err *err)
{
    const int64_t m = S->rows, p = Q->cols, most = m < POSTERIOR_ROWS ? m : POSTERIOR_ROWS;
    cleanup_mem double *host = mem_array((size_t)(most * p), sizeof(*host));
    struct mat block = {.data = NULL};
    int r = host != NULL ? be->ops->mat_new(be, DTYPE_F64, most, 2 * p, &block, err)
                         : err_no_memory(err);
    for (int64_t i = 0; r == 0 && i < m; i += most) {
        const int64_t count = m - i < most ? m - i : most;
        const struct mat from = mat_rows(*S, i, count), part = mat_rows(block, 0, count);
        r = take_rows(be, &from, Q, &part, host, ret + i * p, err);
    }
    be->ops->mat_free(be, &block);
    return r;
}

static void weigh_targets(const struct posterior_sums *s, double log_det, struct posterior *ret)
{
    const struct evidence evidence = {.n = s->n,
                                      .ridge = s->ridge,
                                      .amplitude = s->amplitude,
                                      .log_det = log_det,
                                      .left_out = s->left_out};
    ret->log_evidence = 0;
    for (int64_t j = 0; j < s->t; j++) {
        const double misfit = s->exact != NULL ? s->exact[j] : s->misfit[j];
        const double best = misfit / ((double)s->n * s->ridge);
        ret->amplitude[j] = isnan(s->amplitude) ? best : s->amplitude;
        ret->log_evidence += evidence_of_target(&evidence, s->misfit[j]);
    }
    if (!isfinite(ret->log_evidence)) {
        ret->log_evidence = NAN;
    }
}

static int make(struct backend *be, const struct posterior_sums *s, const struct mat *Q,
                struct posterior *ret, struct err *err)
{
    const double p = (double)ret->p, n = (double)s->n;
    double log_core = 0;
    int r = decompose(be, s, Q, &log_core, err);
    r = r == 0 ? take_factor(be, s->S, Q, ret->factor, err) : r;
    if (r == 0) {
        /* |ridge W^-1 + R R'| by the lemma on determinants */
        weigh_targets(s, log_core + (n - p) * log(s->ridge) - s->log_weights, ret);
    }
    return r;
}

int posterior_make(struct backend *be, const struct posterior_sums *s, struct posterior *ret,
                   struct err *err)
{
    const int64_t m = s->S->rows, p = s->G->cols;
    if (!(s->ridge > 0)) {
        return err_at(err, ERR_INVALID, "#/regularization",
                      "A posterior needs noise: this must be positive.");
    }
    struct posterior made = {.m = m, .p = p, .t = s->t, .ridge = s->ridge};
    made.factor = mem_array((size_t)m, (size_t)p * sizeof(double));
    made.amplitude = mem_array((size_t)s->t, sizeof(double));
    struct mat Q = {.data = NULL};
    int r = made.factor != NULL && made.amplitude != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? be->ops->mat_new(be, DTYPE_F64, p, p, &Q, err) : r;
    r = r == 0 ? make(be, s, &Q, &made, err) : r;
    be->ops->mat_free(be, &Q);
    if (r < 0) {
        posterior_deinit(&made);
        return r;
    }
    *ret = made;
    return 0;
}
