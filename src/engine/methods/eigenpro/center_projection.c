#include "engine/methods/eigenpro/center_projection.h"

#include <float.h>

#include "base/mem.h"
#include "engine/methods/eigenpro/eigenpro.h"
#include "engine/methods/normal_core.h"

#define STEP_VALUES 1e8 /* kernel values of a step */
#define BATCH_BYTES (INT64_C(64) << 20)

struct center_projection {
    struct center_projection_spec spec;
    struct backend *be;
    int64_t m, t;
    bool ready;
    struct mat L;              /* exact */
    struct mat H, theta, work; /* float64, m x t */
    /* inexact */
    int64_t s;
    int64_t *order; /* [m] the first s are the subsample */
    struct eigenpro *pre;
    int64_t batch;
    double step;
    int64_t epoch, next;
    struct mat G, KSG, T; /* batch x t, s x t, q x t */
    struct mat K;         /* batch x s */
};

struct center_projection *center_projection_free(struct center_projection *c)
{
    if (c != NULL) {
        struct mat *const all[] = {&c->L, &c->H, &c->theta, &c->work, &c->G, &c->KSG, &c->T, &c->K};
        for (int i = 0; i < 8; i++) {
            c->be->ops->mat_free(c->be, all[i]);
        }
        eigenpro_free(c->pre);
        mem_free(c->order);
        mem_free(c);
    }
    return NULL;
}

static int prepare_inexact(struct center_projection *c, struct err *err)
{
    c->s = c->spec.subsample < c->m ? c->spec.subsample : c->m;
    c->order = mem_array((size_t)c->m, sizeof(*c->order));
    if (c->order == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < c->m; i++) {
        c->order[i] = i;
    }
    struct rng rng = rng_new(c->spec.p->seed, RNG_PRECOND);
    rng_shuffle(&rng, c->order, c->m);
    const int64_t most = BATCH_BYTES / (c->s * (int64_t)sizeof(double));
    const struct eigenpro_spec spec = {
        .be = c->be,
        .X = c->spec.p->restricted->core,
        .n = c->m,
        .order = c->order,
        .s = c->s,
        .q = c->spec.eigenvectors,
        .max_batch = most > 1 ? most : 1,
        .alpha = 0.95,
        .rounding = DBL_EPSILON,
        .dtype = DTYPE_F64,
        .rng = rng,
    };
    return eigenpro_new(&spec, &c->pre, err);
}

