#include "server/webhooks/post.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

enum {
    LOOK_MS = 1000,     /* between two looks, where nothing happens */
    STOPPING_MS = 100,  /* the same while the server is stopping */
    CONNECTIONS_MAX = 8 /* kept for later messages */
};

/* A message that libcurl works on. */
struct sending {
    struct sending *next;
    struct post *post;
    CURL *curl;
    struct curl_slist *headers;
    char told[CURL_ERROR_SIZE];
    bool refused; /* an address of the host's */
    bool tried;   /* another one */
    bool given_up;
    size_t received;
    double began; /* monotonic seconds */
};

struct post_office {
    uv_thread_t thread;
    uv_mutex_t lock; /* of what follows, up to all_sent */
    struct post *waiting, *taken;
    bool hurry, quit;
    /* The thread's own. */
    struct sending *all_sent;
    CURLM *multi;
    uv_async_t *told;
};

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

static CURLcode set_up(CURL *c, const struct post *p, struct sending *s)
{
    const char *schemes = p->http ? "https,http" : "https";
    CURLcode rc = curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, schemes);
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_URL, p->url) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_PROXY, "") : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(1e3 * p->timeout_s)) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_POSTFIELDS, p->body) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_HTTPHEADER, s->headers) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, s) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_WRITEDATA, s) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->told) : rc;
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_PRIVATE, s) : rc;
    /* A name whose look-up outlasts its message would hold up all others otherwise. */
    rc = rc == CURLE_OK ? curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L) : rc;
    if (rc == CURLE_OK && p->ca_file[0] != '\0') {
        rc = curl_easy_setopt(c, CURLOPT_CAINFO, p->ca_file);
    }
    return rc;
}

static void explain(const struct sending *s, CURLcode rc, struct post_result *ret)
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
                 s->told[0] != '\0' ? s->told : curl_easy_strerror(rc));
        utf8_mend(ret->error);
    }
}

/* ---- the thread ---- */

/* Back to the loop. It is told under the lock, so that who finds the last result there knows that
 * nobody is about to tell of it. */
static void give_back(struct post_office *o, struct post *p)
{
    uv_mutex_lock(&o->lock);
    p->next = o->taken;
    o->taken = p;
    uv_async_send(o->told);
    uv_mutex_unlock(&o->lock);
}

/* Takes s out of those that are sent, and frees it. */
static void end(struct post_office *o, struct sending *s, CURLcode rc)
{
    struct sending **at = &o->all_sent;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    struct post_result *result = &s->post->result;
    if (s->curl != NULL) {
        curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &result->status);
        curl_multi_remove_handle(o->multi, s->curl);
    }
    explain(s, rc, result);
    result->seconds = clock_monotonic_s() - s->began;
    curl_easy_cleanup(s->curl);
    curl_slist_free_all(s->headers);
    give_back(o, s->post);
    mem_free(s);
}

static CURLcode start(const struct post_office *o, struct sending *s)
{
    s->curl = curl_easy_init();
    s->headers = make_headers(s->post);
    if (s->curl == NULL || s->headers == NULL) {
        return CURLE_OUT_OF_MEMORY;
    }
    const CURLcode rc = set_up(s->curl, s->post, s);
    return rc == CURLE_OK && curl_multi_add_handle(o->multi, s->curl) != CURLM_OK
               ? CURLE_OUT_OF_MEMORY
               : rc;
}

static void begin(struct post_office *o, struct post *p)
{
    struct sending *s = mem_zalloc(sizeof(*s));
    p->result = (struct post_result){.status = 0};
    if (s == NULL) {
        snprintf(p->result.error, sizeof p->result.error, "%s", err_sentence(ERR_NO_MEMORY));
        give_back(o, p);
        return;
    }
    s->post = p;
    s->began = clock_monotonic_s();
    s->next = o->all_sent;
    o->all_sent = s;
    const CURLcode rc = start(o, s);
    if (rc != CURLE_OK) {
        end(o, s, rc);
    }
}

static void collect(struct post_office *o)
{
    const struct CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(o->multi, &left)) != NULL) {
        const CURLcode rc = m->data.result;
        struct sending *s = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        end(o, s, rc);
    }
}

/* A receiver that does not answer must not hold up the end of the server. */
static void give_up_all(struct post_office *o)
{
    while (o->all_sent != NULL) {
        o->all_sent->given_up = true;
        end(o, o->all_sent, CURLE_ABORTED_BY_CALLBACK);
    }
}

/* What has come in is begun; *ret_hurry: the server is stopping. False: there is nothing more to
 * do. */
static bool take_in(struct post_office *o, bool *ret_hurry)
{
    uv_mutex_lock(&o->lock);
    struct post *next, *p = o->waiting;
    const bool quit = o->quit;
    *ret_hurry = o->hurry;
    o->waiting = NULL;
    uv_mutex_unlock(&o->lock);
    for (; p != NULL; p = next) {
        next = p->next;
        begin(o, p);
    }
    return !quit;
}

static void run(void *context)
{
    struct post_office *o = context;
    double hurried = 0.0;
    bool hurry;
    int count;
    while (take_in(o, &hurry)) {
        const double now = clock_monotonic_s();
        hurried = hurry && hurried <= 0.0 ? now : hurried;
        curl_multi_perform(o->multi, &count);
        collect(o);
        if (hurry && now - hurried >= POST_STOPPING_S) {
            give_up_all(o);
        }
        curl_multi_poll(o->multi, NULL, 0, hurry ? STOPPING_MS : LOOK_MS, NULL);
    }
}

/* ---- the loop's side ---- */

static void wake(struct post_office *o, bool *flag)
{
    uv_mutex_lock(&o->lock);
    *flag = true;
    uv_mutex_unlock(&o->lock);
    curl_multi_wakeup(o->multi);
}

void post_office_send(struct post_office *o, struct post *p)
{
    uv_mutex_lock(&o->lock);
    p->next = o->waiting;
    o->waiting = p;
    uv_mutex_unlock(&o->lock);
    curl_multi_wakeup(o->multi);
}

struct post *post_office_taken(struct post_office *o)
{
    uv_mutex_lock(&o->lock);
    struct post *all = o->taken;
    o->taken = NULL;
    uv_mutex_unlock(&o->lock);
    return all;
}

void post_office_hurry(struct post_office *o)
{
    wake(o, &o->hurry);
}

static bool open_office(struct post_office *o)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        (o->multi = curl_multi_init()) == NULL || uv_mutex_init(&o->lock) != 0) {
        return false;
    }
    return curl_multi_setopt(o->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX) == CURLM_OK &&
           uv_thread_create(&o->thread, run, o) == 0;
}

int post_office_new(uv_async_t *told, struct post_office **ret, struct err *err)
{
    struct post_office *o = mem_zalloc(sizeof(*o));
    if (o == NULL) {
        return err_no_memory(err);
    }
    o->told = told;
    if (!open_office(o)) {
        curl_multi_cleanup(o->multi); /* NULL is fine; the daemon ends */
        mem_free(o);
        return err_set(err, ERR_INTERNAL, "libcurl could not be started.");
    }
    *ret = o;
    return 0;
}

struct post_office *post_office_free(struct post_office *o)
{
    if (o != NULL) {
        wake(o, &o->quit);
        uv_thread_join(&o->thread);
        curl_multi_cleanup(o->multi);
        uv_mutex_destroy(&o->lock);
    }
    return mem_free(o);
}
