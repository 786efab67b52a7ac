/*
 * HTTP for krr, over libcurl: one connection that is used again, one call at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

/* Bytes of an answer that are kept in memory where there is no sink. */
#define HTTP_BODY_MAX ((size_t)256 << 20)

struct http;

struct http_options {
    const char *url;     /* "http://host:port", perhaps with a path */
    const char *key;     /* sent as a bearer token; NULL: none */
    const char *ca_file; /* NULL: the system's */
};
int http_new(const struct http_options *o, struct http **ret, struct err *err);
struct http *http_free(struct http *h);

struct http_ask {
    const char *method;
    const char *path; /* "/v1/…", escaped, with its query */
    const char *content_type, *accept;
    const char *const *headers; /* "Name: value" …, NULL-terminated; or NULL */
    const void *body;
    size_t size;
    /* Instead of body: what the file has from where it stands; -1: until its end. */
    FILE *file;
    int64_t file_size;
    /* Takes the body of an answer 200; false ends the call with -ERR_CANCELLED. */
    bool (*sink)(void *context, const void *data, size_t size);
    /* Called several times a second; bytes of the request that have left. false: as above. */
    bool (*progress)(void *context, int64_t sent);
    void *context;
    bool endless; /* a stream: silence of up to a minute is no fault */
};

struct http_reply {
    int status;
    struct buf body; /* of any answer that did not go to the sink */
    char type[96];   /* Content-Type, without parameters */
    double retry_after_s;
    int64_t unknown_values; /* X-Krrd-Unknown-Values, of predictions */
};
void http_reply_deinit(struct http_reply *r);

/* 0 whatever the status. -ERR_IO with libcurl's sentence where there was no answer. *ret must be
 * zeroed and is to be deinited in any case. */
int http_call(struct http *h, const struct http_ask *ask, struct http_reply *ret, struct err *err);

/* A path or query part with everything but unreserved characters escaped; mem_free. */
char *http_escape(const char *text);
