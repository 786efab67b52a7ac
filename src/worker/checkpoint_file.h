/*
 * A checkpoint on the disk: a tensors file (engine/state.h) with the SHA-256 of itself among its
 * texts, taken of the file as it is without that text. It is whole or absent: written beside its
 * place, flushed, renamed, and the folder flushed.
 */
#pragma once

#include "base/err.h"
#include "engine/state.h"

int checkpoint_file_write(const char *path, const struct state *s, struct err *err);
/* -ERR_NOT_FOUND where there is none, -ERR_CORRUPT for one that is damaged. */
int checkpoint_file_read(const char *path, struct state **ret, struct err *err);
