/*
 * A device whose memory others hold: the libraries of its dense algebra make no handles then, and
 * say that they are not initialised, or name an error of their own. That is told as a want of
 * memory, and no other failure is.
 */
#include <stdlib.h>

#include "conformance/device.h"
#include "conformance/providers.h"

#define MIB ((int64_t)1 << 20)
#define RESERVE (256 * MIB) /* CUDA_RESERVE_BYTES, which memory_available leaves out */

/* Takes the device's memory but for so many bytes. */
static struct mat hold_all_but(struct backend *be, int64_t left)
{
    return device_mat(be, DTYPE_F32, (be->ops->memory_available(be) + RESERVE - left) / 4, 1, NULL);
}

static int open_another(struct err *said)
{
    struct backend *be = NULL;
    const int rc = test_providers[0]->open(0, 1, &be, said);
    if (rc == 0) {
        backend_close(be);
    }
    return rc;
}

/* cuBLAS refuses, cuSOLVER does, neither; with so much free, other reasons are none that matter. */
static void test_memory_that_others_hold(void **state)
{
    static const struct {
        int64_t left;
        const char *said; /* NULL: it opens */
    } cases[] = {{8 * MIB, "(cuBLAS failed on the GPU: CUBLAS_STATUS_NOT_INITIALIZED.)"},
                 {40 * MIB, "(cuSOLVER failed on the GPU with status 7.)"},
                 {200 * MIB, NULL}};
    (void)state;
    struct backend *be = device_open(1);
    for (int i = 0; i < 3; i++) {
        struct mat held = hold_all_but(be, cases[i].left);
        struct err said = {.code = ERR_OK};
        const int rc = open_another(&said);
        if (cases[i].said == NULL) {
            assert_int_equal(rc, 0);
        } else {
            assert_int_equal(rc, -ERR_NO_MEMORY);
            assert_int_equal(said.code, ERR_NO_MEMORY);
            assert_contains(said.detail, cases[i].said);
            assert_contains(said.detail, i == 0 ? "has 0.008 GB of memory free" : "has 0.042 GB");
        }
        be->ops->mat_free(be, &held);
        assert_int_equal(open_another(NULL), 0);
    }
    device_close(be);
}

static void test_other_failures(void **state)
{
    (void)state;
    struct err said = {.code = ERR_OK};
    assert_int_equal(setenv("CUDASIM_FAULT", "cublas", 1), 0);
    assert_int_equal(open_another(&said), -ERR_DEVICE);
    assert_string_equal(said.detail, "cuBLAS failed on the GPU: CUBLAS_STATUS_NOT_INITIALIZED.");
    assert_string_equal(said.pointer, "");
    assert_int_equal(unsetenv("CUDASIM_FAULT"), 0);
}

TEST_MAIN(cmocka_unit_test(test_memory_that_others_hold), cmocka_unit_test(test_other_failures))
