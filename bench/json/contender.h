/* A way to read and to print JSON numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct contender {
    const char *name;
    /* {"instances": [[...], ...]} of `columns` numbers a row, summed up through a float64 matrix or
     * what the library keeps; returns how many numbers there are, or -1. */
    int64_t (*read)(const char *text, size_t len, int64_t columns, double *ret_sum);
    /* [v[0],v[1],...]; returns the length of the text, or 0. */
    size_t (*print)(const double *v, int64_t count);
};

extern const struct contender contender_krrd, contender_cjson;
/* NULL where the library is not installed. */
extern const struct contender *const contender_yyjson;
