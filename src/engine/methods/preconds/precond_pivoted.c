#include "engine/methods/preconds/precond_pivoted.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/methods/preconds/precond_pieces.h"

enum { EMPTY_ROUNDS = 5, BLOCK_MIN = 10, BLOCK_MAX = 2048 };

/* Share of the fraction that growing F takes; the rest is lowrank_finish. */
static const double grow_share = 0.6;

static struct pivoted *of(struct precond *m)
{
    return (struct pivoted *)(void *)m;
}

void pivoted_teardown(struct precond *base)
{
    if (base == NULL) {
        return;
    }
    struct pivoted *m = of(base);
    base->p.be->ops->mat_free(base->p.be, &m->F_T);
    base->p.be->ops->mat_free(base->p.be, &m->L);
    lowrank_deinit(base);
    mem_free(m->pivots);
    mem_free(m->size);
    mem_free(m->residual);
    mem_free(m->candidates);
    mem_free(m->H);
    mem_free(m->start);
    mem_free(m->accepted);
    mem_free(m->is_taken);
    mem_free(m);
}

static int allocate(struct pivoted *m, int64_t k, int64_t block, struct err *err)
{
    const size_t b = (size_t)block;
    m->pivots = mem_array((size_t)k, sizeof(*m->pivots));
    m->size = mem_array((size_t)m->base.p.n, sizeof(*m->size));
    m->residual = mem_array((size_t)m->base.p.n, sizeof(*m->residual));
    m->candidates = mem_array(b, sizeof(*m->candidates));
    m->H = mem_array(b * b, sizeof(*m->H));
    m->start = mem_array(b, sizeof(*m->start));
    m->accepted = mem_array(b, sizeof(*m->accepted));
    m->is_taken = mem_array(b, sizeof(*m->is_taken));
    const bool ok = m->pivots && m->size && m->residual && m->candidates && m->H && m->start &&
                    m->accepted && m->is_taken;
    return ok ? 0 : err_no_memory(err);
}

/* size, from the diagonal that the backend has. */
static int fetch_sizes(struct pivoted *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const int r = p->be->ops->mat_get(p->be, &m->base.d, m->size, p->n, err);
    for (int64_t i = 0; r == 0 && i < p->n; i++) {
        m->size[i] = fabs(m->size[i]);
    }
    return r;
}

int pivoted_new(const struct pivot_rule *rule, const struct problem *p, int64_t k, int64_t block,
                struct pivoted **ret, struct err *err)
{
    struct pivoted *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->base.p = *p;
    m->rule = rule;
    m->rng = rng_new(p->seed, RNG_PRECOND);
    m->block = block;
    int r = allocate(m, k, block, err);
    if (r == 0) {
        r = lowrank_init(&m->base, p, rule->name, k, k, 1, err);
    }
    if (r == 0) {
        r = fetch_sizes(m, err);
    }
    if (r < 0) {
        pivoted_teardown(&m->base);
        return r;
    }
    const double eps = p->points_dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    m->rounding = 10.0 * fmax(eps, m->base.eps);
    *ret = m;
    return 0;
}

int64_t pivoted_block(int64_t k)
{
    const int64_t tenth = (k + 9) / 10;
    return tenth < BLOCK_MIN ? BLOCK_MIN : tenth > BLOCK_MAX ? BLOCK_MAX : tenth;
}

/* d from the backend, 0 where it is rounding error, as it is of rows already taken. */
static int fetch_residual(struct pivoted *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const int r = p->be->ops->mat_get(p->be, &m->base.d, m->residual, p->n, err);
    for (int64_t i = 0; i < m->base.i; i++) {
        m->residual[m->pivots[i]] = 0;
    }
    m->relative = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const bool stands = pivoted_stands(m, i, m->residual[i]);
        m->relative += m->residual[i] > 0 ? m->residual[i] / m->size[i] : 0.0;
        m->residual[i] = stands ? m->residual[i] : 0.0;
    }
    return r;
}

