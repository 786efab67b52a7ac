#include "client/sse.h"

#include <stdio.h>
#include <string.h>

void sse_deinit(struct sse *s)
{
    buf_deinit(&s->line);
    buf_deinit(&s->data);
}

void sse_restart(struct sse *s)
{
    buf_clear(&s->line);
    buf_clear(&s->data);
    s->after_return = false;
    memcpy(s->next_id, s->id, sizeof s->id);
}

/* The value of a line "name: value" of this name, else NULL. */
static const char *field(const char *line, const char *name)
{
    const size_t len = strlen(name);
    if (strncmp(line, name, len) != 0 || line[len] != ':') {
        return NULL;
    }
    return line + len + (line[len + 1] == ' ' ? 2 : 1);
}

static bool end_event(struct sse *s, bool (*take)(void *, const char *, size_t), void *context)
{
    memcpy(s->id, s->next_id, sizeof s->id);
    const bool on = s->data.len == 0 || take(context, s->data.data, s->data.len);
    buf_clear(&s->data);
    return on;
}

static bool end_line(struct sse *s, bool (*take)(void *, const char *, size_t), void *context)
{
    const char *line = s->line.data ? s->line.data : "";
    const char *data = field(line, "data");
    const char *id = field(line, "id");
    bool on = true;
    if (line[0] == '\0') {
        on = end_event(s, take, context);
    } else if (data) {
        if (s->data.len > 0) {
            buf_char(&s->data, '\n');
        }
        buf_str(&s->data, data);
    } else if (id) {
        snprintf(s->next_id, sizeof s->next_id, "%s", id);
    }
    on = on && !s->line.failed && !s->data.failed && s->data.len <= SSE_EVENT_MAX;
    buf_clear(&s->line);
    return on;
}

bool sse_feed(struct sse *s, const void *data, size_t size,
              bool (*take)(void *context, const char *data, size_t size), void *context)
{
    const char *text = data;
    bool on = true;
    for (size_t i = 0; on && i < size; i++) {
        const char c = text[i];
        if (c == '\n' && s->after_return) {
            s->after_return = false;
            continue;
        }
        s->after_return = c == '\r';
        if (c == '\r' || c == '\n') {
            on = end_line(s, take, context);
        } else {
            buf_char(&s->line, c);
            on = s->line.len <= SSE_EVENT_MAX && !s->line.failed;
        }
    }
    return on;
}
