#include "wire/tensors.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

/* A file image from a header's text and n bytes of data, in memory of exactly its size. */
static char *image_of(const char *header, size_t data_size, size_t *ret_size)
{
    const size_t len = strlen(header);
    char *image = mem_zalloc(8 + len + data_size);
    assert_non_null(image);
    for (int i = 0; i < 8; i++) {
        image[i] = (char)(len >> (8 * i));
    }
    memcpy(image + 8, header, len);
    *ret_size = 8 + len + data_size;
    return image;
}

static int open_text(const char *header, size_t data_size, struct tensors *ret, struct err *err)
{
    size_t size = 0;
    char *image cleanup_mem = image_of(header, data_size, &size);
    const int rc = tensors_open(image, size, ret, err);
    if (rc == 0) {
        for (int i = 0; i < ret->count; i++) {
            ret->tensor[i].data = NULL; /* The image goes away. */
        }
    }
    return rc;
}

static struct tensors example(void)
{
    struct tensors t = {
        .count = 3,
        .tensor = {{.name = "coef", .dtype = DTYPE_F64, .dims = 2, .shape = {3, 2}},
                   {.name = "mean", .dtype = DTYPE_F64, .dims = 1, .shape = {5, 1}},
                   {.name = "centers", .dtype = DTYPE_F32, .dims = 2, .shape = {3, 5}}},
        .metadata = json_new_object(),
    };
    json_set_string(t.metadata, "model", "{\"a\":\"\\u00fc \\\"q\\\"\"}");
    json_set_string(t.metadata, "note", "two\nlines");
    return t;
}

static const size_t example_data = 48 + 40 + 60;

static void test_round_trip(void **state)
{
    (void)state;
    struct tensors t = example();
    struct buf b cleanup_buf = BUF_INIT;
    assert_int_equal(tensors_header(&t, 0, &b, NULL), 0);
    assert_int_equal(b.len % 64, 0);
    const size_t header = b.len;
    for (size_t i = 0; i < example_data; i++) {
        buf_char(&b, (char)i);
    }
    struct tensors back;
    assert_int_equal(tensors_open(b.data, b.len, &back, NULL), 0);
    assert_int_equal(back.count, 3);
    const struct tensor_info *centers = tensors_find(&back, "centers");
    assert_int_equal(centers->dtype, DTYPE_F32);
    assert_int_equal(centers->dims, 2);
    assert_int_equal(centers->shape[1], 5);
    assert_int_equal(centers->bytes, 60);
    assert_ptr_equal(centers->data, b.data + header + 88);
    assert_int_equal(tensors_find(&back, "mean")->shape[1], 1);
    assert_null(tensors_find(&back, "none"));
    assert_string_equal(tensors_metadata(&back, "model"), tensors_metadata(&t, "model"));
    assert_string_equal(tensors_metadata(&back, "note"), "two\nlines");
    assert_null(tensors_metadata(&back, "none"));
    tensors_deinit(&back);
    tensors_deinit(&t);
}

static void test_reserved_room(void **state)
{
    (void)state;
    struct tensors t = {.count = 1,
                        .tensor = {{.name = "data", .dims = 2, .shape = {9000000000, 7}}}};
    struct buf b cleanup_buf = BUF_INIT;
    buf_str(&b, "before");
    assert_int_equal(tensors_header(&t, 1000, &b, NULL), 0);
    assert_int_equal(b.len, 6 + 1024);
    t.tensor[0].shape[0] = 2;
    struct buf c cleanup_buf = BUF_INIT;
    assert_int_equal(tensors_header(&t, 1024, &c, NULL), 0);
    assert_int_equal(c.len, 1024);
}

