/*
 * The database's log, copied into the database on a thread of the pool: a commit would do it else,
 * and the loop stand still meanwhile (adr/0060).
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct app;
struct log_copy; /* opaque */

/* From now on the log is copied when it is long. */
int log_copy_new(struct app *app, struct log_copy **ret, struct err *err);
/* Before the store is closed; a thread may still be at work. NULL is fine. */
struct log_copy *log_copy_free(struct log_copy *l);

/* Has the log copied, however short it is: true where that has been done already, and little was
 * written since. */
bool log_copy_all(struct log_copy *l);
