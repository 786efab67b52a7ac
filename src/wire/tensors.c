#include "wire/tensors.h"

#include <inttypes.h>
#include <string.h>

#include "wire/field.h"

enum { LENGTH_BYTES = 8, ALIGNMENT = 64 };

static const char metadata_key[] = "__metadata__";

static const struct {
    const char *name; /* as safetensors writes it */
    enum dtype dtype;
} file_types[] = {{"F32", DTYPE_F32}, {"F64", DTYPE_F64}};

static int corrupt(struct err *err, const char *what)
{
    return err_set(err, ERR_CORRUPT, "The tensors file is damaged: %s.", what);
}

/* rows * columns * element size, checked. */
static bool count_bytes(const struct tensor_info *t, size_t *ret)
{
    size_t bytes = dtype_size(t->dtype);
    for (int i = 0; i < t->dims; i++) {
        if (t->shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)t->shape[i], &bytes)) {
            return false;
        }
    }
    *ret = bytes;
    return true;
}

static int read_dtype(const struct json *entry, enum dtype *ret, struct err *err)
{
    const struct json *j = json_get(entry, "dtype");
    if (j == NULL || json_type(j) != JSON_STRING) {
        return corrupt(err, "a tensor has no element type");
    }
    for (size_t i = 0; i < sizeof(file_types) / sizeof(file_types[0]); i++) {
        if (strcmp(json_string(j), file_types[i].name) == 0) {
            *ret = file_types[i].dtype;
            return 0;
        }
    }
    return err_set(err, ERR_UNSUPPORTED, "Only tensors of type F32 and F64 can be read.");
}

static int read_shape(const struct json *entry, struct tensor_info *t, struct err *err)
{
    const struct json *j = json_get(entry, "shape");
    if (j == NULL || json_type(j) != JSON_ARRAY) {
        return corrupt(err, "a tensor has no shape");
    }
    const int64_t dims = json_size(j);
    if (dims < 1 || dims > TENSORS_MAX_DIMS) {
        return err_set(err, ERR_UNSUPPORTED, "Only tensors of one or two dimensions can be read.");
    }
    t->dims = (int)dims;
    t->shape[1] = 1;
    int i = 0;
    for (const struct json *item = json_first(j); item != NULL; item = json_next(item), i++) {
        if (!field_count(item, &t->shape[i])) {
            return corrupt(err, "a shape is not made of whole numbers");
        }
    }
    return count_bytes(t, &t->bytes) ? 0 : corrupt(err, "a tensor is larger than memory can be");
}

static int read_offsets(const struct json *entry, size_t room, size_t bytes, size_t *ret_begin,
                        struct err *err)
{
    const struct json *j = json_get(entry, "data_offsets");
    if (j == NULL || json_type(j) != JSON_ARRAY || json_size(j) != 2) {
        return corrupt(err, "a tensor has no pair of offsets");
    }
    const struct json *first = json_first(j);
    int64_t begin = 0;
    int64_t end = 0;
    if (!field_count(first, &begin) || !field_count(json_next(first), &end)) {
        return corrupt(err, "an offset is not a whole number");
    }
    if (begin > end || (uint64_t)end > room) {
        return corrupt(err, "an offset lies outside of the file");
    }
    if ((size_t)(end - begin) != bytes) {
        return corrupt(err, "the offsets of a tensor do not match its shape");
    }
    *ret_begin = (size_t)begin;
    return 0;
}

static int read_name(const struct json *entry, struct tensor_info *t, struct err *err)
{
    const char *name = json_key(entry);
    const size_t len = strlen(name);
    if (len == 0 || len >= sizeof(t->name)) {
        return err_set(err, ERR_UNSUPPORTED, "A tensor's name has 1 to %zu bytes.",
                       sizeof(t->name) - 1);
    }
    memcpy(t->name, name, len + 1);
    return 0;
}

