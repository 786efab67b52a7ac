#include "worker/measure.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/ram.h"
#include "base/rng.h"
#include "engine/memory.h"

/* Rows of the kernel product and of dense ones. A tall dense matrix is past most caches: 50 MB on a
 * processor, 270 MB on a device; one of SHORT rows is taken where there is little memory. A device
 * needs some ten microseconds to begin, in which a large one computes millions of values. */
enum { SHORT = 2048 };
struct sizes {
    int64_t points, square, tall;
};

static bool is_processor(const struct backend *be)
{
    return strcmp(be->ops->name, "cpu") == 0;
}

static struct sizes sizes_of(const struct backend *be)
{
    return is_processor(be) ? (struct sizes){1024, 384, 16384} : (struct sizes){16384, 1024, 32768};
}

/* What fits in the caches takes a millisecond or two: it is timed in turns, once a turn, so that
 * not all times are of one bad moment, and until so many turns have brought no better time: a
 * processor that did nothing before takes some to be at its clock rate. */
enum { TURNS_SAME = 6, TURNS_MOST = 40, RUNS_TALL = 3 };
static const double better = 0.98;

/* Seconds of the best of some runs; one before them is not counted. On processors they are those of
 * each thread, so that a machine that is busy just then does not look slow for ever. */
struct stopwatch {
    const struct backend *be;
    double best, began;
};

static double now(const struct stopwatch *w)
{
    return is_processor(w->be) ? clock_processor_s() / w->be->threads : clock_monotonic_s();
}

static void start(struct stopwatch *w)
{
    w->began = now(w);
}

static void stop(struct stopwatch *w, int run)
{
    const double seconds = now(w) - w->began;
    w->best = run == 0 ? INFINITY : fmin(w->best, seconds);
}

/* Each column alike. */
static int fill(struct backend *be, const struct mat *m, struct err *err)
{
    cleanup_mem double *numbers = mem_array((size_t)m->rows, sizeof(*numbers));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < m->rows; i++) {
        numbers[i] = 1.0 / (double)(i % 97 + 1);
    }
    int r = 0;
    for (int64_t j = 0; r == 0 && j < m->cols; j++) {
        const struct mat column = mat_cols(*m, j, 1);
        r = be->ops->mat_put(be, numbers, m->rows, &column, err);
    }
    return r;
}

/* C <- A B, of so many rows and columns. *ret_s are the seconds. */
static int time_product(struct backend *be, enum dtype dtype, int64_t rows, int64_t inner,
                        int64_t cols, int runs, double *ret_s, struct err *err)
{
    const struct backend_ops *o = be->ops;
    struct mat A = {0}, B = {0}, C = {0};
    struct stopwatch w = {.be = be};
    int r = o->mat_new(be, dtype, rows, inner, &A, err);
    r = r == 0 ? o->mat_new(be, dtype, inner, cols, &B, err) : r;
    r = r == 0 ? o->mat_new(be, dtype, rows, cols, &C, err) : r;
    r = r == 0 ? fill(be, &A, err) : r;
    r = r == 0 ? fill(be, &B, err) : r;
    double sum;
    for (int i = 0; r == 0 && i <= runs; i++) {
        start(&w);
        r = o->gemm(be, false, false, 1.0, &A, &B, 0.0, &C, err);
        const struct mat one = mat_cols(C, 0, 1);
        r = r == 0 ? o->col_dots(be, &one, &one, &sum, err) : r; /* waits for a device */
        stop(&w, i);
    }
    o->mat_free(be, &C);
    o->mat_free(be, &B);
    o->mat_free(be, &A);
    *ret_s = w.best;
    return r;
}

static int time_kernel_with(struct backend *be, const struct points *X, enum dtype dtype,
                            double *ret_s, struct err *err)
{
    const struct backend_ops *o = be->ops;
    const int64_t n = sizes_of(be).points;
    const struct view all = view_all(X, n);
    struct mat V = {0}, Y = {0};
    struct stopwatch w = {.be = be};
    int r = o->mat_new(be, dtype, n, 1, &V, err);
    r = r == 0 ? o->mat_new(be, dtype, n, 1, &Y, err) : r;
    r = r == 0 ? fill(be, &V, err) : r;
    double sum;
    for (int i = 0; r == 0 && i <= 1; i++) {
        start(&w);
        r = o->kmv(be, all, all, 1.0, &V, 0.0, &Y, err);
        r = r == 0 ? o->col_dots(be, &Y, &Y, &sum, err) : r;
        stop(&w, i);
    }
    o->mat_free(be, &Y);
    o->mat_free(be, &V);
    *ret_s = w.best;
    return r;
}

/* A processor takes distances by differences where the kernel is narrow, as those of other kernels,
 * and otherwise in the faster way of rows `near` each other. */
static int time_kernel(struct backend *be, enum dtype dtype, bool near, double *ret_s,
                       struct err *err)
{
    const struct kernel k = {.id = KERNEL_GAUSSIAN,
                             .d = PLAN_RATE_FEATURES,
                             .bandwidth = near               ? sqrt(PLAN_RATE_FEATURES)
                                          : is_processor(be) ? 1.5
                                                             : 3.0,
                             .gamma = 1.0};
    const int64_t n = sizes_of(be).points;
    const size_t count = (size_t)n * PLAN_RATE_FEATURES;
    cleanup_mem double *numbers = mem_array(count, sizeof(*numbers));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(1, RNG_AUTO);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = rng_normal(&rng);
    }
    const struct rows rows = {.dtype = DTYPE_F64, .n = n, .d = PLAN_RATE_FEATURES, .data = numbers};
    struct points *X = NULL;
    int r = be->ops->points_new(be, &k, dtype, &rows, &X, err);
    if (r == 0) {
        r = time_kernel_with(be, X, dtype, ret_s, err);
        be->ops->points_free(be, X);
    }
    return r;
}

