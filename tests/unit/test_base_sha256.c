#include "base/sha256.h"

#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

/* FIPS 180-4's examples and the empty message. */
static void test_published_digests(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < 3; i++) {
        struct sha256 *h = sha256_new();
        char hex[SHA256_HEX_SIZE];
        sha256_update(h, cases[i][0], strlen(cases[i][0]));
        sha256_hex(h, hex);
        assert_string_equal(hex, cases[i][1]);
        assert_null(sha256_free(h));
    }
}

static void test_a_million_in_odd_pieces(void **state)
{
    (void)state;
    struct sha256 *h = sha256_new();
    char piece[999];
    memset(piece, 'a', sizeof(piece));
    for (size_t left = 1000000, n = 1; left > 0; left -= n) {
        n = n % sizeof(piece) + 1;
        n = n < left ? n : left;
        sha256_update(h, piece, n);
    }
    char hex[SHA256_HEX_SIZE];
    sha256_hex(h, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sha256_free(h);
}

static void test_no_memory(void **state)
{
    (void)state;
    mem_fail_nth(1);
    assert_null(sha256_new());
    assert_null(sha256_free(NULL));
}

static void test_in_one_call(void **state)
{
    char whole[SHA256_HEX_SIZE];
    (void)state;
    assert_true(sha256_text("abc", 3, whole));
    assert_string_equal(whole, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(sha256_text(NULL, 0, whole));
    assert_string_equal(whole, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_MAIN(cmocka_unit_test(test_in_one_call), cmocka_unit_test(test_published_digests),
          cmocka_unit_test(test_a_million_in_odd_pieces), cmocka_unit_test(test_no_memory))
