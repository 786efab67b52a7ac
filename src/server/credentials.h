/* Files that say who may use the server and what it proves itself with: --api-keys, --tls-cert,
 * --tls-key. */
#pragma once

#include "base/err.h"

struct app;
struct http_options;

/* PEM texts that go together into *o; credentials_forget when the server has started. */
int credentials_read_tls(const struct app *app, struct http_options *o, struct err *err);
void credentials_forget_tls(struct http_options *o);

/* Whether the server could start with them, which takes a while: before it does anything else. */
int credentials_check_tls(const struct app *app, struct err *err);

/* Reads the keys into app->keys, where a file is named; on failure the old ones stay. */
int credentials_read_keys(struct app *app, struct err *err);
/* The same on SIGHUP, told in the log. */
void credentials_reload_keys(struct app *app);
