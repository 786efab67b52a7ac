/* Which core OpenBLAS is asked for where it has not known the processor. */
#include "cpu/blas_core.h"

#include "support/assert.h"

static void test_processors_taken_for_old_ones(void **state)
{
    (void)state;
    assert_string_equal(cpu__blas_better_core("Prescott", true, true), "SKYLAKEX");
    assert_string_equal(cpu__blas_better_core("Prescott", true, false), "HASWELL");
    assert_string_equal(cpu__blas_better_core("Sandybridge", true, false), "HASWELL");
    assert_null(cpu__blas_better_core("Prescott", false, false));
    assert_null(cpu__blas_better_core("Nehalem", false, true)); /* no machine, and no reason */
}

static void test_others_are_left_alone(void **state)
{
    (void)state;
    static const char *const cores[] = {"Haswell",    "Zen",        "SkylakeX",
                                        "Cooperlake", "NEOVERSEN1", ""};
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        assert_null(cpu__blas_better_core(cores[i], true, true));
    }
}

TEST_MAIN(cmocka_unit_test(test_processors_taken_for_old_ones),
          cmocka_unit_test(test_others_are_left_alone))
