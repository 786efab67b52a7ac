#include "wire/frame.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/assert.h"
#include "support/mutate.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), &j, NULL), 0);
    return j;
}

/* Three frames: JSON and payload, neither, payload only. */
static void write_stream(struct buf *b)
{
    struct json *j cleanup_json = parse("{\"model\":\"m\",\"rows\":2}");
    static const double rows[4] = {1.5, -2, 3, 4};
    assert_int_equal(frame_head(FRAME_PREDICT, 0x1122334455667788, j, sizeof(rows), b, NULL), 0);
    buf_add(b, rows, sizeof(rows));
    assert_int_equal(frame_head(FRAME_PING, UINT64_MAX, NULL, 0, b, NULL), 0);
    assert_int_equal(frame_head(FRAME_MODEL, 0, NULL, 3, b, NULL), 0);
    buf_str(b, "abc");
}

static void check_stream_frame(int number, const struct frame *f)
{
    if (number == 0) {
        assert_int_equal(f->type, FRAME_PREDICT);
        assert_true(f->request == 0x1122334455667788);
        assert_string_equal(json_string(json_get(f->json, "model")), "m");
        assert_int_equal(f->payload_size, 32);
        assert_int_equal((uintptr_t)f->payload % 8, 0);
        assert_same_bits(((const double *)f->payload)[1], -2);
    } else if (number == 1) {
        assert_int_equal(f->type, FRAME_PING);
        assert_true(f->request == UINT64_MAX);
        assert_null(f->json);
        assert_null(f->payload);
        assert_int_equal(f->payload_size, 0);
    } else {
        assert_int_equal(f->type, FRAME_MODEL);
        assert_int_equal(f->payload_size, 3);
        assert_memory_equal(f->payload, "abc", 3);
    }
}

static void test_header_bytes(void **state)
{
    (void)state;
    struct buf b cleanup_buf = BUF_INIT;
    struct json *j cleanup_json = parse("{}");
    assert_int_equal(frame_head(FRAME_CANCEL, 0x0102030405060708, j, 0x01020304, &b, NULL), 0);
    static const unsigned char expected[] = {0x4b, 0x52, 0x52, 0x46, 2, 0, 0, 0, 8, 7, 6, 5,   4,
                                             3,    2,    1,    2,    0, 0, 0, 4, 3, 2, 1, '{', '}'};
    assert_int_equal(b.len, sizeof(expected));
    assert_memory_equal(b.data, expected, sizeof(expected));
}

/* In pieces of every size, the frames come out the same. */
static void test_pieces(void **state)
{
    (void)state;
    struct buf b cleanup_buf = BUF_INIT;
    write_stream(&b);
    for (size_t piece = 1; piece <= b.len; piece++) {
        struct frame_reader *r = frame_reader_new();
        int frames = 0;
        for (size_t at = 0; at < b.len; at += piece) {
            const size_t n = piece < b.len - at ? piece : b.len - at;
            assert_int_equal(frame_reader_feed(r, b.data + at, n, NULL), 0);
            struct frame f;
            while (frame_reader_next(r, &f, NULL) == 1) {
                check_stream_frame(frames++, &f);
                frame_deinit(&f);
            }
        }
        assert_int_equal(frames, 3);
        r = frame_reader_free(r);
        assert_null(r);
    }
}

static void test_many_small_frames(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    struct buf b cleanup_buf = BUF_INIT;
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(frame_head(FRAME_PONG, i, NULL, 0, &b, NULL), 0);
    }
    struct frame_reader *r = frame_reader_new();
    assert_int_equal(frame_reader_feed(r, b.data, b.len, NULL), 0);
    struct frame f;
    uint64_t seen = 0;
    while (frame_reader_next(r, &f, NULL) == 1) {
        assert_true(f.request == seen++);
        frame_deinit(&f);
    }
    assert_int_equal(seen, COUNT);
    frame_reader_free(r);
}

static void put32(char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (char)(v >> (8 * i));
    }
}

/* One 32-bit member of a PING's header replaced. */
static int try_header(size_t offset, uint32_t value)
{
    struct buf b cleanup_buf = BUF_INIT;
    assert_int_equal(frame_head(FRAME_PING, 1, NULL, 0, &b, NULL), 0);
    put32(b.data + offset, value);
    struct frame_reader *r = frame_reader_new();
    assert_int_equal(frame_reader_feed(r, b.data, b.len, NULL), 0);
    struct frame f;
    struct err err;
    const int rc = frame_reader_next(r, &f, &err);
    if (rc < 0) {
        /* The conversation is over. */
        assert_int_equal(rc, -ERR_CORRUPT);
        assert_int_equal(frame_reader_feed(r, b.data, b.len, &err), -ERR_CORRUPT);
        assert_int_equal(frame_reader_next(r, &f, &err), -ERR_CORRUPT);
    } else if (rc == 1) {
        frame_deinit(&f);
    }
    frame_reader_free(r);
    return rc;
}

