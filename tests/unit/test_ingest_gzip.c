#include "ingest/ingest_gzip.h"

#include "ingest_fixture.h"

static const char csv[] = "a,y\n1,2.5\n3,4.5\n5,6\n";

static void test_one_member(void **state)
{
    struct fixture *f = *state;
    f->options.gzip = true;
    cleanup_buf struct buf b = BUF_INIT;
    add_gzip(&b, csv, sizeof(csv) - 1);
    accept_bytes(f, b.data, b.len);
    assert_values(f, 1, 2.5, 3, 4.5, 5, 6);
}

static void test_several_members(void **state)
{
    struct fixture *f = *state;
    f->options.gzip = true;
    cleanup_buf struct buf b = BUF_INIT;
    add_gzip(&b, csv, 7);
    add_gzip(&b, "", 0);
    add_gzip(&b, csv + 7, sizeof(csv) - 1 - 7);
    accept_bytes(f, b.data, b.len);
    assert_values(f, 1, 2.5, 3, 4.5, 5, 6);
}

static void test_damage(void **state)
{
    struct fixture *f = *state;
    f->options.gzip = true;
    cleanup_buf struct buf b = BUF_INIT;
    add_gzip(&b, csv, sizeof(csv) - 1);
    refuse_text(f, "", ERR_INVALID, "#", "empty");
    refuse_text(f, csv, ERR_PARSE, "", "gzip stream is damaged");
    for (size_t len = 1; len < b.len; len++) {
        refuse_bytes(f, b.data, len, ERR_PARSE, "", "gzip stream is truncated");
    }
    b.data[b.len - 6] ^= 1; /* the check sum */
    refuse_bytes(f, b.data, b.len, ERR_PARSE, "", "gzip stream is damaged");
    b.data[b.len - 6] ^= 1;
    buf_char(&b, '\0');
    refuse_bytes(f, b.data, b.len, ERR_PARSE, "", "Bytes that are no gzip data follow");
    b.data[b.len - 1] = '\x1f';
    refuse_bytes(f, b.data, b.len, ERR_PARSE, "", "truncated");
    buf_str(&b, "xyz");
    refuse_bytes(f, b.data, b.len, ERR_PARSE, "", "damaged");
}

static void test_not_declared(void **state)
{
    struct fixture *f = *state;
    cleanup_buf struct buf b = BUF_INIT;
    add_gzip(&b, csv, sizeof(csv) - 1);
    for (int format = INGEST_CSV; format <= INGEST_NPZ; format++) {
        f->options.format = (enum ingest_format)format;
        refuse_bytes(f, b.data, b.len, ERR_INVALID, "", "Content-Encoding: gzip");
    }
}

/* Ten thousand to one: nothing beyond the limit reaches the disk. */
static void test_bomb(void **state)
{
    struct fixture *f = *state;
    f->options.gzip = true;
    const size_t size = (size_t)20 << 20;
    char *zeros = mem_zalloc(size);
    cleanup_buf struct buf b = BUF_INIT;
    add_gzip(&b, zeros, size);
    mem_free(zeros);
    refuse_bytes(f, b.data, b.len, ERR_TOO_LARGE, "",
                 "more than the limit of 1048576 bytes (--max-unpacked-bytes)");
    write_file(f->in, b.data, b.len);
    const int in = open(f->in, O_RDONLY);
    cleanup_temp struct ingest_temp out = INGEST_TEMP_INIT;
    assert_int_equal(ingest_temp_open(&out, f->out, &f->options, &f->err), 0);
    assert_int_equal(ingest_gunzip(in, &out, (struct deflate_limit){1000000, "--most"}, &f->err),
                     -ERR_TOO_LARGE);
    assert_true(lseek(out.fd, 0, SEEK_END) <= 1000000);
    close(in);
}

/* The limit is what may come out, to the byte. */
static void test_limit(void **state)
{
    struct fixture *f = *state;
    f->options.gzip = true;
    cleanup_buf struct buf b = BUF_INIT;
    add_gzip(&b, csv, sizeof(csv) - 1);
    f->options.max_unpacked_bytes = sizeof(csv) - 1;
    accept_bytes(f, b.data, b.len);
    f->options.max_unpacked_bytes--;
    refuse_bytes(f, b.data, b.len, ERR_TOO_LARGE, "", "limit");
}

TEST_MAIN(INGEST_TEST(test_one_member), INGEST_TEST(test_several_members), INGEST_TEST(test_damage),
          INGEST_TEST(test_not_declared), INGEST_TEST(test_bomb), INGEST_TEST(test_limit))
