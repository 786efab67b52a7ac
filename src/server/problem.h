/* RFC 9457 problem details, plus the member `error` (a string) that inference clients read. */
#pragma once

#include "base/err.h"
#include "base/json.h"

/* {"type","title","status","detail","instance","errors":[{"pointer","detail"}],"error"} */
struct json *problem_json(int status, const struct err *err, const char *instance);
/* INVALID, PARSE -> 400 (422 for a well-formed body whose field is refused: ERR_INVALID with a
 * pointer), NOT_FOUND -> 404, CONFLICT -> 409, TOO_LARGE -> 413, UNSUPPORTED -> 422, BUSY -> 503,
 * CANCELLED -> 409, others -> 500 (whose detail never shows internals). */
int problem_status(const struct err *err);