static void test_bad_headers(void **state)
{
    (void)state;
    assert_int_equal(try_header(0, 0), -ERR_CORRUPT);
    assert_int_equal(try_header(0, 0x4652524c), -ERR_CORRUPT);
    assert_int_equal(try_header(4, 0), -ERR_CORRUPT);
    assert_int_equal(try_header(4, FRAME_TYPE_COUNT_), -ERR_CORRUPT);
    assert_int_equal(try_header(4, FRAME_TYPE_COUNT_ - 1), 1);
    assert_int_equal(try_header(4, 0x80000001), -ERR_CORRUPT);
    assert_int_equal(try_header(16, FRAME_JSON_MAX), 0);
    assert_int_equal(try_header(16, FRAME_JSON_MAX + 1), -ERR_CORRUPT);
    assert_int_equal(try_header(16, UINT32_MAX), -ERR_CORRUPT);
    assert_int_equal(try_header(20, FRAME_PAYLOAD_MAX), 0);
    assert_int_equal(try_header(20, FRAME_PAYLOAD_MAX + 1), -ERR_CORRUPT);
    assert_int_equal(try_header(20, UINT32_MAX), -ERR_CORRUPT);
}

static void test_json_must_be_an_object(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[]", "3 ", "{", "nu", "{}x", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct buf b cleanup_buf = BUF_INIT;
        assert_int_equal(frame_head(FRAME_EVENT, 1, NULL, 0, &b, NULL), 0);
        put32(b.data + 16, (uint32_t)strlen(texts[i]));
        buf_str(&b, texts[i]);
        struct frame_reader *r = frame_reader_new();
        struct frame f;
        assert_int_equal(frame_reader_feed(r, b.data, b.len, NULL), 0);
        assert_int_equal(frame_reader_next(r, &f, NULL), -ERR_CORRUPT);
        frame_reader_free(r);
    }
}

static void test_too_large_to_send(void **state)
{
    (void)state;
    struct buf b cleanup_buf = BUF_INIT;
    struct err err;
    assert_int_equal(frame_head(FRAME_MODEL, 1, NULL, FRAME_PAYLOAD_MAX, &b, &err), 0);
    buf_clear(&b);
    assert_int_equal(frame_head(FRAME_MODEL, 1, NULL, (size_t)FRAME_PAYLOAD_MAX + 1, &b, &err),
                     -ERR_TOO_LARGE);
    char *big cleanup_mem = mem_alloc(FRAME_JSON_MAX);
    memset(big, 'x', FRAME_JSON_MAX);
    big[FRAME_JSON_MAX - 1] = '\0'; /* with {"s":""} beyond the limit */
    struct json *j cleanup_json = json_new_object();
    json_set_string(j, "s", big);
    assert_int_equal(frame_head(FRAME_EVENT, 1, j, 0, &b, &err), -ERR_TOO_LARGE);
    assert_int_equal(b.len, 0);
}

/* Who feeds and never takes is stopped. */
static void test_flood(void **state)
{
    (void)state;
    enum { PIECE = 4 << 20 };
    char *zeros cleanup_mem = mem_zalloc(PIECE);
    struct frame_reader *r = frame_reader_new();
    int rc = 0;
    size_t fed = 0;
    while (rc == 0 && fed < ((size_t)1 << 30)) {
        rc = frame_reader_feed(r, zeros, PIECE, NULL);
        fed += PIECE;
    }
    assert_int_equal(rc, -ERR_TOO_LARGE);
    assert_true(fed <= (size_t)FRAME_JSON_MAX + FRAME_PAYLOAD_MAX + 2 * (size_t)PIECE);
    frame_reader_free(r);
}

