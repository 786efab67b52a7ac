#include "support/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Written so that a NaN on either side fails. */
static bool close_enough(double actual, double expected, double rtol, double atol)
{
    if (actual == expected) {
        return true;
    }
    return fabs(actual - expected) <= fmax(rtol * fabs(expected), atol) && isfinite(expected);
}

void check_close(double actual, double expected, double rtol, double atol, const char *what,
                 const char *file, int line)
{
    if (close_enough(actual, expected, rtol, atol)) {
        return;
    }
    print_error("%s is %.17g, expected %.17g; difference %.3g, relative %.3g, allowed %.3g\n", what,
                actual, expected, actual - expected, (actual - expected) / fabs(expected),
                fmax(rtol * fabs(expected), atol));
    _fail(file, line);
}

void check_all_close(const double *actual, const double *expected, int64_t n, double rtol,
                     double atol, const char *what, const char *file, int line)
{
    for (int64_t i = 0; i < n; i++) {
        if (!close_enough(actual[i], expected[i], rtol, atol)) {
            print_error("element %lld of %lld:\n", (long long)i, (long long)n);
            check_close(actual[i], expected[i], rtol, atol, what, file, line);
        }
    }
}

void check_same_bits(double actual, double expected, const char *what, const char *file, int line)
{
    if (memcmp(&actual, &expected, sizeof(actual)) == 0) {
        return;
    }
    print_error("%s is %.17g (%a), expected %.17g (%a)\n", what, actual, actual, expected,
                expected);
    _fail(file, line);
}

void check_contains(const char *text, const char *part, const char *file, int line)
{
    if (text != NULL && strstr(text, part) != NULL) {
        return;
    }
    print_error("\"%s\" does not contain \"%s\"\n", text == NULL ? "(null)" : text, part);
    _fail(file, line);
}

bool allocator_is_replaced(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "valgrind") != NULL;
#endif
}
