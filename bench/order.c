#include "bench/order.h"

#include "base/file.h"
#include "base/mem.h"

#define ORDER_MAX_BYTES (64u << 20)

int bench_order_read(const char *path, struct order **ret, struct err *err)
{
    cleanup_mem char *text = NULL;
    size_t len = 0;
    int r = file_read_all(path, ORDER_MAX_BYTES, &text, &len, err);
    cleanup_json struct json *j = NULL;
    if (r == 0) {
        r = json_parse(text, len, &j, err);
    }
    return r < 0 ? r : order_read(j, ret, err);
}
