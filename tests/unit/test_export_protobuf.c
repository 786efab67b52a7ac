#include "export/protobuf.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static int to_buf(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    buf_add(context, data, size);
    return 0;
}

static void check(struct protobuf *p, const void *expected, size_t size)
{
    struct buf written = BUF_INIT;
    assert_int_equal(protobuf_size(p), size);
    assert_int_equal(protobuf_write(p, to_buf, &written, NULL), 0);
    assert_int_equal(written.len, size);
    assert_memory_equal(written.data, expected, size);
    buf_deinit(&written);
    protobuf_deinit(p);
}

/* The examples of the encoding's own documentation, and the ends of the integers. */
static void test_fields(void **state)
{
    (void)state;
    struct protobuf p = PROTOBUF_INIT;
    protobuf_int(&p, 1, 150);
    check(&p, "\x08\x96\x01", 3);
    protobuf_string(&p, 2, "testing");
    check(&p, "\x12\x07testing", 9);
    protobuf_int(&p, 20, 0);
    check(&p, "\xa0\x01\x00", 3);
    protobuf_int(&p, 1, -1);
    check(&p, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    protobuf_int(&p, 1, INT64_MAX);
    check(&p, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
    protobuf_bytes(&p, 3, "", 0);
    check(&p, "\x1a\x00", 2);
    struct protobuf child = PROTOBUF_INIT;
    protobuf_int(&child, 1, 150);
    protobuf_message(&p, 3, &child);
    check(&p, "\x1a\x03\x08\x96\x01", 5);
}

/* Arrays stand where they were added, also when messages are put into each other. */
static void test_arrays(void **state)
{
    (void)state;
    const double a[] = {1.0, -2.0}, b[] = {0.5};
    const float bf = 0.5F, af[] = {0.5F, -4.0F};
    const double divide[] = {2.0, 0.5};
    struct protobuf p = PROTOBUF_INIT, child = PROTOBUF_INIT, grandchild = PROTOBUF_INIT;
    protobuf_numbers(&grandchild, 9, &(struct numbers){a, DTYPE_F64, DTYPE_F64, 2, NULL, 0});
    protobuf_int(&grandchild, 1, 7);
    protobuf_string(&child, 8, "x");
    protobuf_message(&child, 5, &grandchild);
    protobuf_numbers(&p, 9, &(struct numbers){b, DTYPE_F64, DTYPE_F32, 1, NULL, 0});
    protobuf_message(&p, 7, &child);
    protobuf_numbers(&p, 9, &(struct numbers){a, DTYPE_F64, DTYPE_F32, 2, divide, 2});
    struct buf expected = BUF_INIT;
    buf_add(&expected, "\x4a\x04", 2);
    buf_add(&expected, &bf, 4);
    buf_add(&expected, "\x3a\x19\x42\x01x\x2a\x14\x4a\x10", 9);
    buf_add(&expected, a, 16);
    buf_add(&expected, "\x08\x07\x4a\x08", 4);
    buf_add(&expected, af, 8);
    check(&p, expected.data, expected.len);
    buf_deinit(&expected);
}

static int count_bytes(void *context, const void *data, size_t size, struct err *err)
{
    (void)data;
    (void)err;
    *(uint64_t *)context += size;
    return 0;
}

/* Many blocks; a message beyond 2 GiB is refused before anything is written. */
static void test_large_arrays(void **state)
{
    (void)state;
    enum { N = 100001 };
    double *x = mem_zarray(N, sizeof(*x));
    uint64_t written = 0;
    struct protobuf p = PROTOBUF_INIT;
    protobuf_numbers(&p, 9, &(struct numbers){x, DTYPE_F64, DTYPE_F32, N, NULL, 0});
    assert_int_equal(protobuf_write(&p, count_bytes, &written, NULL), 0);
    assert_int_equal(written, 4 * N + 1 + 3);
    protobuf_deinit(&p);
    struct err err;
    written = 0;
    protobuf_numbers(
        &p, 9, &(struct numbers){x, DTYPE_F64, DTYPE_F64, PROTOBUF_SIZE_MAX / 8 + 1, NULL, 0});
    assert_int_equal(protobuf_write(&p, count_bytes, &written, &err), -ERR_UNSUPPORTED);
    assert_contains(err.detail, "2 GiB");
    assert_int_equal(written, 0);
    protobuf_deinit(&p);
    mem_free(x);
}

static int refuse(void *context, const void *data, size_t size, struct err *err)
{
    (void)data;
    (void)size;
    return --*(int *)context < 0 ? err_set(err, ERR_IO, "The disk is full.") : 0;
}

static void test_failures(void **state)
{
    (void)state;
    const double a[] = {1.0};
    const struct numbers n = {a, DTYPE_F64, DTYPE_F64, 1, NULL, 0};
    struct protobuf p = PROTOBUF_INIT;
    for (int i = 0; i < PROTOBUF_ARRAYS_MAX; i++) {
        protobuf_numbers(&p, 9, &n);
    }
    for (int calls = 0; calls < 2 * PROTOBUF_ARRAYS_MAX + 1; calls++) {
        int left = calls;
        struct err err;
        assert_int_equal(protobuf_write(&p, refuse, &left, &err), -ERR_IO);
    }
    protobuf_numbers(&p, 9, &n);
    assert_true(p.text.failed);
    int left = 0;
    assert_int_equal(protobuf_write(&p, refuse, &left, NULL), -ERR_NO_MEMORY);
    protobuf_deinit(&p);
}

TEST_MAIN(cmocka_unit_test(test_fields), cmocka_unit_test(test_arrays),
          cmocka_unit_test(test_large_arrays), cmocka_unit_test(test_failures))
