#include "wire/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [DTYPE_F32] = {"float32", sizeof(float)},
    [DTYPE_F64] = {"float64", sizeof(double)},
};

size_t dtype_size(enum dtype t)
{
    return types[t].size;
}

const char *dtype_name(enum dtype t)
{
    return types[t].name;
}

int dtype_parse(const char *name, enum dtype *ret, struct err *err)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *ret = (enum dtype)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "Expected \"float32\" or \"float64\".");
}

int64_t dtype_matrix_bytes(int64_t rows, int64_t cols, enum dtype dtype)
{
    int64_t bytes;
    if (__builtin_mul_overflow(rows, cols, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)dtype_size(dtype), &bytes)) {
        return INT64_MAX;
    }
    return bytes;
}
