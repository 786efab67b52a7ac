#include "base/utf8.h"
#include "ingest_fixture.h"

static int setup_npz(void **state)
{
    const int r = setup(state);
    struct fixture *f = *state;
    f->options.format = INGEST_NPZ;
    return r;
}

#define NPZ_TEST(name) cmocka_unit_test_setup_teardown(name, setup_npz, teardown)

static const float x_values[] = {1, 2, 3, 4, 5, 6};
static const float y_values[] = {0.5f, 1.5f, 2.5f};

struct members {
    struct buf x, y, other;
};

static struct members make_members(void)
{
    struct members m = {.x = BUF_INIT, .y = BUF_INIT, .other = BUF_INIT};
    add_npy(&m.x, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", x_values, 24);
    add_npy(&m.y, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", y_values, 12);
    buf_str(&m.other, "whatever");
    return m;
}

static void free_members(struct members *m)
{
    buf_deinit(&m->x);
    buf_deinit(&m->y);
    buf_deinit(&m->other);
}

/* The archive's bytes, owned by the caller. */
static struct buf pack(struct fixture *f, const struct member *members, int count, int method)
{
    struct buf b = BUF_INIT;
    add_zip(f, &b, members, count, method);
    return b;
}

static void accept_pair(struct fixture *f, const struct buf *x, const struct buf *y, int method)
{
    cleanup_buf struct buf b =
        pack(f, (const struct member[]){{"X.npy", x}, {"y.npy", y}}, 2, method);
    accept_bytes(f, b.data, b.len);
}

static void refuse_pair(struct fixture *f, const struct buf *x, const struct buf *y,
                        enum err_code code, const char *pointer, const char *part)
{
    cleanup_buf struct buf b =
        pack(f, (const struct member[]){{"X.npy", x}, {"y.npy", y}}, 2, ZIP_CM_DEFLATE);
    refuse_bytes(f, b.data, b.len, code, pointer, part);
}

/* y: n texts, each `size` bytes. */
static struct buf texts(const char *descr, int n, const void *data, size_t size)
{
    struct buf b = BUF_INIT;
    char dictionary[128];
    snprintf(dictionary, sizeof(dictionary),
             "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", descr, n);
    add_npy(&b, dictionary, data, (size_t)n * size);
    return b;
}

static const uint32_t three_texts[3][3] = {{'b', 0xFC, 'a'}, {' ', 'a', 0}, {'a', 0, 0}};

static void test_text_classes(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf u = texts("<U3", 3, three_texts, 12);
    accept_pair(f, &m.x, &u, ZIP_CM_DEFLATE);
    assert_columns(f, "x0,x1,y");
    assert_int_equal(f->info.task, TASK_CLASSIFICATION);
    assert_int_equal(f->info.dtype, DTYPE_F32);
    assert_classes(f, "a,b\xc3\xbc"
                      "a");
    assert_values(f, 1, 2, 1, 3, 4, 0, 5, 6, 0);
    cleanup_buf struct buf s = texts("|S2", 3, "109\0z\0", 2);
    accept_pair(f, &m.x, &s, ZIP_CM_STORE);
    assert_classes(f, "10,9,z");
    uint32_t swapped[3][3];
    for (int i = 0; i < 9; i++) {
        swapped[i / 3][i % 3] = __builtin_bswap32(three_texts[i / 3][i % 3]);
    }
    cleanup_buf struct buf big = texts(">U3", 3, swapped, 12);
    accept_pair(f, &m.x, &big, ZIP_CM_DEFLATE);
    assert_classes(f, "a,b\xc3\xbc"
                      "a");
    f->options.ignored = (const char *const[]){"y"};
    f->options.ignored_count = 1;
    accept_pair(f, &m.x, &u, ZIP_CM_DEFLATE);
    assert_columns(f, "x0,x1");
    free_members(&m);
}

static void refuse_texts(struct fixture *f, const char *descr, const void *data, size_t size,
                         enum err_code code, const char *pointer, const char *part)
{
    struct members m = make_members();
    cleanup_buf struct buf y = texts(descr, 3, data, size);
    refuse_pair(f, &m.x, &y, code, pointer, part);
    free_members(&m);
}

static void test_refused_texts(void **state)
{
    struct fixture *f = *state;
    static const uint32_t surrogate[3] = {'a', 'b', 0xD800}, beyond[3] = {'a', 0x110000, 'c'};
    refuse_texts(f, "<U1", surrogate, 4, ERR_INVALID, "#/y/row/2/column/0", "is no Unicode");
    refuse_texts(f, "<U1", beyond, 4, ERR_INVALID, "#/y/row/1/column/0",
                 "Row 1, column 0 of member y (counted from 0): the text is no Unicode.");
    refuse_texts(f, "|S1", "a\0b", 1, ERR_INVALID, "#/y/row/1/column/0", "the text \"\" is empty");
    refuse_texts(f, "|S1",
                 "a\xff"
                 "b",
                 1, ERR_INVALID, "#/y/row/1/column/0", "is not UTF-8");
    refuse_texts(f, "|S3", "a\0bccc\0\0d", 3, ERR_INVALID, "#/y/row/0/column/0", "holds a NUL");
    refuse_texts(f, "|S1", "aaa", 1, ERR_INVALID, "#/target", "one class only");
    refuse_texts(f, "|S2", "aaa", 1, ERR_INVALID, "#/y/header/shape", "3 x 1 elements of 2 bytes");
    refuse_texts(f, "|S0", "", 0, ERR_UNSUPPORTED, "#/y/header/descr", "texts of a fixed width");
    refuse_texts(f, "|O", "", 0, ERR_UNSUPPORTED, "#/y/header/descr", "not object");
    refuse_texts(f, "<U99999999999999999999", "", 0, ERR_UNSUPPORTED, "#/y/header/descr", "fixed");
    refuse_texts(f, "|U1", three_texts, 12, ERR_UNSUPPORTED, "#/y/header/descr", "fixed");
    cleanup_buf struct buf longer = BUF_INIT;
    for (int i = 0; i < 3 * 257; i++) {
        buf_char(&longer, 'a');
    }
    refuse_texts(f, "|S257", longer.data, 257, ERR_INVALID, "#/y/row/0/column/0", "256 bytes");
    f->options.task = TASK_REGRESSION;
    refuse_texts(f, "|S1", "abc", 1, ERR_INVALID, "#/y/header/descr", "of a classification");
    f->options.task = TASK_AUTO;
    f->options.targets = (const char *const[]){"x0"};
    f->options.target_count = 1;
    refuse_texts(f, "|S1", "abc", 1, ERR_INVALID, "#/y/header/descr", "of a classification");
}

/* X stays one of numbers, and so does every array elsewhere; classes are counted. */
static void test_text_limits(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf text_x = BUF_INIT, x = BUF_INIT, y = BUF_INIT, labels = BUF_INIT;
    add_npy(&text_x, "{'descr': '|S1', 'fortran_order': False, 'shape': (3, 2), }", "abcdef", 6);
    refuse_pair(f, &text_x, &m.y, ERR_UNSUPPORTED, "#/X/header/descr",
                "\"|S1\"; bool, integers of "
                "8 to 64 bits and floats of 16 to 64 bits are supported.");
    add_npy(&y, "{'descr': '|S1', 'fortran_order': False, 'shape': (3, 2), }", "abcdef", 6);
    refuse_pair(f, &m.x, &y, ERR_INVALID, "#/y/header/descr", "the one target");
    for (int i = 0; i < 1001; i++) {
        buf_printf(&labels, "%04d", i);
    }
    cleanup_buf struct buf many = texts("|S4", 1001, labels.data, 4);
    add_npy(&x, "{'descr': '|u1', 'fortran_order': False, 'shape': (1001, 1), }", labels.data,
            1001);
    refuse_pair(f, &x, &many, ERR_TOO_LARGE, "#/y", "Member y has more than 1000 distinct texts.");
    free_members(&m);
}

static void test_pair(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    for (int deflated = 0; deflated < 2; deflated++) {
        accept_pair(f, &m.x, &m.y, deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE);
        assert_columns(f, "x0,x1,y");
        assert_values(f, 1, 2, 0.5, 3, 4, 1.5, 5, 6, 2.5);
        assert_int_equal(f->info.dtype, DTYPE_F32);
        assert_int_equal(f->info.task, TASK_REGRESSION);
        assert_int_equal(f->info.target_columns[0], 2);
        assert_int_equal(f->info.warnings, 0);
    }
    free_members(&m);
}

static void test_shapes_of_y(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf one = BUF_INIT;
    add_npy(&one, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }", y_values, 12);
    accept_pair(f, &m.x, &one, ZIP_CM_DEFLATE);
    assert_columns(f, "x0,x1,y");
    cleanup_buf struct buf two = BUF_INIT;
    add_npy(&two, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", x_values, 24);
    accept_pair(f, &m.x, &two, ZIP_CM_DEFLATE);
    assert_columns(f, "x0,x1,y0,y1");
    assert_int_equal(f->info.targets, 2);
    assert_int_equal(f->info.target_columns[0], 2);
    assert_int_equal(f->info.target_columns[1], 3);
    assert_values(f, 1, 2, 1, 4, 3, 4, 2, 5, 5, 6, 3, 6);
    f->options.targets = (const char *const[]){"y1"};
    f->options.target_count = 1;
    accept_pair(f, &m.x, &two, ZIP_CM_DEFLATE);
    assert_int_equal(f->info.targets, 1);
    assert_int_equal(f->info.target_columns[0], 3);
    free_members(&m);
}

/* Labels in an integer array; float64 in either member makes the data set float64. */
static void test_types(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf x = BUF_INIT;
    cleanup_buf struct buf y = BUF_INIT;
    cleanup_buf struct buf wide = BUF_INIT;
    add_npy(&x, "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 1), }", x_values, 24);
    add_npy(&y, "{'descr': '|i1', 'fortran_order': False, 'shape': (6,), }", "\7\3\3\7\3\7", 6);
    accept_pair(f, &x, &y, ZIP_CM_DEFLATE);
    assert_int_equal(f->info.dtype, DTYPE_F32);
    assert_int_equal(f->info.task, TASK_CLASSIFICATION);
    assert_classes(f, "3,7");
    assert_values(f, 1, 1, 2, 0, 3, 0, 4, 1, 5, 0, 6, 1);
    add_npy(&wide, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }",
            (const int64_t[]){1000, 2, 3}, 24);
    accept_pair(f, &m.x, &wide, ZIP_CM_DEFLATE);
    assert_int_equal(f->info.dtype, DTYPE_F64);
    assert_values(f, 1, 2, 1000, 3, 4, 2, 5, 6, 3);
    free_members(&m);
}

static void test_other_members(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf b = pack(
        f, (const struct member[]){{"a.npy", &m.other}, {"X", &m.x}, {"y", &m.y}, {"b", &m.other}},
        4, ZIP_CM_DEFLATE);
    accept_bytes(f, b.data, b.len);
    assert_int_equal(f->info.warnings, 1);
    assert_string_equal(f->info.warning_texts[0],
                        "Members other than X and y were ignored: \"a.npy\", \"b\".");
    cleanup_buf struct buf no_y =
        pack(f, (const struct member[]){{"X.npy", &m.x}, {"Y.npy", &m.y}}, 2, ZIP_CM_DEFLATE);
    refuse_bytes(f, no_y.data, no_y.len, ERR_INVALID, "#/y",
                 "The archive has no member y; it holds \"X.npy\", \"Y.npy\".");
    cleanup_buf struct buf no_x =
        pack(f, (const struct member[]){{"y.npy", &m.y}}, 1, ZIP_CM_DEFLATE);
    refuse_bytes(f, no_x.data, no_x.len, ERR_INVALID, "#/X", "no member X");
    cleanup_buf struct buf twice =
        pack(f, (const struct member[]){{"X.npy", &m.x}, {"y.npy", &m.y}, {"y", &m.y}}, 3,
             ZIP_CM_DEFLATE);
    refuse_bytes(f, twice.data, twice.len, ERR_INVALID, "#/y", "the member y twice");
    free_members(&m);
}

#define PILE "\xf0\x9f\x92\xa9" /* U+1F4A9 */
#define PILES PILE PILE PILE PILE PILE PILE PILE PILE PILE PILE PILE PILE PILE PILE PILE

/* A list of names that is cut short is cut between characters. */
static void test_long_member_names(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    static const char *const starts[] = {"", "a", "ab", "abc"};
    for (int i = 0; i < 4; i++) {
        struct member members[6];
        char name[6][80];
        for (int j = 0; j < 6; j++) {
            snprintf(name[j], sizeof(name[j]), "%s%d" PILES, j == 0 ? starts[i] : "", j);
            members[j] = (struct member){name[j], &m.other};
        }
        cleanup_buf struct buf b = pack(f, members, 6, ZIP_CM_STORE);
        refuse_bytes(f, b.data, b.len, ERR_INVALID, "#/X", "no member X; it holds");
        const char *text = f->err.detail;
        assert_true(strlen(text) > 300);
        for (size_t at = 0, left = strlen(text), step; left > 0; at += step, left -= step) {
            step = utf8_step(text + at, left);
            assert_true(step > 0);
        }
    }
    free_members(&m);
}

static void test_arrays_refused(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf flat = BUF_INIT;
    add_npy(&flat, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", x_values, 24);
    refuse_pair(f, &flat, &m.y, ERR_INVALID, "#/X/header/shape", "Member X is no table");
    refuse_pair(f, &m.x, &flat, ERR_INVALID, "#/y/header/shape",
                "Member X has 3 rows, but member y has 6.");
    refuse_pair(f, &m.x, &m.other, ERR_PARSE, "#/y/header",
                "The contents of member y are no NPY array");
    cleanup_buf struct buf lying = BUF_INIT;
    add_npy(&lying, "{'descr': '<f4', 'fortran_order': False, 'shape': (300, 2), }", x_values, 24);
    refuse_pair(f, &lying, &m.y, ERR_INVALID, "#/X/header/shape", "of member X declares 300 x 2");
    cleanup_buf struct buf text = BUF_INIT;
    add_npy(&text, "{'descr': '<M8', 'fortran_order': False, 'shape': (3,), }", x_values, 24);
    refuse_pair(f, &m.x, &text, ERR_UNSUPPORTED, "#/y/header/descr", "\"<M8\"");
    const float bad[] = {1, NAN, 3};
    cleanup_buf struct buf nan = BUF_INIT;
    add_npy(&nan, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", bad, 12);
    refuse_pair(f, &m.x, &nan, ERR_INVALID, "#/y/row/1/column/0",
                "Row 1, column 0 of member y (counted from 0): the value is not finite.");
    cleanup_buf struct buf none = BUF_INIT;
    add_npy(&none, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0), }", bad, 0);
    refuse_pair(f, &m.x, &none, ERR_INVALID, "#/y/header/shape", "no columns");
    cleanup_buf struct buf no_rows_x = BUF_INIT;
    cleanup_buf struct buf no_rows_y = BUF_INIT;
    add_npy(&no_rows_x, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", bad, 0);
    add_npy(&no_rows_y, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", bad, 0);
    refuse_pair(f, &no_rows_x, &no_rows_y, ERR_INVALID, "#/rows", "no data rows");
    free_members(&m);
}

static void test_archive_refused(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    refuse_text(f, "", ERR_INVALID, "#", "empty");
    refuse_text(f, "x", ERR_PARSE, "", "no ZIP archive");
    refuse_text(f, "a,b\n1,2\n3,4\n5,6\n7,8\n9,10\n", ERR_PARSE, "", "no ZIP archive");
    refuse_bytes(f, m.x.data, m.x.len, ERR_PARSE, "", "no ZIP archive");
    cleanup_buf struct buf b =
        pack(f, (const struct member[]){{"X.npy", &m.x}, {"y.npy", &m.y}}, 2, ZIP_CM_STORE);
    for (size_t len = 1; len < b.len; len += 7) {
        assert_int_equal(ingest(f, b.data, len), -ERR_PARSE);
    }
    char *value = memmem(b.data, b.len, x_values, sizeof(x_values));
    assert_non_null(value);
    value[0] ^= 1;
    refuse_bytes(f, b.data, b.len, ERR_PARSE, "#/X", "The member \"X.npy\" is damaged");
    free_members(&m);
}

static void test_encrypted(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    write_zip(f->in, (const struct member[]){{"X.npy", &m.x}, {"y.npy", &m.y}}, 2, ZIP_CM_DEFLATE);
    int code = 0;
    zip_t *zip = zip_open(f->in, 0, &code);
    assert_non_null(zip);
    assert_int_equal(zip_file_set_encryption(zip, 1, ZIP_EM_AES_256, "secret"), 0);
    assert_int_equal(zip_close(zip), 0);
    char *data = NULL;
    size_t len = 0;
    assert_int_equal(file_read_all(f->in, 100000, &data, &len, NULL), 0);
    refuse_bytes(f, data, len, ERR_UNSUPPORTED, "#/y", "The member \"y.npy\" is encrypted");
    mem_free(data);
    free_members(&m);
}

/* What comes out counts, for both members together, to the byte. */
static void test_unpacked_limit(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    f->options.max_unpacked_bytes = (int64_t)(m.x.len + m.y.len);
    accept_pair(f, &m.x, &m.y, ZIP_CM_DEFLATE);
    f->options.max_unpacked_bytes--;
    refuse_pair(f, &m.x, &m.y, ERR_TOO_LARGE, "#/y", "unpacks to more than the limit");
    free_members(&m);
}

/* A deflated megabyte of zeros whose declared size is a lie in both places. */
static void test_lying_size(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    const size_t size = (size_t)4 << 20;
    cleanup_buf struct buf zeros = BUF_INIT;
    char *data = mem_zalloc(size);
    add_npy(&zeros, "{'descr': '|b1', 'fortran_order': False, 'shape': (2097152, 2), }", data,
            size);
    mem_free(data);
    cleanup_buf struct buf b =
        pack(f, (const struct member[]){{"X.npy", &zeros}, {"y.npy", &m.y}}, 2, ZIP_CM_DEFLATE);
    refuse_bytes(f, b.data, b.len, ERR_TOO_LARGE, "#/X", "more than the limit of 1048576 bytes");
    const uint32_t truth = (uint32_t)zeros.len;
    const uint32_t lie = 100;
    int changed = 0;
    for (char *p = b.data; (p = memmem(p, (size_t)(b.data + b.len - p), &truth, 4)) != NULL; p++) {
        memcpy(p, &lie, 4);
        changed++;
    }
    assert_true(changed >= 1);
    const int r = ingest(f, b.data, b.len);
    assert_true(r == -ERR_TOO_LARGE || r == -ERR_PARSE);
    free_members(&m);
}

static void test_many_members(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    static char names[1001][16];
    static struct member list[1001];
    for (int i = 0; i < 1001; i++) {
        snprintf(names[i], sizeof(names[i]), "m%d.npy", i);
        list[i] = (struct member){names[i], &m.other};
    }
    list[3] = (struct member){"X.npy", &m.x};
    list[4] = (struct member){"y.npy", &m.y};
    cleanup_buf struct buf most = pack(f, list, 1000, ZIP_CM_STORE);
    accept_bytes(f, most.data, most.len);
    assert_contains(f->info.warning_texts[0], "\"m9.npy\", \xe2\x80\xa6.");
    cleanup_buf struct buf more = pack(f, list, 1001, ZIP_CM_STORE);
    refuse_bytes(f, more.data, more.len, ERR_TOO_LARGE, "", "more than 1000 members");
    free_members(&m);
}

/* The end record, or its 64-bit form, declares a directory that would fill the memory. */
static void test_large_directory(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    cleanup_buf struct buf b =
        pack(f, (const struct member[]){{"X.npy", &m.x}, {"y.npy", &m.y}}, 2, ZIP_CM_STORE);
    unsigned char *end = (unsigned char *)b.data + b.len - 22;
    assert_memory_equal(end, "PK\5\6", 4);
    end[12 + 3] = 1; /* 16 MiB and more */
    refuse_bytes(f, b.data, b.len, ERR_TOO_LARGE, "", "directory of the ZIP archive is too large");
    cleanup_buf struct buf z64 = BUF_INIT;
    unsigned char end64[56] = "PK\6\6";
    end64[40 + 3] = 1;
    unsigned char locator[20] = "PK\6\7";
    const uint64_t offset = b.len - 22;
    memcpy(locator + 8, &offset, 8);
    buf_add(&z64, b.data, b.len - 22);
    buf_add(&z64, end64, sizeof(end64));
    buf_add(&z64, locator, sizeof(locator));
    end[12 + 3] = 0;
    buf_add(&z64, end, 22);
    refuse_bytes(f, z64.data, z64.len, ERR_TOO_LARGE, "", "too large");
    memset(z64.data + b.len - 22 + 56 + 8, 0xff, 8);
    refuse_bytes(f, z64.data, z64.len, ERR_PARSE, "", "damaged");
    free_members(&m);
}

static void test_limits(void **state)
{
    struct fixture *f = *state;
    struct members m = make_members();
    f->options.max_columns = 3;
    f->options.max_rows = 3;
    accept_pair(f, &m.x, &m.y, ZIP_CM_DEFLATE);
    f->options.max_columns = 2;
    refuse_pair(f, &m.x, &m.y, ERR_TOO_LARGE, "#/X/header/shape", "limit of 2");
    f->options.max_columns = 3;
    f->options.max_rows = 2;
    refuse_pair(f, &m.x, &m.y, ERR_TOO_LARGE, "", "limit of 2 rows");
    free_members(&m);
}

TEST_MAIN(NPZ_TEST(test_text_classes), NPZ_TEST(test_refused_texts), NPZ_TEST(test_text_limits),
          NPZ_TEST(test_pair), NPZ_TEST(test_shapes_of_y), NPZ_TEST(test_types),
          NPZ_TEST(test_other_members), NPZ_TEST(test_long_member_names),
          NPZ_TEST(test_arrays_refused), NPZ_TEST(test_archive_refused), NPZ_TEST(test_encrypted),
          NPZ_TEST(test_unpacked_limit), NPZ_TEST(test_lying_size), NPZ_TEST(test_many_members),
          NPZ_TEST(test_large_directory), NPZ_TEST(test_limits))
