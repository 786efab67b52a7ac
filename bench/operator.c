#include "bench/operator.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/limit.h"
#include "bench/limit_device.h"
#include "bench/machine.h"
#include "bench/workload.h"
#include "gpu/providers.h"

#define CHECKED_ROWS 16
#define GRID_ROW_BYTES 2048 /* of --grid, as a fit allows */
#define PACE_SHARE 0.1      /* of a product's time, for multiply-adds on either side of it */
#define PACE_LEAST 0.005    /* seconds of them */

/* One measurement in the making. */
struct bench {
    struct backend *be;
    const struct operator_options *o;
    struct workload work;
    struct points *P, *Q; /* the same when symmetric */
    struct mat V, Y;
    double *seconds, *cpu_seconds; /* [repeat], sorted by bench_time */
    double *paced; /* [repeat], sorted: seconds at the pace of the ceilings; NANs without them */
    int64_t product_bytes; /* growth of the process in the first product, -1: unknown */
    struct grid grid;      /* of --grid; dims = 0: tiles */
    int64_t cached_bytes;  /* of kept kernel values */
    double cache_seconds;  /* to compute and keep them */
    double error;
    struct ceiling ceiling; /* where be->isa is not NULL */
    struct device_ceiling device;
    bool device_known;
};

static int bench_upload(struct bench *b, struct err *err)
{
    const struct backend_ops *ops = b->be->ops;
    const struct workload *w = &b->work;
    int r = ops->points_new(b->be, &w->kernel, w->P.dtype, &w->P, &b->P, err);
    if (r == 0 && b->o->symmetric) {
        b->Q = b->P;
    } else if (r == 0) {
        r = ops->points_new(b->be, &w->kernel, w->Q.dtype, &w->Q, &b->Q, err);
    }
    if (r == 0) {
        r = ops->mat_new(b->be, w->vectors, w->Q.n, w->rhs, &b->V, err);
    }
    if (r == 0) {
        r = ops->mat_put(b->be, w->V, w->Q.n, &b->V, err);
    }
    return r == 0 ? ops->mat_new(b->be, w->vectors, w->P.n, w->rhs, &b->Y, err) : r;
}

static void bench_deinit(struct bench *b)
{
    const struct backend_ops *ops = b->be->ops;
    ops->mat_free(b->be, &b->Y);
    ops->mat_free(b->be, &b->V);
    if (b->Q != NULL && b->Q != b->P) {
        ops->points_free(b->be, b->Q);
    }
    if (b->P != NULL) {
        ops->points_free(b->be, b->P);
    }
    workload_deinit(&b->work);
    mem_free(b->seconds);
    mem_free(b->cpu_seconds);
    mem_free(b->paced);
}

/* A device may only have been told what to do when an operation returns: it is done when it gives
 * numbers. One is enough. */
static int wait_for_device(struct bench *b, struct err *err)
{
    const struct mat first = mat_rows(mat_cols(b->Y, 0, 1), 0, 1);
    double number;
    return b->be->isa != NULL ? 0 : b->be->ops->mat_get(b->be, &first, &number, 1, err);
}

static int multiply(struct bench *b, struct err *err)
{
    const int r = b->be->ops->kmv(b->be, view_all(b->P, b->work.P.n), view_all(b->Q, b->work.Q.n),
                                  1.0, &b->V, 0.0, &b->Y, err);
    return r == 0 ? wait_for_device(b, err) : r;
}

static int bench_grid(struct bench *b, struct err *err)
{
    const struct backend_ops *ops = b->be->ops;
    struct points *sets[] = {b->P, b->Q};
    const int count = b->Q != b->P ? 2 : 1;
    return ops->points_grid != NULL
               ? ops->points_grid(b->be, sets, count, GRID_ROW_BYTES * b->o->n, &b->grid, err)
               : 0;
}

