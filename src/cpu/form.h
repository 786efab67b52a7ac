/*
 * Which of the faster forms of a kernel (cpu/tile/tile.h) points take, and which of their rows are
 * too far from the origin for it. Rows of Q decide, so that a row of P has the same bits whatever
 * stands beside it.
 */
#pragma once

#include "cpu/cpu.h"

/* Of a row that is `reach` from the origin, by the kernel's distance and in units of the exponent.
 */
bool form_is_far(const struct points *p, double reach);

/* What all rows would take, turned (tile_turns); 0: too much, they are turned as they are used. */
size_t form_turned_bytes(const struct points *p);

/* Of packed points. `far`, where they have it, says what form_is_far() did; it is freed where no
 * row is far, or no faster form taken. */
void form_choose(struct points *p, const struct tile_loops *loops);
