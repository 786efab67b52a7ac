/*
 * P = F F' + rho I with F F' ~ K, n x k, from randomly pivoted Cholesky.
 *
 * Papers: Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv:2207.06503 (the law of
 * the pivots); Epperly, Tropp, Webber, "Embrace rejection: Kernel matrix approximation by
 * accelerated randomly pivoted Cholesky", arXiv:2410.03969 (the blocks used here, with exactly the
 * same law); Diaz and others, arXiv:2304.12465, Algorithm 1 (its use as a preconditioner, rank
 * 10 sqrt(n)).
 *
 * One build step, with d = diag(K - F F') and i the columns of F so far:
 *     S   = b draws with replacement, in proportion to d
 *     H   = K(S,S) - F(S,:) F(S,:)',  u = diag H
 *     for j = 1..b:  accept s_j with probability H_jj / u_j, and eliminate it from H if accepted;
 *                    L = the Cholesky factor of the accepted rows
 *     G   = (K(:,T) - F F(T,:)') L^-T   for the accepted T, at most k - i of them
 *     F   = [F G],  d = max(d - rowsums(G o G), 0)
 * H_jj / u_j is the residual diagonal of s_j after the pivots accepted in this block, relative to
 * that at the block's start: rejection turns draws from the old law into draws from the present
 * one.
 *
 * Applied as P^-1 v = (v - F (rho I + F'F)^-1 F' v) / rho (Woodbury) with a Cholesky factor of the
 * k x k matrix, which is summed up and factorised in float64 in every precision, since its smallest
 * eigenvalue is rho.
 *
 * Cost: n k kernel values and n k^2 multiplications once, 4 n k t an application. Memory: n k
 * numbers and 8 k^2 bytes.
 *
 * Beyond the papers: the block size stays the same instead of following the clock, so that runs
 * repeat bit by bit. F ends early when the trace of the residual is rounding error, or when
 * EMPTY_ROUNDS blocks in a row had nothing to accept. rho = max(ridge, eps trace K): below that
 * level F F' cannot be told from K, and a zero ridge still gives a definite P.
 */
#include "engine/precond_rpcholesky.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/memory.h"
#include "engine/methods.h"

enum { EMPTY_ROUNDS = 5, BLOCK_MIN = 10, GRAM_ROWS = 4096, JITTERS = 8 };

struct precond {
    struct problem p;
    struct rng rng;
    double eps; /* of the vectors' precision */
    double trace;
    double rho;
    int64_t k;     /* columns asked for */
    int64_t i;     /* columns made */
    int64_t block; /* b */
    int empty_rounds;
    bool complete;
    struct mat F;       /* n x k */
    struct mat d;       /* n x 1 */
    struct mat gram;    /* k x k float64: rho I + F'F, then its Cholesky factor */
    struct mat T, T64;  /* k x t: F'R, in the vectors' precision and in float64 */
    int64_t *pivots;    /* [k] */
    int64_t *draws;     /* [b] */
    double *cumulative; /* [n]: d, then its running sums */
    double *H;          /* [b b], column-major, lower triangle */
    double *start;      /* [b]: u */
    int64_t *accepted;  /* [b]: positions in draws */
    double *scale;      /* [2 t] */
};

static void teardown(struct precond *m)
{
    if (m == NULL) {
        return;
    }
    struct mat *const matrices[] = {&m->F, &m->d, &m->gram, &m->T, &m->T64};
    for (int i = 0; i < 5; i++) {
        m->p.be->ops->mat_free(m->p.be, matrices[i]);
    }
    mem_free(m->pivots);
    mem_free(m->draws);
    mem_free(m->cumulative);
    mem_free(m->H);
    mem_free(m->start);
    mem_free(m->accepted);
    mem_free(m->scale);
    mem_free(m);
}

/* auto: min(n, ceil(10 sqrt(n))). */
static int64_t choose_rank(int64_t n, const struct param_value *v)
{
    const double wish = v->is_auto ? ceil(10.0 * sqrt((double)n)) : v->real;
    return wish < (double)n ? (int64_t)wish : n;
}

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

