#include "wire/webhook.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "wire/field.h"

/* Digits alone, from 1 to 65535. */
static bool is_port(const char *text, const char *end)
{
    int value = 0;
    for (const char *c = text; c < end; c++) {
        value = *c >= '0' && *c <= '9' && value <= 65535 ? 10 * value + (*c - '0') : 65536;
    }
    return value >= 1 && value <= 65535;
}

static bool is_ipv6(const char *text, const char *end)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    if (end - text >= (ptrdiff_t)sizeof address) {
        return false;
    }
    memcpy(address, text, (size_t)(end - text));
    address[end - text] = '\0';
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

/* A host's name or address, one of IPv6 in brackets, and maybe a port. */
static bool is_authority(const char *text, size_t len)
{
    const char *end = text + len;
    const bool brackets = *text == '[';
    const char *stop = memchr(text, brackets ? ']' : ':', len);
    if (brackets) {
        if (stop == NULL || !is_ipv6(text + 1, stop)) {
            return false;
        }
        stop++;
    }
    const char *colon = stop == NULL ? end : stop;
    const bool open = colon == end || (*colon == ':' && colon + 1 == end); /* the scheme's port */
    return colon > text && (open || (*colon == ':' && is_port(colon + 1, end)));
}

bool webhook_names_server(const struct webhook_spec *s)
{
    const char *host = strstr(s->url, "://") + 3;
    return is_authority(host, strcspn(host, "/?#"));
}

/* https://host… or http://host…, of visible ASCII, without a name or password before the host. */
static int read_url(const struct json *j, struct webhook_spec *s, struct err *err)
{
    const char *url = NULL;
    int rc = field_text(j, "url", &url, err);
    if (rc == 0 && url == NULL) {
        rc = field_wrong(err, "url", FIELD_WHOLE, NULL, "an address");
    }
    if (rc < 0) {
        return rc;
    }
    const bool https = strncasecmp(url, "https://", 8) == 0;
    const char *host = https ? url + 8 : url + 7;
    if (!https && strncasecmp(url, "http://", 7) != 0) {
        return field_error(err, "url", FIELD_WHOLE,
                           "The address must begin with https://, or with http:// where the server "
                           "allows that (--webhook-http).");
    }
    const size_t len = strlen(url);
    for (size_t i = 0; i < len; i++) {
        if (url[i] <= ' ' || url[i] > '~') {
            return field_error(err, "url", FIELD_WHOLE, "The address has visible ASCII alone.");
        }
    }
    const size_t authority = strcspn(host, "/?#\\");
    if (len > WEBHOOK_URL_MAX || authority == 0 || memchr(host, '@', authority) != NULL ||
        host[authority] == '\\') {
        return field_error(err, "url", FIELD_WHOLE,
                           "The address names a host, without user or password, and has at most "
                           "%d characters.",
                           WEBHOOK_URL_MAX);
    }
    memcpy(s->url, url, len + 1);
    return 0;
}

static bool *event_of(struct webhook_spec *s, const char *name)
{
    return name == NULL                     ? NULL
           : strcmp(name, "succeeded") == 0 ? &s->succeeded
           : strcmp(name, "failed") == 0    ? &s->failed
           : strcmp(name, "cancelled") == 0 ? &s->cancelled
                                            : NULL;
}

static int read_events(const struct json *j, struct webhook_spec *s, struct err *err)
{
    const struct json *events = json_get(j, "events");
    if (events == NULL) {
        s->succeeded = s->failed = s->cancelled = true;
        return 0;
    }
    if (json_type(events) != JSON_ARRAY || json_size(events) == 0) {
        return field_wrong(err, "events", FIELD_WHOLE, events, "an array of events");
    }
    int64_t i = 0;
    for (const struct json *at = json_first(events); at != NULL; at = json_next(at), i++) {
        bool *event = event_of(s, json_string(at));
        if (event == NULL || *event) {
            return field_error(err, "events", i,
                               "An event is \"succeeded\", \"failed\" or \"cancelled\", each "
                               "once.");
        }
        *event = true;
    }
    return 0;
}

int webhook_read(const struct json *j, struct webhook_spec *ret, struct err *err)
{
    static const char *const keys[] = {"url", "events", NULL};
    const struct json *given = json_get(j, "webhook");
    *ret = (struct webhook_spec){.url = ""};
    if (given == NULL || json_type(given) == JSON_NULL) {
        return 0;
    }
    int rc = json_type(given) == JSON_OBJECT
                 ? 0
                 : field_wrong(err, "webhook", FIELD_WHOLE, given, "an object");
    if (rc < 0) {
        return rc;
    }
    rc = json_only_keys(given, keys, err);
    rc = rc == 0 ? read_url(given, ret, err) : rc;
    rc = rc == 0 ? read_events(given, ret, err) : rc;
    if (rc < 0) {
        err_prefix(err, "#/webhook");
    }
    return rc;
}

void webhook_write(const struct webhook_spec *s, struct json *j)
{
    if (s->url[0] == '\0') {
        json_set_string(j, "webhook", NULL);
        return;
    }
    struct json *w = json_set_object(j, "webhook");
    json_set_string(w, "url", s->url);
    struct json *events = json_set_array(w, "events");
    if (s->succeeded) {
        json_push(events, json_new_string("succeeded"));
    }
    if (s->failed) {
        json_push(events, json_new_string("failed"));
    }
    if (s->cancelled) {
        json_push(events, json_new_string("cancelled"));
    }
}
