/* What handlers ask of a request. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "server/http/http_internal.h"
#include "server/http/http_text.h"
#include "server/http/problem.h"

const char *request_query_nth(struct request *rq, const char *name, int n)
{
    const struct exchange *ex = exchange_of(rq);
    for (int i = 0; i < ex->query_count; i++) {
        if (strcmp(ex->query[i].name, name) == 0 && n-- == 0) {
            return ex->query[i].value;
        }
    }
    return NULL;
}

const char *request_query(struct request *rq, const char *name)
{
    return request_query_nth(rq, name, 0);
}

struct header_count {
    const char *name;
    int count;
};

static bool count_header(void *context, const char *name, const char *value)
{
    struct header_count *c = context;
    (void)value;
    c->count += strcasecmp(name, c->name) == 0;
    return true;
}

int request_header_count(struct request *rq, const char *name)
{
    struct header_count c = {.name = name};
    exchange_each_header(exchange_of(rq), count_header, &c);
    return c.count;
}

struct header_list {
    const char *name;
    struct buf text;
};

static bool add_to_list(void *context, const char *name, const char *value)
{
    struct header_list *l = context;
    if (strcasecmp(name, l->name) == 0) {
        buf_str(&l->text, l->text.data != NULL ? ", " : "");
        buf_str(&l->text, value);
    }
    return true;
}

char *request_header_list(struct request *rq, const char *name)
{
    struct header_list l = {.name = name, .text = BUF_INIT};
    exchange_each_header(exchange_of(rq), add_to_list, &l);
    char *text = l.text.data != NULL ? buf_take(&l.text) : NULL;
    buf_deinit(&l.text);
    return text;
}

static bool find_wait(void *context, const char *name, const char *value)
{
    int64_t *seconds = context;
    if (strcasecmp(name, "Prefer") == 0) {
        *seconds = http_prefer_wait(value);
    }
    return *seconds < 0;
}

int64_t request_prefer_wait(struct request *rq)
{
    int64_t seconds = -1;
    exchange_each_header(exchange_of(rq), find_wait, &seconds);
    return seconds;
}

struct wanted_tag {
    const char *header, *tag;
    bool (*names)(const char *list, const char *tag);
    bool found;
};

static bool find_tag(void *context, const char *name, const char *value)
{
    struct wanted_tag *w = context;
    w->found = strcasecmp(name, w->header) == 0 && w->names(value, w->tag);
    return !w->found;
}

bool request_has_tag(struct request *rq, const char *tag)
{
    struct wanted_tag w = {.header = "If-None-Match", .tag = tag, .names = http_tag_listed};
    exchange_each_header(exchange_of(rq), find_tag, &w);
    return w.found;
}

bool request_matches_tag(struct request *rq, const char *tag)
{
    struct wanted_tag w = {.header = "If-Match", .tag = tag, .names = http_tag_matches};
    exchange_each_header(exchange_of(rq), find_tag, &w);
    return w.found;
}

/* A text and its end, so that two texts are not taken for one; NULL differs from "". */
static void digest_text(struct sha256 *to, const char *text)
{
    if (text != NULL) {
        sha256_update(to, text, strlen(text) + 1);
    }
    sha256_update(to, "\n", 1);
}

void request_digest_head(struct request *rq, struct sha256 *to)
{
    const struct exchange *ex = exchange_of(rq);
    for (int i = 0; i < ex->query_count; i++) {
        digest_text(to, ex->query[i].name);
        digest_text(to, ex->query[i].value);
    }
    digest_text(to, request_header(rq, "Content-Type"));
    digest_text(to, request_header(rq, "Content-Encoding"));
}

int64_t request_content_length(struct request *rq)
{
    return exchange_of(rq)->length;
}

static int query_error(struct err *err, const char *name, int64_t min, int64_t max)
{
    char pointer[sizeof(err->pointer)];
    snprintf(pointer, sizeof(pointer), "#/query/%s", name);
    return err_at(err, ERR_INVALID, pointer,
                  "The query parameter \"%s\" must be a whole number of %" PRId64 " to %" PRId64
                  ".",
                  name, min, max);
}

int request_query_int(struct request *rq, const char *name, int64_t min, int64_t max, int64_t *ret,
                      struct err *err)
{
    const char *text = request_query(rq, name);
    if (text == NULL) {
        return 0;
    }
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (*text == '\0' || strspn(text, "-0123456789") != strlen(text) || *end != '\0' ||
        errno != 0 || value < min || value > max) {
        return query_error(err, name, min, max);
    }
    *ret = value;
    return 0;
}

int request_query_flag(struct request *rq, const char *name, bool *ret, struct err *err)
{
    const char *text = request_query(rq, name);
    if (text == NULL) {
        return 0;
    }
    const bool yes = strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0) {
        char pointer[sizeof(err->pointer)];
        snprintf(pointer, sizeof(pointer), "#/query/%s", name);
        return err_at(err, ERR_INVALID, pointer,
                      "The query parameter \"%s\" must be true or false.", name);
    }
    *ret = yes;
    return 0;
}

bool request_query_at(struct request *rq, int n, const char **ret_name, const char **ret_value)
{
    const struct exchange *ex = exchange_of(rq);
    if (n < 0 || n >= ex->query_count) {
        return false;
    }
    *ret_name = ex->query[n].name;
    *ret_value = ex->query[n].value;
    return true;
}

double request_deadline(const struct request *rq)
{
    return ((const struct exchange *)(const void *)rq)->deadline;
}

int request_is_json(struct request *rq, struct err *err)
{
    const char *type = request_header(rq, "Content-Type");
    /* The form type is what `curl -d` says of any text. */
    if (type != NULL && !http_type_is_json(type) &&
        !http_type_is(type, "application/x-www-form-urlencoded")) {
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE,
                      "The body must be application/json.");
    }
    const char *encoding = request_header(rq, "Content-Encoding");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_ENCODING,
                      "A JSON body is taken without Content-Encoding only.");
    }
    return 0;
}

int request_json_body(struct request *rq, struct json **ret, struct err *err)
{
    const int rc = request_is_json(rq, err);
    return rc < 0 ? rc
                  : json_parse(rq->body.data != NULL ? rq->body.data : "", rq->body.len, ret, err);
}

void request_take_body(struct request *rq, struct buf *ret)
{
    *ret = rq->body;
    rq->body = (struct buf)BUF_INIT;
}

void http_body_done(struct http *h, size_t len)
{
    if (h != NULL) {
        h->bodies -= len;
        rate_add(&h->body_rate, clock_monotonic_s(), 1.0);
    }
}
