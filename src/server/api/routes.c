#include "server/api/routes.h"

#include "server/api/handlers.h"

/* A specification with 65,536 feature names of 60 bytes fits. */
#define JOB_BODY_MAX (4u << 20)

#define ALIAS_BODY_MAX (64u << 10)

#define REPOSITORY_BODY_MAX (64u << 10)

#define LOAD_BODY_MAX (4u << 10)

#define LIMITS_BODY_MAX (4u << 10)

const struct route routes[] = {
    /* clang-format off */
    {"POST", "/v1/datasets", ROUTE_STREAM, 0, datasets_upload, datasets_upload_begin,
     datasets_upload_data, "name target+ ignore+ format header task one_hot missing decimal"},
    {"GET", "/v1/datasets", .handle = datasets_index, .query = "limit after"},
    {"GET", "/v1/datasets/{id}", .handle = datasets_show, .query = "target+ ignore+ format header task one_hot missing decimal"},
    {"PUT", "/v1/datasets/{id}", ROUTE_STREAM, 0, datasets_upload, datasets_put_begin,
     datasets_upload_data, "name target+ ignore+ format header task one_hot missing decimal"},
    {"DELETE", "/v1/datasets/{id}", .handle = datasets_remove},
    {"GET", "/v1/datasets/{id}/preview", .handle = datasets_preview, .query = "rows"},

    {"POST", "/v1/jobs", ROUTE_BODY, JOB_BODY_MAX, .handle = jobs_create, .query = "validate_only"},
    {"GET", "/v1/jobs", .handle = jobs_index,
     .query = "status+ model metadata.* order limit after"},
    {"GET", "/v1/jobs/{id}", .handle = jobs_show},
    {"DELETE", "/v1/jobs/{id}", .handle = jobs_remove},
    {"POST", "/v1/jobs/{id}/cancel", .handle = jobs_stop},
    {"POST", "/v1/jobs/{id}/pause", .handle = jobs_hold},
    {"POST", "/v1/jobs/{id}/resume", .handle = jobs_continue},
    {"GET", "/v1/jobs/{id}/test_predictions", .handle = tested_show, .query = "limit"},
    {"GET", "/v1/jobs/{id}/events", .handle = events_show, .query = "limit after"},

    {"GET", "/v1/models", ROUTE_PREDICT, .handle = models_index, .query = "limit after"},
    {"POST", "/v1/models/{name}:predict", ROUTE_BODY | ROUTE_PREDICT, .handle = predict,
     .query = "return_scores return_variance extra_columns unknown_values decimal"},
    {"GET", "/v1/models/{name}", ROUTE_PREDICT, .handle = models_show, .query = "after"},
    {"GET", "/v1/models/{name}/versions/{version}", ROUTE_PREDICT, .handle = models_version},
    {"DELETE", "/v1/models/{name}/versions/{version}", ROUTE_ADMIN, .handle = models_remove},
    {"POST", "/v1/models/{name}/versions/{version}/load", ROUTE_BODY | ROUTE_ADMIN, LOAD_BODY_MAX,
     .handle = models_load},
    {"POST", "/v1/models/{name}/versions/{version}/unload", ROUTE_ADMIN, .handle = models_unload},
    {"GET", "/v1/models/{name}/versions/{version}/export", .handle = transfers_export,
     .query = "format form"},
    {"POST", "/v1/models/{name}/import", ROUTE_STREAM | ROUTE_ADMIN, 0, transfers_import,
     transfers_import_begin, transfers_import_data, NULL},
    {"GET", "/v1/models/{name}/limits", ROUTE_PREDICT, .handle = limits_show},
    {"PUT", "/v1/models/{name}/limits", ROUTE_BODY | ROUTE_ADMIN, LIMITS_BODY_MAX,
     .handle = limits_put},
    {"GET", "/v1/models/{name}/aliases", ROUTE_PREDICT, .handle = aliases_index},
    {"GET", "/v1/models/{name}/aliases/{alias}", ROUTE_PREDICT, .handle = aliases_show},
    {"PUT", "/v1/models/{name}/aliases/{alias}", ROUTE_BODY | ROUTE_ADMIN, ALIAS_BODY_MAX,
     .handle = aliases_put},
    {"DELETE", "/v1/models/{name}/aliases/{alias}", ROUTE_ADMIN, .handle = aliases_remove},
    {"POST", "/v1/models/{name}/aliases/{alias}/rollback", ROUTE_ADMIN, .handle = aliases_undo},
    {"POST", "/v1/models/{name}/aliases/{alias}/predict", ROUTE_BODY | ROUTE_PREDICT,
     .handle = predict,
     .query = "return_scores return_variance extra_columns unknown_values decimal"},
    {"POST", "/v1/models/{name}/predict", ROUTE_BODY | ROUTE_PREDICT, .handle = predict,
     .query = "return_scores return_variance extra_columns unknown_values decimal"},
    {"POST", "/v1/models/{name}/versions/{version}/predict", ROUTE_BODY | ROUTE_PREDICT,
     .handle = predict,
     .query = "return_scores return_variance extra_columns unknown_values decimal"},
    {"POST", "/invocations", ROUTE_BODY | ROUTE_PREDICT, .handle = predict_default,
     .query = "return_scores return_variance extra_columns unknown_values decimal"},

    {"GET", "/v1/devices", .handle = system_devices},
    {"GET", "/v1/workers", .handle = system_workers},
    {"GET", "/v1/solvers", .handle = system_solvers},
    {"GET", "/v1/kernels", .handle = system_kernels},
    {"GET", "/v1/preconditioners", .handle = system_preconditioners},
    {"GET", "/v1/center_selectors", .handle = system_center_selectors},

    {"GET", "/v2", ROUTE_PREDICT, .handle = protocol_server},
    {"GET", "/v2/models/stats", ROUTE_PREDICT, .handle = protocol_all_stats},
    {"GET", "/v2/models/{name}", ROUTE_PREDICT, .handle = protocol_model},
    {"GET", "/v2/models/{name}/versions/{version}", ROUTE_PREDICT, .handle = protocol_model},
    {"GET", "/v2/models/{name}/ready", ROUTE_PREDICT, .handle = protocol_ready},
    {"GET", "/v2/models/{name}/versions/{version}/ready", ROUTE_PREDICT, .handle = protocol_ready},
    {"GET", "/v2/models/{name}/config", ROUTE_PREDICT, .handle = protocol_config},
    {"GET", "/v2/models/{name}/versions/{version}/config", ROUTE_PREDICT,
     .handle = protocol_config},
    {"GET", "/v2/models/{name}/stats", ROUTE_PREDICT, .handle = protocol_stats},
    {"GET", "/v2/models/{name}/versions/{version}/stats", ROUTE_PREDICT, .handle = protocol_stats},
    {"POST", "/v2/models/{name}/infer", ROUTE_BODY | ROUTE_PREDICT, .handle = infer},
    {"POST", "/v2/models/{name}/versions/{version}/infer", ROUTE_BODY | ROUTE_PREDICT,
     .handle = infer},
    {"POST", "/v2/repository/index", ROUTE_BODY | ROUTE_PREDICT, REPOSITORY_BODY_MAX,
     .handle = repository_index},
    {"POST", "/v2/repository/models/{name}/load", ROUTE_BODY | ROUTE_ADMIN, REPOSITORY_BODY_MAX,
     .handle = repository_load},
    {"POST", "/v2/repository/models/{name}/unload", ROUTE_BODY | ROUTE_ADMIN, REPOSITORY_BODY_MAX,
     .handle = repository_unload},

    {"GET", "/v2/health/live", ROUTE_OPEN | ROUTE_HEALTH, .handle = system_live},
    {"GET", "/v2/health/ready", ROUTE_OPEN | ROUTE_HEALTH, .handle = system_ready},
    {"GET", "/health", ROUTE_OPEN | ROUTE_HEALTH, .handle = system_ready},
    {"GET", "/ping", ROUTE_OPEN | ROUTE_HEALTH, .handle = system_ready},
    {"GET", "/metrics", ROUTE_HEALTH, .handle = system_metrics},
    {"GET", "/openapi.yaml", ROUTE_OPEN, .handle = system_openapi},
    {"GET", "/docs", ROUTE_OPEN, .handle = web_docs},
    {"GET", "/", ROUTE_OPEN, .handle = web_index},
    {"GET", "/favicon.ico", ROUTE_OPEN, .handle = web_icon},
    {"GET", "/ui/{file}", ROUTE_OPEN, .handle = web_file},
    {.pattern = NULL},
    /* clang-format on */
};
