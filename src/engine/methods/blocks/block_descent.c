#include "engine/methods/blocks/block_descent.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/memory.h"

enum { ARRAYS = 11, WINDOW = 10 };

/* What `splits` counts, in multiplications, as measured on one core: a kernel value takes 2 d + 20
 * in float32, twice that in float64; a row outside the block 500 and 100 a target to be listed and
 * gathered, and 5 for each row of the block, because a product with listed rows fetches them one by
 * one. */
static const double value_cost = 20.0;
static const double row_cost = 500.0;
static const double gather_cost = 100.0;
static const double listed_cost = 5.0;
static const double split_margin = 2.0;
/* By how much an estimate may exceed the best true residual and yet be of coefficients no worse. */
static const double estimate_slack = 2.0;

void block_descent_deinit(struct block_descent *d)
{
    struct mat *const matrices[] = {&d->E, &d->V, &d->W, &d->R, &d->best_W, &d->G, &d->D, &d->Q};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(*matrices) && d->p.be != NULL; i++) {
        d->p.be->ops->mat_free(d->p.be, matrices[i]);
    }
    d->frozen = mem_free(d->frozen);
    d->ages = mem_free(d->ages);
    d->order = mem_free(d->order);
    d->arrays = mem_free(d->arrays);
}

static int allocate(struct block_descent *d, int64_t most, struct err *err)
{
    const struct problem *p = &d->p;
    const size_t t = (size_t)p->t;
    d->frozen = mem_zarray(t, sizeof(*d->frozen));
    d->ages = mem_zarray(t, sizeof(*d->ages));
    d->arrays = mem_zarray(t, ARRAYS * sizeof(double));
    d->order = d->splits ? mem_array((size_t)p->n, sizeof(*d->order)) : NULL;
    if (d->frozen == NULL || d->ages == NULL || d->arrays == NULL ||
        (d->splits && d->order == NULL)) {
        return err_no_memory(err);
    }
    double **const members[ARRAYS] = {&d->norm, &d->relative, &d->mean,  &d->bias,
                                      &d->best, &d->value,    &d->slope, &d->dots,
                                      &d->more, &d->a,        &d->b};
    for (int i = 0; i < ARRAYS; i++) {
        *members[i] = d->arrays + i * p->t;
    }
    struct mat *const tall[] = {&d->E, &d->W, &d->R, &d->best_W, &d->V};
    const int64_t count = 4 + d->accelerated;
    int rc = memory_check_matrix(p->be, p->n, count * p->t, p->dtype, "solver's vectors", err);
    for (int i = 0; rc == 0 && i < count; i++) {
        rc = p->be->ops->mat_new(p->be, p->dtype, p->n, p->t, tall[i], err);
    }
    struct mat *const flat[] = {&d->G, &d->D, &d->Q};
    for (int i = 0; rc == 0 && i < 3; i++) {
        rc = p->be->ops->mat_new(p->be, i == 0 ? p->dtype : DTYPE_F64, most, p->t, flat[i], err);
    }
    return rc;
}

/* The mean of k(x, x). */
static int measure_kernel(struct block_descent *d, struct err *err)
{
    const struct problem *p = &d->p;
    struct mat diagonal = {0}, one = {0};
    int rc = p->be->ops->mat_new(p->be, DTYPE_F64, p->n, 1, &diagonal, err);
    if (rc == 0) {
        rc = p->be->ops->mat_new(p->be, DTYPE_F64, p->n, 1, &one, err);
    }
    cleanup_mem double *ones = mem_array((size_t)p->n, sizeof(double));
    if (rc == 0 && ones == NULL) {
        rc = err_no_memory(err);
    }
    for (int64_t i = 0; rc == 0 && i < p->n; i++) {
        ones[i] = 1.0 / (double)p->n;
    }
    if (rc == 0) {
        rc = p->be->ops->mat_put(p->be, ones, p->n, &one, err);
    }
    if (rc == 0) {
        rc = p->be->ops->kdiag(p->be, view_all(p->X, p->n), &diagonal, err);
    }
    if (rc == 0) {
        rc = p->be->ops->col_dots(p->be, &one, &diagonal, &d->kernel_size, err);
    }
    p->be->ops->mat_free(p->be, &one);
    p->be->ops->mat_free(p->be, &diagonal);
    return rc;
}

