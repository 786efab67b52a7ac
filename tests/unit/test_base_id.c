#include "base/id.h"

#include <string.h>

#include "support/assert.h"

static void test_shape(void **state)
{
    (void)state;
    struct id_source source = {0};
    char id[ID_SIZE];
    id_new(&source, "job", INT64_C(1769903999123), id);
    assert_int_equal(strlen(id), 4 + 26);
    assert_true(id_valid(id, "job"));
    assert_false(id_valid(id, "ds"));
    assert_false(id_valid(id, "jo"));
    assert_false(id_valid(id, "job_"));
    assert_memory_equal(id, "job_01KGB7ZJ4K", 14); /* the milliseconds in base 32 */
    id_new(&source, "long", INT64_C(1769903999124), id);
    assert_int_equal(strlen(id), ID_SIZE - 1);
    assert_true(id_valid(id, "long"));
}

/* 48 bits of time, then 80 bits as they stand in the source. */
static void test_bits(void **state)
{
    (void)state;
    char id[ID_SIZE];
    struct id_source zero = {.last_ms = 0};
    zero.last_random[9] = 0; /* counts up to 1 */
    id_new(&zero, "ds", 0, id);
    assert_string_equal(id, "ds_00000000000000000000000001");
    struct id_source full = {.last_ms = (INT64_C(1) << 48) - 1};
    memset(full.last_random, 0xFF, sizeof(full.last_random));
    full.last_random[9] = 0xFE;
    id_new(&full, "ds", INT64_MAX, id);
    assert_string_equal(id, "ds_7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    assert_true(id_valid(id, "ds"));
}

static void test_ascending(void **state)
{
    (void)state;
    struct id_source source = {0};
    char last[ID_SIZE] = "";
    int64_t ms = 1000000;
    for (int i = 0; i < 3000; i++) {
        char id[ID_SIZE];
        /* Standing still, running on, and jumping back. */
        ms += i % 7 == 0 ? 1 : i % 11 == 0 ? -5 : 0;
        id_new(&source, "req", ms, id);
        assert_true(strcmp(last, id) < 0);
        assert_true(id_valid(id, "req"));
        memcpy(last, id, sizeof(last));
    }
}

/* A source goes on after what another has made, also where its clock is behind. */
static void test_continue(void **state)
{
    (void)state;
    struct id_source first = {0}, second = {0};
    char old[ID_SIZE], id[ID_SIZE];
    for (int i = 0; i < 500; i++) {
        id_new(&first, i % 2 == 0 ? "job" : "ds", INT64_C(1769903999123) + i / 3, old);
        id_continue(&second, old);
        assert_int_equal(second.last_ms, first.last_ms);
        assert_memory_equal(second.last_random, first.last_random, sizeof(first.last_random));
        id_new(&second, "job", 5, id);
        assert_true(strcmp(strchr(old, '_'), strchr(id, '_')) < 0);
        first = second;
    }
    const struct id_source before = second;
    static const char *const nothing[] = {"",
                                          "job",
                                          "job_",
                                          "job_1",
                                          "job_0000000000000000000000000Z",
                                          "ds_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                          "job_7ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                          "job_7ZZZZZZZZZZZZZZZZZZZZZZZZU"};
    for (size_t i = 0; i < sizeof(nothing) / sizeof(*nothing); i++) {
        id_continue(&second, nothing[i]); /* no ids, or an old one */
        assert_memory_equal(&second, &before, sizeof(before));
    }
}

static void test_carry(void **state)
{
    (void)state;
    struct id_source source = {.last_ms = 1000};
    memset(source.last_random, 0xFF, sizeof(source.last_random));
    source.last_random[0] = 0x12;
    char id[ID_SIZE];
    id_new(&source, "ds", 1000, id);
    assert_int_equal(source.last_random[0], 0x13);
    assert_int_equal(source.last_random[9], 0);
    /* All random bits used up: the time moves on instead. */
    memset(source.last_random, 0xFF, sizeof(source.last_random));
    char next[ID_SIZE];
    id_new(&source, "ds", 1000, next);
    assert_int_equal(source.last_ms, 1001);
    assert_true(strcmp(id, next) < 0);
}

static void test_two_sources_differ(void **state)
{
    (void)state;
    struct id_source a = {0};
    struct id_source b = {0};
    char x[ID_SIZE];
    char y[ID_SIZE];
    id_new(&a, "ds", 5000, x);
    id_new(&b, "ds", 5000, y);
    assert_memory_equal(x, y, 3 + 10);
    assert_string_not_equal(x, y);
    id_new(&a, "ds", -1, x); /* a clock before 1970 does no harm */
    assert_true(id_valid(x, "ds"));
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const ids[] = {
        "",
        "ds",
        "ds_",
        "ds_0000000000000000000000000",   /* one short */
        "ds_000000000000000000000000000", /* one long */
        "ds_0000000000000000000000000I",
        "ds_0000000000000000000000000L",
        "ds_0000000000000000000000000O",
        "ds_0000000000000000000000000U",
        "ds_0000000000000000000000000a",
        "ds_0000000000000000000000000/",
        "ds_80000000000000000000000000", /* 129 bits */
        "ds-00000000000000000000000000",
        "DS_00000000000000000000000000",
        "job_00000000000000000000000000",
        " ds_00000000000000000000000000",
    };
    assert_true(id_valid("ds_00000000000000000000000000", "ds"));
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        assert_false(id_valid(ids[i], "ds"));
    }
    assert_false(id_valid(NULL, "ds"));
}

TEST_MAIN(cmocka_unit_test(test_shape), cmocka_unit_test(test_bits),
          cmocka_unit_test(test_ascending), cmocka_unit_test(test_continue),
          cmocka_unit_test(test_carry), cmocka_unit_test(test_two_sources_differ),
          cmocka_unit_test(test_refused))
