/* Who may do what: pages of other sites, preflights, API keys and their scopes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "server/app.h"
#include "server/http/http_host.h"
#include "server/http/http_internal.h"
#include "server/http/http_route.h"
#include "server/http/http_text.h"
#include "server/http/keys.h"

/* What a page of an allowed origin may send and see beyond the harmless. */
#define CORS_REQUEST_HEADERS                                                                       \
    "Authorization, Content-Type, Content-Encoding, Accept, Idempotency-Key, If-Match, "           \
    "If-None-Match, Inference-Header-Content-Length, Last-Event-ID, Prefer, X-Request-Id, "        \
    "traceparent"
#define CORS_ANSWER_HEADERS                                                                        \
    "Content-Disposition, ETag, Idempotency-Replayed, Inference-Header-Content-Length, Location, " \
    "Preference-Applied, Retry-After, X-Request-Id"
#define CORS_MAX_AGE_S "600"

/* Whom the request is meant for; NULL: it does not say. */
static const char *exchange_host(struct exchange *ex)
{
    return ex->host != NULL ? ex->host : request_header(&ex->request, "Host");
}

/* A server that a key guards need not care under which name it is asked: a page has no key. */
bool exchange_host_ok(struct exchange *ex)
{
    const struct http *h = ex->http;
    const char *names = h->options.allowed_hosts;
    const char *host = exchange_host(ex);
    const bool guarded = names[0] != '\0' || (h->loopback && h->keys == NULL);
    if (!guarded || http_host_allowed(host, names)) {
        return true;
    }
    ex->close = true; /* its body is not read */
    exchange_refuse(
        ex, 421, ERR_FORBIDDEN,
        "This server does not go by the name \"%.200s\": ask for it by its address or as "
        "localhost, or name it with --allowed-hosts.",
        host);
    return false;
}

/* Whether the origin is one of the list's, which has commas between, or the list is "*". */
static bool listed(const char *list, const char *origin)
{
    const size_t len = strlen(origin);
    while (*list) {
        const size_t n = strcspn(list, ", ");
        if ((n == 1 && *list == '*') || (n == len && strncasecmp(list, origin, n) == 0)) {
            return true;
        }
        list += n + strspn(list + n, ", ");
    }
    return false;
}

static bool origin_listed(struct exchange *ex)
{
    const char *origin = request_header(&ex->request, "Origin");
    return origin != NULL && listed(ex->http->options.cors_origins, origin);
}

/* Without these a browser keeps the answer from the page. */
static void allow_origin(struct exchange *ex)
{
    struct request *rq = &ex->request;
    if (ex->http->options.cors_origins[0] != '\0') {
        request_set_header(rq, "Vary", "Origin");
    }
    if (origin_listed(ex)) {
        request_set_header(rq, "Access-Control-Allow-Origin", request_header(rq, "Origin"));
        request_set_header(rq, "Access-Control-Expose-Headers", CORS_ANSWER_HEADERS);
    }
}

/* A page of another site must not make a browser change anything here. */
bool exchange_origin_ok(struct exchange *ex)
{
    struct request *rq = &ex->request;
    const bool changes = strcmp(ex->method, "GET") != 0 && strcmp(ex->method, "HEAD") != 0;
    allow_origin(ex);
    if (changes && !origin_listed(ex) &&
        !http_origin_allowed(request_header(rq, "Sec-Fetch-Site"), request_header(rq, "Origin"),
                             exchange_host(ex))) {
        exchange_refuse(ex, 403, ERR_FORBIDDEN, "A page of another site may not do this.");
    }
    return ex->answer.status == 0;
}

bool exchange_preflight(struct exchange *ex, const char *path)
{
    struct request *rq = &ex->request;
    if (strcmp(ex->method, "OPTIONS") != 0 || !origin_listed(ex) ||
        request_header(rq, "Access-Control-Request-Method") == NULL) {
        return false;
    }
    const struct route_found found = route_find(ex->http->routes, "OPTIONS", path);
    request_set_header(rq, "Access-Control-Allow-Methods", found.allow);
    request_set_header(rq, "Access-Control-Allow-Headers", CORS_REQUEST_HEADERS);
    request_set_header(rq, "Access-Control-Max-Age", CORS_MAX_AGE_S);
    reply_empty(rq, 204);
    return true;
}

