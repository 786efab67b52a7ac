#include "base/deflate.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

static struct deflate_limit most(int64_t bytes)
{
    return (struct deflate_limit){bytes, "--most"};
}

static const enum deflate_kind kinds[] = {DEFLATE_GZIP, DEFLATE_ZLIB};

/* 200 KB that shrink, and do not fit one chunk. */
static void fill(struct buf *b)
{
    for (int i = 0; b->len < 200000; i++) {
        buf_printf(b, "%d,%g\n", i, (double)i / 7);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    fill(&text);
    for (int k = 0; k < 2; k++) {
        for (size_t len = 0; len <= text.len; len = 3 * len + 1) {
            cleanup_buf struct buf packed = BUF_INIT;
            cleanup_buf struct buf back = BUF_INIT;
            assert_int_equal(deflate_pack(kinds[k], text.data, len, &packed, NULL), 0);
            assert_int_equal(
                deflate_unpack(kinds[k], packed.data, packed.len, most((int64_t)len), &back, NULL),
                0);
            assert_int_equal(back.len, len);
            assert_true(len == 0 || memcmp(back.data, text.data, len) == 0);
            assert_true(len < 1000 || packed.len < len / 2);
        }
    }
}

static void test_limit(void **state)
{
    (void)state;
    cleanup_mem char *zeros = mem_zalloc((size_t)20 << 20);
    for (int k = 0; k < 2; k++) {
        cleanup_buf struct buf packed = BUF_INIT;
        cleanup_buf struct buf back = BUF_INIT;
        struct err err;
        deflate_pack(kinds[k], zeros, (size_t)20 << 20, &packed, NULL);
        assert_int_equal(
            deflate_unpack(kinds[k], packed.data, packed.len, most(1000000), &back, &err),
            -ERR_TOO_LARGE);
        assert_contains(err.detail, "more than the limit of 1000000 bytes");
        assert_true(back.len <= 1000000);
    }
}

static void refuse(enum deflate_kind kind, const char *data, size_t len, const char *part)
{
    cleanup_buf struct buf back = BUF_INIT;
    struct err err;
    assert_int_equal(deflate_unpack(kind, data, len, most(1000), &back, &err), -ERR_PARSE);
    assert_contains(err.detail, part);
}

static void test_damage(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        cleanup_buf struct buf packed = BUF_INIT;
        deflate_pack(kinds[k], "some text", 9, &packed, NULL);
        for (size_t len = 0; len < packed.len; len++) {
            refuse(kinds[k], packed.data, len, "stream is truncated");
        }
        buf_char(&packed, 'x');
        refuse(kinds[k], packed.data, packed.len, "follow the");
        packed.data[packed.len - 2] ^= 1; /* the check sum, or the length */
        refuse(kinds[k], packed.data, packed.len, "is damaged");
        refuse(kinds[k], "{\"instances\":[]}", 16, "is damaged");
        refuse(kinds[1 - k], packed.data, packed.len - 1, "is damaged");
    }
}

static void test_members(void **state)
{
    (void)state;
    cleanup_buf struct buf packed = BUF_INIT;
    cleanup_buf struct buf back = BUF_INIT;
    deflate_pack(DEFLATE_GZIP, "some ", 5, &packed, NULL);
    deflate_pack(DEFLATE_GZIP, "text", 4, &packed, NULL);
    assert_int_equal(deflate_unpack(DEFLATE_GZIP, packed.data, packed.len, most(9), &back, NULL),
                     0);
    assert_string_equal(back.data, "some text");
}

/* No damage makes it read or write where it must not (under the sanitizers). */
static void test_mutations(void **state)
{
    (void)state;
    struct rng r = rng_new(1, RNG_TEST);
    cleanup_buf struct buf text = BUF_INIT;
    fill(&text);
    for (int k = 0; k < 2; k++) {
        cleanup_buf struct buf packed = BUF_INIT;
        deflate_pack(kinds[k], text.data, 3000, &packed, NULL);
        for (int i = 0; i < 500; i++) {
            size_t len = 0;
            char *damaged = mutate(&r, packed.data, packed.len, &len);
            cleanup_buf struct buf back = BUF_INIT;
            deflate_unpack(kinds[k], damaged, len, most(5000), &back, NULL);
            assert_true(back.len <= 5000);
            mem_free(damaged);
        }
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    cleanup_buf struct buf packed = BUF_INIT;
    deflate_pack(DEFLATE_GZIP, "some text", 9, &packed, NULL);
    int failures = 0;
    for (int n = 1; n < 20; n++) {
        cleanup_buf struct buf there = BUF_INIT;
        cleanup_buf struct buf back = BUF_INIT;
        mem_fail_nth(n);
        const int packing = deflate_pack(DEFLATE_ZLIB, "some text", 9, &there, NULL);
        mem_fail_nth(n);
        const int unpacking =
            deflate_unpack(DEFLATE_GZIP, packed.data, packed.len, most(9), &back, NULL);
        mem_fail_nth(0);
        assert_true(packing == 0 || packing == -ERR_NO_MEMORY);
        assert_true(unpacking == 0 || unpacking == -ERR_NO_MEMORY);
        failures += (packing < 0) + (unpacking < 0);
    }
    assert_true(failures >= 4);
}

TEST_MAIN(cmocka_unit_test(test_round_trip), cmocka_unit_test(test_limit),
          cmocka_unit_test(test_damage), cmocka_unit_test(test_members),
          cmocka_unit_test(test_mutations), cmocka_unit_test(test_no_memory))
