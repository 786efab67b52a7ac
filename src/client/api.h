/*
 * The interface of krrd as the commands use it: a call gives JSON, or tells on standard error why
 * not and gives the exit code.
 */
#pragma once

#include "base/buf.h"
#include "client/client.h"
#include "client/http.h"

/* EXIT_DONE and *ret (json_free; NULL for an answer without a body), or the exit code after the
 * complaint. body NULL: none. */
enum exit_code api_json(struct client *c, const char *method, const char *path,
                        const struct json *body, struct json **ret);

/* A whole call: EXIT_DONE for any 2xx. *ret as in http_call, deinit in any case. */
enum exit_code api_call(struct client *c, const struct http_ask *ask, struct http_reply *ret);

/* The JSON of an answer to api_call, as api_json gives it. */
enum exit_code api_parse(const struct http_reply *r, struct json **ret);

/* Tells of a call that got no answer, and of an answer that is a refusal. */
enum exit_code api_no_answer(const struct err *err);
enum exit_code api_refused(const struct http_reply *r);

/* "krr: …" on standard error. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Appends "/{text}", escaped. */
void api_path_add(struct buf *path, const char *text);
/* Appends "?name=value" or "&name=value", escaped; nothing where value is NULL. */
void api_query_add(struct buf *path, const char *name, const char *value);

/* One line of JSON on standard output. */
enum exit_code api_print(const struct json *j);
