/* What the handlers of jobs share: the queue's limit. */
#pragma once

#include "server/http/http.h"

struct app;

/* -ERR_BUSY where no further job may wait (--max-queue). */
int jobs_check_room(const struct app *app, struct err *err);
/* The answer to that, or to why it is not known. */
void jobs_refuse_room(struct request *rq, int r, const struct err *err);
