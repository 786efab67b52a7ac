#include "engine/solve/pace.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

enum { TURNS = 3, SQUARE = 512, POINTS = 2048 };
/* A clock may stand still for as long. */
static const double least_s = 1e-6;
/* Bytes a second that a core reads, and how many cores a memory serves so. */
static const double usual_bytes = 5e9, usual_readers = 4;

struct stopwatch {
    double (*now)(void *context);
    void *context;
};

static double middle(const double s[TURNS])
{
    const double low = fmin(s[0], s[1]), high = fmax(s[0], s[1]);
    return fmax(fmax(low, fmin(high, s[2])), least_s);
}

/* Seconds of C <- A A'; the sum waits for a device. */
static int time_dense(struct backend *be, const struct stopwatch *w, double *ret, struct err *err)
{
    const struct backend_ops *o = be->ops;
    struct mat A = {0}, C = {0};
    double seconds[TURNS], sum;
    int r = o->mat_new(be, DTYPE_F64, SQUARE, SQUARE, &A, err);
    r = r == 0 ? o->mat_new(be, DTYPE_F64, SQUARE, SQUARE, &C, err) : r;
    r = r == 0 ? o->add_diag(be, 1.0, &A, err) : r;
    for (int i = 0; r == 0 && i < TURNS; i++) {
        const double began = w->now(w->context);
        const struct mat column = mat_cols(C, 0, 1);
        r = o->gemm(be, false, true, 1.0, &A, &A, 0.0, &C, err);
        r = r == 0 ? o->col_dots(be, &column, &column, &sum, err) : r;
        seconds[i] = w->now(w->context) - began;
    }
    o->mat_free(be, &C);
    o->mat_free(be, &A);
    *ret = r == 0 ? middle(seconds) : 0;
    return r;
}

static int time_products(struct backend *be, const struct points *X, const struct stopwatch *w,
                         double *ret, struct err *err)
{
    const struct backend_ops *o = be->ops;
    const struct view all = view_all(X, POINTS);
    struct mat V = {0}, Y = {0};
    double seconds[TURNS], sum;
    int r = o->mat_new(be, DTYPE_F64, POINTS, 1, &V, err);
    r = r == 0 ? o->mat_new(be, DTYPE_F64, POINTS, 1, &Y, err) : r;
    for (int i = 0; r == 0 && i < TURNS; i++) {
        const double began = w->now(w->context);
        r = o->kmv(be, all, all, 1.0, &V, 0.0, &Y, err);
        r = r == 0 ? o->col_dots(be, &Y, &Y, &sum, err) : r;
        seconds[i] = w->now(w->context) - began;
    }
    o->mat_free(be, &Y);
    o->mat_free(be, &V);
    *ret = r == 0 ? middle(seconds) : 0;
    return r;
}

/* Seconds of a product with the kernel values of POINTS points. */
static int time_kernel(struct backend *be, const struct stopwatch *w, double *ret, struct err *err)
{
    enum { NUMBERS = POINTS * PLAN_RATE_FEATURES };
    const struct kernel k = {
        .id = KERNEL_GAUSSIAN, .d = PLAN_RATE_FEATURES, .bandwidth = 1.5, .gamma = 1.0};
    cleanup_mem double *numbers = mem_array(NUMBERS, sizeof(*numbers));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(1, RNG_AUTO);
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = rng_normal(&rng);
    }
    const struct rows rows = {
        .dtype = DTYPE_F64, .n = POINTS, .d = PLAN_RATE_FEATURES, .data = numbers};
    struct points *X = NULL;
    int r = be->ops->points_new(be, &k, DTYPE_F64, &rows, &X, err);
    if (r == 0) {
        r = time_products(be, X, w, ret, err);
        be->ops->points_free(be, X);
    }
    return r;
}

int pace_measure(struct backend *be, double (*now)(void *context), void *context,
                 struct plan_rates *ret, struct err *err)
{
    const struct stopwatch w = {.now = now, .context = context};
    const double square = SQUARE, points = POINTS;
    const int64_t entries = be->kernel_entries;
    double dense_s, kernel_s = 0;
    int r = time_dense(be, &w, &dense_s, err);
    r = r == 0 ? time_kernel(be, &w, &kernel_s, err) : r;
    be->kernel_entries = entries; /* no work of the job's */
    if (r == 0) {
        const double dense = square * square * square / dense_s;
        const double values = points * points / kernel_s;
        *ret = (struct plan_rates){.values_f32 = 2.0 * values,
                                   .values_f64 = values,
                                   .multiply_adds_f32 = 2.0 * dense,
                                   .multiply_adds_f64 = dense,
                                   .bytes = usual_bytes * fmin(be->threads, usual_readers)};
    }
    return r;
}
