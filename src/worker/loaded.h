/*
 * The models a serving worker holds, by the daemon's own key for them. A model arrives as LOAD
 * (its size), CHUNK frames, and is made ready when its last byte is there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backend.h"

struct loaded; /* the set */

/* A model predicts once before it counts as ready, so that the first who asks does not wait for
 * memory to be touched and threads to be started. */

struct loaded *loaded_new(struct backend *be); /* NULL on lack of memory */
struct loaded *loaded_free(struct loaded *set);

/* Room for a model's file of `bytes` bytes; -ERR_CONFLICT when the key is there already. */
int loaded_begin(struct loaded *set, const char *key, int64_t bytes, struct err *err);
/* The next bytes. 1: that was the last piece and the model is ready; 0: more to come. On failure
 * the model is forgotten. */
int loaded_append(struct loaded *set, const char *key, const void *data, size_t size,
                  struct err *err);
/* Bytes that a ready model takes; 0: it is not there. */
int64_t loaded_bytes(struct loaded *set, const char *key);
/* Its memory goes back to the machine. */
int loaded_drop(struct loaded *set, const char *key, struct err *err);

struct loaded_ask {
    const double *X;   /* [rows, d] */
    int64_t first_row; /* of a larger question: X's first row is this one */
    int64_t rows;
    size_t values; /* that X really holds */
    bool variance; /* wanted too */
};

/* Columns of a kind that is not there are 0. */
struct loaded_answer {
    double *numbers;   /* owned (mem_free): all rows of the first kind, then those of the next */
    int64_t outputs;   /* targets, or 1: the index of the class */
    int64_t scores;    /* of a classification: one a class */
    int64_t variances; /* where they are wanted: of targets, or of scores */
    size_t bytes;
};

/* -ERR_INVALID: rows of another width, or a variance is wanted that the model does not have;
 * -ERR_TOO_LARGE: the answer would not fit a frame (nothing is computed then). */
int loaded_predict(struct loaded *set, const char *key, const struct loaded_ask *ask,
                   struct loaded_answer *ret, struct err *err);
