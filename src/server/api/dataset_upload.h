/*
 * An upload from its first byte to a data set. The body is gathered in blocks, which another thread
 * digests and writes to a file in the data directory's tmp folder, one at a time, while the next
 * one arrives; the client is held back when the disk is slower than it. Then the file is read in,
 * on another thread as well, and becomes a row of the store. Few are read in at once, for that may
 * take minutes and the threads are few; of the others short ones are next (offload.h).
 *
 * Nothing is left of an upload that fails or whose client leaves: it is not read in, or no further.
 * An upload holds at most two blocks and one piece of memory.
 */
#pragma once

#include "server/api/dataset_wish.h"

#define UPLOAD_BLOCK (512u << 10)

struct once;
struct upload; /* opaque */

/* Copies the wish. Takes `once` (NULL: the request has no Idempotency-Key), also on failure. The
 * body of a request that was answered before is digested alone, and the answer given again. */
int upload_new(struct app *app, const struct upload_wish *wish, struct once *once,
               struct upload **ret, struct err *err);
/* The request ends without upload_finish. A thread at work keeps the upload until it is done. */
void upload_release(struct upload *u);
/* Takes a piece of rq's body: 0, ROUTE_PAUSE (the upload calls request_continue, or answers rq with
 * an error), or an error, which may be that of an earlier piece. */
int upload_add(struct upload *u, struct request *rq, const void *data, size_t size,
               struct err *err);
/* The body is complete: takes the upload and defers rq, which gets the answer. */
void upload_finish(struct upload *u, struct request *rq);
