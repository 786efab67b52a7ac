#include "ingest/ingest.h"

#include "ingest_fixture.h"

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type;
        enum ingest_format format;
    } known[] = {
        {"csv", "text/csv", INGEST_CSV},
        {"csv", "Text/CSV; charset=utf-8; header=present", INGEST_CSV},
        {"libsvm", "text/x-libsvm", INGEST_LIBSVM},
        {"npy", " application/x-npy ", INGEST_NPY},
        {"npz", "application/x-npz;a=b", INGEST_NPZ},
    };
    struct err err = {.code = ERR_OK};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        enum ingest_format format = INGEST_NPY;
        assert_int_equal(ingest_format_parse(known[i].name, &format, &err), 0);
        assert_int_equal(format, known[i].format);
        format = INGEST_NPY;
        assert_int_equal(ingest_format_from_type(known[i].type, &format, &err), 0);
        assert_int_equal(format, known[i].format);
    }
    enum ingest_format format = INGEST_NPZ;
    assert_int_equal(ingest_format_parse("CSV", &format, &err), -ERR_INVALID);
    assert_string_equal(err.pointer, "#/format");
    assert_contains(err.detail, "csv, libsvm, npy and npz");
    static const char *const unknown[] = {"", "text/cs", "text/csvx", "application/json", ";"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(ingest_format_from_type(unknown[i], &format, &err), -ERR_UNSUPPORTED);
        assert_contains(err.detail, "text/csv, text/x-libsvm");
    }
    assert_int_equal(format, INGEST_NPZ);
}

/* A path that cannot be read or written is an error without the path in its sentence. */
static void test_paths(void **state)
{
    struct fixture *f = *state;
    const int r = ingest_file(f->in, f->out, &f->options, &f->info, &f->err);
    assert_int_equal(r, -ERR_IO);
    assert_null(strstr(f->err.detail, f->dir));
    write_file(f->in, "a,y\n1,2\n3,4\n", 12);
    char nowhere[256];
    snprintf(nowhere, sizeof(nowhere), "%s/none/data", f->dir);
    assert_int_equal(ingest_file(f->in, nowhere, &f->options, &f->info, &f->err), -ERR_IO);
    assert_null(strstr(f->err.detail, f->dir));
}

/* The output replaces what was there, at once and only on success. */
static void test_replaces(void **state)
{
    struct fixture *f = *state;
    accept_text(f, "a,y\n1,2.5\n3,4\n");
    write_file(f->in, "a,y\n1,2.5\n3,x\n", 14);
    struct dataset_info info = {.rows = -1};
    assert_true(ingest_file(f->in, f->out, &f->options, &info, &f->err) < 0);
    assert_int_equal(info.rows, -1);
    f->data = dataset_free(f->data);
    assert_int_equal(dataset_open(f->out, &f->data, &f->err), 0);
    assert_values(f, 1, 2.5, 3, 4);
}

static void test_default_prefix(void **state)
{
    struct fixture *f = *state;
    f->options.temporary_prefix = NULL;
    accept_text(f, "a,y\n1,2.5\n3,4\n");
    assert_values(f, 1, 2.5, 3, 4);
}

/* Small uploads may unpack to anything below the free amount, larger ones to a multiple of their
 * size, and never to more than the server allows. */
static void test_unpack_limit(void **state)
{
    (void)state;
    struct ingest_options o = {.max_unpacked_bytes = (int64_t)64 << 30};
    assert_int_equal(ingest_unpack_limit(0, &o).bytes, INGEST_EXPANSION_FREE);
    assert_int_equal(ingest_unpack_limit(1000, &o).bytes, INGEST_EXPANSION_FREE);
    assert_int_equal(ingest_unpack_limit(4 << 20, &o).bytes, (int64_t)800 << 20);
    assert_int_equal(ingest_unpack_limit((int64_t)1 << 30, &o).bytes, o.max_unpacked_bytes);
    assert_int_equal(ingest_unpack_limit(INT64_MAX, &o).bytes, o.max_unpacked_bytes);
    o.max_unpacked_bytes = 1000;
    assert_int_equal(ingest_unpack_limit(10, &o).bytes, 1000);
}

TEST_MAIN(cmocka_unit_test(test_unpack_limit), cmocka_unit_test(test_formats),
          INGEST_TEST(test_paths), INGEST_TEST(test_replaces), INGEST_TEST(test_default_prefix))
