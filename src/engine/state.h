/*
 * What a solver must remember between two steps, as named arrays on the host: the content of a
 * checkpoint. A solver that is set up afresh and then given the state it saved goes on to the same
 * bits on the same processor. What follows from the problem alone (a preconditioner, sums over
 * rows) is computed again and does not belong here.
 *
 * On disk a state is a tensors file (wire/tensors.h): matrices as [columns, rows], numbers as [n]
 * float64, texts as metadata.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backend.h"

#define STATE_ARRAYS_MAX 32
#define STATE_NAME_MAX 31

struct state;
struct state *state_new(void);              /* NULL on lack of memory */
struct state *state_free(struct state *s);  /* NULL is fine */
int64_t state_bytes(const struct state *s); /* of all arrays */

/* put copies, under a name that is not there yet. get finds the array of the same name, type and
 * shape; anything else is -ERR_CORRUPT and names it. Integers are at most 2^53 in size. */
int state_put_mat(struct state *s, const char *name, struct backend *be, const struct mat *m,
                  struct err *err);
int state_get_mat(const struct state *s, const char *name, struct backend *be, const struct mat *m,
                  struct err *err);
int state_put_reals(struct state *s, const char *name, const double *values, int64_t n,
                    struct err *err);
int state_get_reals(const struct state *s, const char *name, double *values, int64_t n,
                    struct err *err);
int state_put_ints(struct state *s, const char *name, const int64_t *values, int64_t n,
                   struct err *err);
int state_get_ints(const struct state *s, const char *name, int64_t *values, int64_t n,
                   struct err *err);
int state_put_text(struct state *s, const char *key, const char *text, struct err *err);
bool state_has(const struct state *s, const char *name);        /* an array */
const char *state_text(const struct state *s, const char *key); /* NULL when absent */
void state_drop_text(struct state *s, const char *key);

/* Matrices of one type, lent instead of copied: an array of all their numbers, column by column,
 * one matrix after the other. They are read when the state is written, a few MB at a time, and must
 * stay as they are until state_free. get_mats fills matrices with an array that came from a file,
 * which is read a few MB at a time as well. */
int state_lend_mats(struct state *s, const char *name, struct backend *be, const struct mat *mats,
                    int64_t count, struct err *err);
int state_get_mats(const struct state *s, const char *name, struct backend *be,
                   const struct mat *mats, int64_t count, struct err *err);

/* The file through sink(context, data, size), in pieces of any size. */
int state_write(const struct state *s,
                int (*sink)(void *context, const void *data, size_t size, struct err *err),
                void *context, struct err *err);
/* The same with one text more, which the state itself does not keep. */
int state_write_with(const struct state *s, const char *key, const char *text,
                     int (*sink)(void *context, const void *data, size_t size, struct err *err),
                     void *context, struct err *err);
/* From a complete file image, aligned to 8 bytes. Never trusts it. Arrays are not copied: the image
 * must outlive the state, which calls release(context) when it is freed (once state_keep was). */
int state_read(const void *image, size_t size, struct state **ret, struct err *err);
void state_keep(struct state *s, void (*release)(void *context), void *context);