/* E = V = best_W = where to begin; a target of zeros is answered by zeros at once. */
static int begin(struct block_descent *d, struct err *err)
{
    const struct problem *p = &d->p;
    const struct backend_ops *o = p->be->ops;
    int rc = o->col_dots(p->be, &p->Y, &p->Y, d->dots, err);
    for (int64_t j = 0; rc == 0 && j < p->t; j++) {
        d->norm[j] = sqrt(d->dots[j]);
        d->frozen[j] = d->norm[j] == 0;
        d->relative[j] = d->frozen[j] ? 0.0 : p->start != NULL ? (double)NAN : 1.0;
        d->best[j] = INFINITY;
        d->value[j] = INFINITY;
        d->bias[j] = 1.0;
        d->a[j] = d->frozen[j] ? 0.0 : 1.0;
        d->b[j] = 0.0;
    }
    if (rc == 0 && p->start != NULL) {
        rc = o->col_axpby(p->be, d->a, p->start, d->b, &d->E, err);
    }
    rc = rc == 0 ? o->copy(p->be, &d->E, &d->best_W, err) : rc;
    return rc == 0 && d->accelerated ? o->copy(p->be, &d->E, &d->V, err) : rc;
}

/* Whether the b^2 kernel values that are saved outweigh what the other rows take: for blocks of a
 * tenth of the rows and more, or points of many features. A device of its own would have to be sent
 * the rows' numbers in every step. */
static bool split_pays(const struct problem *p, int64_t rows)
{
    const double b = (double)rows, d = (double)p->d, t = (double)p->t, n = (double)p->n;
    const double wide = p->dtype == DTYPE_F64 ? 2.0 : 1.0;
    const double saved = wide * (2.0 * d + value_cost) * b * b;
    const double spent = (row_cost + gather_cost * t + listed_cost * b) * n;
    return p->be->isa != NULL && rows < p->n && saved > split_margin * spent;
}

int block_descent_init(struct block_descent *d, const struct problem *p, double tolerance,
                       int64_t most, int64_t pass, int64_t residual_every, bool accelerated,
                       struct err *err)
{
    *d = (struct block_descent){
        .p = *p,
        .tolerance = tolerance,
        .accelerated = accelerated,
        .restarts = true,
        .pass = pass,
        .check_every = pass * residual_every,
        .window = pass < WINDOW ? pass : WINDOW,
        .uphill_every = pass == 1                           ? 1
                        : pass < BLOCK_DESCENT_UPHILL_STEPS ? BLOCK_DESCENT_UPHILL_STEPS
                                                            : pass,
        .splits = split_pays(p, most),
        .eps = problem_rounding(p),
    };
    int rc = allocate(d, most, err);
    if (rc == 0) {
        rc = measure_kernel(d, err);
    }
    return rc == 0 ? begin(d, err) : rc;
}

/* to <- M(index,:) in float64, through G. */
static int gather(struct block_descent *d, const struct mat *M, const int64_t *index,
                  const struct mat *to, struct err *err)
{
    const struct mat G = mat_rows(d->G, 0, to->rows);
    const int rc = d->p.be->ops->gather_rows(d->p.be, M, index, &G, err);
    return rc == 0 ? d->p.be->ops->copy(d->p.be, &G, to, err) : rc;
}

