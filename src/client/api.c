#include "client/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "client/show.h"

void complain(const char *fmt, ...)
{
    char text[SHOW_LINE];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    show_line(stderr, "krr: %s", text);
}

enum exit_code api_no_answer(const struct err *err)
{
    complain("%s", err->detail);
    switch (err->code) {
    case ERR_CANCELLED:
        return EXIT_INTERRUPTED;
    case ERR_IO:
    case ERR_TOO_LARGE:
        return EXIT_UNREACHABLE;
    default:
        return EXIT_LOCAL;
    }
}

/* The places that a refusal names, one a line. */
static void tell_places(const struct json *problem, const char *detail)
{
    const struct json *errors = json_get(problem, "errors");
    for (const struct json *e = errors ? json_first(errors) : NULL; e; e = json_next(e)) {
        const char *pointer = json_string(json_get(e, "pointer"));
        const char *said = json_string(json_get(e, "detail"));
        const bool again = said && strcmp(said, detail) == 0;
        show_line(stderr, "  %s%s%s", pointer ? pointer : "", again ? "" : ": ",
                  said && !again ? said : "");
    }
}

enum exit_code api_refused(const struct http_reply *r)
{
    cleanup_json struct json *problem = NULL;
    const int known = json_parse(r->body.data ? r->body.data : "", r->body.len, &problem, NULL);
    const char *detail = known == 0 ? json_string(json_get(problem, "detail")) : NULL;
    if (!detail) {
        complain("the server answered %d, and not as krrd would", r->status);
        return EXIT_UNREACHABLE;
    }
    complain("%s (%d)", detail, r->status);
    tell_places(problem, detail);
    if (r->retry_after_s > 0) {
        fprintf(stderr, "  try again in %.0f s\n", r->retry_after_s);
    }
    return r->status >= 500 ? EXIT_SERVER : EXIT_REFUSED;
}

enum exit_code api_call(struct client *c, const struct http_ask *ask, struct http_reply *ret)
{
    struct err err;
    if (http_call(c->http, ask, ret, &err) < 0) {
        return api_no_answer(&err);
    }
    return ret->status >= 200 && ret->status < 300 ? EXIT_DONE : api_refused(ret);
}

enum exit_code api_parse(const struct http_reply *r, struct json **ret)
{
    struct err err;
    *ret = NULL;
    if (r->status == 204) {
        return EXIT_DONE;
    }
    if (json_parse(r->body.data ? r->body.data : "", r->body.len, ret, &err) < 0) {
        complain("the server's answer is not JSON: %s", err.detail);
        return EXIT_UNREACHABLE;
    }
    return EXIT_DONE;
}

enum exit_code api_json(struct client *c, const char *method, const char *path,
                        const struct json *body, struct json **ret)
{
    cleanup_mem char *text = body ? json_print(body) : NULL;
    if (!path || (body && !text)) {
        complain("not enough memory");
        return EXIT_LOCAL;
    }
    const struct http_ask ask = {.method = method,
                                 .path = path,
                                 .accept = "application/json",
                                 .content_type = text ? "application/json" : NULL,
                                 .body = text,
                                 .size = text ? strlen(text) : 0};
    struct http_reply reply = {.status = 0};
    enum exit_code code = api_call(c, &ask, &reply);
    *ret = NULL;
    if (code == EXIT_DONE) {
        code = api_parse(&reply, ret);
    }
    http_reply_deinit(&reply);
    return code;
}

void api_path_add(struct buf *path, const char *text)
{
    cleanup_mem char *escaped = http_escape(text);
    buf_char(path, '/');
    buf_str(path, escaped ? escaped : "");
    path->failed = path->failed || !escaped;
}

void api_query_add(struct buf *path, const char *name, const char *value)
{
    if (!value) {
        return;
    }
    cleanup_mem char *escaped = http_escape(value);
    buf_char(path, path->data && strchr(path->data, '?') ? '&' : '?');
    buf_str(path, name);
    buf_char(path, '=');
    buf_str(path, escaped ? escaped : "");
    path->failed = path->failed || !escaped;
}

enum exit_code api_print(const struct json *j)
{
    cleanup_mem char *text = json_print(j);
    if (!text) {
        complain("not enough memory");
        return EXIT_LOCAL;
    }
    show_json(text);
    return EXIT_DONE;
}
