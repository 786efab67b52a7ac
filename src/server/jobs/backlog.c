#include "server/jobs/backlog.h"

#include "base/mem.h"

static size_t bytes_of(const struct backlog_item *i)
{
    return i->event ? BACKLOG_EVENT_BYTES : i->size;
}

static void free_item(struct backlog_item *i)
{
    json_free(i->event);
    mem_free(i->piece);
    mem_free(i);
}

static void append(struct backlog *b, struct backlog_item *i)
{
    if (b->last) {
        b->last->next = i;
    } else {
        b->first = i;
    }
    b->last = i;
    b->bytes += bytes_of(i);
}

static int check_room(const struct backlog *b, size_t bytes, struct err *err)
{
    return b->bytes <= BACKLOG_MAX && bytes <= BACKLOG_MAX - b->bytes
               ? 0
               : err_set(err, ERR_TOO_LARGE,
                         "More than %u MiB would wait for the storage to take them.",
                         BACKLOG_MAX >> 20);
}

int backlog_add_event(struct backlog *b, const struct json *event, int64_t wall_ms, struct err *err)
{
    const int r = check_room(b, BACKLOG_EVENT_BYTES, err);
    if (r < 0) {
        return r;
    }
    struct backlog_item *i = mem_zalloc(sizeof *i);
    struct json *copy = json_copy(event);
    if (!i || !copy) {
        json_free(copy);
        mem_free(i);
        return err_no_memory(err);
    }
    i->event = copy;
    i->wall_ms = wall_ms;
    append(b, i);
    return 0;
}

int backlog_add_piece(struct backlog *b, const void *piece, size_t size, struct err *err)
{
    const int r = check_room(b, size, err);
    if (r < 0) {
        return r;
    }
    struct backlog_item *i = mem_zalloc(sizeof *i);
    void *copy = mem_dup(piece, size);
    if (!i || !copy) {
        mem_free(copy);
        mem_free(i);
        return err_no_memory(err);
    }
    i->piece = copy;
    i->size = size;
    append(b, i);
    return 0;
}

static struct backlog_item *take_first(struct backlog *b)
{
    struct backlog_item *i = b->first;
    b->bytes -= bytes_of(i);
    b->first = i->next;
    b->last = b->first ? b->last : NULL;
    i->next = NULL;
    return i;
}

void backlog_drop_first(struct backlog *b)
{
    free_item(take_first(b));
}

void backlog_move_first(struct backlog *from, struct backlog *to)
{
    append(to, take_first(from));
}

void backlog_put_back(struct backlog *to, struct backlog *from)
{
    if (from->first) {
        from->last->next = to->first;
        to->first = from->first;
        to->last = to->last ? to->last : from->last;
        to->bytes += from->bytes;
    }
    *from = (struct backlog){.first = NULL};
}

bool backlog_drop_pieces(struct backlog *b)
{
    struct backlog kept = {.first = NULL};
    bool dropped = false;
    while (b->first) {
        struct backlog_item *i = take_first(b);
        if (i->event) {
            append(&kept, i);
        } else {
            free_item(i);
            dropped = true;
        }
    }
    *b = kept;
    return dropped;
}

void backlog_deinit(struct backlog *b)
{
    while (b->first) {
        backlog_drop_first(b);
    }
}
