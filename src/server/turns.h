/*
 * What lies between two turns of the loop: it waits here, not within libuv, so that how long it was
 * away from its sockets is known whatever ended the wait (libuv's own account of idle time loses
 * what a signal cuts short). When what it waits for is about to come it looks for it instead of
 * sleeping (base/spin.h).
 */
#pragma once

#include "base/err.h"

struct app;
struct turns;

/* From the loop's next turn on. */
int turns_begin(struct app *app, struct turns **ret, struct err *err);
/* Freed from within the loop. Returns NULL. */
struct turns *turns_end(struct turns *t);
