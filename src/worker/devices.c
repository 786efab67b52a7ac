#include "worker/devices.h"

#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"

static void add_all(struct json *to, const char *kind, uint64_t found)
{
    for (int i = 0; i < 64; i++) {
        char name[24];
        snprintf(name, sizeof name, "%s:%d", kind, i);
        if (found >> i & 1) {
            json_push(to, json_new_string(name));
        }
    }
}

int devices_print(const struct backend_provider *const *providers, struct err *err)
{
    struct json *j cleanup_json = json_new_object();
    struct json *devices = json_set_array(j, "devices");
    json_set_string(j, "detail", NULL);
    for (; *providers != NULL; providers++) {
        const struct backend_provider *p = *providers;
        uint64_t found = 0;
        struct err why;
        if (p->find == NULL) {
            json_push(devices, json_new_string(p->name));
        } else if (p->find(&found, &why) == 0) {
            add_all(devices, p->name, found);
        } else {
            json_set_string(j, "detail", why.detail);
        }
    }
    cleanup_mem char *text = json_print(j);
    if (text == NULL) {
        return err_no_memory(err);
    }
    return printf("%s\n", text) > 0 && fflush(stdout) == 0 ? 0
                                                           : err_errno(err, "tell of the devices");
}
