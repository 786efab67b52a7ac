#include "engine/search/center_path.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/evidence.h"
#include "engine/memory.h"
#include "plan/rules.h"

#define JITTER 1e-15     /* of K_mm's largest number, for each center, added to its diagonal; */
#define JITTER_MOST 1e-6 /* where that does not do a hundred times as much, up to this */
#define LEAST_LEFT 1e-10 /* of 1 - u (D + ridge)^-1 u': below it is rounding */

struct path {
    const struct center_path_task *task;
    int64_t m, t, tile;
    struct points *Z;
    struct mat L, G; /* [m, m]; G: F'F, then Q */
    struct mat F, U; /* [tile, m] */
    struct mat Y, B; /* [tile, t]; [m, t]: F'Y, then Q' of it */
    struct mat W, P; /* [m, t count], [tile, t count]: coefficients, predictions */
    struct mat V, H; /* [m, count], [tile, count]: (D + ridge)^-1, leverages */
    double largest;  /* k(z,z) */
    double trace;    /* of K of all rows, where the evidence pays for what the centers leave */
    double *squares; /* [t] Y'Y */
    double *values;  /* [m] D, ascending */
    void *X_host;    /* [tile, d] */
    double *Y_host;  /* [tile, t] column-major */
    double *numbers; /* [tile, max(m, t count)] */
    double done;     /* multiplications */
};

/* 2 n m^2 for either pass over the rows, and 9 m^3. */
static void tell(struct path *p, double more)
{
    const double m = (double)p->m, all = 4.0 * (double)p->task->n * m * m + 9.0 * m * m * m;
    p->done += more;
    if (p->task->told != NULL) {
        p->task->told(p->task->told_context, fmin(p->done / all, 1.0));
    }
}

static void deinit(struct path *p)
{
    const struct backend_ops *o = p->task->be->ops;
    struct mat *const all[] = {&p->L, &p->G, &p->F, &p->U, &p->Y,
                               &p->B, &p->W, &p->P, &p->V, &p->H};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        o->mat_free(p->task->be, all[i]);
    }
    if (p->Z != NULL) {
        o->points_free(p->task->be, p->Z);
    }
    mem_free(p->values);
    mem_free(p->squares);
    mem_free(p->X_host);
    mem_free(p->Y_host);
    mem_free(p->numbers);
}

static int make_matrices(struct path *p, struct err *err)
{
    struct backend *be = p->task->be;
    const int64_t m = p->m, count = p->task->count;
    const struct {
        struct mat *mat;
        int64_t rows, cols;
    } all[] = {{&p->L, m, m},
               {&p->G, m, m},
               {&p->F, p->tile, m},
               {&p->U, p->tile, m},
               {&p->Y, p->tile, p->t},
               {&p->B, m, p->t},
               {&p->W, m, p->t * count},
               {&p->P, p->tile, p->t * count},
               {&p->V, m, count},
               {&p->H, p->tile, count}};
    int r = memory_check_matrix(be, 3 * m + 2 * p->tile, m, DTYPE_F64, "search's features", err);
    for (size_t i = 0; r == 0 && i < sizeof(all) / sizeof(all[0]); i++) {
        r = be->ops->mat_new(be, DTYPE_F64, all[i].rows, all[i].cols, all[i].mat, err);
    }
    return r;
}

static int init(struct path *p, const struct center_path_task *task, struct err *err)
{
    const struct row_source *rows = task->rows;
    *p = (struct path){.task = task, .m = task->Z->n, .t = rows->t};
    p->tile = rule_search_tile(task->n, p->t * task->count);
    const int64_t wide = p->m > p->t * task->count ? p->m : p->t * task->count;
    p->values = mem_array((size_t)p->m, sizeof(double));
    p->squares = mem_zarray((size_t)p->t, sizeof(double));
    p->X_host = mem_array((size_t)(p->tile * rows->d), dtype_size(rows->dtype));
    p->Y_host = mem_array((size_t)(p->tile * p->t), sizeof(double));
    p->numbers = mem_array((size_t)p->tile, (size_t)wide * sizeof(double));
    if (p->values == NULL || p->squares == NULL || p->X_host == NULL || p->Y_host == NULL ||
        p->numbers == NULL) {
        return err_no_memory(err);
    }
    const int r = make_matrices(p, err);
    return r == 0
               ? task->be->ops->points_new(task->be, task->kernel, DTYPE_F64, task->Z, &p->Z, err)
               : r;
}