/* H = K(C,C) - F(C,:) F(C,:)' on the host. */
static int fetch_block(struct pivoted *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const struct backend_ops *o = p->be->ops;
    const struct mat F = mat_cols(m->base.F, 0, m->base.i);
    const struct view C = view_index(p->X, m->candidates, m->count);
    struct mat H = {0}, F_C = {0};
    int r = o->mat_new(p->be, p->dtype, m->count, m->count, &H, err);
    if (r == 0) {
        r = o->kblock(p->be, C, C, &H, err);
    }
    if (r == 0 && m->base.i > 0) {
        r = o->mat_new(p->be, p->dtype, m->count, m->base.i, &F_C, err);
        if (r == 0) {
            r = o->gather_rows(p->be, &F, m->candidates, &F_C, err);
        }
        if (r == 0) {
            r = o->gemm(p->be, false, true, -1.0, &F_C, &F_C, 1.0, &H, err);
        }
    }
    if (r == 0) {
        r = o->mat_get(p->be, &H, m->H, m->count, err);
    }
    o->mat_free(p->be, &F_C);
    o->mat_free(p->be, &H);
    return r;
}

void pivoted_take(struct pivoted *m, int64_t j, int64_t first)
{
    const int64_t b = m->count;
    double *column = m->H + j * b;
    const double root = sqrt(column[j]);
    for (int64_t i = first; i < b; i++) {
        column[i] /= root;
    }
    column[j] = root;
    m->is_taken[j] = true;
    m->accepted[m->taken++] = j;
    for (int64_t c = first; c < b; c++) {
        double *other = m->H + c * b;
        const double factor = column[c];
        if (m->is_taken[c] || factor == 0) {
            continue;
        }
        for (int64_t i = first; i < b; i++) {
            other[i] -= column[i] * factor;
        }
    }
}

void pivoted_choose_largest(struct pivoted *m, int64_t wanted)
{
    while (m->taken < wanted) {
        int64_t best = -1;
        double value = 0;
        for (int64_t j = 0; j < m->count; j++) {
            const double diagonal = m->H[j + j * m->count];
            const bool stands = pivoted_stands(m, m->candidates[j], diagonal);
            if (!m->is_taken[j] && stands && diagonal > value) {
                best = j;
                value = diagonal;
            }
        }
        if (best < 0 || (m->taken > 0 && value < m->bar)) {
            return;
        }
        pivoted_take(m, best, 0);
    }
}

/* L of the accepted rows. */
static int put_factor(struct pivoted *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const int64_t a = m->taken;
    cleanup_mem double *L = mem_zarray((size_t)(a * a), sizeof(double));
    if (L == NULL) {
        return err_no_memory(err);
    }
    for (int64_t c = 0; c < a; c++) {
        for (int64_t i = c; i < a; i++) {
            L[i + c * a] = m->H[m->accepted[i] + m->accepted[c] * m->count];
        }
    }
    const int r = p->be->ops->mat_new(p->be, p->dtype, a, a, &m->L, err);
    return r == 0 ? p->be->ops->mat_put(p->be, L, a, &m->L, err) : r;
}

/* L and F(T,:), for as long as the columns of T are being made. */
static int start_columns(struct pivoted *m, struct err *err)
{
    const struct problem *p = &m->base.p;
    const struct backend_ops *o = p->be->ops;
    const struct mat F = mat_cols(m->base.F, 0, m->base.i);
    int64_t *T = m->pivots + m->base.i;
    for (int64_t j = 0; j < m->taken; j++) {
        T[j] = m->candidates[m->accepted[j]];
    }
    int r = put_factor(m, err);
    if (r == 0 && m->base.i > 0) {
        r = o->mat_new(p->be, p->dtype, m->taken, m->base.i, &m->F_T, err);
        if (r == 0) {
            r = o->gather_rows(p->be, &F, T, &m->F_T, err);
        }
    }
    m->base.next = 0;
    return r;
}

