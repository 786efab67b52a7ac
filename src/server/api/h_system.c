/* What the server says of itself. */
#include "server/api/handlers.h"
#include "server/app.h"
#include "server/embedded.h"
#include "wire/catalog.h"

static const char index_page[] =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<head><meta charset=\"utf-8\"><title>krrd</title></head>\n"
    "<body>\n"
    "<h1>krrd " KRRD_VERSION "</h1>\n"
    "<p>Trains kernel ridge regression models and serves their predictions.</p>\n"
    "<ul>\n"
    "<li><a href=\"/openapi.yaml\">/openapi.yaml</a>: the contract</li>\n"
    "<li><a href=\"/v1/datasets\">/v1/datasets</a></li>\n"
    "<li><a href=\"/v1/jobs\">/v1/jobs</a></li>\n"
    "<li><a href=\"/v1/models\">/v1/models</a></li>\n"
    "<li><a href=\"/v1/solvers\">/v1/solvers</a>, <a href=\"/v1/kernels\">/v1/kernels</a>,\n"
    "<a href=\"/v1/preconditioners\">/v1/preconditioners</a>,\n"
    "<a href=\"/v1/center_selectors\">/v1/center_selectors</a>: methods and their parameters</li>\n"
    "<li><a href=\"/v1/workers\">/v1/workers</a></li>\n"
    "<li><a href=\"/v2/health/live\">/v2/health/live</a>,\n"
    "<a href=\"/v2/health/ready\">/v2/health/ready</a></li>\n"
    "</ul>\n"
    "</body>\n"
    "</html>\n";

void system_root(struct request *rq)
{
    reply_bytes(rq, 200, "text/html; charset=utf-8", index_page, sizeof(index_page) - 1);
}

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
