/* One webhook on its way: libcurl, blocking, for a thread of the pool. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/webhooks/address.h"

/* So much of an answer is read; its content does not matter. */
#define POST_ANSWER_MAX 65536
/* So long a receiver may still take once *stopping was set; looked at about every second. */
#define POST_STOPPING_S 2.0

struct post {
    const char *url, *body;
    const char *id, *signature; /* headers */
    int64_t timestamp_s;
    bool http;           /* allow it without TLS */
    const char *ca_file; /* "": the system's */
    double timeout_s;    /* for all of it */
    const atomic_bool *stopping;
    const struct address_list *also;
};

struct post_result {
    long status;     /* of HTTP; 0: no answer */
    char error[256]; /* "" where it was taken with 2xx */
};

/* Before the first thread. */
int post_init(struct err *err);
/* No redirect is followed, no proxy used, no address connected to that is not allowed. */
void post_send(const struct post *p, struct post_result *ret);
