#include "engine/methods/blocks/leverage.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/sort.h"

enum { LEVERAGE_ROWS = 4096, BISECTIONS = 40 };

struct leverage_work {
    const struct problem *p;
    bool factored;
    int64_t scored; /* points, from the first */
    int64_t m;
    int64_t *J;      /* [m] */
    struct mat core; /* m x m: the factor of K_JJ + ridge (m/n) I, float64 */
    struct mat C;    /* m x LEVERAGE_ROWS: core^-1 K_Ji, float64 */
    struct mat diagonal;
    double *host; /* [LEVERAGE_ROWS] */
};

/* Accepts NULL and one half made. */
static struct leverage_work *work_free(struct leverage_work *w)
{
    if (w == NULL) {
        return NULL;
    }
    struct backend *be = w->p->be;
    be->ops->mat_free(be, &w->core);
    be->ops->mat_free(be, &w->C);
    be->ops->mat_free(be, &w->diagonal);
    mem_free(w->J);
    mem_free(w->host);
    return mem_free(w);
}

void leverage_deinit(struct leverage *l)
{
    l->cumulative = mem_free(l->cumulative);
    l->included = mem_free(l->included);
    l->taken = mem_free(l->taken);
    l->work = work_free(l->work);
}

static int work_init(struct leverage_work *w, const struct problem *p, struct err *err)
{
    struct backend *be = p->be;
    struct rng rng = rng_new(p->seed, RNG_CENTERS);
    w->m = (int64_t)ceil(sqrt((double)p->n));
    w->J = mem_array((size_t)w->m, sizeof(*w->J));
    w->host = mem_array(LEVERAGE_ROWS, sizeof(double));
    int rc = w->J == NULL || w->host == NULL ? err_no_memory(err)
                                             : rng_choose(&rng, p->n, w->m, w->J, err);
    if (rc == 0) {
        rc = be->ops->mat_new(be, DTYPE_F64, w->m, w->m, &w->core, err);
    }
    if (rc == 0) {
        rc = be->ops->mat_new(be, DTYPE_F64, w->m, LEVERAGE_ROWS, &w->C, err);
    }
    return rc == 0 ? be->ops->mat_new(be, DTYPE_F64, LEVERAGE_ROWS, 1, &w->diagonal, err) : rc;
}

/* The ridge that the scores are for: that of the problem, or rounding error where it has none. */
static double effective_ridge(const struct problem *p)
{
    return fmax(p->ridge, (double)FLT_EPSILON * (double)p->n);
}

static int factor_core(struct leverage_work *w, struct err *err)
{
    const struct problem *p = w->p;
    const struct backend_ops *o = p->be->ops;
    const struct view J = view_index(p->X, w->J, w->m);
    double shift = effective_ridge(p) * (double)w->m / (double)p->n;
    int rc = -ERR_NOT_POSITIVE_DEFINITE;
    for (int i = 0; rc == -ERR_NOT_POSITIVE_DEFINITE && i < 4; i++, shift *= 10.0) {
        rc = o->kblock(p->be, J, J, &w->core, err);
        if (rc == 0) {
            rc = o->add_diag(p->be, shift, &w->core, err);
        }
        if (rc == 0) {
            rc = o->potrf(p->be, &w->core, 0.0, NULL, err);
        }
    }
    return rc;
}

/* Scores of points first .. first+count-1 into ret. */
static int score_rows(struct leverage_work *w, int64_t first, int64_t count, double *ret,
                      struct err *err)
{
    const struct problem *p = w->p;
    const struct backend_ops *o = p->be->ops;
    const struct view rows = view_range(p->X, first, count);
    const struct mat C = mat_cols(w->C, 0, count), d = mat_rows(w->diagonal, 0, count);
    int rc = o->kblock(p->be, view_index(p->X, w->J, w->m), rows, &C, err);
    if (rc == 0) {
        rc = o->trsm(p->be, false, false, &w->core, &C, err);
    }
    if (rc == 0) {
        rc = o->col_dots(p->be, &C, &C, w->host, err);
    }
    if (rc == 0) {
        rc = o->kdiag(p->be, rows, &d, err);
    }
    if (rc == 0) {
        rc = o->mat_get(p->be, &d, ret, count, err);
    }
    for (int64_t i = 0; rc == 0 && i < count; i++) {
        const double score = (ret[i] - w->host[i]) / effective_ridge(p);
        ret[i] = fmin(fmax(score, DBL_MIN), 1.0);
    }
    return rc;
}

