/* Ingestion asks for the room of all that it writes, before it writes it. */
#include "ingest_fixture.h"

struct disk {
    const char *folder;
    int64_t bytes;   /* that it holds */
    int64_t refused; /* bytes that were asked for when it said no */
    int64_t used;    /* at that time */
};

/* What the files take, holes left out. */
static int64_t used_in(const char *folder)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    int64_t used = 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct stat st;
        assert_int_equal(fstatat(dirfd(d), e->d_name, &st, 0), 0);
        const int64_t blocks = (int64_t)st.st_blocks * 512, size = (int64_t)st.st_size;
        used += e->d_name[0] == '.' ? 0 : blocks < size ? blocks : size;
    }
    closedir(d);
    return used;
}

static int ask(void *context, int fd, int64_t bytes, struct err *err)
{
    struct disk *d = context;
    const int64_t used = used_in(d->folder);
    assert_true(bytes > 0 && fcntl(fd, F_GETFD) >= 0);
    assert_true(used <= d->bytes); /* nothing was written that nobody asked for */
    if (used + bytes <= d->bytes) {
        return 0;
    }
    d->refused = bytes;
    d->used = used;
    return err_set(err, ERR_DISK_FULL, "The storage is full: none of %lld.", (long long)bytes);
}

static struct disk put_disk(struct fixture *f, int64_t bytes)
{
    return (struct disk){.folder = f->out_dir, .bytes = bytes};
}

static void allow(struct fixture *f, struct disk *d)
{
    f->options.room = ask;
    f->options.room_context = d;
}

static void refuse(struct fixture *f, const struct buf *b)
{
    refuse_bytes(f, b->data, b->len, ERR_DISK_FULL, "", "The storage is full: none of");
}

enum { MIB = 1 << 20 };

/* A CSV whose numbers take as much as 4 MiB. */
static void add_rows(struct buf *b)
{
    buf_str(b, "a,y\n");
    for (int i = 0; i < 262144; i++) {
        buf_printf(b, "%d,%d.5\n", i % 10, i % 7);
    }
}

static void test_rows(void **state)
{
    struct fixture *f = *state;
    f->options.max_rows = 300000;
    cleanup_buf struct buf b = BUF_INIT;
    add_rows(&b);
    struct disk d = put_disk(f, 5 * MIB);
    allow(f, &d);
    accept_bytes(f, b.data, b.len);
    d = put_disk(f, 3 * MIB);
    refuse(f, &b);
    assert_int_equal(d.refused, MIB);
    assert_true(d.used > 1 * MIB);
}

/* The unpacked table lies beside the rows. */
static void test_unpacked(void **state)
{
    struct fixture *f = *state;
    f->options.max_rows = 300000;
    f->options.max_unpacked_bytes = 8 * MIB;
    f->options.gzip = true;
    cleanup_buf struct buf b = BUF_INIT, packed = BUF_INIT;
    add_rows(&b);
    add_gzip(&packed, b.data, b.len);
    struct disk d = put_disk(f, 5 * MIB + (int64_t)b.len);
    allow(f, &d);
    accept_bytes(f, packed.data, packed.len);
    d = put_disk(f, 2 * MIB + (int64_t)b.len);
    refuse(f, &packed);
    assert_true(d.used > (int64_t)b.len);
    d = put_disk(f, MIB / 2);
    refuse(f, &packed);
    assert_true(d.used > 0 && d.used <= MIB / 2);
}

/* A sparse file of a few bytes is refused before any row is written. */
static void test_sparse(void **state)
{
    struct fixture *f = *state;
    f->options.format = INGEST_LIBSVM;
    f->options.task = TASK_REGRESSION;
    f->options.max_unpacked_bytes = 64 * MIB;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "1 999:2\n");
    for (int i = 0; i < 1000; i++) {
        buf_str(&b, "0 2:1\n");
    }
    struct disk d = put_disk(f, 9 * MIB);
    allow(f, &d);
    accept_bytes(f, b.data, b.len);
    d = put_disk(f, 7 * MIB);
    refuse(f, &b);
    assert_int_equal(d.used, 0);
    assert_true(d.refused >= 1001 * 1000 * 8);
}

/* Columns that are spread are written once more, and so are classes. */
static void test_copy(void **state)
{
    struct fixture *f = *state;
    f->options.one_hot = true;
    f->options.max_unpacked_bytes = 64 * MIB;
    cleanup_buf struct buf b = BUF_INIT;
    buf_str(&b, "c,y\n");
    for (int i = 0; i < 2000; i++) {
        buf_printf(&b, "t%d,%d.5\n", i % 500, i);
    }
    struct disk d = put_disk(f, 9 * MIB);
    allow(f, &d);
    accept_bytes(f, b.data, b.len);
    d = put_disk(f, 7 * MIB);
    refuse(f, &b);
    assert_true(d.refused >= 2000 * 501 * 8);
    assert_true(d.used < MIB);
}

/* Means of many columns fit in front of the rows: where nothing was missing there is no copy. */
static void test_means(void **state)
{
    struct fixture *f = *state;
    f->options.missing = INGEST_MISSING_FILL;
    f->options.task = TASK_REGRESSION;
    cleanup_buf struct buf b = BUF_INIT;
    for (int i = 0; i < 600; i++) {
        for (int j = 0; j < 999; j++) {
            buf_printf(&b, "%.17g,", -2.2250738585072014e-308 * (1 + j % 7));
        }
        buf_printf(&b, "%d\n", i);
    }
    struct disk d = put_disk(f, 5 * MIB);
    allow(f, &d);
    accept_bytes(f, b.data, b.len);
    memset(b.data, ' ', strcspn(b.data, ","));
    refuse(f, &b);
    assert_true(d.refused >= 600 * 1000 * 8);
}

static void test_arrays(void **state)
{
    struct fixture *f = *state;
    f->options.max_unpacked_bytes = 64 * MIB;
    cleanup_buf struct buf x = BUF_INIT, y = BUF_INIT, z = BUF_INIT;
    char *data = mem_zalloc(4 * MIB);
    for (int i = 0; i < 65536; i++) {
        data[i * 64] = (char)(i % 100);
    }
    add_npy(&x, "{'descr': '|i1', 'fortran_order': False, 'shape': (65536, 64)}", data, 4 * MIB);
    add_npy(&y, "{'descr': '|i1', 'fortran_order': False, 'shape': (65536,)}", data, 65536);
    mem_free(data);
    struct disk d = put_disk(f, 17 * MIB);
    allow(f, &d);
    f->options.format = INGEST_NPY;
    accept_bytes(f, x.data, x.len);
    d = put_disk(f, 15 * MIB);
    refuse(f, &x);
    assert_int_equal(d.used, 0);
    f->options.format = INGEST_NPZ;
    f->options.task = TASK_REGRESSION;
    add_zip(f, &z, (struct member[]){{"X.npy", &x}, {"y.npy", &y}}, 2, ZIP_CM_DEFLATE);
    d = put_disk(f, 23 * MIB);
    accept_bytes(f, z.data, z.len);
    d = put_disk(f, 19 * MIB);
    refuse(f, &z);
    assert_true(d.used >= 4 * MIB && d.used < 5 * MIB);
    d = put_disk(f, 3 * MIB);
    refuse_bytes(f, z.data, z.len, ERR_DISK_FULL, "#/X", "The storage is full");
}

TEST_MAIN(INGEST_TEST(test_rows), INGEST_TEST(test_unpacked), INGEST_TEST(test_sparse),
          INGEST_TEST(test_copy), INGEST_TEST(test_means), INGEST_TEST(test_arrays))
