#include "bench/trace.h"

#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "bench/machine.h"

int trace_open(const char *path, struct trace *ret, struct err *err)
{
    *ret = (struct trace){.began = clock_monotonic_s(), .cpu_began = machine_cpu_s()};
    if (path == NULL) {
        return 0;
    }
    ret->file = fopen(path, "we");
    return ret->file != NULL ? 0 : err_errno(err, "open the trace");
}

void trace_step(struct trace *t, const struct progress *p)
{
    if (t->file == NULL || t->failure != 0) {
        return;
    }
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "phase", p->phase);
    json_set_int(j, "iteration", p->iteration);
    json_set_number(j, "seconds", clock_monotonic_s() - t->began);
    json_set_number(j, "cpu_seconds", machine_cpu_s() - t->cpu_began);
    json_set_number(j, "relative_residual", p->relative_residual);
    json_set_number(j, "rmse", p->metrics.rmse);
    json_set_number(j, "accuracy", p->metrics.accuracy);
    cleanup_mem char *text = json_print(j);
    if (text == NULL) {
        t->failure = ENOMEM;
    } else if (fprintf(t->file, "%s\n", text) < 0) {
        t->failure = errno;
    }
}

int trace_close(struct trace *t, struct err *err)
{
    if (t->file != NULL && fclose(t->file) != 0 && t->failure == 0) {
        t->failure = errno;
    }
    t->file = NULL;
    errno = t->failure;
    return t->failure == 0 ? 0 : err_errno(err, "write the trace");
}