/* auto: a tenth of the rank, at least BLOCK_MIN. More draws than the rank are never of use. */
static int64_t choose_block(int64_t k, const struct param_value *v)
{
    const int64_t wish = v->is_auto ? at_least((k + 9) / 10, BLOCK_MIN) : (int64_t)v->real;
    const int64_t most = at_least(k, BLOCK_MIN);
    return wish < most ? wish : most;
}

static int allocate_host(struct precond *m, struct err *err)
{
    const size_t k = (size_t)m->k, b = (size_t)m->block, t = (size_t)m->p.t;
    m->pivots = mem_array(k, sizeof(*m->pivots));
    m->draws = mem_array(b, sizeof(*m->draws));
    m->accepted = mem_array(b, sizeof(*m->accepted));
    m->cumulative = mem_array((size_t)m->p.n, sizeof(double));
    m->H = mem_array(b * b, sizeof(double));
    m->start = mem_array(b, sizeof(double));
    m->scale = mem_array(t, 2 * sizeof(double));
    const bool ok =
        m->pivots && m->draws && m->accepted && m->cumulative && m->H && m->start && m->scale;
    return ok ? 0 : err_no_memory(err);
}

static int allocate(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    int r = allocate_host(m, err);
    if (r == 0) {
        r = memory_check_matrix(p->be, p->n, m->k, p->dtype, "preconditioner `rpcholesky`", err);
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

/* d = diag K, trace, rho. */
static int start_diagonal(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    int r = o->kdiag(p->be, view_all(p->X, p->n), &m->d, err);
    if (r == 0) {
        r = o->mat_get(p->be, &m->d, m->cumulative, p->n, err);
    }
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < p->n; i++) {
        m->trace += m->cumulative[i];
    }
    if (!isfinite(m->trace)) {
        return err_at(err, ERR_DIVERGED, "#/kernel",
                      "The kernel's values overflow the precision: scale the features, or take "
                      "smaller kernel parameters.");
    }
    m->rho = fmax(p->ridge, m->eps * m->trace);
    if (!(m->rho > 0)) {
        m->rho = 1.0; /* K = 0 without a ridge: any multiple of I will do */
    }
    return 0;
}

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    struct precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    m->rng = rng_new(p->seed, RNG_PRECOND);
    m->eps = p->dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    m->k = choose_rank(p->n, param_get(params, "rank"));
    m->block = choose_block(m->k, param_get(params, "block_size"));
    int r = allocate(m, err);
    if (r == 0) {
        r = start_diagonal(m, err);
    }
    if (r < 0) {
        teardown(m);
        return r;
    }
    *ret = m;
    return 0;
}

/* d from the backend into running sums. Pivots already taken have d = 0 but for rounding. */
static int sum_diagonal(struct precond *m, double *ret_total, struct err *err)
{
    const struct problem *p = &m->p;
    const int r = p->be->ops->mat_get(p->be, &m->d, m->cumulative, p->n, err);
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < m->i; i++) {
        m->cumulative[m->pivots[i]] = 0;
    }
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        sum += fmax(m->cumulative[i], 0.0);
        m->cumulative[i] = sum;
    }
    *ret_total = sum;
    return 0;
}

