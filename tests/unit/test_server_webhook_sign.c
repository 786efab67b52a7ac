/* Signatures: the example of Standard Webhooks, several secrets, files that hold none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "server/webhooks/sign.h"
#include "support/assert.h"

static int read_text(const char *text, struct sign_secrets *ret, struct err *err)
{
    char path[] = "/tmp/krrd-sign-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text), err), 0);
    close(fd);
    const int r = sign_read(path, ret, err);
    unlink(path);
    return r;
}

static void test_the_example(void **state)
{
    struct sign_secrets s;
    struct err err;
    (void)state;
    assert_int_equal(read_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", &s, &err), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.secrets[0].size, 24);
    char *text =
        sign_message(&s, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}");
    assert_string_equal(text, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    mem_free(text);
}

static void test_two_secrets(void **state)
{
    struct sign_secrets s;
    struct err err;
    (void)state;
    assert_int_equal(read_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\r\n\n"
                               "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                               &s, &err),
                     0);
    assert_int_equal(s.count, 2);
    char *text = sign_message(&s, "a", 1, "{}");
    const char *blank = strchr(text, ' ');
    assert_int_equal(strlen(text), 2 * 47 + 1);
    assert_non_null(blank);
    assert_int_equal(strncmp(blank, " v1,", 4), 0);
    mem_free(text);
}

static void test_files_that_hold_none(void **state)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", /* not a whole quadruple */
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!!",
    };
    struct sign_secrets s;
    struct err err;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(read_text(texts[i], &s, &err), -ERR_INVALID);
    }
    char many[5 * 48 + 1] = "";
    for (int i = 0; i < 5; i++) {
        snprintf(many + strlen(many), 48, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    }
    assert_int_equal(read_text(many, &s, &err), -ERR_INVALID);
    assert_int_equal(sign_read("/nonexistent/file", &s, &err), -ERR_NOT_FOUND);
}

static void test_base64_limits(void **state)
{
    uint8_t bytes[3];
    size_t size = 3;
    (void)state;
    assert_true(base64_decode("AQID", 4, bytes, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, "\1\2\3", 3);
    size = 2;
    assert_false(base64_decode("AQID", 4, bytes, &size));
    size = 2;
    assert_true(base64_decode("AQI=", 4, bytes, &size));
    assert_int_equal(size, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_example),
        cmocka_unit_test(test_two_secrets),
        cmocka_unit_test(test_files_that_hold_none),
        cmocka_unit_test(test_base64_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
