#include "engine/methods/preconds/precond_lowrank.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/preconds/precond_pieces.h"

enum { ATTEMPTS = 8 };

/* In eps: rounding errors of sums of so many terms, and of the few operations beside them. */
static double sum_errors(int64_t terms)
{
    return fmax(16.0, sqrt((double)terms));
}

static int allocate(struct precond *m, const char *name, int64_t columns, int64_t squares,
                    struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    m->scale = mem_array((size_t)p->t, 2 * sizeof(double));
    int r = m->scale != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        r = memory_check_pair(p->be, p->n, columns, p->dtype, m->k, squares * m->k, DTYPE_F64, name,
                              err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, p->dtype, p->n, m->k, &m->F, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, p->dtype, p->n, 1, &m->d, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, p->dtype, m->k, p->t, &m->T, err);
    }
    return r == 0 ? o->mat_new(p->be, DTYPE_F64, m->k, p->t, &m->T64, err) : r;
}

/* rho, shift and refined, for |F|^2 <= size. */
static void set_ridge(struct precond *m, double size)
{
    const double sums = sum_errors(m->p.n) * size;
    m->rho = fmax(m->p.ridge, fmax(m->eps * size, DBL_EPSILON * sums));
    m->refined = m->rho <= m->eps * sums;
    if (!(m->rho > 0)) {
        m->rho = 1.0; /* K = 0 without a ridge: any multiple of I will do */
    }
    m->shift = m->rho;
}

/* d = diag K, trace, rho. */
static int start_diagonal(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    cleanup_mem double *d = mem_array((size_t)p->n, sizeof(double));
    if (d == NULL) {
        return err_no_memory(err);
    }
    int r = o->kdiag(p->be, view_all(p->X, p->n), &m->d, err);
    if (r == 0) {
        r = o->mat_get(p->be, &m->d, d, p->n, err);
    }
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < p->n; i++) {
        m->trace += fabs(d[i]);
    }
    if (!isfinite(m->trace)) {
        return kernel_overflows(err);
    }
    set_ridge(m, m->trace);
    return 0;
}

int lowrank_init(struct precond *m, const struct problem *p, const char *name, int64_t k,
                 int64_t columns, int64_t squares, struct err *err)
{
    m->p = *p;
    m->eps = p->dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    m->k = k;
    const int r = allocate(m, name, columns, squares, err);
    return r == 0 ? start_diagonal(m, err) : r;
}

void lowrank_deinit(struct precond *m)
{
    struct mat *const matrices[] = {&m->F, &m->d, &m->gram, &m->T, &m->T64};
    for (int i = 0; i < 5; i++) {
        m->p.be->ops->mat_free(m->p.be, matrices[i]);
    }
    mem_free(m->scale);
}

/* rho from |F|^2, the trace of F'F, where F F' exceeds K. */
static int measure_gram(struct precond *m, struct err *err)
{
    cleanup_mem double *squares = mem_array((size_t)m->i, sizeof(double));
    if (squares == NULL) {
        return err_no_memory(err);
    }
    struct mat diagonal = m->gram; /* as a row */
    diagonal.rows = 1;
    diagonal.ld++;
    const int r = m->p.be->ops->mat_get(m->p.be, &diagonal, squares, 1, err);
    double size = 0;
    for (int64_t j = 0; r == 0 && j < m->i; j++) {
        size += squares[j];
    }
    if (size > m->trace) {
        set_ridge(m, size);
    }
    return r;
}

/* gram += F'F, then shift I. */
static int sum_gram(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    const struct mat F = mat_cols(m->F, 0, m->i);
    int r = 0;
    if (m->gram.data == NULL) {
        r = o->mat_new(p->be, DTYPE_F64, m->i, m->i, &m->gram, err);
    }
    if (r == 0) {
        r = piece_gram(p->be, &F, &m->next, &m->gram, err);
    }
    if (r <= 0) {
        return r;
    }
    m->next = 0;
    m->summed = true;
    r = m->attempts == 0 ? measure_gram(m, err) : 0;
    return r < 0 ? r : o->add_diag(p->be, m->shift, &m->gram, err);
}

/* The smallest eigenvalue of rho I + F'F is at least rho, so failure is rounding, and a little more
 * on the diagonal mends it. The factorisation overwrites the sum, which is taken again. */
static int factor_gram(struct precond *m, struct err *err)
{
    const int r = piece_factor(m->p.be, &m->next, &m->gram, err);
    if (r != -ERR_NOT_POSITIVE_DEFINITE || m->attempts == ATTEMPTS) {
        return r;
    }
    m->attempts++;
    m->shift = 10.0 * fmax(m->shift, DBL_EPSILON * m->trace);
    m->summed = false;
    m->next = 0;
    m->p.be->ops->mat_free(m->p.be, &m->gram);
    return 0;
}

int lowrank_finish(struct precond *m, double *ret_fraction, struct err *err)
{
    *ret_fraction = 1.0;
    if (m->i == 0) {
        return 1;
    }
    if (!m->summed) {
        *ret_fraction = 0.75 * (double)m->next / (double)m->p.n;
        return sum_gram(m, err);
    }
    const int r = factor_gram(m, err);
    *ret_fraction = r > 0 ? 1.0 : 0.75 + 0.25 * (double)m->next / (double)m->i;
    return r;
}

/* T <- gram^-1 (F'X + b T), Z += a F T. */
static int project(struct precond *m, const struct mat *X, double b, double a, const struct mat *Z,
                   struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat F = mat_cols(m->F, 0, m->i);
    const struct mat T = mat_rows(m->T, 0, m->i), T64 = mat_rows(m->T64, 0, m->i);
    int r = o->gemm(be, true, false, 1.0, &F, X, b, &T, err);
    if (r == 0) {
        r = o->copy(be, &T, &T64, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, false, &m->gram, &T64, err);
    }
    if (r == 0) {
        r = o->trsm(be, false, true, &m->gram, &T64, err);
    }
    if (r == 0) {
        r = o->copy(be, &T64, &T, err);
    }
    return r == 0 ? o->gemm(be, false, false, a, &F, &T, 1.0, Z, err) : r;
}

/* Z = (R - F W) / rho, W = gram^-1 F' R, and refined by F' Z = shift / rho W, which holds then. */
int lowrank_apply(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err)
{
    const struct problem *p = &m->p;
    double *over_rho = m->scale, *zero = m->scale + p->t;
    for (int64_t j = 0; j < p->t; j++) {
        over_rho[j] = 1.0 / m->rho;
        zero[j] = 0.0;
    }
    int r = p->be->ops->col_axpby(p->be, over_rho, R, zero, Z, err);
    if (r < 0 || m->i == 0) {
        return r;
    }
    r = project(m, R, 0.0, -1.0 / m->rho, Z, err);
    return r == 0 && m->refined ? project(m, Z, -m->shift / m->rho, -1.0, Z, err) : r;
}

int64_t lowrank_rank(const struct precond *m)
{
    return m->i;
}

int64_t lowrank_most(const struct precond *m)
{
    return m->k;
}
