#include "engine/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/assert.h"

static int64_t tiny(struct backend *be)
{
    (void)be;
    return 1000;
}

static void test_the_machine_has_some(void **state)
{
    (void)state;
    const int64_t bytes = memory_available();
    assert_true(bytes > (1 << 20));
    assert_true(bytes < INT64_C(1) << 50); /* a limit was found, not INT64_MAX */
}

static void test_products_that_overflow(void **state)
{
    (void)state;
    assert_int_equal(memory_matrix_bytes(10, 20, DTYPE_F32), 800);
    assert_int_equal(memory_matrix_bytes(INT64_C(1) << 32, INT64_C(1) << 32, DTYPE_F32), INT64_MAX);
    assert_int_equal(memory_matrix_bytes(INT64_C(1) << 31, INT64_C(1) << 31, DTYPE_F64), INT64_MAX);
}

static void test_refusal_says_how_much(void **state)
{
    (void)state;
    const struct backend_ops ops = {.name = "test", .memory_available = tiny};
    struct backend be = {.ops = &ops};
    struct err err;
    assert_int_equal(memory_check_matrix(&be, 5, 25, DTYPE_F64, "solver", &err), 0);
    assert_int_equal(memory_check_matrix(&be, 50000, 50000, DTYPE_F64, "solver", &err),
                     -ERR_NO_MEMORY);
    assert_contains(err.detail, "50000 x 50000");
    assert_contains(err.detail, "20.0 GB in float64");
    const struct backend_ops silent = {.name = "test"};
    be.ops = &silent;
    assert_int_equal(memory_check_matrix(&be, 50000, 50000, DTYPE_F64, "solver", &err), 0);
}

/* Either would fit alone. */
static void test_two_together(void **state)
{
    (void)state;
    const struct backend_ops ops = {.name = "test", .memory_available = tiny};
    struct backend be = {.ops = &ops};
    struct err err;
    assert_int_equal(memory_check_pair(&be, 10, 10, DTYPE_F32, 10, 7, DTYPE_F64, "way", &err), 0);
    assert_int_equal(memory_check_pair(&be, 10, 20, DTYPE_F32, 10, 10, DTYPE_F64, "way", &err),
                     -ERR_NO_MEMORY);
    assert_contains(err.detail, "10 x 20 matrix");
    assert_contains(err.detail, "10 x 10 one");
    assert_int_equal(memory_check_pair(&be, INT64_C(1) << 32, INT64_C(1) << 32, DTYPE_F32, 1, 1,
                                       DTYPE_F64, "way", &err),
                     -ERR_NO_MEMORY);
}

static void test_cache_budget(void **state)
{
    (void)state;
    const struct backend_ops ops = {.name = "test", .memory_available = tiny};
    struct backend be = {.ops = &ops};
    assert_int_equal(memory_cache_budget(&be, -1), 250);
    assert_int_equal(memory_cache_budget(&be, 0), 0);
    assert_int_equal(memory_cache_budget(&be, 400), 400);
    assert_int_equal(memory_cache_budget(&be, 5000), 500);
    const struct backend_ops silent = {.name = "test"};
    be.ops = &silent;
    assert_int_equal(memory_cache_budget(&be, -1), 0);
    assert_int_equal(memory_cache_budget(&be, 5000), 5000);
}

/* A job before this one may have been large: its mark is gone after the reset. */
static void test_peak_is_of_the_job(void **state)
{
    (void)state;
    if (access("/proc/self/clear_refs", W_OK) != 0) {
        skip();
    }
    const size_t size = 64u << 20;
    memory_peak_reset();
    const int64_t before = memory_peak_bytes();
    char *large = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(large, MAP_FAILED);
    for (size_t i = 0; i < size; i += 4096) {
        large[i] = 1;
    }
    const int64_t lag = 1 << 20; /* the system counts in batches of pages, a processor each */
    assert_true(memory_peak_bytes() >= before + (int64_t)size - lag);
    munmap(large, size); /* at once, where free() may keep it */
    memory_peak_reset();
    assert_true(memory_peak_bytes() < before + (int64_t)size / 2);
}

/* A sanitizer's or valgrind's allocator, which keeps what is freed on purpose. */
static bool allocator_is_replaced(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "valgrind") != NULL;
#endif
}

/* What was freed but is kept by the allocator, below something that is still in use, is no part of
 * the next job's peak. */
static void test_peak_is_without_what_was_freed(void **state)
{
    enum { BLOCKS = 1000, SIZE = 65536 };
    static void *blocks[BLOCKS];
    (void)state;
    if (allocator_is_replaced() || access("/proc/self/clear_refs", W_OK) != 0) {
        skip();
    }
    memory_peak_reset();
    const int64_t before = memory_peak_bytes();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = mem_alloc(SIZE);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, SIZE);
    }
    void *above = mem_alloc(1000);
    for (int i = 0; i < BLOCKS; i++) {
        mem_free(blocks[i]);
    }
    assert_true(memory_peak_bytes() >= before + BLOCKS * SIZE / 2);
    memory_peak_reset();
    assert_true(memory_peak_bytes() < before + BLOCKS * SIZE / 4);
    mem_free(above);
}

TEST_MAIN(cmocka_unit_test(test_peak_is_without_what_was_freed),
          cmocka_unit_test(test_peak_is_of_the_job), cmocka_unit_test(test_the_machine_has_some),
          cmocka_unit_test(test_products_that_overflow),
          cmocka_unit_test(test_refusal_says_how_much), cmocka_unit_test(test_two_together),
          cmocka_unit_test(test_cache_budget))
