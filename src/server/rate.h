/*
 * How fast a queue is worked off: what ended, each the less the longer ago (half of it after about
 * 40 s), a second. For the Retry-After of what the queue has no room for.
 */
#pragma once

struct rate {
    double weight; /* of what ended, at `at` */
    double at;     /* monotonic seconds; 0: nothing ended yet */
    double since;  /* when the first did */
};

void rate_add(struct rate *r, double now_s, double ended);
double rate_per_s(const struct rate *r, double now_s); /* 0: nothing ended yet */

#define RATE_RETRY_UNKNOWN_S 5
#define RATE_RETRY_MAX_S 300
/* Whole seconds until `places` of the queue are free, 1 to RATE_RETRY_MAX_S; RATE_RETRY_UNKNOWN_S
 * before anything has ended. */
int rate_retry_after_s(const struct rate *r, double now_s, double places);
