/* A sample of a job's test rows: what was true and what its model predicts. */
#include <string.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/view.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 1000

/* The first `limit` items of from[key]. */
static void set_first(struct json *to, const char *key, const struct json *from, int64_t limit)
{
    struct json *list = json_set_array(to, key);
    for (const struct json *item = json_first(json_get(from, key)); item != NULL && limit > 0;
         item = json_next(item), limit--) {
        json_push(list, json_copy(item));
    }
}

/* `kept` is what src/worker/tested.h makes; its rows are in random order. */
static struct json *view_tested(const struct job_row *job, const struct json *kept, int64_t limit)
{
    struct json *j = json_new_object();
    json_set_string(j, "object", "test_predictions");
    json_set_string(j, "job", job->id);
    json_set_string(j, "dataset", job->test_dataset[0] != '\0' ? job->test_dataset : job->dataset);
    static const char *const same[] = {"task", "targets", "classes", "test_rows"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        json_set(j, same[i], json_copy(json_get(kept, same[i])));
    }
    set_first(j, "rows", kept, limit);
    set_first(j, "truth", kept, limit);
    set_first(j, "predictions", kept, limit);
    return j;
}

void tested_show(struct request *rq)
{
    struct store *store = rq->app->store;
    struct err err;
    struct job_row job = {.reason = NULL};
    int64_t limit = LIMIT_DEFAULT;
    cleanup_mem char *text = NULL;
    cleanup_json struct json *kept = NULL;
    int r = request_query_int(rq, "limit", 1, LIMIT_MAX, &limit, &err);
    if (r == 0) {
        r = jobs_get(store, rq->param[0], &job, &err);
    }
    if (r == 0) {
        r = jobs_test_predictions(store, job.id, &text, &err);
    }
    if (r == 0) {
        r = json_parse(text, strlen(text), &kept, &err);
    }
    if (r == 0) {
        reply_tagged(rq, view_tested(&job, kept, limit));
    } else {
        reply_error(rq, &err);
    }
    job_row_deinit(&job);
}