/* Seconds of a kernel product, of one of near rows, and of a dense one, in each precision. */
struct times {
    double kernel[2], near[2], dense[2];
};

static int time_turn(struct backend *be, struct times *ret, struct err *err)
{
    *ret = (struct times){.near = {INFINITY, INFINITY}};
    const int64_t square = sizes_of(be).square;
    int r = 0;
    for (int i = 0; r == 0 && i < 2; i++) {
        const enum dtype t = i == 0 ? DTYPE_F32 : DTYPE_F64;
        r = time_kernel(be, t, false, &ret->kernel[t], err);
        r = r == 0 && is_processor(be) ? time_kernel(be, t, true, &ret->near[t], err) : r;
        r = r == 0 ? time_product(be, t, square, square, square, 1, &ret->dense[t], err) : r;
    }
    return r;
}

/* Whether it was better than before. */
static bool take_less(double *least, double now)
{
    const bool less = now < better * *least;
    *least = fmin(*least, now);
    return less;
}

/* The best of the turns that begin before the moment `until`. */
static int time_turns(struct backend *be, double until, struct times *ret, struct err *err)
{
    *ret = (struct times){{INFINITY, INFINITY}, {INFINITY, INFINITY}, {INFINITY, INFINITY}};
    int r = 0;
    for (int i = 0, same = 0; r == 0 && i < TURNS_MOST && same < TURNS_SAME; i++) {
        struct times now;
        bool less = false;
        if (i > 0 && clock_monotonic_s() > until) {
            break;
        }
        r = time_turn(be, &now, err);
        for (int t = 0; r == 0 && t < 2; t++) {
            less |= take_less(&ret->kernel[t], now.kernel[t]);
            less |= take_less(&ret->near[t], now.near[t]);
            less |= take_less(&ret->dense[t], now.dense[t]);
        }
        same = less ? 0 : same + 1;
    }
    return r;
}

/* What there is no time for before the moment `until` has a rate of 0. */
static int measure_rates(struct backend *be, double until, struct plan_rates *ret, struct err *err)
{
    const struct sizes s = sizes_of(be);
    const double values = pow((double)s.points, 2), square = pow((double)s.square, 3);
    struct times best;
    double tall = INFINITY;
    const double whole = (double)(s.tall * s.square) * sizeof(double);
    const int64_t rows = (double)memory_available_on(be) > 4.0 * whole ? s.tall : SHORT;
    int r = time_turns(be, until, &best, err);
    if (r == 0 && clock_monotonic_s() <= until) {
        r = time_product(be, DTYPE_F64, rows, s.square, 1, RUNS_TALL, &tall, err);
    }
    if (r == 0) {
        *ret = (struct plan_rates){
            .values_f32 = values / best.kernel[DTYPE_F32],
            .values_f64 = values / best.kernel[DTYPE_F64],
            .near_f32 = values / best.near[DTYPE_F32],
            .near_f64 = values / best.near[DTYPE_F64],
            .multiply_adds_f32 = square / best.dense[DTYPE_F32],
            .multiply_adds_f64 = square / best.dense[DTYPE_F64],
            .bytes = (double)(rows * s.square) * sizeof(double) / tall,
        };
    }
    return r;
}

void measure_nothing(struct backend *be, struct plan_machine *ret)
{
    *ret = plan_machine_unknown();
    ret->threads = be->threads;
    ret->own_memory = !is_processor(be);
    ret->device_bytes = ret->own_memory ? memory_available_on(be) : 0;
    ret->base_bytes = ram_resident();
}

/* Whether it is faster by more than two measurements differ by. */
static bool take_faster(double *rate, double now)
{
    const bool more = better * now > *rate;
    *rate = fmax(*rate, now);
    return more;
}

int measure_again(struct backend *be, double limit_s, struct plan_rates *rates, struct err *err)
{
    struct plan_rates now = {.bytes = 0};
    const int r = measure_rates(be, clock_monotonic_s() + limit_s, &now, err);
    mem_trim();
    if (r < 0) {
        return r;
    }
    bool more = take_faster(&rates->values_f32, now.values_f32);
    more |= take_faster(&rates->values_f64, now.values_f64);
    more |= take_faster(&rates->near_f32, now.near_f32);
    more |= take_faster(&rates->near_f64, now.near_f64);
    more |= take_faster(&rates->multiply_adds_f32, now.multiply_adds_f32);
    more |= take_faster(&rates->multiply_adds_f64, now.multiply_adds_f64);
    more |= take_faster(&rates->bytes, now.bytes);
    return more;
}

int measure_machine(struct backend *be, struct plan_machine *ret, struct err *err)
{
    struct plan_rates rates;
    const int r = measure_rates(be, INFINITY, &rates, err);
    if (r == 0) {
        mem_trim();
        measure_nothing(be, ret);
        ret->rates = rates;
    }
    return r;
}