/* dots <- the estimates of |residual_j|^2 by this block. */
static int weigh(struct block_descent *d, const struct mat *D, double chance,
                 const double *row_chances, struct err *err)
{
    struct backend *be = d->p.be;
    if (row_chances == NULL) {
        const int rc = be->ops->col_dots(be, D, D, d->dots, err);
        for (int64_t j = 0; rc == 0 && j < D->cols; j++) {
            d->dots[j] /= chance;
        }
        return rc;
    }
    cleanup_mem double *host = mem_array((size_t)(D->rows * D->cols), sizeof(double));
    const int rc = host == NULL ? err_no_memory(err) : be->ops->mat_get(be, D, host, D->rows, err);
    for (int64_t j = 0; rc == 0 && j < D->cols; j++) {
        d->dots[j] = 0;
        for (int64_t i = 0; i < D->rows; i++) {
            const double g = host[i + j * D->rows];
            d->dots[j] += g * g / row_chances[i];
        }
    }
    return rc;
}

/* Running means and reported residuals from dots; the slopes from more (NULL: no momentum). */
static void absorb(struct block_descent *d, const double *slopes)
{
    d->averaged += d->averaged < d->window;
    const double share = 1.0 / (double)d->averaged;
    for (int64_t j = 0; j < d->p.t; j++) {
        if (d->frozen[j]) {
            continue;
        }
        if (!isfinite(d->dots[j])) {
            d->spoilt = true;
            continue;
        }
        d->mean[j] += share * (d->dots[j] - d->mean[j]);
        d->relative[j] = d->bias[j] * sqrt(d->mean[j]) / d->norm[j];
        d->slope[j] += slopes != NULL ? slopes[j] : 0.0;
    }
}

/* order <- the rows outside the block, ascending, and those of the block behind them. */
static void list_rest(struct block_descent *d, const int64_t *index, int64_t b)
{
    int64_t k = 0, row = 0;
    for (int64_t i = 0; i < b; i++) {
        for (; row < index[i]; row++) {
            d->order[k++] = row;
        }
        row++;
    }
    for (; row < d->p.n; row++) {
        d->order[k++] = row;
    }
    memcpy(d->order + k, index, (size_t)b * sizeof(*index));
}

/* G <- K(b,:) E - G, D <- G, Q <- E_b. */
static int multiply_whole(struct block_descent *d, const int64_t *index, const struct mat *G,
                          const struct mat *D, const struct mat *Q, struct err *err)
{
    const struct problem *p = &d->p;
    const struct backend_ops *o = p->be->ops;
    int rc = o->kmv(p->be, view_index(p->X, index, G->rows), view_all(p->X, p->n), 1.0, &d->E, -1.0,
                    G, err);
    if (rc == 0) {
        rc = o->copy(p->be, G, D, err);
    }
    return rc == 0 ? gather(d, &d->E, index, Q, err) : rc;
}

/* The same with K(b,b) given; W is free between two checks. */
static int multiply_split(struct block_descent *d, const int64_t *index, const struct mat *K_bb,
                          const struct mat *G, const struct mat *D, const struct mat *Q,
                          struct err *err)
{
    const struct problem *p = &d->p;
    const struct backend_ops *o = p->be->ops;
    const int64_t b = G->rows, others = p->n - b;
    const struct mat rest = mat_rows(d->W, 0, others), mine = mat_rows(d->W, others, b);
    const bool typed = K_bb->dtype == G->dtype;
    list_rest(d, index, b);
    int rc = o->gather_rows(p->be, &d->E, d->order, &d->W, err);
    if (rc == 0) {
        rc = o->copy(p->be, &mine, Q, err);
    }
    if (rc == 0) {
        rc = o->kmv(p->be, view_index(p->X, index, b), view_index(p->X, d->order, others), 1.0,
                    &rest, -1.0, G, err);
    }
    if (rc == 0 && typed) {
        rc = o->gemm(p->be, false, false, 1.0, K_bb, &mine, 1.0, G, err);
    }
    if (rc == 0) {
        rc = o->copy(p->be, G, D, err);
    }
    return rc == 0 && !typed ? o->gemm(p->be, false, false, 1.0, K_bb, Q, 1.0, D, err) : rc;
}

