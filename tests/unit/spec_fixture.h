/* Job specs from texts that follow a model and a data set. For test_wire_spec*.c. */
#pragma once

#include <string.h>

#include "support/assert.h"
#include "wire/spec.h"

#define DS "ds_01HZXW5GQ0ABCDEFGHJKMNPQRS"
#define HEAD "{\"model\":\"m\",\"dataset\":\"" DS "\""

static inline int read_text(const char *text, struct job_spec **ret, struct err *err)
{
    struct json *j cleanup_json = NULL;
    struct err parse = {.code = ERR_OK};
    if (json_parse(text, strlen(text), &j, &parse) < 0) {
        fail_msg("%s: %s", text, parse.detail);
    }
    return job_spec_read(j, ret, err);
}

static inline struct job_spec *accept(const char *text)
{
    struct job_spec *spec = NULL;
    struct err err = {.code = ERR_OK};
    if (read_text(text, &spec, &err) < 0) {
        fail_msg("%s: %s %s", text, err.pointer, err.detail);
    }
    return spec;
}
