/*
 * The import of a model: a safetensors file as an export makes it (model_export.h) becomes a new
 * version of a model. The body is written to the data directory's tmp folder as it arrives, block
 * by block on another thread; then the file is mapped and checked completely (wire/model_file.h),
 * the model's own file is made of it, and that is staged in the store chunk by chunk and published.
 *
 * An import has the digest of the model that was exported: its predictions have the same bits.
 * Nothing is left of one that fails or whose client leaves before the version is published.
 */
#pragma once

#include "base/err.h"
#include "server/http/http.h"

#define IMPORTS_MAX 4 /* at once; more are refused with 503 */

struct import;

struct once;

/* Takes `once` (once.h; NULL: the request has no key), also on failure. Where that was answered the
 * body is digested alone, and the answer is the first one. */
int import_new(struct request *rq, struct once *once, struct import **ret, struct err *err);
/* The request ends without import_finish. A thread at work keeps it until it is done. */
void import_release(struct import *m);
/* Takes a piece of rq's body: 0, ROUTE_PAUSE (request_continue follows, or an error as the answer),
 * or an error. */
int import_add(struct import *m, struct request *rq, const void *data, size_t size,
               struct err *err);
/* The body is complete: takes the import and defers rq, which gets the answer. */
void import_finish(struct import *m, struct request *rq);
