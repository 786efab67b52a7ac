/* Follows a job by its event stream until it has ended, across lost connections. */
#pragma once

#include "client/client.h"

/* Progress on standard error; with c->json every event as a line on standard output. *ret: the job
 * as it ended (json_free), whatever the outcome. */
enum exit_code watch_job(struct client *c, const char *job, struct json **ret);
/* The end for people (or JSON), and the exit code that goes with it. */
enum exit_code watch_report(struct client *c, const struct json *job);
