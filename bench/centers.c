#include "bench/centers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/machine.h"
#include "bench/order.h"
#include "bench/scores.h"
#include "engine/backend.h"
#include "engine/data/fit_rows.h"

/* One measurement in the making. */
struct bench {
    const struct centers_bench_options *o;
    struct order *order;
    struct dataset *train;
    struct fit_data data;
    struct row_source rows;
    struct kernel kernel;
    struct center_task task;
    double *exact;        /* [n], NULL: not asked for */
    double exact_seconds; /* NAN: read from the file */
    double *ratio;        /* [n] */
};

static void bench_deinit(struct bench *b)
{
    mem_free(b->exact);
    mem_free(b->ratio);
    if (b->train != NULL) {
        fit_data_deinit(&b->data);
    }
    dataset_free(b->train);
    order_free(b->order);
}

static int make_task(struct bench *b, struct backend *be, struct err *err)
{
    const struct job_spec *spec = b->order->spec;
    if (spec->kernel.method == NULL || spec->centers.method == NULL ||
        (spec->kernel.method->has_bandwidth && spec->kernel.kind != SPEC_BANDWIDTH_SCALAR)) {
        return err_set(
            err, ERR_INVALID,
            "The order must name a kernel with its bandwidth, and how to select centers.");
    }
    b->kernel = (struct kernel){.d = b->rows.d, .bandwidth = spec->kernel.bandwidth};
    const int r = kernel_id_parse(spec->kernel.method->name, &b->kernel.id, err);
    kernel_set_params(&b->kernel, &spec->kernel.params);
    b->task = (struct center_task){
        .be = be,
        .kernel = &b->kernel,
        .rows = &b->rows,
        .count = spec->centers.count,
        .regularization = spec->regularization,
        .dtype = spec->precision == PRECISION_FLOAT32 ? DTYPE_F32 : DTYPE_F64,
        .seed = (uint64_t)spec->seed,
    };
    return r;
}

static int bench_init(struct bench *b, struct backend *be, struct err *err)
{
    int r = bench_order_read(b->o->job, &b->order, err);
    if (r == 0) {
        r = dataset_open(b->order->dataset_path, &b->train, err);
    }
    if (r == 0) {
        r = fit_data_load(b->order->spec, b->train, NULL, &b->data, err);
    }
    if (r < 0) {
        b->train = dataset_free(b->train);
        return r;
    }
    b->rows = fit_rows_train(&b->data);
    return make_task(b, be, err);
}

/* ---- exact scores, kept in a file of float64 numbers ---- */

static int write_scores(const struct bench *b, struct err *err)
{
    FILE *out = fopen(b->o->scores, "wb");
    const size_t n = (size_t)b->rows.n;
    if (out == NULL) {
        return err_errno(err, "write the exact scores");
    }
    const bool written = fwrite(b->exact, sizeof(double), n, out) == n;
    return (fclose(out) != 0) || !written ? err_errno(err, "write the exact scores") : 0;
}

static int read_scores(struct bench *b, FILE *in, struct err *err)
{
    const size_t n = (size_t)b->rows.n;
    const bool ok = fread(b->exact, sizeof(double), n, in) == n && fgetc(in) == EOF;
    return ok ? 0 : err_set(err, ERR_INVALID, "The file of exact scores is of other data.");
}

static int get_exact(struct bench *b, struct err *err)
{
    b->exact = mem_array((size_t)b->rows.n, sizeof(double));
    b->ratio = mem_array((size_t)b->rows.n, sizeof(double));
    if (b->exact == NULL || b->ratio == NULL) {
        return err_no_memory(err);
    }
    b->exact_seconds = NAN;
    FILE *in = fopen(b->o->scores, "rb");
    if (in != NULL) {
        const int r = read_scores(b, in, err);
        fclose(in);
        return r;
    }
    const double start = clock_monotonic_s();
    const int r = scores_exact(&b->task, b->exact, err);
    b->exact_seconds = clock_monotonic_s() - start;
    return r == 0 ? write_scores(b, err) : r;
}

