#include "client/plan.h"

#include <stdio.h>

#include "client/show.h"

/* obj[key] where it is text, else what stands for it. */
static const char *text_of(const struct json *obj, const char *key, const char *none)
{
    const char *text = json_string(json_get(obj, key));
    return text ? text : none;
}

static void print_fact(const char *name, const char *value)
{
    show_line(stdout, "%-18s %s", name, value);
}

static void print_count(const struct json *plan, const char *key)
{
    char cell[SHOW_CELL];
    show_member(plan, key, cell);
    print_fact(key, cell);
}

/* "cholesky", "pcg with rpcholesky of rank 500". */
static void print_solver(const struct json *plan)
{
    char line[256], rank[SHOW_CELL];
    const char *precond = text_of(plan, "preconditioner", NULL);
    const struct json *r = json_get(plan, "rank");
    const bool ranked = precond && r && json_type(r) == JSON_NUMBER;
    show_member(plan, "rank", rank);
    snprintf(line, sizeof line, "%s%s%s%s%s", text_of(plan, "solver", "-"), precond ? " with " : "",
             precond ? precond : "", ranked ? " of rank " : "", ranked ? rank : "");
    print_fact("solver", line);
}

/* "1.2 GB of 25 GB". */
static void print_bytes(const struct json *memory, const char *name, const char *used,
                        const char *limit)
{
    char have[SHOW_CELL], most[SHOW_CELL], line[3 * SHOW_CELL];
    const struct json *all = json_get(memory, limit);
    const bool limited = all && json_type(all) == JSON_NUMBER;
    show_bytes(json_number(json_get(memory, used)), have);
    show_bytes(limited ? json_number(all) : 0, most);
    snprintf(line, sizeof line, "%s%s%s", have, limited ? " of " : "", limited ? most : "");
    print_fact(name, line);
}

static void print_seconds(const struct json *seconds)
{
    char cell[SHOW_CELL] = "not measured yet";
    if (seconds && json_type(seconds) == JSON_OBJECT) {
        show_duration(json_number(json_get(seconds, "total")), cell);
    }
    print_fact("time, at most", cell);
}

void plan_print(const struct json *answer)
{
    static const char *const counts[] = {"train_rows", "test_rows", "features", "targets",
                                         "centers"};
    const struct json *plan = json_get(answer, "plan"), *memory = json_get(plan, "memory");
    const struct json *device = json_get(memory, "device_bytes");
    print_fact("model", text_of(json_get(answer, "spec"), "model", "-"));
    print_solver(plan);
    print_fact("kernel", text_of(plan, "kernel", "chosen when it runs"));
    print_fact("precision", text_of(plan, "precision", "-"));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        print_count(plan, counts[i]);
    }
    print_bytes(memory, "memory", "host_bytes", "host_limit_bytes");
    if (device && json_type(device) == JSON_NUMBER && json_number(device) > 0) {
        print_bytes(memory, "device memory", "device_bytes", "device_limit_bytes");
    }
    print_seconds(json_get(plan, "seconds"));
}
