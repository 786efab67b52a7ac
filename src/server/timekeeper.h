/*
 * The wall clock of the machine may jump, by hours where it was wrong; what is to take a while is
 * not to take longer or less for it. Timers and deadlines are monotonic anyway; what stands in the
 * database as a moment is kept right by this.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct app;
struct timekeeper;

int timekeeper_new(struct app *app, struct timekeeper **ret, struct err *err);
/* Frees it too, when the loop runs next; NULL is fine. */
struct timekeeper *timekeeper_stop(struct timekeeper *k);

/* Looks, as it does every second too, whether the wall clock has jumped: then the moments of next
 * attempts move along. */
void timekeeper_look(struct timekeeper *k);

/* Wall milliseconds, but for jumps forward since the daemon started. Of what is kept for a while,
 * nothing is old for a jump; after one it may be kept longer. */
int64_t timekeeper_cautious_ms(const struct timekeeper *k);
