/*
 * The `webhook` object of a job: who is told of its end.
 *
 *   {"url": "https://example.org/hook", "events": ["succeeded", "failed", "cancelled"]}
 *
 * Without `events` all three are told of.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

#define WEBHOOK_URL_MAX 1024

struct webhook_spec {
    char url[WEBHOOK_URL_MAX + 1]; /* "": no webhook was asked for */
    bool succeeded, failed, cancelled;
};

/* `j` is the job's document; null stands for absent. Pointers "#/webhook/…". */
int webhook_read(const struct json *j, struct webhook_spec *ret, struct err *err);
void webhook_write(const struct webhook_spec *s, struct json *j); /* "webhook": null when absent */
