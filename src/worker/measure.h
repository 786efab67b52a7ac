/*
 * What a training worker says of its machine when it starts: how fast its backend is, by some
 * products of a few milliseconds each, until no better times come, and what its process takes once
 * the libraries have been used. Predictions of seconds are made from it (plan/plan.h).
 */
#pragma once

#include "engine/backend.h"
#include "plan/machine.h"

/* About a tenth of a second of one processor, or two. */
#define MEASURE_SECONDS 0.1
int measure_machine(struct backend *be, struct plan_machine *ret, struct err *err);

/* Takes each rate that is better now: a machine that was busy when the worker started looks slow
 * until then. 1: some was; 0: none. Begins nothing new once `limit_s` seconds have passed by the
 * clock: somebody waits meanwhile, and a machine that is busy now, where this could take a hundred
 * times as long, has no better rates to show. */
int measure_again(struct backend *be, double limit_s, struct plan_rates *rates, struct err *err);

/* The same without rates: nothing is computed. */
void measure_nothing(struct backend *be, struct plan_machine *ret);
