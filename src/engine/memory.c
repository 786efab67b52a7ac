#include "engine/memory.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/ram.h"

int64_t memory_available_on(struct backend *be)
{
    return be->ops->memory_available != NULL ? be->ops->memory_available(be) : INT64_MAX;
}

int memory_check_matrix(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                        const char *what, struct err *err)
{
    const int64_t bytes = dtype_matrix_bytes(rows, cols, dtype);
    const int64_t room = memory_available_on(be);
    if (bytes < INT64_MAX && bytes <= room) {
        return 0;
    }
    return err_set(err, ERR_NO_MEMORY,
                   "The %s needs a %" PRId64 " x %" PRId64
                   " matrix (%.1f GB in %s), and %.1f GB are available.",
                   what, rows, cols, (double)rows * (double)cols * (double)dtype_size(dtype) / 1e9,
                   dtype_name(dtype), (double)room / 1e9);
}

int memory_check_pair(struct backend *be, int64_t rows, int64_t cols, enum dtype dtype,
                      int64_t more_rows, int64_t more_cols, enum dtype more_dtype, const char *what,
                      struct err *err)
{
    const int64_t bytes = dtype_matrix_bytes(rows, cols, dtype);
    const int64_t more = dtype_matrix_bytes(more_rows, more_cols, more_dtype);
    const int64_t room = memory_available_on(be);
    int64_t sum;
    if (!__builtin_add_overflow(bytes, more, &sum) && sum < INT64_MAX && sum <= room) {
        return 0;
    }
    return err_set(err, ERR_NO_MEMORY,
                   "The %s needs a %" PRId64 " x %" PRId64 " matrix (%.1f GB in %s) and a %" PRId64
                   " x %" PRId64 " one (%.1f GB in %s), and %.1f GB are available.",
                   what, rows, cols, (double)rows * (double)cols * (double)dtype_size(dtype) / 1e9,
                   dtype_name(dtype), more_rows, more_cols,
                   (double)more_rows * (double)more_cols * (double)dtype_size(more_dtype) / 1e9,
                   dtype_name(more_dtype), (double)room / 1e9);
}
