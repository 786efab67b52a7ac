#include "ingest_fixture.h"

static int setup_npy(void **state)
{
    const int r = setup(state);
    struct fixture *f = *state;
    f->options.format = INGEST_NPY;
    return r;
}

#define NPY_TEST(name) cmocka_unit_test_setup_teardown(name, setup_npy, teardown)

static void accept_npy(struct fixture *f, const char *dictionary, const void *data, size_t len)
{
    cleanup_buf struct buf b = BUF_INIT;
    add_npy(&b, dictionary, data, len);
    accept_bytes(f, b.data, b.len);
}

static void refuse_npy(struct fixture *f, const char *dictionary, const void *data, size_t len,
                       enum err_code code, const char *pointer, const char *part)
{
    cleanup_buf struct buf b = BUF_INIT;
    add_npy(&b, dictionary, data, len);
    refuse_bytes(f, b.data, b.len, code, pointer, part);
}

static const double six[] = {1, 2.5, 3, 4, 5, 6.25};

static void test_orders(void **state)
{
    struct fixture *f = *state;
    accept_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }      ", six, 48);
    assert_columns(f, "column0,column1");
    assert_values(f, 1, 2.5, 3, 4, 5, 6.25);
    assert_int_equal(f->info.target_columns[0], 1);
    assert_int_equal(f->info.dtype, DTYPE_F64);
    accept_npy(f, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2), }", six, 48);
    assert_values(f, 1, 4, 2.5, 5, 3, 6.25);
    accept_npy(f, "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f8\"}", six, 48);
    assert_values(f, 1, 2.5, 3, 4, 5, 6.25);
}

static void test_versions(void **state)
{
    struct fixture *f = *state;
    static const char dictionary[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)}\n";
    for (int version = 0; version <= 4; version++) {
        cleanup_buf struct buf b = BUF_INIT;
        const size_t len = sizeof(dictionary) - 1;
        buf_add(&b, "\x93NUMPY", 6);
        buf_char(&b, (char)version);
        buf_char(&b, 0);
        buf_char(&b, (char)len);
        buf_add(&b, "\0\0", version < 2 ? 1 : 3);
        if (version >= 2) {
            b.data[9] = 0;
        }
        buf_add(&b, dictionary, len);
        buf_add(&b, six, sizeof(six));
        if (version >= 1 && version <= 3) {
            accept_bytes(f, b.data, b.len);
            assert_values(f, 1, 2.5, 3, 4, 5, 6.25);
        } else {
            refuse_bytes(f, b.data, b.len, ERR_UNSUPPORTED, "#/header", "NPY version");
        }
    }
}

/* Every element type, with values at the ends of its range. */
static const struct {
    const char *descr;
    enum dtype dtype;
    const void *data;
    size_t len;
    double value[4];
} elements[] = {
    {"|b1", DTYPE_F32, "\0\1\1\0", 4, {0, 1, 1, 0}},
    {"|i1", DTYPE_F32, "\x80\x7f\xff\0", 4, {-128, 127, -1, 0}},
    {"|u1", DTYPE_F32, "\x80\xff\x01\0", 4, {128, 255, 1, 0}},
    {"<i2", DTYPE_F32, "\0\x80\xff\x7f\xff\xff\0\0", 8, {-32768, 32767, -1, 0}},
    {">i2", DTYPE_F32, "\x80\0\x7f\xff\xff\xff\0\1", 8, {-32768, 32767, -1, 1}},
    {"<u2", DTYPE_F32, "\0\x80\xff\xff\x01\0\0\0", 8, {32768, 65535, 1, 0}},
    {"<i4",
     DTYPE_F64,
     (const int32_t[]){INT32_MIN, INT32_MAX, -1, 7},
     16,
     {INT32_MIN, INT32_MAX, -1, 7}},
    {"<u4", DTYPE_F64, (const uint32_t[]){UINT32_MAX, 5, 1, 0}, 16, {UINT32_MAX, 5, 1, 0}},
    {"<i8",
     DTYPE_F64,
     (const int64_t[]){-(INT64_C(1) << 53), INT64_C(1) << 53, -1, 0},
     32,
     {-9007199254740992.0, 9007199254740992.0, -1, 0}},
    {"<u8",
     DTYPE_F64,
     (const uint64_t[]){UINT64_C(1) << 53, 3, 2, 0},
     32,
     {9007199254740992.0, 3, 2, 0}},
    {"<f2", DTYPE_F32, "\0\x3c\xff\x7b\1\0\0\xc1", 8, {1, 65504, 0x1p-24, -2.5}},
    {">f2", DTYPE_F32, "\x3c\0\x7b\xff\0\1\x04\0", 8, {1, 65504, 0x1p-24, 0x1p-14}},
    {"<f4", DTYPE_F32, (const float[]){0.1f, -3.4e38f, 1e-45f, 2}, 16, {0.1f, -3.4e38f, 1e-45f, 2}},
    {">f4", DTYPE_F32, "\x3f\x80\0\0\xc0\0\0\0\x40\x40\0\0\0\0\0\0", 16, {1, -2, 3, 0}},
    {"<f8", DTYPE_F64, (const double[]){0.1, -1.7e308, 5e-324, 2}, 32, {0.1, -1.7e308, 5e-324, 2}},
    {">f8",
     DTYPE_F64,
     "\x3f\xf0\0\0\0\0\0\0\x3f\xb9\x99\x99\x99\x99\x99\x9a"
     "\x40\0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0",
     32,
     {1, 0.1, 2, -2}},
};

