/* A data set from a file to the server. */
#pragma once

#include "client/args.h"

/* The options that say how a file is read: --target, --format, --name, --task, --one-hot. */
extern const struct option_row upload_options[];

/* Sends the file ("-": standard input), with progress; *ret is the data set. */
enum exit_code upload_file(struct client *c, const struct args *args, const char *path,
                           struct json **ret);