/* All values, or it is no measurement of them. */
static int bench_keep(struct bench *b, struct err *err)
{
    const struct backend_ops *ops = b->be->ops;
    if (ops->points_cache == NULL) {
        return err_set(err, ERR_UNSUPPORTED, "The device \"%s\" keeps no kernel values.",
                       ops->name);
    }
    const double n = (double)b->o->n, began = clock_monotonic_s();
    const int r = ops->points_cache(b->be, b->P, INT64_MAX, b->o->storage, &b->cached_bytes, err);
    b->cache_seconds = clock_monotonic_s() - began;
    if (r == 0 && (double)b->cached_bytes < n * n) { /* half of them, 2 bytes each */
        return err_set(err, ERR_NO_MEMORY, "The kernel values do not fit in memory.");
    }
    return r;
}

/* The untimed first product: its memory, its errors, and the file of --save. */
static int bench_check(struct bench *b, struct err *err)
{
    cleanup_mem double *Y = mem_array((size_t)b->work.P.n, (size_t)b->work.rhs * sizeof *Y);
    if (Y == NULL) {
        return err_no_memory(err);
    }
    const int64_t before = machine_resident_bytes();
    const bool known = machine_reset_peak() == 0 && before >= 0;
    int r = multiply(b, err);
    b->product_bytes = known ? machine_peak_bytes() - before : -1;
    if (r == 0) {
        r = b->be->ops->mat_get(b->be, &b->Y, Y, b->work.P.n, err);
    }
    if (r == 0) {
        const int64_t rows = b->work.P.n < CHECKED_ROWS ? b->work.P.n : CHECKED_ROWS;
        r = workload_error(&b->work, Y, rows, &b->error, err);
    }
    return r == 0 && b->o->save != NULL ? workload_save(&b->work, Y, b->o->save, err) : r;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *sorted, int64_t n)
{
    return 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
}

/* The share of the ceiling of multiply-adds that they reach now, over some time; NAN: no ceiling.
 */
static int pace_now(const struct bench *b, double seconds, double *ret, struct err *err)
{
    const struct backend *be = b->be;
    *ret = NAN;
    if (be->isa == NULL) {
        return 0;
    }
    const enum dtype dtype = b->work.P.dtype;
    const int r =
        ceiling_mean_fma(be->isa, dtype, be->threads, fmax(seconds, PACE_LEAST), ret, err);
    *ret /= dtype == DTYPE_F32 ? b->ceiling.f32.alone : b->ceiling.f64.alone;
    return r;
}

/* The i-th product, between two looks at the machine's pace: `before` and *ret. */
static int time_product(struct bench *b, int64_t i, double before, double *ret, struct err *err)
{
    const double began = clock_monotonic_s(), cpu_began = machine_cpu_s();
    int r = multiply(b, err);
    b->seconds[i] = clock_monotonic_s() - began;
    b->cpu_seconds[i] = machine_cpu_s() - cpu_began;
    if (r == 0) {
        r = pace_now(b, PACE_SHARE * b->seconds[i], ret, err);
    }
    b->paced[i] = b->seconds[i] * 0.5 * (before + *ret);
    return r;
}

static int bench_time(struct bench *b, struct err *err)
{
    const int64_t n = b->o->repeat;
    b->seconds = mem_array((size_t)n, sizeof *b->seconds);
    b->cpu_seconds = mem_array((size_t)n, sizeof *b->cpu_seconds);
    b->paced = mem_array((size_t)n, sizeof *b->paced);
    if (b->seconds == NULL || b->cpu_seconds == NULL || b->paced == NULL) {
        return err_no_memory(err);
    }
    double pace = NAN;
    int r = pace_now(b, PACE_LEAST, &pace, err);
    for (int64_t i = 0; r == 0 && i < n; i++) {
        r = time_product(b, i, pace, &pace, err);
    }
    if (r < 0) {
        return r;
    }
    qsort(b->seconds, (size_t)n, sizeof *b->seconds, ascending);
    qsort(b->cpu_seconds, (size_t)n, sizeof *b->cpu_seconds, ascending);
    qsort(b->paced, (size_t)n, sizeof *b->paced, ascending);
    return 0;
}

/* ---- the report ---- */

