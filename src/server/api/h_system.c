/* What the server says of itself. */
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/embedded.h"
#include "wire/catalog.h"

void system_live(struct request *rq)
{
    struct json *answer = json_new_object();
    json_set_bool(answer, "live", true);
    reply_json(rq, 200, answer);
}

void system_ready(struct request *rq)
{
    const char *reason = NULL;
    const bool ready = app_ready(rq->app, &reason);
    struct json *answer = json_new_object();
    json_set_bool(answer, "live", true);
    json_set_bool(answer, "ready", ready);
    if (!ready) {
        json_set_string(answer, "reason", reason);
    }
    reply_json(rq, ready ? 200 : 503, answer);
}

void system_openapi(struct request *rq)
{
    reply_bytes(rq, 200, "application/yaml", embedded_openapi, embedded_openapi_size);
}

void system_solvers(struct request *rq)
{
    reply_json(rq, 200, catalog_describe(CATALOG_SOLVERS));
}

void system_kernels(struct request *rq)
{
    reply_json(rq, 200, catalog_describe(CATALOG_KERNELS));
}

void system_preconditioners(struct request *rq)
{
    reply_json(rq, 200, catalog_describe(CATALOG_PRECONDITIONERS));
}

void system_center_selectors(struct request *rq)
{
    reply_json(rq, 200, catalog_describe(CATALOG_CENTERS));
}
