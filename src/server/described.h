/*
 * Descriptions of data sets, as jobs are held against them: read once and kept, for those of many
 * columns take long to read. Data sets never change. On the loop's thread alone.
 */
#pragma once

#include "store/store.h"
#include "wire/dataset.h"

struct described; /* opaque */

/* The description that a row of the store holds as text; on any thread. -ERR_CORRUPT. */
int described_read(const char *text, struct dataset_info *ret, struct err *err);

int described_new(struct store *store, struct described **ret, struct err *err);
struct described *described_free(struct described *d);

/* -ERR_NOT_FOUND; -ERR_CORRUPT. *ret is good until the loop's next turn: of the newest
 * DESCRIBED_LEAST none is forgotten. */
int described_find(struct described *d, const char *id, const struct dataset_info **ret,
                   struct err *err);
bool described_has(const struct described *d, const char *id);
/* Keeps what is known already, and takes it, also where memory lacks. */
void described_keep(struct described *d, const char *id, struct dataset_info *info);
/* The data set is no more. */
void described_forget(struct described *d, const char *id);

/* A text from this length on is read on another thread, in bytes. */
#define DESCRIBED_LONG (64 << 10)
/* What is kept: so many at most, of so many bytes together beyond the newest few. */
#define DESCRIBED_MOST 64
#define DESCRIBED_LEAST 4
#define DESCRIBED_BYTES (32 << 20)