/* included_i <- 1 - exp(-c q_i); their sum. */
static double include(struct leverage *l, const double *q, double c)
{
    double sum = 0;
    for (int64_t i = 0; i < l->n; i++) {
        l->included[i] = -expm1(-c * q[i]);
        sum += l->included[i];
    }
    return sum;
}

/* Chances to be included with the c for which they sum up to the number of draws (Hajek's
 * approximation for draws one after the other). */
static void set_included(struct leverage *l, const double *q)
{
    double low = 0, high = (double)l->draws;
    while (include(l, q, high) < (double)l->draws && high < DBL_MAX / 4) {
        low = high;
        high *= 2.0;
    }
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = 0.5 * (low + high);
        if (include(l, q, middle) < (double)l->draws) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/* From scores in `cumulative` to running sums of the chances. */
static void set_chances(struct leverage *l)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < l->n; i++) {
        total += l->cumulative[i];
    }
    for (int64_t i = 0; i < l->n; i++) {
        l->cumulative[i] = 0.5 * l->cumulative[i] / total + 0.5 / (double)l->n;
    }
    set_included(l, l->cumulative);
    for (int64_t i = 0; i < l->n; i++) {
        sum += l->cumulative[i];
        l->cumulative[i] = sum;
    }
}

int leverage_init(struct leverage *l, const struct problem *p, int64_t draws, struct err *err)
{
    *l = (struct leverage){.n = p->n, .draws = draws};
    l->cumulative = mem_array((size_t)p->n, sizeof(double));
    l->included = mem_array((size_t)p->n, sizeof(double));
    l->taken = mem_zarray((size_t)p->n, sizeof(bool));
    l->work = mem_zalloc(sizeof(*l->work));
    if (l->work != NULL) {
        l->work->p = p;
    }
    if (l->cumulative == NULL || l->included == NULL || l->taken == NULL || l->work == NULL) {
        return err_no_memory(err);
    }
    return work_init(l->work, p, err);
}

int leverage_build(struct leverage *l, struct err *err)
{
    struct leverage_work *w = l->work;
    if (!w->factored) {
        const int rc = factor_core(w, err);
        w->factored = rc == 0;
        return rc;
    }
    const int64_t first = w->scored, left = l->n - first;
    const int64_t count = left < LEVERAGE_ROWS ? left : LEVERAGE_ROWS;
    const int rc = score_rows(w, first, count, l->cumulative + first, err);
    if (rc != 0) {
        return rc;
    }
    w->scored += count;
    if (w->scored == l->n) {
        set_chances(l);
        l->work = work_free(w);
    }
    return 0;
}

bool leverage_ready(const struct leverage *l)
{
    return l->work == NULL;
}

double leverage_fraction(const struct leverage *l)
{
    return l->work == NULL ? 1.0 : (double)l->work->scored / (double)l->n;
}

void leverage_draw(struct leverage *l, struct rng *rng, int64_t *ret)
{
    int64_t count = 0;
    while (count < l->draws) {
        const int64_t i =
            sort_first_above(l->cumulative, l->n, rng_uniform(rng) * l->cumulative[l->n - 1]);
        if (!l->taken[i]) {
            l->taken[i] = true;
            ret[count++] = i;
        }
    }
    for (int64_t k = 0; k < count; k++) {
        l->taken[ret[k]] = false;
    }
    sort_i64(ret, count);
}
