/* A job's specification from the command line. */
#pragma once

#include "client/client.h"

/*
 * The fields that options name, on top of --spec's file where there is one; `dataset` and `model`
 * are the caller's. EXIT_USAGE or EXIT_LOCAL after a complaint; what values mean is for the server
 * to judge.
 */
enum exit_code spec_build(const struct args *args, struct json **ret);
/* value as JSON where it is, else as a string, at "a.b.c" of the object. false: no such place. */
bool spec_set(struct json *spec, const char *path, const char *value);