static void test_unwritable(void **state)
{
    (void)state;
    struct buf b cleanup_buf = BUF_INIT;
    struct err err;
    struct tensors t = {.count = 2,
                        .tensor = {{.name = "a", .dtype = DTYPE_F32, .dims = 1, .shape = {3, 1}},
                                   {.name = "b", .dtype = DTYPE_F64, .dims = 1, .shape = {3, 1}}}};
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
    assert_contains(err.detail, "\"b\"");
    t.tensor[1].dtype = DTYPE_F32;
    assert_int_equal(tensors_header(&t, 0, &b, &err), 0);
    memcpy(t.tensor[1].name, "a", 2);
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
    memcpy(t.tensor[1].name, "", 1);
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
    memcpy(t.tensor[1].name, "__metadata__", 13);
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
    memcpy(t.tensor[1].name, "b", 2);
    t.tensor[1].shape[0] = INT64_MAX;
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
    t.tensor[1].shape[0] = -1;
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
    t.count = TENSORS_MAX + 1;
    assert_int_equal(tensors_header(&t, 0, &b, &err), -ERR_INVALID);
}

#define ONE(shape, offsets)                                                                        \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                         \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":" first "},"                         \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":" second "}}   "

static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
    } cases[] = {
        {ONE("[2,2]", "[0,16]") "    ", 16},
        {TWO("[0,16]", "[16,32]"), 32},
        {TWO("[16,32]", "[0,16]"), 32},
        {ONE("[0,7]", "[0,0]") "      ", 0},
        {"{}      ", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* Headers are padded here as writers do, to keep the data aligned. */
        struct buf header cleanup_buf = BUF_INIT;
        buf_str(&header, cases[i].header);
        while (header.len % 8 != 0) {
            buf_char(&header, ' ');
        }
        struct tensors t;
        assert_int_equal(open_text(header.data, cases[i].data, &t, NULL), 0);
        tensors_deinit(&t);
    }
}

static const struct {
    const char *header;
    size_t data;
    int rc;
} hostile_headers[] = {
    {"", 0, -ERR_CORRUPT},
    {"[]", 0, -ERR_CORRUPT},
    {"{}", 1, -ERR_CORRUPT},
    {"{} x", 0, -ERR_CORRUPT},
    {"{\"a\":1}", 0, -ERR_CORRUPT},
    {"{\"a\":{}}", 0, -ERR_CORRUPT},
    {ONE("[4]", "[0,16]"), 15, -ERR_CORRUPT},
    {ONE("[4]", "[0,16]"), 17, -ERR_CORRUPT},
    {ONE("[4]", "[0,12]"), 16, -ERR_CORRUPT},
    {ONE("[4]", "[16,0]"), 16, -ERR_CORRUPT},
    {ONE("[4]", "[-16,0]"), 16, -ERR_CORRUPT},
    {ONE("[-4]", "[0,16]"), 16, -ERR_CORRUPT},
    {ONE("[4.5]", "[0,18]"), 18, -ERR_CORRUPT},
    {ONE("[4]", "[0.5,16.5]"), 17, -ERR_CORRUPT},
    {ONE("[\"4\"]", "[0,16]"), 16, -ERR_CORRUPT},
    {ONE("[4]", "[0]"), 16, -ERR_CORRUPT},
    {ONE("[4]", "[0,16,32]"), 16, -ERR_CORRUPT},
    {ONE("4", "[0,16]"), 16, -ERR_CORRUPT},
    {ONE("[4]", "[0,9223372036854775808]"), 16, -ERR_CORRUPT},
    {ONE("[4]", "[0,18446744073709551632]"), 16, -ERR_CORRUPT},
    {ONE("[9007199254740992,9007199254740992]", "[0,0]"), 0, -ERR_CORRUPT},
    {ONE("[4294967296,4294967296]", "[0,0]"), 0, -ERR_CORRUPT},
    {ONE("[2147483648,2147483648]", "[0,0]"), 0, -ERR_CORRUPT},
    {TWO("[0,16]", "[0,16]"), 32, -ERR_CORRUPT},
    {TWO("[0,16]", "[8,24]"), 24, -ERR_CORRUPT},
    {TWO("[0,16]", "[20,36]"), 36, -ERR_CORRUPT},
    {TWO("[4,20]", "[20,36]"), 36, -ERR_CORRUPT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, -ERR_CORRUPT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}", 0, -ERR_CORRUPT},
    {"{\"__metadata__\":[]}", 0, -ERR_CORRUPT},
    {"{\"__metadata__\":{\"a\":1}}", 0, -ERR_CORRUPT},
    {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, -ERR_UNSUPPORTED},
    {"{\"a\":{\"dtype\":3,\"shape\":[0],\"data_offsets\":[0,0]}}", 0, -ERR_CORRUPT},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, -ERR_UNSUPPORTED},
    {"{\"a2345678901234567890123456789012\":{\"dtype\":\"F32\",\"shape\":[0],"
     "\"data_offsets\":[0,0]}}",
     0, -ERR_UNSUPPORTED},
    {ONE("[]", "[0,4]"), 4, -ERR_UNSUPPORTED},
    {ONE("[1,1,1]", "[0,4]"), 4, -ERR_UNSUPPORTED},
};

