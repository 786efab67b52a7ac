/*
 * What is kept of every column while its rows go by: enough to tell columns that never change, that
 * number the rows, and that another one repeats, without a look back at the values.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ingest_column {
    double first;  /* its first value */
    double start;  /* and what it would be in row 0 if it counted rows */
    bool begun;    /* there is one */
    bool varies;   /* some row has another */
    bool counts;   /* it is start + the row's number in all rows so far, and start is 0 or 1 */
    uint64_t hash; /* of all values in their order; -0 is 0 */
};

/* Another row of all columns: number `row`, from 0, of those that were read. A value that is
 * missing is NaN, and makes no difference but to the hash. */
void ingest_columns_add(struct ingest_column *column, int64_t columns, int64_t row,
                        const double *values);

/* Mixes a number into a hash: different orders give different ones. */
static inline uint64_t ingest_hash_step(uint64_t hash, uint64_t bits)
{
    hash ^= bits;
    return (hash << 25 | hash >> 39) * UINT64_C(0x9e3779b97f4a7c15);
}
