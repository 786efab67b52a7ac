#include <stdlib.h>
#include <string.h>

#include "server/api/handlers.h"
#include "server/app.h"
#include "server/http/http_accept.h"
#include "server/jobs/subscribers.h"
#include "server/view.h"

#define LIST_DEFAULT 100

/* A whole decimal number of at most 18 digits. */
static int read_event_id(const char *text, int64_t *ret, struct err *err)
{
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || text[n] != '\0') {
        return err_at(err, ERR_INVALID, "#/header/last-event-id",
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
    const char *accept = request_header(rq, "Accept");
    return http_accept_names(accept, stream) &&
           http_accept_quality(accept, stream) >= http_accept_quality(accept, "application/json");
}

/* GET /v1/jobs/{id}/events */
void events_show(struct request *rq)
{
    struct err err;
    struct job_row job;
    int64_t after = 0, limit = LIST_DEFAULT;
    int r = request_query_int(rq, "after", 0, INT64_MAX, &after, &err);
    if (r == 0) {
        r = request_query_int(rq, "limit", 1, EVENTS_LIMIT_MAX, &limit, &err);
    }
    const char *last = request_header(rq, "Last-Event-ID");
    if (r == 0 && last && wants_stream(rq)) {
        r = read_event_id(last, &after, &err);
    }
    if (r == 0) {
        r = jobs_get(rq->app->store, rq->param[0], &job, &err);
    }
    if (r < 0) {
        reply_error(rq, &err);
        return;
    }
    job_row_deinit(&job);
    if (wants_stream(rq)) {
        subscribers_add(rq->app->subscribers, rq, rq->param[0], after);
    } else {
        reply_list(rq, after, limit);
    }
}
