/* POST /v1/jobs: a job is checked, planned and queued. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/api/job_data.h"
#include "server/api/jobs.h"
#include "server/api/once.h"
#include "server/app.h"
#include "server/jobs/planner.h"
#include "server/jobs/room.h"
#include "server/jobs/trainer.h"
#include "server/jobs/waiting.h"
#include "server/metrics.h"
#include "server/pool/pool.h"
#include "server/serving/served.h"
#include "server/storage.h"
#include "server/view.h"
#include "server/webhooks/webhooks.h"
#include "store/models.h"
#include "wire/spec.h"

static void spec_freep(struct job_spec **s)
{
    *s = job_spec_free(*s);
}

/* Takes row. */
static int check_start_fits(const struct job_spec *spec, const struct dataset_info *train,
                            struct model_row *row, struct err *err)
{
    const struct served_model *m;
    const int r = served_of_row(row, &m, err);
    if (r < 0) {
        return r != -ERR_CORRUPT ? r
                                 : err_at(err, ERR_CORRUPT, "#/warm_start",
                                          "The description of the model \"%.64s\" is damaged.",
                                          spec->warm_start.model);
    }
    const struct start_model start = {
        .features = m->d,
        .feature_names = m->features,
        .targets = m->outputs,
        .classes = m->classes,
        .class_labels = m->labels,
    };
    const int fits = job_spec_check_start(spec, train, &start, err);
    served_release(m);
    return fits;
}

/* Fixes the version of the model to begin with, so that every attempt begins alike. */
static int check_warm_start(const struct app *app, struct job_spec *spec,
                            const struct dataset_info *train, struct err *err)
{
    if (spec->warm_start.model[0] == '\0') {
        return 0;
    }
    struct model_row row;
    struct err why;
    if (models_get(app->store, spec->warm_start.model, spec->warm_start.version, &row, &why) < 0) {
        return why.code == ERR_NOT_FOUND ? err_at(err, ERR_INVALID, "#/warm_start",
                                                  "There is nothing to begin with: %s", why.detail)
                                         : -(int)(*err = why).code;
    }
    spec->warm_start.version = row.version;
    return check_start_fits(spec, train, &row, err);
}

/* Whether some training worker runs on the device asked for. A server without any training worker
 * keeps jobs for the day when it has one. */
static int check_device(const struct app *app, const struct job_spec *spec, struct err *err)
{
    bool cpu = false, cuda = false;
    for (int i = 0; app->pool != NULL && i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        const bool train = slot_kind(s) == SLOT_TRAIN;
        if (train && slot_takes(s, spec->device)) {
            return 0;
        }
        cpu |= train && slot_takes(s, "cpu");
        cuda |= train && slot_takes(s, "cuda");
    }
    if (strncmp(spec->device, "cuda", 4) != 0) {
        return !cuda ? 0
                     : err_at(err, ERR_UNSUPPORTED, "#/device",
                              "This server trains on GPUs alone (its --workers names no cpu). Use "
                              "\"cuda\" or \"auto\".");
    }
    return cuda ? err_at(err, ERR_UNSUPPORTED, "#/device",
                         "This server has no training worker on %s. Use \"cuda\"%s or \"auto\".",
                         spec->device, cpu ? ", \"cpu\"" : "")
                : err_at(err, ERR_UNSUPPORTED, "#/device",
                         "This server has no CUDA worker: it wants krrd-worker-cuda, an NVIDIA "
                         "driver, and cuda:all among its --workers. Use \"cpu\" or \"auto\".");
}

int jobs_check_room(const struct app *app, struct err *err)
{
    int64_t queued;
    int r = jobs_count(app->store, JOB_QUEUED, &queued, err);
    if (r == 0 && queued >= app->config.max_queue) {
        return err_set(err, ERR_BUSY,
                       "The queue holds %lld jobs, its limit (--max-queue); try again later.",
                       (long long)queued);
    }
    return r;
}

void jobs_refuse_room(struct request *rq, int r, const struct err *err)
{
    if (r == -ERR_BUSY) {
        request_shed(rq, SHED_QUEUE, trainer_retry_after_s(rq->app->trainer));
        reply_problem(rq, 429, err);
    } else {
        reply_error(rq, err);
    }
}

/* What a request to queue a job comes to. */
struct creation {
    bool validate_only; /* nothing is stored */
    bool read_ahead;    /* descriptions may be read on another thread first */
    bool deferred;      /* which they are: the request begins again after that */
    struct once *once;
    bool queue_full;
    char body[SHA256_HEX_SIZE]; /* digest of the body; of use with `once` alone */
    char id[ID_SIZE];
    char location[ID_SIZE + 16];
    char *answer;
};

static void creation_deinit(struct creation *c)
{
    once_free(c->once);
    mem_free(c->answer);
}

