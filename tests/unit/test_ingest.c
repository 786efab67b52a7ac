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

/* Leaves as the piece is about to be written before which it was asked so often. */
struct client {
    atomic_bool left;
    int pieces; /* left to ask for */
};

static int leave_at_piece(void *context, int fd, int64_t bytes, struct err *err)
{
    struct client *c = context;
    assert_true(bytes > 0 && fd >= 0);
    (void)err;
    assert_true(c->pieces >= 0); /* nobody asks for another when it has left */
    if (c->pieces-- == 0) {
        atomic_store(&c->left, true);
    }
    return 0;
}

static void test_abandoned_at_once(void **state)
{
    struct fixture *f = *state;
    struct client c = {.left = true};
    f->options.abandoned = &c.left;
    refuse_text(f, "a,y\n1,2,3\n", ERR_CANCELLED, "", "Nobody waits");
    f->options.format = INGEST_LIBSVM;
    refuse_text(f, "1 x\n", ERR_CANCELLED, "", "Nobody waits");
    c.left = false;
    refuse_text(f, "1 x\n", ERR_INVALID, "#/line/1/column/2", "index:value");
}

/* Wherever that is, nothing is left and nothing more is written. */
static void test_abandoned_between_pieces(void **state)
{
    struct fixture *f = *state;
    struct client c = {.left = false};
    f->options.abandoned = &c.left;
    f->options.room = leave_at_piece;
    f->options.room_context = &c;
    f->options.gzip = true;
    f->options.one_hot = true;
    f->options.max_unpacked_bytes = (int64_t)64 << 20;
    cleanup_buf struct buf b = BUF_INIT, packed = BUF_INIT;
    buf_str(&b, "c,y\n");
    for (int i = 0; i < 100000; i++) {
        buf_printf(&b, "t%d,%d.5\n", i % 50, i);
    }
    add_gzip(&packed, b.data, b.len);
    int places = 0, r = -ERR_CANCELLED;
    for (; r == -ERR_CANCELLED; places++) {
        c.left = false;
        c.pieces = places;
        r = ingest(f, packed.data, packed.len);
    }
    assert_int_equal(r, 0);
    assert_true(places > 40); /* of 41 MB in pieces of one at most */
}

TEST_MAIN(INGEST_TEST(test_abandoned_at_once), INGEST_TEST(test_abandoned_between_pieces),
          cmocka_unit_test(test_unpack_limit), cmocka_unit_test(test_formats),
          INGEST_TEST(test_paths), INGEST_TEST(test_replaces), INGEST_TEST(test_default_prefix))
