#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"
#include "engine/solve/certify.h"

static const double confidence_missed = 0.01;

struct sampled {
    const struct problem *p;
    const struct mat *A;
    const struct certify_stop *stop;
    int64_t rows;
    struct mat wide; /* A in float64 */
    struct mat R;    /* n x t: the float32 residual */
    struct mat S;    /* rows x t: the float64 residual of the rows drawn */
    double *rough;   /* [n, t] R on the host */
    double *exact;   /* [rows, t] S on the host */
    double *p_row;   /* [n] */
    double *chance;  /* [n] sums of p_row up to and with i */
    int64_t *index;  /* [rows] */
    double *numbers; /* [4 t], the owner of those below, each [t] */
    double *minus_ridge, *one, *yy, *square;
};

static void deinit(struct sampled *s)
{
    const struct backend_ops *o = s->p->be->ops;
    o->mat_free(s->p->be, &s->wide);
    o->mat_free(s->p->be, &s->R);
    o->mat_free(s->p->be, &s->S);
    mem_free(s->rough);
    mem_free(s->exact);
    mem_free(s->p_row);
    mem_free(s->chance);
    mem_free(s->index);
    mem_free(s->numbers);
}

static int init_host(struct sampled *s, struct err *err)
{
    const size_t n = (size_t)s->p->n, t = (size_t)s->p->t, rows = (size_t)s->rows;
    s->rough = mem_array(n * t, sizeof(double));
    s->exact = mem_array(rows * t, sizeof(double));
    s->p_row = mem_array(n, sizeof(double));
    s->chance = mem_array(n, sizeof(double));
    s->index = mem_array(rows, sizeof(int64_t));
    s->numbers = mem_zarray(t, 4 * sizeof(double));
    if (!s->rough || !s->exact || !s->p_row || !s->chance || !s->index || !s->numbers) {
        return err_no_memory(err);
    }
    double **const members[] = {&s->minus_ridge, &s->one, &s->yy, &s->square};
    for (int64_t k = 0; k < 4; k++) {
        *members[k] = s->numbers + k * s->p->t;
    }
    for (int64_t j = 0; j < s->p->t; j++) {
        s->minus_ridge[j] = -s->p->ridge;
        s->one[j] = 1.0;
    }
    return 0;
}

static int init(struct sampled *s, struct err *err)
{
    const struct backend_ops *o = s->p->be->ops;
    const int64_t n = s->p->n, t = s->p->t;
    int r = init_host(s, err);
    if (r == 0) {
        r = o->mat_new(s->p->be, DTYPE_F64, n, t, &s->wide, err);
    }
    if (r == 0) {
        r = o->mat_new(s->p->be, DTYPE_F64, n, t, &s->R, err);
    }
    if (r == 0) {
        r = o->mat_new(s->p->be, DTYPE_F64, s->rows, t, &s->S, err);
    }
    return r;
}

/* ---- the float32 residual ---- */

/* R = Y - (K + ridge I) A with the kernel values of X, |Y_j|^2 and |R_j|^2. */
static int rough_residual(struct sampled *s, const struct points *X, struct err *err)
{
    struct backend *be = s->p->be;
    const struct backend_ops *o = be->ops;
    const struct view all = view_all(X, s->p->n);
    int r = o->copy(be, s->A, &s->wide, err);
    if (r == 0) {
        r = o->copy(be, &s->p->Y, &s->R, err);
    }
    if (r == 0) {
        r = o->col_dots(be, &s->R, &s->R, s->yy, err);
    }
    if (r == 0) {
        r = certify_subtract(be, all, all, CERTIFY_PIECE, &s->wide, s->stop, &s->R, err);
    }
    if (r == 0) {
        r = o->col_axpby(be, s->minus_ridge, &s->wide, s->one, &s->R, err);
    }
    if (r == 0) {
        r = o->col_dots(be, &s->R, &s->R, s->square, err);
    }
    return r == 0 ? o->mat_get(be, &s->R, s->rough, s->p->n, err) : r;
}

static int look_roughly(struct sampled *s, const struct kernel *kernel, const struct rows *host,
                        struct err *err)
{
    const struct backend_ops *o = s->p->be->ops;
    struct points *X = NULL;
    int r = o->points_new(s->p->be, kernel, DTYPE_F32, host, &X, err);
    if (r == 0) {
        r = rough_residual(s, X, err);
    }
    if (X != NULL) {
        o->points_free(s->p->be, X);
    }
    return r;
}

/* ---- the draw ---- */

static bool usable(const struct sampled *s, int64_t j)
{
    return isfinite(s->square[j]) && s->square[j] > 0;
}

static void set_chances(struct sampled *s)
{
    const int64_t n = s->p->n;
    int64_t columns = 0;
    for (int64_t j = 0; j < s->p->t; j++) {
        columns += usable(s, j);
    }
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double share = 0;
        for (int64_t j = 0; j < s->p->t; j++) {
            const double e = s->rough[i + j * n];
            share += usable(s, j) ? e * e / s->square[j] / (double)columns : 0.0;
        }
        s->p_row[i] = columns > 0 ? 0.5 * share + 0.5 / (double)n : 1.0 / (double)n;
        sum += s->p_row[i];
        s->chance[i] = sum;
    }
}

