/*
 * An upload from its first byte to a data set: the body goes to a file in the data directory's tmp
 * folder while its digest is taken, is read in on another thread, and becomes a row of the store.
 * Nothing is left of an upload that fails or whose client leaves.
 */
#pragma once

#include "base/sha256.h"
#include "ingest/ingest.h"
#include "server/app.h"
#include "store/datasets.h"

#define UPLOAD_TARGETS_MAX 64
#define UPLOAD_NAME_MAX 200
#define UPLOADS_MAX 64 /* at once; more are refused with 503 */

struct upload {
    struct app *app;
    int fd; /* -1 once closed */
    char tmp_path[APP_PATH_MAX];
    char path[APP_PATH_MAX];
    struct sha256 *digest;
    struct ingest_options options;
    const char *targets[UPLOAD_TARGETS_MAX]; /* owned */
    struct dataset_row row;                  /* name, id, sha256, … as they become known */
    struct dataset_info info;
    int rc; /* of ingest_file */
    struct err err;
};

/* Opens the temporary file. The options, targets and name are the caller's to fill in afterwards.
 */
int upload_new(struct app *app, struct upload **ret, struct err *err);
struct upload *upload_free(struct upload *u);
int upload_write(struct upload *u, const void *data, size_t size, struct err *err);
/* Ends the body: takes the digest, closes the file. */
void upload_finish(struct upload *u);
/* Reads the file in; on another thread. Leaves rc and err, and info on success. */
void upload_ingest(struct upload *u);
/* Makes the row; on failure the data set's file is gone again. */
int upload_publish(struct upload *u, struct err *err);
/* Removes the data set's file that upload_ingest wrote. */
void upload_discard(struct upload *u);
