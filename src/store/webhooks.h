/*
 * The outbox of webhooks: what is to be told of a job's end is written in the transaction that ends
 * the job, so that a crash neither loses nor invents a message. A message is sent at least once,
 * always under the same id. It goes with its job when that is deleted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/json.h"
#include "store/store.h"

#define WEBHOOK_ID_SIZE 40
#define WEBHOOK_WAIT_MAX_MS 3600000 /* until the next attempt */

struct webhook_row {
    char id[WEBHOOK_ID_SIZE]; /* "msg_…" */
    char job[ID_SIZE];
    char *url;
    char *receiver;      /* scheme, host and port of url, in lower case */
    char *body;          /* JSON text, the same at every attempt */
    char state[16];      /* "pending", "delivered" or "given_up" */
    int64_t attempts;    /* so far */
    int64_t created_ms;  /* when the job ended */
    int64_t next_ms;     /* of the next attempt, of a pending one; else 0 */
    int64_t finished_ms; /* 0: pending */
    int64_t last_status; /* of HTTP; 0: none */
    char *last_error;    /* a sentence, or NULL */
};
void webhook_row_deinit(struct webhook_row *r);

/* Of a job, 1; 0: it has none. */
int webhooks_of_job(struct store *s, const char *job, struct webhook_row *ret, struct err *err);
/* What webhooks_due passes by. */
struct webhooks_busy {
    const struct json *ids, *receivers; /* arrays of texts, or NULL */
    bool tried;                         /* also what was tried before */
};
/* The pending one that has been due for longest, of those that are not passed by. One whose next
 * attempt is further off than any wait is due as well: the clock has been put back since. 1, or 0:
 * none is. */
int webhooks_due(struct store *s, int64_t now_ms, const struct webhooks_busy *busy,
                 struct webhook_row *ret, struct err *err);

struct webhooks_waiting {
    int64_t count;     /* of pending ones */
    int64_t oldest_ms; /* when the job of the oldest of them ended; 0: there is none */
};
int webhooks_waiting(struct store *s, struct webhooks_waiting *ret, struct err *err);

/* What came of an attempt. */
struct webhook_result {
    const char *state; /* the new one; "pending": it is tried again at next_ms */
    int64_t status;    /* 0: there was no answer */
    const char *error; /* NULL: it was taken */
    int64_t next_ms;
    const char *message; /* of an event in the job's log where it is given up, or NULL */
};
int webhooks_record(struct store *s, const char *id, const struct webhook_result *result,
                    int64_t now_ms, struct err *err);
