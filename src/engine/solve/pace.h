/*
 * How fast the backend is just now, beside whatever else the machine does: rates as those of a
 * worker's HELLO (plan/machine.h), of which the plan of what is still to be done follows. Two small
 * products, about 10 ms of one core, the middle of three turns. Rates of float32 are those of
 * float64 twice, that of memory is a usual one.
 */
#pragma once

#include "engine/backend.h"
#include "plan/machine.h"

int pace_measure(struct backend *be, double (*now)(void *context), void *context,
                 struct plan_rates *ret, struct err *err);