static int read_tensor(const struct json *entry, const char *data, size_t room,
                       struct tensor_info *ret, struct err *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    if (json_type(entry) != JSON_OBJECT || json_only_keys(entry, keys, NULL) < 0) {
        return corrupt(err, "a tensor's entry has the wrong form");
    }
    struct tensor_info t = {.dims = 0};
    size_t begin = 0;
    int rc = read_name(entry, &t, err);
    rc = rc < 0 ? rc : read_dtype(entry, &t.dtype, err);
    rc = rc < 0 ? rc : read_shape(entry, &t, err);
    rc = rc < 0 ? rc : read_offsets(entry, room, t.bytes, &begin, err);
    if (rc < 0) {
        return rc;
    }
    t.data = data + begin;
    if ((uintptr_t)t.data % dtype_size(t.dtype) != 0) {
        return corrupt(err, "a tensor is not aligned to its element size");
    }
    *ret = t;
    return 0;
}

static int read_metadata(const struct json *entry, struct tensors *t, struct err *err)
{
    if (json_type(entry) != JSON_OBJECT) {
        return corrupt(err, "the metadata are not an object");
    }
    for (const struct json *item = json_first(entry); item != NULL; item = json_next(item)) {
        if (json_type(item) != JSON_STRING) {
            return corrupt(err, "the metadata are not strings");
        }
    }
    t->metadata = json_copy(entry);
    return t->metadata == NULL ? err_no_memory(err) : 0;
}

