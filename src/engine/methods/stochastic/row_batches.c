#include "engine/methods/stochastic/row_batches.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/methods/row_order.h"
#include "engine/methods/stochastic/stochastic.h"

enum { PAGE_BYTES = 4096 };

int row_batches_init(struct row_batches *b, uint64_t seed, const struct row_source *source,
                     int64_t batch, struct err *err)
{
    const int64_t row = source->d * (int64_t)dtype_size(source->dtype);
    b->seed = seed;
    b->n = source->n;
    b->chunk = min_i64(PAGE_BYTES / (row > 0 ? row : 1), batch / CHUNKS_LEAST);
    b->chunk = b->chunk > 1 ? b->chunk : 1;
    b->chunks = (b->n + b->chunk - 1) / b->chunk;
    b->batches = min_i64((b->n + batch - 1) / batch, b->chunks);
    b->most = (b->chunks + b->batches - 1) / b->batches * b->chunk;
    b->index = mem_array((size_t)b->most, sizeof(*b->index));
    return b->index != NULL ? 0 : err_no_memory(err);
}

void row_batches_deinit(struct row_batches *b)
{
    b->index = mem_free(b->index);
}

/* Batches differ by one chunk at most. */
static int64_t first_chunk(const struct row_batches *b, int64_t k)
{
    const int64_t rest = b->chunks % b->batches;
    return k * (b->chunks / b->batches) + min_i64(k, rest);
}

int64_t row_batches_draw(struct row_batches *b, int64_t epoch, int64_t k)
{
    const struct row_order order = row_order_new(b->seed, ORDER_STOCHASTIC_EPOCH, epoch, b->chunks);
    int64_t count = 0;
    for (int64_t c = first_chunk(b, k); c < first_chunk(b, k + 1); c++) {
        const int64_t first = row_order_at(&order, c) * b->chunk;
        const int64_t end = min_i64(first + b->chunk, b->n);
        for (int64_t i = first; i < end; i++) {
            b->index[count++] = i;
        }
    }
    return count;
}
