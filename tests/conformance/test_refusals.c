/*
 * A library that refuses a matrix has not broken the device: the error says what is with the
 * matrix, and the device goes on. KRR_REFUSAL is the error's name.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "conformance/device.h"

static void test_eigh(void **state)
{
    (void)state;
    const double numbers[4] = {2.0, 1.0, 1.0, 2.0};
    const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64};
    struct backend *be = device_open(1);
    for (int i = 0; i < 2; i++) {
        double values[2], dots[2];
        struct err said = {0};
        struct mat A = device_mat(be, dtypes[i], 2, 2, numbers);
        const int rc = be->ops->eigh(be, &A, values, &said);
        assert_int_equal(rc, -(int)said.code);
        assert_string_equal(err_name(said.code), getenv("KRR_REFUSAL"));
        assert_contains(said.detail, "2 x 2");
        must(be->ops->col_dots(be, &A, &A, dots, &err));
        assert_true(dots[0] == 5.0 && dots[1] == 5.0);
        be->ops->mat_free(be, &A);
    }
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_eigh))
