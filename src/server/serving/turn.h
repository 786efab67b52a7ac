/*
 * When the serving room acts by itself: at the end of the loop's present turn, when all that
 * arrived together is known, and at moments to the microsecond (the loop's own timers know
 * milliseconds alone).
 */
#pragma once

#include "base/err.h"

struct turn;

struct turn_ops {
    void (*end)(void *context); /* after turn_ask, once */
    void (*due)(void *context); /* after turn_at, once */
};

/* `loop` is a uv_loop_t. */
int turn_new(void *loop, const struct turn_ops *ops, void *context, struct turn **ret,
             struct err *err);
/* Nothing is called any more. The loop must run once more for the memory to be freed. */
struct turn *turn_free(struct turn *t);

void turn_ask(struct turn *t);
/* At that time of clock_monotonic_s, or at once where it has passed. Only the earliest moment that
 * was asked for is kept: who is called asks again for the next one. */
void turn_at(struct turn *t, double when_s);