/* ---- keys ---- */

/* Scopes of which one is enough; 0: none is needed. */
static unsigned scopes_of(const struct route *r)
{
    const bool reads = strcmp(r->method, "GET") == 0;
    if ((r->flags & ROUTE_OPEN) != 0) {
        return 0;
    }
    if ((r->flags & ROUTE_ADMIN) != 0) {
        return SCOPE_ADMIN;
    }
    if ((r->flags & ROUTE_PREDICT) != 0) {
        return SCOPE_PREDICT | SCOPE_ADMIN | (reads ? SCOPE_READ | SCOPE_TRAIN : 0u);
    }
    return SCOPE_TRAIN | SCOPE_ADMIN | (reads ? SCOPE_READ : 0u);
}

/* What stands behind "Bearer ", or NULL. */
static const char *bearer(struct exchange *ex)
{
    const char *value = request_header(&ex->request, "Authorization");
    if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0) {
        return NULL;
    }
    return value + 7 + strspn(value + 7, " ");
}

static void refuse_stranger(struct exchange *ex, const char *text)
{
    request_set_header(&ex->request, "WWW-Authenticate",
                       text != NULL ? "Bearer realm=\"krrd\", error=\"invalid_token\""
                                    : "Bearer realm=\"krrd\"");
    exchange_refuse(ex, 401, ERR_UNAUTHORIZED,
                    text != NULL ? "This API key is not known here."
                                 : "An API key is needed: Authorization: Bearer KEY.");
    if (text != NULL) {
        log_msg(&ex->http->app->log, LOG_WARNING, "http.unknown_key", "path", ex->path, "request",
                ex->request_id, NULL);
    }
}

static void refuse_scope(struct exchange *ex, const struct key *key, unsigned needed)
{
    char names[64];
    keys_scopes_text(needed, names);
    request_set_header(&ex->request, "WWW-Authenticate",
                       "Bearer realm=\"krrd\", error=\"insufficient_scope\"");
    exchange_refuse(ex, 403, ERR_FORBIDDEN, "The API key \"%s\" has not the scope %s.", key->name,
                    names);
}

bool exchange_key_ok(struct exchange *ex)
{
    const struct keys *keys = ex->http->keys;
    const unsigned needed = scopes_of(ex->request.route);
    if (keys == NULL || needed == 0) {
        return true;
    }
    const char *text = bearer(ex);
    const struct key *key = text != NULL ? keys_find(keys, text) : NULL;
    if (key == NULL) {
        ex->close = true; /* its body is not read */
        refuse_stranger(ex, text);
    } else if ((key->scopes & needed) == 0) {
        ex->close = true;
        refuse_scope(ex, key, needed);
    } else {
        snprintf(ex->key_name, sizeof ex->key_name, "%s", key->name);
        snprintf(ex->key_digest, sizeof ex->key_digest, "%s", key->digest);
        ex->scopes = key->scopes;
    }
    return ex->answer.status == 0;
}

bool exchange_key_holds(const struct exchange *ex)
{
    const struct keys *keys = ex->http->keys;
    const unsigned needed = scopes_of(ex->request.route);
    const struct key *key = keys != NULL ? keys_find_digest(keys, ex->key_digest) : NULL;
    return keys == NULL || needed == 0 || (key != NULL && (key->scopes & needed) != 0);
}

void http_set_keys(struct http *h, const struct keys *keys)
{
    h->keys = keys;
    for (struct connection *c = h->connections; c != NULL; c = c->next) {
        struct exchange *ex = c->exchange;
        if (ex != NULL && ex->answer.stream != NULL && !exchange_key_holds(ex)) {
            log_msg(&h->app->log, LOG_INFO, "http.stream_revoked", "key", ex->key_name, "request",
                    ex->request_id, NULL);
            stream_end(ex->answer.stream);
        }
    }
}

const char *request_key_name(const struct request *rq)
{
    const struct exchange *ex = (const struct exchange *)(const void *)rq;
    return ex->key_name;
}

bool request_is_admin(const struct request *rq)
{
    const struct exchange *ex = (const struct exchange *)(const void *)rq;
    return ex->http->keys == NULL || (ex->scopes & SCOPE_ADMIN) != 0;
}
