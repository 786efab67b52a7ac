/* krr-bench, and krr-bench-cuda with GPUs: measures the engine. One JSON line on stdout, or a
 * sentence on stderr and status 1. */
#include <stdio.h>

#include "base/mem.h"
#include "bench/centers.h"
#include "bench/device_ceiling.h"
#include "bench/operator.h"
#include "bench/options.h"
#include "bench/solve.h"
#include "engine/backend.h"
#include "gpu/providers.h"

static int print_line(const struct json *j, struct err *err)
{
    cleanup_mem char *text = json_print(j);
    if (text == NULL) {
        return err_no_memory(err);
    }
    return printf("%s\n", text) < 0 || fflush(stdout) != 0 ? err_errno(err, "write the report") : 0;
}

static int open_device(const struct bench_options *o, struct backend **ret, struct err *err)
{
    return o->isa != NULL ? backend_cpu_open(o->isa, o->threads, ret, err)
                          : backend_open(gpu_providers(), o->device, o->threads, ret, err);
}

static int run(const struct bench_options *o, struct err *err)
{
    struct backend *be = NULL;
    int r = open_device(o, &be, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *report = NULL;
    r = o->command == BENCH_OPERATOR
            ? operator_run(be, &o->product, device_ceiling_measurer(), &report, err)
        : o->command == BENCH_CENTERS ? centers_run_order(be, &o->centers, &report, err)
                                      : solve_run_order(be, &o->solve, &report, err);
    backend_close(be);
    return r == 0 ? print_line(report, err) : r;
}

int main(int argc, char **argv)
{
    struct err err = {.code = ERR_OK};
    struct bench_options options;
    backend_cpu_settle(argv);
    int r = bench_options_read(argc, argv, &options, &err);
    if (r == 0 && options.command == BENCH_HELP) {
        fputs(bench_usage, stdout);
        return 0;
    }
    if (r == 0) {
        r = run(&options, &err);
    }
    if (r < 0) {
        fprintf(stderr, "krr-bench: %s%s%s\n", err.pointer, err.pointer[0] != '\0' ? ": " : "",
                err.detail);
    }
    return r < 0 ? 1 : 0;
}
