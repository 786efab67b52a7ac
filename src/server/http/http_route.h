/* Finding the row of the route table that fits a path. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "server/http/http.h"

/* Where a {x} of the pattern stands in the path. */
struct route_span {
    const char *start;
    size_t len;
};

/* Whether the path (still percent-encoded) fits the pattern; fills one span for each {x}. */
bool route_matches(const char *pattern, const char *path, struct route_span ret[HTTP_MAX_PARAMS]);

struct route_found {
    const struct route *route; /* NULL: see known */
    bool known;                /* some row has this path, with other methods */
    char allow[128];           /* those methods, as the Allow header has them */
    struct route_span spans[HTTP_MAX_PARAMS];
    int params;
};
/* How often a route that takes these query parameters (struct route) takes this one. */
enum route_takes { ROUTE_TAKES_NONE, ROUTE_TAKES_ONE, ROUTE_TAKES_MANY };
enum route_takes route_takes(const char *query, const char *name);

/* HEAD finds the row of GET. */
struct route_found route_find(const struct route *routes, const char *method, const char *path);