static void test_mutations(void **state)
{
    (void)state;
    struct buf b cleanup_buf = BUF_INIT;
    write_stream(&b);
    struct rng r = rng_new(4, RNG_TEST);
    int corrupt = 0;
    int whole = 0;
    for (int i = 0; i < 5000; i++) {
        size_t len = 0;
        char *bytes cleanup_mem = mutate(&r, b.data, b.len, &len);
        struct frame_reader *reader = frame_reader_new();
        const size_t cut = (size_t)rng_below(&r, (int64_t)len + 1);
        int rc = frame_reader_feed(reader, bytes, cut, NULL);
        struct frame f;
        for (int part = 0; part < 2 && rc == 0; part++) {
            while ((rc = frame_reader_next(reader, &f, NULL)) == 1) {
                assert_in_range(f.type, FRAME_TRAIN, FRAME_TYPE_COUNT_ - 1);
                assert_true(f.json == NULL || json_type(f.json) == JSON_OBJECT);
                frame_deinit(&f);
                whole++;
            }
            if (part == 0 && rc == 0) {
                rc = frame_reader_feed(reader, bytes + cut, len - cut, NULL);
            }
        }
        assert_true(rc == 0 || rc == -ERR_CORRUPT);
        corrupt += rc < 0;
        frame_reader_free(reader);
    }
    assert_true(corrupt > 1000);
    assert_true(whole > 1000);
}

enum { BIG = 3 << 20 };

/* Sends frames of growing size through a descriptor that does not block. */
static void *send_many(void *context)
{
    const int fd = *(const int *)context;
    char *payload = mem_zalloc(BIG);
    struct json *j = json_new_object();
    json_set_string(j, "job", "j");
    int rc = payload == NULL ? -1 : 0;
    for (size_t size = 0; rc == 0 && size <= BIG; size = size * 4 + 1) {
        memset(payload, (int)(size & 0x7F), size);
        rc = frame_send(fd, FRAME_MODEL, size, j, payload, size, NULL);
    }
    json_free(j);
    mem_free(payload);
    close(fd);
    return rc == 0 ? NULL : context;
}

static void test_socket(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_many, &ends[0]), 0);
    struct frame_reader *r = frame_reader_new();
    struct frame f;
    size_t expected = 0;
    int rc;
    while ((rc = frame_recv(ends[1], r, &f, NULL)) == 1) {
        assert_true(f.request == expected && f.payload_size == expected);
        for (size_t i = 0; i < expected; i++) {
            if (((const char *)f.payload)[i] != (char)(expected & 0x7F)) {
                fail_msg("byte %zu of %zu", i, expected);
            }
        }
        frame_deinit(&f);
        expected = expected * 4 + 1;
    }
    assert_int_equal(rc, 0);
    assert_true(expected > BIG);
    void *failed = NULL;
    pthread_join(thread, &failed);
    assert_null(failed);
    frame_reader_free(r);
    close(ends[1]);
}

static void test_peer_is_gone(void **state)
{
    (void)state;
    int ends[2];
    struct err err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    assert_int_equal(frame_send(ends[0], FRAME_PING, 1, NULL, NULL, 0, &err), -ERR_IO);
    close(ends[0]);
    assert_int_equal(frame_send(-1, FRAME_PING, 1, NULL, NULL, 0, &err), -ERR_IO);
    struct frame_reader *r = frame_reader_new();
    struct frame f;
    assert_int_equal(frame_recv(-1, r, &f, &err), -ERR_IO);
    frame_reader_free(r);
}

static void test_pipe_and_end_of_file(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(frame_send(ends[1], FRAME_CHUNK_DATA, 5, NULL, "abc", 3, NULL), 0);
    assert_int_equal(write(ends[1], "KRRF", 4), 4);
    close(ends[1]);
    struct frame_reader *r = frame_reader_new();
    struct frame f;
    assert_int_equal(frame_recv(ends[0], r, &f, NULL), 1);
    assert_int_equal(f.type, FRAME_CHUNK_DATA);
    assert_memory_equal(f.payload, "abc", 3);
    frame_deinit(&f);
    assert_int_equal(frame_recv(ends[0], r, &f, NULL), -ERR_CORRUPT);
    frame_reader_free(r);
    close(ends[0]);
}

TEST_MAIN(cmocka_unit_test(test_header_bytes), cmocka_unit_test(test_pieces),
          cmocka_unit_test(test_many_small_frames), cmocka_unit_test(test_bad_headers),
          cmocka_unit_test(test_json_must_be_an_object), cmocka_unit_test(test_too_large_to_send),
          cmocka_unit_test(test_flood), cmocka_unit_test(test_mutations),
          cmocka_unit_test(test_socket), cmocka_unit_test(test_peer_is_gone),
          cmocka_unit_test(test_pipe_and_end_of_file))
