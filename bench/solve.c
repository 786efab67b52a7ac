#include "bench/solve.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/machine.h"
#include "bench/order.h"
#include "bench/trace.h"
#include "engine/backend.h"
#include "engine/fit/fit.h"

static double now(void *context)
{
    (void)context;
    return clock_monotonic_s();
}

static void keep_step(void *context, const struct progress *p)
{
    trace_step(context, p);
}

struct opened {
    struct dataset *train, *test, *centers; /* test and centers: NULL where the spec has none */
};

static void close_data(struct opened *d)
{
    dataset_free(d->train);
    dataset_free(d->test);
    dataset_free(d->centers);
}

static int open_data(const struct order *o, struct opened *ret, struct err *err)
{
    int r = dataset_open(o->dataset_path, &ret->train, err);
    if (r == 0 && o->test_dataset_path != NULL) {
        r = dataset_open(o->test_dataset_path, &ret->test, err);
    }
    if (r == 0 && o->centers_dataset_path != NULL) {
        r = dataset_open(o->centers_dataset_path, &ret->centers, err);
    }
    return r;
}

static struct json *report(const struct backend *be, const struct job_spec *spec,
                           const struct fit_result *result)
{
    const struct solve_outcome *outcome = &result->outcome;
    struct json *j = fit_result_to_json(result);
    json_set_string(j, "command", "solve");
    json_set_number(j, "seconds_to_tolerance",
                    outcome->reason == REASON_CONVERGED ? outcome->seconds : NAN);
    json_set_number(j, "solve_seconds", outcome->seconds);
    json_set_number(j, "tolerance", spec->stop.tolerance);
    json_set_int(j, "kernel_entries", be->kernel_entries);
    json_set_string(j, "device", be->ops->name);
    json_set_string(j, "isa", be->isa);
    json_set_int(j, "threads", be->threads);
    json_set_string(j, "blas_core", backend_cpu_blas_core());
    machine_to_json(j);
    return j;
}

/* The fit with its trace; a trace that was not written whole is an error. */
static int run_traced(struct backend *be, const struct job_spec *spec, const struct fit_input *in,
                      const char *trace_path, struct model **ret, struct fit_result *ret_result,
                      struct err *err)
{
    struct trace trace;
    int r = trace_open(trace_path, &trace, err);
    if (r < 0) {
        return r;
    }
    const struct solve_control control = {
        .context = &trace,
        .now = now,
        .report = trace_path != NULL ? keep_step : NULL,
        .started = clock_monotonic_s(),
    };
    r = fit_run(be, spec, in, &control, ret, ret_result, err);
    const int closed = trace_close(&trace, r == 0 ? err : NULL);
    return r == 0 ? closed : r;
}

int solve_run_order(struct backend *be, const struct solve_bench_options *o, struct json **ret,
                    struct err *err)
{
    struct order *order = NULL;
    struct opened data = {.train = NULL};
    struct model *model = NULL;
    struct fit_result result;
    int r = bench_order_read(o->job, &order, err);
    if (r == 0) {
        r = open_data(order, &data, err);
    }
    if (r == 0) {
        const struct fit_input in = {
            .train = data.train, .test = data.test, .centers = data.centers};
        r = run_traced(be, order->spec, &in, o->trace, &model, &result, err);
    }
    if (r == 0) {
        *ret = report(be, order->spec, &result);
    }
    model_free(model);
    close_data(&data);
    order_free(order);
    return r;
}
