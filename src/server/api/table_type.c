#include "server/api/table_type.h"

#include <strings.h>

#include "server/http/http_text.h"
#include "server/http/problem.h"

enum { VALUE_SIZE = 32 }; /* longer than all that is known */

int table_type_charset(const char *content_type, struct err *err)
{
    char value[VALUE_SIZE];
    if (!http_type_parameter(content_type, "charset", value, sizeof value) ||
        strcasecmp(value, "utf-8") == 0 || strcasecmp(value, "utf8") == 0 ||
        strcasecmp(value, "us-ascii") == 0) {
        return 0;
    }
    return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE,
                  "The charset \"%s\" is not read; send the table in utf-8.", value);
}

int table_type_header(const char *content_type, enum ingest_header *ret, struct err *err)
{
    char value[VALUE_SIZE];
    if (!http_type_parameter(content_type, "header", value, sizeof value) ||
        ingest_header_parse(value, ret, NULL) == 0) {
        return 0;
    }
    return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE,
                  "The header of a CSV is present or absent, not \"%s\".", value);
}
