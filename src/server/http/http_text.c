#include "server/http/http_text.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/http/http.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Decodes in place from `text` to `to`, which has room for len bytes; the new length or -1. */
static long resolve(const char *text, size_t len, char *to)
{
    long n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            const int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
            const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
            if (low < 0) {
                return -1;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) {
            return -1;
        }
        to[n++] = c;
    }
    return n;
}

static bool utf8_whole(const char *s, size_t len)
{
    for (size_t at = 0; at < len;) {
        const size_t step = utf8_step(s + at, len - at);
        if (step == 0) {
            return false;
        }
        at += step;
    }
    return true;
}

bool http_percent_decode(const char *text, size_t len, char **ret)
{
    char *to = mem_alloc(len + 1);
    if (to == NULL) {
        return false;
    }
    const long n = resolve(text, len, to);
    if (n < 0 || !utf8_whole(to, (size_t)n)) {
        to = mem_free(to);
    } else {
        to[n] = '\0';
    }
    *ret = to;
    return true;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether s has 1 to max characters, all of them letters, digits or in `others`. */
static bool only(const char *s, size_t max, const char *others)
{
    size_t n = 0;
    for (; s[n] != '\0'; n++) {
        if (n >= max || (!is_alnum(s[n]) && strchr(others, s[n]) == NULL)) {
            return false;
        }
    }
    return n > 0;
}

bool http_token_valid(const char *s)
{
    return only(s, SIZE_MAX, "!#$%&'*+-.^_`|~");
}

bool http_value_valid(const char *s)
{
    for (; *s != '\0'; s++) {
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f) {
            return false;
        }
    }
    return true;
}

bool http_request_id_valid(const char *s)
{
    return only(s, HTTP_REQUEST_ID_MAX, "._:/+=@-");
}

/* Whether s starts with n lower-case hexadecimal digits, not all of them zero (when that counts).
 */
static bool hex_field(const char *s, size_t n, bool nonzero)
{
    bool zero = true;
    for (size_t i = 0; i < n; i++) {
        if (hex_digit(s[i]) < 0 || (s[i] >= 'A' && s[i] <= 'F')) {
            return false;
        }
        zero = zero && s[i] == '0';
    }
    return !nonzero || !zero;
}

bool http_traceparent_valid(const char *s)
{
    return strlen(s) == 55 && strncmp(s, "00-", 3) == 0 && hex_field(s + 3, 32, true) &&
           s[35] == '-' && hex_field(s + 36, 16, true) && s[52] == '-' &&
           hex_field(s + 53, 2, false);
}

/* The length of the media type before its parameters and blanks. */
static size_t type_length(const char *content_type)
{
    size_t n = strcspn(content_type, ";");
    while (n > 0 && (content_type[n - 1] == ' ' || content_type[n - 1] == '\t')) {
        n--;
    }
    return n;
}

bool http_type_is(const char *content_type, const char *type)
{
    const size_t n = type_length(content_type);
    return n == strlen(type) && strncasecmp(content_type, type, n) == 0;
}

bool http_type_is_json(const char *content_type)
{
    const size_t n = type_length(content_type);
    const size_t suffix = strlen("+json");
    return http_type_is(content_type, "application/json") ||
           (n > suffix && strncasecmp(content_type + n - suffix, "+json", suffix) == 0);
}

/* What follows "http://" or "https://"; NULL: the target does not begin so. */
static const char *authority_of(const char *target)
{
    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0) {
        return NULL;
    }
    return strstr(target, "://") + 3;
}

const char *http_target_path(const char *target)
{
    if (target[0] == '/') {
        return target;
    }
    const char *authority = authority_of(target);
    if (authority == NULL) {
        return NULL;
    }
    const char *path = strchr(authority, '/');
    return path != NULL ? path : "/";
}

const char *http_target_host(const char *target, size_t *ret_len)
{
    const char *authority = authority_of(target);
    *ret_len = authority != NULL ? strcspn(authority, "/") : 0;
    return authority;
}

bool http_length_read(const char *text, long long *ret)
{
    long long value = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        const int digit = *text - '0';
        value = value > (LLONG_MAX - digit) / 10 ? LLONG_MAX : value * 10 + digit;
    }
    *ret = value;
    return true;
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

const char *http_piece_end(const char *s, const char *marks)
{
    for (bool quoted = false; *s != '\0'; s++) {
        if (quoted && *s == '\\' && s[1] != '\0') {
            s++;
        } else if (*s == '"') {
            quoted = !quoted;
        } else if (!quoted && strchr(marks, *s) != NULL) {
            break;
        }
    }
    return s;
}

