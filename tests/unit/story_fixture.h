/* What happens around a fit: its clock, a cancel, and what was said. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/fit/fit.h"

struct story {
    double now, tick;
    int64_t cancel_at, asked;
    struct buf messages;
    struct progress last;
    int selecting; /* reports of a share of the selection of centers */
    bool fell;     /* such a share did */
    int tables;
    int64_t last_table; /* rows of the last table told */
};

static inline double story_now(void *context)
{
    struct story *s = context;
    s->now += s->tick;
    return s->now;
}

static inline bool story_cancelled(void *context)
{
    struct story *s = context;
    return s->asked++ == s->cancel_at;
}

static inline void story_message(void *context, const char *level, const char *text)
{
    struct story *s = context;
    buf_printf(&s->messages, "%s: %s\n", level, text);
}