static void report_case(const struct bench *b, struct json *j)
{
    const struct operator_options *o = b->o;
    json_set_string(j, "command", "operator");
    json_set_string(j, "kernel", kernel_name(o->kernel));
    json_set_int(j, "n", o->n);
    json_set_int(j, "m", o->m);
    json_set_int(j, "d", o->d);
    json_set_int(j, "rhs", o->rhs);
    json_set_string(j, "precision", precision_name(o->precision));
    json_set_string(j, "device", b->be->ops->name);
    json_set_string(j, "isa", b->be->isa);
    json_set_string(j, "notice", b->be->notice[0] != '\0' ? b->be->notice : NULL);
    json_set_int(j, "threads", b->be->threads);
    json_set_bool(j, "symmetric", o->symmetric);
    json_set_bool(j, "cached", o->cached);
    json_set_int(j, "repeat", o->repeat);
    json_set_number(j, "bandwidth", o->bandwidth);
    json_set_number(j, "outliers", o->outliers);
    json_set_int(j, "seed", o->seed);
}

static void report_rates(struct json *ceilings, const char *key, const struct ceiling_rates *rates)
{
    struct json *j = json_set_object(ceilings, key);
    json_set_number(j, "fma_per_s", rates->fma);
    json_set_number(j, "add_per_s", rates->add);
    json_set_number(j, "pair_per_s", rates->pair);
    json_set_number(j, "root_per_s", rates->root);
    json_set_number(j, "beside_per_s", rates->beside);
    json_set_number(j, "steps_per_s", rates->steps > 0.0 ? rates->steps : (double)NAN);
    json_set_number(j, "exp2_per_s", rates->exp2);
}

static void report_device_ceiling(const struct device_ceiling *device, struct json *j)
{
    struct json *ceilings = json_set_object(j, "ceilings");
    struct json *f32 = json_set_object(ceilings, "float32");
    struct json *f64 = json_set_object(ceilings, "float64");
    json_set_number(f32, "fma_per_s", device->fma32);
    json_set_number(f32, "ex2_per_s", device->ex2);
    json_set_number(f32, "tensor_per_s", device->tensor16);
    json_set_number(f64, "fma_per_s", device->fma64);
    json_set_number(f64, "tensor_per_s", device->tensor64);
    json_set_number(ceilings, "copy_bytes_per_s", device->copy_bytes);
}

static void report_ceiling(const struct bench *b, struct json *j)
{
    if (b->device_known) {
        report_device_ceiling(&b->device, j);
        return;
    }
    if (b->be->isa == NULL) {
        json_set(j, "ceilings", json_new_null());
        return;
    }
    struct json *ceilings = json_set_object(j, "ceilings");
    report_rates(ceilings, "float32", &b->ceiling.f32);
    report_rates(ceilings, "float64", &b->ceiling.f64);
    json_set_number(ceilings, "read_bytes_per_s", b->ceiling.read_bytes);
}

static struct limit_case limit_case_of(const struct bench *b)
{
    const struct operator_options *o = b->o;
    return (struct limit_case){
        .kernel = o->kernel,
        .degree = b->work.kernel.degree,
        .values = b->work.P.dtype,
        .vectors = b->work.vectors,
        .n = o->n,
        .m = o->m,
        .d = o->d,
        .rhs = o->rhs,
        .symmetric = o->symmetric,
        .cached_bytes = b->cached_bytes,
    };
}

/* Not a number, and bound by nothing, where no ceiling is known; a processor's is not said to be
 * bound by a unit. */
static struct device_limit limit_of(const struct bench *b, const struct limit_case *c)
{
    if (b->device_known) {
        return limit_of_device(c, &b->device);
    }
    const bool known = b->be->isa != NULL;
    return (struct device_limit){known ? limit_entries_per_s(c, &b->ceiling) : NAN, NULL};
}

static void report_limit(const struct bench *b, double rate, double seconds, struct json *j)
{
    const struct limit_case c = limit_case_of(b);
    const struct device_limit limit = limit_of(b, &c);
    const double fraction = rate / limit.entries_per_s;
    const double by_fma = b->be->isa != NULL ? limit_of_fma(&c, &b->ceiling) : NAN;
    json_set_number(j, "limit_entries_per_s", limit.entries_per_s);
    json_set_string(j, "bound_by", limit.bound_by);
    json_set_number(j, "fraction_of_limit", fraction);
    json_set_number(j, "fraction_of_limit_best", fraction * seconds / b->seconds[0]);
    json_set_number(j, "fraction_of_limit_paced",
                    fraction * seconds / median(b->paced, b->o->repeat));
    json_set_number(j, "fraction_of_fma_limit", rate / by_fma);
}

