#include "server/jobs/promotion.h"

#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "server/app.h"
#include "server/metrics.h"
#include "server/serving/served.h"
#include "server/serving/serving.h"
#include "store/aliases.h"
#include "store/jobs.h"
#include "store/models.h"

/* A model that no worker takes within this time is not promoted. */
#define LOAD_MS 120000

struct promotion {
    struct job_report report;
    struct json *done;
    uv_timer_t timer;
    bool late;
    void (*ended)(void *context, struct job_report *report, const struct json *done, int r);
    void *context;
};

bool promotion_wanted(const struct job_report *report, const struct json *done)
{
    struct promote_spec spec;
    const struct json *model = json_get(done, "model");
    const struct json *metrics = json_get(json_get(done, "result"), "metrics");
    return model && json_type(model) == JSON_OBJECT && job_report_promote(report, &spec) &&
           promote_worth(&spec, metrics);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct promotion *p = handle->data;
    job_report_deinit(&p->report);
    json_free(p->done);
    mem_free(p);
}

/* Whether the alias moved is in the job's row, where the end was recorded. */
static void count_move(struct app *app, const char *job)
{
    struct job_row row;
    if (jobs_get(app->store, job, &row, NULL) < 0) {
        return;
    }
    cleanup_json struct json *told = NULL;
    if (row.promotion && json_parse(row.promotion, strlen(row.promotion), &told, NULL) == 0 &&
        json_bool(json_get(told, "promoted"))) {
        metrics_count(app->metrics, METRIC_ALIAS_MOVES, ALIAS_PROMOTION, 0, 1);
    }
    job_row_deinit(&row);
}

/* A daemon that stops has not tried in earnest: the job is put aside, and goes on at the next
 * start. */
static void on_loaded(void *context, const struct err *err)
{
    struct promotion *p = context;
    struct app *app = p->report.app;
    const char *failure = !err ? NULL : p->late ? "It took too long." : err->detail;
    int r = err && app->draining
                ? job_report_put_aside(app, p->report.job)
                : job_report_end_with_model(&p->report, p->done, err == NULL, failure);
    r = r == 0 ? job_report_settle(&p->report) : r;
    if (r < 0) {
        serving_unload(app->serving, p->report.staged);
        p->report.sealed = p->report.sealed_kept;
    }
    if (r == 0 && !err) {
        count_move(app, p->report.job);
    }
    p->ended(p->context, &p->report, p->done, r);
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

static void on_late(uv_timer_t *timer)
{
    struct promotion *p = timer->data;
    p->late = true;
    serving_unload(p->report.app->serving, p->report.staged); /* Wakes who waits: on_loaded. */
}

/* The staged model as the serving room takes it. */
static int find_model(struct promotion *p, const struct served_model **ret, struct err *err)
{
    struct model_row row = {.key = p->report.staged, .version = 1};
    row.name = mem_strdup(p->report.job);
    row.description = job_report_describe(&p->report, p->done);
    row.bytes = json_int(json_get(p->done, "bytes"));
    if (!row.name || !row.description) {
        model_row_deinit(&row);
        return err_no_memory(err);
    }
    return served_of_row(&row, ret, err);
}

static void load(struct promotion *p)
{
    const struct served_model *model;
    struct err err;
    int r = job_report_seal(&p->report, p->done, &err);
    r = r == 0 ? app_settle(p->report.app, &err) : r;
    p->report.sealed = p->report.sealed_kept = r == 0;
    r = r == 0 ? find_model(p, &model, &err) : r;
    if (r < 0) {
        on_loaded(p, &err);
        return;
    }
    uv_timer_start(&p->timer, on_late, LOAD_MS, 0);
    serving_load(p->report.app->serving, model, on_loaded, p);
    served_release(model);
}

int promotion_begin(struct job_report *report, const struct json *done,
                    void (*ended)(void *context, struct job_report *report, const struct json *done,
                                  int r),
                    void *context)
{
    struct promotion *p = mem_zalloc(sizeof *p);
    struct json *copy = json_copy(done);
    if (!p || !json_ok(copy)) {
        json_free(copy);
        mem_free(p);
        return err_no_memory(NULL);
    }
    p->report = job_report_take(report);
    p->done = copy;
    p->ended = ended;
    p->context = context;
    uv_timer_init(report->app->loop, &p->timer);
    p->timer.data = p;
    load(p);
    return 0;
}
