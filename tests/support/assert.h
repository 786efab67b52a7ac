/*
 * Assertions that print what they saw. cmocka 1.1.5 compares floats only after a cast to float, so
 * numerical tests use these. Include this header instead of <cmocka.h>, which needs four others
 * before it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* |actual - expected| <= rtol * |expected|; two equal infinities pass, NaN never does. */
#define assert_close(actual, expected, rtol)                                                       \
    check_close((actual), (expected), (rtol), 0.0, #actual, __FILE__, __LINE__)

/* |actual - expected| <= atol. */
#define assert_near(actual, expected, atol)                                                        \
    check_close((actual), (expected), 0.0, (atol), #actual, __FILE__, __LINE__)

/* Every one of n doubles, with the index of the first that differs. */
#define assert_all_close(actual, expected, n, rtol, atol)                                          \
    check_all_close((actual), (expected), (n), (rtol), (atol), #actual, __FILE__, __LINE__)

/* The two doubles have the same 64 bits. */
#define assert_same_bits(actual, expected)                                                         \
    check_same_bits((actual), (expected), #actual, __FILE__, __LINE__)

/* The text holds the part; prints the text where it does not. */
#define assert_contains(text, part) check_contains((text), (part), __FILE__, __LINE__)

void check_close(double actual, double expected, double rtol, double atol, const char *what,
                 const char *file, int line);
void check_all_close(const double *actual, const double *expected, int64_t n, double rtol,
                     double atol, const char *what, const char *file, int line);
void check_same_bits(double actual, double expected, const char *what, const char *file, int line);
void check_contains(const char *text, const char *part, const char *file, int line);

/* Memory comes from a sanitizer or valgrind: what is freed is kept on purpose, and where C++ has
 * none the program ends. */
bool allocator_is_replaced(void);

/* The main function of a test program; its first argument picks tests by a pattern. */
#define TEST_MAIN(...)                                                                             \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct CMUnitTest tests_[] = {__VA_ARGS__};                                          \
        if (argc > 1) {                                                                            \
            cmocka_set_test_filter(argv[1]);                                                       \
        }                                                                                          \
        return cmocka_run_group_tests(tests_, NULL, NULL);                                         \
    }
