/* The route table; its rows are in routes.c, the handlers in handlers.h. */
#pragma once

#include "server/http/http.h"

extern const struct route routes[];
