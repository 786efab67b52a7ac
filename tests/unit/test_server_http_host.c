#include "server/http/http_host.h"

#include <string.h>

#include "support/assert.h"

static void test_addresses_and_localhost_need_no_name(void **state)
{
    (void)state;
    assert_true(http_host_allowed("127.0.0.1:8080", ""));
    assert_true(http_host_allowed("192.168.1.7", ""));
    assert_true(http_host_allowed("[::1]:8080", ""));
    assert_true(http_host_allowed("[::1]", ""));
    assert_true(http_host_allowed("localhost", ""));
    assert_true(http_host_allowed("LocalHost.:8080", ""));
    assert_true(http_host_allowed("krrd.localhost:8080", ""));
    assert_true(http_host_allowed(NULL, ""));
}

static void test_what_is_a_host(void **state)
{
    (void)state;
    static const char *const hosts[] = {"h",   "h:",    "h:80",       "a_b.example.",
                                        "%41", "[::1]", "[::1]:8080", "[::ffff:1.2.3.4]:"};
    static const char *const none[] = {"",       ":80",  "a b",    "a/b",   "u@h",   "h:x",
                                       "h:80:1", "[::1", "[::1]x", "[::g]", "a,b:x", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        assert_true(http_host_valid(hosts[i], strlen(hosts[i])));
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        assert_false(http_host_valid(none[i], strlen(none[i])));
    }
    assert_false(http_host_valid("a\0b", 3));
}

static void test_what_only_looks_like_them_does(void **state)
{
    (void)state;
    static const char *const hosts[] = {"evil.example",
                                        "localhost.evil.example:8080",
                                        "evillocalhost",
                                        ".localhost",
                                        "127.0.0.1.evil.example",
                                        "127.1",
                                        "0x7f000001",
                                        "[evil.example]",
                                        "user@localhost",
                                        "localhost,evil.example",
                                        "",
                                        ":8080",
                                        "."};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        if (http_host_allowed(hosts[i], "")) {
            fail_msg("\"%s\" is allowed", hosts[i]);
        }
    }
}

static void test_names_that_are_listed(void **state)
{
    (void)state;
    static const char names[] = "krrd.example, .lab.example,other";
    assert_true(http_host_allowed("krrd.example:80", names));
    assert_true(http_host_allowed("KRRD.Example.", names));
    assert_true(http_host_allowed("a.lab.example", names));
    assert_true(http_host_allowed("a.b.lab.example:1", names));
    assert_true(http_host_allowed("other", names));
    assert_true(http_host_allowed("127.0.0.1", names));
    assert_false(http_host_allowed("lab.example", names));
    assert_false(http_host_allowed("a.krrd.example", names));
    assert_false(http_host_allowed("xlab.example", names));
    assert_false(http_host_allowed("krrd.example.evil", names));
    assert_false(http_host_allowed("othe", names));
    assert_true(http_host_allowed("anything.at.all", "*"));
    assert_false(http_host_allowed("", ",, "));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_and_localhost_need_no_name),
        cmocka_unit_test(test_what_is_a_host),
        cmocka_unit_test(test_what_only_looks_like_them_does),
        cmocka_unit_test(test_names_that_are_listed),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
