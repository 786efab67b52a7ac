#include "server/webhooks/post.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/utf8.h"

struct sending {
    const struct post *post;
    bool refused; /* an address of the host's */
    bool tried;   /* another one */
    size_t received;
    double stopping_since; /* monotonic seconds; 0: the server is not stopping */
    bool given_up;
};

int post_init(struct err *err)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? 0
               : err_set(err, ERR_INTERNAL, "libcurl could not be started.");
}

/* The address is the one that is connected to, so that a name cannot mean another one by then. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct sending *s = context;
    (void)purpose;
    if (!address_allowed(&to->addr, s->post->also)) {
        s->refused = true;
        return CURL_SOCKET_BAD;
    }
    s->tried = true;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t receive(char *data, size_t size, size_t count, void *context)
{
    struct sending *s = context;
    (void)data;
    s->received += size * count;
    return s->received > POST_ANSWER_MAX ? 0 : size * count;
}

/* A receiver that does not answer must not hold up the end of the server. */
static int look_around(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    struct sending *s = context;
    (void)down_total, (void)down, (void)up_total, (void)up;
    if (!atomic_load(s->post->stopping)) {
        return 0;
    }
    const double now = clock_monotonic_s();
    s->stopping_since = s->stopping_since > 0.0 ? s->stopping_since : now;
    s->given_up = now - s->stopping_since >= POST_STOPPING_S;
    return s->given_up;
}

/* NULL, once a line is missing. */
static struct curl_slist *add(struct curl_slist *all, const char *line)
{
    struct curl_slist *longer = curl_slist_append(all, line);
    if (longer == NULL) {
        curl_slist_free_all(all);
    }
    return longer;
}

static struct curl_slist *make_headers(const struct post *p)
{
    char id[128], timestamp[64], signature[512];
    snprintf(id, sizeof id, "webhook-id: %s", p->id);
    snprintf(timestamp, sizeof timestamp, "webhook-timestamp: %lld", (long long)p->timestamp_s);
    snprintf(signature, sizeof signature, "webhook-signature: %s", p->signature);
    const char *const lines[] = {id,
                                 timestamp,
                                 signature,
                                 "Content-Type: application/json",
                                 "Accept:",
                                 "Expect:",
                                 "User-Agent: krrd/" KRRD_VERSION};
    struct curl_slist *all = curl_slist_append(NULL, lines[0]);
    for (size_t i = 1; all != NULL && i < sizeof lines / sizeof lines[0]; i++) {
        all = add(all, lines[i]);
    }
    return all;
}

static CURLcode set_up(CURL *c, const struct post *p, struct sending *s, struct curl_slist *headers)
{
    const char *schemes = p->http ? "https,http" : "https";
    CURLcode rc = curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, schemes);
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_URL, p->url) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_PROXY, "") : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(1e3 * p->timeout_s)) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_POSTFIELDS, p->body) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, s) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_WRITEDATA, s) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_around) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_XFERINFODATA, s) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) : rc;
    if (rc == CURLE_OK && p->ca_file[0] != '\0') {
        rc = curl_easy_setopt(c, CURLOPT_CAINFO, p->ca_file);
    }
    return rc;
}

static void explain(const struct sending *s, CURLcode rc, const char *told, struct post_result *ret)
{
    const bool taken = ret->status >= 200 && ret->status < 300;
    if (taken && (rc == CURLE_OK || s->received > POST_ANSWER_MAX)) {
        ret->error[0] = '\0';
    } else if (s->refused && !s->tried) {
        snprintf(ret->error, sizeof ret->error,
                 "Its host has an address that webhooks may not go to (--webhook-allow).");
    } else if (s->given_up) {
        snprintf(ret->error, sizeof ret->error, "It had not answered when the server stopped.");
    } else if (ret->status >= 300 && ret->status < 400) {
        snprintf(ret->error, sizeof ret->error, "It answered %ld; redirects are not followed.",
                 ret->status);
    } else if (ret->status > 0 && !taken) {
        snprintf(ret->error, sizeof ret->error, "It answered %ld.", ret->status);
    } else {
        snprintf(ret->error, sizeof ret->error, "It could not be reached: %.200s.",
                 told[0] != '\0' ? told : curl_easy_strerror(rc));
        utf8_mend(ret->error);
    }
}

void post_send(const struct post *p, struct post_result *ret)
{
    struct sending s = {.post = p};
    char told[CURL_ERROR_SIZE] = "";
    *ret = (struct post_result){.status = 0};
    CURL *c = curl_easy_init();
    struct curl_slist *headers = make_headers(p);
    CURLcode rc = c != NULL && headers != NULL ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_ERRORBUFFER, told) : rc;
    rc = rc == CURLE_OK ? set_up(c, p, &s, headers) : rc;
    rc = rc == CURLE_OK ? curl_easy_perform(c) : rc;
    if (c != NULL) {
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &ret->status);
    }
    explain(&s, rc, told, ret);
    curl_slist_free_all(headers);
    curl_easy_cleanup(c);
}
