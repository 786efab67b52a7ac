/* A directory for one ingestion at a time, and short ways to look at it. For test_ingest_*.c. */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ingest/ingest.h"
#include "support/assert.h"

struct fixture {
    char dir[64];
    char in[96];
    char out_dir[96]; /* holds the data set and, while ingest_file runs, temporaries */
    char out[128];
    struct ingest_options options;
    struct dataset_info info; /* of the last success */
    struct dataset *data;
    struct err err;
};

static inline int setup(void **state)
{
    struct fixture *f = mem_zalloc(sizeof(*f));
    if (f == NULL) {
        return -1;
    }
    *state = f;
    /* Every data set is flushed to its disk: in memory that costs nothing. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(f->dir, sizeof(f->dir), "%s/krrd-test-ingest-XXXXXX", base);
    if (mkdtemp(f->dir) == NULL) {
        return -1;
    }
    snprintf(f->in, sizeof(f->in), "%s/in", f->dir);
    snprintf(f->out_dir, sizeof(f->out_dir), "%s/out", f->dir);
    snprintf(f->out, sizeof(f->out), "%s/data", f->out_dir);
    f->options = (struct ingest_options){
        .max_unpacked_bytes = 1 << 20,
        .max_rows = 100000,
        .max_columns = 1000,
        .temporary_prefix = "tmp-",
    };
    return mkdir(f->out_dir, 0700);
}

static inline void forget(struct fixture *f)
{
    f->data = dataset_free(f->data);
    dataset_info_deinit(&f->info);
    unlink(f->out);
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    forget(f);
    unlink(f->in);
    const int rc = rmdir(f->out_dir) | rmdir(f->dir); /* fails when something was left behind */
    mem_free(f);
    return rc;
}

#define INGEST_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static inline int files_in(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    closedir(d);
    return n;
}

static inline void write_file(const char *path, const void *data, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* Runs ingest_file on the bytes and opens the result. Whatever comes of it, nothing but the data
 * set may lie in the output's directory. */
static inline int ingest(struct fixture *f, const void *data, size_t len)
{
    forget(f);
    write_file(f->in, data, len);
    f->err = (struct err){.code = ERR_OK};
    const int r = ingest_file(f->in, f->out, &f->options, &f->info, &f->err);
    assert_int_equal(files_in(f->out_dir), r == 0 ? 1 : 0);
    if (r == 0) {
        struct err err = {.code = ERR_OK};
        if (dataset_open(f->out, &f->data, &err) < 0) {
            print_error("dataset_open: %s\n", err.detail);
            fail();
        }
        assert_int_equal(f->data->info.rows, f->info.rows);
        assert_int_equal(f->data->info.columns, f->info.columns);
        assert_int_equal(f->data->info.task, f->info.task);
        assert_int_equal(f->data->info.classes, f->info.classes);
    }
    return r;
}

static inline void accept_bytes(struct fixture *f, const void *data, size_t len)
{
    const int r = ingest(f, data, len);
    if (r < 0) {
        print_error("%s at \"%s\": %s\n", err_name(f->err.code), f->err.pointer, f->err.detail);
    }
    assert_int_equal(r, 0);
}

static inline void accept_text(struct fixture *f, const char *text)
{
    accept_bytes(f, text, strlen(text));
}

static inline void refuse_bytes(struct fixture *f, const void *data, size_t len, enum err_code code,
                                const char *pointer, const char *part)
{
    const int r = ingest(f, data, len);
    if (r != -(int)code || strcmp(f->err.pointer, pointer) != 0) {
        print_error("%d (%s) at \"%s\": %s\n", r, err_name(f->err.code), f->err.pointer,
                    f->err.detail);
    }
    assert_int_equal(r, -(int)code);
    assert_int_equal(f->err.code, code);
    assert_string_equal(f->err.pointer, pointer);
    assert_contains(f->err.detail, part);
}

static inline void refuse_text(struct fixture *f, const char *text, enum err_code code,
                               const char *pointer, const char *part)
{
    refuse_bytes(f, text, strlen(text), code, pointer, part);
}

/* The whole matrix, row-major. */
#define assert_values(f, ...)                                                                      \
    do {                                                                                           \
        const double expected_[] = {__VA_ARGS__};                                                  \
        const int64_t count_ = (int64_t)(sizeof(expected_) / sizeof(expected_[0]));                \
        assert_int_equal((f)->info.rows *(f)->info.columns, count_);                               \
        for (int64_t i_ = 0; i_ < count_; i_++) {                                                  \
            assert_same_bits(                                                                      \
                dataset_at((f)->data, i_ / (f)->info.columns, i_ % (f)->info.columns),             \
                expected_[i_]);                                                                    \
        }                                                                                          \
    } while (0)

/* The names, joined by commas. */
static inline void assert_joined(char *const *names, int64_t count, const char *expected)
{
    struct buf b = BUF_INIT;
    buf_str(&b, "");
    for (int64_t i = 0; i < count; i++) {
        buf_printf(&b, "%s%s", i == 0 ? "" : ",", names[i]);
    }
    assert_string_equal(b.len == 0 ? "" : b.data, expected);
    buf_deinit(&b);
}

#define assert_columns(f, expected)                                                                \
    assert_joined((f)->info.column_names, (f)->info.columns, (expected))
#define assert_classes(f, expected)                                                                \
    assert_joined((f)->info.class_labels, (f)->info.classes, (expected))

/* text as one gzip member, appended. */
static inline void add_gzip(struct buf *to, const void *data, size_t len)
{
    z_stream z = {.zalloc = Z_NULL};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t bound = deflateBound(&z, (uLong)len);
    unsigned char *out = mem_alloc(bound);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = (uInt)bound;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_add(to, out, bound - z.avail_out);
    deflateEnd(&z);
    mem_free(out);
}

/* An NPY file of version 1.0 with this dictionary and data. */
static inline void add_npy(struct buf *to, const char *dictionary, const void *data, size_t len)
{
    const size_t header = strlen(dictionary) + 1;
    buf_add(to, "\x93NUMPY\x01\0", 8);
    buf_char(to, (char)(header & 255));
    buf_char(to, (char)(header >> 8));
    buf_str(to, dictionary);
    buf_char(to, '\n');
    buf_add(to, data, len);
}

struct member {
    const char *name;
    const struct buf *contents;
};

/* A ZIP archive of the members at path; method: ZIP_CM_STORE or ZIP_CM_DEFLATE. */
static inline void write_zip(const char *path, const struct member *members, int count, int method)
{
    int code = 0;
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    assert_non_null(zip);
    for (int i = 0; i < count; i++) {
        const struct buf *b = members[i].contents;
        zip_source_t *source = zip_source_buffer(zip, b->data, b->len, 0);
        assert_non_null(source);
        const zip_int64_t place = zip_file_add(zip, members[i].name, source, ZIP_FL_ENC_UTF_8);
        assert_true(place >= 0);
        assert_int_equal(zip_set_file_compression(zip, (zip_uint64_t)place, method, 6), 0);
    }
    assert_int_equal(zip_close(zip), 0);
}

/* The same as bytes. */
static inline void add_zip(struct fixture *f, struct buf *to, const struct member *members,
                           int count, int method)
{
    char *data = NULL;
    size_t len = 0;
    char path[128];
    snprintf(path, sizeof(path), "%s.zip", f->in);
    write_zip(path, members, count, method);
    assert_int_equal(file_read_all(path, SIZE_MAX - 1, &data, &len, NULL), 0);
    unlink(path);
    buf_add(to, data, len);
    mem_free(data);
}