static int find_largest(struct path *p, struct err *err)
{
    struct backend *be = p->task->be;
    struct mat d = {0};
    int r = be->ops->mat_new(be, DTYPE_F64, p->m, 1, &d, err);
    r = r == 0 ? be->ops->kdiag(be, view_all(p->Z, p->m), &d, err) : r;
    r = r == 0 ? be->ops->mat_get(be, &d, p->values, p->m, err) : r;
    be->ops->mat_free(be, &d);
    for (int64_t i = 0; r == 0 && i < p->m; i++) {
        p->largest = fmax(p->largest, p->values[i]);
    }
    return r;
}

/* L <- the factor of K_mm with as little on its diagonal as lets it have one. */
static int factorise(struct path *p, struct err *err)
{
    struct backend *be = p->task->be;
    const struct view Z = view_all(p->Z, p->m);
    const int found = find_largest(p, err);
    int r = found < 0 ? found : -ERR_NOT_POSITIVE_DEFINITE;
    for (double jitter = JITTER * (double)p->m;
         r == -ERR_NOT_POSITIVE_DEFINITE && jitter < JITTER_MOST; jitter *= 100.0) {
        r = be->ops->kblock(be, Z, Z, &p->L, err);
        r = r == 0 ? be->ops->add_diag(be, jitter * p->largest, &p->L, err) : r;
        r = r == 0 ? be->ops->potrf(be, &p->L, 0.0, NULL, err) : r;
    }
    return r;
}

/* ---- tiles ---- */

/* Rows `first` .. of the tile to the backend; F <- their features, H <- their k(x,x). */
static int load_tile(struct path *p, int64_t first, int64_t count, struct err *err)
{
    const struct center_path_task *task = p->task;
    const struct row_source *rows = task->rows;
    const struct backend_ops *o = task->be->ops;
    const struct rows host = {.dtype = rows->dtype, .n = count, .d = rows->d, .data = p->X_host};
    const struct mat F = mat_rows(p->F, 0, count), Y = mat_rows(p->Y, 0, count);
    const struct mat d = mat_cols(mat_rows(p->H, 0, count), 0, 1);
    struct points *X = NULL;
    int r = task->stop(task->stop_context, err);
    r = r == 0 ? rows->read(rows, 0, task->index + first, count, p->X_host, p->Y_host, err) : r;
    r = r == 0 ? o->mat_put(task->be, p->Y_host, count, &Y, err) : r;
    r = r == 0 ? o->points_new(task->be, task->kernel, DTYPE_F64, &host, &X, err) : r;
    r = r == 0 ? o->kblock(task->be, view_all(X, count), view_all(p->Z, p->m), &F, err) : r;
    r = r == 0 ? o->trsm(task->be, true, true, &p->L, &F, err) : r;
    r = r == 0 ? o->kdiag(task->be, view_all(X, count), &d, err) : r;
    if (X != NULL) {
        o->points_free(task->be, X);
    }
    return r;
}

/* Y'Y and trace(K) of the tile, whose k(x,x) are in H. */
static int add_squares(struct path *p, int64_t count, struct err *err)
{
    const struct mat d = mat_cols(mat_rows(p->H, 0, count), 0, 1);
    const int r = p->task->be->ops->mat_get(p->task->be, &d, p->numbers, count, err);
    for (int64_t i = 0; r == 0 && i < count; i++) {
        p->trace += p->numbers[i];
    }
    for (int64_t k = 0; r == 0 && k < count * p->t; k++) {
        p->squares[k / count] += p->Y_host[k] * p->Y_host[k];
    }
    return r;
}

