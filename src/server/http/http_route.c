#include "server/http/http_route.h"

#include <stdio.h>
#include <string.h>

/* The end of the segment that starts at s. */
static const char *segment_end(const char *s)
{
    return s + strcspn(s, "/");
}

/* One segment "{x}" or "{x}suffix" of the pattern against one of the path. */
static bool match_param(const char *pattern, const char *pattern_end, const char *path,
                        const char *path_end, struct route_span *ret)
{
    const char *suffix = strchr(pattern, '}') + 1;
    const size_t suffix_len = (size_t)(pattern_end - suffix);
    const size_t len = (size_t)(path_end - path);
    if (len <= suffix_len || memcmp(path_end - suffix_len, suffix, suffix_len) != 0) {
        return false;
    }
    *ret = (struct route_span){.start = path, .len = len - suffix_len};
    return true;
}

/* Whether the two differ before the pattern's first parameter, which is how most rows of the table
 * are told apart from a path. */
static bool differ_early(const char *pattern, const char *path)
{
    while (*pattern != '{' && *pattern != '\0' && *pattern == *path) {
        pattern++;
        path++;
    }
    return *pattern != '{' && *pattern != *path;
}

bool route_matches(const char *pattern, const char *path, struct route_span ret[HTTP_MAX_PARAMS])
{
    int params = 0;
    if (differ_early(pattern, path)) {
        return false;
    }
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        const char *pattern_end = segment_end(pattern);
        const char *path_end = segment_end(path);
        if (*pattern == '{') {
            if (params == HTTP_MAX_PARAMS ||
                !match_param(pattern, pattern_end, path, path_end, &ret[params++])) {
                return false;
            }
        } else if (pattern_end - pattern != path_end - path ||
                   memcmp(pattern, path, (size_t)(path_end - path)) != 0) {
            return false;
        }
        pattern = pattern_end;
        path = path_end;
    }
    return *pattern == '\0' && *path == '\0';
}

enum route_takes route_takes(const char *query, const char *name)
{
    const size_t len = strlen(name);
    for (const char *word = query != NULL ? query : ""; *word != '\0';) {
        const size_t n = strcspn(word, " ");
        if (n > 2 && strncmp(word + n - 2, ".*", 2) == 0) {
            if (len >= n && strncmp(word, name, n - 1) == 0) {
                return ROUTE_TAKES_ONE;
            }
        } else {
            const bool many = n > 1 && word[n - 1] == '+';
            if (len == n - many && strncmp(word, name, len) == 0) {
                return many ? ROUTE_TAKES_MANY : ROUTE_TAKES_ONE;
            }
        }
        word += n + strspn(word + n, " ");
    }
    return ROUTE_TAKES_NONE;
}

/* Appends a method to the Allow list; a GET row answers HEAD as well. */
static void allow(struct route_found *found, const char *method)
{
    const size_t used = strlen(found->allow);
    snprintf(found->allow + used, sizeof(found->allow) - used, "%s%s%s", used > 0 ? ", " : "",
             method, strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static int count_params(const char *pattern)
{
    int n = 0;
    for (; *pattern != '\0'; pattern++) {
        n += *pattern == '{';
    }
    return n;
}

/* "{x}:predict" */
static bool has_suffix(const char *pattern)
{
    return strstr(pattern, "}:") != NULL;
}

struct route_found route_find(const struct route *routes, const char *method, const char *path)
{
    struct route_found found = {.route = NULL};
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    bool suffixed = false;
    for (const struct route *r = routes; r->pattern != NULL; r++) {
        struct route_span spans[HTTP_MAX_PARAMS];
        if (!route_matches(r->pattern, path, spans) || (suffixed && !has_suffix(r->pattern))) {
            continue;
        }
        suffixed = suffixed || has_suffix(r->pattern);
        if (strcmp(r->method, wanted) == 0) {
            found.route = r;
            found.params = count_params(r->pattern);
            memcpy(found.spans, spans, sizeof(spans));
            return found;
        }
        found.known = true;
        allow(&found, r->method);
    }
    return found;
}
