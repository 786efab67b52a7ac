#include "engine/methods/blocks/block_precond.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/memory.h"
#include "engine/methods/spectrum.h"
#include "plan/rules.h"

/* What is added to the diagonal where rounding makes a block indefinite: a hundred times more each
 * time, from eps to this share of the trace. */
static const double jitter_growth = 100.0;
static const double jitter_most = 1e-4;

/* Powering ends early when L changes by less. */
static const double power_change = 1e-3;
struct block_precond {
    struct problem p;
    enum block_kind kind;
    int64_t most; /* rows of a block, at most */
    int64_t r;
    bool damped;
    int64_t power_iterations;
    double eps;  /* of the kernel values */
    int64_t b;   /* rows of the present block */
    bool filled; /* H is its K_bb, by block_precond_fill */
    double rho;
    struct mat H;           /* most x most: K_bb, or its factor in float64 */
    struct mat omega;       /* most x r, orthonormal columns, float64 */
    struct mat omega_v, S;  /* most x r of the vectors' type: Omega, K_bb Omega */
    struct mat F;           /* most x r float64 */
    struct mat core, gram;  /* r x r float64: Omega' K_bb Omega; rho I + F'F; their factors */
    struct mat start, v, u; /* most x 1 float64: a normal vector, and those of powering */
    struct mat x, hx;       /* most x 1 of the vectors' type: v and H v */
    struct mat T;           /* r x max(t, 1) float64 */
};

struct block_precond *block_precond_free(struct block_precond *m)
{
    if (m == NULL) {
        return NULL;
    }
    struct mat *const matrices[] = {&m->H,    &m->omega, &m->omega_v, &m->S, &m->F,
                                    &m->core, &m->gram,  &m->start,   &m->v, &m->u,
                                    &m->x,    &m->hx,    &m->T};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(*matrices); i++) {
        m->p.be->ops->mat_free(m->p.be, matrices[i]);
    }
    return mem_free(m);
}

static enum block_kind kind_of(const char *name)
{
    if (strcmp(name, "nystrom") == 0) {
        return BLOCK_NYSTROM;
    }
    if (strcmp(name, "cholesky") == 0) {
        return BLOCK_CHOLESKY;
    }
    return strcmp(name, "none") == 0 ? BLOCK_NONE : BLOCK_AUTO;
}

static int64_t rank_of(const struct param_set *params, int64_t most)
{
    const int64_t rank = param_int(params, "rank");
    return rank < most ? rank : most;
}

enum block_kind block_precond_choose(const struct problem *p, const struct param_set *params,
                                     int64_t most)
{
    const enum block_kind kind = kind_of(param_choice(params, "block_preconditioner"));
    const int64_t power_iterations = param_int(params, "power_iterations");
    if (kind != BLOCK_AUTO) {
        return kind;
    }
    return rule_block_exact(p->n, p->d, most, rank_of(params, most), power_iterations, p->dtype)
               ? BLOCK_CHOLESKY
               : BLOCK_NYSTROM;
}

static int new_vectors(struct block_precond *m, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    struct mat *const vectors[] = {&m->start, &m->v, &m->u, &m->x, &m->hx};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 5; i++) {
        rc = o->mat_new(be, i < 3 ? DTYPE_F64 : m->p.dtype, m->most, 1, vectors[i], err);
    }
    return rc;
}

static int new_sketch(struct block_precond *m, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    struct mat *const tall[] = {&m->omega, &m->F, &m->omega_v, &m->S};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 4; i++) {
        rc = o->mat_new(be, i < 2 ? DTYPE_F64 : m->p.dtype, m->most, m->r, tall[i], err);
    }
    if (rc == 0) {
        rc = o->mat_new(be, DTYPE_F64, m->r, m->r, &m->core, err);
    }
    if (rc == 0) {
        rc = o->mat_new(be, DTYPE_F64, m->r, m->r, &m->gram, err);
    }
    return rc == 0 ? o->mat_new(be, DTYPE_F64, m->r, m->p.t > 0 ? m->p.t : 1, &m->T, err) : rc;
}

/* `columns` normal vectors into M, float64. */
static int fill_normal(struct block_precond *m, struct rng *rng, const struct mat *M,
                       struct err *err)
{
    cleanup_mem double *numbers = mem_array((size_t)(M->rows * M->cols), sizeof(double));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < M->rows * M->cols; i++) {
        numbers[i] = rng_normal(rng);
    }
    return m->p.be->ops->mat_put(m->p.be, numbers, M->rows, M, err);
}