static void test_hostile_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(hostile_headers) / sizeof(hostile_headers[0]); i++) {
        /* Padded, so that only what is wrong is wrong. */
        struct buf header cleanup_buf = BUF_INIT;
        buf_str(&header, hostile_headers[i].header);
        while (header.len % 8 != 0) {
            buf_char(&header, ' ');
        }
        struct tensors t;
        struct err err;
        const int rc =
            open_text(header.data == NULL ? "" : header.data, hostile_headers[i].data, &t, &err);
        if (rc != hostile_headers[i].rc) {
            print_error("case %zu: %s\n", i, hostile_headers[i].header);
        }
        assert_int_equal(rc, hostile_headers[i].rc);
        assert_int_equal(err.code, -rc);
    }
}

static void test_unaligned(void **state)
{
    (void)state;
    struct tensors t;
    struct err err;
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                         "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[4,12]}}";
    struct buf padded cleanup_buf = BUF_INIT;
    buf_str(&padded, header);
    while (padded.len % 8 != 0) {
        buf_char(&padded, ' ');
    }
    assert_int_equal(open_text(padded.data, 12, &t, &err), -ERR_CORRUPT);
    assert_contains(err.detail, "aligned");
}

static void test_lengths(void **state)
{
    (void)state;
    static const unsigned char lengths[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0x80},                      /* 2^63 */
        {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, /* 2^64 - 1 */
        {0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, /* wraps with the 8 bytes */
        {3, 0, 0, 0, 0, 0, 0, 0},                         /* one past the end */
        {1, 0, 0, 4, 0, 0, 0, 0},                         /* one past the limit */
    };
    struct tensors t;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char image[10];
        memcpy(image, lengths[i], 8);
        memcpy(image + 8, "{}", 2);
        assert_int_equal(tensors_open(image, sizeof(image), &t, NULL), -ERR_CORRUPT);
    }
    assert_int_equal(tensors_open(NULL, 0, &t, NULL), -ERR_CORRUPT);
    assert_int_equal(tensors_open("\2\0\0\0\0\0\0", 7, &t, NULL), -ERR_CORRUPT);
}

static void test_truncated(void **state)
{
    (void)state;
    struct tensors t = example();
    struct buf b cleanup_buf = BUF_INIT;
    assert_int_equal(tensors_header(&t, 0, &b, NULL), 0);
    tensors_deinit(&t);
    const size_t whole = b.len + example_data;
    char zeros[256] = {0};
    buf_add(&b, zeros, example_data);
    for (size_t size = 0; size < whole; size++) {
        char *part cleanup_mem = mem_dup(b.data, size > 0 ? size : 1);
        assert_int_equal(tensors_open(part, size, &t, NULL), -ERR_CORRUPT);
    }
}

