/*
 * The export of a model. Its file is copied from the store into the data directory's tmp folder,
 * chunk by chunk, and mapped; the server's own predictions of some rows are held against the
 * formula as the exported file has it (export/sample.h); the file is written beside it and sent
 * from there. A model is never in memory as a whole, and takes its size twice on disk meanwhile.
 * Threads of the pool do what takes long; nothing is left when the client leaves.
 */
#pragma once

#include "base/err.h"
#include "server/http/http.h"
#include "store/models.h"

enum export_form { EXPORT_SAFETENSORS, EXPORT_ONNX, EXPORT_ONNX_SVM };

/* At once, each until its client has taken it to the end; more are refused with 503. */
#define EXPORTS_MAX 4

/* Defers rq and answers it. -ERR_BUSY, -ERR_DISK_FULL, -ERR_NO_MEMORY: nothing has begun. */
int model_export(struct request *rq, const struct model_row *model, enum export_form form,
                 struct err *err);
