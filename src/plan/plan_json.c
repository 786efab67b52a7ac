#include <math.h>

#include "plan/plan.h"

static void set_count(struct json *to, const char *key, int64_t count)
{
    if (count > 0) {
        json_set_int(to, key, count);
    } else {
        json_set(to, key, json_new_null());
    }
}

/* Whole bytes. */
static void set_bytes(struct json *to, const char *key, double bytes)
{
    json_set_number(to, key, ceil(bytes));
}

/* INT64_MAX: there is none. */
static void set_limit(struct json *to, const char *key, int64_t limit)
{
    if (limit < INT64_MAX) {
        json_set_number(to, key, (double)limit);
    } else {
        json_set(to, key, json_new_null());
    }
}

static void set_memory(const struct plan *p, const struct plan_machine *machine, struct json *to)
{
    set_bytes(to, "host_bytes", p->host_bytes);
    set_bytes(to, "device_bytes", p->device_bytes);
    set_bytes(to, "reserved_bytes", p->reserved_bytes);
    set_limit(to, "host_limit_bytes", machine->limit_bytes);
    set_limit(to, "device_limit_bytes", machine->own_memory ? machine->device_bytes : INT64_MAX);
    json_set_string(to, "moment", p->moment);
    struct json *parts = json_set_object(to, "parts");
    for (enum plan_part i = 0; i < PLAN_PARTS; i++) {
        set_bytes(parts, plan_part_name(i), p->parts[i]);
    }
}

static void set_seconds(const struct plan *p, struct json *to)
{
    if (isnan(p->total_s)) {
        json_set(to, "seconds", json_new_null());
        return;
    }
    struct json *s = json_set_object(to, "seconds");
    json_set_number(s, "setup", p->setup_s);
    json_set_number(s, "choice", p->choice_s);
    json_set_number(s, "iteration", p->iteration_s);
    json_set_number(s, "finish", p->finish_s);
    json_set_int(s, "iterations", p->iterations);
    json_set_number(s, "total", p->total_s);
    json_set(s, "experience", json_new_null()); /* experience.h */
}

struct json *plan_to_json(const struct plan *p, const struct plan_machine *machine)
{
    struct json *j cleanup_json = json_new_object();
    json_set_string(j, "solver", p->solver);
    json_set_string(j, "preconditioner", p->preconditioner);
    json_set_string(j, "kernel", p->kernel);
    json_set_string(j, "precision", precision_name(p->precision));
    set_count(j, "rank", p->rank);
    set_count(j, "block_rows", p->block_rows);
    json_set_int(j, "train_rows", p->train_rows);
    json_set_int(j, "test_rows", p->test_rows);
    json_set_int(j, "features", p->features);
    json_set_int(j, "targets", p->targets);
    json_set_int(j, "centers", p->centers > 0 ? p->centers : p->train_rows);
    json_set_bool(j, "restricted", p->centers > 0);
    json_set_bool(j, "keeps_kernel_values", p->kernel_cache_bytes > 0);
    json_set_int(j, "kernel_cache_bytes", p->kernel_cache_bytes);
    json_set_bool(j, "assumed", p->assumed);
    json_set_int(j, "threads", machine->threads);
    plan_rates_write(&machine->rates, j);
    set_memory(p, machine, json_set_object(j, "memory"));
    set_seconds(p, j);
    struct json *ret = json_ok(j) ? j : NULL;
    j = ret == NULL ? j : NULL;
    return ret;
}
