#include "server/http/http_accept.h"

#include <string.h>
#include <strings.h>

#include "server/http/http_text.h"

enum { VALUE_SIZE = 32 }; /* of a parameter: longer than all that are known */

/* One element of such a header: a name, with parameters. */
struct element {
    const char *name;
    size_t len;
    int quality; /* thousandths */
};

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* "0", "1", "0.5", "0.125"; 0 for what is none of them. */
static int read_quality(const char *s)
{
    if (*s != '0' && *s != '1') {
        return 0;
    }
    int quality = (*s - '0') * 1000;
    if (s[1] == '.') {
        int unit = 100;
        for (s += 2; *s >= '0' && *s <= '9' && unit > 0; s++, unit /= 10) {
            quality += (*s - '0') * unit;
        }
    }
    return quality > 1000 ? 1000 : quality;
}

static int quality_said(const char *element)
{
    char value[VALUE_SIZE];
    return http_element_parameter(element, "q", value, sizeof value) ? read_quality(value) : 1000;
}

/* The next element of the list at *at; false at its end. */
static bool take_element(const char **at, struct element *ret)
{
    const char *s = *at + strspn(*at, ", \t");
    if (*s == '\0') {
        return false;
    }
    ret->name = s;
    ret->len = (size_t)(http_piece_end(s, ",;") - s);
    while (ret->len > 0 && (s[ret->len - 1] == ' ' || s[ret->len - 1] == '\t')) {
        ret->len--;
    }
    ret->quality = quality_said(s);
    *at = http_piece_end(s, ",");
    return true;
}

static bool other_version(const struct element *e, const struct element *type)
{
    char a[VALUE_SIZE], b[VALUE_SIZE];
    return http_element_parameter(e->name, "version", a, sizeof a) &&
           http_element_parameter(type->name, "version", b, sizeof b) && strcmp(a, b) != 0;
}

/* How closely an element of Accept names the type: 0 not at all, up to 3. */
static int closeness(const struct element *e, const struct element *type)
{
    if (other_version(e, type)) {
        return 0;
    }
    if (e->len == type->len && strncasecmp(e->name, type->name, e->len) == 0) {
        return 3;
    }
    if (e->len == 3 && strncmp(e->name, "*/*", 3) == 0) {
        return 1;
    }
    const bool range = e->len > 2 && strncmp(e->name + e->len - 2, "/*", 2) == 0;
    return range && e->len - 1 < type->len && strncasecmp(e->name, type->name, e->len - 1) == 0 ? 2
                                                                                                : 0;
}

/* The element that names the type most closely, of several the one with the highest quality; its
 * closeness, 0: none names it. */
static int closest(const char *accept, const char *type, struct element *ret)
{
    struct element e, wanted;
    int best = 0;
    *ret = (struct element){.name = ""};
    take_element(&type, &wanted);
    while (take_element(&accept, &e)) {
        const int close = closeness(&e, &wanted);
        if (close > best || (close > 0 && close == best && e.quality > ret->quality)) {
            best = close;
            *ret = e;
        }
    }
    return best;
}

double http_accept_quality(const char *accept, const char *type)
{
    struct element e;
    closest(accept, type, &e);
    return 1e-3 * e.quality;
}

bool http_accept_names(const char *accept, const char *type)
{
    struct element e;
    return accept != NULL && closest(accept, type, &e) == 3 && e.quality > 0;
}

bool http_accept_parameter(const char *accept, const char *type, const char *name, char *ret,
                           size_t size)
{
    struct element e;
    return accept != NULL && closest(accept, type, &e) == 3 &&
           http_element_parameter(e.name, name, ret, size);
}

int http_accept_type(const char *accept, const char *const *types, int count)
{
    if (accept == NULL || *skip_blanks(accept) == '\0') {
        return count > 0 ? 0 : -1;
    }
    int best = -1, best_quality = 0, best_closeness = 0;
    for (int i = 0; i < count; i++) {
        struct element e;
        const int close = closest(accept, types[i], &e);
        if (e.quality > best_quality ||
            (e.quality == best_quality && e.quality > 0 && close == 3 && best_closeness < 3)) {
            best = i;
            best_quality = e.quality;
            best_closeness = close;
        }
    }
    return best;
}

static bool is_coding(const struct element *e, const char *name)
{
    return e->len == strlen(name) && strncasecmp(e->name, name, e->len) == 0;
}

const char *http_accept_encoding(const char *accept_encoding)
{
    int gzip = -1, deflate = -1, identity = -1, any = -1;
    struct element e;
    while (accept_encoding != NULL && take_element(&accept_encoding, &e)) {
        int *of = is_coding(&e, "gzip") || is_coding(&e, "x-gzip") ? &gzip
                  : is_coding(&e, "deflate")                       ? &deflate
                  : is_coding(&e, "identity")                      ? &identity
                  : is_coding(&e, "*")                             ? &any
                                                                   : NULL;
        if (of != NULL) {
            *of = e.quality;
        }
    }
    gzip = gzip < 0 ? any : gzip;
    deflate = deflate < 0 ? any : deflate;
    /* Who names a coding wants it, unless the plain body was named as better. */
    if (gzip > 0 && gzip >= deflate && gzip >= identity) {
        return "gzip";
    }
    return deflate > 0 && deflate >= identity ? "deflate" : NULL;
}