static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Approximate over exact. */
static int compare_scores(struct bench *b, const struct centers *c, struct json *run,
                          struct err *err)
{
    const int64_t n = b->rows.n;
    const int r = scores_of_centers(&b->task, c, b->ratio, err);
    if (r < 0) {
        return r;
    }
    double sum = 0, total = 0, exact = 0;
    for (int64_t i = 0; i < n; i++) {
        total += b->ratio[i];
        exact += b->exact[i];
        b->ratio[i] /= b->exact[i];
        sum += b->ratio[i];
    }
    json_set_number(run, "dimension_ratio", total / exact);
    qsort(b->ratio, (size_t)n, sizeof(double), compare);
    json_set_number(run, "ratio_mean", sum / (double)n);
    json_set_number(run, "ratio_q05", b->ratio[n / 20]);
    json_set_number(run, "ratio_median", b->ratio[n / 2]);
    json_set_number(run, "ratio_q95", b->ratio[n - 1 - n / 20]);
    return 0;
}

/* ---- runs ---- */

static int select_centers(const struct bench *b, struct centers *ret, double *ret_longest,
                          struct err *err)
{
    const struct center_ops *ops = center_find(b->order->spec->centers.method->name);
    struct center_selection *s = NULL;
    double fraction = 0, start = clock_monotonic_s();
    int r = ops->setup(&b->task, &b->order->spec->centers.params, &s, err);
    *ret_longest = clock_monotonic_s() - start;
    while (r == 0) {
        start = clock_monotonic_s();
        r = ops->step(s, &fraction, err);
        *ret_longest = fmax(*ret_longest, clock_monotonic_s() - start);
    }
    r = r > 0 ? ops->take(s, ret, err) : r;
    ops->teardown(s);
    return r;
}

static void add_path(const struct centers *c, struct json *run)
{
    struct json *path = json_set_array(run, "path");
    for (int64_t h = 0; h < c->levels; h++) {
        struct json *level = json_new_object();
        json_set_number(level, "lambda", c->path[h].lambda);
        json_set_int(level, "m", c->path[h].count);
        json_set_number(level, "effective_dimension", c->path[h].effective_dimension);
        json_push(path, level);
    }
}

static int run_once(struct bench *b, struct json *runs, struct err *err)
{
    struct centers c = {.m = 0};
    const double start = clock_monotonic_s(), cpu = machine_cpu_s();
    double longest = 0;
    int r = select_centers(b, &c, &longest, err);
    if (r < 0) {
        return r;
    }
    struct json *run = json_new_object();
    json_set_int(run, "seed", (int64_t)b->task.seed);
    json_set_int(run, "m", c.m);
    json_set_number(run, "seconds", clock_monotonic_s() - start);
    json_set_number(run, "cpu_seconds", machine_cpu_s() - cpu);
    json_set_number(run, "longest_step_seconds", longest);
    add_path(&c, run);
    r = b->exact != NULL ? compare_scores(b, &c, run, err) : 0;
    json_push(runs, run);
    centers_deinit(&c);
    return r;
}

static struct json *describe(const struct bench *b)
{
    const struct job_spec *spec = b->order->spec;
    struct json *j = json_new_object();
    json_set_string(j, "command", "centers");
    json_set_string(j, "selector", spec->centers.method->name);
    json_set_int(j, "n", b->rows.n);
    json_set_int(j, "d", b->rows.d);
    json_set_string(j, "kernel", spec->kernel.method->name);
    json_set_number(j, "bandwidth", spec->kernel.bandwidth);
    json_set_number(j, "regularization", spec->regularization);
    json_set_string(j, "precision", precision_name(spec->precision));
    if (b->exact != NULL) {
        double sum = 0;
        for (int64_t i = 0; i < b->rows.n; i++) {
            sum += b->exact[i];
        }
        json_set_number(j, "effective_dimension", sum);
        json_set_number(j, "exact_seconds", b->exact_seconds);
    }
    json_set_string(j, "device", b->task.be->ops->name);
    json_set_string(j, "isa", b->task.be->isa);
    json_set_int(j, "threads", b->task.be->threads);
    json_set_string(j, "blas_core", backend_cpu_blas_core());
    machine_to_json(j);
    return j;
}

int centers_run_order(struct backend *be, const struct centers_bench_options *o, struct json **ret,
                      struct err *err)
{
    struct bench b = {.o = o};
    int r = bench_init(&b, be, err);
    if (r == 0 && o->scores != NULL) {
        r = get_exact(&b, err);
    }
    struct json *j = r == 0 ? describe(&b) : NULL;
    struct json *runs = r == 0 ? json_set_array(j, "runs") : NULL;
    for (int64_t i = 0; r == 0 && i < o->repeat; i++) {
        r = run_once(&b, runs, err);
        b.task.seed++;
    }
    bench_deinit(&b);
    if (r < 0) {
        json_free(j);
        return r;
    }
    *ret = j;
    return 0;
}
