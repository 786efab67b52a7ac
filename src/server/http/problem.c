#include "server/http/problem.h"

#include <stdio.h>
#include <string.h>

/* Codes whose sentence tells of our insides: the client learns that it failed, the log why. */
static bool is_internal(enum err_code code)
{
    switch (code) {
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_INTERNAL:
        return true;
    default:
        return false;
    }
}

static const char *detail_of(const struct err *err)
{
    return is_internal(err->code) || err->detail[0] == '\0' ? err_sentence(err->code) : err->detail;
}

struct json *problem_json(int status, const struct err *err, const char *instance)
{
    char type[96];
    snprintf(type, sizeof(type), "urn:krrd:problem:%s", err_name(err->code));
    struct json *p = json_new_object();
    json_set_string(p, "type", type);
    json_set_string(p, "title", err_sentence(err->code));
    json_set_int(p, "status", status);
    json_set_string(p, "code", err_name(err->code));
    json_set_string(p, "detail", detail_of(err));
    json_set_string(p, "instance", instance);
    if (err->pointer[0] != '\0' && !is_internal(err->code)) {
        struct json *item = json_push(json_set_array(p, "errors"), json_new_object());
        json_set_string(item, "pointer", err->pointer);
        json_set_string(item, "detail", detail_of(err));
    }
    json_set_string(p, "error", detail_of(err));
    return p;
}

int problem_status(const struct err *err)
{
    switch (err->code) {
    case ERR_PARSE:
        return 400;
    case ERR_INVALID:
        return err->pointer[0] != '\0' ? 422 : 400;
    case ERR_UNAUTHORIZED:
        return 401;
    case ERR_FORBIDDEN:
        return 403;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_CONFLICT:
    case ERR_CANCELLED:
        return 409;
    case ERR_TOO_LARGE:
        return 413;
    case ERR_DOES_NOT_FIT:
        return 422;
    case ERR_UNSUPPORTED:
        return strcmp(err->pointer, PROBLEM_CONTENT_TYPE) == 0 ||
                       strcmp(err->pointer, PROBLEM_CONTENT_ENCODING) == 0
                   ? 415
               : strcmp(err->pointer, PROBLEM_ACCEPT) == 0 ? 406
                                                           : 422;
    case ERR_BUSY:
    case ERR_READ_ONLY:
        return 503;
    case ERR_DEADLINE:
        return 504;
    case ERR_DISK_FULL:
        return 507;
    default:
        return 500;
    }
}
