/*
 * Nystrom approximation from the product of K with k Gaussian vectors.
 *
 * Papers: Tropp, Yurtsever, Udell, Cevher, "Fixed-rank approximation of a positive-semidefinite
 * matrix from streaming data", NeurIPS 2017 (the shift); Frangella, Tropp, Udell, "Randomized
 * Nystrom preconditioning", SIAM J. Matrix Anal. Appl. 44, 2023.
 *
 *     W = orth(randn(n, k))                  Cholesky QR, twice
 *     Y = K W
 *     L = chol(W'Y + nu I)
 *     F = (Y + nu W) L^-T
 *
 * so that F F' = K_nu W (W' K_nu W)^-1 W' K_nu with K_nu = K + nu I. The papers take the singular
 * values of F and subtract nu from their squares; here P needs neither (precond_lowrank.h), and F
 * keeps nu, which is of the order of the rounding error of Y:
 *     nu = (eps + eps_K / sqrt(n)) sum_i |k(x_i, x_i)|
 * with eps of the vectors' precision and eps_K of the kernel values', whose errors are independent.
 * Should that be too little, nu grows tenfold until L exists.
 *
 * The normal numbers come from the host's generator, columns in order, so that every backend draws
 * the same.
 *
 * Cost: n^2 kernel values, n^2 k + 3 n k^2 multiplications. Memory: 2 n k numbers, 16 k^2 bytes and
 * a block of K (at most 2^23 numbers) while it is built.
 */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/methods/methods.h"
#include "engine/methods/preconds/precond_lowrank.h"
#include "engine/methods/preconds/precond_pieces.h"
#include "engine/methods/preconds/precond_rank.h"

/* A block of K has BLOCK_ROWS rows, or more in no more than BLOCK_NUMBERS numbers. */
enum { GROUP = 64, BLOCK_ROWS = 128, BLOCK_NUMBERS = 1 << 23, ATTEMPTS = 16, STAGES = 13 };

struct sketch {
    struct precond base;
    struct rng rng;
    int stage;       /* in `stages` */
    int64_t next;    /* row or column of the piece at hand */
    int orthonormal; /* passes of the orthonormalisation done */
    double nu;
    int attempts;
    struct mat W;    /* n x k */
    struct mat C, L; /* k x k float64: W'W or W'Y, and the factor */
};

static struct sketch *of(struct precond *m)
{
    return (struct sketch *)(void *)m;
}

static void teardown(struct precond *base)
{
    if (base == NULL) {
        return;
    }
    struct sketch *m = of(base);
    struct mat *const matrices[] = {&m->W, &m->C, &m->L};
    for (int i = 0; i < 3; i++) {
        base->p.be->ops->mat_free(base->p.be, matrices[i]);
    }
    lowrank_deinit(base);
    mem_free(m);
}

static int allocate(struct sketch *m, const struct problem *p, int64_t k, struct err *err)
{
    const struct backend_ops *o = p->be->ops;
    int r = lowrank_init(&m->base, p, "preconditioner `nystrom_gaussian`", k, 2 * k, 2, err);
    if (r == 0) {
        r = o->mat_new(p->be, p->dtype, p->n, k, &m->W, err);
    }
    if (r == 0) {
        r = o->mat_new(p->be, DTYPE_F64, k, k, &m->C, err);
    }
    return r == 0 ? o->mat_new(p->be, DTYPE_F64, k, k, &m->L, err) : r;
}

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    struct sketch *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->base.p = *p;
    m->rng = rng_new(p->seed, RNG_PRECOND);
    const int64_t k = precond_rank_choose(p, RANK_SKETCH, param_get(params, "rank"));
    const int r = allocate(m, p, k, err);
    if (r < 0) {
        teardown(&m->base);
        return r;
    }
    const double eps = p->points_dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    m->nu = (m->base.eps + eps / sqrt((double)p->n)) * m->base.trace;
    m->stage = m->base.trace > 0 ? 0 : STAGES - 1; /* K = 0: P = rho I */
    *ret = &m->base;
    return 0;
}

/* How many columns are drawn or changed in one piece, from m->next on. */
static int64_t group(const struct sketch *m)
{
    const int64_t left = m->base.k - m->next;
    return left < GROUP ? left : GROUP;
}

/* The next group of columns of W. */
static int draw(struct sketch *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const int64_t count = group(m);
    cleanup_mem double *columns = mem_array((size_t)(p->n * count), sizeof(*columns));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < p->n * count; i++) {
        columns[i] = rng_normal(&m->rng);
    }
    const struct mat W = mat_cols(m->W, m->next, count);
    const int r = p->be->ops->mat_put(p->be, columns, p->n, &W, err);
    m->next += count;
    return r < 0 ? r : m->next == m->base.k;
}

/* C += W'W. The first time with a shift that is small beside |W|^2 ~ n and large beside rounding,
 * for the factor to exist however close k is to n; the second pass undoes what it does to W. */
static int gram(struct sketch *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const int r = piece_gram(p->be, &m->W, &m->next, &m->C, err);
    const double shift = DBL_EPSILON * (double)p->n * (double)m->base.k;
    const int s = r > 0 && m->orthonormal == 0 ? p->be->ops->add_diag(p->be, shift, &m->C, err) : 0;
    return s < 0 ? s : r;
}

static int factor_gram(struct sketch *m, struct err *err)
{
    return piece_factor(m->base.p.be, &m->next, &m->C, err);
}

