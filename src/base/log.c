#include "base/log.h"

#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARNING] = "warning",
    [LOG_ERROR] = "error", [LOG_OFF] = "off",
};

int log_level_parse(const char *name, enum log_level *ret, struct err *err)
{
    for (int i = LOG_DEBUG; i <= LOG_OFF; i++) {
        if (name != NULL && strcmp(name, level_names[i]) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "A log level is one of debug, info, warning, error, off, not \"%.40s\".",
                   name == NULL ? "" : name);
}

static void add_field(struct buf *b, const char *key, const char *value)
{
    buf_char(b, b->len == 0 ? '{' : ',');
    buf_json_string(b, key);
    buf_char(b, ':');
    if (value == NULL) {
        buf_str(b, "null");
    } else {
        buf_json_string(b, value);
    }
}

/* The line goes out in one write, so that lines of several processes on one pipe stay whole. A log
 * that cannot be written has nobody to be told, so the result is not looked at. */
void log_msg(const struct log *log, enum log_level level, const char *event, ...)
{
    if (level < log->level || level >= LOG_OFF) {
        return;
    }
    char stamp[CLOCK_STAMP_SIZE];
    clock_stamp(clock_wall_ms(), stamp);
    cleanup_buf struct buf line = BUF_INIT;
    add_field(&line, "time", stamp);
    add_field(&line, "level", level_names[level]);
    add_field(&line, "program", log->program);
    add_field(&line, "event", event);
    va_list args;
    va_start(args, event);
    for (const char *key = va_arg(args, const char *); key != NULL;
         key = va_arg(args, const char *)) {
        add_field(&line, key, va_arg(args, const char *));
    }
    va_end(args);
    buf_str(&line, "}\n");
    if (line.failed) {
        static const char lost[] = "{\"level\":\"error\",\"event\":\"log.out_of_memory\"}\n";
        file_write_all(log->fd, lost, sizeof(lost) - 1, NULL);
    } else {
        file_write_all(log->fd, line.data, line.len, NULL);
    }
}
