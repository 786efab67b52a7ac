/*
 * Structured log lines (one JSON object a line on a file descriptor). Programs log; the engine,
 * the store, wire and ingest never do: they return errors.
 */
#pragma once

#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_OFF };

struct log {
    int fd;
    enum log_level level;
    const char *program; /* static string */
};

/* "debug", "info", "warning", "error", "off". */
int log_level_parse(const char *name, enum log_level *ret, struct err *err);

/* log_msg(log, LOG_INFO, "job.started", "job", id, "worker", "cpu:0", NULL): the event's name, then
 * key/value pairs of strings, then NULL. A NULL value prints null. */
void log_msg(const struct log *log, enum log_level level, const char *event, ...)
    __attribute__((sentinel));