/* G += F'F, B += F'Y of a tile. */
static int add_tile(struct path *p, int64_t first, int64_t count, double *ret_missed,
                    struct err *err)
{
    (void)ret_missed;
    struct backend *be = p->task->be;
    const struct mat F = mat_rows(p->F, 0, count), Y = mat_rows(p->Y, 0, count);
    int r = load_tile(p, first, count, err);
    r = r == 0 ? add_squares(p, count, err) : r;
    r = r == 0 ? be->ops->syrk(be, true, 1.0, &F, 1.0, &p->G, err) : r;
    return r == 0 ? be->ops->gemm(be, true, false, 1.0, &F, &Y, 1.0, &p->B, err) : r;
}

/* H <- the tile's leverages from U, whose squares are made on the host. */
static int find_leverages(struct path *p, const struct mat *U, const struct mat *H, struct err *err)
{
    struct backend *be = p->task->be;
    int r = be->ops->mat_get(be, U, p->numbers, U->rows, err);
    for (int64_t k = 0; r == 0 && k < U->rows * U->cols; k++) {
        p->numbers[k] *= p->numbers[k];
    }
    r = r == 0 ? be->ops->mat_put(be, p->numbers, U->rows, U, err) : r;
    return r == 0 ? be->ops->gemm(be, false, false, 1.0, U, &p->V, 0.0, H, err) : r;
}

/* NaN where nothing but rounding is left of a row once the model knows it. */
static double missed_by(double residual, double leverage)
{
    const double left = 1.0 - leverage;
    return left < LEAST_LEFT ? (double)NAN : residual / left;
}

/* What the tile's rows are missed by. Leverages are asked for once for all targets. */
static int write_tile(struct path *p, int64_t first, int64_t count, const struct mat *P,
                      const struct mat *H, double *ret_missed, struct err *err)
{
    const struct center_path_task *task = p->task;
    cleanup_mem double *leverage = mem_array((size_t)(count * task->count), sizeof(*leverage));
    if (leverage == NULL) {
        return err_no_memory(err);
    }
    int r = task->be->ops->mat_get(task->be, H, leverage, count, err);
    r = r == 0 ? task->be->ops->mat_get(task->be, P, p->numbers, count, err) : r;
    for (int64_t c = 0; r == 0 && c < p->t * task->count; c++) {
        const double *h = leverage + c / p->t * count, *y = p->Y_host + c % p->t * count;
        for (int64_t i = 0; i < count; i++) {
            ret_missed[first + i + c * task->n] = missed_by(y[i] - p->numbers[i + c * count], h[i]);
        }
    }
    return r;
}

static int judge_tile(struct path *p, int64_t first, int64_t count, double *ret_missed,
                      struct err *err)
{
    struct backend *be = p->task->be;
    const struct mat F = mat_rows(p->F, 0, count), U = mat_rows(p->U, 0, count);
    const struct mat P = mat_rows(p->P, 0, count), H = mat_rows(p->H, 0, count);
    int r = load_tile(p, first, count, err);
    r = r == 0 ? be->ops->gemm(be, false, false, 1.0, &F, &p->G, 0.0, &U, err) : r;
    r = r == 0 ? be->ops->gemm(be, false, false, 1.0, &U, &p->W, 0.0, &P, err) : r;
    r = r == 0 ? find_leverages(p, &U, &H, err) : r;
    return r == 0 ? write_tile(p, first, count, &P, &H, ret_missed, err) : r;
}

/* ---- ridges ---- */

/* Beyond doubt of rounding, as ridge_path_defined(). */
static bool defined(const struct path *p, double ridge)
{
    const double largest = fmax(fabs(p->values[0]), fabs(p->values[p->m - 1]));
    return ridge >= p->task->least * (double)p->task->n * p->largest &&
           p->values[0] + ridge > (double)p->m * DBL_EPSILON * largest;
}