int center_projection_new(const struct center_projection_spec *spec, struct center_projection **ret,
                          struct err *err)
{
    struct center_projection *c = mem_zalloc(sizeof(*c));
    if (c == NULL) {
        return err_no_memory(err);
    }
    c->spec = *spec;
    c->be = spec->p->be;
    c->m = spec->p->restricted->m;
    c->t = spec->p->t;
    int r = spec->exact ? 0 : prepare_inexact(c, err);
    struct mat *const all[] = {&c->H, &c->theta, &c->work};
    for (int i = 0; r == 0 && i < 3; i++) {
        r = c->be->ops->mat_new(c->be, DTYPE_F64, c->m, c->t, all[i], err);
    }
    if (r < 0) {
        center_projection_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

static int make_buffers(struct center_projection *c, struct err *err)
{
    c->batch = eigenpro_batch(c->pre);
    c->step = eigenpro_rate(c->pre, c->batch) / (double)c->batch;
    const struct {
        struct mat *m;
        int64_t rows, cols;
    } buffers[] = {
        {&c->G, c->batch, c->t},
        {&c->KSG, c->s, c->t},
        {&c->T, eigenpro_rank(c->pre), c->t},
        {&c->K, c->batch, c->s},
    };
    int r = 0;
    for (int i = 0; r == 0 && i < 4; i++) {
        r = c->be->ops->mat_new(c->be, DTYPE_F64, buffers[i].rows, buffers[i].cols, buffers[i].m,
                                err);
    }
    return r;
}

int center_projection_build(struct center_projection *c, double *ret_fraction, struct err *err)
{
    int r = c->ready;
    *ret_fraction = 1.0;
    if (!c->ready && c->spec.exact) {
        r = core_factor(c->spec.p, &c->L, err);
        r = r == 0 ? 1 : r;
    } else if (!c->ready) {
        r = eigenpro_step(c->pre, ret_fraction, err);
        const int made = r > 0 ? make_buffers(c, err) : 0;
        r = made < 0 ? made : r;
    }
    c->ready = r > 0;
    return r;
}

const struct mat *center_projection_factor(const struct center_projection *c)
{
    return c->ready && c->spec.exact ? &c->L : NULL;
}

int center_projection_begin(struct center_projection *c, const struct mat *H, struct err *err)
{
    const double zero[2] = {0.0, 0.0};
    const struct backend_ops *o = c->be->ops;
    int r = o->copy(c->be, H, &c->H, err);
    for (int64_t j = 0; r == 0 && !c->spec.exact && j < c->t; j++) {
        const struct mat from = mat_cols(c->H, j, 1), to = mat_cols(c->theta, j, 1);
        r = o->col_axpby(c->be, zero, &from, zero + 1, &to, err);
    }
    c->epoch = c->next = 0;
    return r;
}

/* theta_S += step W W' K(S,C) G. */
static int correct(struct center_projection *c, struct view C, const struct mat *G, struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    const struct mat W = eigenpro_weights(c->pre), K = mat_rows(c->K, 0, G->rows);
    const struct view S = view_index(C.points, c->order, c->s);
    cleanup_mem double *ones = mem_array((size_t)c->t, sizeof(double));
    if (ones == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < c->t; j++) {
        ones[j] = 1.0;
    }
    int r = o->kblock(c->be, C, S, &K, err);
    if (r == 0) {
        r = o->gemm(c->be, true, false, 1.0, &K, G, 0.0, &c->KSG, err);
    }
    if (r == 0) {
        r = o->gemm(c->be, true, false, 1.0, &W, &c->KSG, 0.0, &c->T, err);
    }
    if (r == 0) {
        r = o->gemm(c->be, false, false, c->step, &W, &c->T, 0.0, &c->KSG, err);
    }
    return r == 0 ? o->add_rows(c->be, ones, &c->KSG, c->order, &c->theta, err) : r;
}

/* G = K(C,Z) theta - H_C, theta_C -= step G, and the correction. */
static int descend(struct center_projection *c, int64_t count, struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    const struct points *core = c->spec.p->restricted->core;
    const int64_t *index = c->order + c->next;
    const struct view C = view_index(core, index, count);
    const struct mat G = mat_rows(c->G, 0, count);
    cleanup_mem double *down = mem_array((size_t)c->t, sizeof(double));
    if (down == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < c->t; j++) {
        down[j] = -c->step;
    }
    int r = o->gather_rows(c->be, &c->H, index, &G, err);
    if (r == 0) {
        r = o->kmv(c->be, C, view_all(core, c->m), 1.0, &c->theta, -1.0, &G, err);
    }
    if (r == 0) {
        r = o->add_rows(c->be, down, &G, index, &c->theta, err);
    }
    return r == 0 && eigenpro_rank(c->pre) > 0 ? correct(c, C, &G, err) : r;
}

static int step_inexact(struct center_projection *c, struct err *err)
{
    double values = 0;
    int r = 0;
    while (r == 0 && c->epoch < c->spec.epochs && values < STEP_VALUES) {
        const int64_t left = c->m - c->next, count = left < c->batch ? left : c->batch;
        r = descend(c, count, err);
        values += (double)count * (double)c->m;
        c->next += count;
        c->epoch += c->next == c->m;
        c->next = c->next == c->m ? 0 : c->next;
    }
    return r < 0 ? r : c->epoch == c->spec.epochs;
}

int center_projection_step(struct center_projection *c, struct mat *ret, struct err *err)
{
    int r = 1;
    if (c->spec.exact) {
        const int solved = core_solve(c->be, &c->L, &c->work, &c->H, &c->theta, err);
        r = solved < 0 ? solved : 1;
    } else {
        r = step_inexact(c, err);
    }
    *ret = c->theta;
    return r;
}
