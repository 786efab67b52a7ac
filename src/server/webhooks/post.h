/*
 * Webhooks on their way: one thread that sends many at once, with libcurl. Connections are kept for
 * the next message to the same receiver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "server/webhooks/address.h"

/* So much of an answer is read; its content does not matter. */
#define POST_ANSWER_MAX 65536
/* So long a receiver may still take once the server is stopping. */
#define POST_STOPPING_S 2.0

struct post_result {
    long status;     /* of HTTP; 0: no answer */
    char error[256]; /* "" where it was taken with 2xx */
    double seconds;  /* that it took */
};

struct post {
    struct post *next; /* of those that post_office_taken gives */
    void *context;     /* the caller's */
    const char *url, *body;
    const char *id, *signature; /* headers */
    int64_t timestamp_s;
    bool http;           /* allow it without TLS */
    const char *ca_file; /* "": the system's */
    double timeout_s;    /* for all of it */
    const struct address_list *also;
    struct post_result result;
};

struct post_office; /* opaque */

/* told is woken when there are results; it must outlive all that is sent. */
int post_office_new(uv_async_t *told, struct post_office **ret, struct err *err);
/* No redirect is followed, no proxy used, no address connected to that is not allowed. The post and
 * what it points to must stay until it is among those that were taken back. */
void post_office_send(struct post_office *o, struct post *p);
/* Those with results, or NULL. */
struct post *post_office_taken(struct post_office *o);
/* The server is stopping: after POST_STOPPING_S what is under way is given up. */
void post_office_hurry(struct post_office *o);
/* Once everything is back; NULL is fine. */
struct post_office *post_office_free(struct post_office *o);
