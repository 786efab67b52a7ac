#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
    const char *name;
    const char *sentence;
} codes[] = {
#define X(code, name, sentence) [ERR_##code] = {name, sentence},
    ERR_LIST(X)
#undef X
};

/* Copies as much as fits without splitting a character. */
static void put(char *to, size_t size, const char *from)
{
    const size_t len = utf8_fit(from, strlen(from), size - 1);
    memcpy(to, from, len);
    to[len] = '\0';
}

/* The text is formed aside, so that the arguments may point into *err. */
static void fill(struct err *err, enum err_code code, const char *pointer, const char *fmt,
                 va_list args)
{
    char where[sizeof(err->pointer) + 4];
    char text[sizeof(err->detail) + 4];
    snprintf(where, sizeof(where), "%s", pointer);
    if (vsnprintf(text, sizeof(text), fmt, args) < 0) {
        text[0] = '\0';
    }
    utf8_mend(text); /* of what "%.64s" has cut */
    err->code = code;
    put(err->pointer, sizeof(err->pointer), where);
    put(err->detail, sizeof(err->detail), text);
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        fill(err, code, "", fmt, args);
        va_end(args);
    }
    return -(int)code;
}

int err_at(struct err *err, enum err_code code, const char *pointer, const char *fmt, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        fill(err, code, pointer == NULL ? "" : pointer, fmt, args);
        va_end(args);
    }
    return -(int)code;
}

void err_prefix(struct err *err, const char *prefix)
{
    if (err == NULL || prefix[0] == '\0' || strcmp(prefix, "#") == 0) {
        return;
    }
    const char *rest = err->pointer[0] == '#' ? err->pointer + 1 : err->pointer;
    char joined[2 * sizeof(err->pointer)];
    snprintf(joined, sizeof(joined), "%s%s", prefix, rest);
    put(err->pointer, sizeof(err->pointer), joined);
}

int err_no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
}

static enum err_code code_of_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return ERR_DISK_FULL;
    case EROFS:
        return ERR_READ_ONLY;
    case EMFILE: /* too many open files: there are fewer some time */
    case ENFILE:
        return ERR_BUSY;
    default:
        return ERR_IO;
    }
}

int err_errno(struct err *err, const char *doing)
{
    char reason[128];
    const char *text = strerror_r(errno, reason, sizeof(reason));
    return err_set(err, code_of_errno(errno), "Could not %s: %s.", doing, text);
}

const char *err_name(enum err_code code)
{
    return codes[(unsigned)code < ERR_COUNT_ ? code : ERR_INTERNAL].name;
}

const char *err_sentence(enum err_code code)
{
    return codes[(unsigned)code < ERR_COUNT_ ? code : ERR_INTERNAL].sentence;
}

enum err_code err_from_name(const char *name)
{
    for (unsigned i = 0; name != NULL && i < ERR_COUNT_; i++) {
        if (strcmp(codes[i].name, name) == 0) {
            return (enum err_code)i;
        }
    }
    return ERR_INTERNAL;
}
