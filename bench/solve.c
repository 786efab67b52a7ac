#include "bench/solve.h"

#include <math.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "bench/machine.h"
#include "engine/fit.h"
#include "wire/order.h"

#define ORDER_MAX_BYTES (64u << 20)

static double now(void *context)
{
    (void)context;
    return clock_monotonic_s();
}

static int read_order(const char *path, struct order **ret, struct err *err)
{
    cleanup_mem char *text = NULL;
    size_t len = 0;
    int r = file_read_all(path, ORDER_MAX_BYTES, &text, &len, err);
    cleanup_json struct json *j = NULL;
    if (r == 0) {
        r = json_parse(text, len, &j, err);
    }
    return r < 0 ? r : order_read(j, ret, err);
}

static int open_data(const struct order *o, struct dataset **ret, struct dataset **ret_test,
                     struct err *err)
{
    const int r = dataset_open(o->dataset_path, ret, err);
    return r < 0 || o->test_dataset_path == NULL
               ? r
               : dataset_open(o->test_dataset_path, ret_test, err);
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
    json_set_string(j, "precision", precision_name(spec->precision));
    json_set_int(j, "kernel_entries", be->kernel_entries);
    json_set_string(j, "device", be->ops->name);
    json_set_string(j, "isa", be->isa);
    json_set_int(j, "threads", be->threads);
    machine_to_json(j);
    return j;
}

int solve_run_order(struct backend *be, const char *order_path, struct json **ret, struct err *err)
{
    struct order *order = NULL;
    struct dataset *train = NULL, *test = NULL;
    struct model *model = NULL;
    struct fit_result result;
    int r = read_order(order_path, &order, err);
    if (r == 0) {
        r = open_data(order, &train, &test, err);
    }
    if (r == 0) {
        const struct solve_control control = {.now = now, .started = clock_monotonic_s()};
        r = fit_run(be, order->spec, train, test, &control, &model, &result, err);
    }
    if (r == 0) {
        *ret = report(be, order->spec, &result);
    }
    model_free(model);
    dataset_free(test);
    dataset_free(train);
    order_free(order);
    return r;
}