static void draw(struct sampled *s, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_CERTIFY);
    const int64_t n = s->p->n;
    for (int64_t k = 0; k < s->rows; k++) {
        s->index[k] = sort_first_above(s->chance, n, rng_uniform(&rng) * s->chance[n - 1]);
    }
}

/* ---- the rows drawn, in float64 ---- */

/* S = Y_I - K(I,:) A - ridge A_I, through T of the same shape. */
static int drawn_residual(struct sampled *s, const struct points *X, const struct mat *T,
                          struct err *err)
{
    struct backend *be = s->p->be;
    const struct backend_ops *o = be->ops;
    const struct view drawn = view_index(X, s->index, s->rows);
    int r = o->copy(be, &s->p->Y, &s->R, err);
    if (r == 0) {
        r = o->gather_rows(be, &s->R, s->index, &s->S, err);
    }
    if (r == 0) {
        r = o->gather_rows(be, &s->wide, s->index, T, err);
    }
    if (r == 0) {
        r = certify_subtract(be, drawn, view_all(X, s->p->n), CERTIFY_PIECE, &s->wide, s->stop,
                             &s->S, err);
    }
    if (r == 0) {
        r = o->col_axpby(be, s->minus_ridge, T, s->one, &s->S, err);
    }
    return r == 0 ? o->mat_get(be, &s->S, s->exact, s->rows, err) : r;
}

static int look_closely(struct sampled *s, const struct kernel *kernel, const struct rows *host,
                        struct err *err)
{
    const struct backend_ops *o = s->p->be->ops;
    const struct points *exact = s->p->exact;
    struct points *own = NULL;
    struct mat T = {0};
    int r = exact != NULL ? 0 : o->points_new(s->p->be, kernel, DTYPE_F64, host, &own, err);
    if (r == 0) {
        r = o->mat_new(s->p->be, DTYPE_F64, s->rows, s->p->t, &T, err);
    }
    if (r == 0) {
        r = drawn_residual(s, exact != NULL ? exact : own, &T, err);
    }
    o->mat_free(s->p->be, &T);
    if (own != NULL) {
        o->points_free(s->p->be, own);
    }
    return r;
}

/* ---- estimate and bound ---- */

/* The largest r_ij^2 / p_i to reckon with in column j; NaN when a rough residual is: where float32
 * kernel values overflow nothing is known of the rows that were not drawn. */
static double range(const struct sampled *s, int64_t j)
{
    const int64_t n = s->p->n;
    const double rms = usable(s, j) ? sqrt(s->square[j] / (double)n) : 0.0;
    double worst = 0, largest = 0;
    for (int64_t k = 0; k < s->rows; k++) {
        const double scale = fabs(s->rough[s->index[k] + j * n]) + rms;
        const double e = fabs(s->exact[k + j * s->rows]);
        worst = fmax(worst, e > 0 ? e / scale : 0.0);
    }
    for (int64_t i = 0; i < n; i++) {
        const double scale = fabs(s->rough[i + j * n]) + rms;
        if (!isfinite(scale)) {
            return NAN;
        }
        largest = fmax(largest, scale * scale / s->p_row[i]);
    }
    return 4.0 * worst * worst * largest;
}

static void judge_column(const struct sampled *s, int64_t j, double *ret_residual,
                         double *ret_bound)
{
    const double m = (double)s->rows;
    double mean = 0, spread = 0;
    for (int64_t k = 0; k < s->rows; k++) {
        const double e = s->exact[k + j * s->rows];
        mean += e * e / s->p_row[s->index[k]] / m;
    }
    for (int64_t k = 0; k < s->rows; k++) {
        const double e = s->exact[k + j * s->rows];
        const double x = e * e / s->p_row[s->index[k]] - mean;
        spread += x * x / (m - 1.0);
    }
    const double log_term = log(2.0 * (double)s->p->t / confidence_missed);
    const double above =
        sqrt(2.0 * spread * log_term / m) + 7.0 * range(s, j) * log_term / (3.0 * (m - 1.0));
    const double y = s->yy[j] > 0 ? sqrt(s->yy[j]) : 1.0;
    *ret_residual = sqrt(mean) / y;
    *ret_bound = sqrt(mean + above) / y;
}

/* fmax would pass over a NaN. */
static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
}

static void judge(const struct sampled *s, struct certificate *ret)
{
    *ret = (struct certificate){.sampled = true};
    for (int64_t j = 0; j < s->p->t; j++) {
        double residual, bound;
        judge_column(s, j, &residual, &bound);
        ret->residual = larger(ret->residual, residual);
        ret->bound = larger(ret->bound, bound);
    }
}

int certify_sampled(const struct problem *p, const struct kernel *kernel, const struct rows *host,
                    const struct mat *A, int64_t rows, uint64_t seed,
                    const struct certify_stop *stop, struct certificate *ret, struct err *err)
{
    struct sampled s = {.p = p, .A = A, .stop = stop, .rows = rows};
    int r = init(&s, err);
    if (r == 0) {
        r = look_roughly(&s, kernel, host, err);
    }
    if (r == 0) {
        set_chances(&s);
        draw(&s, seed);
        r = look_closely(&s, kernel, host, err);
    }
    if (r == 0) {
        judge(&s, ret);
    }
    deinit(&s);
    return r;
}
