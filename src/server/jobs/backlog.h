/*
 * What a worker has said of its job while the store took nothing (a full disk, a lock of another
 * process), kept in order until it does: events, and pieces of the model.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* Bytes of one job's backlog; an event counts as BACKLOG_EVENT_BYTES. */
#define BACKLOG_MAX (64u << 20)
#define BACKLOG_EVENT_BYTES 1024u

struct backlog_item {
    struct backlog_item *next;
    int64_t wall_ms;    /* when it was said */
    struct json *event; /* or NULL: */
    void *piece;        /* of the model */
    size_t size;        /* of the piece */
};

struct backlog {
    struct backlog_item *first, *last; /* all zero: empty */
    size_t bytes;
};

/* Both copy. -ERR_TOO_LARGE: there is no room for it. */
int backlog_add_event(struct backlog *b, const struct json *event, int64_t wall_ms,
                      struct err *err);
int backlog_add_piece(struct backlog *b, const void *piece, size_t size, struct err *err);
void backlog_drop_first(struct backlog *b);
void backlog_move_first(struct backlog *from, struct backlog *to); /* to its end */
void backlog_put_back(struct backlog *to, struct backlog *from);   /* all of it, before the rest */
bool backlog_drop_pieces(struct backlog *b);                       /* whether there were any */
void backlog_deinit(struct backlog *b);
