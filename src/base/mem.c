#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Failure on demand. The countdown is the one mutable static of the project: allocation has no
 * context to carry it, and a test must be able to reach any allocation. n > 0 means that the n-th
 * allocation from now fails.
 */
enum { COUNTDOWN_OFF = 0, COUNTDOWN_UNREAD = -1 };
static _Atomic int64_t countdown = COUNTDOWN_UNREAD;

static int64_t countdown_from_environment(void)
{
    const char *text = getenv("KRR_FAIL_ALLOC");
    const long long n = text == NULL ? 0 : strtoll(text, NULL, 10);
    return n > 0 ? n : COUNTDOWN_OFF;
}

static bool must_fail(void)
{
    int64_t n = atomic_load_explicit(&countdown, memory_order_relaxed);
    if (n == COUNTDOWN_OFF) {
        return false;
    }
    if (n == COUNTDOWN_UNREAD) {
        atomic_compare_exchange_strong(&countdown, &n, countdown_from_environment());
        n = atomic_load(&countdown);
    }
    while (n > 0) {
        if (atomic_compare_exchange_weak(&countdown, &n, n - 1)) {
            return n == 1;
        }
    }
    return false;
}

void mem_fail_nth(int64_t n)
{
    atomic_store(&countdown, n > 0 ? n : COUNTDOWN_OFF);
}

/* Sizes above PTRDIFF_MAX would make pointer differences undefined. */
static bool fits(size_t count, size_t size, size_t *ret_total)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total) || total > PTRDIFF_MAX) {
        return false;
    }
    *ret_total = total == 0 ? 1 : total; /* so that NULL always means failure */
    return true;
}

void *mem_alloc(size_t size)
{
    return mem_array(1, size);
}

void *mem_zalloc(size_t size)
{
    return mem_zarray(1, size);
}

void *mem_array(size_t count, size_t size)
{
    size_t total;
    return fits(count, size, &total) && !must_fail() ? malloc(total) : NULL;
}

void *mem_zarray(size_t count, size_t size)
{
    size_t total;
    return fits(count, size, &total) && !must_fail() ? calloc(1, total) : NULL;
}

void *mem_regrow(void *p, size_t count, size_t size)
{
    size_t total;
    return fits(count, size, &total) && !must_fail() ? realloc(p, total) : NULL;
}

void *mem_aligned(size_t count, size_t size)
{
    const size_t line = 64;
    size_t total;
    if (!fits(count, size, &total) || total > PTRDIFF_MAX - line || must_fail()) {
        return NULL;
    }
    return aligned_alloc(line, (total + line - 1) / line * line);
}

void *mem_huge(size_t count, size_t size)
{
    const size_t page = (size_t)2 << 20;
    size_t total;
    if (!fits(count, size, &total) || total > PTRDIFF_MAX - page || must_fail()) {
        return NULL;
    }
    total = (total + page - 1) / page * page;
    void *p = aligned_alloc(page, total);
    if (p != NULL) {
        madvise(p, total, MADV_HUGEPAGE); /* advice: a system without them says no */
    }
    return p;
}

char *mem_strdup(const char *s)
{
    return s == NULL ? NULL : mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
    if (s == NULL) {
        return NULL;
    }
    const size_t len = strnlen(s, n);
    char *copy = mem_alloc(len + 1);
    if (copy != NULL) {
        memcpy(copy, s, len);
        copy[len] = '\0';
    }
    return copy;
}

void *mem_dup(const void *p, size_t size)
{
    void *copy = p == NULL ? NULL : mem_alloc(size);
    if (copy != NULL) {
        memcpy(copy, p, size);
    }
    return copy;
}

void *mem_free(void *p)
{
    free(p);
    return NULL;
}

void mem_trim(void)
{
    malloc_trim(0);
}
