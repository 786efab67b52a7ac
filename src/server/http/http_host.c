#include "server/http/http_host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

struct name {
    const char *text;
    size_t len;
};

/* The name of "name:port", without the dot that may end it; of "[::1]:port" what is in brackets. */
static struct name name_of(const char *host)
{
    if (host[0] == '[') {
        return (struct name){host + 1, strcspn(host + 1, "]")};
    }
    struct name n = {host, strcspn(host, ":")};
    n.len -= n.len > 1 && n.text[n.len - 1] == '.';
    return n;
}

static bool is_address(struct name n)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char parsed[sizeof(struct in6_addr)];
    if (n.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, n.text, n.len);
    text[n.len] = '\0';
    return inet_pton(AF_INET, text, parsed) == 1 || inet_pton(AF_INET6, text, parsed) == 1;
}

/* "*", a name, or ".suffix", which stands for what is longer than it. */
static bool fits(struct name n, const char *pattern, size_t len)
{
    if (len == 1 && *pattern == '*') {
        return true;
    }
    const bool below = *pattern == '.';
    if (below ? n.len <= len : n.len != len) {
        return false;
    }
    return strncasecmp(n.text + n.len - len, pattern, len) == 0;
}

bool http_host_allowed(const char *host, const char *names)
{
    if (host == NULL) {
        return true;
    }
    const struct name n = name_of(host);
    if (is_address(n) || fits(n, "localhost", 9) || fits(n, ".localhost", 10)) {
        return true;
    }
    while (*names != '\0') {
        const size_t len = strcspn(names, ", ");
        if (len > 0 && fits(n, names, len)) {
            return true;
        }
        names += len + strspn(names + len, ", ");
    }
    return false;
}

static bool only(const char *s, size_t len, const char *chars)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\0' || strchr(chars, s[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* The first byte that a port, or nothing, must begin at; NULL: what is before is no host. */
static const char *host_end(const char *host, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._~%!$&'()*+,;=";
    const char mark = len > 0 && host[0] == '[' ? ']' : ':';
    const char *end = memchr(host, mark, len);
    if (mark == ']') {
        return end != NULL && only(host + 1, (size_t)(end - host) - 1, "0123456789abcdefABCDEF:.")
                   ? end + 1
                   : NULL;
    }
    end = end != NULL ? end : host + len;
    return end > host && only(host, (size_t)(end - host), letters) ? end : NULL;
}

bool http_host_valid(const char *host, size_t len)
{
    const char *end = host_end(host, len);
    if (end == NULL || end == host + len) {
        return end != NULL;
    }
    return *end == ':' && only(end + 1, (size_t)(host + len - end) - 1, "0123456789");
}
