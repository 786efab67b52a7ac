/* What a job would be and need, for people: the answer to POST /v1/jobs?validate_only=true. */
#pragma once

#include "base/json.h"

/* A line for each thing on standard output. */
void plan_print(const struct json *answer);
