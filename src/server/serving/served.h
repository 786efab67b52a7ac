/*
 * Which version of a model a request means, and what answers need to know of it: kept in memory, so
 * that a prediction asks neither the database nor a JSON parser.
 *
 * What a name means changes when a version is published or removed, or an alias moves: whoever does
 * that calls served_changed. A request that holds a served model keeps what it was given, however
 * the name is understood meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/sha256.h"
#include "store/models.h"

struct served;

/* One version of a model. Does not change. */
struct served_model {
    int64_t key; /* the store's */
    const char *name;
    int64_t version;
    const char *sha256;          /* of its file, in hexadecimal */
    const char *digest;          /* "sha256:" and the same */
    int64_t bytes;               /* of its file */
    int64_t d;                   /* features */
    int64_t outputs;             /* predictions a row: targets, or 1, the class */
    int64_t classes;             /* scores a row; 0: a regression */
    int64_t variances;           /* a row: of targets, or of scores; 0: the model has none */
    int64_t centers;             /* as the description has them; at most SPEC_CENTERS_MAX */
    int64_t directions;          /* columns of their factor; likewise */
    int64_t factor_bytes;        /* of the file's, what only variances need */
    const char *const *features; /* [d] names */
    const double *fill;          /* [d] for features that are missing; NULL: none may be */
    const int64_t *indicates; /* [d] the feature of which it tells that it is missing, or -1; NULL:
                                 none does. Needs fill */
    int64_t indicators;       /* how many of them */
    const char *const *targets; /* [outputs] names */
    const char *mask;           /* the column that marked the test rows; NULL: none did */
    const char *const *labels;  /* [classes]; NULL: a regression */
    const char *labels_text;    /* as a JSON array; NULL: a regression */
    const char *head_text;      /* {"model":…,"version":3,"digest":… and nothing behind */
    const struct json
        *description; /* model_describe of engine/model/model.h, and what the job found */
    bool float32;     /* kernel values are computed in float32 */
};

/* "3" -> 3; anything but a plain positive number is -ERR_NOT_FOUND. */
int served_path_version(const char *text, int64_t *ret, struct err *err);

/* The store stays the caller's. */
int served_new(struct store *store, struct served **ret, struct err *err);
struct served *served_free(struct served *s); /* what is still held lives on until it is released */

/* `version` as it stands in a path; NULL: the newest. The caller releases *ret.
 * -ERR_NOT_FOUND. */
int served_find(struct served *s, const char *name, const char *version,
                const struct served_model **ret, struct err *err);
/* What an alias stands for now. -ERR_NOT_FOUND. */
int served_find_alias(struct served *s, const char *name, const char *alias,
                      const struct served_model **ret, struct err *err);
/* Of a row that need not be published yet; takes it, also on failure. Nothing is kept. */
int served_of_row(struct model_row *row, const struct served_model **ret, struct err *err);
const struct served_model *served_hold(const struct served_model *m);
/* Takes NULL, returns NULL. */
const struct served_model *served_release(const struct served_model *m);

/* Some name may mean another version from now on. */
void served_changed(struct served *s);