/* The token or the quoted text that ends before `end`. */
static void copy_value(const char *s, const char *end, char *ret, size_t size)
{
    const bool quoted = s < end && *s == '"';
    size_t n = 0;
    for (s += quoted; s < end && n + 1 < size && !(quoted ? *s == '"' : *s == ' ' || *s == '\t');
         s++) {
        s += quoted && *s == '\\' && s + 1 < end;
        ret[n++] = *s;
    }
    ret[n] = '\0';
}

/* Of the parameters that follow a name, which ends at s; the whole ends at one of `marks`, of which
 * ";" is the first. */
static bool find_parameter(const char *s, const char *marks, const char *name, char *ret,
                           size_t size)
{
    const size_t len = strlen(name);
    while (*s == ';') {
        s = skip_blanks(s + 1);
        const char *end = http_piece_end(s, marks);
        if (strncasecmp(s, name, len) == 0 && s[len] == '=') {
            copy_value(s + len + 1, end, ret, size);
            return true;
        }
        s = end;
    }
    return false;
}

bool http_type_parameter(const char *content_type, const char *name, char *ret, size_t size)
{
    return find_parameter(http_piece_end(content_type, ";"), ";", name, ret, size);
}

bool http_element_parameter(const char *element, const char *name, char *ret, size_t size)
{
    return find_parameter(http_piece_end(element, ";,"), ";,", name, ret, size);
}

/* "wait=N", the number in quotes or not, up to `end`. */
static long wait_seconds(const char *s, const char *end)
{
    enum { DAY = 86400 };
    if (strncasecmp(s, "wait", 4) != 0 || *(s = skip_blanks(s + 4)) != '=') {
        return -1;
    }
    s = skip_blanks(s + 1);
    const bool quoted = *s == '"';
    s += quoted;
    const char *digits = s;
    long seconds = 0;
    for (; s < end && *s >= '0' && *s <= '9'; s++) {
        seconds = seconds > DAY ? DAY : 10 * seconds + (*s - '0');
    }
    const bool some = s > digits && (!quoted || *s == '"');
    s = skip_blanks(s + (some && quoted));
    return some && s >= end ? (seconds > DAY ? DAY : seconds) : -1;
}

long http_prefer_wait(const char *prefer)
{
    while (*prefer != '\0') {
        prefer = skip_blanks(prefer);
        const char *end = http_piece_end(prefer, ",");
        const long seconds = wait_seconds(prefer, http_piece_end(prefer, ",;"));
        if (seconds >= 0) {
            return seconds;
        }
        prefer = *end == ',' ? end + 1 : end;
    }
    return -1;
}

bool http_timeout_read(const char *text, double *ret)
{
    double seconds;
    const size_t len = strlen(text);
    if (strspn(text, "0123456789.") != len || len == 0 || len > 32 ||
        decimal_scan(text, len, &seconds) != len || seconds <= 0.0 ||
        seconds > HTTP_TIMEOUT_MAX_S) {
        return false;
    }
    *ret = seconds;
    return true;
}

/* A list of entity tags; of weak ones only where those count. */
static bool lists_tag(const char *list, const char *tag, bool weak)
{
    const size_t len = strlen(tag);
    const char *s = skip_blanks(list);
    while (*s != '\0') {
        const char *end = http_piece_end(s, ",");
        const char *start = weak && strncmp(s, "W/", 2) == 0 ? s + 2 : s;
        if ((*start == '*' && skip_blanks(start + 1) >= end) ||
            (strncmp(start, tag, len) == 0 && skip_blanks(start + len) >= end)) {
            return true;
        }
        s = skip_blanks(*end == ',' ? end + 1 : end);
    }
    return false;
}

bool http_tag_listed(const char *if_none_match, const char *tag)
{
    return lists_tag(if_none_match, tag, true);
}

bool http_tag_matches(const char *if_match, const char *tag)
{
    return lists_tag(if_match, tag, false);
}

bool http_origin_allowed(const char *sec_fetch_site, const char *origin, const char *host)
{
    if (sec_fetch_site != NULL) {
        return strcmp(sec_fetch_site, "same-origin") == 0 || strcmp(sec_fetch_site, "none") == 0;
    }
    if (origin == NULL) {
        return true;
    }
    const char *authority = strstr(origin, "://");
    return authority != NULL && host != NULL && strcasecmp(authority + 3, host) == 0;
}
