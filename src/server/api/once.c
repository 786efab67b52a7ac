#include "server/api/once.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http.h"
#include "server/timekeeper.h"

#define POINTER "#/header/idempotency-key"

struct once {
    struct app *app;
    struct once *next, **link; /* in app->claimed_keys; link is NULL where the key is not claimed */
    char head[SHA256_HEX_SIZE]; /* digest of the request but for its body */
    bool answered;
    struct idempotency_row row; /* owns its body only where it was answered */
};

static int digest_head(struct request *rq, char ret[SHA256_HEX_SIZE], struct err *err)
{
    struct sha256 *h = sha256_new();
    if (h == NULL) {
        return err_no_memory(err);
    }
    request_digest_head(rq, h);
    sha256_hex(h, ret);
    sha256_free(h);
    return 0;
}

/* Of the whole request: of the digests of its two parts. */
static int digest_request(const struct once *o, const char *body, char ret[SHA256_HEX_SIZE],
                          struct err *err)
{
    struct sha256 *h = sha256_new();
    if (h == NULL) {
        return err_no_memory(err);
    }
    sha256_update(h, o->head, SHA256_HEX_SIZE - 1);
    sha256_update(h, body, SHA256_HEX_SIZE - 1);
    sha256_hex(h, ret);
    sha256_free(h);
    return 0;
}

static int read_key(struct request *rq, const char **ret, struct err *err)
{
    const char *key = request_header(rq, "Idempotency-Key");
    if (key == NULL) {
        return 0;
    }
    if (request_header_count(rq, "Idempotency-Key") > 1) {
        return err_at(err, ERR_INVALID, POINTER, "There may be one Idempotency-Key.");
    }
    size_t n = 0;
    while (key[n] > 0x20 && key[n] < 0x7f) {
        n++;
    }
    if (n == 0 || n > IDEMPOTENCY_KEY_MAX || key[n] != '\0') {
        return err_at(err, ERR_INVALID, POINTER,
                      "An Idempotency-Key has 1 to %d visible ASCII characters.",
                      IDEMPOTENCY_KEY_MAX);
    }
    *ret = key;
    return 0;
}

static bool claimed(const struct app *app, const char *operation, const char *owner,
                    const char *key)
{
    for (const struct once *o = app->claimed_keys; o != NULL; o = o->next) {
        if (strcmp(o->row.key, key) == 0 && strcmp(o->row.operation, operation) == 0 &&
            strcmp(o->row.owner, owner) == 0) {
            return true;
        }
    }
    return false;
}

static void claim(struct once *o)
{
    o->next = o->app->claimed_keys;
    o->link = &o->app->claimed_keys;
    if (o->next != NULL) {
        o->next->link = &o->next;
    }
    o->app->claimed_keys = o;
}

/* Finds the answer given under the key, or claims it. */
static int look_up(struct once *o, const char *operation, const char *owner, const char *key,
                   struct err *err)
{
    const int64_t ttl_ms = (int64_t)(o->app->config.idempotency_ttl_s * 1e3);
    const int64_t oldest = timekeeper_cautious_ms(o->app->timekeeper) - ttl_ms;
    const int rc = idempotency_get(o->app->store, operation, owner, key, oldest, &o->row, err);
    o->answered = rc == 1;
    if (rc == 0) {
        snprintf(o->row.operation, sizeof(o->row.operation), "%s", operation);
        snprintf(o->row.owner, sizeof(o->row.owner), "%s", owner);
        snprintf(o->row.key, sizeof(o->row.key), "%s", key);
        claim(o);
    }
    return rc < 0 ? rc : 0;
}

int once_begin(struct request *rq, const char *operation, struct once **ret, struct err *err)
{
    const char *owner = request_key_name(rq), *key = NULL;
    int rc = read_key(rq, &key, err);
    if (rc < 0 || key == NULL) {
        *ret = NULL;
        return rc;
    }
    if (claimed(rq->app, operation, owner, key)) {
        return err_at(err, ERR_CONFLICT, POINTER,
                      "The first request with this Idempotency-Key has not been answered yet.");
    }
    struct once *o = mem_zalloc(sizeof(*o));
    if (o == NULL) {
        return err_no_memory(err);
    }
    o->app = rq->app;
    rc = digest_head(rq, o->head, err);
    rc = rc == 0 ? look_up(o, operation, owner, key, err) : rc;
    if (rc < 0) {
        once_free(o);
        return rc;
    }
    *ret = o;
    return 0;
}

bool once_answered(const struct once *o)
{
    return o != NULL && o->answered;
}

struct once *once_free(struct once *o)
{
    if (o == NULL) {
        return NULL;
    }
    if (o->link != NULL) {
        *o->link = o->next;
        if (o->next != NULL) {
            o->next->link = o->link;
        }
    }
    if (o->answered) {
        idempotency_row_deinit(&o->row);
    }
    return mem_free(o);
}

void once_replay(struct once *o, struct request *rq, const char body[SHA256_HEX_SIZE])
{
    char digest[SHA256_HEX_SIZE];
    struct err err;
    int rc = digest_request(o, body, digest, &err);
    if (rc == 0 && strcmp(digest, o->row.request) != 0) {
        rc = err_at(&err, ERR_INVALID, POINTER,
                    "This Idempotency-Key was used for another request; take a new one.");
    }
    if (rc < 0) {
        reply_error(rq, &err);
        return;
    }
    char *text = o->row.body;
    o->row.body = NULL;
    request_set_header(rq, "Location", o->row.location);
    request_set_header(rq, "Idempotency-Replayed", "true");
    reply_take(rq, o->row.status, "application/json", text, strlen(text));
}

const struct idempotency_row *once_answer(struct once *o, const char body[SHA256_HEX_SIZE],
                                          int status, const char *location, char *text)
{
    if (o == NULL || digest_request(o, body, o->row.request, NULL) < 0) {
        return NULL;
    }
    o->row.status = status;
    o->row.body = text;
    o->row.created_ms = clock_wall_ms();
    snprintf(o->row.location, sizeof(o->row.location), "%s", location);
    return &o->row;
}
