/*
 * A CSV file in pieces of whole records, each with the file's header line in front where it has
 * one, so that a table of any length goes through requests of bounded size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

#define PIECE_BYTES ((size_t)1 << 20)

struct pieces {
    FILE *file;
    struct buf header; /* with its line end; empty: none */
    struct buf rest;   /* read, and not given yet */
    bool begun, at_end;
    int64_t records; /* given so far, the header not counted */
    bool whole;      /* the piece given last is all there is */
};
void pieces_begin(struct pieces *p, FILE *file);
void pieces_deinit(struct pieces *p);

/* 1: *ret (cleared first) is a piece; 0: there was nothing more; -ERR_IO, -ERR_NO_MEMORY;
 * -ERR_PARSE where a quote is never closed; -ERR_UNSUPPORTED for what begins as NPZ, NPY or gzip.
 */
int pieces_next(struct pieces *p, struct buf *ret, struct err *err);
