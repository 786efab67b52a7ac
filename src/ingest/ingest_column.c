#include "ingest/ingest_column.h"

#include <math.h>
#include <string.h>

static void begin(struct ingest_column *c, double value, int64_t row)
{
    c->begun = true;
    c->first = value;
    c->start = value - (double)row;
    c->counts = c->start == 0 || c->start == 1;
}

void ingest_columns_add(struct ingest_column *column, int64_t columns, int64_t row,
                        const double *values)
{
    for (int64_t j = 0; j < columns; j++) {
        struct ingest_column *c = &column[j];
        const double value = values[j] + 0.0; // Makes 0 of -0.
        if (!c->begun && !isnan(value)) {
            begin(c, value, row);
        }
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        c->hash = ingest_hash_step(c->hash, bits);
        if (!isnan(value)) {
            c->varies |= value != c->first;
            c->counts &= value == c->start + (double)row;
        }
    }
}
