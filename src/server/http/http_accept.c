#include "server/http/http_accept.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "server/http/http_text.h"

#define VERSION "version="

struct piece {
    const char *text;
    size_t len;
};

/* One element of such a header: a name with parameters, of which q and version count. */
struct element {
    const char *name;
    size_t len;
    int quality;          /* thousandths */
    struct piece version; /* NULL: none */
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

static struct piece value_at(const char *s)
{
    return (struct piece){.text = s, .len = strcspn(s, ",; \t")};
}

/* The next element of the list at *at; false at its end. */
static bool take_element(const char **at, struct element *ret)
{
    const char *s = *at;
    while (*s == ',' || *s == ' ' || *s == '\t') {
        s++;
    }
    if (*s == '\0') {
        return false;
    }
    const char *end = http_piece_end(s, ",;");
    ret->name = s;
    ret->len = (size_t)(end - s);
    while (ret->len > 0 && (s[ret->len - 1] == ' ' || s[ret->len - 1] == '\t')) {
        ret->len--;
    }
    ret->quality = 1000;
    ret->version = (struct piece){.text = NULL};
    while (*end == ';') {
        const char *parameter = skip_blanks(end + 1);
        if (strncasecmp(parameter, "q=", 2) == 0) {
            ret->quality = read_quality(parameter + 2);
        } else if (strncasecmp(parameter, VERSION, strlen(VERSION)) == 0) {
            ret->version = value_at(parameter + strlen(VERSION));
        }
        end = http_piece_end(parameter, ",;");
    }
    *at = end;
    return true;
}

static bool other_version(const struct element *e, const struct element *type)
{
    const struct piece *a = &e->version, *b = &type->version;
    return a->text != NULL && b->text != NULL &&
           (a->len != b->len || strncmp(a->text, b->text, a->len) != 0);
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

/* The quality that the closest element gives the type. */
static int quality_of(const char *accept, const char *type, int *ret_closeness)
{
    struct element e, wanted;
    int best = 0, quality = 0;
    take_element(&type, &wanted);
    while (take_element(&accept, &e)) {
        const int close = closeness(&e, &wanted);
        if (close > best) {
            best = close;
            quality = e.quality;
        }
    }
    *ret_closeness = best;
    return quality;
}

double http_accept_quality(const char *accept, const char *type)
{
    int ignored;
    return 1e-3 * quality_of(accept, type, &ignored);
}

int http_accept_type(const char *accept, const char *const *types, int count)
{
    if (accept == NULL || *skip_blanks(accept) == '\0') {
        return count > 0 ? 0 : -1;
    }
    int best = -1, best_quality = 0, best_closeness = 0;
    for (int i = 0; i < count; i++) {
        int close = 0;
        const int quality = quality_of(accept, types[i], &close);
        if (quality > best_quality ||
            (quality == best_quality && quality > 0 && close == 3 && best_closeness < 3)) {
            best = i;
            best_quality = quality;
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
