#include <math.h>

#include "base/json.h"
#include "engine/fit/fit_parts.h"

static void set_phases(const struct fit_phases *p, struct json *to)
{
    if (isnan(p->setup_s)) {
        json_set(to, "phases", json_new_null());
        return;
    }
    struct json *phases = json_set_object(to, "phases");
    json_set_number(phases, "setup_s", p->setup_s);
    json_set_number(phases, "choice_s", p->choice_s);
    json_set(phases, "choice_cut_off", json_new_bool(p->choice_cut_off));
    json_set_number(phases, "iterations_s", p->iterations_s);
    json_set_number(phases, "finish_s", p->finish_s);
}

void fit__set_kernel(const struct fit_result *r, struct json *to)
{
    if (r->kernel == NULL) {
        json_set(to, "kernel", json_new_null());
        return;
    }
    struct json *kernel = json_set_object(to, "kernel");
    json_set_string(kernel, "name", r->kernel);
    json_set_number(kernel, "bandwidth", r->bandwidth);
}

static void set_grid(const struct grid *g, struct json *j)
{
    if (g->dims == 0) {
        json_set(j, "grid", json_new_null());
        return;
    }
    struct json *sizes = json_set_array(j, "grid");
    for (int k = 0; k < g->dims; k++) {
        json_push(sizes, json_new_number((double)g->size[k]));
    }
}

static void set_scores(const struct fit_result *r, struct json *to)
{
    if (r->levels == 0) {
        json_set(to, "leverage_scores", json_new_null());
        return;
    }
    const struct center_level *last = &r->path[r->levels - 1];
    struct json *scores = json_set_object(to, "leverage_scores");
    json_set_number(scores, "regularization", last->lambda);
    json_set_number(scores, "effective_dimension", last->effective_dimension);
    struct json *path = json_set_array(scores, "path");
    for (int64_t h = 0; h < r->levels; h++) {
        struct json *level = json_new_object();
        json_set_number(level, "regularization", r->path[h].lambda);
        json_set_int(level, "centers", r->path[h].count);
        json_set_number(level, "effective_dimension", r->path[h].effective_dimension);
        json_push(path, level);
    }
}

struct json *fit_result_to_json(const struct fit_result *r)
{
    struct json *j = json_new_object();
    json_set_string(j, "stop_reason", reason_name(r->outcome.reason));
    json_set_string(j, "solver", r->solver);
    json_set_string(j, "preconditioner", r->preconditioner[0] != '\0' ? r->preconditioner : NULL);
    if (r->preconditioner[0] != '\0') {
        json_set_int(j, "rank", r->rank);
    } else {
        json_set(j, "rank", json_new_null());
    }
    if (r->directions > 0) {
        json_set_int(j, "directions", r->directions);
    } else {
        json_set(j, "directions", json_new_null());
    }
    json_set_number(j, "log_evidence", r->log_evidence);
    json_set_string(j, "precision", precision_name(r->precision));
    json_set_int(j, "iterations", r->outcome.iterations);
    json_set_number(j, "relative_residual", r->outcome.relative_residual);
    json_set_number(j, "relative_residual_bound", r->outcome.relative_residual_bound);
    json_set_number(j, "whitened_residual", r->outcome.whitened_residual);
    json_set_string(j, "certificate", r->outcome.sampled ? "sampled" : "exact");
    fit__set_kernel(r, j);
    json_set_number(j, "regularization", r->regularization);
    json_set_number(j, "ridge", r->ridge);
    json_set_int(j, "train_rows", r->train_rows);
    json_set_int(j, "test_rows", r->test_rows);
    json_set_int(j, "centers", r->centers > 0 ? r->centers : r->train_rows);
    set_scores(r, j);
    metrics_to_json(&r->outcome.metrics, json_set_object(j, "metrics"));
    json_set_number(j, "seconds", r->seconds);
    set_phases(&r->phases, j);
    json_set(j, "search", search_result_to_json(&r->search));
    json_set_int(j, "peak_memory_bytes", r->peak_memory_bytes);
    json_set_int(j, "kernel_cache_bytes", r->kernel_cache_bytes);
    set_grid(&r->grid, j);
    return j;
}