static int read_entries(const struct json *header, const char *data, size_t room, struct tensors *t,
                        struct err *err)
{
    for (const struct json *entry = json_first(header); entry != NULL; entry = json_next(entry)) {
        int rc = 0;
        if (strcmp(json_key(entry), metadata_key) == 0) {
            rc = read_metadata(entry, t, err);
        } else if (t->count == TENSORS_MAX) {
            rc = err_set(err, ERR_UNSUPPORTED, "A file holds at most %d tensors.", TENSORS_MAX);
        } else {
            rc = read_tensor(entry, data, room, &t->tensor[t->count], err);
            t->count += rc == 0;
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Each tensor begins where another ends, the first at 0, the last one ends at `room`. Tensors
 * without elements may stand anywhere; they cover nothing. */
static int check_coverage(const struct tensors *t, const char *data, size_t room, struct err *err)
{
    size_t covered = 0;
    bool used[TENSORS_MAX] = {false};
    for (int n = 0; n < t->count; n++) {
        int next = -1;
        for (int i = 0; i < t->count && next < 0; i++) {
            const bool here = (const char *)t->tensor[i].data == data + covered;
            next = !used[i] && here && t->tensor[i].bytes > 0 ? i : -1;
        }
        if (next < 0) {
            break;
        }
        used[next] = true;
        covered += t->tensor[next].bytes;
    }
    for (int i = 0; i < t->count; i++) {
        if (!used[i] && t->tensor[i].bytes > 0) {
            return corrupt(err, "tensors overlap or leave a hole");
        }
    }
    return covered == room ? 0 : corrupt(err, "the tensors do not fill the file");
}

static int read_header(const char *text, size_t length, struct json **ret, struct err *err)
{
    struct err cause = {.code = ERR_OK};
    struct json *header = NULL;
    const int rc = json_parse(text, length, &header, &cause);
    if (rc == -ERR_NO_MEMORY) {
        return err_no_memory(err);
    }
    if (rc < 0 || json_type(header) != JSON_OBJECT) {
        json_free(header);
        return corrupt(err, "its header is not a JSON object");
    }
    *ret = header;
    return 0;
}

int tensors_open(const void *image, size_t size, struct tensors *ret, struct err *err)
{
    uint64_t length = 0;
    if (size < LENGTH_BYTES) {
        return corrupt(err, "it is too short");
    }
    const unsigned char *bytes = image;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length |= (uint64_t)bytes[i] << (8 * i);
    }
    if (length > TENSORS_MAX_HEADER_BYTES || length > size - LENGTH_BYTES) {
        return corrupt(err, "its header is longer than the file or the limit");
    }
    struct json *header cleanup_json = NULL;
    int rc = read_header((const char *)image + LENGTH_BYTES, (size_t)length, &header, err);
    if (rc < 0) {
        return rc;
    }
    const char *data = (const char *)image + LENGTH_BYTES + length;
    const size_t room = size - LENGTH_BYTES - (size_t)length;
    struct tensors t = {.count = 0};
    rc = read_entries(header, data, room, &t, err);
    rc = rc < 0 ? rc : check_coverage(&t, data, room, err);
    if (rc < 0) {
        tensors_deinit(&t);
        return rc;
    }
    *ret = t;
    return 0;
}

void tensors_deinit(struct tensors *t)
{
    t->metadata = json_free(t->metadata);
    t->count = 0;
}

const struct tensor_info *tensors_find(const struct tensors *t, const char *name)
{
    for (int i = 0; i < t->count; i++) {
        if (strcmp(t->tensor[i].name, name) == 0) {
            return &t->tensor[i];
        }
    }
    return NULL;
}

const char *tensors_metadata(const struct tensors *t, const char *key)
{
    const struct json *j = t->metadata == NULL ? NULL : json_get(t->metadata, key);
    return j == NULL ? NULL : json_string(j);
}

static int check_writable(const struct tensors *t, struct err *err)
{
    if (t->count < 0 || t->count > TENSORS_MAX) {
        return err_set(err, ERR_INVALID, "A file holds at most %d tensors.", TENSORS_MAX);
    }
    size_t offset = 0;
    for (int i = 0; i < t->count; i++) {
        const struct tensor_info *info = &t->tensor[i];
        size_t bytes = 0;
        if (tensors_find(t, info->name) != info || info->name[0] == '\0' ||
            strcmp(info->name, metadata_key) == 0) {
            return err_set(err, ERR_INVALID, "The tensor's name \"%s\" is taken.", info->name);
        }
        if (info->dims < 1 || info->dims > TENSORS_MAX_DIMS || !count_bytes(info, &bytes) ||
            offset % dtype_size(info->dtype) != 0 ||
            __builtin_add_overflow(offset, bytes, &offset)) {
            return err_set(err, ERR_INVALID, "The tensor \"%s\" has a bad shape or place.",
                           info->name);
        }
    }
    return 0;
}

static void write_tensor(struct buf *b, const struct tensor_info *info, size_t *offset)
{
    size_t bytes = 0;
    count_bytes(info, &bytes); /* Cannot fail: checked before. */
    buf_json_string(b, info->name);
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[%" PRId64, file_types[info->dtype].name,
               info->shape[0]);
    if (info->dims == 2) {
        buf_printf(b, ",%" PRId64, info->shape[1]);
    }
    buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", *offset, *offset + bytes);
    *offset += bytes;
}

static void write_metadata(struct buf *b, const struct json *metadata)
{
    buf_printf(b, "\"%s\":{", metadata_key);
    for (const struct json *item = json_first(metadata); item != NULL; item = json_next(item)) {
        buf_json_string(b, json_key(item));
        buf_char(b, ':');
        buf_json_string(b, json_string(item));
        buf_str(b, json_next(item) != NULL ? "," : "");
    }
    buf_char(b, '}');
}

static void pad(struct buf *b, size_t min_size)
{
    static const char blanks[ALIGNMENT + 1] =
        "                                                                ";
    while (!b->failed && (b->len < min_size || b->len % ALIGNMENT != 0)) {
        buf_add(b, blanks, ALIGNMENT - b->len % ALIGNMENT);
    }
}

int tensors_header(const struct tensors *t, size_t min_size, struct buf *ret, struct err *err)
{
    const int rc = check_writable(t, err);
    if (rc < 0) {
        return rc;
    }
    struct buf b cleanup_buf = BUF_INIT;
    buf_add(&b, "\0\0\0\0\0\0\0\0{", LENGTH_BYTES + 1);
    if (t->metadata != NULL) {
        write_metadata(&b, t->metadata);
    }
    size_t offset = 0;
    for (int i = 0; i < t->count; i++) {
        buf_str(&b, b.len > LENGTH_BYTES + 1 ? "," : "");
        write_tensor(&b, &t->tensor[i], &offset);
    }
    buf_char(&b, '}');
    pad(&b, min_size);
    if (!b.failed && b.len > TENSORS_MAX_HEADER_BYTES) {
        return err_set(err, ERR_TOO_LARGE, "The header of a tensors file has at most %u bytes.",
                       TENSORS_MAX_HEADER_BYTES);
    }
    for (int i = 0; !b.failed && i < LENGTH_BYTES; i++) {
        b.data[i] = (char)((b.len - LENGTH_BYTES) >> (8 * i));
    }
    buf_add(ret, b.data, b.failed ? 0 : b.len);
    return b.failed || ret->failed ? err_no_memory(err) : 0;
}
