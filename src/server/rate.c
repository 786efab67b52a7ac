#include "server/rate.h"

#include <math.h>

#define TIME_CONSTANT_S 60.0
/* The rate of what ended in one moment is not infinite. */
#define SHORTEST_S 1.0

static double decayed(const struct rate *r, double now_s)
{
    return r->weight * exp(-fmax(now_s - r->at, 0.0) / TIME_CONSTANT_S);
}

void rate_add(struct rate *r, double now_s, double ended)
{
    if (r->at == 0.0) {
        r->since = now_s;
    }
    r->weight = decayed(r, now_s) + ended;
    r->at = now_s;
}

/* What has been weighed is the integral of exp(-t / T) over the time since the first. */
double rate_per_s(const struct rate *r, double now_s)
{
    const double span = fmax(now_s - r->since, SHORTEST_S);
    const double window = TIME_CONSTANT_S * -expm1(-span / TIME_CONSTANT_S);
    return r->at == 0.0 ? 0.0 : decayed(r, now_s) / window;
}

int rate_retry_after_s(const struct rate *r, double now_s, double places)
{
    const double rate = rate_per_s(r, now_s);
    if (r->at == 0.0) {
        return RATE_RETRY_UNKNOWN_S;
    }
    const double wait = rate > 0.0 ? ceil(places / rate) : RATE_RETRY_MAX_S;
    return (int)fmin(fmax(wait, 1.0), RATE_RETRY_MAX_S);
}