/* Omega <- Omega chol(Omega' Omega)^-T, and its copy in the vectors' type. */
static int orthonormalise(struct block_precond *m, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    int rc = o->syrk(be, true, 1.0, &m->omega, 0.0, &m->core, err);
    if (rc == 0) {
        rc = o->potrf(be, &m->core, 0.0, NULL, err);
    }
    if (rc == 0) {
        rc = o->trsm(be, true, true, &m->core, &m->omega, err);
    }
    return rc == 0 ? o->copy(be, &m->omega, &m->omega_v, err) : rc;
}

static int prepare(struct block_precond *m, struct err *err)
{
    struct backend *be = m->p.be;
    const enum dtype dtype = m->kind == BLOCK_CHOLESKY ? DTYPE_F64 : m->p.dtype;
    struct rng rng = rng_new(m->p.seed, RNG_PRECOND);
    int rc = memory_check_matrix(be, m->most, m->most, dtype, "block's kernel matrix", err);
    if (rc == 0) {
        rc = be->ops->mat_new(be, dtype, m->most, m->most, &m->H, err);
    }
    if (rc == 0) {
        rc = new_vectors(m, err);
    }
    if (rc == 0) {
        rc = fill_normal(m, &rng, &m->start, err);
    }
    if (rc < 0 || m->kind != BLOCK_NYSTROM) {
        return rc;
    }
    rc = new_sketch(m, err);
    if (rc == 0) {
        rc = fill_normal(m, &rng, &m->omega, err);
    }
    return rc == 0 ? orthonormalise(m, err) : rc;
}

