#include "base/clock.h"

#include <stdio.h>
#include <time.h>

double clock_monotonic_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int64_t clock_wall_ms(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void clock_stamp(int64_t wall_ms, char ret[CLOCK_STAMP_SIZE])
{
    const int64_t rest = wall_ms % 1000; /* negative before 1970 */
    const int64_t ms = rest < 0 ? rest + 1000 : rest;
    const time_t seconds = (time_t)(wall_ms / 1000 - (rest < 0));
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    char text[96]; /* as much as seven integers of any value need */
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)ms);
    snprintf(ret, CLOCK_STAMP_SIZE, "%.*s", CLOCK_STAMP_SIZE - 1, text);
}
