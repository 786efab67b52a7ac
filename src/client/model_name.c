#include "client/model_name.h"

#include <string.h>

#include "base/mem.h"
#include "client/api.h"

bool model_name_path(const char *text, struct buf *ret)
{
    const size_t len = strcspn(text, "@:");
    const char mark = text[len];
    if (len == 0 || (mark && !text[len + 1])) {
        return false;
    }
    cleanup_mem char *name = mem_strndup(text, len);
    buf_str(ret, "/v1/models");
    api_path_add(ret, name ? name : "");
    if (mark) {
        buf_str(ret, mark == '@' ? "/versions" : "/aliases");
        api_path_add(ret, text + len + 1);
    }
    return name != NULL;
}