/* What keeping the values took, and how fast they are read, beside the memory's own rate. */
static void report_cache(const struct bench *b, double seconds, struct json *j)
{
    const double rate = (double)b->cached_bytes / seconds;
    const double most = b->device_known      ? b->device.copy_bytes
                        : b->be->isa != NULL ? b->ceiling.read_bytes
                                             : NAN;
    json_set_string(j, "storage", b->o->storage == KERNEL_STORE_HALF ? "float16" : "exact");
    json_set_number(j, "cached_bytes", (double)b->cached_bytes);
    json_set_number(j, "cache_seconds", b->cache_seconds);
    json_set_number(j, "cached_bytes_per_s", rate);
    json_set_number(j, "fraction_of_bandwidth", rate / most);
}

static void report_grid(const struct grid *g, struct json *j)
{
    struct json *sizes = json_set_array(j, "grid");
    for (int k = 0; k < g->dims; k++) {
        json_push(sizes, json_new_number((double)g->size[k]));
    }
}

static struct json *report(const struct bench *b)
{
    const int64_t n = b->o->repeat;
    const double seconds = median(b->seconds, n);
    const double rate = (double)b->o->n * (double)b->o->m / seconds;
    struct json *j = json_new_object();
    report_case(b, j);
    json_set_number(j, "seconds", seconds);
    json_set_number(j, "seconds_best", b->seconds[0]);
    json_set_number(j, "cpu_seconds", median(b->cpu_seconds, n));
    json_set_number(j, "cpu_seconds_best", b->cpu_seconds[0]);
    json_set_number(j, "entries_per_s", rate);
    report_limit(b, rate, seconds, j);
    json_set_number(j, "max_rel_err", b->error);
    if (b->o->grid) {
        report_grid(&b->grid, j);
    }
    json_set_number(j, "product_bytes", b->product_bytes >= 0 ? (double)b->product_bytes : NAN);
    if (b->o->cached) {
        report_cache(b, seconds, j);
    }
    report_ceiling(b, j);
    json_set_string(j, "blas_core", backend_cpu_blas_core());
    machine_to_json(j);
    return j;
}

/* Before anything else is on a device. Opening a single one leaves it this thread's current one;
 * several as one have no shares of products to give. */
static int measure_ceiling(struct bench *b, device_ceiling_fn *measure_device, struct err *err)
{
    const struct backend *be = b->be;
    if (be->isa != NULL) {
        return ceiling_measure(be->isa, be->threads, &b->ceiling, err);
    }
    if (measure_device == NULL || be->ops->kmv_share == NULL) {
        return 0;
    }
    const int r = measure_device(getenv(GPU_WITHOUT), &b->device, err);
    b->device_known = r == 0;
    return r;
}

static int measure(struct bench *b, device_ceiling_fn *measure_device, struct err *err)
{
    int r = measure_ceiling(b, measure_device, err);
    if (r == 0) {
        r = workload_init(&b->work, b->o, err);
    }
    if (r == 0) {
        r = bench_upload(b, err);
    }
    if (r == 0 && b->o->grid) {
        r = bench_grid(b, err);
    }
    if (r == 0 && b->o->cached) {
        r = bench_keep(b, err);
    }
    if (r == 0) {
        r = bench_check(b, err);
    }
    return r == 0 ? bench_time(b, err) : r;
}

int operator_run(struct backend *be, const struct operator_options *o,
                 device_ceiling_fn *measure_device, struct json **ret, struct err *err)
{
    struct bench b = {.be = be, .o = o};
    const int r = measure(&b, measure_device, err);
    if (r == 0) {
        *ret = report(&b);
    }
    bench_deinit(&b);
    return r;
}
