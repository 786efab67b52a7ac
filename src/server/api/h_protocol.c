/* What the Open Inference Protocol, version 2, says of server and models: metadata, readiness,
 * configuration in Triton's shape. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/api/handlers.h"
#include "server/app.h"
#include "server/bodies/infer.h"
#include "server/serving/serving.h"
#include "store/limits.h"

/* GET /v2 */
void protocol_server(struct request *rq)
{
    static const char *const extensions[] = {"binary_tensor_data",  "model_repository",
                                             "model_configuration", "statistics",
                                             "schedule_policy",     "parameters"};
    struct json *j = json_new_object();
    json_set_string(j, "name", "krrd");
    json_set_string(j, "version", KRRD_VERSION);
    struct json *list = json_set_array(j, "extensions");
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        json_push(list, json_new_string(extensions[i]));
    }
    reply_json(rq, 200, j);
}

/* The model that the path names; NULL: the request was answered with a problem. */
static const struct served_model *find(struct request *rq)
{
    const struct served_model *model;
    struct err err;
    if (served_find(rq->app->served, rq->param[0], rq->param[1], &model, &err) < 0) {
        reply_error(rq, &err);
        return NULL;
    }
    return model;
}

static void push_version(struct json *to, int64_t version)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)version);
    json_push(to, json_new_string(text));
}

/* Oldest first; of a path that names one, that one. */
static int list_versions(struct request *rq, const struct served_model *m, struct json *to,
                         struct err *err)
{
    struct model_row *rows;
    int64_t count;
    if (rq->param[1]) {
        push_version(to, m->version);
        return 0;
    }
    const int r = models_versions_brief(rq->app->store, m->name, &rows, &count, err);
    for (int64_t i = count; r == 0 && i > 0; i--) {
        push_version(to, rows[i - 1].version);
    }
    if (r == 0) {
        models_list_free(rows, count);
    }
    return r;
}

/* GET /v2/models/{name}[/versions/{version}] */
void protocol_model(struct request *rq)
{
    const struct served_model *m = find(rq);
    struct err err;
    if (!m) {
        return;
    }
    struct json *j = json_new_object();
    json_set_string(j, "name", m->name);
    const int r = list_versions(rq, m, json_set_array(j, "versions"), &err);
    json_set_string(j, "platform", "krrd_krr");
    json_set(j, "inputs", infer_describe_inputs(m));
    json_set(j, "outputs", infer_describe_outputs(m));
    served_release(m);
    if (r < 0) {
        json_free(j);
        reply_error(rq, &err);
    } else {
        reply_json(rq, 200, j);
    }
}

/* GET …/ready: whether a request would be answered, after loading the model where it is not. */
void protocol_ready(struct request *rq)
{
    const struct served_model *m = find(rq);
    const char *reason = NULL;
    if (!m) {
        return;
    }
    const bool ready =
        app_ready(rq->app, &reason) && serving_state(rq->app->serving, m->key) != SERVING_FAILED;
    struct json *j = json_new_object();
    json_set_string(j, "name", m->name);
    json_set_bool(j, "ready", ready);
    served_release(m);
    reply_json(rq, ready ? 200 : 503, j);
}

/* ---- configuration ---- */

/* {"name": "X", "datatype": "FP64", "shape": [-1, d]} as Triton's configuration has it: without
 * the dimension of the batch. */
static struct json *tensor_config(const struct json *tensor)
{
    const char *datatype = json_string(json_get(tensor, "datatype"));
    struct json *j = json_new_object();
    json_set_string(j, "name", json_string(json_get(tensor, "name")));
    json_set_string(j, "data_type",
                    datatype && strcmp(datatype, "BYTES") == 0 ? "TYPE_STRING" : "TYPE_FP64");
    json_push(json_set_array(j, "dims"),
              json_copy(json_next(json_first(json_get(tensor, "shape")))));
    return j;
}

static void set_tensors(struct json *to, const char *key, struct json *tensors)
{
    struct json *list = json_set_array(to, key);
    for (const struct json *t = json_first(tensors); t; t = json_next(t)) {
        json_push(list, tensor_config(t));
    }
    json_free(tensors);
}

