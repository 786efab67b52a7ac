#include "ingest/ingest_writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "wire/tensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Data set files are little-endian.");

#define BUFFER_SIZE ((size_t)1 << 20)

static int build_header(const struct dataset_info *info, const char *sha256, size_t min_size,
                        struct buf *ret, struct err *err)
{
    cleanup_json struct json *description = NULL;
    int r = dataset_info_to_json(info, &description, err);
    if (r < 0) {
        return r;
    }
    cleanup_mem char *text = json_print(description);
    cleanup_json struct json *metadata = json_new_object();
    json_set_string(metadata, "dataset", text);
    json_set_string(metadata, DATASET_SHA256, sha256);
    if (text == NULL || !json_ok(metadata)) {
        return err_no_memory(err);
    }
    struct tensors t = {.count = 1, .metadata = metadata};
    struct tensor_info *data = &t.tensor[0];
    *data = (struct tensor_info){.name = "data", .dtype = info->dtype, .dims = 2};
    data->shape[0] = info->rows;
    data->shape[1] = info->columns;
    return tensors_header(&t, min_size, ret, err);
}

int ingest_header_size(const struct dataset_info *info, size_t *ret, struct err *err)
{
    cleanup_buf struct buf header = BUF_INIT;
    char sha256[SHA256_HEX_SIZE] = "";
    memset(sha256, '0', sizeof(sha256) - 1); /* as long as one that is known */
    int r = build_header(info, sha256, 0, &header, err);
    if (r < 0) {
        return r;
    }
    size_t limit = TENSORS_MAX_HEADER_BYTES - INGEST_HEADER_RESERVE;
    if (header.len > limit) {
        return err_set(
            err, ERR_TOO_LARGE,
            "The names of columns and classes take %zu bytes, more than the limit of %zu.",
            header.len, limit);
    }
    *ret = header.len;
    return 0;
}

int ingest_writer_open(struct ingest_writer *w, const char *output_path,
                       const struct ingest_options *options, enum dtype dtype, int64_t columns,
                       size_t room, struct err *err)
{
    *w = (struct ingest_writer){.dtype = dtype, .columns = columns, .room = room};
    int r = ingest_temp_open(&w->temp, output_path, options, err);
    if (r < 0) {
        return r;
    }
    w->buffer = mem_aligned(BUFFER_SIZE, 1);
    w->hash = sha256_new();
    if (w->buffer == NULL || w->hash == NULL) {
        return err_no_memory(err);
    }
    if (lseek(w->temp.fd, (off_t)room, SEEK_SET) < 0) {
        return err_errno(err, "write the data set");
    }
    return 0;
}

int64_t ingest_writer_bytes(const struct ingest_writer *w, int64_t rows)
{
    return (int64_t)w->room + rows * w->columns * (int64_t)dtype_size(w->dtype);
}

void ingest_writer_close(struct ingest_writer *w)
{
    ingest_temp_close(&w->temp);
    w->buffer = mem_free(w->buffer);
    w->hash = sha256_free(w->hash);
}

int ingest_writer_flush(struct ingest_writer *w, struct err *err)
{
    size_t used = w->used;
    w->used = 0;
    sha256_update(w->hash, w->buffer, used);
    return ingest_temp_write(&w->temp, w->buffer, used, err);
}

int ingest_writer_rows(struct ingest_writer *w, const double *rows, int64_t count, struct err *err)
{
    size_t size = dtype_size(w->dtype);
    size_t left = (size_t)count * (size_t)w->columns;
    w->rows += count;
    while (left > 0) {
        int r = 0;
        if (w->used + size > BUFFER_SIZE && (r = ingest_writer_flush(w, err)) < 0) {
            return r;
        }
        size_t n = (BUFFER_SIZE - w->used) / size;
        n = n < left ? n : left;
        if (w->dtype == DTYPE_F64) {
            memcpy(w->buffer + w->used, rows, n * size);
        } else {
            float *out = (float *)(void *)(w->buffer + w->used);
            for (size_t i = 0; i < n; i++) {
                out[i] = (float)rows[i];
            }
        }
        w->used += n * size;
        rows += n;
        left -= n;
    }
    return 0;
}

static int read_at(int fd, size_t offset, void *data, size_t len, struct err *err)
{
    unsigned char *p = data;
    while (len > 0) {
        ssize_t n = pread(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(err, "read the data set back");
        }
        if (n == 0) {
            return err_set(err, ERR_INTERNAL,
                           "The data set file is shorter than what was written.");
        }
        p += n;
        offset += (size_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int ingest_writer_read(const struct ingest_writer *w, int64_t first, int64_t count, double *ret,
                       struct err *err)
{
    size_t size = dtype_size(w->dtype);
    size_t total = (size_t)count * (size_t)w->columns;
    size_t offset = w->room + (size_t)first * (size_t)w->columns * size;
    if (w->dtype == DTYPE_F64) {
        return read_at(w->temp.fd, offset, ret, total * size, err);
    }
    /* The floats go to the upper half of ret and are widened from the front: element i is read
     * before position i is written. */
    float *in = (float *)(void *)ret + total;
    int r = read_at(w->temp.fd, offset, in, total * size, err);
    for (size_t i = 0; r == 0 && i < total; i++) {
        float v;
        memcpy(&v, &in[i], sizeof(v));
        double wide = v;
        memcpy(&ret[i], &wide, sizeof(wide));
    }
    return r;
}

int ingest_writer_publish(struct ingest_writer *w, const struct dataset_info *info,
                          const char *output_path, struct err *err)
{
    int r = ingest_writer_flush(w, err);
    if (r < 0) {
        return r;
    }
    char sha256[SHA256_HEX_SIZE];
    cleanup_buf struct buf header = BUF_INIT;
    sha256_hex(w->hash, sha256);
    r = build_header(info, sha256, w->room, &header, err);
    if (r < 0) {
        return r;
    }
    if (header.len != w->room) {
        return err_set(err, ERR_INTERNAL, "The data set's header outgrew its room.");
    }
    if (lseek(w->temp.fd, 0, SEEK_SET) < 0) {
        return err_errno(err, "write the data set");
    }
    r = ingest_temp_write(&w->temp, header.data, header.len, err);
    return r < 0 ? r : ingest_temp_publish(&w->temp, output_path, err);
}
