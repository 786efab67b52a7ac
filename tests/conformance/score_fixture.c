#include "conformance/score_fixture.h"

#include "base/mem.h"

static struct table *uneven_table(enum dtype dtype)
{
    struct rng rng = rng_new(12, RNG_TEST);
    double *x = host_normal(&rng, N * D);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < D; j++) {
            x[i * D + j] *= i % 20 == 0 ? 6.0 : 0.7;
        }
    }
    return table_new(x, N, D, dtype);
}

double *scored_exactly(const struct scored *w)
{
    const struct backend_ops *o = w->be->ops;
    const double ridge = lambda * N;
    struct points *P = NULL;
    cleanup_mem double *x = mem_array(N * D, sizeof(double));
    double *ret = host_zeros(N);
    for (int64_t i = 0; i < N * D; i++) {
        x[i] = table_at(w->t, i / D, i % D);
    }
    const struct rows X = {.dtype = DTYPE_F64, .n = N, .d = D, .data = x};
    must(o->points_new(w->be, &w->kernel, DTYPE_F64, &X, &P, &err));
    struct mat K = device_mat(w->be, DTYPE_F64, N, N, NULL);
    struct mat I = device_mat(w->be, DTYPE_F64, N, N, NULL);
    must(o->kblock(w->be, view_all(P, N), view_all(P, N), &K, &err));
    must(o->add_diag(w->be, ridge, &K, &err));
    must(o->add_diag(w->be, 1.0, &I, &err));
    must(o->potrf(w->be, &K, 0.0, NULL, &err));
    must(o->trsm(w->be, false, false, &K, &I, &err));
    must(o->col_dots(w->be, &I, &I, ret, &err));
    for (int64_t i = 0; i < N; i++) {
        ret[i] = 1.0 - ridge * ret[i];
    }
    o->mat_free(w->be, &K);
    o->mat_free(w->be, &I);
    o->points_free(w->be, P);
    return ret;
}

struct scored scored_new(enum dtype dtype, int threads)
{
    struct scored w = {
        .t = uneven_table(dtype),
        .be = device_open(threads),
        .kernel = {.id = KERNEL_GAUSSIAN, .d = D, .bandwidth = 1.0},
    };
    w.task = (struct center_task){
        .be = w.be, .regularization = lambda, .dtype = dtype, .rows = &w.t->source, .seed = 3};
    w.exact = scored_exactly(&w);
    return w;
}

void scored_free(struct scored *w)
{
    table_free(w->t);
    device_close(w->be);
    mem_free(w->exact);
}

struct centers scored_select(struct scored *w, const char *name, const char *json)
{
    struct centers c = {0};
    w->task.kernel = &w->kernel;
    must(table_select(&w->task, name, json, 0, &c, &err));
    return c;
}

double scored_dimension(const struct scored *w)
{
    double sum = 0;
    for (int64_t i = 0; i < N; i++) {
        sum += w->exact[i];
    }
    return sum;
}
