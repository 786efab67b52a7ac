#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/http/http_accept.h"
#include "server/jobs/subscribers.h"
#include "server/view.h"

#define LIST_DEFAULT 100
#define LAST_EVENT_ID "#/header/last-event-id"

/* A whole decimal number of at most 18 digits. */
static int read_event_id(const char *text, int64_t *ret, struct err *err)
{
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || text[n] != '\0') {
        return err_at(err, ERR_INVALID, LAST_EVENT_ID,
                      "Last-Event-ID is the number of an event of this job.");
    }
    *ret = strtoll(text, NULL, 10);
    return 0;
}

static void reply_list(struct request *rq, int64_t after, int64_t limit)
{
    struct event_row *rows;
    int64_t count;
    struct err err;
    struct err *e = &err;
    int r = events_list(rq->app->store, rq->param[0], after, limit, &rows, &count, e);
    if (r < 0) {
        reply_error(rq, e);
        return;
    }
    struct event_row *next = NULL;
    int64_t more = 0;
    if (count == limit) {
        r = events_list(rq->app->store, rq->param[0], rows[count - 1].id, 1, &next, &more, e);
    }
    struct json *data = json_new_array();
    for (int64_t i = 0; i < count; i++) {
        json_push(data, view_event(&rows[i]));
    }
    struct json *list = view_list(data, NULL, NULL, more > 0);
    if (count > 0) {
        json_remove(list, "first_id");
        json_remove(list, "last_id");
        json_set_int(list, "first_id", rows[0].id);
        json_set_int(list, "last_id", rows[count - 1].id);
    }
    if (r == 0) {
        events_list_free(next, more);
        reply_json(rq, 200, list);
    } else {
        json_free(list);
        reply_error(rq, e);
    }
    events_list_free(rows, count);
}

/* Only who names it gets it: what takes anything, or any text, gets the list. */
static bool wants_stream(struct request *rq)
{
    static const char stream[] = "text/event-stream";
    cleanup_mem char *accept = request_header_list(rq, "Accept");
    return http_accept_names(accept, stream) &&
           http_accept_quality(accept, stream) >= http_accept_quality(accept, "application/json");
}

/* Nobody has seen an event that is still to come: the log that the client knows is another, of a
 * database from before a backup was restored, say. It would wait in silence until this one is as
 * long. */
static int check_seen(struct request *rq, const struct job_row *job, int64_t after,
                      const char *pointer, struct err *err)
{
    int64_t last = 0;
    const int r = events_last(rq->app->store, job->id, &last, err);
    return r < 0 || after <= last || job_status_final(job->status)
               ? r
               : err_at(err, ERR_INVALID, pointer,
                        "The job's last event is %lld; there is no event %lld to go on from.",
                        (long long)last, (long long)after);
}

static int read_start(struct request *rq, bool stream, int64_t *ret_after, struct err *err)
{
    const char *last = stream ? request_header(rq, "Last-Event-ID") : NULL;
    struct job_row job;
    int r = request_query_int(rq, "after", 0, INT64_MAX, ret_after, err);
    r = r == 0 && last ? read_event_id(last, ret_after, err) : r;
    r = r == 0 ? jobs_get(rq->app->store, rq->param[0], &job, err) : r;
    if (r == 0) {
        r = stream ? check_seen(rq, &job, *ret_after, last ? LAST_EVENT_ID : "#/query/after", err)
                   : 0;
        job_row_deinit(&job);
    }
    return r;
}

/* GET /v1/jobs/{id}/events */
void events_show(struct request *rq)
{
    const bool stream = wants_stream(rq);
    int64_t after = 0, limit = LIST_DEFAULT;
    struct err err;
    int r = request_query_int(rq, "limit", 1, EVENTS_LIMIT_MAX, &limit, &err);
    r = r == 0 ? read_start(rq, stream, &after, &err) : r;
    if (r < 0) {
        reply_error(rq, &err);
    } else if (stream) {
        subscribers_add(rq->app->subscribers, rq, rq->param[0], after);
    } else {
        reply_list(rq, after, limit);
    }
}