int block_precond_new(const struct problem *p, const struct param_set *params, int64_t most,
                      struct block_precond **ret, struct err *err)
{
    struct block_precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    m->most = most;
    m->r = rank_of(params, most);
    m->damped = strcmp(param_choice(params, "damping"), "damped") == 0;
    m->power_iterations = param_int(params, "power_iterations");
    m->eps = problem_rounding(p);
    m->kind = block_precond_choose(p, params, most);
    const int rc = prepare(m, err);
    if (rc < 0) {
        block_precond_free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

enum block_kind block_precond_kind(const struct block_precond *m)
{
    return m->kind;
}

int64_t block_precond_rank(const struct block_precond *m)
{
    const int64_t ranks[] = {0, m->r, m->most, 0};
    return ranks[m->kind];
}

static struct mat leading(const struct mat *m, int64_t rows, int64_t cols)
{
    return mat_cols(mat_rows(*m, 0, rows), 0, cols);
}

/* H <- K_bb + shift I. */
static int fill_block(struct block_precond *m, const int64_t *index, double shift, struct err *err)
{
    struct backend *be = m->p.be;
    const struct view rows = view_index(m->p.X, index, m->b);
    const struct mat H = leading(&m->H, m->b, m->b);
    const int rc = m->filled ? 0 : be->ops->kblock(be, rows, rows, &H, err);
    m->filled = false; /* a second time needs it afresh */
    return rc == 0 ? be->ops->add_diag(be, shift, &H, err) : rc;
}

int block_precond_fill(struct block_precond *m, const int64_t *index, int64_t b, struct mat *ret,
                       struct err *err)
{
    m->b = b;
    m->filled = false;
    const int rc = fill_block(m, index, 0.0, err);
    m->filled = rc == 0;
    *ret = leading(&m->H, b, b);
    return rc;
}

/* trace K_bb. */
static int block_trace(struct block_precond *m, const int64_t *index, double *ret, struct err *err)
{
    struct backend *be = m->p.be;
    const struct mat d = leading(&m->u, m->b, 1);
    cleanup_mem double *values = mem_array((size_t)m->b, sizeof(double));
    if (values == NULL) {
        return err_no_memory(err);
    }
    int rc = be->ops->kdiag(be, view_index(m->p.X, index, m->b), &d, err);
    if (rc == 0) {
        rc = be->ops->mat_get(be, &d, values, m->b, err);
    }
    *ret = 0;
    for (int64_t i = 0; rc == 0 && i < m->b; i++) {
        *ret += values[i];
    }
    if (rc == 0 && !isfinite(*ret)) {
        rc = kernel_overflows(err);
    }
    return rc;
}

/* P = H + jitter I by its factor. The jitter is 0 unless rounding makes H indefinite, and then
 * P > H, for which the step 1 is safe. */
static int build_cholesky(struct block_precond *m, const int64_t *index, double trace,
                          struct err *err)
{
    struct backend *be = m->p.be;
    const struct mat H = leading(&m->H, m->b, m->b);
    int rc = -ERR_NOT_POSITIVE_DEFINITE;
    for (double jitter = 0; rc == -ERR_NOT_POSITIVE_DEFINITE && jitter <= jitter_most * trace;
         jitter = fmax(jitter_growth * jitter, fmax(m->eps * trace, DBL_MIN))) {
        rc = fill_block(m, index, m->p.ridge + jitter, err);
        if (rc == 0) {
            rc = be->ops->potrf(be, &H, 0.0, NULL, err);
        }
    }
    return rc == -ERR_NOT_POSITIVE_DEFINITE ? REASON_BREAKDOWN : rc;
}

/* core <- the factor of Omega' (K_bb + nu I) Omega, F <- (K_bb + nu I) Omega. */
static int sketch(struct block_precond *m, const int64_t *index, double nu, int64_t r,
                  struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat H = leading(&m->H, m->b, m->b), S = leading(&m->S, m->b, r);
    const struct mat omega = leading(&m->omega, m->b, r), F = leading(&m->F, m->b, r);
    const struct mat omega_v = leading(&m->omega_v, m->b, r), core = leading(&m->core, r, r);
    int rc = fill_block(m, index, nu, err);
    if (rc == 0) {
        rc = o->gemm(be, false, false, 1.0, &H, &omega_v, 0.0, &S, err);
    }
    if (rc == 0) {
        rc = o->copy(be, &S, &F, err);
    }
    if (rc == 0) {
        rc = o->gemm(be, true, false, 1.0, &omega, &F, 0.0, &core, err);
    }
    return rc == 0 ? o->potrf(be, &core, 0.0, NULL, err) : rc;
}

/* The smallest eigenvalue of F'F, which is in gram; 0 where rounding hides it. */
static int last_eigenvalue(struct block_precond *m, int64_t r, double *ret, struct err *err)
{
    const struct mat gram = leading(&m->gram, r, r), L = leading(&m->core, r, r);
    const struct mat z = leading(&m->T, r, 1), seed = leading(&m->start, r, 1);
    const int rc = m->p.be->ops->copy(m->p.be, &seed, &z, err);
    return rc == 0 ? spectrum_smallest(m->p.be, &gram, &L, &z, ret, err) : rc;
}

/* F <- F core^-T, rho, gram <- the factor of rho I + F'F. */
static int factor_sketch(struct block_precond *m, double nu, int64_t r, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat F = leading(&m->F, m->b, r), core = leading(&m->core, r, r);
    const struct mat gram = leading(&m->gram, r, r);
    double last = 0;
    int rc = o->trsm(be, true, true, &core, &F, err);
    if (rc == 0) {
        rc = o->syrk(be, true, 1.0, &F, 0.0, &gram, err);
    }
    if (rc == 0 && m->damped) {
        rc = last_eigenvalue(m, r, &last, err);
    }
    m->rho = fmax(m->p.ridge + last, nu);
    if (rc == 0) {
        rc = o->add_diag(be, m->rho, &gram, err);
    }
    return rc == 0 ? o->potrf(be, &gram, 0.0, NULL, err) : rc;
}

static int build_nystrom(struct block_precond *m, const int64_t *index, double trace,
                         struct err *err)
{
    const int64_t r = m->r < m->b ? m->r : m->b;
    double nu = fmax(m->eps * trace, DBL_MIN);
    int rc = sketch(m, index, nu, r, err);
    while (rc == -ERR_NOT_POSITIVE_DEFINITE && nu * jitter_growth <= jitter_most * trace) {
        nu *= jitter_growth;
        rc = sketch(m, index, nu, r, err);
    }
    if (rc == 0) {
        rc = factor_sketch(m, nu, r, err);
    }
    return rc == -ERR_NOT_POSITIVE_DEFINITE ? REASON_BREAKDOWN : rc;
}

int block_precond_apply(struct block_precond *m, const struct mat *D, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    if (m->kind == BLOCK_NONE) {
        return 0;
    }
    if (m->kind == BLOCK_CHOLESKY) {
        const struct mat L = leading(&m->H, m->b, m->b);
        const int rc = o->trsm(be, false, false, &L, D, err);
        return rc == 0 ? o->trsm(be, false, true, &L, D, err) : rc;
    }
    const int64_t r = m->r < m->b ? m->r : m->b;
    const struct mat F = leading(&m->F, m->b, r), L = leading(&m->gram, r, r);
    const struct mat T = leading(&m->T, r, D->cols);
    int rc = o->gemm(be, true, false, 1.0, &F, D, 0.0, &T, err);
    if (rc == 0) {
        rc = o->trsm(be, false, false, &L, &T, err);
    }
    if (rc == 0) {
        rc = o->trsm(be, false, true, &L, &T, err);
    }
    return rc == 0 ? o->gemm(be, false, false, -1.0 / m->rho, &F, &T, 1.0 / m->rho, D, err) : rc;
}

/* u <- H v with its ridge; v'u into *ret. */
static int multiply(struct block_precond *m, double *ret, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat H = leading(&m->H, m->b, m->b);
    const struct mat v = leading(&m->v, m->b, 1), u = leading(&m->u, m->b, 1);
    const struct mat x = leading(&m->x, m->b, 1), hx = leading(&m->hx, m->b, 1);
    const double one = 1.0;
    int rc = o->copy(be, &v, &x, err);
    if (rc == 0) {
        rc = o->gemm(be, false, false, 1.0, &H, &x, 0.0, &hx, err);
    }
    if (rc == 0) {
        rc = o->copy(be, &hx, &u, err);
    }
    if (rc == 0) {
        rc = o->col_axpby(be, &m->p.ridge, &v, &one, &u, err);
    }
    return rc == 0 ? o->col_dots(be, &v, &u, ret, err) : rc;
}

/* v <- P^-1 u / |.| for u = H v; u'P^-1 u into *ret. */
static int back(struct block_precond *m, double *ret, struct err *err)
{
    struct backend *be = m->p.be;
    const struct backend_ops *o = be->ops;
    const struct mat v = leading(&m->v, m->b, 1), u = leading(&m->u, m->b, 1);
    double squared = 0;
    int rc = o->copy(be, &u, &v, err);
    if (rc == 0) {
        rc = block_precond_apply(m, &v, err);
    }
    if (rc == 0) {
        rc = o->col_dots(be, &u, &v, ret, err);
    }
    if (rc == 0) {
        rc = o->col_dots(be, &v, &v, &squared, err);
    }
    const double scale = 1.0 / sqrt(squared), zero = 0;
    return rc == 0 ? o->col_axpby(be, &scale, &v, &zero, &v, err) : rc;
}

/* get_L: the largest eigenvalue of P^-1 H. It begins at P^-1 times a random vector: in a random one
 * the large eigenvectors of H, where P^-1 H is 1, outweigh those that the sketch missed by so much
 * that the quotient seems to stand still at 1. */
static int smoothness(struct block_precond *m, double *ret, struct err *err)
{
    struct backend *be = m->p.be;
    const struct mat u = leading(&m->u, m->b, 1), start = leading(&m->start, m->b, 1);
    double before = 0, L = 0;
    int rc = be->ops->copy(be, &start, &u, err);
    if (rc == 0) {
        rc = back(m, &before, err);
    }
    before = 0;
    for (int64_t i = 0; rc == 0 && i < m->power_iterations; i++) {
        double vu = 0, uw = 0;
        rc = multiply(m, &vu, err);
        if (rc == 0 && !(vu > 0)) {
            return REASON_BREAKDOWN;
        }
        if (rc == 0) {
            rc = back(m, &uw, err);
        }
        L = uw / vu;
        if (!(fabs(L - before) > power_change * L)) {
            break;
        }
        before = L;
    }
    if (rc == 0 && !(L > 0 && isfinite(L))) {
        return REASON_BREAKDOWN;
    }
    *ret = L;
    return rc;
}

static int build(struct block_precond *m, const int64_t *index, double *ret_smoothness,
                 struct err *err)
{
    double trace = 0;
    int rc = block_trace(m, index, &trace, err);
    if (rc == 0 && m->kind == BLOCK_CHOLESKY) {
        rc = build_cholesky(m, index, trace, err);
    } else if (rc == 0 && m->kind == BLOCK_NYSTROM) {
        rc = build_nystrom(m, index, trace, err);
    } else if (rc == 0 && ret_smoothness != NULL) {
        rc = fill_block(m, index, 0.0, err);
    }
    if (rc != 0 || ret_smoothness == NULL) {
        return rc;
    }
    if (m->kind == BLOCK_CHOLESKY) {
        *ret_smoothness = 1.0;
        return 0;
    }
    return smoothness(m, ret_smoothness, err);
}

int block_precond_build(struct block_precond *m, const int64_t *index, int64_t b,
                        double *ret_smoothness, struct err *err)
{
    m->b = b;
    const int rc = build(m, index, ret_smoothness, err);
    m->filled = false;
    return rc;
}

int block_precond_trace(struct block_precond *m, double *ret, struct err *err)
{
    struct backend *be = m->p.be;
    const struct mat z = leading(&m->start, m->b, 1), v = leading(&m->v, m->b, 1);
    int rc = be->ops->copy(be, &z, &v, err);
    if (rc == 0) {
        rc = block_precond_apply(m, &v, err);
    }
    return rc == 0 ? be->ops->col_dots(be, &z, &v, ret, err) : rc;
}
