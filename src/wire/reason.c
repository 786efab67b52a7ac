#include "wire/reason.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    const char *sentence;
    int gives_model;
} reasons[] = {
#define X(code, name, sentence, model) [REASON_##code] = {name, sentence, model},
    REASON_LIST(X)
#undef X
};

/* A number that came from elsewhere and names no reason counts as FAILED. */
static enum reason checked(enum reason r)
{
    return (unsigned)r < REASON_COUNT_ ? r : REASON_FAILED;
}

const char *reason_name(enum reason r)
{
    return reasons[checked(r)].name;
}

const char *reason_sentence(enum reason r)
{
    return reasons[checked(r)].sentence;
}

int reason_gives_model(enum reason r)
{
    return reasons[checked(r)].gives_model;
}

enum reason reason_from_name(const char *name)
{
    for (unsigned i = 0; name != NULL && i < REASON_COUNT_; i++) {
        if (strcmp(reasons[i].name, name) == 0) {
            return (enum reason)i;
        }
    }
    return REASON_NONE;
}
