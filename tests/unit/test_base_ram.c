#include "base/ram.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/assert.h"

static void test_the_machine_has_some(void **state)
{
    (void)state;
    const int64_t free = ram_available(), all = ram_limit();
    assert_true(free > (1 << 20));
    assert_true(all >= free);
    assert_true(all < INT64_C(1) << 50); /* a limit was found, not INT64_MAX */
    assert_true(ram_resident() > 0 && ram_resident() < all);
    int64_t limit, left;
    ram_look(&limit, &left);
    assert_int_equal(limit, all);
    assert_true(left > (1 << 20) && left <= limit);
}

static void test_a_limit_of_the_process_counts(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    const struct rlimit low = {.rlim_cur = 3u << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_DATA, &low), 0);
    const int64_t limit = ram_limit(), free = ram_available();
    setrlimit(RLIMIT_DATA, &before);
    assert_int_equal(limit, 3 << 20);
    assert_true(free < limit);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void remove_file(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

/* File cache, of late use too, is there for whoever wants it. */
static void test_cache_of_a_control_group_is_free(void **state)
{
    (void)state;
    char root[] = "/tmp/krrd-test-ram-XXXXXX", group[64];
    assert_non_null(mkdtemp(root));
    snprintf(group, sizeof(group), "%s/a", root);
    assert_int_equal(mkdir(group, 0700), 0);
    assert_true(ram_groups_room(root, "/a/b", true, true) == INT64_MAX);
    write_file(group, "memory.max", "1000000\n");
    write_file(group, "memory.current", "900000\n");
    write_file(group, "memory.stat", "anon 300000\ninactive_file 100000\nactive_file 250000\n");
    assert_int_equal(ram_groups_room(root, "/a/b", true, false), 1000000);
    assert_int_equal(ram_groups_room(root, "/a/b", true, true), 450000);
    write_file(group, "memory.current", "9000000\n");
    assert_int_equal(ram_groups_room(root, "/a", true, true), 0);
    write_file(group, "memory.max", "max\n");
    assert_true(ram_groups_room(root, "/a", true, true) == INT64_MAX);
    remove_file(group, "memory.max");
    remove_file(group, "memory.current");
    remove_file(group, "memory.stat");
    remove_file(root, "a");
    assert_int_equal(rmdir(root), 0);
}

static void test_what_a_limit_of_ours_leaves(void **state)
{
    (void)state;
    const int64_t own = ram_own(), margin = 1 << 20;
    assert_true(own > 0 && own < ram_resident());
    assert_int_equal(ram_available_within(1), 0);
    const int64_t left = ram_available_within(own + (64 << 20));
    assert_true(left > (64 << 20) - margin && left <= (64 << 20) + margin);
    assert_true(ram_available_within(0) > left);
}

/* A file that is mapped and read is resident, and can be taken back. */
static void test_mapped_files_are_not_ones_own(void **state)
{
    (void)state;
    const size_t size = 32u << 20;
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)size), 0);
    const int64_t own = ram_own(), resident = ram_resident();
    assert_near((double)ram_own_of(getpid()), (double)own, 1 << 20);
    char *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    int sum = 0;
    for (size_t i = 0; i < size; i += 4096) {
        sum += ((volatile char *)map)[i];
    }
    assert_int_equal(sum, 0);
    if (ram_resident() > resident + (int64_t)size / 2) { /* not where /tmp is memory */
        assert_true(ram_own() < own + (8 << 20));
    }
    munmap(map, size);
    fclose(f);
}

/* A job before this one may have been large: its mark is gone after the reset. */
static void test_peak_is_of_the_job(void **state)
{
    (void)state;
    if (access("/proc/self/clear_refs", W_OK) != 0) {
        skip();
    }
    const size_t size = 64u << 20;
    ram_peak_reset();
    const int64_t before = ram_peak();
    char *large = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(large, MAP_FAILED);
    for (size_t i = 0; i < size; i += 4096) {
        large[i] = 1;
    }
    const int64_t lag = 1 << 20; /* the system counts in batches of pages, a processor each */
    assert_true(ram_peak() >= before + (int64_t)size - lag);
    munmap(large, size); /* at once, where free() may keep it */
    ram_peak_reset();
    assert_true(ram_peak() < before + (int64_t)size / 2);
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
    ram_peak_reset();
    const int64_t before = ram_peak();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = mem_alloc(SIZE);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, SIZE);
    }
    void *above = mem_alloc(1000);
    for (int i = 0; i < BLOCKS; i++) {
        mem_free(blocks[i]);
    }
    assert_true(ram_peak() >= before + BLOCKS * SIZE / 2);
    ram_peak_reset();
    assert_true(ram_peak() < before + BLOCKS * SIZE / 4);
    mem_free(above);
}

TEST_MAIN(cmocka_unit_test(test_peak_is_without_what_was_freed),
          cmocka_unit_test(test_peak_is_of_the_job), cmocka_unit_test(test_the_machine_has_some),
          cmocka_unit_test(test_a_limit_of_the_process_counts),
          cmocka_unit_test(test_cache_of_a_control_group_is_free),
          cmocka_unit_test(test_what_a_limit_of_ours_leaves),
          cmocka_unit_test(test_mapped_files_are_not_ones_own))
