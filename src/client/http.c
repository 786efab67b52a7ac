#include "client/http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

#define CONNECT_TIMEOUT_S 10L
#define SILENCE_S 300L       /* a server that says and takes nothing for so long is given up */
#define STREAM_SILENCE_S 60L /* event streams carry a comment every 15 s */

struct http {
    CURL *easy;
    char *base, *ca_file, *authorization;
    char error[CURL_ERROR_SIZE];
};

/* One call under way. */
struct call {
    struct http *http;
    const struct http_ask *ask;
    struct http_reply *reply;
    bool stopped; /* the caller wanted no more */
    bool too_large;
};

static char *join(const char *a, const char *b)
{
    struct buf text = BUF_INIT;
    buf_str(&text, a);
    buf_str(&text, b);
    char *joined = buf_take(&text);
    buf_deinit(&text);
    return joined;
}

static char *without_slash(const char *url)
{
    size_t len = strlen(url);
    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    return mem_strndup(url, len);
}

int http_new(const struct http_options *o, struct http **ret, struct err *err)
{
    struct http *h = mem_zalloc(sizeof *h);
    if (!h) {
        return err_no_memory(err);
    }
    h->easy = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
    h->base = without_slash(o->url);
    h->ca_file = mem_strdup(o->ca_file);
    h->authorization = o->key ? join("Authorization: Bearer ", o->key) : NULL;
    if (!h->easy || !h->base || (o->ca_file && !h->ca_file) || (o->key && !h->authorization)) {
        http_free(h);
        return err_no_memory(err);
    }
    *ret = h;
    return 0;
}

struct http *http_free(struct http *h)
{
    if (h) {
        curl_easy_cleanup(h->easy);
        mem_free(h->base);
        mem_free(h->ca_file);
        mem_free(h->authorization);
        mem_free(h);
    }
    return NULL;
}

void http_reply_deinit(struct http_reply *r)
{
    buf_deinit(&r->body);
}

/* ---- what libcurl calls ---- */

static size_t on_data(char *data, size_t one, size_t size, void *context)
{
    struct call *c = context;
    long status = 0;
    (void)one;
    curl_easy_getinfo(c->http->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && c->ask->sink) {
        c->stopped = !c->ask->sink(c->ask->context, data, size);
        return c->stopped ? CURL_WRITEFUNC_ERROR : size;
    }
    c->too_large = c->reply->body.len + size > HTTP_BODY_MAX;
    if (c->too_large) {
        return CURL_WRITEFUNC_ERROR;
    }
    buf_add(&c->reply->body, data, size);
    return c->reply->body.failed ? CURL_WRITEFUNC_ERROR : size;
}

/* The value of the header line where it has this name, else NULL. */
static const char *header_value(const char *line, const char *name)
{
    const size_t len = strlen(name);
    if (strncasecmp(line, name, len) != 0 || line[len] != ':') {
        return NULL;
    }
    line += len + 1;
    return line + strspn(line, " \t");
}

static size_t on_header(char *data, size_t one, size_t size, void *context)
{
    struct call *c = context;
    char line[512];
    (void)one;
    snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line ? size : sizeof line - 1), data);
    line[strcspn(line, "\r\n")] = '\0';
    const char *type = header_value(line, "Content-Type");
    const char *after = header_value(line, "Retry-After");
    const char *unknown = header_value(line, "X-Krrd-Unknown-Values");
    if (type) {
        snprintf(c->reply->type, sizeof c->reply->type, "%.*s", (int)strcspn(type, "; "), type);
    }
    if (after) {
        c->reply->retry_after_s = strtod(after, NULL);
    }
    if (unknown) {
        c->reply->unknown_values = strtoll(unknown, NULL, 10);
    }
    return size;
}

static size_t on_want(char *to, size_t one, size_t room, void *context)
{
    struct call *c = context;
    const size_t n = fread(to, 1, one * room, c->ask->file);
    return ferror(c->ask->file) ? CURL_READFUNC_ABORT : n;
}

static int on_progress(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    struct call *c = context;
    (void)down_total, (void)down, (void)up_total;
    c->stopped = c->stopped || !c->ask->progress(c->ask->context, (int64_t)up);
    return c->stopped;
}

/* ---- a call ---- */

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = text ? curl_slist_append(*list, text) : NULL;
    *list = longer ? longer : *list;
    return longer != NULL;
}

static bool add_named(struct curl_slist **list, const char *name, const char *value)
{
    cleanup_mem char *text = value ? join(name, value) : NULL;
    return !value || add_header(list, text);
}

static struct curl_slist *make_headers(const struct http *h, const struct http_ask *ask)
{
    struct curl_slist *list = NULL;
    bool ok = add_header(&list, "User-Agent: krr/" KRRD_VERSION);
    ok = ok && add_named(&list, "Content-Type: ", ask->content_type);
    ok = ok && add_named(&list, "Accept: ", ask->accept);
    ok = ok && (!h->authorization || add_header(&list, h->authorization));
    for (const char *const *extra = ask->headers; ok && extra && *extra; extra++) {
        ok = add_header(&list, *extra);
    }
    if (!ok) {
        curl_slist_free_all(list);
        return NULL;
    }
    return list;
}

static void set_body(CURL *easy, struct call *c)
{
    const struct http_ask *ask = c->ask;
    if (ask->file) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_want);
        curl_easy_setopt(easy, CURLOPT_READDATA, c);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->file_size);
    } else if (ask->body || strcmp(ask->method, "POST") == 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->size);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, ask->body ? ask->body : "");
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, ask->method);
}

static void set_limits(CURL *easy, const struct http_ask *ask)
{
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, ask->endless ? STREAM_SILENCE_S : SILENCE_S);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
}

static void set_all(struct call *c, const char *url, struct curl_slist *headers)
{
    CURL *easy = c->http->easy;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->http->error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, c);
    if (c->http->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, c->http->ca_file);
    }
    if (c->ask->progress) {
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, c);
    }
    set_body(easy, c);
    set_limits(easy, c->ask);
}

/* A server that answers before it has read a request to its end may close the connection: what it
 * said counts. */
static int explain(const struct call *c, CURLcode code, struct err *err)
{
    if (c->stopped) {
        return err_set(err, ERR_CANCELLED, "Interrupted.");
    }
    if (c->too_large) {
        return err_set(err, ERR_TOO_LARGE, "The answer is longer than %zu MiB.",
                       HTTP_BODY_MAX >> 20);
    }
    if (c->reply->body.failed) {
        return err_no_memory(err);
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        return err_set(err, ERR_INVALID, "The file cannot be read.");
    }
    if (code == CURLE_SEND_ERROR && c->reply->status >= 400) {
        return 0;
    }
    return err_set(err, ERR_IO, "%s: %s", c->http->base,
                   c->http->error[0] ? c->http->error : curl_easy_strerror(code));
}

int http_call(struct http *h, const struct http_ask *ask, struct http_reply *ret, struct err *err)
{
    cleanup_mem char *url = join(h->base, ask->path);
    struct curl_slist *headers = url ? make_headers(h, ask) : NULL;
    if (!headers) {
        return err_no_memory(err);
    }
    struct call c = {.http = h, .ask = ask, .reply = ret};
    h->error[0] = '\0';
    set_all(&c, url, headers);
    const CURLcode code = curl_easy_perform(h->easy);
    long status = 0;
    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    ret->status = (int)status;
    curl_slist_free_all(headers);
    return code == CURLE_OK ? 0 : explain(&c, code, err);
}

char *http_escape(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0);
    char *copy = mem_strdup(escaped);
    curl_free(escaped);
    return copy;
}
