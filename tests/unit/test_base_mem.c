#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/assert.h"

static void test_sizes(void **state)
{
    (void)state;
    /* Read from a volatile, or the compiler objects to the sizes itself. */
    volatile size_t half = SIZE_MAX / 2 + 1;
    assert_null(mem_array(half, 2));
    assert_null(mem_zarray(2, half));
    assert_null(mem_aligned(half, 2));
    assert_null(mem_alloc(half));
    assert_null(mem_aligned(1, half - 1));
    volatile size_t zero = 0;
    void *a = mem_alloc(zero);
    void *b = mem_zarray(zero, 8);
    void *c = mem_aligned(8, zero);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    assert_null(mem_free(NULL));
}

static void test_zeroed(void **state)
{
    (void)state;
    unsigned char *a = mem_zalloc(1000);
    unsigned char *b = mem_zarray(10, 100);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(a[i] | b[i], 0);
    }
    mem_free(a);
    mem_free(b);
}

static void test_aligned(void **state)
{
    (void)state;
    for (size_t n = 1; n < 200; n += 7) {
        cleanup_mem double *a = mem_aligned(n, sizeof(*a));
        assert_int_equal((uintptr_t)a % 64, 0);
        memset(a, 1, n * sizeof(*a));
    }
}

/* Whole pages of 2 MiB, to be written from end to end. */
static void test_huge(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100000, ((size_t)2 << 20) + 1};
    for (int i = 0; i < 3; i++) {
        cleanup_mem char *a = mem_huge(sizes[i], 1);
        assert_int_equal((uintptr_t)a % ((size_t)2 << 20), 0);
        memset(a, 1, sizes[i]);
    }
    volatile size_t half = SIZE_MAX / 2 + 1;
    assert_null(mem_huge(half, 2));
    assert_null(mem_huge(1, half - 1));
    mem_fail_nth(1);
    assert_null(mem_huge(1, 1));
}

static void test_regrow_survives_failure(void **state)
{
    (void)state;
    int *a = mem_regrow(NULL, 3, sizeof(*a));
    assert_non_null(a);
    memcpy(a, (int[]){1, 2, 3}, 3 * sizeof(*a));
    volatile size_t huge = SIZE_MAX;
    assert_null(mem_regrow(a, huge, sizeof(*a)));
    mem_fail_nth(1);
    assert_null(mem_regrow(a, 4, sizeof(*a)));
    a = mem_regrow(a, 1000, sizeof(*a));
    assert_int_equal(a[0] + a[1] + a[2], 6);
    mem_free(a);
}

static void test_copies(void **state)
{
    (void)state;
    cleanup_mem char *whole = mem_strdup("text");
    cleanup_mem char *part = mem_strndup("text", 2);
    cleanup_mem char *shorter = mem_strndup("text", 99);
    cleanup_mem char *empty = mem_strndup("text", 0);
    cleanup_mem char *unterminated = mem_strndup((const char[]){'a', 'b'}, 2);
    cleanup_mem char *bytes = mem_dup("a\0b", 4);
    assert_string_equal(whole, "text");
    assert_string_equal(part, "te");
    assert_string_equal(shorter, "text");
    assert_string_equal(empty, "");
    assert_string_equal(unterminated, "ab");
    assert_memory_equal(bytes, "a\0b", 4);
    assert_null(mem_strdup(NULL));
    assert_null(mem_strndup(NULL, 3));
    assert_null(mem_dup(NULL, 3));
}

static void test_cleanup_frees_and_clears(void **state)
{
    (void)state;
    char *s = mem_strdup("x");
    mem_freep(&s);
    assert_null(s);
}

static int failures_of_ten(void)
{
    int failed = 0;
    for (int i = 0; i < 10; i++) {
        cleanup_mem void *p = mem_alloc(1);
        failed = p == NULL ? 10 * failed + i + 1 : failed;
    }
    return failed;
}

static void test_fail_nth(void **state)
{
    (void)state;
    mem_fail_nth(4);
    assert_int_equal(failures_of_ten(), 4);
    assert_int_equal(failures_of_ten(), 0);
    mem_fail_nth(11);
    assert_int_equal(failures_of_ten(), 0);
    mem_fail_nth(0);
    assert_int_equal(failures_of_ten(), 0);
}

/* Runs itself again in a new process, whose environment nobody has read yet. */
static void test_fail_by_environment(void **state)
{
    (void)state;
    if (getenv("KRR_FAIL_ALLOC") != NULL) {
        assert_int_equal(failures_of_ten(), 3);
        assert_int_equal(failures_of_ten(), 0);
        return;
    }
    char self[4096];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_in_range(len, 1, sizeof(self) - 2);
    self[len] = '\0';
    const pid_t child = fork();
    if (child == 0) {
        setenv("KRR_FAIL_ALLOC", "3", 1);
        execl(self, self, "test_fail_by_environment", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST_MAIN(cmocka_unit_test(test_sizes), cmocka_unit_test(test_zeroed),
          cmocka_unit_test(test_aligned), cmocka_unit_test(test_huge),
          cmocka_unit_test(test_regrow_survives_failure), cmocka_unit_test(test_copies),
          cmocka_unit_test(test_cleanup_frees_and_clears), cmocka_unit_test(test_fail_nth),
          cmocka_unit_test(test_fail_by_environment))
