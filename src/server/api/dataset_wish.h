/*
 * What the client of an upload asks for (query and headers), and whether the same body read in the
 * same way is here already.
 */
#pragma once

#include "ingest/ingest.h"
#include "server/app.h"
#include "server/http/http.h"
#include "store/datasets.h"

#define UPLOAD_TARGETS_MAX 64
#define UPLOAD_IGNORED_MAX 64
#define UPLOAD_NAME_MAX 200 /* characters */

/* Strings are the request's. */
struct upload_wish {
    enum ingest_format format;
    enum ingest_header header; /* of a CSV */
    bool gzip;
    const char *name; /* NULL: the id */
    const char *targets[UPLOAD_TARGETS_MAX];
    int target_count;
    const char *ignored[UPLOAD_IGNORED_MAX];
    int ignored_count;
    enum task task;
    bool one_hot;
    bool decimal_comma; /* of a CSV */
    enum ingest_missing missing;
    const char *sha256; /* of the body, as the client says; NULL: it does not */
};

int upload_wish_read(struct request *rq, struct upload_wish *ret, struct err *err);
/* A digest of all that makes a difference to what is read from given bytes. */
int upload_wish_recipe(const struct upload_wish *wish, char ret[SHA256_HEX_SIZE], struct err *err);

/* The 64 digits of "sha256:0123…"; NULL: it is none. */
const char *upload_digest_of(const char *id);
/* The newest data set that was read from such a body as the wish says; -ERR_NOT_FOUND. */
int upload_find(struct request *rq, const char *digest, const struct upload_wish *wish,
                struct dataset_row *ret, struct err *err);
/* The same with the wish of a request that has no body: without a format any will do. */
int upload_find_asked(struct request *rq, const char *digest, struct dataset_row *ret,
                      struct err *err);
