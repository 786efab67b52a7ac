/* RFC 9457 problem details, plus the member `error` (a string) that inference clients read. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#define PROBLEM_CONTENT_TYPE "#/header/content-type"
#define PROBLEM_CONTENT_ENCODING "#/header/content-encoding"
#define PROBLEM_ACCEPT "#/header/accept"

/* {"type","title","status","code","detail","instance","errors":[{"pointer","detail"}],"error"};
 * `type` is "urn:krrd:problem:" and `code`, the error's wire name. */
struct json *problem_json(int status, const struct err *err, const char *instance);
/* INVALID, PARSE -> 400 (422 for a well-formed body whose field is refused: ERR_INVALID with a
 * pointer), NOT_FOUND -> 404, CONFLICT -> 409, TOO_LARGE -> 413, UNSUPPORTED -> 422 (415 at
 * PROBLEM_CONTENT_TYPE and PROBLEM_CONTENT_ENCODING, 406 at PROBLEM_ACCEPT), BUSY and READ_ONLY ->
 * 503, CANCELLED -> 409, DISK_FULL -> 507, others -> 500. The detail of IO, CORRUPT and INTERNAL is
 * never shown: the log has it. */
int problem_status(const struct err *err);