/* The first row whose running sum exceeds u. */
static int64_t find_row(const struct precond *m, double u)
{
    int64_t low = 0, high = m->p.n - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (m->cumulative[middle] > u) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* B = K(Q,S) - F(Q,:) F(S,:)' for the rows `index` of S; Q is a view, F_Q its rows of F. */
static int residual_block(struct precond *m, struct view Q, const struct mat *F_Q,
                          const int64_t *index, int64_t count, const struct mat *B, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    int r = o->kblock(p->be, Q, view_index(p->X, index, count), B, err);
    if (r < 0 || m->i == 0) {
        return r;
    }
    const struct mat F = mat_cols(m->F, 0, m->i);
    struct mat F_S = {0};
    r = o->mat_new(p->be, p->dtype, count, m->i, &F_S, err);
    if (r == 0) {
        r = o->gather_rows(p->be, &F, index, &F_S, err);
    }
    if (r == 0) {
        r = o->gemm(p->be, false, true, -1.0, F_Q != NULL ? F_Q : &F_S, &F_S, 1.0, B, err);
    }
    o->mat_free(p->be, &F_S);
    return r;
}

/* H = K(S,S) - F(S,:) F(S,:)' for the draws S, on the host. */
static int fetch_block(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    struct mat H = {0};
    int r = o->mat_new(p->be, p->dtype, m->block, m->block, &H, err);
    if (r == 0) {
        r = residual_block(m, view_index(p->X, m->draws, m->block), NULL, m->draws, m->block, &H,
                           err);
    }
    if (r == 0) {
        r = o->mat_get(p->be, &H, m->H, m->block, err);
    }
    o->mat_free(p->be, &H);
    return r;
}

/*
 * Rejection Cholesky of H in place: the accepted columns of its lower triangle become those of L.
 * Returns the number accepted, at most `wanted`. A residual at rounding level is never accepted: it
 * is the second draw of a row already taken.
 */
static int64_t reject(struct precond *m, int64_t wanted)
{
    const int64_t b = m->block;
    const double floor = 10.0 * m->eps * m->trace / (double)m->p.n;
    for (int64_t j = 0; j < b; j++) {
        m->start[j] = m->H[j + j * b];
    }
    int64_t count = 0;
    for (int64_t j = 0; j < b && count < wanted; j++) {
        double *column = m->H + j * b;
        const double u = rng_uniform(&m->rng);
        if (!(column[j] > floor) || u * m->start[j] >= column[j]) {
            continue;
        }
        const double root = sqrt(column[j]);
        for (int64_t i = j; i < b; i++) {
            column[i] /= root;
        }
        for (int64_t c = j + 1; c < b; c++) {
            double *other = m->H + c * b;
            const double factor = column[c];
            for (int64_t i = c; i < b; i++) {
                other[i] -= column[i] * factor;
            }
        }
        m->accepted[count++] = j;
    }
    return count;
}

/* L of the accepted rows, into a backend matrix made here. */
static int put_factor(struct precond *m, int64_t a, struct mat *ret, struct err *err)
{
    const struct problem *p = &m->p;
    cleanup_mem double *L = mem_zarray((size_t)(a * a), sizeof(double));
    if (L == NULL) {
        return err_no_memory(err);
    }
    for (int64_t c = 0; c < a; c++) {
        for (int64_t i = c; i < a; i++) {
            L[i + c * a] = m->H[m->accepted[i] + m->accepted[c] * m->block];
        }
    }
    const int r = p->be->ops->mat_new(p->be, p->dtype, a, a, ret, err);
    return r == 0 ? p->be->ops->mat_put(p->be, L, a, ret, err) : r;
}

/* G = (K(:,T) - F F(T,:)') L^-T into the next columns of F; d -= rowsums(G o G). */
static int append(struct precond *m, int64_t a, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    const struct mat F = mat_cols(m->F, 0, m->i);
    const struct mat G = mat_cols(m->F, m->i, a);
    int64_t *T = m->pivots + m->i;
    for (int64_t j = 0; j < a; j++) {
        T[j] = m->draws[m->accepted[j]];
    }
    struct mat L = {0};
    int r = residual_block(m, view_all(p->X, p->n), &F, T, a, &G, err);
    if (r == 0) {
        r = put_factor(m, a, &L, err);
    }
    if (r == 0) {
        r = o->trsm(p->be, true, true, &L, &G, err);
    }
    if (r == 0) {
        r = o->deflate_diag(p->be, &G, &m->d, err);
    }
    o->mat_free(p->be, &L);
    m->i += r == 0 ? a : 0;
    return r;
}

/* One block of draws. 1: F is complete. */
static int grow(struct precond *m, struct err *err)
{
    double total = 0;
    int r = sum_diagonal(m, &total, err);
    if (r < 0) {
        return r;
    }
    if (m->i == m->k || total <= 100.0 * m->eps * m->trace) {
        return 1;
    }
    for (int64_t j = 0; j < m->block; j++) {
        m->draws[j] = find_row(m, rng_uniform(&m->rng) * total);
    }
    r = fetch_block(m, err);
    if (r < 0) {
        return r;
    }
    const int64_t a = reject(m, m->k - m->i);
    if (a == 0) {
        return ++m->empty_rounds == EMPTY_ROUNDS;
    }
    m->empty_rounds = 0;
    return append(m, a, err);
}

/* gram += rows' rows for GRAM_ROWS rows of F at a time, in float64. */
static int sum_gram(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t chunk = p->n < GRAM_ROWS ? p->n : GRAM_ROWS;
    struct mat buffer = {0};
    int r = o->mat_new(p->be, DTYPE_F64, chunk, m->i, &buffer, err);
    for (int64_t first = 0; r == 0 && first < p->n; first += chunk) {
        const int64_t count = p->n - first < chunk ? p->n - first : chunk;
        const struct mat rows = mat_rows(mat_cols(m->F, 0, m->i), first, count);
        const struct mat rows64 = mat_rows(buffer, 0, count);
        r = o->copy(p->be, &rows, &rows64, err);
        if (r == 0) {
            r = o->syrk(p->be, true, 1.0, &rows64, 1.0, &m->gram, err);
        }
    }
    o->mat_free(p->be, &buffer);
    return r;
}

/* gram = chol(shift I + F'F). */
static int try_gram(struct precond *m, double shift, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    o->mat_free(p->be, &m->gram);
    m->gram = (struct mat){0};
    int r = o->mat_new(p->be, DTYPE_F64, m->i, m->i, &m->gram, err);
    if (r == 0) {
        r = sum_gram(m, err);
    }
    if (r == 0) {
        r = o->add_diag(p->be, shift, &m->gram, err);
    }
    return r == 0 ? o->potrf(p->be, &m->gram, 0.0, NULL, err) : r;
}

/* The smallest eigenvalue of rho I + F'F is at least rho, so failure is rounding, and a little more
 * on the diagonal mends it. */
static int factor_gram(struct precond *m, struct err *err)
{
    double shift = m->rho;
    int r = try_gram(m, shift, err);
    for (int i = 0; r == -ERR_NOT_POSITIVE_DEFINITE && i < JITTERS; i++) {
        shift = 10.0 * fmax(shift, DBL_EPSILON * m->trace);
        r = try_gram(m, shift, err);
    }
    return r;
}

static int build(struct precond *m, double *ret_fraction, struct err *err)
{
    int r = m->complete ? 1 : grow(m, err);
    *ret_fraction = r > 0 ? 1.0 : (double)m->i * (double)m->i / ((double)m->k * (double)m->k);
    if (r <= 0 || m->complete) {
        return r;
    }
    r = m->i > 0 ? factor_gram(m, err) : 0;
    m->complete = r == 0;
    return r < 0 ? r : 1;
}

/* Z = (R - F gram^-1 F' R) / rho. */
static int apply(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err)
{
    const struct problem *p = &m->p;
    const struct backend_ops *o = p->be->ops;
    const struct mat F = mat_cols(m->F, 0, m->i);
    const struct mat T = mat_rows(m->T, 0, m->i), T64 = mat_rows(m->T64, 0, m->i);
    double *over_rho = m->scale, *zero = m->scale + p->t;
    for (int64_t j = 0; j < p->t; j++) {
        over_rho[j] = 1.0 / m->rho;
        zero[j] = 0.0;
    }
    int r = o->col_axpby(p->be, over_rho, R, zero, Z, err);
    if (r < 0 || m->i == 0) {
        return r;
    }
    r = o->gemm(p->be, true, false, 1.0, &F, R, 0.0, &T, err);
    if (r == 0) {
        r = o->copy(p->be, &T, &T64, err);
    }
    if (r == 0) {
        r = o->trsm(p->be, false, false, &m->gram, &T64, err);
    }
    if (r == 0) {
        r = o->trsm(p->be, false, true, &m->gram, &T64, err);
    }
    if (r == 0) {
        r = o->copy(p->be, &T64, &T, err);
    }
    return r == 0 ? o->gemm(p->be, false, false, -1.0 / m->rho, &F, &T, 1.0, Z, err) : r;
}

static int64_t rank(const struct precond *m)
{
    return m->i;
}

const int64_t *precond_rpcholesky_pivots(const struct precond *m, int64_t *ret_count)
{
    *ret_count = m->i;
    return m->pivots;
}

const struct precond_ops precond_rpcholesky_ops = {
    .name = "rpcholesky",
    .setup = setup,
    .build = build,
    .apply = apply,
    .rank = rank,
    .teardown = teardown,
};