static void test_elements(void **state)
{
    struct fixture *f = *state;
    f->options.task = TASK_REGRESSION;
    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
        char dictionary[128];
        snprintf(dictionary, sizeof(dictionary),
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2, 2), }", elements[i].descr);
        accept_npy(f, dictionary, elements[i].data, elements[i].len);
        assert_int_equal(f->info.dtype, elements[i].dtype);
        const double *v = elements[i].value;
        assert_values(f, v[0], v[1], v[2], v[3]);
    }
}

static void test_values_refused(void **state)
{
    struct fixture *f = *state;
    const double bad[] = {1, 2, 3, NAN, 5, 6};
    const char *c_order = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }";
    refuse_npy(f, c_order, bad, 48, ERR_INVALID, "#/row/1/column/1",
               "Row 1, column 1 of the file (counted from 0): the value is not finite.");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2), }", bad, 48,
               ERR_INVALID, "#/row/0/column/1", "not finite");
    const float infinite[] = {1, 2, 3, 4, 5, -INFINITY};
    refuse_npy(f, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", infinite, 24,
               ERR_INVALID, "#/row/2/column/1", "not finite");
    refuse_npy(f, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1), }", "\0\x7c\0\0", 4,
               ERR_INVALID, "#/target", "leave no column");
    refuse_npy(f, "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }", "\0\0\0\x7c", 4,
               ERR_INVALID, "#/row/0/column/1", "not finite");
    const int64_t large[] = {1, 2, (INT64_C(1) << 53) + 1, 4};
    refuse_npy(f, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", large, 32,
               ERR_INVALID, "#/row/1/column/0", "too large for a float64");
    const uint64_t largest[] = {1, 2, 3, UINT64_MAX};
    refuse_npy(f, "{'descr': '<u8', 'fortran_order': False, 'shape': (2, 2), }", largest, 32,
               ERR_INVALID, "#/row/1/column/1", "too large for a float64");
}

/* The header may lie about the size: nothing is allocated for what is not there. */
static void test_size(void **state)
{
    struct fixture *f = *state;
    static const char *const shapes[] = {"(3, 3)",
                                         "(2, 2)",
                                         "(4611686018427387904, 2)",
                                         "(9223372036854775807, 9223372036854775807)",
                                         "(0, 2)",
                                         "(2, 0)"};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char dictionary[160];
        snprintf(dictionary, sizeof(dictionary),
                 "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shapes[i]);
        refuse_npy(f, dictionary, six, 48, ERR_INVALID, "#/header/shape", "but 48 bytes follow it");
    }
    const char *honest = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }";
    refuse_npy(f, honest, six, 47, ERR_INVALID, "#/header/shape", "declares 3 x 2 elements");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2), }", six, 0,
               ERR_INVALID, "#/rows", "no data rows");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 0), }", six, 0,
               ERR_INVALID, "#/header/shape", "no table");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 6), }", six, 48,
               ERR_INVALID, "#/rows", "at least two rows");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", six, 48, ERR_INVALID,
               "#/header/shape", "no table");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1, 2), }", six, 48,
               ERR_INVALID, "#/header/shape", "3 dimensions");
    refuse_npy(f, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", six, 8, ERR_INVALID,
               "#/header/shape", "0 dimensions");
}