/* W = W chol(W'W)^-T, and C = 0 for what comes next. */
static int orthonormalise(struct sketch *m, struct err *err)
{
    struct backend *be = m->base.p.be;
    const int r = piece_solve(be, &m->C, &m->next, &m->W, err);
    if (r <= 0) {
        return r;
    }
    m->orthonormal++;
    be->ops->mat_free(be, &m->C);
    const int s = be->ops->mat_new(be, DTYPE_F64, m->base.k, m->base.k, &m->C, err);
    return s < 0 ? s : 1;
}

/* Y = K W into F, some rows of K at a time as a dense block: with this many columns a matrix
 * product pays for storing the kernel values. */
static int product(struct sketch *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const struct backend_ops *o = p->be->ops;
    const double work = (double)p->n * (double)(m->base.k + p->d + 10);
    const int64_t most = p->n < BLOCK_NUMBERS / BLOCK_ROWS ? BLOCK_NUMBERS / p->n : BLOCK_ROWS;
    const int64_t wish = piece_rows(p->n - m->next, work), rows = wish < most ? wish : most;
    const struct mat Y = mat_rows(m->base.F, m->next, rows);
    struct mat K = {0};
    int r = o->mat_new(p->be, p->dtype, rows, p->n, &K, err);
    if (r == 0) {
        r = o->kblock(p->be, view_range(p->X, m->next, rows), view_all(p->X, p->n), &K, err);
    }
    if (r == 0) {
        r = o->gemm(p->be, false, false, 1.0, &K, &m->W, 0.0, &Y, err);
    }
    o->mat_free(p->be, &K);
    m->next += rows;
    return r < 0 ? r : m->next == p->n;
}

/* C = W'Y. */
static int cross(struct sketch *m, struct err *err)
{
    return piece_cross(m->base.p.be, &m->W, &m->base.F, &m->next, &m->C, err);
}

/* L = chol(C + nu I), begun again with more on the diagonal where it fails. */
static int factor_core(struct sketch *m, struct err *err)
{
    struct backend *be = m->base.p.be;
    int r = 0;
    if (m->next == 0) {
        r = be->ops->copy(be, &m->C, &m->L, err);
        if (r == 0) {
            r = be->ops->add_diag(be, m->nu, &m->L, err);
        }
    }
    if (r == 0) {
        r = piece_factor(be, &m->next, &m->L, err);
    }
    if (r == -ERR_NOT_POSITIVE_DEFINITE && m->attempts < ATTEMPTS) {
        m->attempts++;
        m->nu *= 10.0;
        m->next = 0;
        return 0;
    }
    return r;
}

/* F = Y + nu W, a group of columns; then W is of no more use. */
static int shift(struct sketch *m, struct err *err)
{
    struct backend *be = m->base.p.be;
    const int64_t count = group(m);
    const struct mat W = mat_cols(m->W, m->next, count), F = mat_cols(m->base.F, m->next, count);
    double nu[GROUP], one[GROUP];
    for (int j = 0; j < GROUP; j++) {
        nu[j] = m->nu;
        one[j] = 1.0;
    }
    const int r = be->ops->col_axpby(be, nu, &W, one, &F, err);
    m->next += count;
    if (r < 0 || m->next < m->base.k) {
        return r;
    }
    be->ops->mat_free(be, &m->W);
    be->ops->mat_free(be, &m->C);
    return 1;
}

/* F = F L^-T. */
static int solve(struct sketch *m, struct err *err)
{
    struct backend *be = m->base.p.be;
    const int r = piece_solve(be, &m->L, &m->next, &m->base.F, err);
    if (r > 0) {
        be->ops->mat_free(be, &m->L);
        m->base.i = m->base.k;
    }
    return r;
}

/* What is done, one after the other, and the fraction at the end of each. */
static const struct {
    int (*piece)(struct sketch *m, struct err *err); /* 1: done, 0: again; NULL: lowrank_finish */
    double fraction;
} stages[STAGES] = {
    {draw, 0.02},  {gram, 0.03},        {factor_gram, 0.03},    {orthonormalise, 0.04},
    {gram, 0.05},  {factor_gram, 0.05}, {orthonormalise, 0.06}, {product, 0.85},
    {cross, 0.88}, {factor_core, 0.89}, {shift, 0.89},          {solve, 0.91},
    {NULL, 1.0},
};

static int build(struct precond *base, double *ret_fraction, struct err *err)
{
    struct sketch *m = of(base);
    const double begin = m->stage > 0 ? stages[m->stage - 1].fraction : 0.0;
    const double share = stages[m->stage].fraction - begin;
    double part = 0;
    int r = 1;
    if (stages[m->stage].piece != NULL) {
        r = stages[m->stage].piece(m, err);
        part = r > 0 ? 1.0 : (double)m->next / (double)(base->p.n + base->k);
        m->stage += r > 0;
        m->next = r > 0 ? 0 : m->next;
        r = r > 0 ? 0 : r;
    } else if (!base->complete) {
        r = lowrank_finish(base, &part, err);
        base->complete = r > 0;
    } else {
        part = 1.0;
    }
    base->fraction = fmax(base->fraction, begin + share * part);
    *ret_fraction = base->fraction;
    return r;
}

const struct precond_ops precond_nystrom_gaussian_ops = {
    .name = "nystrom_gaussian",
    .setup = setup,
    .build = build,
    .apply = lowrank_apply,
    .rank = lowrank_rank,
    .most = lowrank_most,
    .teardown = teardown,
};
