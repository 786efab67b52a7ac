/* Every handler, one file a noun: h_aliases.c, h_datasets.c, h_devices.c, h_job_creation.c,
 * h_jobs.c, h_limits.c, h_metrics.c, h_events.c, h_models.c, h_predict.c, h_system.c, h_tested.c,
 * h_transfers.c, h_web.c, h_workers.c. routes.c is the table that names them. */
#pragma once

#include "server/http/http.h"

/* h_datasets.c */
int datasets_upload_begin(struct request *rq);
int datasets_put_begin(struct request *rq);
int datasets_upload_data(struct request *rq, const void *data, size_t size);
void datasets_upload(struct request *rq);
void datasets_index(struct request *rq);
void datasets_show(struct request *rq);
void datasets_preview(struct request *rq);
void datasets_remove(struct request *rq);

/* h_job_creation.c */
void jobs_create(struct request *rq);

/* h_jobs.c */
void jobs_index(struct request *rq);
void jobs_show(struct request *rq);
void jobs_stop(struct request *rq);     /* POST …/cancel */
void jobs_hold(struct request *rq);     /* POST …/pause */
void jobs_continue(struct request *rq); /* POST …/resume */
void jobs_remove(struct request *rq);

/* h_tested.c */
void tested_show(struct request *rq); /* GET …/test_predictions */

/* h_events.c */
void events_show(struct request *rq); /* list, or SSE by Accept */

/* h_models.c */
void models_index(struct request *rq);
void models_show(struct request *rq);
void models_version(struct request *rq);
void models_load(struct request *rq);
void models_unload(struct request *rq);
void models_remove(struct request *rq);

/* h_limits.c */
void limits_show(struct request *rq);
void limits_put(struct request *rq);

/* h_aliases.c */
void aliases_index(struct request *rq);
void aliases_show(struct request *rq);
void aliases_put(struct request *rq);
void aliases_undo(struct request *rq); /* POST …/rollback */
void aliases_remove(struct request *rq);

/* h_transfers.c */
void transfers_export(struct request *rq);
int transfers_import_begin(struct request *rq);
int transfers_import_data(struct request *rq, const void *data, size_t size);
void transfers_import(struct request *rq);

/* h_predict.c */
void predict(struct request *rq);
void predict_default(struct request *rq); /* POST /invocations */

/* h_metrics.c */
void system_metrics(struct request *rq);

/* h_infer.c, h_protocol.c, h_repository.c: the Open Inference Protocol */
void infer(struct request *rq);
void protocol_server(struct request *rq);
void protocol_model(struct request *rq);
void protocol_ready(struct request *rq);
void protocol_config(struct request *rq);
void protocol_stats(struct request *rq);
void protocol_all_stats(struct request *rq);
void repository_index(struct request *rq);
void repository_load(struct request *rq);
void repository_unload(struct request *rq);

/* h_system.c */
void system_live(struct request *rq);
void system_ready(struct request *rq);
void system_openapi(struct request *rq);
void system_solvers(struct request *rq);
void system_kernels(struct request *rq);
void system_preconditioners(struct request *rq);
void system_center_selectors(struct request *rq);

/* h_web.c */
void web_index(struct request *rq);
void web_docs(struct request *rq);
void web_icon(struct request *rq);
void web_file(struct request *rq);

/* h_workers.c */
void system_workers(struct request *rq);

/* h_devices.c */
void system_devices(struct request *rq);
