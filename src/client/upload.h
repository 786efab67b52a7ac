/* A data set from a file to the server. */
#pragma once

#include "client/args.h"
#include "client/choices.h"

/* The rows of the options that say how a file is read. */
#define UPLOAD_OPTIONS                                                                             \
    {"target", 't', "COLUMN",                                                                      \
     "target column, by name or number from 0; may be repeated (default: last)", NULL},            \
        {"ignore", 0, "A,B,…", "columns to leave out, by name or number from 0", NULL},            \
        {"name", 0, "NAME", "what a new data set is called (default: the file's name)", NULL},     \
        {"format", 0, "FORMAT", "of the file (default: by its name)", choice_table_format},        \
        {"task", 0, "TASK", "what is learned (default: by the target's values)", choice_task},     \
        {"missing", 0, "RULE", "what becomes of missing values (default: refuse)",                 \
         choice_missing},                                                                          \
        {"decimal", 0, "SIGN", "of a CSV's numbers, point or comma (then semicolons part cells)",  \
         choice_decimal},                                                                          \
    {                                                                                              \
        "one-hot", 0, NULL, "text columns become one column a value", NULL                         \
    }
extern const struct option_row upload_options[]; /* those */

/* Sends the file ("-": standard input), with progress; *ret is the data set. */
enum exit_code upload_file(struct client *c, const struct args *args, const char *path,
                           struct json **ret);