/* Triton's form of the model's limits; 0 microseconds: no deadline. */
static void set_batching(struct app *app, const struct served_model *m, struct json *to)
{
    struct limits_row own;
    if (limits_get(app->store, m->name, &own, NULL) < 0) {
        return; /* it is not told, as by a server that does not batch */
    }
    const struct model_limits l = serving_limits_of(app->serving, &own);
    struct json *batching = json_set_object(to, "dynamic_batching");
    json_push(json_set_array(batching, "preferred_batch_size"),
              json_new_number((double)l.batch_rows));
    json_set_int(batching, "max_queue_delay_microseconds", l.batch_delay_us);
    struct json *policy = json_set_object(batching, "default_queue_policy");
    json_set_string(policy, "timeout_action", "REJECT");
    json_set_int(policy, "default_timeout_microseconds", llround(1e6 * l.deadline_s));
    json_set_bool(policy, "allow_timeout_override", true);
    json_set_int(policy, "max_queue_size", l.queue);
}

/* GET …/config */
void protocol_config(struct request *rq)
{
    const struct served_model *m = find(rq);
    if (!m) {
        return;
    }
    struct json *j = json_new_object();
    json_set_string(j, "name", m->name);
    json_set_string(j, "platform", "krrd_krr");
    json_set_string(j, "backend", "krrd");
    json_set_int(json_set_object(json_set_object(j, "version_policy"), "latest"), "num_versions",
                 1);
    json_set_int(j, "max_batch_size", (int64_t)(QUESTION_MAX_BYTES / sizeof(double)) / m->d);
    set_batching(rq->app, m, j);
    set_tensors(j, "input", infer_describe_inputs(m));
    set_tensors(j, "output", infer_describe_outputs(m));
    json_set_string(json_set_object(json_set_object(j, "parameters"), "digest"), "string_value",
                    m->digest);
    served_release(m);
    reply_json(rq, 200, j);
}

/* ---- statistics ---- */

static void set_duration(struct json *to, const char *key, int64_t count, double seconds)
{
    struct json *j = json_set_object(to, key);
    json_set_int(j, "count", count);
    json_set_int(j, "ns", (int64_t)(seconds * 1e9));
}

/* All counts begin when the model is loaded. compute_infer is what a request spends with a worker,
 * its batch's whole time, as Triton has it; reading and writing of tensors (compute_input and
 * compute_output) is not a worker's work here, and there is no cache. perf_analyzer wants the
 * three counts to be equal. */
static void set_statistics(struct json *j, const struct serving_stats *s)
{
    json_set_int(j, "last_inference", s->last_ms);
    json_set_int(j, "inference_count", s->rows);
    json_set_int(j, "execution_count", s->batches);
    struct json *stats = json_set_object(j, "inference_stats");
    set_duration(stats, "success", s->requests, s->success_s);
    set_duration(stats, "fail", s->failed, s->failed_s);
    set_duration(stats, "queue", s->requests, s->queue_s);
    set_duration(stats, "compute_input", s->requests, 0.0);
    set_duration(stats, "compute_infer", s->requests, fmax(s->success_s - s->queue_s, 0.0));
    set_duration(stats, "compute_output", s->requests, 0.0);
    set_duration(stats, "cache_hit", 0, 0.0);
    set_duration(stats, "cache_miss", 0, 0.0);
    json_set_array(j, "batch_stats");
}

/* Adds the model's to a list. */
static void push_statistics(const struct serving *s, const struct served_model *m, struct json *to)
{
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)m->version);
    const struct serving_stats stats = serving_statistics(s, m->key);
    struct json *j = json_push(to, json_new_object());
    json_set_string(j, "name", m->name);
    json_set_string(j, "version", version);
    set_statistics(j, &stats);
    struct json *memory = json_push(json_set_array(j, "memory_usage"), json_new_object());
    json_set_string(memory, "type", "CPU");
    json_set_int(memory, "id", 0);
    json_set_int(memory, "byte_size", serving_bytes(s, m->key));
}

/* GET …/stats */
void protocol_stats(struct request *rq)
{
    const struct served_model *m = find(rq);
    if (!m) {
        return;
    }
    struct json *answer = json_new_object();
    push_statistics(rq->app->serving, m, json_set_array(answer, "model_stats"));
    served_release(m);
    reply_json(rq, 200, answer);
}

struct listing {
    const struct serving *serving;
    struct json *to;
};

static void list_model(void *context, const struct served_model *m)
{
    const struct listing *l = context;
    push_statistics(l->serving, m, l->to);
}

/* GET /v2/models/stats */
void protocol_all_stats(struct request *rq)
{
    struct json *answer = json_new_object();
    struct listing l = {.serving = rq->app->serving, .to = json_set_array(answer, "model_stats")};
    serving_visit(rq->app->serving, list_model, &l);
    reply_json(rq, 200, answer);
}