static void test_many_tensors(void **state)
{
    (void)state;
    for (int count = TENSORS_MAX; count <= TENSORS_MAX + 1; count++) {
        struct buf b cleanup_buf = BUF_INIT;
        for (int i = 0; i < count; i++) {
            buf_printf(&b, "%s\"t%d\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}",
                       i == 0 ? "{" : ",", i);
        }
        buf_str(&b, "}");
        while (b.len % 8 != 0) {
            buf_char(&b, ' ');
        }
        struct tensors t;
        const int rc = open_text(b.data, 0, &t, NULL);
        assert_int_equal(rc, count <= TENSORS_MAX ? 0 : -ERR_UNSUPPORTED);
        if (rc == 0) {
            tensors_deinit(&t);
        }
    }
}

/* What was accepted lies within the image: every byte of it can be read. */
static void check_within(const struct tensors *t, const char *image, size_t size)
{
    for (int i = 0; i < t->count; i++) {
        const struct tensor_info *info = &t->tensor[i];
        const char *data = info->data;
        assert_true(data >= image && info->bytes <= size);
        assert_true((size_t)(data - image) <= size - info->bytes);
        assert_int_equal((uintptr_t)data % dtype_size(info->dtype), 0);
        assert_true(info->bytes ==
                    (size_t)(info->shape[0] * info->shape[1]) * dtype_size(info->dtype));
    }
}

/* Damage anywhere for even i; for odd i in the header's text only, with a length that fits it, so
 * that the damage gets past the first check. */
static char *damaged(struct rng *r, const struct buf *b, size_t header, int i, size_t *ret_size)
{
    if (i % 2 == 0) {
        return mutate(r, b->data, b->len, ret_size);
    }
    size_t len = 0;
    char *text cleanup_mem = mutate(r, b->data + 8, header - 8, &len);
    struct buf out = BUF_INIT;
    buf_add(&out, "\0\0\0\0\0\0\0\0", 8);
    buf_add(&out, text, len);
    while (out.len % 8 != 0) {
        buf_char(&out, ' ');
    }
    for (int k = 0; k < 8; k++) {
        out.data[k] = (char)((out.len - 8) >> (8 * k));
    }
    buf_add(&out, b->data + header, b->len - header);
    char *image = mem_dup(out.data, out.len);
    *ret_size = out.len;
    buf_deinit(&out);
    return image;
}

static void test_mutations(void **state)
{
    (void)state;
    struct tensors t = example();
    struct buf b cleanup_buf = BUF_INIT;
    assert_int_equal(tensors_header(&t, 0, &b, NULL), 0);
    const size_t header = b.len;
    tensors_deinit(&t);
    char zeros[256] = {0};
    buf_add(&b, zeros, example_data);
    struct rng r = rng_new(1, RNG_TEST);
    int accepted = 0;
    for (int i = 0; i < 6000; i++) {
        size_t size = 0;
        char *image cleanup_mem = damaged(&r, &b, header, i, &size);
        const int rc = tensors_open(image, size, &t, NULL);
        assert_true(rc == 0 || rc == -ERR_CORRUPT || rc == -ERR_UNSUPPORTED);
        if (rc == 0) {
            check_within(&t, image, size);
            tensors_deinit(&t);
            accepted++;
        }
    }
    assert_in_range(accepted, 200, 3000); /* Damage to data and metadata is not noticed. */
}

TEST_MAIN(cmocka_unit_test(test_round_trip), cmocka_unit_test(test_reserved_room),
          cmocka_unit_test(test_unwritable), cmocka_unit_test(test_accepted),
          cmocka_unit_test(test_hostile_headers), cmocka_unit_test(test_unaligned),
          cmocka_unit_test(test_lengths), cmocka_unit_test(test_truncated),
          cmocka_unit_test(test_many_tensors), cmocka_unit_test(test_mutations))