static void test_header_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *dictionary;
        enum err_code code;
        const char *pointer, *part;
    } cases[] = {
        {"", ERR_PARSE, "#/header", "no dictionary"},
        {"{}", ERR_PARSE, "#/header", "lacks"},
        {"{'descr': '<f8', 'shape': (3, 2)}", ERR_PARSE, "#/header", "lacks"},
        {"{'descr': '<f8', 'descr': '<f8'}", ERR_PARSE, "#/header", "unknown key, or one twice"},
        {"{'descr': '<f8', 'x': 1}", ERR_PARSE, "#/header", "unknown key"},
        {"{'descr': '<f8' 'shape': (3, 2)}", ERR_PARSE, "#/header", "no dictionary"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), } x", ERR_PARSE, "#/header",
         "goes on"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)", ERR_PARSE, "#/header",
         "no dictionary"},
        {"{'descr': '<f8', 'fortran_order': 0, 'shape': (3, 2), }", ERR_PARSE,
         "#/header/fortran_order", "neither True nor False"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': [3, 2], }", ERR_PARSE, "#/header/shape",
         "no tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, -2), }", ERR_PARSE,
         "#/header/shape", "no tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3 2), }", ERR_PARSE, "#/header/shape",
         "no tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2*1), }", ERR_PARSE,
         "#/header/shape", "no tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 2), }",
         ERR_PARSE, "#/header/shape", "no tuple"},
        {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "structured"},
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "\"<U5\""},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "\"|O\""},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "\"<c8\""},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "\"<f16\""},
        {"{'descr': 'f8', 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "\"f8\""},
        {"{'descr': '|f8', 'fortran_order': False, 'shape': (3, 2), }", ERR_UNSUPPORTED,
         "#/header/descr", "\"|f8\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse_npy(f, cases[i].dictionary, six, 48, cases[i].code, cases[i].pointer, cases[i].part);
    }
    refuse_text(f, "a,b\n1,2\n3,4\n", ERR_PARSE, "#/header", "no NPY array");
    refuse_text(f, "\x93NUMPY", ERR_PARSE, "#/header", "no NPY array");
    refuse_bytes(f, "\x93NUMPY\2\0\1\0", 10, ERR_PARSE, "#/header", "truncated");
    refuse_bytes(f, "\x93NUMPY\1\0\xff\xff{}", 12, ERR_PARSE, "#/header", "truncated");
    refuse_bytes(f, "\x93NUMPY\2\0\0\0\0\1{}", 14, ERR_PARSE, "#/header", "longer than 64 KiB");
}

static void test_options(void **state)
{
    struct fixture *f = *state;
    const char *c_order = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }";
    f->options.targets = (const char *const[]){"column0"};
    f->options.target_count = 1;
    accept_npy(f, c_order, six, 48);
    assert_int_equal(f->info.target_columns[0], 0);
    f->options.max_columns = 1;
    refuse_npy(f, c_order, six, 48, ERR_TOO_LARGE, "#/header/shape", "limit of 1");
    f->options.max_columns = 2;
    f->options.max_rows = 2;
    refuse_npy(f, c_order, six, 48, ERR_TOO_LARGE, "", "limit of 2 rows");
}

/* More than one block, in both orders. */
static void test_many_rows(void **state)
{
    struct fixture *f = *state;
    const int64_t rows = 50001;
    const int64_t columns = 7;
    float *data = mem_array((size_t)(rows * columns), sizeof(*data));
    for (int fortran = 0; fortran < 2; fortran++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                data[fortran ? j * rows + i : i * columns + j] = (float)(i * 10 + j);
            }
        }
        char dictionary[160];
        snprintf(dictionary, sizeof(dictionary),
                 "{'descr': '<f4', 'fortran_order': %s, 'shape': (%d, %d), }",
                 fortran ? "True" : "False", (int)rows, (int)columns);
        accept_npy(f, dictionary, data, (size_t)(rows * columns) * sizeof(*data));
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                assert_same_bits(dataset_at(f->data, i, j), (double)(i * 10 + j));
            }
        }
    }
    mem_free(data);
}

TEST_MAIN(NPY_TEST(test_orders), NPY_TEST(test_versions), NPY_TEST(test_elements),
          NPY_TEST(test_values_refused), NPY_TEST(test_size), NPY_TEST(test_header_refused),
          NPY_TEST(test_options), NPY_TEST(test_many_rows))
