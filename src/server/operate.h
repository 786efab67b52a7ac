/* The commands of krrd that are not the daemon: `krrd backup FILE`, `krrd check`,
 * `krrd compact`, `krrd key NAME SCOPES`. Each takes the daemon's options (--data-dir), prints
 * JSON, and returns the exit code. */
#pragma once

#include "server/config.h"

/* 0: done; 1: not, said on standard error. */
int operate_backup(const struct config *c, const char *to);
/* Prints {"ok","datasets","models","problems":[{"kind","id","detail"}]}. 0: all is well; 1: there
 * are problems, or it could not look. */
int operate_check(const struct config *c);
/* Writes the database of a stopped daemon anew, without what is free in it; prints {"ok",
 * "bytes_before","bytes_after"}. 0: done; 1: not, said on standard error. */
int operate_compact(const struct config *c);
/* Makes an API key in the file of --api-keys and prints it. 0: done; 1: not, said on standard
 * error. */
int operate_key(const struct config *c, const char *name, const char *scopes);