/* The next rows of G = (K(:,T) - F F(T,:)') L^-T, and of d. */
static int make_rows(struct pivoted *m, int64_t count, struct err *err)
{
    const struct precond *f = &m->base;
    const struct problem *p = &f->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t first = f->next;
    const struct mat F = mat_rows(mat_cols(f->F, 0, f->i), first, count);
    const struct mat G = mat_rows(mat_cols(f->F, f->i, m->taken), first, count);
    const struct mat d = mat_rows(f->d, first, count);
    const struct view T = view_index(p->X, m->pivots + f->i, m->taken);
    int r = o->kblock(p->be, view_range(p->X, first, count), T, &G, err);
    if (r == 0 && f->i > 0) {
        r = o->gemm(p->be, false, true, -1.0, &F, &m->F_T, 1.0, &G, err);
    }
    if (r == 0) {
        r = o->trsm(p->be, true, true, &m->L, &G, err);
    }
    return r == 0 ? o->deflate_diag(p->be, &G, &d, err) : r;
}

static int make_columns(struct pivoted *m, struct err *err)
{
    struct precond *f = &m->base;
    const double work = (double)m->taken * (double)(f->i + m->taken + f->p.d + 10);
    const int64_t count = piece_rows(f->p.n - f->next, work);
    const int r = make_rows(m, count, err);
    f->next += count;
    if (r < 0 || f->next < f->p.n) {
        return r;
    }
    f->p.be->ops->mat_free(f->p.be, &m->F_T);
    f->p.be->ops->mat_free(f->p.be, &m->L);
    f->i += m->taken;
    f->next = 0;
    return 0;
}

/* One round of candidates. 1: F is complete. */
static int start_round(struct pivoted *m, struct err *err)
{
    const struct precond *f = &m->base;
    int r = fetch_residual(m, err);
    if (r < 0) {
        return r;
    }
    if (f->i == f->k || m->relative <= m->rounding * (double)f->p.n ||
        (m->count = m->rule->propose(m)) == 0) {
        return 1;
    }
    r = fetch_block(m, err);
    if (r < 0) {
        return r;
    }
    memset(m->is_taken, 0, (size_t)m->block * sizeof(*m->is_taken));
    m->taken = 0;
    m->rule->choose(m, f->k - f->i);
    if (m->taken == 0) {
        return ++m->empty_rounds == EMPTY_ROUNDS;
    }
    m->empty_rounds = 0;
    return start_columns(m, err);
}

/* 1: F is complete. */
static int grow(struct pivoted *m, struct err *err)
{
    int r = 0;
    if (m->L.data == NULL) {
        r = start_round(m, err);
    }
    return r == 0 && m->L.data != NULL ? make_columns(m, err) : r;
}

/* Of the multiplications of F, which are as the square of its columns. */
static double grown(const struct pivoted *m)
{
    const struct precond *f = &m->base;
    const double part = m->L.data != NULL ? (double)f->next / (double)f->p.n : 0.0;
    const double columns = ((double)f->i + part * (double)m->taken) / (double)f->k;
    return columns * columns;
}

int pivoted_grow(struct pivoted *m, double *ret_fraction, struct err *err)
{
    const int r = grow(m, err);
    *ret_fraction = r > 0 ? 1.0 : grown(m);
    return r;
}

int pivoted_build(struct precond *base, double *ret_fraction, struct err *err)
{
    struct pivoted *m = of(base);
    double fraction = 1.0;
    int r = 1;
    if (!m->grown) {
        r = pivoted_grow(m, &fraction, err);
        m->grown = r > 0;
        fraction *= grow_share;
        r = r < 0 ? r : 0;
    } else if (!base->complete) {
        r = lowrank_finish(base, &fraction, err);
        base->complete = r > 0;
        fraction = grow_share + (1.0 - grow_share) * fraction;
    }
    base->fraction = fmax(base->fraction, fraction);
    *ret_fraction = base->fraction;
    return r;
}

const int64_t *pivoted_pivots(const struct precond *base, int64_t *ret_count)
{
    *ret_count = base->i;
    return ((const struct pivoted *)(const void *)base)->pivots;
}
