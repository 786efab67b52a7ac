/*
 * Compares the orbitals with levels known in closed form, and counts what the generator promises.
 */
#pragma once

/* Prints one line a check on stdout; returns how many failed. */
int selftest_run(void);