int block_descent_gradient(struct block_descent *d, const int64_t *index, int64_t b, double chance,
                           const double *row_chances, const struct mat *K_bb, struct mat *ret,
                           struct err *err)
{
    const struct problem *p = &d->p;
    const struct backend_ops *o = p->be->ops;
    const struct mat G = mat_rows(d->G, 0, b), D = mat_rows(d->D, 0, b), Q = mat_rows(d->Q, 0, b);
    int rc = o->gather_rows(p->be, &p->Y, index, &G, err);
    if (rc == 0) {
        rc = K_bb != NULL ? multiply_split(d, index, K_bb, &G, &D, &Q, err)
                          : multiply_whole(d, index, &G, &D, &Q, err);
    }
    for (int64_t j = 0; j < p->t; j++) {
        d->a[j] = p->ridge;
        d->b[j] = 1.0;
    }
    if (rc == 0) {
        rc = o->col_axpby(p->be, d->a, &Q, d->b, &D, err);
    }
    if (rc == 0 && d->accelerated) {
        rc = o->col_dots(p->be, &D, &Q, d->more, err);
    }
    if (rc == 0 && d->accelerated) {
        rc = gather(d, &d->V, index, &Q, err);
    }
    if (rc == 0 && d->accelerated) {
        rc = o->col_dots(p->be, &D, &Q, d->dots, err);
    }
    for (int64_t j = 0; rc == 0 && d->accelerated && j < p->t; j++) {
        d->more[j] = d->dots[j] - d->more[j];
    }
    if (rc == 0) {
        rc = weigh(d, &D, chance, row_chances, err);
    }
    *ret = D;
    if (rc == 0) {
        absorb(d, d->accelerated ? d->more : NULL);
    }
    return rc;
}

int block_descent_step(struct block_descent *d, const int64_t *index, const struct mat *D,
                       struct block_step step, struct err *err)
{
    const bool spoilt = d->spoilt;
    d->spoilt = false;
    d->iteration++;
    if (spoilt) {
        return block_descent__step_back(d, err);
    }
    int rc = block_descent__move(d, index, D, step, err);
    d->since_check++;
    d->since_restart++;
    if (rc == 0 && d->accelerated && d->since_restart >= d->uphill_every) {
        rc = block_descent__restart_where(d, NULL, err);
    }
    return rc == 0 && block_descent__check_due(d) ? block_descent__check(d, err) : rc;
}

bool block_descent_done(const struct block_descent *d)
{
    for (int64_t j = 0; j < d->p.t; j++) {
        if (!d->frozen[j]) {
            return false;
        }
    }
    return true;
}

double block_descent_residual(const struct block_descent *d)
{
    double largest = 0;
    for (int64_t j = 0; j < d->p.t && !isnan(largest); j++) {
        largest = isnan(d->relative[j]) ? (double)NAN : fmax(largest, d->relative[j]);
    }
    return largest;
}

const char *block_descent_note(const struct block_descent *d)
{
    static const char note[] =
        "The step was halved because the residual grew: the smoothness of the blocks was taken for "
        "less than it is. More `power_iterations` find it better.";
    return d->halvings > 0 ? note : NULL;
}

int block_descent_coef(struct block_descent *d, const struct mat *A, struct err *err)
{
    const double slack = d->since_check > 0 ? estimate_slack : 1.0;
    const int rc = block_descent__get_iterate(d, A, err);
    for (int64_t j = 0; j < d->p.t; j++) {
        d->a[j] = d->relative[j] > slack * d->best[j] ? 1.0 : 0.0;
        d->b[j] = 1.0 - d->a[j];
    }
    return rc == 0 ? d->p.be->ops->col_axpby(d->p.be, d->a, &d->best_W, d->b, A, err) : rc;
}
