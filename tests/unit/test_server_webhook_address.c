/* Where webhooks may go. */
#include <arpa/inet.h>
#include <string.h>

#include "server/webhooks/address.h"
#include "support/assert.h"

static bool allowed(const char *text, const struct address_list *also)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        return address_allowed((const struct sockaddr *)&four, also);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return address_allowed((const struct sockaddr *)&six, also);
}

static void test_public(void **state)
{
    static const struct address_list none = {.count = 0};
    static const char *const yes[] = {
        "1.1.1.1",       "8.8.8.8",        "93.184.216.34",    "100.63.255.255", "100.128.0.1",
        "172.15.0.1",    "172.32.0.1",     "223.255.255.255",  "2606:4700::1",   "2a00:1450::1",
        "2001:4860::88", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"};
    static const char *const no[] = {"0.0.0.0",
                                     "10.0.0.1",
                                     "100.64.0.1",
                                     "127.0.0.1",
                                     "127.255.255.254",
                                     "169.254.169.254",
                                     "172.16.0.1",
                                     "172.31.255.255",
                                     "192.168.1.1",
                                     "192.0.0.1",
                                     "192.0.2.1",
                                     "198.18.0.1",
                                     "198.51.100.7",
                                     "203.0.113.9",
                                     "224.0.0.1",
                                     "239.1.2.3",
                                     "240.0.0.1",
                                     "255.255.255.255",
                                     "::",
                                     "::1",
                                     "fe80::1",
                                     "fec0::1",
                                     "fc00::1",
                                     "fd12::1",
                                     "ff02::1",
                                     "2001::1",
                                     "2001:10::1",
                                     "2001:db8::1",
                                     "3fff::1",
                                     "100::1",
                                     "::ffff:127.0.0.1",
                                     "::ffff:169.254.169.254",
                                     "::127.0.0.1",
                                     "64:ff9b::7f00:1",
                                     "64:ff9b::a9fe:a9fe",
                                     "64:ff9b:1::808:808",
                                     "2002:7f00:1::1",
                                     "2002:a00:1::1",
                                     "::ffff:10.0.0.1"};
    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (!allowed(yes[i], &none)) {
            fail_msg("%s is public", yes[i]);
        }
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        if (allowed(no[i], &none)) {
            fail_msg("%s is not public", no[i]);
        }
    }
    const struct sockaddr other = {.sa_family = AF_UNIX};
    assert_false(address_allowed(&other, &none));
}

static void test_what_is_allowed_too(void **state)
{
    struct address_list also;
    struct err err;
    (void)state;
    assert_int_equal(address_list_parse("10.1.0.0/16,::1,127.0.0.1,fd00::/9", &also, &err), 0);
    assert_int_equal(also.count, 4);
    assert_true(allowed("10.1.255.1", &also));
    assert_false(allowed("10.2.0.1", &also));
    assert_true(allowed("::ffff:10.1.2.3", &also));
    assert_true(allowed("64:ff9b::a01:203", &also));
    assert_true(allowed("::1", &also));
    assert_false(allowed("::2", &also));
    assert_true(allowed("127.0.0.1", &also));
    assert_false(allowed("127.0.0.2", &also));
    assert_true(allowed("fd7f::1", &also));
    assert_false(allowed("fd80::1", &also));
    assert_int_equal(address_list_parse("0.0.0.0/0", &also, &err), 0);
    assert_true(allowed("127.0.0.1", &also));
    assert_false(allowed("::1", &also));
    assert_int_equal(address_list_parse("", &also, &err), 0);
    assert_int_equal(also.count, 0);
}

static void test_texts_that_are_no_networks(void **state)
{
    static const char *const texts[] = {"x",           "10.0.0.0/33",   "10.0.0.0/",
                                        "10.0.0.0/-1", "10.0.0.0/8x",   "::/129",
                                        ",",           "10.0.0.1,,::1", "10.0.0.0/ 8"};
    struct address_list also;
    struct err err;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(address_list_parse(texts[i], &also, &err), -ERR_INVALID);
    }
}

static bool host(const char *text)
{
    static const struct address_list none = {.count = 0};
    return address_host_allowed(text, strlen(text), &none);
}

static void test_hosts(void **state)
{
    (void)state;
    assert_true(host("example.org"));
    assert_true(host("localhost")); /* judged when it is connected to */
    assert_true(host("8.8.8.8"));
    assert_true(host("[2606:4700::1]"));
    assert_false(host("127.0.0.1"));
    assert_false(host("[::1]"));
    assert_false(host("[::ffff:10.0.0.1]"));
    assert_false(host("[nonsense]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public),
        cmocka_unit_test(test_what_is_allowed_too),
        cmocka_unit_test(test_texts_that_are_no_networks),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
