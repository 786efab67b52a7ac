/* What is kept for a time alone, and removed when that is over: a little every while, so that the
 * loop is never held up for long. */
#pragma once

#include "base/err.h"

struct app;
struct retention;

int retention_new(struct app *app, struct retention **ret, struct err *err);
/* Frees it too, when the loop runs next; NULL is fine. */
struct retention *retention_stop(struct retention *r);