/* The answer is made before the row, since it is kept in the same transaction. */
static int insert_row(struct app *app, const struct job_row *row, struct creation *c,
                      struct err *err)
{
    int64_t position;
    int r = jobs_queue_length(app->store, row->priority, row->wanted_device, &position, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *j = view_job(row, position, waiting_for(app, row, position));
    c->answer = json_print(j);
    memcpy(c->id, row->id, ID_SIZE);
    snprintf(c->location, sizeof c->location, "/v1/jobs/%s", c->id);
    const struct idempotency_row *kept =
        c->answer ? once_answer(c->once, c->body, 202, c->location, c->answer) : NULL;
    if (!c->answer || (c->once && !kept)) {
        return err_no_memory(err);
    }
    return jobs_insert(app->store, row, kept, row->created_ms, err);
}

static int insert(struct app *app, const struct job_spec *spec, char *plan, struct creation *c,
                  struct err *err)
{
    cleanup_json struct json *document = job_spec_write(spec);
    cleanup_mem char *text = document ? json_print(document) : NULL;
    if (!text) {
        return err_no_memory(err);
    }
    const int64_t now = clock_wall_ms();
    struct job_row row = {
        .status = JOB_QUEUED,
        .model = (char *)(uintptr_t)spec->model, /* Read only: rows own their strings elsewhere. */
        .spec = text,
        .plan = plan,
        .priority = spec->priority,
        .max_attempts = spec->max_attempts,
        .host_bytes = (int64_t)room_needed(plan),
        .created_ms = now,
        .queued_ms = now,
    };
    id_new(&app->ids, "job", now, row.id);
    snprintf(row.dataset, sizeof row.dataset, "%s", spec->dataset);
    snprintf(row.wanted_device, sizeof row.wanted_device, "%s", spec->device);
    if (spec->test.kind == SPEC_TEST_DATASET) {
        snprintf(row.test_dataset, sizeof row.test_dataset, "%s", spec->test.dataset);
    }
    snprintf(row.centers_dataset, sizeof row.centers_dataset, "%s", spec->centers.dataset);
    return insert_row(app, &row, c, err);
}

/* The answer of a request that only asks what a job would take. */
static int answer_plan(const struct job_spec *spec, const char *plan, struct creation *c,
                       struct err *err)
{
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "object", "plan");
    json_set(j, "spec", job_spec_write(spec));
    view_set_text(j, "plan", plan);
    c->answer = json_ok(j) ? json_print(j) : NULL;
    return c->answer ? 0 : err_no_memory(err);
}

static int plan_and_insert(struct app *app, struct job_spec *spec, const struct job_data *data,
                           struct creation *c, struct err *err)
{
    const struct plan_data sizes = {
        .train = data->train,
        .test = data->test,
        .centers = data->centers,
    };
    cleanup_mem char *plan = NULL;
    int r = planner_plan(app, spec, &sizes, &plan, err);
    if (r == 0 && c->validate_only) {
        return answer_plan(spec, plan, c, err);
    }
    r = r == 0 ? storage_room(app, 0, err) : r;
    if (r == 0) {
        r = jobs_check_room(app, err);
        c->queue_full = r == -ERR_BUSY;
    }
    return r < 0 ? r : insert(app, spec, plan, c, err);
}

static void create_now(struct request *rq);

/* Everything between the body and the row. */
static int create(struct request *rq, struct creation *c, struct err *err)
{
    cleanup_json struct json *body = NULL;
    __attribute__((cleanup(spec_freep))) struct job_spec *spec = NULL;
    struct job_data data;
    int r = request_json_body(rq, &body, err);
    if (r == 0) {
        r = job_spec_read(body, &spec, err);
    }
    if (r == 0) {
        r = job_spec_check_effects(spec, err);
    }
    if (r == 0 && spec->promote.alias[0] != '\0' && !request_is_admin(rq)) {
        r = err_at(err, ERR_FORBIDDEN, "#/promote", "Moving an alias needs the scope admin.");
    }
    if (r == 0) {
        r = check_device(rq->app, spec, err);
    }
    c->deferred = r == 0 && c->read_ahead && job_data_read_ahead(rq, spec, create_now);
    if (c->deferred) {
        return 0;
    }
    if (r == 0) {
        r = job_data_find(rq->app, spec, &data, err);
    }
    if (r == 0) {
        r = check_warm_start(rq->app, spec, data.train, err);
    }
    if (r == 0) {
        r = webhooks_check(rq->app, &spec->webhook, err);
    }
    return r < 0 ? r : plan_and_insert(rq->app, spec, &data, c, err);
}

/* What has been made of the request: a job in the queue, or a plan. */
static void reply_created(struct request *rq, struct creation *c)
{
    if (c->validate_only) {
        reply_take(rq, 200, "application/json", c->answer, strlen(c->answer));
        c->answer = NULL;
        return;
    }
    metrics_count(rq->app->metrics, METRIC_JOBS_SUBMITTED, 0, 0, 1);
    log_msg(&rq->app->log, LOG_INFO, "job.queued", "job", c->id, "request", rq->id, NULL);
    request_set_header(rq, "Location", c->location);
    reply_take(rq, 202, "application/json", c->answer, strlen(c->answer));
    c->answer = NULL;
    trainer_kick_soon(rq->app->trainer);
}

/* A request that stores nothing is not kept either, whatever key it has. */
static int begin_once(struct request *rq, struct creation *c, struct err *err)
{
    int r = request_query_flag(rq, "validate_only", &c->validate_only, err);
    if (r < 0 || c->validate_only) {
        return r;
    }
    r = once_begin(rq, "jobs", &c->once, err);
    if (r == 0 && c->once) {
        r = sha256_text(rq->body.data, rq->body.len, c->body) ? 0 : err_no_memory(err);
    }
    return r;
}

static void begin_creation(struct request *rq, bool read_ahead)
{
    struct err err;
    __attribute__((cleanup(creation_deinit))) struct creation c = {.read_ahead = read_ahead};
    int r = begin_once(rq, &c, &err);
    if (r == 0 && once_answered(c.once)) {
        once_replay(c.once, rq, c.body);
        return;
    }
    if (r == 0) {
        r = create(rq, &c, &err);
    }
    if (c.queue_full) {
        jobs_refuse_room(rq, r, &err);
    } else if (r < 0) {
        reply_error(rq, &err);
    } else if (!c.deferred) {
        reply_created(rq, &c);
    }
}

static void create_now(struct request *rq)
{
    begin_creation(rq, false);
}

void jobs_create(struct request *rq)
{
    begin_creation(rq, true);
}
