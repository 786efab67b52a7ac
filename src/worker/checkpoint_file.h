/*
 * A checkpoint on the disk: a tensors file (engine/state.h) with the SHA-256 of itself among its
 * texts, taken of the file as it is with zeros for the digest's digits. It is whole or absent:
 * written beside its place, flushed, renamed, and the folder flushed.
 */
#pragma once

#include "base/err.h"
#include "engine/state.h"

int checkpoint_file_write(const char *path, const struct state *s, struct err *err);
/* -ERR_NOT_FOUND where there is none, -ERR_CORRUPT for one that is damaged. The file stays mapped
 * as long as the state lives: it may be far larger than the memory that is free, and a newer
 * checkpoint in its place does not touch it. */
int checkpoint_file_read(const char *path, struct state **ret, struct err *err);