/* Of all targets, from b = Q'F'Y. */
static double evidence(const struct path *p, double ridge, const double *b)
{
    double log_det = (double)(p->task->n - p->m) * log(ridge), shown = 0, sum = 0;
    for (int64_t i = 0; i < p->m; i++) {
        log_det += log(p->values[i] + ridge);
        shown += p->values[i];
    }
    const struct evidence of = {.n = p->task->n,
                                .ridge = ridge,
                                .amplitude = p->task->amplitude,
                                .log_det = log_det,
                                .left_out = p->task->bound ? fmax(p->trace - shown, 0.0) : 0.0};
    for (int64_t j = 0; j < p->t; j++) {
        double misfit = p->squares[j];
        for (int64_t i = 0; i < p->m; i++) {
            misfit -= b[i + j * p->m] * b[i + j * p->m] / (p->values[i] + ridge);
        }
        sum += evidence_of_target(&of, fmax(misfit, 0.0));
    }
    return sum;
}

static void judge_ridges(struct path *p, const double *b)
{
    for (int64_t l = 0; l < p->task->count; l++) {
        const double ridge = p->task->ridges[l];
        p->task->ret_evidence[l] = defined(p, ridge) ? evidence(p, ridge, b) : (double)NAN;
    }
}

/* V and W: (D + ridge)^-1 of each ridge, and that times Q'F'Y; NaN where it is not defined. */
static int solve_ridges(struct path *p, struct err *err)
{
    struct backend *be = p->task->be;
    const int64_t m = p->m, t = p->t, count = p->task->count;
    cleanup_mem double *b = mem_array((size_t)(m * t), sizeof(*b));
    cleanup_mem double *v = mem_array((size_t)(m * count), sizeof(*v));
    cleanup_mem double *w = mem_array((size_t)(m * count), (size_t)t * sizeof(*w));
    if (b == NULL || v == NULL || w == NULL) {
        return err_no_memory(err);
    }
    const struct mat QB = mat_cols(p->W, 0, t);
    int r = be->ops->gemm(be, true, false, 1.0, &p->G, &p->B, 0.0, &QB, err);
    r = r == 0 ? be->ops->mat_get(be, &QB, b, m, err) : r;
    for (int64_t k = 0; r == 0 && k < m * count; k++) {
        const double ridge = p->task->ridges[k / m];
        v[k] = defined(p, ridge) ? 1.0 / (p->values[k % m] + ridge) : (double)NAN;
        for (int64_t j = 0; j < t; j++) {
            w[k % m + (k / m * t + j) * m] = v[k] * b[k % m + j * m];
        }
    }
    if (r == 0 && p->task->ret_evidence != NULL) {
        judge_ridges(p, b);
    }
    r = r == 0 ? be->ops->mat_put(be, v, m, &p->V, err) : r;
    return r == 0 ? be->ops->mat_put(be, w, m, &p->W, err) : r;
}

typedef int tile_function(struct path *p, int64_t first, int64_t count, double *ret_missed,
                          struct err *err);

static int each_tile(struct path *p, tile_function *function, double *ret_missed, struct err *err)
{
    int r = 0;
    for (int64_t first = 0; r == 0 && first < p->task->n; first += p->tile) {
        const int64_t left = p->task->n - first, count = left < p->tile ? left : p->tile;
        r = function(p, first, count, ret_missed, err);
        tell(p, 2.0 * (double)count * (double)p->m * (double)p->m);
    }
    return r;
}

static int decompose(struct path *p, struct err *err)
{
    const double m = (double)p->m;
    const int r = p->task->be->ops->eigh(p->task->be, &p->G, p->values, err);
    tell(p, 9.0 * m * m * m);
    return r;
}

int center_path_left_out(const struct center_path_task *task, double *ret_missed, struct err *err)
{
    struct path p;
    int r = init(&p, task, err);
    r = r == 0 ? factorise(&p, err) : r;
    r = r == 0 ? each_tile(&p, add_tile, ret_missed, err) : r;
    r = r == 0 ? task->stop(task->stop_context, err) : r;
    r = r == 0 ? decompose(&p, err) : r;
    r = r == 0 ? solve_ridges(&p, err) : r;
    r = r == 0 ? each_tile(&p, judge_tile, ret_missed, err) : r;
    deinit(&p);
    return r;
}
