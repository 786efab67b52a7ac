/* The lines of an event stream (text/event-stream), as they come in pieces. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct sse {
    struct buf line, data;
    char id[64]; /* of the last whole event; "" before the first */
    char next_id[64];
    bool after_return; /* a line feed that follows is part of the same line end */
};
void sse_deinit(struct sse *s);
/* Forgets what is left of an event that was cut off; the id stays. */
void sse_restart(struct sse *s);

/* An event with a longer line, or with more data, is not one of krrd's. */
#define SSE_EVENT_MAX ((size_t)1 << 20)

/* Calls take with the data of every event that is now whole. false: take said so, an event is too
 * long, or lack of memory. */
bool sse_feed(struct sse *s, const void *data, size_t size,
              bool (*take)(void *context, const char *data, size_t size), void *context);
