/*
 * krr, the command line client. It speaks the public HTTP interface alone and keeps nothing between
 * two calls. What a program may want to read goes to standard output (tables, or JSON with --json);
 * progress and complaints go to standard error.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct args;
struct http;

/* What a script can rely on. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_JOB_FAILED = 1, /* the job ended without a model */
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3, /* no answer, or not one of krrd's */
    EXIT_REFUSED = 4,     /* the server said 4xx */
    EXIT_SERVER = 5,      /* the server said 5xx */
    EXIT_LOCAL = 6,       /* a file here, or lack of memory */
    EXIT_INTERRUPTED = 130
};

struct client {
    struct http *http;
    bool json;  /* --json: answers as they came */
    bool quiet; /* --quiet: no progress */
};

/* One word of the command line: `krr NAME …`. */
struct command {
    const char *name;
    const char *operands; /* as the usage line shows them */
    const char *summary;
    const struct option_row *options; /* ends with a NULL name; see args.h */
    int min_operands, max_operands;
    enum exit_code (*run)(struct client *c, const struct args *args);
};

extern const struct command commands[]; /* ends with a NULL name */

/* commands.c names these; each file cmd_NOUN.c has some. */
enum exit_code cmd_train(struct client *c, const struct args *args);
enum exit_code cmd_watch(struct client *c, const struct args *args);
enum exit_code cmd_jobs(struct client *c, const struct args *args);
enum exit_code cmd_job(struct client *c, const struct args *args);
enum exit_code cmd_cancel(struct client *c, const struct args *args);
enum exit_code cmd_pause(struct client *c, const struct args *args);
enum exit_code cmd_resume(struct client *c, const struct args *args);
enum exit_code cmd_upload(struct client *c, const struct args *args);
enum exit_code cmd_datasets(struct client *c, const struct args *args);
enum exit_code cmd_models(struct client *c, const struct args *args);
enum exit_code cmd_load(struct client *c, const struct args *args);
enum exit_code cmd_unload(struct client *c, const struct args *args);
enum exit_code cmd_alias(struct client *c, const struct args *args);
enum exit_code cmd_predict(struct client *c, const struct args *args);
enum exit_code cmd_export(struct client *c, const struct args *args);
enum exit_code cmd_import(struct client *c, const struct args *args);
enum exit_code cmd_delete(struct client *c, const struct args *args);
enum exit_code cmd_health(struct client *c, const struct args *args);
enum exit_code cmd_status(struct client *c, const struct args *args);
enum exit_code cmd_devices(struct client *c, const struct args *args);
enum exit_code cmd_completion(struct client *c, const struct args *args);
