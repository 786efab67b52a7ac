/*
 * Memory: the only place that calls malloc. All functions return NULL on failure, including
 * arithmetic overflow of count * size; nothing aborts. A size of 0 gives a pointer of its own, so
 * NULL always means failure. KRR_FAIL_ALLOC=n in the environment makes
 * the n-th allocation of the process fail (tests only; read once).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);
void *mem_array(size_t count, size_t size);           /* uninitialised, count*size checked */
void *mem_zarray(size_t count, size_t size);          /* zeroed */
void *mem_regrow(void *p, size_t count, size_t size); /* realloc; p survives failure */
void *mem_aligned(size_t count, size_t size);         /* 64-byte aligned, uninitialised */
/* For arrays of many megabytes that are read over and over: uninitialised, in pages of 2 MiB where
 * the system has them, which saves most of the time of first touching it. Rounded up to such. */
void *mem_huge(size_t count, size_t size);
char *mem_strdup(const char *s); /* NULL in, NULL out */
char *mem_strndup(const char *s, size_t n);
void *mem_dup(const void *p, size_t size);
void *mem_free(void *p); /* accepts NULL, returns NULL */
/* Gives freed memory that the allocator keeps for later back to the machine. */
void mem_trim(void);

static inline void mem_freep(void *p)
{
    *(void **)p = mem_free(*(void **)p);
}

/* Makes the n-th allocation from now fail, once; 0 turns it off. For tests: the same switch as
 * KRR_FAIL_ALLOC, which a test program can use for every n in one process. */
void mem_fail_nth(int64_t n);

/* A local that is freed when it leaves its scope. */
#define cleanup_mem __attribute__((cleanup(mem_freep)))
