#include "wire/progress.h"

#include <math.h>

static const struct {
    const char *key;
    size_t offset;
} members[] = {
    {"smape", offsetof(struct metrics, smape)},       {"rmse", offsetof(struct metrics, rmse)},
    {"mae", offsetof(struct metrics, mae)},           {"r2", offsetof(struct metrics, r2)},
    {"accuracy", offsetof(struct metrics, accuracy)}, {"auc", offsetof(struct metrics, auc)},
};

enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

struct metrics metrics_none(void)
{
    return (struct metrics){NAN, NAN, NAN, NAN, NAN, NAN};
}

void metrics_to_json(const struct metrics *m, struct json *obj)
{
    for (int i = 0; i < MEMBERS; i++) {
        const double *value = (const double *)((const char *)m + members[i].offset);
        json_set_number(obj, members[i].key, *value);
    }
}

void metrics_from_json(const struct json *obj, struct metrics *ret)
{
    for (int i = 0; i < MEMBERS; i++) {
        double *value = (double *)((char *)ret + members[i].offset);
        const struct json *found = json_get(obj, members[i].key);
        const bool number = found != NULL && json_type(found) == JSON_NUMBER;
        *value = number ? json_number(found) : (double)NAN;
    }
}

struct progress progress_none(void)
{
    return (struct progress){
        .fraction = 0,
        .phase = "loading",
        .step = NAN,
        .relative_residual = NAN,
        .metrics = metrics_none(),
        .eta_s = NAN,
        .kernel_entries_per_s = NAN,
    };
}

static struct json *search_to_json(const struct search_progress *s)
{
    if (s->pairs == 0) {
        return json_new_null();
    }
    struct json *j = json_new_object();
    json_set_int(j, "tried", s->tried);
    json_set_int(j, "pairs", s->pairs);
    json_set_string(j, "metric", search_metric_name(s->metric));
    if (isnan(s->value)) {
        json_set(j, "best", json_new_null());
        return j;
    }
    struct json *best = json_set_object(j, "best");
    json_set_number(best, "regularization", s->regularization);
    json_set_number(best, "bandwidth", s->bandwidth);
    json_set_number(best, "value", s->value);
    return j;
}

struct json *progress_to_json(const struct progress *p)
{
    struct json *j = json_new_object();
    json_set_number(j, "fraction", p->fraction);
    json_set_string(j, "phase", p->phase);
    json_set_int(j, "iteration", p->iteration);
    json_set_number(j, "step_fraction", p->step);
    json_set_number(j, "relative_residual", p->relative_residual);
    metrics_to_json(&p->metrics, j);
    json_set_number(j, "elapsed_s", p->elapsed_s);
    json_set_number(j, "eta_s", p->eta_s);
    json_set_number(j, "kernel_entries_per_s", p->kernel_entries_per_s);
    json_set(j, "search", search_to_json(&p->search));
    return j;
}
