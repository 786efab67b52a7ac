/* The building phase of the stochastic methods: P, the damping and the smoothness (stochastic.h).
 */
#pragma once

#include "engine/methods/stochastic/stochastic.h"

#define RACE_BATCHES 4
#define RACE_EPOCHS 4
#define RACE_CALM 4.0
#define RACE_ROUGH 100.0
#define RACE_CANDIDATES 16

void race_deinit(struct stochastic *s);
