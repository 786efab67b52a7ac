/* Time. Monotonic seconds for durations, wall milliseconds for stamps. */
#pragma once

#include <stdint.h>

double clock_monotonic_s(void);
double clock_processor_s(void); /* of all threads of this process */
int64_t clock_wall_ms(void);

#define CLOCK_STAMP_SIZE 32
/* "2026-01-31T23:59:59.123Z" */
void clock_stamp(int64_t wall_ms, char ret[CLOCK_STAMP_SIZE]);
