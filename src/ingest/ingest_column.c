#include "ingest/ingest_column.h"

#include <string.h>

void ingest_columns_add(struct ingest_column *column, int64_t columns, int64_t row,
                        const double *values)
{
    for (int64_t j = 0; j < columns; j++) {
        struct ingest_column *c = &column[j];
        const double value = values[j] + 0.0; // Makes 0 of -0.
        if (row == 0) {
            *c = (struct ingest_column){.first = value, .counts = value == 0 || value == 1};
        }
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        c->hash = ingest_hash_step(c->hash, bits);
        c->varies |= value != c->first;
        c->counts &= value == c->first + (double)row;
    }
}
