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
/* Whether host and port of the address may be a server's: a name or an IP address, one of IPv6 in
 * brackets, and maybe a port from 1 to 65535. Of a new job; those of earlier versions stay
 * readable. */
bool webhook_names_server(const struct webhook_spec *s);
void webhook_write(const struct webhook_spec *s, struct json *j); /* "webhook": null when absent */
